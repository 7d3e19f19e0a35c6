from crucible.digests import state_digest


def test_a_state_digest_is_a_sha256_in_hex() -> None:
    digest = state_digest("d", "a")
    assert len(digest) == 64 and int(digest, 16) >= 0
    assert digest == "3408d719f115b5dfc066aa520ae97a9b29fb3fe1f6afb95a7237259933168dec"


def test_parts_that_concatenate_alike_have_different_digests() -> None:
    digests = {
        state_digest("d", "ab", "c"),
        state_digest("d", "a", "bc"),
        state_digest("d", "abc"),
        state_digest("da", "b", "c"),
        state_digest("d", b"ab", "c"),
        state_digest("d", "ab", "c", ""),
        state_digest("other", "ab", "c"),
    }
    assert len(digests) == 7
