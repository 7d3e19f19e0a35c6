"""Proofs that somebody can check who holds nothing of a dataset but its root.

An inclusion proof says that a row or shard is in the dataset of a root; an append proof says that
the dataset of a later root begins with that of an earlier one (format.md, "Proofs").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from crucible.dataset.folder import read_manifest
from crucible.dataset.manifest import Manifest, Shard
from crucible.dataset.rows import read_rows
from crucible.errors import FormatError, IntegrityError, UsageError
from crucible.fingerprints import leaf_hash
from crucible.merkle import (
    consistency_path,
    inclusion_path,
    inclusion_paths,
    is_consistent,
    merkle_root,
    prefix_roots,
    root_of_inclusion,
)
from crucible.schemas import check_schema

__all__ = [
    "AppendProof",
    "InclusionProof",
    "prove_append",
    "prove_row",
    "prove_shards",
    "shard_of_row",
]

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0}
_PATH = {"type": "array", "items": _HASH}


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """``leaf`` is leaf ``index`` of the tree of ``size`` leaves that has ``root``.

    ``leaf``, ``root`` and the hashes of ``path`` are 64 hexadecimal digits.
    """

    leaf: str
    index: int
    size: int
    path: tuple[str, ...]
    root: str

    def holds(self) -> bool:
        """Whether the path leads from the leaf to the root."""
        found = root_of_inclusion(
            bytes.fromhex(self.leaf), index=self.index, size=self.size, path=_raw(self.path)
        )
        return found is not None and found.hex() == self.root

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain JSON values."""
        return {**asdict(self), "path": list(self.path)}

    @classmethod
    def from_dict(cls, body: Any) -> Self:
        """The proof that :meth:`to_dict` wrote.

        Raises:
            FormatError: if it is malformed.
        """
        _check(body, {"leaf": _HASH, "index": _COUNT, "size": _COUNT, "path": _PATH, "root": _HASH})
        return cls(**{**body, "path": tuple(body["path"])})


@dataclass(frozen=True, slots=True)
class AppendProof:
    """The tree of ``new_root`` begins with the ``old_size`` shards of ``old_root``."""

    old_root: str
    old_size: int
    new_root: str
    new_size: int
    path: tuple[str, ...]

    def holds(self) -> bool:
        """Whether the path leads to both roots."""
        return is_consistent(
            bytes.fromhex(self.old_root),
            old_size=self.old_size,
            new_root=bytes.fromhex(self.new_root),
            new_size=self.new_size,
            path=_raw(self.path),
        )

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain JSON values."""
        return {**asdict(self), "path": list(self.path)}

    @classmethod
    def from_dict(cls, body: Any) -> Self:
        """The proof that :meth:`to_dict` wrote.

        Raises:
            FormatError: if it is malformed.
        """
        names = {"old_root": _HASH, "old_size": _COUNT, "new_root": _HASH, "new_size": _COUNT}
        _check(body, {**names, "path": _PATH})
        return cls(**{**body, "path": tuple(body["path"])})


def prove_shards(manifest: Manifest) -> list[InclusionProof]:
    """The proofs that the shards are in the dataset of the manifest's root, in their order."""
    leaves = [each.leaf for each in manifest.shards]
    root = manifest.root
    return [
        InclusionProof(leaf.hex(), index, len(leaves), _hexed(path), root)
        for index, (leaf, path) in enumerate(zip(leaves, inclusion_paths(leaves), strict=True))
    ]


def shard_of_row(manifest: Manifest, row: int) -> tuple[Shard, int]:
    """The shard that holds row ``row`` of the dataset, counted from 0, and its place there.

    Raises:
        UsageError: if there is no such row.
    """
    place = row
    for shard in manifest.shards_of("trajectories"):
        if 0 <= place < shard.rows:
            return shard, place
        place -= shard.rows
    raise UsageError(f"row {row}: the dataset has rows 0 to {manifest.num_rows - 1}")


def prove_row(folder: Path, row: int) -> tuple[InclusionProof, InclusionProof]:
    """Two proofs for row ``row`` of the dataset in ``folder``: that the row is in its shard, and
    that the shard is in the dataset. The root of the first is part of the second's leaf.

    Raises:
        UsageError: if there is no such row.
        IntegrityError: if the shard's rows do not have the root that the manifest states.
        FormatError: if a file cannot be read.
    """
    manifest = read_manifest(folder)
    shard, place = shard_of_row(manifest, row)
    leaves = [leaf_hash(each) for each in read_rows(folder / shard.path, "trajectories")]
    if merkle_root(leaves).hex() != shard.root or len(leaves) != shard.rows:
        raise IntegrityError(f"{shard.path}: its rows do not have the root {shard.root}")
    in_shard = InclusionProof(
        leaf=leaves[place].hex(),
        index=place,
        size=len(leaves),
        path=_hexed(inclusion_path(leaves, place)),
        root=shard.root,
    )
    return in_shard, prove_shards(manifest)[manifest.shards.index(shard)]


def prove_append(manifest: Manifest, old_root: str) -> AppendProof:
    """The proof that the manifest's dataset only adds shards to the one of ``old_root``.

    Raises:
        IntegrityError: if it does not: shards were changed, removed or reordered since.
    """
    leaves = [shard.leaf for shard in manifest.shards]
    for size, root in enumerate(prefix_roots(leaves)):
        if root.hex() == old_root:
            path = _hexed(consistency_path(leaves, size))
            return AppendProof(old_root, size, manifest.root, len(leaves), path)
    raise IntegrityError(
        f"root {manifest.root} does not extend {old_root}: shards were changed, removed or "
        "reordered since, or it never was a root of this dataset"
    )


def _check(body: Any, properties: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    problem = check_schema(body, schema)
    if problem:
        raise FormatError(f"proof at {problem}")


def _raw(path: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in path]


def _hexed(path: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(digest.hex() for digest in path)
