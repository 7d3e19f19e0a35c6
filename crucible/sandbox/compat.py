"""The sandbox names of crucible-rl 0.2.0: for code that you trust, run as you."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from crucible.sandbox.files import materialize

__all__ = ["DockerSandbox", "GradeResult", "Sandbox", "SubprocessSandbox", "command_grader"]

_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


@dataclass(slots=True)
class GradeResult:
    """The outcome of a command; ``passed`` is exit status 0."""

    passed: bool
    exit_code: int
    stdout: str
    stderr: str


@runtime_checkable
class Sandbox(Protocol):
    """Runs a command over files and says how it ended."""

    def run(self, files: dict[str, str], command: list[str]) -> GradeResult:
        """The outcome of ``command`` in a folder that holds ``files``."""


class SubprocessSandbox:
    """Runs commands as ordinary child processes **without isolation**, as crucible-rl 0.2.0 did.

    Only for code that you trust. The bundled environments never use it.
    """

    def __init__(self, timeout: float = 30.0) -> None:
        if timeout <= 0:
            raise ValueError("timeout must be positive")
        self.timeout = timeout

    def run(self, files: dict[str, str], command: list[str]) -> GradeResult:
        """The outcome of ``command`` in a fresh folder that holds ``files``; never raises."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                materialize(Path(folder), files)
            except ValueError as error:
                return GradeResult(False, -1, "", str(error))
            return self.run_in(Path(folder), command)

    def run_in(self, root: Path, command: list[str]) -> GradeResult:
        """The outcome of ``command`` in the folder ``root``; never raises."""
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        return _run(command, root, timeout=self.timeout, environment=environment)


class DockerSandbox:
    """Runs commands in a throw-away container; a grade that does not pass where Docker is not."""

    def __init__(
        self,
        image: str = "python:3.12-slim",
        *,
        timeout: float = 30.0,
        docker: str = "docker",
        network: str = "none",
        memory: str = "512m",
        pids_limit: int = 256,
    ) -> None:
        if timeout <= 0:
            raise ValueError("timeout must be positive")
        self.image, self.timeout, self.docker = image, timeout, docker
        self.network, self.memory, self.pids_limit = network, memory, pids_limit

    def docker_command(self, host_dir: Path, command: list[str]) -> list[str]:
        """The argument list of ``docker run``."""
        limits = ["--memory", self.memory, "--pids-limit", str(self.pids_limit)]
        folder = ["-v", f"{host_dir}:/work", "-w", "/work"]
        network = ["--network", self.network]
        return [self.docker, "run", "--rm", *network, *limits, *folder, self.image, *command]

    def run(self, files: dict[str, str], command: list[str]) -> GradeResult:
        """The outcome of ``command`` over ``files``; never raises."""
        if shutil.which(self.docker) is None:
            return GradeResult(False, -1, "", f"{self.docker} is not available")
        with tempfile.TemporaryDirectory() as folder:
            try:
                materialize(Path(folder), files)
            except ValueError as error:
                return GradeResult(False, -1, "", str(error))
            argv = self.docker_command(Path(folder), command)
            return _run(argv, Path(folder), timeout=self.timeout, environment=os.environ)


def command_grader(command: list[str], sandbox: Sandbox | None = None) -> Callable[[Path], bool]:
    """A grader of files that passes where ``command`` exits 0 over them."""
    box = sandbox or SubprocessSandbox()

    def grade(root: Path) -> bool:
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        files = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
        return box.run(files, command).passed

    return grade


def _run(
    command: Sequence[str], root: Path, *, timeout: float, environment: Mapping[str, str]
) -> GradeResult:
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return GradeResult(False, -1, "", f"timed out after {timeout}s")
    except (OSError, ValueError) as error:
        return GradeResult(False, -1, "", f"launch error: {error}")
    stdout, stderr = (
        data.decode("utf-8", "backslashreplace") for data in (done.stdout, done.stderr)
    )
    return GradeResult(done.returncode == 0, done.returncode, stdout, stderr)
