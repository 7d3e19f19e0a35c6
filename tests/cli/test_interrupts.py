"""Ctrl-C, as a terminal sends it: to the whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from walking import RecordWalks

PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from crucible.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, with Ctrl-C as a terminal would have it even where the tests ignore it."""


def interrupt(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command, interrupt its process group once it has workers, and wait for its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not children_of(process.pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        workers = children_of(process.pid)
        assert workers
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert [pid for pid in workers if os.path.exists(f"/proc/{pid}")] == []
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def children_of(pid: int) -> list[str]:
    found = []
    for path in Path("/proc").glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            found += path.read_text().split()
    return found


def test_an_interrupted_recording_ends_130_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    arguments = ["record", "guess-basics", "--seeds", "0:20000", "--out", "d", "--workers", "2"]
    done = interrupt(tmp_path, arguments)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "interrupted"
    assert "Traceback" not in done.stderr
    assert [path for path in (tmp_path / "d").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("command", ["verify", "export"])
def test_an_interrupted_reading_ends_130(
    record_walks: RecordWalks, tmp_path: Path, command: str
) -> None:
    folder = record_walks(seeds=(range(5_000),))
    extra = ["--out", "e"] if command == "export" else []
    done = interrupt(tmp_path, [command, str(folder), "--workers", "2", *extra])
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_does_not_change_the_exit_code(record_walks: RecordWalks) -> None:
    folder = record_walks()
    command = f"{sys.executable} -m crucible.cli verify {folder} --workers 1 --allow-unanchored"
    script = f"set -o pipefail; {command} --import walking | true"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "support")}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
