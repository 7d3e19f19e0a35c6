"""Reading a dataset for verify: every row with what its bytes, digests and counts say of it."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crucible.canonical import check_encoder
from crucible.dataset.card import CARD_PATH, check_card, check_figures
from crucible.dataset.files import file_sha256, is_regular
from crucible.dataset.folder import (
    MANIFEST_PATH,
    add_world,
    check_finished,
    is_dataset,
    read_card,
    read_manifest,
    read_worlds,
    unlisted_files,
)
from crucible.dataset.loose import LooseFiles, find_loose_files, read_loose_rows
from crucible.dataset.manifest import Manifest, Shard
from crucible.dataset.rows import read_rows
from crucible.dataset.schema import trajectory_of
from crucible.dataset.stats import StatsCounter
from crucible.errors import FormatError, IntegrityError, TargetNotFoundError
from crucible.fingerprints import leaf_hash
from crucible.isolation import Placement, placement_of
from crucible.judging import Judgement
from crucible.merkle import merkle_root
from crucible.state import recorded_roots
from crucible.trajectory import Trajectory
from crucible.verdicts import Finding
from crucible.worlds import World, world_lie

__all__ = ["Reading", "Row", "check_counts", "open_for_verify", "read_all"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it was read: its trajectory, or why it has none; and where it may be re-run."""

    index: int
    columns: dict[str, Any]
    trajectory: Trajectory | None
    problem: Judgement | None
    transcript: str | None = None
    placement: Placement = field(default_factory=Placement)


@dataclass(slots=True)
class Reading:
    """What reading a dataset gathers on the way. ``manifest`` is None where there is none, and
    ``loose`` then names the files."""

    folder: Path
    manifest: Manifest | None
    loose: LooseFiles | None = None
    worlds: dict[str, World] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)
    transcripts: set[str] = field(default_factory=set)
    keys: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    errored: Counter[str] = field(default_factory=Counter)
    is_own: bool = False
    placements: dict[tuple[str, bool], Placement] = field(default_factory=dict)
    stats: StatsCounter = field(default_factory=StatsCounter)
    card: str | None = None
    num_rows: int = 0

    @property
    def limits(self) -> dict[str, int | None]:
        """Recording → the ``max_steps`` of its plan."""
        recordings = self.manifest.recordings if self.manifest else ()
        return {entry.id: entry.plan["max_steps"] for entry in recordings}

    def placement(self, world: World, *, is_own: bool) -> Placement:
        """Where an episode of ``world`` is re-run."""
        key = (world.digest, is_own)
        if key not in self.placements:
            self.placements[key] = placement_of(world, is_own=is_own)
        return self.placements[key]

    def find(self, where: str, what: str) -> None:
        """Note something that does not agree."""
        self.findings.append(Finding(where, what))


def open_for_verify(folder: Path) -> Reading:
    """The dataset in ``folder`` with its files and worlds checked, and no row read yet.

    Raises:
        TargetNotFoundError: if there is no dataset, and no Parquet file with trajectories either.
        FormatError: if the manifest cannot be read at all.
    """
    check_encoder()
    check_finished(folder)
    if not is_dataset(folder):
        return _open_loose(folder)
    manifest = read_manifest(folder)
    reading = Reading(folder, manifest, is_own=manifest.root in recorded_roots())
    _check_files(reading, manifest)
    return reading


def _open_loose(folder: Path) -> Reading:
    loose = find_loose_files(folder)
    if not loose.trajectories:
        raise TargetNotFoundError(
            f"{folder} holds no dataset: neither {MANIFEST_PATH} nor Parquet files with the "
            "columns of trajectories"
        )
    reading = Reading(folder, None, loose)
    for path in loose.unreadable:
        reading.skipped.append(Finding(path.name, "it cannot be read as Parquet"))
    for path in loose.worlds:
        try:
            for row in read_loose_rows(path, "worlds"):
                add_world(reading.worlds, row, path.name)
        except FormatError as error:
            reading.skipped.append(Finding(path.name, str(error)))
    _check_worlds(reading)
    return reading


