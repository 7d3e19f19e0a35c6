"""``crucible envs check`` as its users see it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crucible.cli import main
from crucible.errors import SandboxUnavailableError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Re-runs follow each other at once: the clock is moved all the same."""
    monkeypatch.setattr("crucible.determinism.PAUSE_S", 0.0)


@pytest.fixture
def no_reruns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is re-run: for what does not depend on it."""
    monkeypatch.setattr("crucible.checking.find_moves", lambda played, runs: [None] * len(played))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["envs", "check", *arguments])
    return code, capsys.readouterr().out


def test_a_good_suite_ends_with_0_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = shown(capsys, "guess-basics", "--seeds", "0:2", "-q")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["world", "determinism", "oracle", "null", "random", "canaries"]
    assert lines[1].split() == ["guess-basics/up-to-100", "ok", "solves", "ok", "fails", "–"]
    assert len(lines) == 6
    same = "every episode came out the same in 3 re-runs under changed conditions"
    assert lines[-1] == f"{same}; there are no canaries to try"


def test_json_is_one_object_that_names_what_moved(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = shown(capsys, "leaking:User", "--json", "--runs", "4")
    body = json.loads(out)
    assert (code, body["exit_code"], body["runs"]) == (1, 1, 4)
    assert body["worlds"][0]["determinism"] == "moves"
    details = [problem["details"] for problem in body["problems"] if problem["kind"] == "moved"]
    assert {tuple(detail["causes"]) for detail in details} == {("user name",)}
    assert {detail["agent"] for detail in details} == {"random", "null"}
    mismatch: dict[str, Any] = details[-1]["mismatch"]
    assert set(mismatch) == {"step", "field", "path", "recorded", "replayed"}
    assert [detail["runs"] for detail in details] == [[1, 2, 3, 4]] * 2


def test_sentences_name_what_is_paid(capsys: pytest.CaptureFixture[str], no_reruns: None) -> None:
    code, out = shown(capsys, "leaking:Generous", "-q")
    assert code == 1
    assert "canary: leaking:Generous: 'nothing at all' succeeds with seed 0: total reward 1" in out
    assert "null: leaking:Generous: an agent that does nothing succeeds with seed 0" in out
    assert "note: leaking:Generous: a random agent succeeds with seed 0 in 1 steps" in out
    assert out.splitlines()[-1] == "1 null, 1 canary, 1 note"


def test_what_is_known_to_be_paid_is_printed_and_passes(
    capsys: pytest.CaptureFixture[str], no_reruns: None
) -> None:
    code, out = shown(capsys, "leaking:Documented")
    assert code == 0
    assert out.splitlines()[1].split("  ")[-1].strip() == "ok, but 1 known"
    start = "known: of its own: leaking:Documented: 'documented' is paid by seed 0"
    assert out.splitlines()[2].startswith(start)
    assert out.splitlines()[-1].endswith("; no canary earns, except for what is known")
    code, out = shown(capsys, "code-basics/median")
    assert (code, "known" in out) == (0, False)


def test_without_a_sandbox_it_ends_with_3(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SandboxUnavailableError("no sandbox on this machine: none")

    monkeypatch.setattr("crucible.sandbox.require_box", missing)
    code, out = shown(capsys, "shell-basics/sort-unique")
    assert code == 3
    assert "unchecked: shell-basics/sort-unique: no sandbox on this machine: none" in out
    assert "came out the same" not in out


def test_a_world_of_ones_own_takes_arguments(
    capsys: pytest.CaptureFixture[str], no_reruns: None
) -> None:
    code, out = shown(capsys, "guess", "-k", "low=1", "-k", "high=2", "--json")
    assert (code, json.loads(out)["worlds"][0]["oracle"]) == (0, "–")
    code, out = shown(capsys, "leaking-named", "--import", "leaking", "--json")
    assert (code, json.loads(out)["worlds"][0]["null"]) == (1, "solves")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing"],
        ["guess-basics", "--runs", "2"],
        ["guess-basics", "--seeds", "3:3"],
        ["guess-basics", "--seeds", "x"],
        ["guess-basics", "-k", "low=1"],
        [],
    ],
)
def test_wrong_usage_ends_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], no_reruns: None
) -> None:
    assert main(["envs", "check", *arguments]) == 2
    assert capsys.readouterr().out == ""
