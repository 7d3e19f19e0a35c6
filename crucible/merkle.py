"""Merkle trees and their proofs, as in RFC 6962 section 2.1 and RFC 9162 sections 2.1.3 and 2.1.4.

Hashes are 32 bytes. A tree is given by its leaf hashes; ``size`` is their number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

__all__ = [
    "consistency_path",
    "inclusion_path",
    "inclusion_paths",
    "is_consistent",
    "merkle_root",
    "prefix_roots",
    "root_of_inclusion",
]


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash over leaf hashes."""
    return _levels(leaves)[-1][0] if leaves else hashlib.sha256(b"").digest()


def prefix_roots(leaves: Sequence[bytes]) -> Iterator[bytes]:
    """The roots of the trees of the first 0, 1, 2 … leaves."""
    yield merkle_root([])
    whole: list[tuple[int, bytes]] = []  # perfect subtrees from left to right: size and hash
    for leaf in leaves:
        whole.append((1, leaf))
        while len(whole) > 1 and whole[-1][0] == whole[-2][0]:
            (size, right), (_, left) = whole.pop(), whole.pop()
            whole.append((2 * size, _node(left, right)))
        root = whole[-1][1]
        for _, left in reversed(whole[:-1]):
            root = _node(left, root)
        yield root


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes that lead from leaf ``index`` to the root.

    Raises:
        IndexError: if there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    return _path(_levels(leaves), index)


def inclusion_paths(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """:func:`inclusion_path` of every leaf."""
    levels = _levels(leaves) if leaves else []
    return [_path(levels, index) for index in range(len(leaves))]


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """The hashes of a tree from its leaves to its root; a node without a sibling moves up."""
    levels = [list(leaves)]
    while len(level := levels[-1]) > 1:
        paired = [_node(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        levels.append(paired + level[len(level) - len(level) % 2 :])
    return levels


def _path(levels: list[list[bytes]], index: int) -> list[bytes]:
    path = []
    for level in levels[:-1]:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index >>= 1
    return path


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
