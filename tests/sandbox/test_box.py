from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import needs_box

from crucible.errors import SandboxUnavailableError
from crucible.sandbox import BoxResult, Entry, SandboxPolicy, Workspace, run_in_box
from crucible.sandbox.probe import box_problem, require_box
from crucible.sandbox.runtime import find_runtime

pytestmark = [pytest.mark.box, needs_box]

MIB = 1024 * 1024


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """An empty workspace with tight limits."""
    policy = SandboxPolicy(timeout_s=5, workspace_bytes=8 * MIB, workspace_inodes=200)
    with Workspace(policy) as made:
        yield made


def bash(workspace: Workspace, script: str, **policy: float) -> BoxResult:
    limits = SandboxPolicy(**{"timeout_s": 5, **policy})  # type: ignore[arg-type]
    return run_in_box(workspace, ["bash", "-c", script], policy=limits)


def python(workspace: Workspace, code: str, **policy: float) -> BoxResult:
    limits = SandboxPolicy(**{"timeout_s": 5, **policy})  # type: ignore[arg-type]
    return run_in_box(workspace, [str(find_runtime().python), "-c", code], policy=limits)


def test_output_and_status_come_back(workspace: Workspace) -> None:
    result = bash(workspace, "echo out; echo err >&2; printf '\\xff'; exit 3")
    assert result == BoxResult(3, b"out\n\xff", b"err\n")
    assert not result.ok


def test_files_stay_between_commands(workspace: Workspace) -> None:
    workspace.write({"in/a.txt": Entry("file", b"one\n"), "run": Entry("file", b"", True)})
    assert bash(workspace, "cat in/a.txt > b.txt && test -x run && mkdir c").ok
    tree = workspace.read()
    assert tree["b.txt"] == Entry("file", b"one\n")
    assert tree["c"].kind == "folder"


