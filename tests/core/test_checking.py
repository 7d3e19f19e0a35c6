from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from crucible.agents import ScriptedAgent
from crucible.checking import CheckReport, Problem, check_worlds
from crucible.conditions import FACTORS, base_condition, condition_of_run
from crucible.determinism import NOTHING_ALONE, NOTHING_CHANGED, find_moves
from crucible.env import StepResult
from crucible.errors import SandboxUnavailableError, UsageError
from crucible.registry import import_environment
from crucible.rollouts import rollout
from crucible.suites import Suite, SuiteWorld
from crucible.world_references import resolve_worlds

LEAKS = {
    "HashSeed": "hash seed",
    "HashedReward": "hash seed",
    "TimeZone": "time zone",
    "Clock": "wall clock",
    "Day": "wall clock",
    "Today": "wall clock",  # of its time zone, too
    "Folder": "working folder",
    "User": "user name",
    "Home": "home",
    "Locale": "locale",
    "Processors": "number of processors",
    "Affinity": "number of processors",
    "GlobalRandom": "state of the global random numbers",
    "NumpyRandom": "state of the global random numbers",
    "Leftover": "order and repetition of episodes",
    "SharedLeftover": "order and repetition of episodes",
    "Entropy": NOTHING_CHANGED,
}
OTHERS = ["Honest", "Admitted", "Generous", "Paying", "Broken"]

pytestmark = pytest.mark.xdist_group("checking")


@pytest.fixture(scope="module")
def report() -> CheckReport:
    """One check of all of them."""
    worlds = [resolve_worlds(f"leaking:{name}", {})[0] for name in (*LEAKS, *OTHERS)]
    return check_worlds(worlds, [3])


def problems_of(report: CheckReport, name: str) -> list[Problem]:
    return [problem for problem in report.problems if problem.world == f"leaking:{name}"]


@pytest.mark.parametrize("name", LEAKS)
def test_what_an_environment_should_not_depend_on_is_named(report: CheckReport, name: str) -> None:
    assert report.worlds[list(LEAKS).index(name)].determinism == "moves"
    moves = [problem for problem in problems_of(report, name) if problem.kind == "moved"]
    assert moves
    for move in moves:
        assert LEAKS[name] in move.details["causes"], move.what
        assert f"moved by {', '.join(move.details['causes'])}: " in move.what
    expected = ("time zone", "wall clock") if name == "Today" else (LEAKS[name],)
    assert {tuple(move.details["causes"]) for move in moves} == {expected}


def test_a_move_says_where_it_is_and_both_values(report: CheckReport) -> None:
    move = next(p for p in problems_of(report, "User") if p.details["agent"] == "random")
    mismatch = move.details["mismatch"]
    place = (mismatch["step"], mismatch["field"], mismatch["path"])
    assert place == (0, "observation", "/seen")
    assert mismatch["recorded"] != mismatch["replayed"] == '"ana"'
    assert (move.details["seed"], move.details["runs"]) == (3, [1, 2, 3])
    assert move.what.startswith("seed 3, agent random, re-run 1 and 2 and 3, moved by user name: ")
    assert move.what.endswith(f'recorded {mismatch["recorded"]}, replayed "ana"')
    reward = next(p for p in problems_of(report, "HashedReward") if p.kind == "moved")
    assert (reward.details["mismatch"]["step"], reward.details["mismatch"]["field"]) == (
        0,
        "reward",
    )


def test_an_honest_environment_passes_and_the_others_say_what_they_are(report: CheckReport) -> None:
    honest, admitted, generous, paying, broken = report.worlds[len(LEAKS) :]
    assert (honest.determinism, honest.null, honest.random) == ("ok", "ok", "fails")
    assert honest.canaries == "ok"
    assert admitted.determinism == "declared not"
    assert (generous.null, generous.random, generous.canaries) == (
        "solves",
        "solves",
        "1 of 1 earn",
    )
    assert paying.canaries == "1 of 3 earn"
    assert broken.null == "unchecked"
    assert not [*problems_of(report, "Honest"), *problems_of(report, "Admitted")]
    assert report.exit_code == 1


def test_a_canary_earns_by_any_of_its_steps_and_what_is_known_is_told(report: CheckReport) -> None:
    kinds = {p.details["canary"]: p.kind for p in problems_of(report, "Paying")}
    assert kinds == {"there and back": "canary", "documented": "known"}
    told = [str(problem) for problem in problems_of(report, "Paying")]
    start = "known: of its own: leaking:Paying: 'documented' is paid by seed 3"
    assert any(line.startswith(start) for line in told), told


def test_what_cannot_be_reset_is_not_called_good(report: CheckReport) -> None:
    whats = [p.what for p in problems_of(report, "Broken") if p.kind == "unchecked"]
    assert any("no such service" in what for what in whats), whats


def test_a_process_that_dies_is_a_failure_of_its_own_world_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crucible.determinism.PAUSE_S", 0.0)
    trajectories = []
    for name in ("Honest", "Dying"):
        env = import_environment(f"leaking:{name}")()
        trajectories.append(rollout(env, ScriptedAgent(["x"]), seed=0))
    honest, dying = find_moves(trajectories)
    assert honest is None
    assert dying is not None
    assert (dying.mismatch, dying.failure) == (None, "the process ended with 7")
    assert dying.causes == (NOTHING_ALONE,)


