"""Putting two datasets together that both extend a common one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from crucible.dataset.manifest import Manifest, Shard
from crucible.dataset.rows import read_rows
from crucible.errors import PolicyError

__all__ = ["extends", "merge"]


def extends(newer: Manifest, older: Manifest) -> bool:
    """Whether ``newer`` has every shard and recording of ``older``."""
    return set(older.shards) <= set(newer.shards) and _ids(older) <= _ids(newer)


def merge(ours: Manifest, theirs: Manifest, *, folder: Path) -> Manifest:
    """``theirs`` with what only ``ours`` has appended; our shards are below ``folder``.

    Raises:
        PolicyError: if the two have no recording in common, so that one would replace the other.
    """
    if not _ids(ours) & _ids(theirs):
        raise PolicyError(
            f"the dataset on the Hub holds {theirs.num_rows} rows that are not in this one and "
            "would vanish: pull it and record into it, or push with --replace"
        )
    known = set(theirs.shards)
    new = [shard for shard in ours.shards if shard not in known]
    worlds = Counter(theirs.worlds)
    worlds.update(_world_counts(folder, new))
    for digest in ours.worlds:
        worlds.setdefault(digest, 0)
    recordings = [r for r in ours.recordings if r.id not in _ids(theirs)]
    return Manifest(
        shards=(*theirs.shards, *new),
        worlds=dict(worlds),
        recordings=(*theirs.recordings, *recordings),
        producer=ours.producer,
        extends=theirs.digest,
    )


def _ids(manifest: Manifest) -> set[str]:
    return {recording.id for recording in manifest.recordings}


def _world_counts(folder: Path, shards: Iterable[Shard]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for shard in shards:
        if shard.config == "trajectories":
            rows = read_rows(folder / shard.path, "trajectories", columns=["world"])
            counts.update(row["world"] for row in rows)
    return counts
