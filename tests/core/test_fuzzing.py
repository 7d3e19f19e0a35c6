from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LONG = os.environ.get("CRUCIBLE_TEST_LONG") == "1"
SUPPORT = Path(__file__).parent.parent / "support"


@pytest.mark.parametrize("seed", range(2 if LONG else 1))
def test_no_reader_falls_over_mutated_files(seed: int) -> None:
    seconds = 180 if LONG else 8
    done = subprocess.run(
        [sys.executable, SUPPORT / "fuzzing.py", str(seconds), str(seed)],
        capture_output=True,
        text=True,
        timeout=seconds + 120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(done.stdout)
    for name, tried in figures["tried"].items():
        assert 0 < figures["refused"][name] < tried, name
    assert figures["peak_mib"] < 300
