"""Does an episode come out the same, whatever surrounds the process that runs it?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crucible.conditions import FACTORS, MIN_RUNS, Condition, base_condition, condition_of_run
from crucible.episodes import Transcript
from crucible.errors import CrucibleError, UsageError
from crucible.registry import user_modules
from crucible.replaying import Mismatch, compare
from crucible.trajectory import Trajectory

__all__ = ["Move", "find_moves"]

CHILD_TIMEOUT_S = 600.0
PAUSE_S = 1.1
NOTHING_CHANGED = "nothing: it differs between two runs under equal conditions"
NOTHING_ALONE = "nothing that was changed alone"

Jobs = list[dict[str, Any]]
Answers = list[list[dict[str, Any]]]
"""For each job the transcripts that a process gave, or ``{"error": why}``."""


@dataclass(frozen=True, slots=True)
class Move:
    """An episode that came out differently: in which re-runs (from 1), what changed it, and the
    first thing that differs – or ``failure``, where the re-run gave no transcript."""

    seed: int
    agent: str
    runs: tuple[int, ...]
    causes: tuple[str, ...]
    mismatch: Mismatch | None
    failure: str | None = None

    def __str__(self) -> str:
        runs = " and ".join(map(str, self.runs))
        what = self.mismatch if self.mismatch is not None else f"it fails: {self.failure}"
        where = f"seed {self.seed}, agent {self.agent}, re-run {runs}"
        return f"{where}, moved by {', '.join(self.causes)}: {what}"

    def to_dict(self) -> dict[str, Any]:
        """The move as plain JSON values."""
        return {
            "seed": self.seed,
            "agent": self.agent,
            "runs": list(self.runs),
            "causes": list(self.causes),
            "mismatch": self.mismatch.to_dict() if self.mismatch is not None else None,
            "failure": self.failure,
        }


def find_moves(trajectories: Sequence[Trajectory], *, runs: int = MIN_RUNS) -> list[Move | None]:
    """For each trajectory None, or how it came out differently in one of the ``runs``.

    Every run is a fresh process in which everything of :data:`crucible.conditions.FACTORS` has
    another value than in the run before, and starts more than a second after it. What moved is
    run again with each of them changed alone, to name what it depends on.

    Raises:
        UsageError: for fewer than three runs.
    """
    if runs < MIN_RUNS:
        raise UsageError(f"runs: expected at least {MIN_RUNS}, found {runs}")
    jobs = [_job(trajectory) for trajectory in trajectories]
    found: list[list[tuple[int, Mismatch | str]]] = [[] for _ in jobs]
    if not jobs:
        return []
    with tempfile.TemporaryDirectory(prefix="crucible-check-") as name:
        folder = Path(name)
        for run in range(runs):
            time.sleep(PAUSE_S)
            answers = _rerun_all(jobs, condition_of_run(run), folder)
            for index, (trajectory, answer) in enumerate(zip(trajectories, answers, strict=True)):
                difference = _difference(trajectory, answer)
                if difference is not None:
                    found[index].append((run + 1, difference))
        moved = [index for index, differences in enumerate(found) if differences]
        causes = dict(zip(moved, _causes([jobs[i] for i in moved], folder), strict=True))
    return [
        _move(trajectory, found[index], causes[index]) if index in causes else None
        for index, trajectory in enumerate(trajectories)
    ]


def _move(
    trajectory: Trajectory, differences: list[tuple[int, Mismatch | str]], causes: list[str]
) -> Move:
    runs = tuple(run for run, _ in differences)
    first = differences[0][1]
    mismatch, failure = (first, None) if isinstance(first, Mismatch) else (None, first)
    return Move(trajectory.seed, trajectory.agent.name, runs, tuple(causes), mismatch, failure)


def _difference(trajectory: Trajectory, answer: list[dict[str, Any]]) -> Mismatch | str | None:
    """The first thing that is not as recorded; a sentence where there is no transcript."""
    for body in answer:
        if not _is_transcript(body):
            return str(body["error"])
        mismatches = compare(trajectory, Transcript.from_dict(body))
        if mismatches:
            return mismatches[0]
    return None


def _is_transcript(body: dict[str, Any]) -> bool:
    return "initial_digest" in body


def _causes(jobs: Jobs, folder: Path) -> list[list[str]]:
    """For each job the names of the factors that change its episode when they alone change."""
    if not jobs:
        return []
    base = _rerun_all(jobs, base_condition(), folder)
    causes: list[list[str]] = [[] for _ in jobs]
    steady = []
    for index, answer in enumerate(_rerun_all(jobs, base_condition(), folder)):
        if answer != base[index]:
            causes[index].append(NOTHING_CHANGED)
        elif _is_transcript(answer[0]):
            steady.append(index)
    for factor in FACTORS if steady else ():
        answers = _rerun_all([jobs[index] for index in steady], base_condition(factor), folder)
        for index, answer in zip(steady, answers, strict=True):
            if any(transcript != base[index][0] for transcript in answer):
                causes[index].append(factor.name)
    return [names or [NOTHING_ALONE] for names in causes]


def _job(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "world": trajectory.world.digest,
        "env_id": trajectory.world.env_id,
        "kwargs": trajectory.world.kwargs,
        "seed": trajectory.seed,
        "actions": [step.action_text for step in trajectory.steps],
    }


def _rerun_all(jobs: Jobs, condition: Condition, folder: Path) -> Answers:
    """The answers of one process; where that dies, of a process for each job."""
    try:
        return _run_process(jobs, condition, folder)
    except CrucibleError as error:
        if len(jobs) == 1:
            return [[{"error": str(error)}]]
    return list(_each_alone(jobs, condition, folder))


def _each_alone(jobs: Jobs, condition: Condition, folder: Path) -> Iterator[list[dict[str, Any]]]:
    for job in jobs:
        yield from _rerun_all([job], condition, folder)


def _run_process(jobs: Jobs, condition: Condition, folder: Path) -> Answers:
    path = [os.path.abspath(entry) for entry in sys.path]
    request = {
        "imports": user_modules(),
        "path": path,
        "numpy": "numpy" in sys.modules,
        "jobs": jobs,
        "change": condition.change,
    }
    environment = {**condition.environment(folder), "PYTHONPATH": os.pathsep.join(path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "crucible.check_process"],
            input=orjson.dumps(request),
            stdout=subprocess.PIPE,
            env=environment,
            cwd=condition.working_folder(folder),
            timeout=CHILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise _ProcessError(f"the process did not end within {CHILD_TIMEOUT_S:g} s") from None
    try:
        answers: Answers = orjson.loads(done.stdout)
    except orjson.JSONDecodeError:
        raise _ProcessError(f"the process ended with {done.returncode}") from None
    return answers


class _ProcessError(CrucibleError):
    """A process that re-runs episodes gave no answer."""
