"""A long-lived Python process in a box: what re-runs a stranger's episodes in our interpreter."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crucible.sandbox.box import box_options, enter_box, filled_pipe, processes_below
from crucible.sandbox.policy import SandboxPolicy
from crucible.sandbox.seccomp import filter_program
from crucible.sandbox.workspace import Workspace

__all__ = ["BoxedPython", "importable_paths"]

WORKER_POLICY = SandboxPolicy(
    address_space_bytes=4096 * 1024 * 1024,
    memory_bytes=2048 * 1024 * 1024,
    num_processes=64,
    num_files=512,
    workspace_bytes=64 * 1024 * 1024,
)

# bwrap ends a box with the thread that started it: these are started by one that stays.
_launching = ThreadPoolExecutor(1, thread_name_prefix="crucible-launcher")


class BoxedPython:
    """``python -m module`` in a box of its own: no network, no files of the host but what can be
    imported, nothing writable but a small folder, and limits on memory and processes.

    ``process`` has pipes for standard input and output; standard error is the caller's.
    """

    def __init__(self, module: str, *, user_modules: Sequence[str] = ()) -> None:
        """Raises:
        SandboxUnavailableError: if no box can be made here.
        """
        paths = importable_paths(user_modules)
        self._workspace = Workspace(WORKER_POLICY, expose=paths)
        try:
            self.process = _launching.submit(self._start, module, paths).result()
        except BaseException:
            self._workspace.close()
            raise

    def _start(self, module: str, paths: Sequence[Path]) -> subprocess.Popen[bytes]:
        options = box_options(self._workspace, for_worker=True)
        searched = [entry for entry in map(os.path.abspath, sys.path) if os.path.isdir(entry)]
        visible = [e for e in searched if any(Path(e).is_relative_to(path) for path in paths)]
        options += ["--setenv", "PYTHONPATH", os.pathsep.join(visible)]
        filter_fd = filled_pipe(filter_program())
        options += ["--seccomp", str(filter_fd)]
        options_fd = filled_pipe(b"".join(os.fsencode(option) + b"\0" for option in options))
        limits = WORKER_POLICY.as_prlimit()
        inner = ["setarch", "-R", "prlimit", *limits, "--", sys.executable, "-m", module]
        argv = [*enter_box(self._workspace), "--args", str(options_fd), "--", *inner]
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(filter_fd, options_fd),
                cwd="/",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                start_new_session=True,
            )
        finally:
            os.close(filter_fd)
            os.close(options_fd)

    def close(self) -> None:
        """End the process and everything in its box."""
        for pid in processes_below(self.process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._workspace.close()


def importable_paths(user_modules: Iterable[str] = ()) -> list[Path]:
    """The files and folders that the box needs so that what can be imported here can be imported
    there: the interpreter, its packages, ours, those of installed environments and suites, and
    the modules that the user named. No folder holds another."""
    found = {Path(sys.prefix), Path(sys.base_prefix).resolve()}
    for entry in sys.path:
        if entry and Path(entry).name in ("site-packages", "dist-packages"):
            found.add(Path(entry).absolute())
    tops = {"crucible", *(module.partition(".")[0] for module in user_modules)}
    for group in ("crucible.environments", "crucible.suites"):
        for entry_point in importlib.metadata.entry_points(group=group):
            tops.add(entry_point.module.partition(".")[0])
    for top in tops:
        found |= _sources_of(top)
    found |= _sources_of_loaded("crucible")
    kept: list[Path] = []
    for path in sorted(found):
        covered = path.is_relative_to("/usr") or any(path.is_relative_to(k) for k in kept)
        if path.exists() and not covered:
            kept.append(path)
    return kept


def _sources_of(module: str) -> set[Path]:
    """Where a top-level module lies: its folders, or its file."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return set()
    if spec is None:
        return set()
    if spec.submodule_search_locations is not None:
        return {Path(location).absolute() for location in spec.submodule_search_locations}
    return {Path(spec.origin).absolute()} if spec.origin and spec.has_location else set()


def _sources_of_loaded(package: str) -> set[Path]:
    """The folders of ``package`` and of its subpackages, which need not lie below it."""
    folders: set[Path] = set()
    for name in (package, f"{package}.envs", f"{package}.commons", f"{package}.cli"):
        with contextlib.suppress(ImportError):
            folders |= _sources_of(name)
    return folders
