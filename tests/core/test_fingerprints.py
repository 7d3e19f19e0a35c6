from __future__ import annotations

import hashlib

from crucible.fingerprints import leaf_hash, tagged_hash


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
