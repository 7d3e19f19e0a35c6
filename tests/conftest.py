"""What every test has: a home of its own, and datasets to look at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from walking import RecordWalks

# The Hub's clients read these when they are imported: no test reaches beyond this machine.
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

from crucible.recording import Plan, record_plan
from crucible.world_references import resolve_worlds


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home folder, so that no test sees what another recorded."""
    home = tmp_path_factory.mktemp("home")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def record_walks(tmp_path: Path) -> RecordWalks:
    """Records ``walking`` worlds into a folder, in this process."""

    def record(name: str = "walks", *, world: str = "walking:Walk", **plan: Any) -> Path:
        worlds = tuple(resolve_worlds(world, plan.pop("kwargs", {})))
        plan.setdefault("seeds", (range(5),))
        plan.setdefault("agent", "walking:Up")
        record_plan(Plan(worlds, **plan), tmp_path / name, workers=1)
        return tmp_path / name

    return record
