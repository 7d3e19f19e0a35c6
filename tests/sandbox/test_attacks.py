"""Every attack of the table that the sandbox was designed against: what it finds in a box.

Numbers are those of the table in ``docs/explanation/sandbox.md``. All of them run as whoever runs
the tests; with CRUCIBLE_TEST_LONG=1, root runs them as an ordinary user as well.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import needs_box, ordinary_user

from crucible.sandbox import BoxResult, Entry, SandboxPolicy, Workspace, check_path, run_in_box
from crucible.sandbox.runtime import find_runtime

pytestmark = [pytest.mark.box, needs_box]

LONG = os.environ.get("CRUCIBLE_TEST_LONG") == "1"
MIB = 1024 * 1024
POLICY = SandboxPolicy(
    timeout_s=8, workspace_bytes=24 * MIB, workspace_inodes=2000, memory_bytes=200 * MIB
)


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """An empty workspace."""
    with Workspace(POLICY) as made:
        yield made


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the host that everybody may read and write."""
    path = tmp_path / "victim"
    path.write_text("TOPSECRET")
    for folder in (path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and str(folder).startswith("/tmp/"):
            folder.chmod(0o777)
    return path


def bash(workspace: Workspace, script: str, policy: SandboxPolicy = POLICY) -> BoxResult:
    return run_in_box(workspace, ["bash", "-c", script], policy=policy)


def python(workspace: Workspace, code: str, policy: SandboxPolicy = POLICY) -> BoxResult:
    return run_in_box(workspace, [str(find_runtime().python), "-c", code], policy=policy)


SHELL: dict[str, tuple[str, str]] = {
    "01 read_passwd": ("cat /etc/shadow 2>/dev/null; grep -c root /etc/passwd", "0"),
    "04 list_home": ("ls /root 2>/dev/null; ls /home", "agent"),
    "05 env_token": ("env | grep -iE 'token|key|secret'; echo -n ok", "ok"),
    "06 see_procs": ("n=$(ls -d /proc/[0-9]* | wc -l); [ $n -lt 8 ] && echo few", "few"),
    "13 kernel sockets": ("cat /proc/net/netlink 2>/dev/null | wc -l | grep -c .", "1"),
    "15 new_userns": ("unshare -Ur true 2>/dev/null || echo refused", "refused"),
    "16 mount": ("mount -t tmpfs x /tmp 2>/dev/null || echo refused", "refused"),
    "17 mknod": ("mknod d b 8 0 2>/dev/null || echo refused", "refused"),
    "18 setuid": (
        "cp /usr/bin/id i; chmod u+s i; ./i -u; su -c id 2>/dev/null || echo refused",
        "1000\nrefused",
    ),
    "22 dmesg": ("dmesg 2>/dev/null | head -1; head -c1 /proc/kcore 2>/dev/null; echo no", "no"),
    "23 core_pattern": (
        "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/power/state; do "
        "echo x 2>/dev/null > $f && echo $f; done; echo -n none",
        "none",
    ),
    "42 daemon_race": ("setsid sh -c 'sleep 0.2; echo > late' >/dev/null 2>&1 & echo ran", "ran"),
    "43 raise limits": ("ulimit -Hn 100000 2>/dev/null || echo refused", "refused"),
}


@pytest.mark.parametrize("name", SHELL)
def test_a_shell_attack_finds_nothing(workspace: Workspace, name: str) -> None:
    script, expected = SHELL[name]
    assert bash(workspace, script).stdout.decode().strip() == expected
    if name.startswith("42"):
        assert bash(workspace, "sleep 0.4; ls").stdout == b""


CALLS: dict[str, tuple[str, str]] = {
    "08 ptrace": ("libc.ptrace(16, PARENT, 0, 0)", "-1 1"),
    "15 clone new user": ("libc.syscall(56, 0x10000011, 0, 0, 0, 0)", "-1 1"),
    "19 io_uring": ("libc.syscall(425, 8, buffer)", "-1 1"),
    "19 keyctl": ("libc.syscall(250, 0, 0, 0, 0, 0)", "-1 1"),
    "19 userfaultfd": ("libc.syscall(323, 0)", "-1 1"),
    "20 bpf": ("libc.syscall(321, 0, buffer, 64)", "-1 1"),
    "20 perf_event": ("libc.syscall(298, buffer, 0, -1, -1, 0)", "-1 1"),
    "29 memfd": ("libc.memfd_create(b'x', 0)", "-1 1"),
    "31 sysv_shm": ("libc.shmget(0, 200 << 20, 0o1600)", "-1 1"),
    "x32": ("libc.syscall(0x40000000 + 39)", "-1 1"),
    "setns": ("libc.setns(0, 0)", "-1 1"),
    "24 tiocsti": ("libc.ioctl(0, 0x5412, b'x')", "-1 1"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_system_call_is_refused(workspace: Workspace, name: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers in this table are those of x86_64")
    call, expected = CALLS[name]
    code = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); PARENT = 1\n"
        "buffer = ctypes.create_string_buffer(256)\n"
        f"print({call}, ctypes.get_errno())"
    )
    result = python(workspace, code)
    assert result.stdout.decode().strip() == expected, result


def test_21_the_other_abi_ends_the_process(workspace: Workspace) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("int 0x80 is an instruction of x86_64")
    code = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    result = python(workspace, code)
    assert (result.exit_code, result.stdout) == (-31, b""), result


def test_02_03_files_of_the_host_are_not_there(workspace: Workspace, victim: Path) -> None:
    result = bash(workspace, f"cat {victim}; echo PWN > {victim}; ls {victim.parent}")
    assert b"TOPSECRET" not in result.stdout
    assert victim.read_text() == "TOPSECRET"


def test_07_09_the_harness_cannot_be_touched(workspace: Workspace) -> None:
    script = f"kill -0 {os.getpid()} 2>&1; cat /proc/{os.getpid()}/mem 2>&1; kill -9 -1 2>&1; true"
    out = bash(workspace, script).stdout
    assert b"No such process" in out and b"No such file" in out


def test_10_11_12_14_no_network_and_no_socket_of_the_host(
    workspace: Workspace, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(b"\0crucible-test-%d" % os.getpid())
        local.listen()
        with socket.socket(socket.AF_UNIX) as named:
            named.bind(str(path))
            named.listen()
            path.chmod(0o777)
            code = f"""
import socket
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {server.getsockname()[1]})),
    (socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
    (socket.AF_UNIX, socket.SOCK_STREAM, b"\\0crucible-test-{os.getpid()}"),
    (socket.AF_UNIX, socket.SOCK_STREAM, {str(path)!r}),
):
    try:
        socket.socket(family, kind).connect(address)
        print("connected", address)
    except OSError as error:
        print(error.errno)
"""
            out = python(workspace, code).stdout.decode().split()
    assert out == ["97", "97", "97", "111", "2"]


def test_25_26_fork_bombs_stop_at_the_limit(workspace: Workspace) -> None:
    code = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(4); os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True); os._exit(0)
"""
    assert 0 < int(python(workspace, code).stdout) < 64
    assert b"retry" in bash(workspace, "for i in $(seq 300); do sleep 3 & done; wait").stderr


def test_27_28_memory_is_limited_for_one_and_for_many(workspace: Workspace) -> None:
    assert b"MemoryError" in python(workspace, "bytearray(1500 << 20)").stderr
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(60 << 20); time.sleep(5); os._exit(0)
time.sleep(5)
"""
    assert python(workspace, code).stopped == "memory"


def test_30_32_33_34_35_36_disks_are_limited(workspace: Workspace) -> None:
    assert b"No space" in bash(workspace, "head -c 40M /dev/zero > /dev/shm/x").stderr
    assert not bash(workspace, "head -c 200M /dev/zero > big").ok
    assert not bash(workspace, "truncate -s 10G big").ok
    many = "rm -f *; for i in 1 2 3 4 5 6 7 8 9; do head -c 5M /dev/zero > f$i; done"
    assert b"No space" in bash(workspace, many).stderr
    assert b"No space" in bash(workspace, "rm -f *; head -c 30M /dev/zero > /tmp/x").stderr
    bash(workspace, "rm -f * /tmp/x; for i in $(seq 3000); do : > n$i; done 2>/dev/null")
    assert len(workspace.read()) < 2000


def test_37_38_output_is_limited_and_bytes_are_kept(workspace: Workspace) -> None:
    start = time.monotonic()
    flood = bash(workspace, "yes")
    assert (flood.stopped, len(flood.stdout)) == ("output", POLICY.output_bytes)
    assert time.monotonic() - start < 4
    assert bash(workspace, r"printf '\xff\xfe\x00'").stdout == b"\xff\xfe\x00"


@pytest.mark.parametrize(
    "script", ["sleep 60", "while :; do :; done", "trap '' TERM INT HUP; sleep 60; sleep 60"]
)
def test_39_what_does_not_end_is_ended(workspace: Workspace, script: str) -> None:
    limits = SandboxPolicy(timeout_s=0.4)
    start = time.monotonic()
    assert bash(workspace, script, limits).stopped == "time"
    assert time.monotonic() - start < 4


def test_40_41_what_runs_on_is_dead_and_holds_nothing_up(workspace: Workspace) -> None:
    start = time.monotonic()
    bash(workspace, "setsid nohup sh -c 'sleep 0.3; echo > late' & sleep 30 & echo done")
    assert time.monotonic() - start < 3
    time.sleep(0.5)
    assert "late" not in workspace.read()


def test_44_permissions_that_were_taken_away_hide_nothing(workspace: Workspace) -> None:
    bash(workspace, "mkdir d; echo x > d/f; chmod 000 d/f d; chmod 000 .")
    assert workspace.read()["d/f"] == Entry("file", b"x\n")


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/x", "a/../../x", "a\0b", "", ".", "a//b", "a\n", "\u202ea", "a\u200b"),
        *("a\\b", "\ud800", "/".join("a" * 1200), "a" * 300, 7, None),
    ],
)
def test_47_48_49_paths_that_escape_or_hide_are_refused(path: object) -> None:
    with pytest.raises(ValueError, match="path"):
        check_path(path)


