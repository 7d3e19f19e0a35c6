"""Worker processes that survive their jobs: one that dies or hangs is replaced.

A worker is this interpreter running :mod:`crucible.worker_process`. Jobs go to it pickled; results
come back as JSON, because what ran a stranger's episode may say anything and must not be unpickled.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import orjson

from crucible.errors import EpisodeError
from crucible.registry import user_modules

__all__ = ["WorkerDiedError", "run_in_workers"]

Job = TypeVar("Job")

QUEUED_JOBS_PER_WORKER = 3
JOB_TIMEOUT_S = 900.0
MAX_RESULT_BYTES = 1024 * 1024 * 1024


class WorkerDiedError(EpisodeError):
    """A worker process died, or did not answer in time, while it ran a job."""


def run_in_workers(
    function: Callable[[Job], Any],
    jobs: Iterable[Job],
    *,
    workers: int,
    on_death: Callable[[Job, Callable[[Job], Any]], Any] | None = None,
) -> Iterator[Any]:
    """The results of ``function`` over ``jobs``, in order, as plain JSON values.

    Few jobs are in flight at a time. One worker runs in this process. ``function`` is named by
    its module and name, so it stands at the top of a module of ours. Workers import the modules
    of the user's own environments that were imported here. A job whose worker dies is given to
    another; if that one dies too, ``on_death`` gives its result from the job and a function that
    tries a (smaller) job once more.

    Raises:
        WorkerDiedError: if two workers died of a job and there is no ``on_death``.
    """
    if workers <= 1:
        yield from map(function, jobs)
        return
    crew = _Crew(f"{function.__module__}:{function.__qualname__}")

    def run(job: Job) -> Any:
        try:
            return crew.run(job, attempts=2)
        except WorkerDiedError:
            if on_death is None:
                raise
            return on_death(job, lambda smaller: crew.run(smaller, attempts=1))

    pool = ThreadPoolExecutor(workers, thread_name_prefix="crucible-worker")
    pending: deque[Future[Any]] = deque()
    try:
        for job in jobs:
            pending.append(pool.submit(run, job))
            if len(pending) >= workers * QUEUED_JOBS_PER_WORKER:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        crew.close()
        pool.shutdown(wait=True)


class _Crew:
    """One worker process for each thread that asks."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._local = threading.local()
        self._workers: list[_Worker] = []
        self._closed = False

    def run(self, job: Any, *, attempts: int) -> Any:
        """The result of a job.

        Raises:
            WorkerDiedError: if as many workers as ``attempts`` died of it.
        """
        for attempt in range(attempts):
            worker = getattr(self._local, "worker", None)
            if worker is None:
                worker = _Worker(self._function)
                self._local.worker = worker
                self._workers.append(worker)
            try:
                return worker.run(job)
            except WorkerDiedError:
                worker.close()
                self._workers.remove(worker)
                self._local.worker = None
                if self._closed or attempt == attempts - 1:
                    raise
        raise WorkerDiedError("no attempt was made")

    def close(self) -> None:
        self._closed = True
        for worker in list(self._workers):
            worker.close()


class _Worker:
    """One worker process."""

    def __init__(self, function: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "crucible.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )
        with contextlib.suppress(BrokenPipeError):
            path = list(sys.path)
            self._send({"function": function, "imports": user_modules(), "path": path})

    def run(self, job: Any) -> Any:
        """The result of a job.

        Raises:
            WorkerDiedError: if the process died, or did not answer in time.
        """
        timer = threading.Timer(JOB_TIMEOUT_S, self._process.kill)
        timer.start()
        try:
            self._send(job)
            return orjson.loads(self._receive())
        except (OSError, ValueError) as error:
            raise WorkerDiedError(f"a worker process died while it ran a job ({error})") from error
        finally:
            timer.cancel()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        data = pickle.dumps(message)
        self._process.stdin.write(len(data).to_bytes(8, "big") + data)
        self._process.stdin.flush()

    def _receive(self) -> bytes:
        assert self._process.stdout is not None
        head = self._process.stdout.read(8)
        size = int.from_bytes(head, "big")
        if len(head) < 8 or size > MAX_RESULT_BYTES:
            raise ValueError("it gave no answer")
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise ValueError("its answer breaks off")
        return data

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
