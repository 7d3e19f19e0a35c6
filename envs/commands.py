"""What the environments that run commands have in common."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from crucible.env import Environment
from crucible.sandbox import BoxResult, Entry, SandboxPolicy, Workspace, run_in_box

__all__ = [
    "FILES_SCHEMA",
    "ShellEnvironment",
    "argv_of",
    "fresh_workspace",
    "observe",
    "render_command",
    "run",
]

FILES_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}

_FENCE = re.compile(r"```(?:bash|sh|shell|console)?\s*\n(.*?)```", re.DOTALL)


def argv_of(action: Any) -> list[str] | None:
    """The argument list of an action: a list of strings, or one string for bash; None for
    anything else."""
    if isinstance(action, str):
        return None if "\0" in action else ["bash", "-c", action]
    if isinstance(action, list) and action and all(isinstance(word, str) for word in action):
        return None if any("\0" in word for word in action) else list(action)
    return None


def command_from_text(text: str) -> str | None:
    """The command in a model's plain text: a fenced block, or the text itself."""
    found = _FENCE.search(text)
    command = (found[1] if found else text).strip()
    return command or None


def fresh_workspace(
    files: Mapping[str, str | Entry], policy: SandboxPolicy | None = None
) -> Workspace:
    """A new workspace that holds ``files``; of a snapshot, only its regular files.

    Raises:
        SandboxUnavailableError: if there is no isolation here.
        ValueError: for a path that is not safe.
    """
    workspace = Workspace(policy)
    try:
        workspace.write(
            {
                path: Entry("file", content.encode()) if isinstance(content, str) else content
                for path, content in files.items()
                if isinstance(content, str) or content.kind == "file"
            }
        )
    except BaseException:
        workspace.close()
        raise
    return workspace


def run(workspace: Workspace, argv: Sequence[str]) -> BoxResult:
    """Run ``argv`` in a fresh box; a program that does not exist is a result like any other."""
    return run_in_box(workspace, argv)


def observe(result: BoxResult) -> dict[str, Any]:
    """What an agent sees of a command. Where a limit stopped it, its output is left out: how far
    it came depends on the machine."""
    if result.stopped is not None:
        return {"stdout": "", "stderr": "", "exit_code": -9, "stopped": result.stopped}
    return {
        "stdout": result.stdout.decode("utf-8", "backslashreplace"),
        "stderr": result.stderr.decode("utf-8", "backslashreplace"),
        "exit_code": result.exit_code,
    }


class ShellEnvironment(Environment):
    """An environment whose actions are commands: one tool, ``run``."""

    def tools(self) -> list[dict[str, Any]]:
        return [
            {
                "type": "function",
                "function": {
                    "name": "run",
                    "description": "Run one command in bash over the files.",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "command": {"type": "string", "description": "The command."}
                        },
                        "required": ["command"],
                        "additionalProperties": False,
                    },
                },
            }
        ]

    def action_from_call(self, name: str, arguments: dict[str, Any]) -> Any:
        return arguments["command"]

    def call_from_action(self, action: Any) -> tuple[str, dict[str, Any]]:
        return "run", {"command": as_shell(action)}

    def action_from_text(self, text: str) -> str | None:
        return command_from_text(text)


def render_command(observation: Any) -> str | None:
    """The text of a command's outcome, as a terminal would show it; None for anything else."""
    if not (isinstance(observation, dict) and "exit_code" in observation):
        return None
    parts = [observation["stdout"], observation["stderr"]]
    if "stopped" in observation:
        parts.append(f"[stopped: over the limit of {observation['stopped']}]")
    elif observation["exit_code"] != 0:
        parts.append(f"[exit status {observation['exit_code']}]")
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts if part) or "\n"


def as_shell(action: Any) -> str:
    """The shell command that an argument list stands for."""
    return action if isinstance(action, str) else shlex.join(action)