class _Oracle:
    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def __call__(self, seed: int) -> list[Any]:
        if self.fails:
            raise KeyError(seed)
        return [1]


@pytest.mark.parametrize(("fails", "why"), [(False, "without success"), (True, "KeyError: 0")])
def test_an_oracle_that_does_not_solve_is_named(
    monkeypatch: pytest.MonkeyPatch, fails: bool, why: str
) -> None:
    (world,) = resolve_worlds("guess-basics/up-to-100", {})
    entry = SuiteWorld(world.name or "", world.env_id, world.kwargs, _Oracle(fails), _Oracle(fails))
    suite = Suite("guess-basics", "1", "", (entry,))
    monkeypatch.setattr("crucible.agent_specs.load_suite", lambda name: suite)
    monkeypatch.setattr("crucible.checking.find_moves", lambda played, runs: [None] * len(played))
    report = check_worlds([world])
    (problem,) = report.problems
    assert (problem.kind, report.exit_code) == ("oracle", 1)
    assert why in problem.what


def test_without_a_sandbox_the_other_worlds_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise SandboxUnavailableError("no sandbox on this machine")

    monkeypatch.setattr("crucible.sandbox.require_box", missing)
    worlds = [resolve_worlds(f"leaking:{name}", {})[0] for name in ("Boxed", "Generous")]
    report = check_worlds(worlds[:1])
    assert report.exit_code == 3
    assert report.worlds[0].determinism == "unchecked"
    monkeypatch.setattr("crucible.checking.find_moves", lambda played, runs: [None] * len(played))
    assert check_worlds(worlds).exit_code == 1


@pytest.mark.parametrize("arguments", [{"seeds": []}, {"runs": 2}])
def test_a_check_of_nothing_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check_worlds(resolve_worlds("leaking:Honest", {}), **arguments)


def test_what_is_known_to_be_paid_is_no_failure() -> None:
    kinds = {"known": 0, "note": 0, "unchecked": 3, "moved": 1, "oracle": 1, "null": 1, "canary": 1}
    for kind, code in kinds.items():
        assert CheckReport(problems=[Problem("w", kind, "x")]).exit_code == code
    both = [Problem("w", "unchecked", "x"), Problem("w", "moved", "x")]
    assert CheckReport(problems=both).exit_code == 1


def test_every_factor_changes_between_the_first_two_runs() -> None:
    for factor in FACTORS:
        assert factor.of_run(0) != factor.of_run(1), factor.name
        alone = base_condition(factor)
        base = base_condition()
        differing = [
            other.name
            for other in FACTORS
            if any(alone.variables[n] != base.variables[n] for n in other.of_run(0).variables)
            or any(alone.change[n] != base.change[n] for n in other.of_run(0).change)
        ]
        assert differing == [factor.name]
    assert condition_of_run(2).variables["PYTHONHASHSEED"] == "random"


CLOCK = """
import copy, datetime, pickle, time
plain, real = datetime.datetime, time.time()
from crucible.clocks import hold_clock, shift_clock
{install}
import datetime, time
now = datetime.datetime.now()
assert type(now) is plain and isinstance(now, datetime.datetime) and isinstance(now, datetime.date)
assert not isinstance("x", datetime.datetime)
assert pickle.loads(pickle.dumps(now)) == copy.deepcopy(now) == now
assert type(datetime.datetime.fromisoformat("2020-01-02")) is plain
class Own(datetime.datetime):
    pass
assert type(Own.now()) is Own and not isinstance(now, Own)
looks = [time.time(), time.time_ns() / 1e9, now.timestamp(), time.mktime(time.localtime())]
looks += [datetime.datetime.now(datetime.UTC).timestamp(), time.mktime(time.strptime(time.ctime()))]
days = {{datetime.date.today().isoformat(), time.strftime("%Y-%m-%d")}}
{verify}
"""


@pytest.mark.parametrize(
    ("install", "verify"),
    [
        ("shift_clock(864000)", "assert all(863990 < t - real < 864100 for t in looks)"),
        ("hold_clock(1e9)", "assert all(-1 < t - 1e9 < 1 for t in looks), looks"),
        ("hold_clock(1e9)", "assert days == {'2001-09-09'}, days"),
    ],
)
def test_every_clock_of_python_is_changed(install: str, verify: str) -> None:
    code = CLOCK.format(install=install, verify=verify)
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment)
    assert done.returncode == 0


def test_a_step_reward_below_what_doing_nothing_gives_is_no_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def paying(amount: float) -> Callable[..., StepResult]:
        return lambda self, action: StepResult({}, amount, False)

    (world,) = resolve_worlds("leaking:Honest", {})
    monkeypatch.setattr("crucible.checking.find_moves", lambda played, runs: [None] * len(played))
    cls = import_environment("leaking:Honest")
    for amount, found in ((-0.01, []), (0.0, []), (0.01, ["canary"])):
        monkeypatch.setattr(cls, "step", paying(amount))
        assert [problem.kind for problem in check_worlds([world]).problems] == found
    monkeypatch.setattr(cls, "malformed_penalty", 0.02)
    assert check_worlds([dataclasses.replace(world)]).problems == []
