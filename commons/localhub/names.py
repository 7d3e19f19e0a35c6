"""Names that may become paths: ids of repositories, and files inside them."""

from __future__ import annotations

import re

__all__ = ["is_file_path", "is_repo_id", "is_sha256"]

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_repo_id(namespace: str, name: str) -> bool:
    """Whether ``namespace/name`` is the id of a repository, as the Hub allows it."""
    return all(
        _PART.fullmatch(part)
        and ".." not in part
        and "--" not in part
        and not part.endswith(".git")
        for part in (namespace, name)
    )


def is_file_path(path: str) -> bool:
    """Whether ``path`` names a file inside a repository and nothing outside it."""
    segments = path.split("/")
    return (
        0 < len(path.encode("utf-8", "replace")) <= 1024
        and "\0" not in path
        and all(segment not in ("", ".", "..", ".git") for segment in segments)
    )


def is_sha256(text: str) -> bool:
    """Whether ``text`` is a SHA-256 in hex."""
    return _SHA256.fullmatch(text) is not None
