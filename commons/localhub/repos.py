"""Repositories of the local Hub: bare git repositories with their large files beside them."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crucible.commons.localhub.lfs import LfsStore, Pointer
from crucible.commons.localhub.names import is_repo_id
from crucible.errors import require

__all__ = ["Change", "CommitEntry", "FileEntry", "HubRequestError", "Repo", "RepoStore"]

DEFAULT_BRANCH = "main"
_AUTHOR = b"Local Hub <hub@localhost>"
_ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
_FILE_MODE, _FOLDER_MODE = 0o100644, 0o040000


class HubRequestError(Exception):
    """A request that cannot be served: an HTTP status, and the Hub's error code where one fits."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder of a commit. ``lfs`` is set for large files; ``size`` is then theirs."""

    path: str
    oid: str
    size: int
    is_folder: bool = False
    lfs: Pointer | None = None


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """One commit of the history. ``time`` is seconds since the epoch."""

    oid: str
    message: str
    time: int


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a commit: new content, or None to delete the file or folder at ``path``."""

    path: str
    content: bytes | None


class Repo:
    """One repository on disk."""

    def __init__(self, repo_id: str, folder: Path) -> None:
        self.id, self.folder = repo_id, folder
        self.lfs = LfsStore(folder / "lfs")
        self._git = require("dulwich.repo", extra="hub").Repo(str(folder))

    @property
    def private(self) -> bool:
        """Whether only those with a token may see it."""
        return bool(self._settings()["private"])

    @property
    def created(self) -> float:
        """When it was made, in seconds since the epoch."""
        return float(self._settings()["created"])

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads((self.folder / "hub.json").read_text())
        return settings

    def refs(self, kind: str) -> dict[str, str]:
        """Name → commit, for ``heads`` or ``tags``."""
        prefix = f"refs/{kind}/"
        found = {}
        for name, value in self._git.get_refs().items():
            if name.decode().startswith(prefix):
                found[name.decode().removeprefix(prefix)] = value.decode()
        return dict(sorted(found.items()))

    def resolve(self, revision: str) -> str:
        """The commit that a branch, tag, ref or (abbreviated) commit id names.

        Raises:
            HubRequestError: 404 if it names none.
        """
        name = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        for kind in ("heads", "tags"):
            found = self.refs(kind).get(name)
            if found is not None:
                return found
        if 7 <= len(revision) <= 40 and set(revision) <= set("0123456789abcdef"):
            for oid in self._reachable():
                if oid.startswith(revision):
                    return oid
        raise HubRequestError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def _reachable(self) -> Iterator[str]:
        seen: set[str] = set()
        for kind in ("heads", "tags"):
            for head in self.refs(kind).values():
                for entry in self.history(head):
                    if entry.oid not in seen:
                        seen.add(entry.oid)
                        yield entry.oid

    def history(self, commit: str) -> list[CommitEntry]:
        """The commits that lead to ``commit``, newest first."""
        walker = self._git.get_walker(include=[commit.encode()])
        return [
            CommitEntry(
                entry.commit.id.decode(),
                entry.commit.message.decode("utf-8", "replace"),
                entry.commit.commit_time,
            )
            for entry in walker
        ]

    def files(self, commit: str) -> dict[str, FileEntry]:
        """Path → entry, for every file and folder of a commit, sorted."""
        found = {}
        tree = self._git[self._git[commit.encode()].tree]
        for path, mode, oid in self._walk(tree, ""):
            if mode == _FOLDER_MODE:
                found[path] = FileEntry(path, oid.decode(), 0, is_folder=True)
                continue
            data = self._git[oid].data
            pointer = Pointer.from_bytes(data)
            size = pointer.size if pointer else len(data)
            found[path] = FileEntry(path, oid.decode(), size, lfs=pointer)
        return dict(sorted(found.items()))

    def _walk(self, tree: Any, prefix: str) -> Iterator[tuple[str, int, bytes]]:
        for item in tree.items():
            path = prefix + item.path.decode("utf-8", "replace")
            yield path, item.mode, item.sha
            if item.mode == _FOLDER_MODE:
                yield from self._walk(self._git[item.sha], f"{path}/")

    def read(self, entry: FileEntry) -> bytes:
        """The content of an ordinary file."""
        data: bytes = self._git[entry.oid.encode()].data
        return data

    def commit(
        self, branch: str, changes: Sequence[Change], *, message: str, parent: str | None = None
    ) -> str:
        """Apply ``changes`` on top of ``branch``; the new commit, or the old where nothing moved.

        Raises:
            HubRequestError: 412 if ``parent`` is given and no longer the head; 404 if there is no
                such branch.
        """
        with self._locked():
            head = self.refs("heads").get(branch.removeprefix("refs/heads/"))
            if head is None:
                raise HubRequestError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
            if parent is not None and parent != head:
                raise HubRequestError(412, "A commit has happened since. Please refresh and retry.")
            blobs = {p: e.oid.encode() for p, e in self.files(head).items() if not e.is_folder}
            before = dict(blobs)
            for change in changes:
                self._apply(change, blobs)
            if blobs == before:
                return head
            return self._write_commit(branch, blobs, message=message, parents=[head])

    def _apply(self, change: Change, blobs: dict[str, bytes]) -> None:
        if change.content is None:
            gone = [p for p in blobs if p == change.path or p.startswith(f"{change.path}/")]
            for path in gone:
                del blobs[path]
            return
        blob = require("dulwich.objects", extra="hub").Blob.from_string(change.content)
        self._git.object_store.add_object(blob)
        blobs[change.path] = blob.id

    def _write_commit(
        self, branch: str, blobs: Mapping[str, bytes], *, message: str, parents: list[str]
    ) -> str:
        objects = require("dulwich.objects", extra="hub")
        commit = objects.Commit()
        commit.tree = self._write_tree(blobs)
        commit.parents = [parent.encode() for parent in parents]
        commit.author = commit.committer = _AUTHOR
        commit.author_time = commit.commit_time = int(time.time())
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = message.encode()
        self._git.object_store.add_object(commit)
        name = branch.removeprefix("refs/heads/")
        self._git.refs[f"refs/heads/{name}".encode()] = commit.id
        oid: str = commit.id.decode()
        return oid

    def _write_tree(self, blobs: Mapping[str, bytes]) -> bytes:
        """Store the trees of flat ``blobs``; the id of the topmost."""
        tree = require("dulwich.objects", extra="hub").Tree()
        folders: dict[str, dict[str, bytes]] = {}
        for path, oid in blobs.items():
            first, separator, rest = path.partition("/")
            if separator:
                folders.setdefault(first, {})[rest] = oid
            else:
                tree.add(first.encode(), _FILE_MODE, oid)
        for name, below in folders.items():
            tree.add(name.encode(), _FOLDER_MODE, self._write_tree(below))
        self._git.object_store.add_object(tree)
        written: bytes = tree.id
        return written

    def set_ref(self, kind: str, name: str, commit: str) -> None:
        """Make a branch (``heads``) or tag (``tags``).

        Raises:
            HubRequestError: 409 if there is one of that name.
        """
        with self._locked():
            if name in self.refs(kind):
                raise HubRequestError(409, f"Reference {name} exists already")
            self._git.refs[f"refs/{kind}/{name}".encode()] = commit.encode()

    def delete_ref(self, kind: str, name: str) -> None:
        """Delete a branch or tag.

        Raises:
            HubRequestError: 404 if there is none of that name.
        """
        with self._locked():
            if name not in self.refs(kind):
                raise HubRequestError(404, f"Reference {name} not found", "RevisionNotFound")
            del self._git.refs[f"refs/{kind}/{name}".encode()]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "hub.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class RepoStore:
    """All dataset repositories below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, namespace: str, name: str) -> Path:
        if not is_repo_id(namespace, name):
            raise HubRequestError(400, f"Invalid repository name: {namespace}/{name}")
        return self._folder / "datasets" / namespace / f"{name}.git"

    def get(self, namespace: str, name: str) -> Repo:
        """The repository ``namespace/name``.

        Raises:
            HubRequestError: 404 if there is none.
        """
        path = self._path(namespace, name)
        if not (path / "hub.json").is_file():
            raise HubRequestError(404, "Repository not found", "RepoNotFound")
        return Repo(f"{namespace}/{name}", path)

    def create(self, namespace: str, name: str, *, private: bool) -> Repo:
        """Make a repository with one commit, as the Hub does.

        Raises:
            HubRequestError: 409 if there is one of that name.
        """
        path = self._path(namespace, name)
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise HubRequestError(409, "You already created this dataset repo") from None
        require("dulwich.repo", extra="hub").Repo.init_bare(str(path)).close()
        (path / "HEAD").write_text(f"ref: refs/heads/{DEFAULT_BRANCH}\n")
        settings = {"private": private, "created": time.time()}
        (path / "hub.json").write_text(json.dumps(settings))
        repo = Repo(f"{namespace}/{name}", path)
        blobs: dict[str, bytes] = {}
        repo._apply(Change(".gitattributes", _ATTRIBUTES), blobs)
        repo._write_commit(DEFAULT_BRANCH, blobs, message="initial commit", parents=[])
        return repo

    def delete(self, namespace: str, name: str) -> None:
        """Delete a repository.

        Raises:
            HubRequestError: 404 if there is none.
        """
        shutil.rmtree(self.get(namespace, name).folder)
