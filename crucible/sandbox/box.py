"""One command in a box: bubblewrap with every namespace, no network and hard limits."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crucible.errors import SandboxUnavailableError
from crucible.sandbox.pin import PIN_TARGET, find_pin
from crucible.sandbox.policy import SandboxPolicy
from crucible.sandbox.runtime import SITE, pytest_paths
from crucible.sandbox.seccomp import filter_program
from crucible.sandbox.workspace import DROPPED_ID, PINNED_PROC, Workspace

__all__ = [
    "HOME",
    "SESSION",
    "BoxResult",
    "box_options",
    "enter_box",
    "filled_pipe",
    "processes_below",
    "run_in_box",
]

HOME = "/home/agent"
SESSION = "/run/session"
PROGRAMS = "/opt/crucible/bin"
"""Where boxes have the interpreter that runs Crucible, wherever the host has it."""
POLL_S = 0.05

_ENVIRONMENT = {
    "COLUMNS": "80",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LOGNAME": "agent",
    "PATH": f"{PROGRAMS}:/usr/bin:/bin:/usr/sbin:/sbin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "TMPDIR": "/tmp",
    "TZ": "UTC",
    "USER": "agent",
}


_turns = itertools.count(os.getpid())


@dataclass(frozen=True, slots=True)
class BoxResult:
    """How a command ended. ``exit_code`` is −signal where a signal ended it.

    ``stopped`` says which limit ended it – ``time``, ``output`` or ``memory`` – or is None.
    Outputs hold at most the policy's bytes.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    stopped: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.exit_code == 0 and self.stopped is None


