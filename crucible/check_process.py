"""The program that re-runs episodes under changed conditions: ``python -m crucible.check_process``.

It reads one JSON object from standard input – modules to import, the search path, jobs and what to
change – and writes the transcripts of each job as JSON to what was standard output.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from typing import Any

import orjson

from crucible.clocks import hold_clock, shift_clock
from crucible.env import Environment
from crucible.episodes import describe_error, rerun
from crucible.registry import import_module_for_environments, make

__all__ = ["main"]


def main() -> None:
    """Serve one request."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = orjson.loads(sys.stdin.buffer.read())
    sys.path[:] = request["path"]
    change = request["change"]
    _change_process(change)
    if request["numpy"]:
        importlib.import_module("numpy")  # an environment uses it: its numbers can be seeded
    for module in request["imports"]:
        import_module_for_environments(module)
    jobs = list(enumerate(request["jobs"]))
    if change["again"] == "backwards":
        jobs.reverse()
    kept: dict[str, Environment] = {}
    results: dict[int, Any] = {}
    for index, job in jobs:
        results[index] = _transcripts(job, kept, change)
    answers.write(orjson.dumps([results[index] for index in range(len(jobs))]))
    answers.flush()
    for env in kept.values():
        env.close()


def _change_process(change: dict[str, Any]) -> None:
    """Before any environment is imported, so that ``from time import time`` is caught too."""
    if change["one_processor"]:
        _change_processors()
    if "held_time_s" in change:
        hold_clock(change["held_time_s"] + change["clock_offset_s"])
    elif change["clock_offset_s"]:
        shift_clock(change["clock_offset_s"])


def _transcripts(
    job: dict[str, Any], kept: dict[str, Environment], change: dict[str, Any]
) -> list[Any]:
    """What a fresh environment says – or, ``again``, one that is kept and had part of an episode
    of another seed before; ``backwards`` also repeats the episode at once."""

    def transcript(env: Environment) -> Any:
        _seed_global_numbers(change["random_seed"])
        return rerun(env, job["seed"], action_texts=job["actions"]).to_dict()

    try:
        if change["again"] == "no":
            env = make(job["env_id"], job["kwargs"])
            try:
                return [transcript(env)]
            finally:
                env.close()
        if job["world"] not in kept:
            kept[job["world"]] = make(job["env_id"], job["kwargs"])
            rerun(kept[job["world"]], job["seed"] + 1, action_texts=job["actions"][:2])
        env = kept[job["world"]]
        return [transcript(env) for _ in range(2 if change["again"] == "backwards" else 1)]
    except Exception as error:
        return [{"error": describe_error(error)}]


def _change_processors() -> None:
    """One processor; where there is no more than one anyway, Python's functions say two."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    number = 1
    if min(len(allowed), os.cpu_count() or 1) == 1:
        number = 2
        os.sched_getaffinity = lambda pid: set(range(number))
    os.cpu_count = lambda: number


def _seed_global_numbers(seed: int) -> None:
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


if __name__ == "__main__":
    main()
