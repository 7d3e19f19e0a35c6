"""Recording: run a plan of episodes and write them as a dataset."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crucible.agent_specs import check_agent_spec, make_agent
from crucible.canonical import check_encoder
from crucible.dataset.folder import MANIFEST_PATH, read_manifest, write_dataset_files
from crucible.dataset.journal import journal, recover
from crucible.dataset.manifest import Manifest, Recording, Shard
from crucible.dataset.schema import row_of
from crucible.dataset.shards import ShardWriter
from crucible.env_pool import EnvironmentPool
from crucible.errors import UsageError
from crucible.rollouts import DEFAULT_MAX_STEPS, rollout_in
from crucible.state import folder_lock, remember_root, remember_worlds
from crucible.suites import load_suite
from crucible.toolchain import toolchain
from crucible.version import __version__
from crucible.workers import run_in_workers
from crucible.worlds import World

__all__ = ["Plan", "RecordingSummary", "record_plan"]

CHUNK_EPISODES = 32


@dataclass(frozen=True, slots=True)
class Plan:
    """What to record: every world with every seed, ``attempts`` times.

    ``seeds`` are ranges; ``agent`` is what ``--agent`` takes; ``max_steps`` None means each
    environment's own.
    """

    worlds: tuple[World, ...]
    seeds: tuple[range, ...]
    agent: str
    attempts: int = 1
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if not self.worlds or not any(self.seeds) or self.attempts < 1:
            raise UsageError("a plan needs at least one world, one seed and one attempt")
        if self.max_steps is not None and self.max_steps < 1:
            raise UsageError(f"max_steps: expected a positive number, found {self.max_steps}")
        if any(seeds.step != 1 or len(seeds) == 0 for seeds in self.seeds):
            raise UsageError("seed ranges go up by one and are not empty")
        if any(seeds.start < -(2**63) or seeds.stop > 2**63 for seeds in self.seeds):
            raise UsageError("seeds are 64-bit integers")
        check_agent_spec(self.agent, list(self.worlds))

    @property
    def num_episodes(self) -> int:
        """How many episodes the plan has."""
        return len(self.worlds) * sum(len(seeds) for seeds in self.seeds) * self.attempts

    def entries(self) -> Iterator[PlanEntry]:
        """The planned episodes, in the order of their rows."""
        for world in self.worlds:
            for seeds in self.seeds:
                for seed in seeds:
                    for attempt in range(self.attempts):
                        yield PlanEntry(world, seed, attempt)

    def to_dict(self) -> dict[str, Any]:
        """The plan as it stands in the manifest."""
        return {
            "agent": self.agent,
            "attempts": self.attempts,
            "max_steps": self.max_steps,
            "seeds": [[seeds.start, seeds.stop] for seeds in self.seeds],
            "worlds": [world.digest for world in self.worlds],
        }


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """One planned episode."""

    world: World
    seed: int
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    """What a recording wrote: the dataset's manifest and this recording in it."""

    manifest: Manifest
    recording: Recording


@dataclass(frozen=True, slots=True)
class _Chunk:
    entries: tuple[PlanEntry, ...]
    agent: str
    max_steps: int | None
    recording_id: str


def record_plan(
    plan: Plan,
    out: Path,
    *,
    workers: int | None = None,
    on_episode: Callable[[dict[str, Any]], None] = lambda row: None,
) -> RecordingSummary:
    """Record every episode of ``plan`` into the dataset folder ``out``.

    A folder that holds a dataset is appended to: its shards stay as they are, and the new
    manifest names the one it extends. If the recording does not come to its end, the folder is as
    it was; what a recorder that was killed has left is taken away. ``on_episode`` is called with
    every row, in order.

    Raises:
        UsageError: if ``out`` holds something that is not a dataset.
        FormatError: if the manifest that is there cannot be read.
    """
    check_encoder()
    with folder_lock(out):
        recover(out)
        previous = _previous_manifest(out)
        with journal(out):
            return _record(plan, out, previous, workers=workers, on_episode=on_episode)


def _record(
    plan: Plan,
    out: Path,
    previous: Manifest | None,
    *,
    workers: int | None,
    on_episode: Callable[[dict[str, Any]], None],
) -> RecordingSummary:
    recording = Recording(secrets.token_hex(16), plan.to_dict(), plan.num_episodes, 0, 0)
    remember_worlds(world.digest for world in plan.worlds)
    rows = _rows(plan, recording.id, workers)
    counts, shards = _write_shards(plan, out, rows, on_episode)
    recording = replace(
        recording, recorded=plan.num_episodes, errored=counts.pop("errored"), interrupted=0
    )
    manifest = _merged(previous, shards, recording, counts)
    remember_root(manifest.root)
    write_dataset_files(out, manifest)
    return RecordingSummary(manifest, recording)