def test_50_51_52_links_are_replaced_and_never_followed(workspace: Workspace, victim: Path) -> None:
    bash(
        workspace, f"ln -s {victim} l; ln -s /etc/passwd p; mkdir d; ln -s /tmp d/t; ln {victim} h"
    )
    tree = workspace.read()
    assert tree["l"] == Entry("link", os.fsencode(victim))
    assert tree["p"].kind == tree["d/t"].kind == "link"
    assert "h" not in tree
    workspace.write({"l": Entry("file", b"new"), "d/t/x": Entry("file", b"new")})
    assert victim.read_text() == "TOPSECRET"
    assert workspace.read()["l"] == Entry("file", b"new")
    assert workspace.read()["d/t/x"] == Entry("file", b"new")


def test_53_54_odd_files_are_listed_and_never_opened(workspace: Workspace) -> None:
    code = r"""
import os, socket
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("sock")
open(b"na\xffme", "wb").write(b"\xff\xfe")
"""
    assert python(workspace, code).ok
    tree = workspace.read()
    assert tree["pipe"].kind == tree["sock"].kind == "special"
    assert tree["na\\xffme"] == Entry("file", b"\xff\xfe")


def test_55_56_archives_that_point_outside_stay_inside(
    workspace: Workspace, tmp_path: Path
) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        info = tarfile.TarInfo("../../../../../../evil")
        tar.addfile(info)
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as zipped:
        zipped.writestr("/evil", "x")
    names = ("t.tar", "t.zip")
    workspace.write({name: Entry("file", (tmp_path / name).read_bytes()) for name in names})
    code = "import shutil; [shutil.unpack_archive(n) for n in ('t.zip', 't.tar')]"
    python(workspace, code)
    for place in ("/evil", "/tmp/evil", str(tmp_path / "evil"), "/home/evil"):
        assert not Path(place).exists()


