from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.merkle import (
    consistency_path,
    inclusion_path,
    inclusion_paths,
    is_consistent,
    merkle_root,
    prefix_roots,
    root_of_inclusion,
)

# The leaves and roots of the reference test of Certificate Transparency (RFC 6962).
CT_LEAVES = ["", "00", "10", "2021", "3031", "40414243"]
CT_ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    4: "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
}


def hash_leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


@pytest.mark.parametrize("count", sorted(CT_ROOTS))
def test_roots_are_those_of_rfc_6962(count: int) -> None:
    leaves = [hash_leaf(bytes.fromhex(data)) for data in CT_LEAVES[:count]]
    assert merkle_root(leaves).hex() == CT_ROOTS[count]


def recursive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1 word by word."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, right = recursive_root(leaves[:split]), recursive_root(leaves[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70))
def test_the_root_equals_the_recursive_definition(leaves: list[bytes]) -> None:
    assert merkle_root(leaves) == recursive_root(leaves)


def leaves_of(count: int) -> list[bytes]:
    return [hash_leaf(b"%d" % number) for number in range(count)]


def recursive_path(leaves: list[bytes], index: int) -> list[bytes]:
    """PATH of RFC 6962 section 2.1.1 word by word."""
    if len(leaves) == 1:
        return []
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    if index < split:
        return [*recursive_path(leaves[:split], index), recursive_root(leaves[split:])]
    return [*recursive_path(leaves[split:], index - split), recursive_root(leaves[:split])]


@pytest.mark.parametrize("size", range(1, 20))
def test_every_leaf_has_a_path_to_the_root_and_to_no_other(size: int) -> None:
    leaves = leaves_of(size)
    root = merkle_root(leaves)
    for index, leaf in enumerate(leaves):
        path = inclusion_path(leaves, index)
        assert path == recursive_path(leaves, index) == inclusion_paths(leaves)[index]
        assert root_of_inclusion(leaf, index=index, size=size, path=path) == root
        for other in range(size + 2):
            if other != index:
                assert root_of_inclusion(leaf, index=other, size=size, path=path) != root
        assert root_of_inclusion(leaf, index=index, size=size, path=[*path, root]) is None
        if path:
            assert root_of_inclusion(leaf, index=index, size=size, path=path[:-1]) != root
            assert root_of_inclusion(root, index=index, size=size, path=path) != root


@pytest.mark.parametrize("new_size", range(20))
def test_every_earlier_tree_is_proven_and_no_other(new_size: int) -> None:
    leaves = leaves_of(new_size)
    new_root = merkle_root(leaves)
    for old_size in range(new_size + 1):
        path = consistency_path(leaves, old_size)
        old_root = merkle_root(leaves[:old_size])

        def holds(
            old: bytes, path: list[bytes], new: bytes = new_root, old_size: int = old_size
        ) -> bool:
            return is_consistent(old, old_size=old_size, new_root=new, new_size=new_size, path=path)

        assert holds(old_root, path)
        forged = merkle_root([*leaves[: max(0, old_size - 1)], hash_leaf(b"forged")])
        assert not holds(forged, path)
        assert not holds(old_root, [*path, new_root])
        assert not holds(old_root, [hash_leaf(b"x"), *path])
        if path:
            assert not holds(old_root, path[:-1])
            assert not holds(old_root, path, new=forged)
        if old_size not in (0, new_size):
            assert not holds(old_root, path, old_size=old_size + 1)
            assert not holds(old_root, path, old_size=old_size - 1)


def test_the_roots_of_all_prefixes_are_those_of_their_trees() -> None:
    leaves = leaves_of(40)
    assert list(prefix_roots(leaves)) == [merkle_root(leaves[:size]) for size in range(41)]


def test_paths_of_the_reference_tree() -> None:
    leaves = [hash_leaf(bytes.fromhex(data)) for data in CT_LEAVES[:4]]
    assert inclusion_path(leaves, 0) == [leaves[1], merkle_root(leaves[2:])]
    assert consistency_path(leaves, 3) == [leaves[2], leaves[3], merkle_root(leaves[:2])]


@pytest.mark.parametrize(("size", "index"), [(0, 0), (3, 3), (3, -1)])
def test_a_leaf_that_is_not_there_has_no_path(size: int, index: int) -> None:
    with pytest.raises(IndexError):
        inclusion_path(leaves_of(size), index)


@pytest.mark.parametrize("old_size", [-1, 4])
def test_a_tree_that_never_was_has_no_path(old_size: int) -> None:
    with pytest.raises(IndexError):
        consistency_path(leaves_of(3), old_size)
