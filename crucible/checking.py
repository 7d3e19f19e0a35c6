"""Check worlds before they are published: does an episode come out the same under changed
conditions, does the reference solution solve, and does what only looks like one earn nothing?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crucible.agent_specs import make_agent
from crucible.agents import ScriptedAgent
from crucible.conditions import MIN_RUNS
from crucible.determinism import find_moves
from crucible.env import Action, Environment
from crucible.episodes import describe_error
from crucible.errors import SandboxUnavailableError, UsageError
from crucible.registry import environment_class, make
from crucible.rollouts import DEFAULT_MAX_STEPS, rollout_in
from crucible.trajectory import Trajectory
from crucible.worlds import World

__all__ = ["CheckReport", "Problem", "WorldCheck", "check_worlds"]

IDLE_STEPS = 2
FAILURES = frozenset({"moved", "oracle", "null", "canary"})
NOT_CHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to tell. ``what`` is a sentence, ``details`` the same as plain JSON values.

    ``kind`` is ``moved``, ``oracle``, ``null`` or ``canary`` for what is wrong, ``unchecked`` for
    what could not be tried, ``known`` for a canary that the grader is documented to pay, and
    ``note`` for the rest; the last two are no failures.
    """

    world: str
    kind: str
    what: str
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        kind = f"known: {self.details['class']}" if "class" in self.details else self.kind
        return f"{kind}: {self.world}: {self.what}"


@dataclass(slots=True)
class WorldCheck:
    """What was found of one world; a word for each check: ``ok``, ``–`` where there is nothing to
    check, else what is wrong."""

    label: str
    determinism: str = "ok"
    oracle: str = "–"
    null: str = "ok"
    random: str = "–"
    canaries: str = "–"


