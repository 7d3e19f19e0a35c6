"""A repository to edit, graded by running it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from crucible.canonical import canonical_text
from crucible.digests import state_digest
from crucible.env import JSON, Environment, StepResult
from crucible.envs.codecanaries import code_canaries, known_code_canaries
from crucible.envs.commands import FILES_SCHEMA
from crucible.envs.grading import Grade, check_grader, grade
from crucible.registry import register
from crucible.sandbox import check_path, materialize

__all__ = ["CodeTaskEnv"]

WRONG_REWARD = -0.1
MAX_FILES = 200
MAX_FILE_CHARACTERS = 200_000

_TEXT = {"type": "string"}
_CASE_SCHEMA = {
    "type": "object",
    "properties": {"args": {"type": "array"}, "expected": {}, "name": _TEXT},
    "required": ["args", "expected"],
    "additionalProperties": False,
}
_GRADER_SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["calls", "command"]},
        "module": _TEXT,
        "function": _TEXT,
        "cases": {"type": "array", "items": _CASE_SCHEMA, "minItems": 1},
        "command": {"type": "array", "items": _TEXT, "minItems": 1},
        "files": FILES_SCHEMA,
        "num_tests": {"type": "integer", "minimum": 1},
    },
    "required": ["kind"],
    "additionalProperties": False,
}

Grader = Callable[[Path], bool]


@register("code-task")
class CodeTaskEnv(Environment):
    """Files to edit until the grader passes, run in a sandbox.

    An action is an object path → new content; an empty one only runs the grader. ``grader`` is
    one of

    - ``{"kind": "calls", "module": path, "function": name, "cases": [{"args", "expected"}…]}``:
      the function runs in a child, arguments and results cross as JSON, and the comparison is
      outside, type-exact;
    - ``{"kind": "command", "command": ["pytest", …], "files": {…}, "num_tests": n}``: pinned test
      files over the agent's. Tests share a process with what they test (``shared-process``), so
      a candidate that is made to cheat can. Any other command passes where it exits 0.

    A step's reward is what it adds to the best fraction of passing cases or tests so far; −0.1
    where it adds nothing. The episode ends when all pass.

    A live callable ``grader(folder)`` is accepted in Python and runs in this process; data cannot
    rebuild such a world.
    """

    env_version = "1"
    seeded = False
    needs_sandbox = True
    max_steps = 20
    toolchain_needs = ("machine", "pin", "pytest", "python")
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {"files": FILES_SCHEMA, "task": _TEXT, "grader": _GRADER_SCHEMA},
        "required": ["files", "task", "grader"],
        "additionalProperties": False,
    }
    system_prompt = (
        "You edit the files of a small repository until its tests pass. Write whole files; the "
        "tests run after every change and you see which pass."
    )

    def __init__(
        self, files: Mapping[str, str], task: str, grader: Grader | Mapping[str, Any]
    ) -> None:
        """Raises:
        ValueError: if there are no files, or the grader is none.
        """
        if not files:
            raise ValueError("a code task needs at least one file")
        self.files, self.task = dict(files), task
        self.live = callable(grader)
        self._callable = grader if callable(grader) else None
        self.grader = {} if callable(grader) else dict(grader)
        if not self.live:
            check_grader(self.grader)
        self._current: dict[str, str] = {}
        self._best = 0.0
        self._grade: Grade = {}

    def kwargs(self) -> dict[str, Any]:
        grader = {} if self.live else {"grader": self.grader}
        return {"files": self.files, "task": self.task, **grader}

    def reset(self, seed: int) -> dict[str, Any]:
        self._current, self._best = dict(self.files), 0.0
        self._grade = {"score": 0.0, "passed": [], "failed": {}}
        return {"task": self.task, "files": dict(self._current)}

    def step(self, action: Any) -> StepResult:
        problem = self._apply(action)
        if problem is not None:
            info = {"passed": False, "error": problem}
            return StepResult({"error": problem}, WRONG_REWARD, False, info)
        if self._callable is not None:
            self._grade = _live_grade(self._callable, self._current)
        else:
            self._grade = grade(self.grader, self._current)
        score: float = self._grade["score"]
        gain, self._best = score - self._best, max(score, self._best)
        done = score == 1.0
        observation: dict[str, Any] = {"files": dict(self._current)}
        info = {"passed": done}
        if not self.live:
            observation = {"passed": self._grade["passed"], "failed": self._grade["failed"]}
            info |= {"score": score, "process": self.process}
        return StepResult(observation, gain if gain > 0 else WRONG_REWARD, done, info)

    @property
    def process(self) -> str:
        """``separate`` where grading compares outside the candidate's process, else
        ``shared``: see the class."""
        return "separate" if self.grader.get("kind") == "calls" else "shared"

    def _apply(self, action: Any) -> str | None:
        """Apply the edits; why not, if they cannot be."""
        if not isinstance(action, dict):
            return "an action is an object of path and content"
        after = {**self._current, **action}
        for path, content in action.items():
            try:
                check_path(path)
            except ValueError as error:
                return str(error)
            if not isinstance(content, str) or len(content) > MAX_FILE_CHARACTERS:
                return (
                    f"content of {path}: expected text of at most {MAX_FILE_CHARACTERS} characters"
                )
        if len(after) > MAX_FILES:
            return f"expected at most {MAX_FILES} files, found {len(after)}"
        self._current = after
        return None

    def digest(self) -> str:
        state = (canonical_text(self._current), canonical_text(self._grade), repr(self._best))
        return state_digest("code-task", *state)

    def canaries(self) -> dict[str, list[Any]]:
        return {} if self.live else code_canaries(self.files, self.grader)

    def known_canaries(self) -> dict[str, str]:
        return known_code_canaries(self.grader)

    def success(self) -> bool:
        return bool(self._grade) and self._grade["score"] == 1.0

    def tools(self) -> list[dict[str, Any]]:
        return [
            _tool(
                "write_file",
                "Write a whole file, then run the tests.",
                {
                    "path": {"type": "string", "description": "The file's path."},
                    "content": {"type": "string", "description": "Its new content."},
                },
            ),
            _tool("run_tests", "Run the tests on the files as they are.", {}),
        ]

    def render(self, observation: Any) -> str:
        if not isinstance(observation, dict):
            return super().render(observation)
        if "task" in observation:
            files = "\n".join(f"--- {p}\n{text}" for p, text in observation["files"].items())
            return f"{observation['task']}\n\n{files}"
        if "failed" in observation:
            passed, failed = observation["passed"], observation["failed"]
            lines = [f"FAILED {name}: {why}" for name, why in failed.items()]
            return "\n".join([f"{len(passed)} passed, {len(failed)} failed", *lines])
        return super().render(observation)

    def action_from_call(self, name: str, arguments: dict[str, Any]) -> Any:
        return {arguments["path"]: arguments["content"]} if name == "write_file" else {}

    def call_from_action(self, action: Any) -> tuple[str, dict[str, Any]]:
        if isinstance(action, dict) and len(action) == 1:
            ((path, content),) = action.items()
            return "write_file", {"path": path, "content": content}
        return "run_tests", {}


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _live_grade(grader: Grader, files: Mapping[str, str]) -> Grade:
    """A live grader's opinion; one that raises has not passed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            materialize(Path(folder), files)
            passed = bool(grader(Path(folder)))
        except Exception:
            passed = False
    return {"score": float(passed), "passed": [], "failed": {}}