def read_all(reading: Reading) -> Iterator[Row]:
    """Every row in order, with its own digests checked."""
    if reading.manifest is not None:
        for shard in reading.manifest.shards_of("trajectories"):
            yield from _shard_rows(reading, shard)
    elif reading.loose is not None:
        for path in reading.loose.trajectories:
            yield from _loose_rows(reading, path)


def _check_files(reading: Reading, manifest: Manifest) -> None:
    try:
        reading.card = read_card(reading.folder)
        check_card(reading.card, manifest)
    except (IntegrityError, FormatError) as error:
        reading.find("README.md", str(error))
    for name in unlisted_files(reading.folder, manifest):
        reading.find(name, "this file is not in the manifest")
    for shard in manifest.shards_of("worlds"):
        _check_rows(reading, shard, intact=_check_bytes(reading, shard))
    try:
        reading.worlds = read_worlds(reading.folder, manifest)
    except FormatError as error:
        reading.find("worlds", str(error))
    _check_worlds(reading)


def _check_worlds(reading: Reading) -> None:
    for digest, world in reading.worlds.items():
        lie = world_lie(world)
        if lie is not None:
            reading.find(f"world {digest[:16]}", lie)


def _check_bytes(reading: Reading, shard: Shard) -> bool:
    path = reading.folder / shard.path
    if not is_regular(path):
        reading.find(shard.path, "this shard is in the manifest, but not there as a file")
        return False
    size = path.stat().st_size
    if size != shard.bytes:
        reading.find(shard.path, f"expected {shard.bytes} bytes, found {size}")
        return False
    actual = file_sha256(path)
    if actual != shard.sha256:
        reading.find(shard.path, f"expected sha256 {shard.sha256}, found {actual}")
        return False
    return True


def _shard_rows(reading: Reading, shard: Shard) -> Iterator[Row]:
    """The rows of one shard. A shard whose bytes or root are wrong makes all its rows tampered,
    so it is read once to know its root and once more for its rows."""
    intact = _check_bytes(reading, shard)
    is_whole = _check_rows(reading, shard, intact=intact)
    if is_whole is None:
        return
    intact = intact and is_whole
    for columns in read_rows(reading.folder / shard.path, "trajectories"):
        yield _read_row(reading, columns, shard, intact=intact)


def _check_rows(reading: Reading, shard: Shard, *, intact: bool) -> bool | None:
    """Whether a shard has the rows and the root that the manifest states; None where it cannot be
    read. What is wrong in a shard whose bytes are wrong is not said twice."""
    try:
        leaves = [leaf_hash(row) for row in read_rows(reading.folder / shard.path, shard.config)]
    except FormatError as error:
        if intact:
            reading.find(shard.path, str(error))
        return None
    if len(leaves) != shard.rows:
        reading.find(shard.path, f"expected {shard.rows} rows, found {len(leaves)}")
        return False
    root = merkle_root(leaves).hex()
    if intact and root != shard.root:
        reading.find(shard.path, f"expected root {shard.root}, found {root}")
    return root == shard.root


def _loose_rows(reading: Reading, path: Path) -> Iterator[Row]:
    try:
        for columns in read_loose_rows(path, "trajectories"):
            yield _read_row(reading, columns, None)
    except FormatError as error:
        reading.skipped.append(Finding(path.name, str(error)))


def _read_row(
    reading: Reading, columns: dict[str, Any], shard: Shard | None, *, intact: bool = True
) -> Row:
    """One row; ``shard`` is None where no manifest says what it belongs to."""
    index = reading.num_rows
    reading.num_rows += 1
    key = (columns["recording"], columns["world"], columns["seed"], columns["attempt"])
    if None not in key:
        reading.keys[key] += 1
        reading.errored[columns["recording"]] += columns["error"] is not None
    reading.transcripts.add(f"{columns['world']}:{columns['transcript']}")
    reading.stats.add(columns)
    world = reading.worlds.get(columns["world"])
    if world is None:
        status = "tampered" if shard else "unverifiable"
        return Row(index, columns, None, Judgement(status, "its world is in no worlds file"))
    try:
        trajectory = trajectory_of(columns, world)
    except FormatError as error:
        return Row(index, columns, None, Judgement("refused", str(error)))
    transcript = trajectory.transcript
    lie = _lie_in(columns, trajectory, shard=shard, transcript=transcript)
    if lie is None and shard is not None and not intact:
        lie = f"{shard.path} is not the file that the manifest lists"
    tampered = Judgement("tampered", lie) if lie else None
    placement = reading.placement(world, is_own=reading.is_own and tampered is None)
    return Row(index, columns, trajectory, tampered, transcript, placement)