def test_nothing_of_the_host_can_be_read(workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TOPSECRET")
    secret.chmod(0o644)
    script = f"cat {secret} /etc/shadow /root/.bash_history; ls /home /tmp; cat /proc/1/environ"
    result = bash(workspace, script)
    assert b"TOPSECRET" not in result.stdout
    assert result.stdout == b"/home:\nagent\n\n/tmp:\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\0"
    assert b"root" not in bash(workspace, "cat /etc/passwd").stdout


def test_nothing_outside_the_workspace_can_be_written(workspace: Workspace) -> None:
    places = "/ /usr /usr/bin /etc /bin /lib /dev /proc /proc/sys/kernel/core_pattern"
    attempts = "touch $p/x 2>/dev/null && echo $p; echo x >$p 2>/dev/null && echo $p"
    assert bash(workspace, f"for p in {places}; do {attempts}; done; true").stdout == b""


def test_there_is_no_network(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = bash(workspace, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert not result.ok
    assert bash(workspace, "ls /sys/class/net 2>&1; cat /proc/net/dev").stdout.count(b"eth") == 0


def test_processes_of_the_host_cannot_be_seen_or_signalled(workspace: Workspace) -> None:
    result = bash(workspace, f"kill -0 {os.getpid()} 2>&1; ls -d /proc/[0-9]* | wc -l")
    assert b"No such process" in result.stdout
    assert int(result.stdout.split()[-1]) < 8


def test_there_are_no_privileges_to_gain(workspace: Workspace) -> None:
    script = "grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs' /proc/self/status; unshare -Ur true && echo NS"
    out = bash(workspace, script).stdout.decode()
    assert out.count("0000000000000000") == 3
    assert "NoNewPrivs:\t1" in out
    assert "NS" not in out


def test_a_fork_bomb_stops_at_the_limit(workspace: Workspace) -> None:
    code = """
import os, time
made = 0
for _ in range(500):
    try:
        if os.fork() == 0:
            time.sleep(3); os._exit(0)
        made += 1
    except OSError:
        break
print(made, flush=True)
os._exit(0)
"""
    made = int(python(workspace, code).stdout)
    assert 0 < made < 64


def test_memory_of_one_and_of_many_processes_is_limited(workspace: Workspace) -> None:
    assert b"MemoryError" in python(workspace, "bytearray(1500 << 20)").stderr
    code = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = bytearray(40 << 20); time.sleep(4); os._exit(0)
time.sleep(4)
"""
    result = python(workspace, code, memory_bytes=100 * MIB)
    assert result.stopped == "memory"


def test_time_is_limited_and_nothing_survives_it(workspace: Workspace) -> None:
    started = time.monotonic()
    result = bash(workspace, "trap '' TERM INT; (while :; do :; done) & sleep 60", timeout_s=0.3)
    assert (result.stopped, result.exit_code) == ("time", -9)
    assert time.monotonic() - started < 4


def test_output_is_limited_in_bytes(workspace: Workspace) -> None:
    result = bash(workspace, "yes", output_bytes=1000)
    assert (result.stopped, len(result.stdout)) == ("output", 1000)


def test_the_workspace_has_a_quota_on_bytes_and_files(workspace: Workspace) -> None:
    result = bash(workspace, "for i in 1 2 3 4; do head -c 4M /dev/zero > f$i; done; du -sb .")
    assert b"No space left" in result.stderr
    assert bash(workspace, "rm -f f*; for i in $(seq 300); do : > n$i; done").stderr
    assert len(workspace.read()) <= 200


def test_one_file_has_a_limit(workspace: Workspace) -> None:
    assert not bash(workspace, "truncate -s 10G big", file_bytes=MIB).ok


def test_shared_memory_is_small(workspace: Workspace) -> None:
    assert b"No space left" in bash(workspace, "head -c 4M /dev/zero > /dev/shm/x").stderr


def test_background_processes_end_with_the_command(workspace: Workspace) -> None:
    started = time.monotonic()
    assert bash(workspace, "setsid sh -c 'sleep 0.3; touch late' & echo done").ok
    assert time.monotonic() - started < 2
    assert bash(workspace, "sleep 0.6; ls").stdout == b""


def test_a_command_without_a_program_is_a_result(workspace: Workspace) -> None:
    assert run_in_box(workspace, ["no-such-program"]).exit_code == 127


def test_a_message_that_looks_like_bwraps_own_is_only_output(workspace: Workspace) -> None:
    result = bash(workspace, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    assert result.exit_code == 1


def test_standard_input_is_empty(workspace: Workspace) -> None:
    assert bash(workspace, "cat; readlink /proc/self/fd/0").stdout == b"/dev/null\n"


def test_the_interpreter_is_the_one_that_runs_crucible(workspace: Workspace) -> None:
    code = "import sys; print(sys.version); print(sys.path[-1])"
    import sys

    assert python(workspace, code).stdout.decode().startswith(sys.version)


def test_packages_of_the_host_are_not_importable(workspace: Workspace) -> None:
    assert not python(workspace, "import orjson").ok
    assert not python(workspace, "import crucible").ok


def test_two_boxes_say_the_same(workspace: Workspace) -> None:
    script = "id; pwd; hostname; env | sort; echo $$ $PPID; ls -a; df -h . | tail -1"
    first = bash(workspace, script)
    with Workspace(workspace.policy) as another:
        assert bash(another, script) == first


def test_closing_a_workspace_leaves_nothing(workspace: Workspace) -> None:
    another = Workspace()
    pid, base = another.pid, another.base
    another.close()
    assert list(base.iterdir()) == []
    assert not os.path.exists(f"/proc/{pid}/root")
    mounts = subprocess.run(["cat", "/proc/self/mounts"], capture_output=True, text=True).stdout
    assert str(base) not in mounts


def test_the_probe_accepts_a_tight_box() -> None:
    assert box_problem() is None
    require_box()


def test_workspaces_share_a_mount_point_and_see_only_their_own_files() -> None:
    with Workspace() as one, Workspace() as two:
        assert one.base == two.base
        one.write({"f": Entry("file", b"one")})
        assert two.read() == {}
        assert bash(two, "ls").stdout == b""
        assert list(one.base.iterdir()) == []


def test_a_mount_point_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"crucible-box-{os.geteuid()}").symlink_to("/usr")
    with pytest.raises(SandboxUnavailableError, match="remove it"):
        Workspace()
