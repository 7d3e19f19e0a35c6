from __future__ import annotations

import json

import pytest

from crucible.checking import CONDITIONS, CheckReport, check_worlds
from crucible.cli import main
from crucible.world_references import resolve_worlds

LEAKS = ["HashSeed", "TimeZone", "Clock", "Folder", "User", "Processors", "GlobalRandom"]
LEAKS += ["Leftover"]
OTHERS = ["Honest", "Admitted", "Generous"]


@pytest.fixture(scope="module")
def report() -> CheckReport:
    """One check of all of them."""
    worlds = [resolve_worlds(f"leaking:{name}", {})[0] for name in (*LEAKS, *OTHERS)]
    return check_worlds(worlds, [3])


@pytest.mark.xdist_group("checking")
@pytest.mark.parametrize("name", LEAKS)
def test_what_an_environment_should_not_depend_on_is_named(report: CheckReport, name: str) -> None:
    if name == "Processors" and not _has_two_processors():
        pytest.skip("there is only one processor here: nothing can differ")
    world = report.worlds[LEAKS.index(name)]
    assert world.determinism == "moves"
    whats = [p.what for p in report.problems if p.world == f"leaking:{name}" and p.kind == "moved"]
    assert any("/seen" in what for what in whats), whats
    assert all(what.startswith("seed 3, agent ") for what in whats)
    assert any(condition in whats[0] for condition in CONDITIONS)


def _has_two_processors() -> bool:
    import os

    return len(os.sched_getaffinity(0)) > 1


@pytest.mark.xdist_group("checking")
def test_an_honest_environment_passes_and_the_others_say_what_they_are(report: CheckReport) -> None:
    honest, admitted, generous = report.worlds[len(LEAKS) :]
    assert (honest.determinism, honest.null, honest.canaries) == ("ok", "ok", "ok")
    assert admitted.determinism == "declared not"
    assert (generous.null, generous.canaries) == ("solves", "1 of 1 earn")
    assert not [p for p in report.problems if p.world in ("leaking:Honest", "leaking:Admitted")]
    assert report.exit_code == 1


@pytest.mark.xdist_group("checking")
def test_the_command_prints_a_table_or_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "check", "guess-basics/up-to-100", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["worlds"][0]["oracle"] == "solves"
    assert (body["problems"], body["exit_code"]) == ([], 0)
    assert main(["envs", "check", "leaking:Generous", "-q"]) == 1
    out = capsys.readouterr().out
    assert "canary: leaking:Generous: 'nothing at all' earns 1" in out
    assert "null: leaking:Generous: an agent that does nothing succeeds" in out
    assert main(["envs", "check", "nothing"]) == 2


def test_what_is_known_to_be_paid_is_no_failure() -> None:
    from crucible.checking import Problem

    assert CheckReport(problems=[Problem("w", "known", "x")]).exit_code == 0
    assert CheckReport(problems=[Problem("w", "unchecked", "x")]).exit_code == 3
