"""Where the code of an environment comes from, and a digest of it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crucible.fingerprints import tagged_hash

__all__ = ["LIVE", "CodeIdentity", "code_identity"]

LIVE = "live"
"""The ``code_digest`` of a world that exists in one process only: its environment holds live
Python objects, or its class is in no file. Data cannot rebuild it."""


@dataclass(frozen=True, slots=True)
class CodeIdentity:
    """The distribution behind a class; all None for the classes that come with Crucible."""

    distribution: str | None = None
    version: str | None = None
    code_digest: str | None = None


def code_identity(cls: type) -> CodeIdentity:
    """The identity of the code that defines ``cls``.

    The digest covers the path and the bytes on disk of every file inside the import packages of
    the class's distribution, with its name and version; never scripts, ``*.dist-info``, compiled
    files or figures that RECORD states. A wheel, an editable install and two environments give
    the same digest. A class outside any distribution is identified by its own package or file.
    """
    return _identity(cls.__module__)


@functools.cache
def _identity(module_name: str) -> CodeIdentity:
    top = module_name.partition(".")[0]
    if top == "crucible":
        return CodeIdentity()
    names = importlib.metadata.packages_distributions().get(top, [])
    if len(names) == 1:
        found = importlib.metadata.distribution(names[0])
        packages = [p for p, owners in _packages() if names[0] in owners]
        digest = _digest(packages, found.name, found.version)
        return CodeIdentity(found.name, found.version, digest)
    package = module_name if top == "__main__" else top
    if not any(_files(package)):
        return CodeIdentity(code_digest=LIVE)
    return CodeIdentity(code_digest=_digest([package]))


def _packages() -> Iterable[tuple[str, list[str]]]:
    return sorted(importlib.metadata.packages_distributions().items())


def _digest(packages: list[str], name: str = "", version: str = "") -> str:
    fields: list[str] = [name, version]
    for package in packages:
        for path, sha256 in sorted(_files(package)):
            fields += (path, sha256)
    return tagged_hash("code", *fields).hex()


def _files(package: str) -> Iterable[tuple[str, str]]:
    """(path from the package's parent, SHA-256) of every file of an import package."""
    module = sys.modules.get(package)
    origin = getattr(module, "__file__", None)
    if origin is None:
        return
    root = Path(origin)
    if root.name != "__init__.py":
        yield root.name, _sha256(root)
        return
    for path in sorted(root.parent.rglob("*")):
        parts = path.relative_to(root.parent).parts
        if path.is_file() and "__pycache__" not in parts and path.suffix not in (".pyc", ".pyo"):
            yield "/".join((package, *parts)), _sha256(path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