def _previous_manifest(out: Path) -> Manifest | None:
    if (out / MANIFEST_PATH).exists():
        return read_manifest(out)
    if out.exists() and (not out.is_dir() or _holds_files(out)):
        raise UsageError(f"{out} is not empty and holds no dataset: choose another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be made: {error.strerror}") from error
    return None


def _holds_files(folder: Path) -> bool:
    """Whether there is any file, those aside that a killed recorder had not yet given a name."""
    return any(not path.name.endswith(".tmp") for path in folder.rglob("*") if not path.is_dir())


def _rows(plan: Plan, recording_id: str, workers: int | None) -> Iterator[dict[str, Any]]:
    num_workers = workers or os.cpu_count() or 1
    size = max(1, min(CHUNK_EPISODES, -(-plan.num_episodes // (4 * num_workers))))
    num_workers = min(num_workers, -(-plan.num_episodes // size))
    chunks = _chunks(plan, recording_id, size)
    for rows in run_in_workers(_record_chunk, chunks, workers=num_workers):
        yield from rows


def _chunks(plan: Plan, recording_id: str, size: int) -> Iterator[_Chunk]:
    entries = plan.entries()
    while batch := tuple(itertools.islice(entries, size)):
        yield _Chunk(batch, plan.agent, plan.max_steps, recording_id)


_pool = EnvironmentPool()


def _record_chunk(chunk: _Chunk) -> list[dict[str, Any]]:
    return [_record_entry(chunk, entry) for entry in chunk.entries]


def _record_entry(chunk: _Chunk, entry: PlanEntry) -> dict[str, Any]:
    env = _pool.get(entry.world)
    try:
        agent = make_agent(
            chunk.agent, entry.world, env=env, seed=entry.seed, attempt=entry.attempt
        )
        limit = chunk.max_steps or env.max_steps or DEFAULT_MAX_STEPS
        trajectory = rollout_in(entry.world, env, agent=agent, seed=entry.seed, max_steps=limit)
    finally:
        _pool.release(entry.world, env)
    provenance = {"crucible": __version__, "toolchain": toolchain(entry.world.toolchain_needs)}
    return row_of(
        replace(trajectory, provenance=provenance),
        split=load_suite(entry.world.suite).split_of(entry.seed) if entry.world.suite else "train",
        recording=chunk.recording_id,
        attempt=entry.attempt,
    )


def _write_shards(
    plan: Plan,
    out: Path,
    rows: Iterator[dict[str, Any]],
    on_episode: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, int], list[Shard]]:
    """Counts by world and of errored rows, and the shards that hold the rows."""
    worlds = ShardWriter(out, config="worlds", split="worlds")
    writers: dict[str, ShardWriter] = {}
    counts = dict.fromkeys((world.digest for world in plan.worlds), 0) | {"errored": 0}
    try:
        for world in plan.worlds:
            worlds.add(world.to_row())
        for row in rows:
            split = row["split"]
            if split not in writers:
                writers[split] = ShardWriter(out, config="trajectories", split=split)
            writers[split].add(row)
            counts[row["world"]] += 1
            counts["errored"] += row["error"] is not None
            on_episode(row)
        shards = [*worlds.close()]
        for split in sorted(writers):
            shards += writers[split].close()
    except BaseException:
        for writer in (worlds, *writers.values()):
            writer.discard()
        raise
    return counts, shards


def _merged(
    previous: Manifest | None, shards: list[Shard], recording: Recording, counts: dict[str, int]
) -> Manifest:
    old = previous or Manifest((), {}, ())
    known = {shard.path for shard in old.shards}
    fresh = [shard for shard in shards if shard.path not in known]
    worlds = dict(old.worlds)
    for digest, count in counts.items():
        worlds[digest] = worlds.get(digest, 0) + count
    return Manifest(
        shards=(*old.shards, *fresh),
        worlds=worlds,
        recordings=(*old.recordings, recording),
        producer={"crucible-rl": __version__, **toolchain(("pyarrow", "python"))},
        extends=previous.digest if previous else None,
    )
