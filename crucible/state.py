"""What Crucible keeps for this user, outside every dataset: locks and the worlds recorded here."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.errors import UsageError

__all__ = ["folder_lock", "recorded_worlds", "remember_worlds", "state_folder"]


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


def recorded_worlds() -> frozenset[str]:
    """The digests of the worlds that this user has recorded in."""
    try:
        lines = (state_folder() / "recorded-worlds").read_text(encoding="ascii").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return frozenset()
    return frozenset(lines)


def remember_worlds(digests: Iterable[str]) -> None:
    """Add worlds to those recorded here."""
    new = sorted(set(digests) - recorded_worlds())
    if new:
        with (state_folder() / "recorded-worlds").open("a", encoding="ascii") as file:
            file.write("".join(f"{digest}\n" for digest in new))
