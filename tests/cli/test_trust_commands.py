from __future__ import annotations

import json
from pathlib import Path

import pytest
from walking import RecordWalks

from crucible.cli import main
from crucible.trust import trust_path


@pytest.fixture
def foreign(record_walks: RecordWalks, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A dataset that somebody else recorded."""
    folder = record_walks()
    monkeypatch.setenv("XDG_STATE_HOME", str(own_home / "another user"))
    return str(folder)


def verify(target: str) -> int:
    return main(["verify", target, "--workers", "1"])


def test_a_reviewed_world_is_pinned_and_unpinned(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(foreign) == 3
    capsys.readouterr()
    assert main(["worlds", foreign, "--json"]) == 0
    (world,) = json.loads(capsys.readouterr().out)["worlds"]
    assert world["anchor"] is None
    assert main(["trust", "add", world["world"]]) == 0
    assert verify(foreign) == 0
    assert main(["trust", "remove", world["world"]]) == 0
    assert verify(foreign) == 3


def test_all_worlds_of_a_dataset_are_pinned_at_once(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trust", "add", foreign]) == 0
    assert verify(foreign) == 0
    capsys.readouterr()
    assert main(["trust", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["worlds"]) == 1


def test_worlds_shows_the_kwargs_of_what_is_not_anchored(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worlds", foreign]) == 0
    out = capsys.readouterr().out
    assert "walking:Walk: NOT ANCHORED" in out
    assert "kwargs {}" in out


def test_an_installed_suite_can_be_trusted_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "add", "suite:sql-skills"]) == 0
    assert main(["trust", "list"]) == 0
    assert "sql-skills" in capsys.readouterr().out
    assert main(["trust", "add", "suite:nothing"]) == 3


def test_a_damaged_trust_file_is_one_error(
    foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("{}", "nonsense", '{"format":1,"suites":[],"worlds":[1]}'):
        trust_path().parent.mkdir(parents=True, exist_ok=True)
        trust_path().write_text(text)
        capsys.readouterr()
        assert verify(foreign) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_a_target_that_is_nothing_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "add", "nothing"]) == 2
    assert main(["worlds", "nothing"]) == 2
