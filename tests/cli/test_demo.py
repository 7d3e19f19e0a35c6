"""The demo, whole, as a newcomer runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from crucible.cli import main
from crucible.cli.demo import RECORDINGS
from crucible.dataset.folder import read_manifest
from crucible.sandbox import box_problem


def run_demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "crucible.cli", "demo", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_demo_shows_the_whole_loop(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    recorded = read_manifest(tmp_path / "crucible-demo" / "recorded")
    pulled = read_manifest(tmp_path / "crucible-demo" / "pulled")
    assert pulled == recorded
    assert recorded.num_rows > 200
    suites = len(RECORDINGS) if box_problem() is None else len(RECORDINGS) - 2
    assert len(recorded.recordings) == 2 * suites
    assert f"VERIFIED: {recorded.num_rows} of {recorded.num_rows} rows reproduced" in done.stdout
    assert re.search(r"step 0: reward: recorded 1\.0, replayed -0\.", done.stdout)
    assert re.search(r"exported \d+ chats", done.stdout)
    if re.search(r"loss (\d+\.\d+) → (\d+\.\d+)", done.stdout) is None:
        assert "pip install 'crucible-rl[train]'" in done.stdout
    for name in ("recorded", "pulled", "edited", "sft", "hub"):
        assert (tmp_path / "crucible-demo" / name).is_dir()
    assert main(["verify", str(tmp_path / "crucible-demo" / "edited")]) == 1


def test_the_demo_does_not_delete_a_folder_of_somebody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert (tmp_path / "thesis.txt").exists()
    assert "holds something else" in capsys.readouterr().err
