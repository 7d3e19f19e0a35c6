"""A workspace: a folder on a size-capped tmpfs of its own, seen by nobody else on the host."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from crucible.errors import SandboxUnavailableError
from crucible.sandbox.files import Entry, check_path, read_tree, settle_times, write_file
from crucible.sandbox.pin import EPOCH, find_pin, random_bytes
from crucible.sandbox.policy import SandboxPolicy
from crucible.sandbox.runtime import find_runtime

__all__ = ["DROPPED_ID", "PINNED_PROC", "Workspace"]

DROPPED_ID = 64242
"""The uid and gid that a root caller's commands run as: the kernel exempts root from process
limits."""

_FOLDERS = ("home", "tmp", "etc", "bin", "prefix", "exposed", "pins", "session")
_ETC = {
    "passwd": "agent:x:1000:1000:agent:/home/agent:/bin/bash\n",
    "group": "agent:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n",
    "hostname": "crucible\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "ld.so.cache": "",
}
_KEEP = "echo ready; exec cat >/dev/null"


_PROC = {
    "cpuinfo": "processor\t: 0\nmodel name\t: virtual\n\n",
    "loadavg": "0.00 0.00 0.00 1/2 2\n",
    "meminfo": "MemTotal: 4194304 kB\nMemFree: 2097152 kB\nMemAvailable: 2097152 kB\n"
    "Buffers: 0 kB\nCached: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "stat": f"cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nctxt 0\nbtime {EPOCH}\n"
    "processes 2\nprocs_running 1\nprocs_blocked 0\n",
    "uptime": "0.00 0.00\n",
    "sys/kernel/random/boot_id": "00000000-0000-4000-8000-000000000000\n",
    "sys/kernel/random/uuid": "00000000-0000-4000-8000-000000000001\n",
}
"""What differs from machine to machine and moment to moment, as boxes see it."""
PINNED_PROC = tuple(_PROC)


class Workspace:
    """Holds the files of one episode, with a quota on bytes and on their number.

    A small process keeps the mount; it ends with this object, with this process, and when its
    standard input closes. Use as a context manager or call :meth:`close`.
    """

    def __init__(self, policy: SandboxPolicy | None = None, *, expose: Sequence[Path] = ()) -> None:
        """``expose`` are files and folders of the host that boxes see, read-only.

        Raises:
            SandboxUnavailableError: if the mount cannot be made here.
        """
        self.policy = policy or SandboxPolicy()
        self.runtime = find_runtime()
        self.as_root = os.geteuid() == 0
        self.base = _mount_point()
        # A dropped user may not reach a path that root can: root's keeper binds it once more.
        self.exposed = {
            path: self.base / "exposed" / str(index) if self.as_root else path
            for index, path in enumerate(expose)
        }
        self._keeper = self._start_keeper()
        self.pid = self._keeper.pid
        self.num_commands = 0
        self._write_etc()
        _write_pins(self._inside("pins"))
        self.settle()

    @property
    def home(self) -> Path:
        """The agent's folder, as the host reaches it while the workspace is open."""
        return self._inside("home")

    @property
    def session(self) -> Path:
        """Where :mod:`crucible.sandbox.session` keeps the state of the agent's shell."""
        return self._inside("session")

    @property
    def clock(self) -> int:
        """The time of the next command, in seconds: every command is a second after the last."""
        return EPOCH + self.num_commands

    def settle(self) -> None:
        """Give what was written since the last command the time of the next one."""
        for name in ("home", "tmp"):
            settle_times(self._inside(name), self.clock)

    def write(self, files: Mapping[str, Entry]) -> None:
        """Write files below the agent's folder without following what is there.

        Raises:
            ValueError: for a path that is not safe; nothing is written then.
            EpisodeError: if the workspace is full.
        """
        for path in files:
            check_path(path)
        owner = DROPPED_ID if self.as_root else None
        for path, entry in files.items():
            write_file(self.home, path, entry, owner=owner)
        settle_times(self.home, self.clock)

    def read(self) -> dict[str, Entry]:
        """Everything below the agent's folder. Call it only while no command runs."""
        return read_tree(self.home)

    def close(self) -> None:
        """End the keeper, and with it the mount and everything in it."""
        if self._keeper.stdin is not None:
            with contextlib.suppress(OSError):
                self._keeper.stdin.close()
        self._keeper.kill()
        self._keeper.wait()
        if self._keeper.stdout is not None:
            self._keeper.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_keeper") and self._keeper.returncode is None:
            self.close()

    def _inside(self, name: str) -> Path:
        return Path(f"/proc/{self.pid}/root{self.base}/{name}")

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        namespaces = ["-m"] if self.as_root else ["-U", "-r", "-m"]
        argv = ["unshare", *namespaces, "--propagation", "private", "sh", "-euc", self._script()]
        try:
            keeper = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        except OSError as error:
            raise SandboxUnavailableError(f"unshare cannot be run: {error}") from error
        assert keeper.stdout is not None and keeper.stderr is not None
        if keeper.stdout.readline() != b"ready\n":
            keeper.kill()
            reason = keeper.stderr.read().decode("utf-8", "replace").strip()
            keeper.wait()
            for pipe in (keeper.stdin, keeper.stdout, keeper.stderr):
                if pipe is not None:
                    pipe.close()
            raise SandboxUnavailableError(f"a workspace cannot be mounted: {reason}")
        keeper.stderr.close()
        return keeper

    def _script(self) -> str:
        base, policy = self.base, self.policy
        options = f"size={policy.workspace_bytes},nr_inodes={policy.workspace_inodes}"
        lines = [
            f"mount -t tmpfs -o {options},nosuid,nodev,mode=0711 crucible {base}",
            f"cd {base}",
            f"mkdir {' '.join(_FOLDERS)}",
            "chmod 0755 home etc bin prefix exposed pins session",
            "chmod 1777 tmp",
        ]
        if self.as_root:
            lines += [
                f"chown {DROPPED_ID}:{DROPPED_ID} home session",
                *_bind(self.runtime.bwrap_root, base / "bin"),
                *_bind(self.runtime.prefix, base / "prefix"),
            ]
            for path, source in self.exposed.items():
                make = "mkdir" if path.is_dir() else "touch"
                lines.append(f"{make} {shlex.quote(str(source))}")
                lines += _bind(path, source)
        return "\n".join([*lines, _KEEP])

    def _write_etc(self) -> None:
        etc = self._inside("etc")
        for name, content in _ETC.items():
            (etc / name).write_text(content)
        (etc / "alternatives").mkdir()
        if Path("/etc/ld.so.cache").is_file():
            shutil.copyfile("/etc/ld.so.cache", etc / "ld.so.cache")


def _mount_point() -> Path:
    """An empty folder to mount on. Every keeper sees its own mount there, so that one folder does
    for all, and a process that is killed leaves nothing.

    Raises:
        SandboxUnavailableError: if somebody else has made something of that name.
    """
    path = Path(tempfile.gettempdir()) / f"crucible-box-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o711)
        path.chmod(0o711)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise SandboxUnavailableError(f"{path} is not a folder of this user: remove it")
    return path


def _write_pins(folder: Path) -> None:
    """Files that boxes see in the place of those of the kernel."""
    for name, content in _PROC.items():
        path = folder / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "urandom").write_bytes(random_bytes())
    pin = find_pin()
    if pin is not None:
        shutil.copyfile(pin, folder / "pin.so")


def _bind(source: Path, target: Path) -> list[str]:
    """Lines that make ``source`` reachable for the dropped user, whatever its parents allow."""
    return [f"mount --rbind {shlex.quote(str(source))} {shlex.quote(str(target))}"]
