"""Small environments and agents that the tests record and verify."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crucible.env import Environment, ResetResult, StepResult

RecordWalks = Callable[..., Path]
"""What the fixture ``record_walks`` gives: records one of these worlds into a folder."""


class Walk(Environment):
    """Walk along a line to a goal; the start depends on the seed."""

    env_version = "1"
    max_steps = 8

    def __init__(self, goal: int = 3) -> None:
        self.goal = goal
        self.at = 0

    def reset(self, seed: int) -> ResetResult:
        self.at = random.Random(seed).randint(-2, 2)
        return ResetResult({"at": self.at}, {"seed": seed})

    def step(self, action: Any) -> StepResult:
        self.at += int(action)
        reached = self.at == self.goal
        return StepResult({"at": self.at}, 0.1 * self.at, reached, {"third": 1 / 3})

    def digest(self) -> str:
        return f"at:{self.at}"

    def success(self) -> bool:
        return self.at == self.goal


class Still(Walk):
    """The same walk for every seed."""

    seeded = False

    def reset(self, seed: int) -> ResetResult:
        self.at = 0
        return ResetResult({"at": 0})


class Broken(Walk):
    """Fails at the second step."""

    def step(self, action: Any) -> StepResult:
        if self.at > 10:
            raise RuntimeError("the bridge\nis out")
        self.at = 11
        return StepResult({"at": self.at}, 0.0, False)


class Moody(Walk):
    """Gives another observation in every run."""

    _runs = itertools.count()

    def step(self, action: Any) -> StepResult:
        return StepResult({"run": next(self._runs)}, 0.0, False)


class Admits(Moody):
    """Says that it is not deterministic."""

    deterministic = False


class Live(Walk):
    """Holds something that data cannot rebuild."""

    live = True


class Up:
    """Steps up by one, always."""

    def reset(self) -> None:
        pass

    def act(self, observation: Any) -> Any:
        return 1
