"""Verify: check the integrity of a dataset, re-run every episode, compare every claim."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from crucible.anchors import Anchors
from crucible.errors import CrucibleError
from crucible.integrity import Reading, Row, check_counts, open_for_verify, read_all
from crucible.judging import UNPLANNED, Judgement, Rerun, RerunJob, judge, rerun_job, rerun_jobs
from crucible.trajectory import Trajectory
from crucible.verdicts import Verdict, VerificationReport
from crucible.workers import WorkerDiedError, run_in_workers

__all__ = ["verify_dataset", "verify_trajectory"]

BATCH_EPISODES = 16


def verify_dataset(
    folder: Path,
    *,
    workers: int | None = None,
    allow_unanchored: bool = False,
    replay: bool = True,
    anchors: Anchors | None = None,
    on_verdict: Callable[[Verdict], None] = lambda verdict: None,
) -> VerificationReport:
    """Check and re-run every row of the dataset in ``folder``.

    Where there is no manifest, the rows of Parquet files that have our columns are verified one
    by one, and the report's ``completeness`` is unknown.
    Without ``replay`` only bytes, digests and counts are checked, and rows that agree are
    ``unverifiable``.
    ``anchors`` are this user's if None. ``on_verdict`` is called with every verdict, in the order
    of rows.

    Raises:
        TargetNotFoundError: if there is no dataset.
        FormatError: if the manifest cannot be read at all.
    """
    reading = open_for_verify(folder)
    anchors = anchors or Anchors()
    verdicts = []
    num_workers = workers or os.cpu_count() or 1
    found = _judged(reading, num_workers) if replay else _unreplayed(reading)
    for row, judgement in found:
        verdict = _verdict_of(row, judgement, anchors)
        on_verdict(verdict)
        verdicts.append(verdict)
    check_counts(reading)
    manifest = reading.manifest
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
    row = Row(0, {"fingerprint": trajectory.fingerprint}, trajectory, None)
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


def _judged(reading: Reading, workers: int) -> Iterator[tuple[Row, Judgement]]:
    """Judgements in the order of rows; rows that need no re-run wait for their turn."""
    waiting: deque[list[Row]] = deque()

    def batches() -> Iterator[list[RerunJob]]:
        batch: list[Row] = []
        for row in read_all(reading):
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
            yield row, _decide(reading, row, results)


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


def _jobs(batch: list[Row]) -> list[RerunJob]:
    return [
        RerunJob.of(row.trajectory, row.transcript) for row in batch if row.trajectory is not None
    ]


def _decide(reading: Reading, row: Row, results: Iterator[Rerun]) -> Judgement:
    """What is to be said of a row. A tampered row is re-run too, to name what was changed in it."""
    if row.trajectory is None:
        return row.problem or Judgement("refused", "the row cannot be read")
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
    )


def _messages_word(trajectory: Trajectory | None, judgement: Judgement) -> str | None:
    if trajectory is None or trajectory.messages_text is None or judgement.status != "reproduced":
        return None
    return judgement.unbound or "bound"
