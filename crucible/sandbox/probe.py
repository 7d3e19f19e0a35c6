"""Whether boxes work on this machine: the whole real command line, with canaries."""

from __future__ import annotations

import functools
import socket
import tempfile
from pathlib import Path

from crucible.errors import SandboxUnavailableError
from crucible.sandbox.box import run_in_box
from crucible.sandbox.policy import SandboxPolicy
from crucible.sandbox.workspace import Workspace

__all__ = ["HOW", "box_problem", "require_box"]

HOW = (
    "Commands run only in isolation. Install it with  pip install 'crucible-rl[sandbox]'  or  "
    "apt-get install bubblewrap; where user namespaces are restricted (Ubuntu 24.04, CI runners) "
    "run  sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
_CANARIES = """
set -u
cat "$1" 2>/dev/null && echo "a file of the host can be read"
touch /usr/canary 2>/dev/null && echo "/usr can be written"
touch /etc/canary 2>/dev/null && echo "/etc can be written"
(exec 3<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null && echo "the host's network can be reached"
count=0; for p in /proc/[0-9]*; do count=$((count + 1)); done
[ "$count" -lt 8 ] || echo "the host's processes can be seen"
[ "$(ulimit -u)" -le 64 ] || echo "the number of processes is not limited"
grep -q "^Seccomp:.2" /proc/self/status || echo "system calls are not filtered"
echo done
"""


@functools.cache
def box_problem() -> str | None:
    """Why boxes do not work here, as one sentence; None if they do. Probed once a process."""
    try:
        with (
            tempfile.NamedTemporaryFile("w", prefix="crucible-canary-") as canary,
            socket.create_server(("127.0.0.1", 0)) as listener,
            Workspace(SandboxPolicy()) as workspace,
        ):
            canary.write("secret")
            canary.flush()
            Path(canary.name).chmod(0o644)
            port = str(listener.getsockname()[1])
            argv = ["bash", "-c", _CANARIES, "probe", canary.name, port]
            result = run_in_box(workspace, argv)
    except SandboxUnavailableError as error:
        return str(error)
    if result.stdout == b"done\n":
        return None
    seen = result.stdout.decode("utf-8", "replace").removesuffix("done\n").strip()
    failure = result.stderr.decode("utf-8", "replace").strip()
    return f"the box is not tight here: {seen or failure or result.stopped or result.exit_code}"


def require_box() -> None:
    """Nothing, if boxes work here.

    Raises:
        SandboxUnavailableError: if they do not, with the way to get them.
    """
    problem = box_problem()
    if problem is not None:
        raise SandboxUnavailableError(f"no sandbox on this machine: {problem}. {HOW}")
