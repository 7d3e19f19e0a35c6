"""Verify: check the integrity of a dataset, re-run every episode, compare every claim."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crucible.anchors import Anchors
from crucible.dataset.card import check_card
from crucible.dataset.files import file_sha256, is_regular
from crucible.dataset.folder import read_card, read_manifest, read_worlds, unlisted_files
from crucible.dataset.manifest import Manifest, Shard
from crucible.dataset.rows import read_rows
from crucible.dataset.schema import trajectory_of
from crucible.errors import CrucibleError, FormatError, IntegrityError
from crucible.fingerprints import leaf_hash
from crucible.judging import UNPLANNED, Judgement, Rerun, RerunJob, judge, rerun_job, rerun_jobs
from crucible.merkle import merkle_root
from crucible.trajectory import Trajectory
from crucible.verdicts import Finding, Verdict, VerificationReport
from crucible.workers import WorkerDiedError, run_in_workers
from crucible.worlds import World, world_lie

__all__ = ["verify_dataset", "verify_trajectory"]

BATCH_EPISODES = 16


@dataclass(frozen=True, slots=True)
class _Row:
    """A row as it was read: its trajectory, or why it has none."""

    index: int
    columns: dict[str, Any]
    trajectory: Trajectory | None
    problem: Judgement | None
    transcript: str | None = None


@dataclass(slots=True)
class _Reading:
    """What reading the dataset gathers on the way."""

    manifest: Manifest
    folder: Path
    limits: dict[str, int | None]
    anchors: Anchors = field(default_factory=Anchors)
    worlds: dict[str, World] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    transcripts: set[str] = field(default_factory=set)
    keys: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    errored: Counter[str] = field(default_factory=Counter)
    num_rows: int = 0

    def find(self, where: str, what: str) -> None:
        self.findings.append(Finding(where, what))


def verify_dataset(
    folder: Path,
    *,
    workers: int | None = None,
    allow_unanchored: bool = False,
    replay: bool = True,
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> VerificationReport:
    """Check and re-run every row of the dataset in ``folder``.

    Without ``replay`` only bytes, digests and counts are checked, and rows that agree are
    ``unverifiable``.
    ``on_verdict`` is called with every verdict, in the order of rows.

    Raises:
        TargetNotFoundError: if there is no dataset.
        FormatError: if the manifest cannot be read at all.
    """
    manifest = read_manifest(folder)
    limits = {entry.id: entry.plan["max_steps"] for entry in manifest.recordings}
    reading = _Reading(manifest, folder, limits)
    _check_files(reading)
    try:
        reading.worlds = read_worlds(folder, manifest)
    except FormatError as error:
        reading.find("worlds", str(error))
    _check_worlds(reading)
    verdicts = []
    num_workers = workers or os.cpu_count() or 1
    found = _verdicts(reading, num_workers) if replay else _unreplayed(reading)
    for verdict in found:
        on_verdict(verdict)
        verdicts.append(verdict)
    _check_counts(reading)
    return VerificationReport(
        root=manifest.root,
        num_rows=reading.num_rows,
        planned=sum(recording.planned for recording in manifest.recordings),
        withheld=sum(recording.withheld for recording in manifest.recordings),
        num_transcripts=len(reading.transcripts),
        findings=tuple(reading.findings),
        verdicts=tuple(verdicts),
        allow_unanchored=allow_unanchored,
    )


def verify_trajectory(
    trajectory: Trajectory, *, allow_unanchored: bool = False
) -> VerificationReport:
    """Re-run one trajectory, as a report of one row without a root."""
    if trajectory.file_version is not None:
        judgement = _judge_legacy(trajectory)
    else:
        judgement = _judge_alone(trajectory)
    anchors = Anchors()
    row = _Row(0, {"fingerprint": trajectory.fingerprint}, trajectory, None)
    verdict = _verdict_of(row, judgement, anchors)
    return VerificationReport(
        root=None,
        num_rows=1,
        planned=1,
        withheld=0,
        num_transcripts=1,
        findings=(),
        verdicts=(verdict,),
        allow_unanchored=allow_unanchored,
    )


def _judge_alone(trajectory: Trajectory) -> Judgement:
    return judge(trajectory, rerun_job(RerunJob.of(trajectory)), planned_steps=UNPLANNED)


def _judge_legacy(trajectory: Trajectory) -> Judgement:
    """Re-run a file of crucible-rl 0.1 or 0.2 in today's environment: its digests hash less, so
    the best answer is which of the other claims came out equal."""
    from crucible.registry import environment_class
    from crucible.worlds import world_of

    try:
        cls = environment_class(trajectory.world.env_id)
        env = cls(**trajectory.world.kwargs)
        here = replace(trajectory, world=world_of(env))
        env.close()
    except CrucibleError as error:
        return Judgement("unverifiable", f"not installed: {error}")
    except (TypeError, ValueError) as error:
        return Judgement("refused", f"kwargs of {trajectory.world.env_id}: {error}")
    judgement = _judge_alone(here)
    if judgement.status == "reproduced":
        equal = "observations, rewards, flags, infos and total are equal; digests hash less there"
        return Judgement("unverifiable", f"version: a file of crucible-rl 0.2.0: {equal}")
    return judgement


def _check_files(reading: _Reading) -> None:
    try:
        check_card(read_card(reading.folder), reading.manifest)
    except (IntegrityError, FormatError) as error:
        reading.find("README.md", str(error))
    for name in unlisted_files(reading.folder, reading.manifest):
        reading.find(name, "this file is not in the manifest")
    for shard in reading.manifest.shards_of("worlds"):
        _check_bytes(reading, shard)


def _check_worlds(reading: _Reading) -> None:
    for digest, world in reading.worlds.items():
        lie = world_lie(world)
        if lie is not None:
            reading.find(f"world {digest[:16]}", lie)


def _check_bytes(reading: _Reading, shard: Shard) -> bool:
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


def _verdicts(reading: _Reading, workers: int) -> Iterator[Verdict]:
    """Verdicts in the order of rows; rows that need no re-run wait for their turn."""
    waiting: deque[list[_Row]] = deque()

    def batches() -> Iterator[list[RerunJob]]:
        batch: list[_Row] = []
        for row in _rows(reading):
            batch.append(row)
            if len(batch) == BATCH_EPISODES:
                waiting.append(batch)
                yield _jobs(batch)
                batch = []
        if batch:
            waiting.append(batch)
            yield _jobs(batch)

    answers = run_in_workers(rerun_jobs, batches(), workers=workers, on_death=_one_by_one)
    for answer in answers:
        results = iter([Rerun.from_dict(body) for body in answer])
        for row in waiting.popleft():
            yield _verdict_of(row, _decide(reading, row, results), reading.anchors)


def _one_by_one(
    batch: list[RerunJob], run: Callable[[list[RerunJob]], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The answers of a batch that killed its workers: each episode alone, in a fresh worker; one
    that kills that worker too cannot be verified."""
    answers = []
    for job in batch:
        try:
            answers += run([job])
        except WorkerDiedError as error:
            answers.append(Rerun((), "unverifiable", f"budget: {error}").to_dict())
    return answers


