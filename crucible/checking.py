"""Check worlds before they are published: does an episode come out the same under changed
conditions, does the reference solution solve, and does what only looks like one earn nothing?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from crucible.agent_specs import make_agent
from crucible.agents import ScriptedAgent
from crucible.episodes import Transcript
from crucible.errors import EpisodeError
from crucible.registry import environment_class, make, user_modules
from crucible.replaying import Mismatch, compare
from crucible.rollouts import DEFAULT_MAX_STEPS, rollout_in
from crucible.trajectory import Trajectory
from crucible.worlds import World

__all__ = ["CONDITIONS", "CheckReport", "Problem", "WorldCheck", "check_worlds"]

CHILD_TIMEOUT_S = 600.0
IDLE_STEPS = 4
DAYS_40_S = 40 * 86_400.0

CONDITIONS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "another hash seed and time zone": (
        {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"},
        {"random_seed": 1},
    ),
    "another locale, user and home": (
        {"LC_ALL": "C", "LANG": "C", "USER": "somebody", "LOGNAME": "somebody"},
        {"random_seed": 2},
    ),
    "another time, on one processor": (
        {"PYTHONHASHSEED": "random", "TZ": "America/St_Johns"},
        {"clock_offset_s": DAYS_40_S, "one_processor": True, "random_seed": 3},
    ),
    "another order, in an environment that had episodes before": (
        {"PYTHONHASHSEED": "0"},
        {"reverse": True, "same_instance": True, "random_seed": 4},
    ),
}
"""What is changed → environment variables, and what the re-running process does. Each runs in a
fresh process, in a folder and a home of its own, more than a second after the one before."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``kind`` is ``moved``, ``oracle``, ``null``, ``canary`` or ``unchecked``; ``what`` is a
    sentence. A canary that a grader is known to pay is ``known``, and no failure."""

    world: str
    kind: str
    what: str


@dataclass(slots=True)
class WorldCheck:
    """What was found of one world; a word for each check: ``ok``, ``–`` where there is nothing to
    check, else what is wrong."""

    label: str
    determinism: str = "ok"
    oracle: str = "–"
    null: str = "ok"
    canaries: str = "–"


@dataclass(slots=True)
class CheckReport:
    """All worlds, and everything that is wrong."""

    worlds: list[WorldCheck] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 where something is wrong, 3 where something could not be checked, else 0."""
        kinds = {problem.kind for problem in self.problems} - {"known"}
        if kinds - {"unchecked"}:
            return 1
        return 3 if kinds else 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        names = ("label", "determinism", "oracle", "null", "canaries")
        return {
            "worlds": [{name: getattr(world, name) for name in names} for world in self.worlds],
            "problems": [{"world": p.world, "kind": p.kind, "what": p.what} for p in self.problems],
            "exit_code": self.exit_code,
        }


def check_worlds(
    worlds: Iterable[World],
    seeds: Sequence[int] = (0,),
    *,
    on_world: Callable[[], None] = lambda: None,
) -> CheckReport:
    """Check every world with every seed.

    The reference solution, a random and the null agent play once each; their episodes are re-run
    under all :data:`CONDITIONS`. What is no solution – ``Environment.canaries`` – must earn no more
    than nothing.

    Raises:
        SandboxUnavailableError: if a world runs commands and there is no sandbox.
        EpisodeError: if a process that re-runs fails.
    """
    report = CheckReport()
    played: list[tuple[WorldCheck, Trajectory]] = []
    for world in worlds:
        check = WorldCheck(world.label)
        report.worlds.append(check)
        if environment_class(world.env_id).needs_sandbox:
            from crucible.sandbox import require_box

            require_box()
        for seed in seeds:
            played += [(check, t) for t in _played(report, check, world, seed)]
        _check_canaries(report, check, world)
        if not environment_class(world.env_id).deterministic:
            check.determinism = "declared not"
        on_world()
    _check_determinism(report, [p for p in played if p[0].determinism == "ok"])
    return report


