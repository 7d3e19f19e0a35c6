from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from walking import Moody, Up, Walk

from crucible import Mismatch, ScriptedAgent, Trajectory, replay, rollout
from crucible.errors import DivergenceError


@pytest.fixture
def trajectory() -> Trajectory:
    """A walk of several steps that ends at its goal."""
    return rollout(Walk(goal=3), Up(), seed=4)


def test_an_honest_trajectory_reproduces(trajectory: Trajectory) -> None:
    report = replay(Walk(goal=3), trajectory)
    assert report.ok
    assert report.steps == trajectory.num_steps
    report.raise_for_mismatch()


def edit(step: int, **changes: Any) -> Callable[[Trajectory], Trajectory]:
    def apply(t: Trajectory) -> Trajectory:
        steps = list(t.steps)
        steps[step] = replace(steps[step], **changes)
        return replace(t, steps=tuple(steps))

    return apply


EDITS: dict[str, tuple[Callable[[Trajectory], Trajectory], str]] = {
    "observation": (edit(1, observation_text='{"at":9}'), "observation"),
    "observation type": (edit(0, observation_text='{"at":2.0}'), "observation"),
    "action": (edit(0, action_text="2"), "observation"),
    "reward": (edit(1, reward=0.5), "reward"),
    "terminated": (edit(-1, terminated=False), "terminated"),
    "truncated": (edit(0, truncated=True), "truncated"),
    "info": (edit(0, info_text='{"third":0.3}'), "info"),
    "digest": (edit(0, digest="x"), "digest"),
    "drop last": (lambda t: replace(t, steps=t.steps[:-1]), "final_observation"),
    "drop first": (lambda t: replace(t, steps=t.steps[1:]), "observation"),
    "empty": (lambda t: replace(t, steps=()), "final_observation"),
    "duplicate": (lambda t: replace(t, steps=(*t.steps, t.steps[-1])), "step"),
    "reorder": (lambda t: replace(t, steps=t.steps[::-1]), "observation"),
    "seed": (lambda t: replace(t, seed=1), "reset_info"),
    "initial digest": (lambda t: replace(t, initial_digest="at:1"), "initial_digest"),
    "reset info": (lambda t: replace(t, reset_info_text="{}"), "reset_info"),
    "final": (lambda t: replace(t, final_observation_text="{}"), "final_observation"),
    "total": (lambda t: replace(t, total_reward=t.total_reward + 1e-9), "total_reward"),
    "end": (lambda t: replace(t, end="agent_stop"), "end"),
    "end at limit": (lambda t: replace(t, end="max_steps"), "end"),
    "success": (lambda t: replace(t, success=False), "success"),
    "no success": (lambda t: replace(t, success=None), "success"),
    "max_steps": (lambda t: replace(t, max_steps=1), "num_steps"),
    "kwargs": (lambda t: replace(t, world=replace(t.world, kwargs_text='{"goal":4}')), "kwargs"),
    "env_id": (lambda t: replace(t, world=replace(t.world, env_id="guess")), "env_id"),
    "version": (lambda t: replace(t, world=replace(t.world, env_version="2")), "env_version"),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_edited_claim_is_named(trajectory: Trajectory, name: str) -> None:
    apply, field = EDITS[name]
    report = replay(Walk(goal=3), apply(trajectory))
    assert not report.ok
    assert field in [mismatch.field for mismatch in report.mismatches]
    with pytest.raises(DivergenceError):
        report.raise_for_mismatch()


def test_the_first_mismatch_has_step_field_place_and_both_values(trajectory: Trajectory) -> None:
    edited = edit(1, info_text='{"third":0.5}')(trajectory)
    (mismatch,) = replay(Walk(goal=3), edited).mismatches
    assert mismatch == Mismatch(1, "info", "/third", "0.5", "0.3333333333333333")
    assert str(mismatch) == "step 1: info at /third: recorded 0.5, replayed 0.3333333333333333"


def test_an_action_that_makes_the_environment_fail_is_a_mismatch() -> None:
    trajectory = rollout(Walk(goal=9), ScriptedAgent([1, 1]), seed=0)
    edited = edit(1, action_text='"x"')(trajectory)
    fields = [mismatch.field for mismatch in replay(Walk(goal=9), edited).mismatches]
    assert "step" in fields


def test_an_environment_that_is_not_deterministic_does_not_reproduce() -> None:
    assert not replay(Moody(), rollout(Moody(), Up(), seed=0)).ok
