"""Verify: check the integrity of a dataset, re-run every episode, compare every claim."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crucible.anchors import Anchors
from crucible.dataset.shards import approximate_bytes
from crucible.errors import EnvironmentUnknownError, FormatError
from crucible.integrity import Reading, Row, check_counts, open_for_verify, read_all
from crucible.isolation import Placement, placement_of
from crucible.judging import UNPLANNED, Judgement, Rerun, RerunJob, judge, rerun_jobs
from crucible.trajectory import Trajectory
from crucible.verdicts import Finding, Verdict, VerificationReport
from crucible.workers import WorkerCrew, WorkerDiedError, run_in_workers
from crucible.worlds import world_lie

__all__ = ["Shared", "verify_dataset", "verify_trajectory"]

BATCH_EPISODES = 16
BATCH_BYTES = 16 * 1024 * 1024
STEP_BYTES = 1000
"""About what a step takes in memory beside its texts."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What several verifications can share: ``anchors``, this user's if None, and a ``crew`` of
    workers for ``rerun_jobs``."""

    anchors: Anchors | None = None
    crew: WorkerCrew | None = None


def verify_dataset(
    folder: Path,
    *,
    workers: int | None = None,
    allow_unanchored: bool = False,
    replay: bool = True,
    shared: Shared = Shared(),
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> VerificationReport:
    """Check and re-run every row of the dataset in ``folder``.

    Where there is no manifest, the rows of Parquet files that have our columns are verified one
    by one, and the report's ``completeness`` is unknown.
    Without ``replay`` only bytes, digests and counts are checked, and rows that agree are
    ``unverifiable``.
    ``on_verdict`` is called with every verdict, in the order
    of rows.

    Raises:
        TargetNotFoundError: if there is no dataset.
        FormatError: if the manifest cannot be read at all.
    """
    reading = open_for_verify(folder)
    anchors = shared.anchors or Anchors()
    verdicts = []
    num_workers = workers or os.cpu_count() or 1
    found = _judged(reading, num_workers, shared.crew) if replay else _unreplayed(reading)
    for row, judgement in found:
        verdict = _verdict_of(row, judgement, anchors)
        on_verdict(verdict)
        verdicts.append(verdict)
    check_counts(reading)
    manifest = reading.manifest
    if manifest is None and not verdicts:
        why = f": {reading.skipped[0].what}" if reading.skipped else ""
        raise FormatError(f"{folder} holds no row that can be read{why}")
    recordings = manifest.recordings if manifest else ()
    return VerificationReport(
        root=manifest.root if manifest else None,
        num_rows=reading.num_rows,
        planned=sum(recording.planned for recording in recordings),
        withheld=sum(recording.withheld for recording in recordings),
        num_transcripts=len(reading.transcripts),
        findings=tuple(reading.findings),
        verdicts=tuple(verdicts),
        allow_unanchored=allow_unanchored,
        completeness="checked" if manifest else "unknown",
        unchecked_columns=reading.loose.unchecked if reading.loose else (),
        skipped=tuple(reading.skipped),
    )


def verify_trajectory(
    trajectory: Trajectory, *, allow_unanchored: bool = False
) -> VerificationReport:
    """Re-run one trajectory, as a report of one row without a root."""
    world = trajectory.world
    lie = None if trajectory.file_version is not None else world_lie(world)
    placement = placement_of(world, is_own=False)
    if trajectory.file_version is not None:
        judgement = _judge_legacy(trajectory, placement)
    else:
        judgement = _judge_alone(trajectory, placement)
    row = Row(0, {"fingerprint": trajectory.fingerprint}, trajectory, None, placement=placement)
    verdict = _verdict_of(row, judgement, Anchors())
    return VerificationReport(
        root=None,
        num_rows=1,
        planned=1,
        withheld=0,
        num_transcripts=1,
        findings=(Finding(f"world {world.digest[:16]}", lie),) if lie else (),
        verdicts=(verdict,),
        allow_unanchored=allow_unanchored,
    )


def _judge_alone(trajectory: Trajectory, placement: Placement) -> Judgement:
    if placement.problem is not None:
        return Judgement("unverifiable", placement.problem)
    job = RerunJob.of(trajectory, boxed=placement.boxed)
    ((answer,),) = run_in_workers(
        rerun_jobs,
        [[job]],
        workers=1,
        on_death=_one_by_one,
        is_boxed=lambda batch: batch[0].boxed,
    )
    return judge(trajectory, Rerun.from_dict(answer), planned_steps=UNPLANNED)


def _judge_legacy(trajectory: Trajectory, placement: Placement) -> Judgement:
    """Re-run a file of crucible-rl 0.1 or 0.2 in today's environment: its digests hash less, so
    the best answer is which of the other claims came out equal."""
    from crucible.registry import make
    from crucible.worlds import world_of

    try:
        env = make(trajectory.world.env_id, trajectory.world.kwargs)
        here = replace(trajectory, world=world_of(env))
        env.close()
    except EnvironmentUnknownError as error:
        return Judgement("unverifiable", f"not installed: {error}")
    except FormatError as error:
        return Judgement("refused", str(error))
    judgement = _judge_alone(here, placement)
    if judgement.status == "reproduced":
        equal = "observations, rewards, flags, infos and total are equal; digests hash less there"
        return Judgement("unverifiable", f"version: a file of crucible-rl 0.2.0: {equal}")
    return judgement


def _judged(
    reading: Reading, workers: int, crew: WorkerCrew | None
) -> Iterator[tuple[Row, Judgement]]:
    """Judgements in the order of rows; rows that need no re-run wait for their turn."""
    waiting: deque[list[Row]] = deque()

    def jobs() -> Iterator[list[RerunJob]]:
        for batch in _batches(read_all(reading)):
            waiting.append(batch)
            yield [_job(row) for row in batch if _is_rerun(row)]

    answers = run_in_workers(
        rerun_jobs,
        jobs(),
        workers=workers,
        on_death=_one_by_one,
        is_boxed=lambda batch: any(job.boxed for job in batch),
        crew=crew,
    )
    for answer in answers:
        results = iter([Rerun.from_dict(body) for body in answer])
        for row in waiting.popleft():
            yield row, _decide(reading, row, results)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows that are re-run in the same place, some at a time and few where they are large."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        moved = batch and row.placement.boxed != batch[0].placement.boxed
        if moved or len(batch) == BATCH_EPISODES or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += approximate_bytes(row.columns) + STEP_BYTES * len(row.columns["steps"] or ())
    if batch:
        yield batch


def _is_rerun(row: Row) -> bool:
    return row.trajectory is not None and row.placement.problem is None


def _job(row: Row) -> RerunJob:
    assert row.trajectory is not None
    return RerunJob.of(row.trajectory, row.transcript, boxed=row.placement.boxed)


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


def _unreplayed(reading: Reading) -> Iterator[tuple[Row, Judgement]]:
    for row in read_all(reading):
        yield row, row.problem or Judgement("unverifiable", "not replayed, as asked")


def _decide(reading: Reading, row: Row, results: Iterator[Rerun]) -> Judgement:
    """What is to be said of a row. A tampered row is re-run too, to name what was changed in it."""
    if row.trajectory is None:
        return row.problem or Judgement("refused", "the row cannot be read")
    if row.placement.problem is not None:
        return row.problem or Judgement("unverifiable", row.placement.problem)
    planned_steps = reading.limits.get(row.columns["recording"], UNPLANNED)
    judgement = judge(row.trajectory, next(results), planned_steps=planned_steps)
    if row.problem is not None:
        return replace(row.problem, mismatches=judgement.mismatches)
    return judgement


def _verdict_of(row: Row, judgement: Judgement, anchors: Anchors) -> Verdict:
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
        sandbox=row.placement.level,
    )


def _messages_word(trajectory: Trajectory | None, judgement: Judgement) -> str | None:
    if trajectory is None or trajectory.messages_text is None or judgement.status != "reproduced":
        return None
    return judgement.unbound or "bound"