def _lie_in(
    columns: dict[str, Any], trajectory: Trajectory, *, shard: Shard | None, transcript: str
) -> str | None:
    """The first of the row's own digests and labels that its content contradicts."""
    world = trajectory.world
    if shard is not None and columns["split"] != shard.split:
        return f"its split is {columns['split']!r:.40}, but it is in {shard.path}"
    for name in ("suite", "name", "env_id", "env_version"):
        if columns[name] != getattr(world, name):
            return f"its {name} is not that of its world"
    if columns["transcript"] != transcript:
        return f"its transcript should be {transcript}"
    fingerprint = trajectory.fingerprint_with(transcript)
    if columns["fingerprint"] != fingerprint:
        return f"its fingerprint should be {fingerprint}"
    return None


def check_counts(reading: Reading) -> None:
    """Whether the rows are those that the recordings account for; without a manifest nobody
    knows."""
    manifest = reading.manifest
    if manifest is None:
        return
    repeated = [key for key, count in reading.keys.items() if count > 1]
    if repeated:
        recording, _, seed, attempt = repeated[0]
        where = f"recording {recording[:16]}"
        reading.find(where, f"seed {seed}, attempt {attempt} of a world occurs more than once")
    by_recording: Counter[str] = Counter()
    by_world: Counter[str] = Counter()
    for recording, world, _, _ in reading.keys:
        by_recording[recording] += 1
        by_world[world] += 1
    for entry in manifest.recordings:
        missing = entry.recorded - by_recording.pop(entry.id, 0)
        if missing > 0:
            reading.find(
                f"recording {entry.id[:16]}",
                f"{missing} of {entry.planned} planned attempts are missing",
            )
        elif missing < 0:
            reading.find(f"recording {entry.id[:16]}", f"{-missing} rows more than it recorded")
        if reading.errored[entry.id] != entry.errored:
            reading.find(
                f"recording {entry.id[:16]}",
                f"expected {entry.errored} errored rows, found {reading.errored[entry.id]}",
            )
    for recording in by_recording:
        reading.find(f"recording {recording[:16]}", "rows name a recording that is not there")
    _check_plans(reading, manifest)
    if manifest.worlds != {digest: by_world[digest] for digest in reading.worlds}:
        reading.find("crucible/manifest.json", "its counts by world are not those of the rows")
    if reading.card is not None:
        try:
            check_figures(reading.card, manifest, reading.stats.stats())
        except IntegrityError as error:
            reading.find(CARD_PATH, str(error))


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan that can be asked quickly: the ranges of its seeds are sorted, and joined where they
    overlap."""

    worlds: frozenset[str]
    starts: list[int]
    stops: list[int]
    attempts: int

    @classmethod
    def by(cls, plan: dict[str, Any]) -> _Planned:
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in sorted(plan["seeds"]):
            if stops and start <= stops[-1]:
                stops[-1] = max(stop, stops[-1])
            else:
                starts.append(start)
                stops.append(stop)
        return cls(frozenset(plan["worlds"]), starts, stops, plan["attempts"])

    def has(self, world: str, seed: int, attempt: int) -> bool:
        """Whether the plan holds this episode."""
        place = bisect.bisect_right(self.starts, seed) - 1
        is_seed = place >= 0 and seed < self.stops[place]
        return is_seed and world in self.worlds and 0 <= attempt < self.attempts


def _check_plans(reading: Reading, manifest: Manifest) -> None:
    """Whether every row was planned by the recording that it names."""
    plans = {entry.id: _Planned.by(entry.plan) for entry in manifest.recordings}
    for recording, world, seed, attempt in reading.keys:
        plan = plans.get(recording)
        if plan is not None and not plan.has(world, seed, attempt):
            where = f"recording {recording[:16]}"
            reading.find(where, f"seed {seed}, attempt {attempt} of a world was never planned")
            return
