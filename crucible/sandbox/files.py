"""Files that an agent made, or wants made: never followed, never trusted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import EpisodeError
from crucible.fingerprints import tagged_hash

__all__ = [
    "Entry",
    "check_path",
    "materialize",
    "read_tree",
    "settle_times",
    "tree_digest",
    "write_file",
]

MAX_SEGMENTS = 32
MAX_SEGMENT_BYTES = 200
MAX_TREE_ENTRIES = 20_000
MAX_TREE_BYTES = 128 * 1024 * 1024

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """What is at one path: ``kind`` is ``file``, ``folder``, ``link`` or ``special``.

    ``data`` is a file's content or a link's target, as bytes; ``executable`` is the owner's bit.
    """

    kind: str
    data: bytes = b""
    executable: bool = False


def check_path(path: object) -> tuple[str, ...]:
    """The segments of a relative POSIX path that is safe to write.

    Raises:
        ValueError: if it is absolute, goes up, is too long, or holds characters that hide what
            it is.
    """
    if not isinstance(path, str):
        raise ValueError(f"file path {path!r:.80} is a {type(path).__name__}, expected a string")
    segments = tuple(path.split("/"))
    try:
        sizes = [len(segment.encode()) for segment in segments]
    except UnicodeEncodeError:
        raise ValueError(f"unsafe file path {path!r:.80}: it holds a lone surrogate") from None
    if any(segment in ("", ".", "..") for segment in segments) or _FORBIDDEN.search(path):
        raise ValueError(f"unsafe file path escapes the sandbox or hides its name: {path!r:.80}")
    if len(segments) > MAX_SEGMENTS or max(sizes) > MAX_SEGMENT_BYTES:
        raise ValueError(f"unsafe file path {path!r:.80}: it is too long")
    return segments


def materialize(root: Path, files: Mapping[str, str]) -> None:
    """Write ``files`` (relative path → text) below ``root``.

    Raises:
        ValueError: for a path or content that is not safe to write; nothing is written then.
    """
    for path, content in files.items():
        check_path(path)
        if not isinstance(content, str):
            raise ValueError(f"content of {path!r:.80} is a {type(content).__name__}")
    for path, content in files.items():
        write_file(root, path, Entry("file", content.encode("utf-8", "surrogatepass")))


def write_file(root: Path, path: str, entry: Entry, *, owner: int | None = None) -> None:
    """Write one file below ``root`` without following anything that is there.

    A link, pipe or file in its place is replaced, never written through; so is a file in the
    place of a folder. ``owner`` is the uid and gid that folders and file get.

    Raises:
        ValueError: if the path is not safe.
        EpisodeError: if it cannot be written (the workspace is full).
    """
    *folders, name = check_path(path)
    try:
        with _opened(root, folders, owner=owner) as folder:
            temporary = f".crucible-{os.getpid()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            mode = 0o755 if entry.executable else 0o644
            handle = os.open(temporary, flags, mode, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(entry.data)
                    if owner is not None:
                        os.fchown(file.fileno(), owner, owner)
                _clear(folder, name)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
    except OSError as error:
        raise EpisodeError(f"{path} cannot be written: {error.strerror}") from error


def read_tree(root: Path) -> dict[str, Entry]:
    """Everything below ``root`` by relative path, sorted; names that are no UTF-8 are escaped.

    Links are never followed and special files never opened.

    Raises:
        EpisodeError: if there is more than a workspace may hold.
    """
    entries: dict[str, Entry] = {}
    budget = [MAX_TREE_BYTES]
    with _unlocked(root) as handle:
        for name, entry in _walk(handle, "", budget):
            entries[name] = entry
            if len(entries) > MAX_TREE_ENTRIES:
                raise EpisodeError(f"the workspace holds more than {MAX_TREE_ENTRIES} files")
    return dict(sorted(entries.items()))


def settle_times(root: Path, seconds: int) -> None:
    """Give everything below ``root``, and ``root``, whose time is later than ``seconds`` that time;
    links are not followed."""
    with _unlocked(root) as handle:
        _settle(handle, seconds)
        os.utime(handle, (seconds, seconds))


def _settle(folder: int, seconds: int, depth: int = 0) -> None:
    for name in os.listdir(folder):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and depth < 2 * MAX_SEGMENTS:
            with _unlocked(name, folder) as handle:
                _settle(handle, seconds, depth + 1)
        if status.st_mtime > seconds:
            os.utime(name, (seconds, seconds), dir_fd=folder, follow_symlinks=False)


def tree_digest(entries: Mapping[str, Entry]) -> str:
    """SHA-256 over paths, kinds, executable bits and contents."""
    fields: list[bytes | str] = []
    for path, entry in sorted(entries.items()):
        fields += (path, entry.kind, b"x" if entry.executable else b"", entry.data)
    return tagged_hash("tree", *fields).hex()


def _walk(folder: int, prefix: str, budget: list[int]) -> Iterator[tuple[str, Entry]]:
    for name in sorted(os.listdir(folder), key=os.fsencode):
        path = prefix + os.fsencode(name).decode("utf-8", "backslashreplace")
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = status.st_mode
        if stat.S_ISDIR(mode):
            yield path, Entry("folder")
            if path.count("/") < 2 * MAX_SEGMENTS:
                with _unlocked(name, folder) as handle:
                    yield from _walk(handle, f"{path}/", budget)
        elif stat.S_ISLNK(mode):
            yield path, Entry("link", os.fsencode(os.readlink(name, dir_fd=folder)))
        elif stat.S_ISREG(mode):
            budget[0] -= status.st_size
            if budget[0] < 0:
                raise EpisodeError(f"the workspace holds more than {MAX_TREE_BYTES} bytes")
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            with os.fdopen(_open_shut(name, flags, folder, mode), "rb") as file:
                yield path, Entry("file", file.read(status.st_size), bool(mode & stat.S_IXUSR))
        else:
            yield path, Entry("special")


def _open_shut(name: str, flags: int, folder: int, mode: int) -> int:
    """Open what its owner may have taken all permissions from."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=folder)
        handle = os.open(name, flags, dir_fd=folder)
        os.chmod(name, stat.S_IMODE(mode), dir_fd=folder)
        return handle


@contextmanager
def _unlocked(name: str | Path, folder: int | None = None) -> Iterator[int]:
    """A handle of a folder, of which its owner may have taken all permissions; they are as they
    were afterwards."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    is_shut = mode & stat.S_IRWXU != stat.S_IRWXU
    if is_shut:
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)
    handle = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    try:
        yield handle
    finally:
        if is_shut:
            os.fchmod(handle, mode)
        os.close(handle)


@contextmanager
def _opened(root: Path, folders: list[str], *, owner: int | None) -> Iterator[int]:
    """A handle of the folder at the end of ``folders``, each made if it is not there."""
    with ExitStack() as stack:
        handle = stack.enter_context(_unlocked(root))
        for name in folders:
            if not _is_folder(handle, name):
                _clear(handle, name)
                os.mkdir(name, 0o755, dir_fd=handle)
                if owner is not None:
                    os.chown(name, owner, owner, dir_fd=handle, follow_symlinks=False)
            handle = stack.enter_context(_unlocked(name, handle))
        yield handle


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _clear(folder: int, name: str) -> None:
    """Remove what is at ``name``, whatever it is, without following it."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=folder)
        return
    with _unlocked(name, folder) as handle:
        for child in os.listdir(handle):
            _clear(handle, child)
    os.rmdir(name, dir_fd=folder)
