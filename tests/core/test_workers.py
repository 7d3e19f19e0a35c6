"""Jobs that kill, hang or corrupt their worker, which is replaced."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from crucible import workers
from crucible.workers import WorkerDiedError, run_in_workers


def double(job: int) -> int:
    return 2 * job


def misbehave(job: Any) -> Any:
    match job:
        case "die":
            os._exit(3)
        case "print":
            sys.stdout.write("noise\n" * 1000)
            os.write(1, b"more noise")
        case "hang":
            import time

            time.sleep(60)
        case "raise":
            raise ValueError("no")
        case "lie":
            os.write(3, b"\xff" * 64)
            os._exit(0)
        case ["die", marker]:
            if not os.path.exists(marker):
                open(marker, "w").close()
                os._exit(3)
    return job


@pytest.fixture(autouse=True)
def as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import functions by the name of their module."""
    for function in (double, misbehave):
        monkeypatch.setattr(function, "__module__", "test_workers")
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_in_the_order_of_their_jobs(count: int) -> None:
    jobs = range(50)
    assert list(run_in_workers(double, jobs, workers=count)) == [2 * job for job in jobs]


def test_few_jobs_are_taken_ahead_of_their_results() -> None:
    taken = []

    def jobs() -> Any:
        for job in range(40):
            taken.append(job)
            yield job

    results = run_in_workers(double, jobs(), workers=2)
    next(results)
    assert len(taken) <= 2 * workers.QUEUED_JOBS_PER_WORKER + 1
    results.close()  # type: ignore[attr-defined]


def test_what_a_job_prints_does_not_disturb() -> None:
    assert list(run_in_workers(misbehave, ["print", "a"], workers=2)) == ["print", "a"]


def test_a_job_whose_worker_dies_is_given_to_another(tmp_path: Any) -> None:
    marker = str(tmp_path / "died once")
    jobs = ["a", ["die", marker], "b"]
    assert list(run_in_workers(misbehave, jobs, workers=2)) == jobs


def test_a_job_that_kills_two_workers_is_an_error_or_what_on_death_says() -> None:
    with pytest.raises(WorkerDiedError):
        list(run_in_workers(misbehave, ["a", "die"], workers=2))
    results = run_in_workers(
        misbehave, ["a", "die", "b"], workers=2, on_death=lambda job, run: [job, run("again")]
    )
    assert list(results) == ["a", ["die", "again"], "b"]


def test_a_job_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "JOB_TIMEOUT_S", 0.5)
    results = run_in_workers(misbehave, ["hang"], workers=2, on_death=lambda job, run: "ended")
    assert list(results) == ["ended"]


def test_a_worker_that_answers_nonsense_counts_as_dead() -> None:
    results = run_in_workers(misbehave, ["lie"], workers=2, on_death=lambda job, run: "distrusted")
    assert list(results) == ["distrusted"]


def test_a_function_that_fails_is_a_worker_that_died() -> None:
    with pytest.raises(WorkerDiedError):
        list(run_in_workers(misbehave, ["raise"], workers=2))
