"""Merkle trees and their proofs, as in RFC 6962 section 2.1 and RFC 9162 sections 2.1.3 and 2.1.4.

Hashes are 32 bytes. A tree is given by its leaf hashes; ``size`` is their number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = [
    "consistency_path",
    "inclusion_path",
    "is_consistent",
    "merkle_root",
    "root_of_inclusion",
]


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash over leaf hashes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:
        paired = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = paired + level[len(level) - len(level) % 2 :]
    return level[0]


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that lead from leaf ``index`` to the root.

    Raises:
        IndexError: if there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_path(leaves[:split], index), merkle_root(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), merkle_root(leaves[:split])]


def root_of_inclusion(leaf: bytes, *, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root of the tree of ``size`` leaves in which ``path`` puts ``leaf`` at ``index``; None
    where the path does not fit such a tree."""
    if not 0 <= index < size:
        return None
    position, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return None
        if position % 2 or position == last:
            found = _node(sibling, found)
            while position % 2 == 0 and position:
                position, last = position >> 1, last >> 1
        else:
            found = _node(found, sibling)
        position, last = position >> 1, last >> 1
    return found if last == 0 else None


def consistency_path(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """The hashes that prove that the tree of the first ``old_size`` leaves was only added to.

    Raises:
        IndexError: if the tree never had that size.
    """
    if not 0 <= old_size <= len(leaves):
        raise IndexError(f"{old_size} of {len(leaves)} leaves")
    if old_size in (0, len(leaves)):
        return []
    return _subproof(leaves, old_size, whole=True)


def is_consistent(
    old_root: bytes, *, old_size: int, new_root: bytes, new_size: int, path: Sequence[bytes]
) -> bool:
    """Whether ``path`` proves that the tree of ``new_root`` begins with that of ``old_root``."""
    if not 0 <= old_size <= new_size:
        return False
    if old_size == new_size:
        return not path and old_root == new_root
    if old_size == 0:
        return not path and old_root == merkle_root([])
    hashes = list(path)
    if old_size & (old_size - 1) == 0:
        hashes.insert(0, old_root)
    if not hashes:
        return False
    position, last = old_size - 1, new_size - 1
    while position % 2:
        position, last = position >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if position % 2 or position == last:
            old, new = _node(sibling, old), _node(sibling, new)
            while position % 2 == 0 and position:
                position, last = position >> 1, last >> 1
        else:
            new = _node(new, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and old == old_root and new == new_root


def _subproof(leaves: Sequence[bytes], old_size: int, *, whole: bool) -> list[bytes]:
    """SUBPROOF of RFC 9162: ``whole`` where the reader knows this subtree's old root."""
    if old_size == len(leaves):
        return [] if whole else [merkle_root(leaves)]
    split = _split(len(leaves))
    if old_size <= split:
        left = _subproof(leaves[:split], old_size, whole=whole)
        return [*left, merkle_root(leaves[split:])]
    right = _subproof(leaves[split:], old_size - split, whole=False)
    return [*right, merkle_root(leaves[:split])]


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
