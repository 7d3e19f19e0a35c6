from __future__ import annotations

import math
from typing import Any

import pytest
from walking import Broken, Still, Up, Walk

from crucible import ScriptedAgent, replay, rollout
from crucible.agents import NullAgent, RandomAgent
from crucible.env import Environment, StepResult
from crucible.errors import UsageError


def test_a_rollout_records_every_step_and_its_end() -> None:
    trajectory = rollout(Walk(goal=3), Up(), seed=0)
    assert trajectory.end == "terminated"
    assert trajectory.success is True
    assert trajectory.steps[0].observation == trajectory.initial_observation
    assert trajectory.final_observation == {"at": 3}
    assert [step.terminated for step in trajectory.steps[-2:]] == [False, True]
    assert trajectory.total_reward == math.fsum(step.reward for step in trajectory.steps)
    assert trajectory.steps[-1].digest == "at:3"


def test_the_environments_own_limit_applies_unless_another_is_given() -> None:
    assert rollout(Walk(goal=99), Up(), seed=0).num_steps == 8
    short = rollout(Walk(goal=99), Up(), seed=0, max_steps=2)
    assert (short.num_steps, short.end, short.max_steps) == (2, "max_steps", 2)


def test_an_agent_that_stops_gives_a_prefix() -> None:
    trajectory = rollout(Walk(), ScriptedAgent([1]), seed=0)
    assert (trajectory.end, trajectory.num_steps) == ("agent_stop", 1)


def test_a_failing_environment_gives_a_trajectory_with_the_error() -> None:
    trajectory = rollout(Broken(), Up(), seed=0)
    assert trajectory.end == "error"
    assert trajectory.num_steps == 1
    assert trajectory.error == "step 1 failed: RuntimeError: the bridge is out"
    assert replay(Broken(), trajectory).ok


def test_a_failing_agent_gives_a_trajectory_with_the_error() -> None:
    trajectory = rollout(Walk(), ScriptedAgent([object()]), seed=0)
    assert trajectory.end == "error"
    assert trajectory.error is not None and "object has no canonical form" in trajectory.error


def test_an_action_that_fits_no_tool_costs_the_declared_penalty() -> None:
    trajectory = rollout(Walk(), NullAgent(), seed=0, max_steps=2)
    assert [step.reward for step in trajectory.steps] == [-0.1, -0.1]
    assert trajectory.steps[0].info == {"malformed": True}
    assert trajectory.steps[0].digest == trajectory.initial_digest
    assert replay(Walk(), trajectory).ok


class Seen(Environment):
    """Tells the type of what it was given."""

    def reset(self, seed: int) -> Any:
        return (1, 2)

    def step(self, action: Any) -> StepResult:
        return StepResult(type(action).__name__, 0, False)


def test_environment_and_agent_get_decoded_canonical_values() -> None:
    seen = []

    class Agent(Up):
        def act(self, observation: Any) -> Any:
            seen.append(observation)
            return (1, 2)

    trajectory = rollout(Seen(), Agent(), seed=0, max_steps=1)
    assert seen == [[1, 2]]
    assert trajectory.final_observation == "list"


@pytest.mark.parametrize("result", [None, StepResult({}, math.nan, False), StepResult({}, 1, 1)])  # type: ignore[arg-type]
def test_a_step_that_breaks_the_contract_is_an_error_of_the_environment(result: Any) -> None:
    class Bad(Walk):
        def step(self, action: Any) -> StepResult:
            checked: StepResult = result
            return checked

    trajectory = rollout(Bad(), Up(), seed=0)
    assert trajectory.end == "error"
    assert trajectory.error is not None and trajectory.error.startswith("step 0 failed")


@pytest.mark.parametrize(("seed", "max_steps"), [(0, 0), (0, -1), (2**63, None)])
def test_arguments_out_of_range_are_refused(seed: int, max_steps: int | None) -> None:
    with pytest.raises(UsageError):
        rollout(Walk(), Up(), seed=seed, max_steps=max_steps)


def test_kwargs_are_what_the_constructor_was_called_with() -> None:
    assert Walk(5).kwargs() == {"goal": 5}
    assert Walk().kwargs() == {}
    assert rollout(Still(goal=1), Up(), seed=0).world.kwargs == {"goal": 1}


def test_kwargs_are_those_of_the_outermost_constructor() -> None:
    class Outer(Walk):
        def __init__(self, distance: int, **rest: int) -> None:
            super().__init__(goal=distance)

    assert Outer(4, x=1).kwargs() == {"distance": 4, "x": 1}


def test_the_random_agent_fits_the_tools_and_repeats_itself() -> None:
    agent = RandomAgent(Walk(), seed=1)
    agent.reset()
    first = [agent.act(None) for _ in range(3)]
    agent.reset()
    assert [agent.act(None) for _ in range(3)] == first


def test_a_message_and_its_action_are_inverses() -> None:
    env = Walk()
    message = env.to_message({"n": [1, 0.5]}, call_id="c")
    assert env.parse(message) == [{"n": [1, 0.5]}]


@pytest.mark.parametrize(
    "call",
    [
        {"function": {"name": "nothing", "arguments": "{}"}},
        {"function": {"name": "step", "arguments": '{"action":1,"more":2}'}},
        {"function": {"name": "step", "arguments": '{"action":1,"action":2}'}},
        {"function": {"name": "step", "arguments": "{"}},
        {"function": {"name": "step"}},
        {"function": {"name": ["step"], "arguments": "{}"}},
        "step",
    ],
)
def test_a_call_that_does_not_fit_becomes_malformed(call: Any) -> None:
    good = Walk().to_message(1, call_id="c")["tool_calls"][0]
    assert Walk().parse({"tool_calls": [good, call]}) == [1, {"$malformed": call}]


def test_text_without_a_call_is_malformed_unless_the_environment_reads_it() -> None:
    assert Walk().parse({"content": "go"}) == [{"$malformed": "go"}]
    assert Walk().parse({"content": None}) == [{"$malformed": None}]
