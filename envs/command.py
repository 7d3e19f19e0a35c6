"""A single command over fixed files, graded by its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from crucible.digests import state_digest
from crucible.env import JSON, StepResult
from crucible.envs.canaries import command_canaries
from crucible.envs.commands import (
    FILES_SCHEMA,
    ShellEnvironment,
    argv_of,
    fresh_workspace,
    observe,
    render_command,
    run,
)
from crucible.registry import register
from crucible.sandbox import SandboxPolicy

__all__ = ["CommandEnv"]


@register("command")
class CommandEnv(ShellEnvironment):
    """One command at a time over the same files, in a sandbox; graded by exit status and output.

    The reward is 1.0 where the command exits 0 and its stripped stdout equals
    ``expected_stdout``, which ends the episode; −0.1 otherwise. Every command starts from the
    files as they were given.
    """

    env_version = "1"
    seeded = False
    needs_sandbox = True
    max_steps = 10
    toolchain_needs = ("bash", "coreutils", "machine", "pin", "python")
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "files": FILES_SCHEMA,
            "task": {"type": "string"},
            "expected_stdout": {"type": "string"},
            "timeout": {"type": "number", "minimum": 0.001},
        },
        "required": ["files", "task", "expected_stdout"],
        "additionalProperties": False,
    }
    system_prompt = (
        "You solve a task with one shell command over the given files. Its standard output must "
        "be exactly what the task asks for. Every command starts from the same files."
    )

    def __init__(
        self, files: Mapping[str, str], task: str, expected_stdout: str, timeout: float = 10.0
    ) -> None:
        """Raises:
        ValueError: if the time-out is not positive.
        """
        if timeout <= 0:
            raise ValueError("timeout must be positive")
        self.files, self.task = dict(files), task
        self.expected_stdout, self.timeout = expected_stdout, timeout
        self._attempts = 0
        self._solved = False
        self._last = ""

    def kwargs(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "task": self.task,
            "expected_stdout": self.expected_stdout,
            "timeout": self.timeout,
        }

    def reset(self, seed: int) -> dict[str, Any]:
        self._attempts, self._solved, self._last = 0, False, ""
        return {"task": self.task, "files": dict(self.files)}

    def step(self, action: Any) -> StepResult:
        self._attempts += 1
        argv = argv_of(action)
        if argv is None:
            observation: dict[str, Any] = {"error": "a command is a string or a list of strings"}
            self._solved = False
        else:
            policy = SandboxPolicy().lowered(timeout_s=self.timeout)
            with fresh_workspace(self.files, policy) as workspace:
                result = run(workspace, argv)
            observation = observe(result)
            self._solved = result.ok and observation["stdout"].strip() == self.expected_stdout
        self._last = str(sorted(observation.items()))
        return StepResult(
            observation=observation,
            reward=1.0 if self._solved else -0.1,
            done=self._solved,
            info={"correct": self._solved, "attempts": self._attempts},
        )

    def digest(self) -> str:
        return state_digest("command", str(self._attempts), str(self._solved), self._last)

    def canaries(self) -> dict[str, list[Any]]:
        return command_canaries(self.files, self.task, self.expected_stdout)

    def success(self) -> bool:
        return self._solved

    def render(self, observation: Any) -> str:
        if isinstance(observation, dict) and "task" in observation:
            files = "\n".join(f"--- {p}\n{text}" for p, text in observation["files"].items())
            return f"{observation['task']}\n\nFiles:\n{files}"
        return render_command(observation) or super().render(observation)
