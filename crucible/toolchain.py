"""The versions of what an environment's outputs may depend on."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable

__all__ = ["toolchain"]


def toolchain(needs: Iterable[str]) -> dict[str, str]:
    """Component → version, for the components in ``needs``; ``absent`` where there is none."""
    return {name: _version(name) for name in sorted(needs)}


@functools.cache
def _version(name: str) -> str:
    probe = _PROBES.get(name)
    return probe() if probe else _distribution_version(name)


def _distribution_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _program_version(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        return "absent"
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "absent"
    found = re.search(r"\d+(\.\d+)+", done.stdout.decode("utf-8", "replace"))
    return found[0] if found else "unknown"


def _pin_level() -> str:
    from crucible.sandbox.pin import pin_level

    return pin_level()


_PROBES: dict[str, Callable[[], str]] = {
    "bash": functools.partial(_program_version, "bash"),
    "coreutils": functools.partial(_program_version, "ls"),
    "libc": lambda: " ".join(platform.libc_ver()),
    "machine": platform.machine,
    "pin": _pin_level,
    "python": platform.python_version,
    "sqlite": lambda: sqlite3.sqlite_version,
}
