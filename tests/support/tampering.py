"""What an attacker does to a dataset: edit rows, with or without making all hashes fit again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crucible.dataset.card import CARD_PATH, render_card
from crucible.dataset.folder import read_card, read_manifest, read_worlds
from crucible.dataset.manifest import MANIFEST_PATH, Manifest, Shard
from crucible.dataset.rows import read_rows
from crucible.dataset.schema import trajectory_of, trajectory_schema
from crucible.dataset.shards import ShardWriter
from crucible.dataset.stats import StatsCounter

Rows = list[dict[str, Any]]


def data_path(folder: Path) -> Path:
    """The only trajectory shard of ``folder``."""
    (path,) = (folder / "data").glob("*.parquet")
    return path


def edit_rows(folder: Path, edit: Callable[[Rows], Any]) -> None:
    """Rewrite the shard in place with edited rows; every hash is left as it was."""
    path = data_path(folder)
    rows = list(read_rows(path, "trajectories"))
    edit(rows)
    table = pa.Table.from_pylist(rows, schema=trajectory_schema())
    pq.write_table(table, path, compression="zstd", use_dictionary=False, store_schema=False)


def forge_rows(folder: Path, edit: Callable[[Rows], Any], *, refingerprint: bool = True) -> None:
    """Rewrite the dataset with edited rows and every hash and count made to fit again."""
    manifest = read_manifest(folder)
    rows = [row for s in manifest.shards_of("trajectories") for row in rows_of(folder, s)]
    edit(rows)
    if refingerprint:
        worlds = read_worlds(folder, manifest)
        for row in rows:
            if row["world"] in worlds:
                row["num_steps"] = len(row["steps"])
                trajectory = trajectory_of(row, worlds[row["world"]])
                row["transcript"] = trajectory.transcript
                row["fingerprint"] = trajectory.fingerprint
    data_path(folder).unlink()
    writer = ShardWriter(folder, config="trajectories", split="train")
    for row in rows:
        writer.add(row)
    write_forged(folder, manifest, [*manifest.shards_of("worlds"), *writer.close()], rows=rows)


def forge_world(folder: Path, changes: dict[str, Any]) -> None:
    """Rewrite the only world with changes, and every label, hash and count made to fit."""
    manifest = read_manifest(folder)
    (world,) = (replace(w, **changes) for w in read_worlds(folder, manifest).values())
    rows = [row for s in manifest.shards_of("trajectories") for row in rows_of(folder, s)]
    writers = [
        ShardWriter(folder, config="worlds", split="worlds"),
        ShardWriter(folder, config="trajectories", split="train"),
    ]
    for shard in manifest.shards:
        (folder / shard.path).unlink()
    writers[0].add(world.to_row())
    for row in rows:
        row |= {"suite": world.suite, "name": world.name, "world": world.digest}
        trajectory = trajectory_of(row, world)
        row["fingerprint"] = trajectory.fingerprint
        writers[1].add(row)
    shards = [shard for writer in writers for shard in writer.close()]
    plan = {**manifest.recordings[0].plan, "worlds": [world.digest]}
    recordings = (replace(manifest.recordings[0], plan=plan),)
    write_forged(folder, replace(manifest, recordings=recordings), shards, rows=rows)


def write_forged(folder: Path, manifest: Manifest, shards: list[Shard], *, rows: Rows) -> None:
    """Write manifest and card for ``shards``, with counts that fit ``rows``."""
    worlds: dict[str, int] = {}
    for row in rows:
        worlds[row["world"]] = worlds.get(row["world"], 0) + 1
    manifest = replace(manifest, shards=tuple(shards), worlds=worlds)
    (folder / MANIFEST_PATH).write_bytes(manifest.to_bytes())
    counter = StatsCounter()
    for row in rows:
        counter.add(row)
    previous = read_card(folder)
    (folder / CARD_PATH).write_text(render_card(manifest, counter.stats(), previous=previous))


def rows_of(folder: Path, shard: Shard) -> Rows:
    """The rows of one shard."""
    return list(read_rows(folder / shard.path, "trajectories"))


def flip_byte(path: Path, position: int) -> None:
    """Flip one bit of the byte at ``position``, counted modulo the file's size."""
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1
    path.write_bytes(data)
