from __future__ import annotations

import platform
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import needs_box

from crucible.errors import SandboxUnavailableError
from crucible.sandbox import BoxResult, Workspace, run_in_box
from crucible.sandbox.runtime import find_runtime
from crucible.sandbox.seccomp import DENIED, filter_program, machine_abi

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    with Workspace() as made:
        yield made


def python(workspace: Workspace, code: str) -> BoxResult:
    return run_in_box(workspace, [str(find_runtime().python), "-c", code])


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.is_file():
        pytest.skip(f"{header} is not installed here")
    text = header.read_text()
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    column = list(HEADERS).index(machine)
    for name, numbers in DENIED.items():
        if name in found and numbers[column] is not None:
            assert int(found[name]) == numbers[column], name


def evaluate(program: bytes, *, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the kernel would answer: the classic BPF machine, as far as the filter uses it."""
    data = struct.pack("=IIQ", number, arch, 0)
    data += b"".join(struct.pack("=Q", value) for value in (*arguments, *[0] * 6)[:6])
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator = position = 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, operand)
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x35:
                position += if_true if accumulator >= operand else if_false
            case 0x45:
                position += if_true if accumulator & operand else if_false
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_denied_call_is_denied_and_others_are_not(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    filter_program.cache_clear()
    program, abi = filter_program(), machine_abi()
    filter_program.cache_clear()
    column = abi.column
    denied = {numbers[column] for numbers in DENIED.values()} - {None}
    special = {abi.clone, abi.clone3, abi.socket, abi.ioctl}
    for number in range(512):
        answer = evaluate(program, arch=abi.audit, number=number)
        if number not in special:
            assert answer == (ERRNO | 1 if number in denied else ALLOW), number
    assert evaluate(program, arch=0x40000003, number=1) == KILL
    assert evaluate(program, arch=abi.audit, number=abi.clone3) == ERRNO | 38
    clone = {"arch": abi.audit, "number": abi.clone}
    assert evaluate(program, **clone, arguments=(0x01200011,)) == ALLOW
    assert evaluate(program, **clone, arguments=(0x10000011,)) == ERRNO | 1
    socket = {"arch": abi.audit, "number": abi.socket}
    assert evaluate(program, **socket, arguments=(1,)) == ALLOW
    assert evaluate(program, **socket, arguments=(2,)) == ERRNO | 97
    ioctl = {"arch": abi.audit, "number": abi.ioctl}
    assert evaluate(program, **ioctl, arguments=(0, 0x5401)) == ALLOW
    assert evaluate(program, **ioctl, arguments=(0, 0x5412)) == ERRNO | 1
    assert evaluate(program, **ioctl, arguments=(0, 0x541C)) == ERRNO | 1
    if abi.has_x32:
        assert evaluate(program, arch=abi.audit, number=0x40000000 | 1) == ERRNO | 1


def test_an_unknown_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        machine_abi()


@needs_box
@pytest.mark.box
def test_the_filter_is_on_in_the_box(workspace: Workspace) -> None:
    out = run_in_box(workspace, ["grep", "-E", "^(Seccomp|NoNewPrivs)", "/proc/self/status"])
    assert b"Seccomp:\t2" in out.stdout


@needs_box
@pytest.mark.box
def test_only_unix_sockets_can_be_made(workspace: Workspace) -> None:
    code = """
import socket
for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 40):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, "made")
    except OSError as error:
        print(family, error.errno)
a, b = socket.socketpair()
a.send(b"x"); print(b.recv(1))
"""
    assert python(workspace, code).stdout.decode().split("\n")[:6] == [
        "2 97",
        "10 97",
        "16 97",
        "17 97",
        "40 97",
        "b'x'",
    ]


@needs_box
@pytest.mark.box
def test_what_programs_need_still_works(workspace: Workspace) -> None:
    code = """
import asyncio, concurrent.futures, multiprocessing, sqlite3, subprocess, threading
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(abs, [-3])))
print(subprocess.run(["echo", "4"], capture_output=True).stdout)
print(asyncio.run(asyncio.sleep(0, 5)))
print(sqlite3.connect(":memory:").execute("select 6").fetchall())
"""
    result = python(workspace, code)
    assert result.stdout.decode() == "[1, 2]\n[3]\nb'4\\n'\n5\n[(6,)]\n", result.stderr
