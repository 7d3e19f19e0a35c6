"""Durable writes: a file is there whole, or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from crucible.errors import FormatError

__all__ = ["file_sha256", "is_regular", "read_bounded", "sync_folder", "write_durably"]


def is_regular(path: Path) -> bool:
    """Whether ``path`` is an ordinary file, and no link, pipe or device in the place of one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """The content of an ordinary file of at most ``max_bytes``.

    Raises:
        FormatError: if it is none, is larger, or cannot be read.
    """
    if not is_regular(path):
        raise FormatError(f"{path.name} is not an ordinary file")
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise FormatError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > max_bytes:
        raise FormatError(f"{path.name}: expected at most {max_bytes} bytes")
    return data


def write_durably(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` through a temporary file, synced before it is renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
