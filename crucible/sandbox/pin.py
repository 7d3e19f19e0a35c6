"""The library that pins clock and randomness in a box, built with the machine's C compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["EPOCH", "PIN_TARGET", "find_pin", "pin_level", "random_bytes"]

EPOCH = 1_704_067_200
"""The wall clock of the first command in a workspace: 2024-01-01 00:00:00 UTC, in seconds."""
PIN_TARGET = "/opt/crucible/pin.so"
RANDOM_BYTES = 256 * 1024
UNPINNED = "unpinned"

_SOURCE = Path(__file__).with_name("pin.c")


def pin_level() -> str:
    """What pins clock and randomness here: the digest of the library's source and its ABI, or
    ``unpinned``. Builds of different compilers behave alike, so that their bytes do not count."""
    return UNPINNED if find_pin() is None else _identity()


@functools.cache
def find_pin() -> Path | None:
    """The library, built at first use into the user's cache; None without a compiler, or where the
    loader does not take it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "crucible"
    path = folder / f"pin-{_identity()}.so"
    try:
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _build(path)
        return path if _is_taken(path) else None
    except (OSError, subprocess.SubprocessError):
        return None


@functools.cache
def random_bytes() -> bytes:
    """What ``/dev/urandom`` holds in a box."""
    return hashlib.shake_256(b"crucible urandom").digest(RANDOM_BYTES)


@functools.cache
def _identity() -> str:
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    return f"{digest}-{platform.machine()}-{platform.libc_ver()[0] or 'unknown'}"


def _build(path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / "pin.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        built.chmod(0o644)
        os.replace(built, path)


def _is_taken(path: Path) -> bool:
    """Whether the loader preloads it, and the clock is pinned then."""
    done = subprocess.run(
        ["date", "+%s"],
        env={"PATH": "/usr/bin:/bin", "LD_PRELOAD": str(path), "CRUCIBLE_CLOCK": str(EPOCH)},
        capture_output=True,
        timeout=10,
    )
    return done.stdout.strip() == str(EPOCH).encode() and not done.stderr
