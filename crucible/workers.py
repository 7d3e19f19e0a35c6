"""Worker processes that survive their jobs: one that dies or hangs is replaced.

A worker is this interpreter running :mod:`crucible.worker_process`, as it is or in a box. Jobs go
to it pickled; results come back as JSON, because what ran a stranger's episode may say anything and
must not be unpickled.
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
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from crucible.errors import EpisodeError, SandboxUnavailableError
from crucible.registry import user_modules

if TYPE_CHECKING:
    from crucible.sandbox.hosting import BoxedPython

__all__ = ["WorkerCrew", "WorkerDiedError", "run_in_workers"]

Job = TypeVar("Job")

QUEUED_JOBS_PER_WORKER = 3
JOB_TIMEOUT_S = 900.0
MAX_RESULT_BYTES = 1024 * 1024 * 1024
_MODULE = "crucible.worker_process"


class WorkerDiedError(EpisodeError):
    """A worker process died, or did not answer in time, while it ran a job."""


class WorkerCrew:
    """Workers that run one function, kept from call to call: a plain and a boxed one for each
    thread at a time. Close it, or use it as a context manager."""

    def __init__(self, function: Callable[[Job], Any]) -> None:
        """``function`` is named by its module and name, so it stands at the top of a module of
        ours."""
        self._function = f"{function.__module__}:{function.__qualname__}"
        self._lock = threading.Lock()
        self._idle: dict[bool, list[_Worker]] = {False: [], True: []}
        self._workers: set[_Worker] = set()
        self._closed = False

    def run(self, job: Any, *, boxed: bool = False, attempts: int = 2) -> Any:
        """The result of a job, as plain JSON values.

        Raises:
            WorkerDiedError: if as many workers as ``attempts`` died of it.
            SandboxUnavailableError: if ``boxed`` and no box can be made here.
        """
        for attempt in range(attempts):
            worker = self._taken(boxed=boxed)
            try:
                result = worker.run(job)
            except WorkerDiedError:
                self._drop(worker)
                if self._closed or attempt == attempts - 1:
                    raise
            except BaseException:
                self._drop(worker)
                raise
            else:
                with self._lock:
                    self._idle[boxed].append(worker)
                return result
        raise WorkerDiedError("no attempt was made")

    def _taken(self, *, boxed: bool) -> _Worker:
        with self._lock:
            if self._idle[boxed]:
                return self._idle[boxed].pop()
        worker = _Worker(self._function, boxed=boxed)
        with self._lock:
            self._workers.add(worker)
            is_late = self._closed
        if is_late:
            self._drop(worker)
            raise WorkerDiedError("the workers were closed")
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.close()
        with self._lock:
            self._workers.discard(worker)

    def close(self) -> None:
        """End every worker, whatever it is doing."""
        self._closed = True
        for worker in list(self._workers):
            self._drop(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def run_in_workers(
    function: Callable[[Job], Any],
    jobs: Iterable[Job],
    *,
    workers: int,
    on_death: Callable[[Job, Callable[[Job], Any]], Any] | None = None,
    is_boxed: Callable[[Job], bool] | None = None,
    crew: WorkerCrew | None = None,
) -> Iterator[Any]:
    """The results of ``function`` over ``jobs``, in order, as plain JSON values.

    Few jobs are in flight at a time. ``is_boxed`` says which jobs run in a box, none if it is not
    given; the others run in plain processes, and in this one for one worker. Workers import the
    modules of the user's own environments that were imported here. A job whose worker dies is
    given to another; if that one dies too, ``on_death`` gives its result from the job and a
    function that tries a (smaller) job once more. ``crew`` lends workers that are there already.

    Raises:
        WorkerDiedError: if two workers died of a job and there is no ``on_death``.
        SandboxUnavailableError: if a box is needed and cannot be made here.
    """
    own = crew or WorkerCrew(function)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="crucible-worker")
    pending: deque[Future[Any]] = deque()
    finished = False
    try:
        for job in jobs:
            boxed = is_boxed is not None and is_boxed(job)
            if boxed or workers > 1:
                pending.append(pool.submit(_run_job, own, job, boxed, on_death))
            else:
                pending.append(_finished(function(job)))
            if len(pending) >= workers * QUEUED_JOBS_PER_WORKER:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        finished = True
    finally:
        for future in pending:
            future.cancel()
        if crew is None or not finished:
            own.close()
        pool.shutdown(wait=True)


def _run_job(
    crew: WorkerCrew,
    job: Job,
    boxed: bool,
    on_death: Callable[[Job, Callable[[Job], Any]], Any] | None,
) -> Any:
    try:
        return crew.run(job, boxed=boxed)
    except WorkerDiedError:
        if on_death is None:
            raise
        return on_death(job, lambda smaller: crew.run(smaller, boxed=boxed, attempts=1))


def _finished(result: Any) -> Future[Any]:
    """A future of what is known already."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


class _Worker:
    """One worker process."""

    def __init__(self, function: str, *, boxed: bool) -> None:
        self._box: BoxedPython | None = None
        if boxed:
            from crucible.sandbox.hosting import BoxedPython

            self._box = BoxedPython(_MODULE, user_modules=user_modules())
            self._process = self._box.process
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
            )
        with contextlib.suppress(BrokenPipeError):
            path = list(sys.path)
            self._send({"function": function, "imports": user_modules(), "path": path})
        try:
            self._receive()
        except (OSError, ValueError):
            self.close()
            if boxed:
                raise SandboxUnavailableError(
                    "the box cannot run this Python: its files must be readable by everybody"
                ) from None
            raise WorkerDiedError("a worker process did not start") from None

    def run(self, job: Any) -> Any:
        """The result of a job.

        Raises:
            WorkerDiedError: if the process died, or did not answer in time.
        """
        timer = threading.Timer(JOB_TIMEOUT_S, self.close)
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
        if self._box is not None:
            self._box.close()
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
