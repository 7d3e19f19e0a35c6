from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.fingerprints import leaf_hash, merkle_root, tagged_hash, tree_head

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


def test_fields_cannot_be_moved_into_each_other() -> None:
    hashes = {
        tagged_hash("a", "bc", "d"),
        tagged_hash("a", "b", "cd"),
        tagged_hash("a", "bcd"),
        tagged_hash("ab", "c", "d"),
        tagged_hash("a", "bc", "d", None),
        tagged_hash("a", "bc", "d", ""),
        tagged_hash("a", None, "bcd"),
    }
    assert len(hashes) == 7


def test_a_leaf_is_the_hash_of_the_canonical_row() -> None:
    expected = hashlib.sha256(b'\x00{"a":"x","b":[1,null]}').digest()
    assert leaf_hash({"b": [1, None], "a": "x"}) == expected


def test_the_tree_head_depends_on_order_rows_and_both_digests() -> None:
    a = {"sha256": "a" * 64, "root": "b" * 64, "rows": 2}
    b = {"sha256": "c" * 64, "root": "d" * 64, "rows": 1}
    heads = {tree_head([a, b]), tree_head([b, a]), tree_head([a]), tree_head([])}
    heads |= {tree_head([{**a, "rows": 3}, b]), tree_head([{**a, "root": "e" * 64}, b])}
    assert len(heads) == 6