def _unreplayed(reading: _Reading) -> Iterator[Verdict]:
    for row in _rows(reading):
        judgement = row.problem or Judgement("unverifiable", "not replayed, as asked")
        yield _verdict_of(row, judgement, reading.anchors)


def _jobs(batch: list[_Row]) -> list[RerunJob]:
    return [
        RerunJob.of(row.trajectory, row.transcript) for row in batch if row.trajectory is not None
    ]


def _decide(reading: _Reading, row: _Row, results: Iterator[Rerun]) -> Judgement:
    """What is to be said of a row. A tampered row is re-run too, to name what was changed in it."""
    if row.trajectory is None:
        return row.problem or Judgement("refused", "the row cannot be read")
    planned_steps = reading.limits.get(row.columns["recording"], UNPLANNED)
    judgement = judge(row.trajectory, next(results), planned_steps=planned_steps)
    if row.problem is not None:
        return replace(row.problem, mismatches=judgement.mismatches)
    return judgement


def _verdict_of(row: _Row, judgement: Judgement, anchors: Anchors) -> Verdict:
    trajectory = row.trajectory
    world = trajectory.world if trajectory else None
    return Verdict(
        row=row.index,
        fingerprint=str(row.columns["fingerprint"]),
        status=judgement.status,
        world=world.digest if world else "",
        label=world.label if world else "",
        agent=trajectory.agent.name if trajectory else "",
        seed=trajectory.seed if trajectory else 0,
        reason=judgement.reason,
        mismatches=judgement.mismatches,
        prefix=judgement.prefix,
        anchor=anchors.of(world) if world else None,
        messages=_messages_word(trajectory, judgement),
    )


