"""The program that re-runs episodes under changed conditions: ``python -m crucible.check_process``.

It reads one JSON object from standard input – modules to import, the search path, jobs and what to
change – and writes the transcripts as JSON to what was standard output.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

import orjson

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
    if change.get("one_processor"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if change.get("clock_offset_s"):
        _shift_clock(change["clock_offset_s"])
    for module in request["imports"]:
        import_module_for_environments(module)
    jobs = list(enumerate(request["jobs"]))
    if change.get("reverse"):
        jobs.reverse()
    kept: dict[str, Any] = {}
    results: dict[int, Any] = {}
    for index, job in jobs:
        random.seed(change.get("random_seed"))
        results[index] = _rerun(job, kept if change.get("same_instance") else None)
    answers.write(orjson.dumps([results[index] for index in range(len(jobs))]))
    answers.flush()


def _rerun(job: dict[str, Any], kept: dict[str, Any] | None) -> Any:
    """The transcript of one job; with ``kept``, in an environment that has had an episode of
    another seed before."""
    try:
        env = None if kept is None else kept.get(job["world"])
        if env is None:
            env = make(job["env_id"], job["kwargs"])
            if kept is not None:
                kept[job["world"]] = env
                rerun(env, job["seed"] + 1, action_texts=job["actions"][:2])
        return rerun(env, job["seed"], action_texts=job["actions"]).to_dict()
    except Exception as error:
        return {"error": describe_error(error)}


def _shift_clock(seconds: float) -> None:
    """Move what Python's own clock functions say of the wall clock; ``datetime`` is built on the
    C library's and stays."""
    real, real_ns, real_localtime = time.time, time.time_ns, time.localtime
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    time.localtime = lambda moment=None: real_localtime(
        real() + seconds if moment is None else moment
    )


if __name__ == "__main__":
    main()