def test_57_a_time_out_is_never_raised() -> None:
    assert POLICY.lowered(timeout_s=1e9) == POLICY
    assert POLICY.lowered(timeout_s=-1) == POLICY
    assert POLICY.lowered(timeout_s=float("nan")) == POLICY
    assert POLICY.lowered(timeout_s=2).timeout_s == 2


def test_no_attack_leaves_a_process_or_a_mount_behind() -> None:
    before = set(os.listdir("/proc"))
    with Workspace(POLICY) as made:
        bash(made, "setsid sleep 100 & setsid sleep 100 & exit")
        bash(made, "sleep 100", SandboxPolicy(timeout_s=0.2))
    time.sleep(0.2)
    mine = []
    for pid in set(os.listdir("/proc")) - before:
        if pid.isdigit():
            try:
                mine.append((pid, Path(f"/proc/{pid}/cmdline").read_bytes()))
            except OSError:
                continue
    assert not [line for _, line in mine if b"sleep\x00100" in line]
    assert str(made.base) not in Path("/proc/self/mounts").read_text()


@pytest.mark.skipif(not LONG, reason="set CRUCIBLE_TEST_LONG=1 to run them as an ordinary user too")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_all_of_them_as_an_ordinary_user() -> None:
    tests = [str(Path(__file__).with_name(name)) for name in ("test_attacks.py", "test_box.py")]
    with ordinary_user() as (python, environment):
        environment |= {"CRUCIBLE_TEST_LONG": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTEST_ADDOPTS"] = f"--basetemp={environment['HOME']}/t"
        done = subprocess.run(
            [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            cwd=environment["HOME"],
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