@dataclass(slots=True)
class CheckReport:
    """All worlds, and everything that there is to tell."""

    runs: int = MIN_RUNS
    worlds: list[WorldCheck] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 where something is wrong, 3 where something could not be checked, else 0."""
        kinds = {problem.kind for problem in self.problems}
        if kinds & FAILURES:
            return 1
        return 3 if NOT_CHECKED in kinds else 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        names = ("label", "determinism", "oracle", "null", "random", "canaries")
        return {
            "runs": self.runs,
            "worlds": [{name: getattr(world, name) for name in names} for world in self.worlds],
            "problems": [
                {"world": p.world, "kind": p.kind, "what": p.what, "details": p.details}
                for p in self.problems
            ],
            "exit_code": self.exit_code,
        }


def check_worlds(
    worlds: Iterable[World],
    seeds: Sequence[int] = (0,),
    *,
    runs: int = MIN_RUNS,
    on_world: Callable[[], None] = lambda: None,
) -> CheckReport:
    """Check every world with every seed.

    The reference solution, a random and the null agent play once each; their episodes are re-run
    ``runs`` times under changed conditions. What is no solution – ``Environment.canaries`` – must
    not succeed, and no step of it, nor its sum, may give more than nothing, or than doing nothing
    gives.

    Raises:
        UsageError: if there are no seeds, or fewer than three runs.
    """
    if not seeds:
        raise UsageError("seeds: expected at least one, found none")
    if runs < MIN_RUNS:
        raise UsageError(f"runs: expected at least {MIN_RUNS}, found {runs}")
    report = CheckReport(runs)
    played: list[tuple[WorldCheck, Trajectory]] = []
    for world in worlds:
        checker = _WorldChecker(report, world)
        if checker.can_run():
            played += checker.play(seeds)
        on_world()
    moves = find_moves([trajectory for _, trajectory in played], runs=runs)
    for (check, _), move in zip(played, moves, strict=True):
        if move is not None:
            check.determinism = "moves"
            report.problems.append(Problem(check.label, "moved", str(move), move.to_dict()))
    return report


class _WorldChecker:
    """Plays all that is played in one world, and writes down what is wrong."""

    def __init__(self, report: CheckReport, world: World) -> None:
        self.report, self.world = report, world
        self.cls = environment_class(world.env_id)
        self.check = WorldCheck(world.label)
        report.worlds.append(self.check)
        self._canaries: dict[str, str] = {}  # name → "ok", "known" or "canary"

    def can_run(self) -> bool:
        """Whether the world can be run here."""
        if not self.cls.needs_sandbox:
            return True
        from crucible.sandbox import require_box

        try:
            require_box()
        except SandboxUnavailableError as error:
            self.check.determinism = self.check.null = NOT_CHECKED
            self._tell(NOT_CHECKED, str(error))
            return False
        return True

    def play(self, seeds: Sequence[int]) -> list[tuple[WorldCheck, Trajectory]]:
        """Play every agent and canary; the episodes to re-run."""
        episodes = []
        for seed in seeds:
            null = self._episode("null", seed)
            played = [null, self._episode("random", seed)]
            if self.world.suite is not None:
                played.insert(0, self._episode("oracle", seed))
            episodes += [trajectory for trajectory in played if trajectory is not None]
            if null is not None and (self.world.seeded or seed == seeds[0]):
                self._try_canaries(seed, null)
        if not self.cls.deterministic:
            self.check.determinism = "declared not"
            return []
        if not episodes:
            self.check.determinism = NOT_CHECKED
        return [(self.check, trajectory) for trajectory in episodes]

    def _episode(self, spec: str, seed: int) -> Trajectory | None:
        """One episode, and what is to say of it; None where there was none."""
        env = make(self.world.env_id, self.world.kwargs)
        limit = env.max_steps or DEFAULT_MAX_STEPS
        if spec == "null" or (spec == "random" and self.cls.needs_sandbox):
            limit = min(limit, IDLE_STEPS)
        try:
            agent = make_agent(spec, self.world, env=env, seed=seed, attempt=0)
            trajectory = rollout_in(self.world, env, agent=agent, seed=seed, max_steps=limit)
        except Exception as error:  # a suite's own code chooses the actions
            kind = "oracle" if spec == "oracle" else NOT_CHECKED
            self._tell(kind, f"seed {seed}: agent {spec} fails: {describe_error(error)}")
            return None
        finally:
            env.close()
        getattr(self, f"_judge_{spec}")(trajectory)
        return trajectory

    def _judge_oracle(self, trajectory: Trajectory) -> None:
        if trajectory.success is False or trajectory.error is not None:
            self.check.oracle = "fails"
            why = trajectory.error or f"it ends {trajectory.end} without success"
            self._tell("oracle", f"the reference solution does not solve {_of(trajectory)}: {why}")
        elif self.check.oracle == "–":
            self.check.oracle = "solves" if trajectory.success else "no goal"

    def _judge_null(self, trajectory: Trajectory) -> None:
        if trajectory.success:
            self.check.null = "solves"
            self._tell("null", f"an agent that does nothing succeeds with {_of(trajectory)}")
        elif trajectory.error is not None:
            self.check.null = NOT_CHECKED
            self._tell(NOT_CHECKED, f"{_of(trajectory)} cannot be played: {trajectory.error}")

    def _judge_random(self, trajectory: Trajectory) -> None:
        if trajectory.success:
            self.check.random = "solves"
            steps = f"in {trajectory.num_steps} steps"
            self._tell("note", f"a random agent succeeds with {_of(trajectory)} {steps}")
        elif self.check.random == "–" and trajectory.success is False:
            self.check.random = "fails"

    def _try_canaries(self, seed: int, null: Trajectory) -> None:
        """Play what must earn nothing. Each attempt has an episode of its own."""
        env = make(self.world.env_id, self.world.kwargs)
        try:
            env.reset(seed)
            for name, actions in env.canaries().items():
                kind = self._canary_kind(env, name, actions, null)
                if kind != "ok" or name not in self._canaries:
                    self._canaries[name] = kind
        except Exception as error:
            self._tell(NOT_CHECKED, f"seed {seed}: canaries fail: {describe_error(error)}")
            return
        finally:
            env.close()
        kinds = list(self._canaries.values())
        if "canary" in kinds:
            self.check.canaries = f"{kinds.count('canary')} of {len(kinds)} earn"
        elif kinds:
            num_known = kinds.count("known")
            self.check.canaries = f"ok, but {num_known} known" if num_known else "ok"

    def _canary_kind(
        self, env: Environment, name: str, actions: Sequence[Action], null: Trajectory
    ) -> str:
        """``ok``, or what it is when a canary succeeds or gets more than nothing and than the null
        agent, in one step or in all."""
        agent = ScriptedAgent(actions, name=name)
        limit = max(len(actions), 1)
        trajectory = rollout_in(self.world, env, agent=agent, seed=null.seed, max_steps=limit)
        if trajectory.error is not None:
            what = f"{_of(trajectory)}: canary {name!r} cannot be played: {trajectory.error}"
            self._tell(NOT_CHECKED, what)
        total, best = trajectory.total_reward, _best_reward(trajectory)
        is_paid = total > max(0.0, null.total_reward) or best > max(0.0, _best_reward(null))
        if not (trajectory.success or is_paid):
            return "ok"
        details = {"canary": name, "seed": null.seed, "success": trajectory.success}
        details |= {"total_reward": total, "best_reward": best}
        what = f"{name!r} succeeds with" if trajectory.success else f"{name!r} is paid by"
        known = env.known_canaries().get(name)
        kind = "known" if known else "canary"
        details |= {"class": known} if known else {}
        self._tell(kind, f"{what} {_of(trajectory)}: total reward {total:.4g}", details)
        return kind

    def _tell(self, kind: str, what: str, details: dict[str, Any] | None = None) -> None:
        self.report.problems.append(Problem(self.world.label, kind, what, details or {}))


def _of(trajectory: Trajectory) -> str:
    return f"seed {trajectory.seed}"


def _best_reward(trajectory: Trajectory) -> float:
    return max((step.reward for step in trajectory.steps), default=0.0)
