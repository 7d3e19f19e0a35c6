"""What Crucible keeps for this user, outside every dataset: locks, and the worlds and roots
recorded here."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import UsageError

__all__ = [
    "folder_lock",
    "recorded_roots",
    "recorded_worlds",
    "remember_root",
    "remember_worlds",
    "state_folder",
]


def state_folder() -> Path:
    """``$XDG_STATE_HOME/crucible``, made if it is not there."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "crucible"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of a dataset folder.

    Raises:
        UsageError: if another process holds it.
    """
    locks = state_folder() / "locks"
    locks.mkdir(exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    with (locks / name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder} is being written by another process") from None
        yield


def recorded_roots() -> frozenset[str]:
    """The roots of the datasets that this user has written by recording."""
    return _lines("recorded-roots")


def remember_root(root: str) -> None:
    """Add a root to those of datasets that were written here."""
    _append("recorded-roots", [root])


def recorded_worlds() -> frozenset[str]:
    """The digests of the worlds that this user has recorded in."""
    return _lines("recorded-worlds")


def remember_worlds(digests: Iterable[str]) -> None:
    """Add worlds to those recorded here."""
    _append("recorded-worlds", digests)


def _lines(name: str) -> frozenset[str]:
    try:
        return frozenset((state_folder() / name).read_text(encoding="ascii").split())
    except (FileNotFoundError, UnicodeDecodeError):
        return frozenset()


def _append(name: str, lines: Iterable[str]) -> None:
    new = sorted(set(lines) - _lines(name))
    if new:
        with (state_folder() / name).open("a", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in new))