def _messages_word(trajectory: Trajectory | None, judgement: Judgement) -> str | None:
    if trajectory is None or trajectory.messages_text is None or judgement.status != "reproduced":
        return None
    return judgement.unbound or "bound"


def _rows(reading: _Reading) -> Iterator[_Row]:
    for shard in reading.manifest.shards_of("trajectories"):
        yield from _shard_rows(reading, shard)


def _shard_rows(reading: _Reading, shard: Shard) -> Iterator[_Row]:
    """The rows of one shard. A shard whose bytes or root are wrong makes all its rows tampered,
    so it is read once to know its root and once more for its rows."""
    intact = _check_bytes(reading, shard)
    try:
        leaves = [leaf_hash(row) for row in read_rows(reading.folder / shard.path, "trajectories")]
    except FormatError as error:
        if intact:
            reading.find(shard.path, str(error))
        return
    if len(leaves) != shard.rows:
        reading.find(shard.path, f"expected {shard.rows} rows, found {len(leaves)}")
        intact = False
    root = merkle_root(leaves).hex()
    if intact and root != shard.root:
        reading.find(shard.path, f"expected root {shard.root}, found {root}")
        intact = False
    for columns in read_rows(reading.folder / shard.path, "trajectories"):
        yield _read_row(reading, columns, shard, intact=intact)


def _read_row(reading: _Reading, columns: dict[str, Any], shard: Shard, *, intact: bool) -> _Row:
    index = reading.num_rows
    reading.num_rows += 1
    key = (columns["recording"], columns["world"], columns["seed"], columns["attempt"])
    if None not in key:
        reading.keys[key] += 1
        reading.errored[columns["recording"]] += columns["error"] is not None
    reading.transcripts.add(f"{columns['world']}:{columns['transcript']}")
    world = reading.worlds.get(columns["world"])
    if world is None:
        problem = Judgement("tampered", "its world is in no worlds shard")
        return _Row(index, columns, None, problem)
    try:
        trajectory = trajectory_of(columns, world)
    except FormatError as error:
        return _Row(index, columns, None, Judgement("refused", str(error)))
    transcript = trajectory.transcript
    lie = _lie_in(columns, trajectory, shard=shard, transcript=transcript)
    if lie is None and not intact:
        lie = f"{shard.path} is not the file that the manifest lists"
    tampered = Judgement("tampered", lie) if lie else None
    return _Row(index, columns, trajectory, tampered, transcript)


def _lie_in(
    columns: dict[str, Any], trajectory: Trajectory, *, shard: Shard, transcript: str
) -> str | None:
    """The first of the row's own digests and labels that its content contradicts."""
    world = trajectory.world
    if columns["split"] != shard.split:
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


def _check_counts(reading: _Reading) -> None:
    """Whether the rows are those that the recordings account for."""
    manifest = reading.manifest
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
    _check_plans(reading)
    if by_world != Counter(manifest.worlds):
        reading.find("crucible/manifest.json", "its counts by world are not those of the rows")


def _check_plans(reading: _Reading) -> None:
    """Whether every row was planned by the recording that it names."""
    plans = {entry.id: entry.plan for entry in reading.manifest.recordings}
    for recording, world, seed, attempt in reading.keys:
        plan = plans.get(recording)
        if plan is None:
            continue
        planned = (
            world in plan["worlds"]
            and any(start <= seed < stop for start, stop in plan["seeds"])
            and 0 <= attempt < plan["attempts"]
        )
        if not planned:
            where = f"recording {recording[:16]}"
            reading.find(where, f"seed {seed}, attempt {attempt} of a world was never planned")
            return
