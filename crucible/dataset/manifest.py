"""The manifest: what a dataset consists of, and what was planned (format.md, "Manifest")."""

from __future__ import annotations

import builtins
import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from crucible.canonical import canonical_text, parse_text
from crucible.errors import FormatError
from crucible.fingerprints import leaf_hash, tagged_hash
from crucible.merkle import merkle_root
from crucible.schemas import check_schema

__all__ = ["FORMAT_VERSION", "MANIFEST_PATH", "Manifest", "Recording", "Shard"]

FORMAT_VERSION = 1
MANIFEST_PATH = "crucible/manifest.json"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024

_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0}
_SHARD_PATHS = {
    "trajectories": re.compile(r"data/([a-z0-9]+(?:[._-][a-z0-9]+)*)-([0-9a-f]{16})\.parquet"),
    "worlds": re.compile(r"worlds/(worlds)-([0-9a-f]{16})\.parquet"),
}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_SHARD_SCHEMA = _object(
    config={"type": "string", "enum": ["worlds", "trajectories"]},
    path={"type": "string"},
    split={"type": "string"},
    sha256=_SHA256,
    bytes=_COUNT,
    rows=_COUNT,
    root=_SHA256,
)
_PLAN_SCHEMA = _object(
    agent={"type": "string"},
    attempts={"type": "integer", "minimum": 1},
    max_steps={"type": ["integer", "null"], "minimum": 1},
    seeds={"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    worlds={"type": "array", "items": _SHA256},
)
_RECORDING_SCHEMA = _object(
    id=_SHA256,
    nonce={"type": "string"},
    plan=_PLAN_SCHEMA,
    planned=_COUNT,
    recorded=_COUNT,
    errored=_COUNT,
    interrupted=_COUNT,
    withheld=_COUNT,
)
_MANIFEST_SCHEMA = _object(
    format={"type": "integer"},
    root=_SHA256,
    shards={"type": "array", "items": _SHARD_SCHEMA},
    worlds={"type": "object", "additionalProperties": _COUNT},
    recordings={"type": "array", "items": _RECORDING_SCHEMA},
    producer={"type": "object", "additionalProperties": {"type": "string"}},
    extends={"type": ["string", "null"]},
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One Parquet file. ``config`` is ``worlds`` or ``trajectories``; ``root`` is the RFC 6962
    root over its rows."""

    config: str
    path: str
    split: str
    sha256: str
    bytes: int
    rows: int
    root: str

    @property
    def leaf(self) -> builtins.bytes:
        """The shard's leaf in the tree of the dataset."""
        return leaf_hash({"rows": self.rows, "root": self.root, "sha256": self.sha256})


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of ``record``: its plan, and what became of each planned attempt.

    ``errored`` counts recorded rows that hold an error; ``interrupted`` attempts have no row;
    ``withheld`` rows were recorded and left out by the publisher.
    """

    nonce: str
    plan: dict[str, Any]
    planned: int
    recorded: int
    errored: int
    interrupted: int = 0
    withheld: int = 0

    @property
    def id(self) -> str:
        """The digest of plan and nonce."""
        return tagged_hash("recording", canonical_text(self.plan), self.nonce).hex()

    @property
    def seeds(self) -> list[int]:
        """Every seed of the plan, in order."""
        return [seed for start, stop in self.plan["seeds"] for seed in range(start, stop)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The audit record of a dataset. Shards stand in the order in which they were added, so that
    every root can be proven to extend the earlier ones; ``extends`` is the digest of the manifest
    that this one appends to."""

    shards: tuple[Shard, ...]
    worlds: dict[str, int]
    recordings: tuple[Recording, ...]
    producer: dict[str, str] = field(default_factory=dict)
    extends: str | None = None

    @property
    def root(self) -> str:
        """The dataset root: the RFC 6962 root over the leaves of every shard, in order."""
        return merkle_root([shard.leaf for shard in self.shards]).hex()

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest's bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def num_rows(self) -> int:
        """The number of trajectories."""
        return sum(shard.rows for shard in self.shards_of("trajectories"))

    def shards_of(self, config: str) -> list[Shard]:
        """The shards of one config, in manifest order."""
        return [shard for shard in self.shards if shard.config == config]

    def to_bytes(self) -> bytes:
        """The canonical JSON of the manifest."""
        body = {
            "format": FORMAT_VERSION,
            "root": self.root,
            "shards": [asdict(shard) for shard in self.shards],
            "worlds": self.worlds,
            "recordings": [{"id": r.id, **asdict(r)} for r in self.recordings],
            "producer": self.producer,
            "extends": self.extends,
        }
        return canonical_text(body).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest in ``data``.

        Raises:
            FormatError: if it is malformed, of an unknown version, or contradicts itself.
        """
        if len(data) > MAX_MANIFEST_BYTES:
            raise FormatError(f"{MANIFEST_PATH}: expected at most {MAX_MANIFEST_BYTES} bytes")
        try:
            body = parse_text(data.decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"{MANIFEST_PATH} is not UTF-8: {error}") from None
        except FormatError as error:
            raise FormatError(f"{MANIFEST_PATH}: {error}") from None
        version = body.get("format") if isinstance(body, dict) else None
        if type(version) is int and version != FORMAT_VERSION:
            raise FormatError(
                f"{MANIFEST_PATH}: format {version} is unknown (this Crucible reads 1)"
            )
        problem = check_schema(body, _MANIFEST_SCHEMA)
        if problem:
            raise FormatError(f"{MANIFEST_PATH} at {problem}")
        return cls._from_checked(body)

    @classmethod
    def _from_checked(cls, body: dict[str, Any]) -> Manifest:
        ids = [entry.pop("id") for entry in body["recordings"]]
        manifest = cls(
            shards=tuple(Shard(**shard) for shard in body["shards"]),
            worlds=body["worlds"],
            recordings=tuple(Recording(**entry) for entry in body["recordings"]),
            producer=body["producer"],
            extends=body["extends"],
        )
        _check_shards(manifest.shards)
        if len(set(ids)) != len(ids):
            raise FormatError(f"{MANIFEST_PATH}: a recording is listed twice")
        for stated, recording in zip(ids, manifest.recordings, strict=True):
            _check_recording(recording, stated)
        if manifest.root != body["root"]:
            raise FormatError(
                f"{MANIFEST_PATH}: root is {body['root']}, its shards give {manifest.root}"
            )
        return manifest


def _check_shards(shards: Sequence[Shard]) -> None:
    if len({shard.path for shard in shards}) != len(shards):
        raise FormatError(f"{MANIFEST_PATH}: a shard is listed twice")
    for shard in shards:
        match = _SHARD_PATHS[shard.config].fullmatch(shard.path)
        if match is None or match[1] != shard.split or match[2] != shard.sha256[:16]:
            raise FormatError(
                f"{MANIFEST_PATH}: shard path {shard.path!r:.80} does not follow from its "
                f"config, split and sha256"
            )


def _check_recording(recording: Recording, stated_id: str) -> None:
    if recording.id != stated_id:
        raise FormatError(
            f"{MANIFEST_PATH}: recording {stated_id[:16]} does not follow from its plan and nonce"
        )
    plan = recording.plan
    if any(len(pair) != 2 or pair[0] >= pair[1] for pair in plan["seeds"]):
        raise FormatError(f"{MANIFEST_PATH}: recording {stated_id[:16]} has a malformed seed range")
    num_seeds = sum(stop - start for start, stop in plan["seeds"])
    planned = len(plan["worlds"]) * num_seeds * plan["attempts"]
    accounted = recording.recorded + recording.interrupted + recording.withheld
    if recording.planned != planned or accounted != planned:
        raise FormatError(
            f"{MANIFEST_PATH}: recording {stated_id[:16]} plans {planned} attempts, states "
            f"{recording.planned} and accounts for {accounted}"
        )
