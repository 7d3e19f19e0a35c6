"""A pool of worker processes that keeps the order of its jobs."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from crucible.errors import EpisodeError
from crucible.registry import import_module_for_environments

__all__ = ["run_in_workers"]

Job = TypeVar("Job")
Result = TypeVar("Result")

QUEUED_JOBS_PER_WORKER = 3


def run_in_workers(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    workers: int,
    imports: Sequence[str] = (),
) -> Iterator[Result]:
    """The results of ``function`` over ``jobs``, in order; few jobs are in flight at a time.

    One worker runs in this process. ``imports`` are modules of the user's own
    environments that workers import first.

    Raises:
        EpisodeError: if a worker process died.
    """
    if workers <= 1:
        yield from map(function, jobs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, context, initializer=_import_all, initargs=(tuple(imports),)
    ) as pool:
        pending: deque[Future[Result]] = deque()
        waiting = iter(jobs)
        try:
            for job in waiting:
                pending.append(pool.submit(function, job))
                if len(pending) >= workers * QUEUED_JOBS_PER_WORKER:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise EpisodeError("a worker process died while it ran an episode") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        import_module_for_environments(module)
