"""The vectors on the format page, computed by a second implementation of its rules."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crucible.canonical import canonical_text, parse_text
from crucible.fingerprints import transcript_of
from crucible.trajectory import Step
from crucible.worlds import World

PAGE = (Path(__file__).parent.parent.parent / "docs/reference/format.md").read_text()
VALUES, DIGESTS = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize(("expression", "text"), VALUES)
def test_value_vectors_hold(expression: str, text: str) -> None:
    value = eval(expression, {"np": np})
    assert canonical_text(value) == text
    assert canonical_text(parse_text(text)) == text


def prefixed(data: bytes) -> bytes:
    return struct.pack(">Q", len(data)) + data


def h(tag: str, *fields: bytes | None) -> bytes:
    """R51, written from the page."""
    body = prefixed(b"crucible/1/" + tag.encode())
    for field in fields:
        body += b"\x00" if field is None else b"\x01" + prefixed(field)
    return hashlib.sha256(body).digest()


def test_digest_vectors_hold_for_a_second_implementation() -> None:
    c0 = h("reset", b"d", b"{}")
    half = struct.pack(">d", 0.5)
    c1 = h("step", c0, b"1", b"2", half, b"1", b"0", b"{}", b"e")
    expected = [
        h("t"),
        h("t", b"a", None, b""),
        c0,
        c1,
        h("end", c1, b"3"),
        h("world", b"guess", b"1", b"{}", None),
    ]
    assert list(DIGESTS.values()) == [digest.hex() for digest in expected]


def test_digest_vectors_hold_for_ours() -> None:
    step = Step("1", "2", 0.5, True, False, "{}", "e")
    vectors: dict[str, Any] = DIGESTS
    transcript = transcript_of("d", "{}", [step], final_observation="3")
    assert transcript == vectors['transcript with final observation "3"']
    assert World("guess", "1", "{}").digest == vectors['world ("guess", "1", "{}", null)']
