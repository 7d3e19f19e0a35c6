"""What the tests of the environments share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from crucible.agents import Agent, ScriptedAgent
from crucible.canonical import canonical_text, parse_text
from crucible.env import Environment, ResetResult

Play = Callable[..., list[dict[str, Any]]]


def _canonical(value: Any) -> Any:
    text = canonical_text(value)
    assert canonical_text(parse_text(text)) == text
    return parse_text(text)


def _play(env: Environment, solution: Sequence[Any] | Agent, *, seed: int) -> list[dict[str, Any]]:
    """The steps of one episode, with every value checked to be canonical and every action
    checked to survive a chat message.
    """
    agent = ScriptedAgent(solution) if isinstance(solution, Sequence) else solution
    num_actions = len(solution) if isinstance(solution, Sequence) else 1000
    agent.reset()
    first = env.reset(seed)
    observation = _canonical(first.observation if isinstance(first, ResetResult) else first)
    assert env.render(observation)
    steps: list[dict[str, Any]] = [{"observation": observation, "digest": env.digest()}]
    for number in range(min(num_actions, env.max_steps or 100)):
        action = _canonical(agent.act(observation))
        assert env.parse(env.to_message(action, call_id=f"c{number}")) == [action]
        result = env.step(action)
        observation = _canonical(result.observation)
        assert env.render(observation)
        step = {
            "observation": observation,
            "reward": result.reward,
            "done": result.done,
            "info": result.info,
            "digest": env.digest(),
        }
        assert isinstance(result.reward, float)
        steps.append(_canonical(step))
        if result.done or result.truncated:
            break
    return steps


@pytest.fixture
def play() -> Play:
    """A function that plays an episode by itself."""
    return _play
