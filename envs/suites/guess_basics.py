"""The suite ``guess-basics``: number guessing with little room for waste."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crucible.agents import Agent, AgentInfo
from crucible.env import Action, Observation
from crucible.envs.guess import GuessEnv
from crucible.suites import Suite, SuiteWorld

__all__ = ["BinarySearchAgent", "suite"]


class BinarySearchAgent:
    """Halves the remaining range at every guess."""

    info = AgentInfo("binary-search")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._range: tuple[int, int] | None = None
        self._guess = 0

    def act(self, observation: Observation) -> Action:
        low, high = self._range or (observation["low"], observation["high"])
        match observation["feedback"]:
            case "higher":
                low = self._guess + 1
            case "lower":
                high = self._guess - 1
        self._range = (low, high)
        self._guess = (low + high) // 2
        return self._guess


def _binary_search(seed: int) -> Agent:
    return BinarySearchAgent()


def _linear_scan(kwargs: dict[str, int]) -> Callable[[int], Sequence[Any]]:
    """Guesses one by one, from the end of the range that is too far from the secret."""

    def actions(seed: int) -> Sequence[Any]:
        env = GuessEnv(**kwargs)
        upwards = list(range(env.low, env.low + env.max_guesses))
        downwards = list(range(env.high, env.high - env.max_guesses, -1))
        return downwards if env.secret(seed) in upwards else upwards

    return actions


def _world(name: str, *, low: int, high: int, max_guesses: int) -> SuiteWorld:
    kwargs = {"low": low, "high": high, "max_guesses": max_guesses}
    return SuiteWorld(name, "guess", kwargs, oracle=_binary_search, wrong=_linear_scan(kwargs))


suite = Suite(
    name="guess-basics",
    version="1",
    description="Find a secret number from 'higher' and 'lower' with few guesses to spare.",
    worlds=(
        _world("up-to-100", low=1, high=100, max_guesses=10),
        _world("up-to-1000", low=1, high=1000, max_guesses=12),
        _world("around-zero", low=-50, high=50, max_guesses=8),
        _world("up-to-a-million", low=1, high=1_000_000, max_guesses=22),
    ),
    splits={"train": range(0, 1_000_000), "test": range(1_000_000, 2_000_000)},
)