def _played(
    report: CheckReport, check: WorldCheck, world: World, seed: int
) -> Iterable[Trajectory]:
    """The episodes of the reference solution, a random and the null agent."""
    for spec in ("oracle", "random", "null"):
        if spec == "oracle" and world.suite is None:
            continue
        env = make(world.env_id, world.kwargs)
        try:
            agent = make_agent(spec, world, env=env, seed=seed, attempt=0)
            limit = env.max_steps or DEFAULT_MAX_STEPS
            limit = limit if spec == "oracle" else min(limit, IDLE_STEPS)
            trajectory = rollout_in(world, env, agent=agent, seed=seed, max_steps=limit)
        finally:
            env.close()
        if spec == "oracle":
            solves = trajectory.success is not False and trajectory.error is None
            check.oracle = "solves" if solves and check.oracle in ("–", "solves") else "fails"
            if not solves:
                why = trajectory.error or f"it ends {trajectory.end} without success"
                what = f"the reference solution does not solve seed {seed}: {why}"
                report.problems.append(Problem(world.label, "oracle", what))
        if spec == "null" and trajectory.success:
            check.null = "solves"
            what = f"an agent that does nothing succeeds with seed {seed}"
            report.problems.append(Problem(world.label, "null", what))
        yield trajectory


def _check_canaries(report: CheckReport, check: WorldCheck, world: World) -> None:
    """Run what must earn nothing. Each attempt has an episode of its own."""
    env = make(world.env_id, world.kwargs)
    paid = []
    try:
        canaries = env.canaries()
        for name, actions in canaries.items():
            agent = ScriptedAgent(actions, name=name)
            trajectory = rollout_in(world, env, agent=agent, seed=0, max_steps=len(actions))
            earned = max((step.reward for step in trajectory.steps), default=0.0)
            if trajectory.success or earned > 0:
                paid.append(name)
                kind = "known" if name in env.known_canaries() else "canary"
                what = f"{name!r} earns {earned:g}"
                report.problems.append(Problem(world.label, kind, what))
    finally:
        env.close()
    if canaries:
        check.canaries = f"{len(paid)} of {len(canaries)} earn" if paid else "ok"


def _check_determinism(report: CheckReport, played: list[tuple[WorldCheck, Trajectory]]) -> None:
    jobs = [
        {
            "world": trajectory.world.digest,
            "env_id": trajectory.world.env_id,
            "kwargs": trajectory.world.kwargs,
            "seed": trajectory.seed,
            "actions": [step.action_text for step in trajectory.steps],
        }
        for _, trajectory in played
    ]
    if not jobs:
        return
    for condition, (variables, change) in CONDITIONS.items():
        time.sleep(1.1)
        answers = _run_child(jobs, variables, change)
        for (check, trajectory), answer in zip(played, answers, strict=True):
            moved = _moved(trajectory, answer)
            if moved is not None:
                check.determinism = "moves"
                place = f"seed {trajectory.seed}, agent {trajectory.agent.name}, {condition}"
                report.problems.append(Problem(check.label, "moved", f"{place}: {moved}"))


def _moved(trajectory: Trajectory, answer: dict[str, Any]) -> Mismatch | str | None:
    """The first thing that came out differently."""
    if "initial_digest" not in answer:
        return f"it fails: {answer['error']}"
    mismatches = compare(trajectory, Transcript.from_dict(answer))
    return mismatches[0] if mismatches else None


def _run_child(
    jobs: list[dict[str, Any]], variables: dict[str, str], change: dict[str, Any]
) -> list[dict[str, Any]]:
    path = [os.path.abspath(entry) for entry in sys.path]
    request = {"imports": user_modules(), "path": path, "jobs": jobs, "change": change}
    with tempfile.TemporaryDirectory(prefix="crucible-check-") as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), **variables}
        environment |= {"HOME": folder}
        done = subprocess.run(
            [sys.executable, "-m", "crucible.check_process"],
            input=orjson.dumps(request),
            stdout=subprocess.PIPE,
            env=environment,
            cwd=folder,
            timeout=CHILD_TIMEOUT_S,
        )
    if done.returncode:
        raise EpisodeError(f"the process that re-runs episodes ended with {done.returncode}")
    answers: list[dict[str, Any]] = orjson.loads(done.stdout)
    return answers
