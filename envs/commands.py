"""What the environments that run commands have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crucible.sandbox import BoxResult, Entry, SandboxPolicy, Workspace, run_in_box

__all__ = ["FILES_SCHEMA", "argv_of", "command_from_text", "fresh_workspace", "observe", "run"]

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
