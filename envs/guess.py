"""A number-guessing environment: small, seeded and deterministic to the last bit."""

from __future__ import annotations

import random
import re
from typing import Any, ClassVar

from crucible.canonical import canonical_text
from crucible.digests import state_digest
from crucible.env import JSON, Action, Environment, Observation, StepResult
from crucible.registry import register

__all__ = ["GuessEnv"]

_MAX_STEPS = 100_000
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*")


@register("guess")
class GuessEnv(Environment):
    """Guess the secret integer in ``[low, high]`` from "higher" and "lower".

    The right guess gives ``+1.0`` and ends the episode; any other action gives ``-0.05``.
    After ``max_guesses`` actions the episode ends unsolved.

    Args:
        low: the smallest possible secret.
        high: the largest possible secret.
        max_guesses: the number of guesses after which the episode is lost.

    Raises:
        ValueError: if ``low`` is greater than ``high``.
    """

    env_version: ClassVar[str] = "1"
    runs_code: ClassVar[bool] = False
    seeded: ClassVar[bool] = True
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "low": {"type": "integer"},
            "high": {"type": "integer"},
            "max_guesses": {"type": "integer"},
        },
        "additionalProperties": False,
    }
    system_prompt: ClassVar[str | None] = (
        "Find the secret number. Each turn call guess with one integer inside the bounds. "
        "'higher' means the secret is greater than your guess, 'lower' means it is smaller. "
        "Halve the remaining range each time."
    )

    def __init__(self, low: int = 1, high: int = 100, max_guesses: int = 10) -> None:
        if low > high:
            raise ValueError("low must be <= high")
        self.low, self.high, self.max_guesses = low, high, max_guesses
        self.max_steps = max(1, min(max_guesses, _MAX_STEPS))
        self._secret = low
        self._num_guesses = 0
        self._last: int | None = None

    def secret(self, seed: int) -> int:
        """The number that ``reset(seed)`` hides, for oracles and tests."""
        return random.Random(seed).randint(self.low, self.high)

    def reset(self, seed: int) -> Observation:
        self._secret = self.secret(seed)
        self._num_guesses = 0
        self._last = None
        return {"feedback": "start", "low": self.low, "high": self.high}

    def step(self, action: Action) -> StepResult:
        guess = _integer(action)
        self._num_guesses += 1
        self._last = guess
        info = {"guesses": self._num_guesses}
        if guess == self._secret:
            info["secret"] = self._secret
            return StepResult({"feedback": "correct"}, 1.0, done=True, info=info)
        bounds = {"low": self.low, "high": self.high}
        observation: JSON
        if guess is None:
            observation = {"error": f"expected an integer, found {_shown(action)}", **bounds}
        else:
            observation = {"feedback": "higher" if guess < self._secret else "lower", **bounds}
        return StepResult(observation, -0.05, done=self._num_guesses >= self.max_guesses, info=info)

    def digest(self) -> str:
        state = [self._secret, self._num_guesses, str(self._last)]
        return state_digest("guess", canonical_text(state))

    def kwargs(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, "max_guesses": self.max_guesses}

    def success(self) -> bool:
        return self._last == self._secret and self._num_guesses > 0

    def tools(self) -> list[JSON]:
        description = f"The number to try, from {self.low} to {self.high}."
        return [
            {
                "type": "function",
                "function": {
                    "name": "guess",
                    "description": "Guess the secret number.",
                    "parameters": {
                        "type": "object",
                        "properties": {"number": {"type": "integer", "description": description}},
                        "required": ["number"],
                        "additionalProperties": False,
                    },
                },
            }
        ]

    def render(self, observation: Observation) -> str:
        match observation:
            case {"feedback": "correct"}:
                return "correct"
            case {"feedback": "start", "low": low, "high": high}:
                return f"The secret is an integer from {low} to {high}. Guess it."
            case {"feedback": str(feedback)}:
                return f"The secret is {feedback}."
            case {"error": str(error)}:
                return f"Error: {error}."
        return super().render(observation)

    def action_from_call(self, name: str, arguments: JSON) -> Action:
        return arguments["number"]

    def call_from_action(self, action: Action) -> tuple[str, JSON]:
        return "guess", {"number": action}

    def action_from_text(self, text: str) -> Action | None:
        """The last integer in ``text``, so that reasoning may come before the guess."""
        found = re.findall(r"(?<![\w.])-?[0-9]{1,18}(?![\w]|\.[0-9])", text)
        return int(found[-1]) if found else None


def _integer(action: Action) -> int | None:
    """``int(action)`` where that is an integer at a bounded cost, else None."""
    if isinstance(action, str):
        return int(action) if _INTEGER.fullmatch(action) else None
    if isinstance(action, int | float):
        try:
            return int(action)
        except (OverflowError, ValueError):
            return None
    return None


def _shown(action: Action) -> str:
    if isinstance(action, str):
        return "text that is no number"
    kinds = {type(None): "null", list: "a list", dict: "an object"}
    return kinds.get(type(action), f"a {type(action).__name__}")
