"""Large files beside a repository, named by the SHA-256 of their bytes."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import IntegrityError

__all__ = ["LfsStore", "Pointer"]

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)


@dataclass(frozen=True, slots=True)
class Pointer:
    """What git holds in the place of a large file (Git LFS specification, version 1)."""

    oid: str
    size: int

    def to_bytes(self) -> bytes:
        """The pointer as a git blob."""
        head = "version https://git-lfs.github.com/spec/v1"
        return f"{head}\noid sha256:{self.oid}\nsize {self.size}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Pointer | None:
        """The pointer in a git blob; None if it is an ordinary file."""
        match = _POINTER.fullmatch(data) if len(data) < 200 else None
        return cls(match[1].decode(), int(match[2])) if match else None


class LfsStore:
    """The objects of one repository."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, oid: str) -> Path:
        """Where the object ``oid`` is, or would be."""
        return self._folder / "objects" / oid[:2] / oid[2:4] / oid

    def has(self, oid: str, size: int) -> bool:
        """Whether the whole object is here."""
        path = self.path(oid)
        return path.is_file() and path.stat().st_size == size

    async def receive(self, oid: str, body: AsyncIterator[bytes], *, max_bytes: int) -> None:
        """Store an object as it arrives; nothing is kept unless its digest is right.

        Raises:
            IntegrityError: if the bytes are too many or hash to something else.
        """
        target = self.path(oid)
        target.parent.mkdir(parents=True, exist_ok=True)
        hasher, total = hashlib.sha256(), 0
        handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                async for chunk in body:
                    total += len(chunk)
                    if total > max_bytes:
                        raise IntegrityError(f"object {oid}: more than {max_bytes} bytes")
                    hasher.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            if hasher.hexdigest() != oid:
                raise IntegrityError(f"object {oid}: the bytes hash to {hasher.hexdigest()}")
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise

    def part(self, oid: str, number: int) -> Path:
        """Where part ``number`` of a multipart upload is kept."""
        folder = self._folder / "parts" / oid
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{number:05d}"

    async def assemble(self, oid: str, numbers: list[int], *, max_bytes: int) -> None:
        """Put the parts of an object together and forget them.

        Raises:
            IntegrityError: if a part is missing or the whole hashes to something else.
        """
        parts = [self.part(oid, number) for number in sorted(numbers)]
        missing = [part.name for part in parts if not part.is_file()]
        if missing:
            raise IntegrityError(f"object {oid}: part {missing[0]} was never sent")

        async def chunks() -> AsyncIterator[bytes]:
            for part in parts:
                with part.open("rb") as file:
                    while chunk := file.read(1024 * 1024):
                        yield chunk

        await self.receive(oid, chunks(), max_bytes=max_bytes)
        for part in parts:
            part.unlink()
        parts[0].parent.rmdir()