def run_in_box(
    workspace: Workspace,
    argv: Sequence[str],
    *,
    policy: SandboxPolicy | None = None,
    with_pytest: bool = False,
) -> BoxResult:
    """Run ``argv`` in a fresh box over the files of ``workspace``.

    When it returns, no process of the box is left.

    Raises:
        SandboxUnavailableError: if the box cannot be started.
    """
    policy = policy or workspace.policy
    status_read, status_write = os.pipe()
    filter_read = filled_pipe(filter_program())
    with os.fdopen(status_read, "rb") as status:
        try:
            process = subprocess.Popen(
                _launcher(workspace, argv, policy),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(status_write, filter_read),
                cwd="/",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        except OSError as error:
            if error.errno != errno.E2BIG:
                raise
            return BoxResult(126, b"", b"Argument list too long\n")
        finally:
            os.close(status_write)
            os.close(filter_read)
        options = ["--info-fd", str(status_write), "--seccomp", str(filter_read)]
        options += box_options(workspace, with_pytest=with_pytest)
        try:
            _send(process, options)
            result = _collect(process, policy)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if not status.read(1):
            reason = result.stderr.decode("utf-8", "replace").strip()
            raise SandboxUnavailableError(f"bubblewrap cannot make a box here: {reason}")
    workspace.num_commands += 1
    workspace.settle()
    return result


def filled_pipe(data: bytes) -> int:
    """The reading end of a pipe that holds ``data``, which is smaller than any pipe."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(data)
    return read


def _send(process: subprocess.Popen[bytes], options: Sequence[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"".join(os.fsencode(option) + b"\0" for option in options))
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def _launcher(workspace: Workspace, argv: Sequence[str], policy: SandboxPolicy) -> list[str]:
    """The command line up to the box; bwrap reads its options from standard input, so that no
    path of the host shows in the process list of the box."""
    # bwrap has closed its options' descriptor 0: the command gets an empty standard input.
    shell = ["/bin/sh", "-c", 'exec "$@" </dev/null', "sh"]
    limits = ["prlimit", *policy.as_prlimit(), "--"]
    inner = [*shell, "setarch", "-R", "taskset", "-c", _some_cpu(), *limits, *argv]
    return [*enter_box(workspace), "--args", "0", "--", *inner]


def _some_cpu() -> str:
    """One of this process's processors, in turn: a box sees exactly one."""
    allowed = sorted(os.sched_getaffinity(0))
    return str(allowed[next(_turns) % len(allowed)])


def enter_box(workspace: Workspace) -> list[str]:
    """The command line that enters the mounts of ``workspace`` as somebody without rights, up to
    bwrap and without its options."""
    bwrap = str(workspace.runtime.bwrap)
    if not workspace.as_root:
        return ["nsenter", "-t", str(workspace.pid), "-m", "-U", "--preserve-credentials", bwrap]
    inside = workspace.runtime.bwrap.relative_to(workspace.runtime.bwrap_root)
    bwrap = str(workspace.base / "bin" / inside)
    ids = [f"--reuid={DROPPED_ID}", f"--regid={DROPPED_ID}", "--clear-groups"]
    return ["nsenter", "-t", str(workspace.pid), "-m", "--", "setpriv", *ids, "--", bwrap]


def box_options(
    workspace: Workspace, *, with_pytest: bool = False, for_worker: bool = False
) -> list[str]:
    """bwrap's options: every namespace, the host's system folders read-only, the workspace, and
    what it exposes. A worker of ours sees installed packages and the real clock: an environment
    that reads the clock must not look deterministic."""
    base = workspace.base
    options = [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"),
        *("--uid", "1000", "--gid", "1000", "--hostname", "crucible", "--clearenv"),
        *("--cap-drop", "ALL"),
        *_system_options(workspace, for_worker=for_worker),
    ]
    if with_pytest:
        for path in pytest_paths():
            options += ["--ro-bind", str(path), f"{SITE}/{path.name}"]
    options += [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--ro-bind", str(base / "pins" / "urandom"), "/dev/urandom"),
        *("--ro-bind", str(base / "pins" / "urandom"), "/dev/random"),
        *("--size", "1048576", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--bind", str(base / "home"), HOME, "--bind", str(base / "tmp"), "/tmp"),
        *("--bind", str(base / "session"), SESSION),
    ]
    for name in PINNED_PROC:
        options += ["--ro-bind", str(base / "pins" / "proc" / name), f"/proc/{name}"]
    if find_pin() is not None and not for_worker:
        options += ["--ro-bind", str(base / "pins" / "pin.so"), PIN_TARGET]
        options += ["--setenv", "LD_PRELOAD", PIN_TARGET]
        options += ["--setenv", "CRUCIBLE_CLOCK", str(workspace.clock)]
    for target, source in workspace.exposed.items():
        options += ["--ro-bind", str(source), str(target)]
    options += ["--remount-ro", "/", "--chdir", HOME]
    for name, value in _ENVIRONMENT.items():
        options += ["--setenv", name, value]
    return options


def _system_options(workspace: Workspace, *, for_worker: bool) -> list[str]:
    """What a box sees of the host's system: its programs and libraries, and the interpreter."""
    base, runtime = workspace.base, workspace.runtime
    prefix = base / "prefix" if workspace.as_root else runtime.prefix
    options = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    options += ["--ro-bind", str(base / "etc"), "/etc"]
    if Path("/etc/alternatives").is_dir():
        options += ["--ro-bind", "/etc/alternatives", "/etc/alternatives"]
    if not runtime.prefix.is_relative_to("/usr") and runtime.prefix not in workspace.exposed:
        options += ["--ro-bind", str(prefix), str(runtime.prefix)]
    for folder in [] if for_worker else _masked(runtime.prefix):
        options += ["--size", "4096", "--tmpfs", str(folder), "--remount-ro", str(folder)]
    for name in ("python", "python3"):
        options += ["--symlink", str(runtime.python), f"{PROGRAMS}/{name}"]
    return options


def _masked(prefix: Path) -> list[Path]:
    """Folders of the host's Python that hold other people's packages, and local programs."""
    folders = [
        *prefix.glob("lib/python3*/site-packages"),
        *Path("/usr/lib").glob("python3/dist-packages"),
    ]
    if not prefix.is_relative_to("/usr/local"):
        folders.append(Path("/usr/local"))
    return [folder for folder in folders if folder.is_dir()]


def _collect(process: subprocess.Popen[bytes], policy: SandboxPolicy) -> BoxResult:
    """Read both outputs until every process of the box is gone or a limit is reached."""
    assert process.stdout is not None and process.stderr is not None
    deadline = time.monotonic() + policy.timeout_s
    outputs = {pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr)}
    stopped: str | None = None
    with selectors.DefaultSelector() as selector:
        for pipe in outputs:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(POLL_S):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fd)
                    continue
                outputs[key.fd] += data
                if len(outputs[key.fd]) > policy.output_bytes and stopped is None:
                    stopped = _stop(process, "output")
            if stopped is None and time.monotonic() > deadline:
                stopped = _stop(process, "time")
            if stopped is None and _resident_bytes(process.pid) > policy.memory_bytes:
                stopped = _stop(process, "memory")
            if stopped is not None and process.poll() is not None:
                break
    exit_code = process.wait()
    limit = policy.output_bytes
    stdout, stderr = (bytes(output[:limit]) for output in outputs.values())
    process.stdout.close()
    process.stderr.close()
    if exit_code > 128:
        exit_code = 128 - exit_code
    return BoxResult(-9 if stopped else exit_code, stdout, stderr, stopped)


def _stop(process: subprocess.Popen[bytes], reason: str) -> str:
    """Kill the box and wait until its first process, and so its whole PID namespace, is gone."""
    inside = processes_below(process.pid)
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    for pid in inside:
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.001)
            if _is_zombie(pid):
                break
    return reason


def processes_below(pid: int) -> list[int]:
    """All processes below ``pid``, parents first."""
    found: list[int] = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return found
    for child in children:
        found += [child, *processes_below(child)]
    return found


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _resident_bytes(pid: int) -> int:
    """The resident memory of all processes below ``pid``; what they share counts once."""
    return sum(map(_own_bytes, processes_below(pid)))


def _own_bytes(pid: int) -> int:
    """A process's proportional share of memory, or all of it where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
