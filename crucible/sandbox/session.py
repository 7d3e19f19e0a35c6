"""A shell whose state is carried from command to command, each in a fresh box.

What is carried: the working folder, variables (exported or not, arrays too) and functions. What is
not: options of the shell, traps, aliases, jobs. A command that replaces the shell or is killed
leaves the state as it was before it.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence

from crucible.sandbox.box import SESSION, BoxResult, run_in_box
from crucible.sandbox.files import Entry, write_file
from crucible.sandbox.workspace import DROPPED_ID, Workspace

__all__ = ["run_in_session", "session_state"]

MAX_STATE_BYTES = 4 * 1024 * 1024

# Names of bash's own variables, which follow from the shell and not from its user.
_OWN = (
    "BASH*|_|EUID|UID|PPID|SHELLOPTS|PIPESTATUS|FUNCNAME|GROUPS|DIRSTACK|RANDOM|SRANDOM|SECONDS"
    "|EPOCH*|LINENO|COMP_*|HISTCMD|IFS|SHLVL|LD_PRELOAD|CRUCIBLE_CLOCK"
)
_SAVE = (
    "( { builtin declare -p IFS; IFS=$' \\t\\n'; for __n in $(builtin compgen -v); do "
    f'case $__n in __*|{_OWN}) ;; *) builtin declare -p "$__n" ;; esac; done; '
    "builtin declare -f; builtin printf 'builtin cd -- %q\\n' \"$PWD\"; } "
    f">| {SESSION}/state 2>/dev/null )"
)
# On one line, so that the shell counts the lines of the command from 1.
_SCRIPT = (
    f"[ -r {SESSION}/state ] && . {SESSION}/state 2>/dev/null; "
    f"trap {shlex.quote(_SAVE)} EXIT; "
    f'eval "$(<{SESSION}/command)"'
)


def run_in_session(workspace: Workspace, command: str) -> BoxResult:
    """Run ``command`` in bash, after the commands before it in this workspace.

    Raises:
        SandboxUnavailableError: if the box cannot be started.
    """
    owner = DROPPED_ID if workspace.as_root else None
    entry = Entry("file", command.encode("utf-8", "surrogatepass"))
    write_file(workspace.session, "command", entry, owner=owner)
    argv: Sequence[str] = ["bash", "-c", _SCRIPT, "bash"]
    return run_in_box(workspace, argv)


def session_state(workspace: Workspace) -> bytes:
    """What is carried to the next command, as the shell wrote it; empty before the first."""
    folder = os.open(workspace.session, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open("state", flags, dir_fd=folder)
    except OSError:
        return b""
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return b""
        return file.read(MAX_STATE_BYTES)
