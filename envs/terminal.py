"""A shell session whose files stay from step to step, graded by checks over them."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from crucible.digests import state_digest
from crucible.env import JSON, StepResult
from crucible.envs.canaries import terminal_canaries
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
from crucible.sandbox import (
    Entry,
    SandboxPolicy,
    Workspace,
    run_in_session,
    session_state,
    tree_digest,
)

__all__ = ["TerminalEnv"]

STEP_COST = 0.05

_TEXT = {"type": "string"}
_CHECK_SCHEMA = {
    "type": "object",
    "properties": {
        "check": {
            "type": "string",
            "enum": [
                "file_equals",
                "file_contains",
                "file_matches",
                "file_exists",
                "file_absent",
                "command_succeeds",
            ],
        },
        "name": _TEXT,
        "path": _TEXT,
        "text": _TEXT,
        "pattern": _TEXT,
        "command": _TEXT,
        "weight": {"type": "number", "minimum": 0},
    },
    "required": ["check"],
    "additionalProperties": False,
}
_NEEDED = {
    "file_equals": ("path", "text"),
    "file_contains": ("path", "text"),
    "file_matches": ("path", "pattern"),
    "file_exists": ("path",),
    "file_absent": ("path",),
    "command_succeeds": ("command",),
}

Goal = Callable[[dict[str, str]], bool]
Tree = dict[str, Entry]


@register("terminal")
class TerminalEnv(ShellEnvironment):
    """A shell over a workspace that keeps its files, in a sandbox; graded by declared checks.

    ``goal`` is a list of checks: ``file_equals`` and ``file_contains`` (path, text),
    ``file_matches`` (path, pattern: a POSIX extended regular expression), ``file_exists`` and
    ``file_absent`` (path), ``command_succeeds`` (command, run in a second, fresh box over a copy
    of the files). Each has a ``weight`` (1.0) and may have a ``name``.

    A step's reward is what it adds to the best weighted fraction of passing checks so far, less
    0.05 unless all pass, which ends the episode. Every command runs in a box of its own; working
    folder, variables and functions of the shell are carried from command to command.

    A live callable ``goal(files)`` is accepted in Python; data cannot rebuild such a world.
    """

    env_version = "1"
    seeded = False
    needs_sandbox = True
    max_steps = 20
    toolchain_needs = ("bash", "coreutils", "machine", "pin", "python")
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "files": FILES_SCHEMA,
            "task": _TEXT,
            "goal": {"type": "array", "items": _CHECK_SCHEMA, "minItems": 1},
            "timeout": {"type": "number", "minimum": 0.001},
        },
        "required": ["files", "task", "goal"],
        "additionalProperties": False,
    }
    system_prompt = (
        "You work in a Linux shell on the files in your home folder. Files, the working folder, "
        "variables and functions stay from command to command; background processes end with "
        "their command. There is no network."
    )

    def __init__(
        self,
        files: Mapping[str, str],
        task: str,
        goal: Goal | Sequence[Mapping[str, Any]],
        timeout: float = 10.0,
    ) -> None:
        """Raises:
        ValueError: if the time-out is not positive or a check lacks what it needs.
        """
        if timeout <= 0:
            raise ValueError("timeout must be positive")
        self.files, self.task, self.timeout = dict(files), task, timeout
        self.live = callable(goal)
        self._goal = goal if callable(goal) else None
        self.checks = [] if callable(goal) else [_checked(check) for check in goal]
        self._workspace: Workspace | None = None
        self._start()

    def _start(self) -> None:
        self._tree: Tree = {}
        self._session = b""
        self._passed: dict[str, bool] = {}
        self._best = 0.0
        self._solved = False

    def kwargs(self) -> dict[str, Any]:
        goal = {} if self.live else {"goal": self.checks}
        return {"files": self.files, "task": self.task, "timeout": self.timeout, **goal}

    def reset(self, seed: int) -> dict[str, Any]:
        self.close()
        self._start()
        policy = SandboxPolicy().lowered(timeout_s=self.timeout)
        self._workspace = fresh_workspace(self.files, policy)
        self._tree = self._workspace.read()
        return {"task": self.task, "files": dict(self.files)}

    def step(self, action: Any) -> StepResult:
        if self._workspace is None:
            raise RuntimeError("reset() comes before step()")
        argv = argv_of(action)
        if argv is None:
            observation: dict[str, Any] = {"error": "a command is a string or a list of strings"}
        else:
            command = action if isinstance(action, str) else shlex.join(argv)
            observation = observe(run_in_session(self._workspace, command))
            self._tree = self._workspace.read()
            self._session = session_state(self._workspace)
        reward = self._grade()
        info: dict[str, Any] = {"solved": self._solved}
        if not self.live:
            info |= {"checks": dict(self._passed), "score": self._best}
        return StepResult(observation, reward, self._solved, info)

    def _grade(self) -> float:
        """Grade the files as they are; the reward for it."""
        if self._goal is not None:
            self._solved = bool(self._goal(_texts(self._tree)))
            return 1.0 if self._solved else -STEP_COST
        self._passed = self._results()
        total = math.fsum(check["weight"] for check in self.checks)
        earned = math.fsum(c["weight"] for c in self.checks if self._passed[c["name"]])
        score = earned / total if total else 1.0
        self._solved = all(self._passed.values())
        gain = max(0.0, score - self._best)
        self._best = max(self._best, score)
        return gain if self._solved else gain - STEP_COST

    def _results(self) -> dict[str, bool]:
        """Check name → passed. What must run does so in a box of its own, over a copy."""
        results = {
            check["name"]: _holds(check, self._tree) for check in self.checks if not _runs(check)
        }
        running = [check for check in self.checks if _runs(check)]
        if running:
            files = {p: e for p, e in self._tree.items() if _safe(p, e)}
            for check in running:
                with fresh_workspace(files, SandboxPolicy()) as copy:
                    results[check["name"]] = run(copy, _check_argv(check)).ok
        return {check["name"]: results[check["name"]] for check in self.checks}

    def digest(self) -> str:
        passed = ",".join(name for name, ok in self._passed.items() if ok)
        session = hashlib.sha256(self._session).hexdigest()
        state = (tree_digest(self._tree), session, passed, repr(self._best), str(self._solved))
        return state_digest("terminal", *state)

    def canaries(self) -> dict[str, list[Any]]:
        return terminal_canaries(self.checks, self.files, self.task)

    def success(self) -> bool:
        return self._solved

    def close(self) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def render(self, observation: Any) -> str:
        if isinstance(observation, dict) and "task" in observation:
            files = "\n".join(f"- {path}" for path in sorted(observation["files"]))
            return f"{observation['task']}\n\nFiles in your home folder:\n{files or '(none)'}"
        return render_command(observation) or super().render(observation)


def _checked(check: Mapping[str, Any]) -> dict[str, Any]:
    kind = check.get("check")
    needed = _NEEDED.get(str(kind))
    if needed is None:
        raise ValueError(f"check {kind!r} is unknown (known: {', '.join(_NEEDED)})")
    missing = [name for name in needed if name not in check]
    if missing:
        raise ValueError(f"check {kind} needs {missing[0]!r}")
    name = check.get("name") or f"{kind} {check.get('path') or check.get('command')}"
    return {**check, "name": name, "weight": float(check.get("weight", 1.0))}


def _runs(check: Mapping[str, Any]) -> bool:
    return check["check"] in ("file_matches", "command_succeeds")


def _check_argv(check: Mapping[str, Any]) -> list[str]:
    if check["check"] == "file_matches":
        return ["grep", "-Eq", "-e", check["pattern"], "--", check["path"]]
    return ["bash", "-c", check["command"]]


def _holds(check: Mapping[str, Any], tree: Tree) -> bool:
    entry = tree.get(check["path"])
    match check["check"]:
        case "file_exists":
            return entry is not None
        case "file_absent":
            return entry is None
    if entry is None or entry.kind != "file":
        return False
    text: bytes = check["text"].encode()
    return entry.data == text if check["check"] == "file_equals" else text in entry.data


def _safe(path: str, entry: Entry) -> bool:
    """Whether a file can be copied for a check: names that hide what they are cannot."""
    from crucible.sandbox import check_path

    try:
        check_path(path)
    except ValueError:
        return False
    return entry.kind == "file"


def _texts(tree: Tree) -> dict[str, str]:
    return {
        path: entry.data.decode("utf-8", "backslashreplace")
        for path, entry in tree.items()
        if entry.kind == "file"
    }
