"""Files that crucible-rl 0.2.0 itself wrote (``tests/data/crucible-rl-0.2.0``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from boxes import needs_box

from crucible.cli import main

DATA = Path(__file__).parent.parent / "data" / "crucible-rl-0.2.0"
FILES = ["guess", "sql", "http", pytest.param("command", marks=needs_box)]


@pytest.mark.parametrize("name", FILES)
def test_an_old_file_is_shown_and_replayed_as_far_as_it_goes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(DATA / f"{name}.json")
    assert main(["show", path]) == 0
    capsys.readouterr()
    assert main(["replay", path]) == 3
    out = capsys.readouterr().out
    assert out.startswith("unverifiable: ")
    assert "version: a file of crucible-rl 0.2.0" in out
    assert "observations, rewards, flags, infos and total are equal" in out


EDITS: dict[str, Any] = {
    "reward": lambda t: t["transitions"][0].update(reward=0.5),
    "observation": lambda t: t["transitions"][1].update(observation={"feedback": "higher"}),
    "info": lambda t: t["transitions"][0].update(info={"guesses": 2}),
    "done": lambda t: t["transitions"][-1].update(done=False),
    "total": lambda t: t.update(total_reward=9.0),
    "final observation": lambda t: t.update(final_observation={"feedback": "correct"}),
    "config": lambda t: t["env_config"].update(high=21),
    "seed": lambda t: t.update(seed=5),
    "dropped step": lambda t: t["transitions"].pop(0),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_old_file_diverges(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.loads((DATA / "guess.json").read_text())
    EDITS[name](body["trajectory"])
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(body))
    assert main(["replay", str(path)]) == 1
    assert "recorded" in capsys.readouterr().out


def test_an_old_file_of_an_unknown_environment_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.loads((DATA / "guess.json").read_text())
    body["trajectory"]["env_id"] = "CodeTaskEnv"
    path = tmp_path / "old.json"
    path.write_text(json.dumps(body))
    assert main(["replay", str(path)]) == 3
    assert "not installed" in capsys.readouterr().out
