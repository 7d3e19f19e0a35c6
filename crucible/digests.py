"""Digests of states: one SHA-256 that two different states cannot share by concatenation."""

from __future__ import annotations

import hashlib

__all__ = ["state_digest"]


def state_digest(domain: str, *parts: str | bytes) -> str:
    """The SHA-256, in hex, of ``parts`` under ``domain``.

    ``domain`` names what is hashed (an environment's id), so that equal parts of two kinds
    differ. Every part is preceded by its type and its length in bytes, so that
    ``("ab", "c")``, ``("a", "bc")`` and ``(b"ab", "c")`` give three digests.
    """
    hasher = hashlib.sha256()
    for tag, part in (("d", domain), *(("b" if isinstance(p, bytes) else "s", p) for p in parts)):
        data = part if isinstance(part, bytes) else part.encode()
        hasher.update(tag.encode() + len(data).to_bytes(8, "big") + data)
    return hasher.hexdigest()
