"""Transcripts, fingerprints and Merkle leaves: ``docs/reference/format.md``, "Digests".

All digests are SHA-256, written as 64 lower-case hexadecimal digits.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from crucible.trajectory import Step

__all__ = [
    "float_bytes",
    "int_bytes",
    "leaf_hash",
    "tagged_hash",
    "transcript_of",
]

Field = bytes | str | None


def tagged_hash(tag: str, *fields: Field) -> bytes:
    """SHA-256 of ``fields`` under ``tag``: domain-separated and length-prefixed, so that two
    different lists of fields never give the same bytes to hash."""
    parts = [_tag_prefix(tag)]
    for field in fields:
        if field is None:
            parts.append(b"\x00")
        else:
            data = field if isinstance(field, bytes) else field.encode()
            parts += (b"\x01", len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(parts)).digest()


def float_bytes(value: float) -> bytes:
    """The big-endian IEEE 754 double of ``value``, as it enters a digest."""
    return struct.pack(">d", value)


def int_bytes(value: int | bool) -> bytes:
    """The decimal text of ``value`` (0 or 1 for a flag), as it enters a digest."""
    return b"%d" % value


def transcript_of(
    initial_digest: str, reset_info: str, steps: Iterable[Step], *, final_observation: str | None
) -> str:
    """The chain over everything an environment said and was told, without seed and agent.

    It grows step by step, so that every prefix of an episode has one too.
    """
    state = tagged_hash("reset", initial_digest, reset_info)
    for step in steps:
        state = tagged_hash(
            "step",
            state,
            step.observation_text,
            step.action_text,
            float_bytes(step.reward),
            int_bytes(step.terminated),
            int_bytes(step.truncated),
            step.info_text,
            step.digest,
        )
    return tagged_hash("end", state, final_observation).hex()


def leaf_hash(row: Mapping[str, Any]) -> bytes:
    """The Merkle leaf of one row: SHA-256 over 0x00 and the row's canonical JSON.

    Columns hold plain values and no key begins with ``$``, so that no value has to be converted;
    numbers that are not finite are refused where a row is read or made.
    """
    return hashlib.sha256(b"\x00" + orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).digest()


@functools.cache
def _tag_prefix(tag: str) -> bytes:
    data = f"crucible/1/{tag}".encode()
    return len(data).to_bytes(8, "big") + data
