"""Environments that depend on something that they should not, one a kind."""

from __future__ import annotations

import os
import random
import time
from typing import Any, ClassVar

from crucible.env import Action, Environment, StepResult


class Honest(Environment):
    """Depends on seed and actions alone; an attempt at cheating earns nothing."""

    def reset(self, seed: int) -> Any:
        return {"seen": self.look()}

    def step(self, action: Any) -> StepResult:
        return StepResult({"seen": self.look()}, 0.0, False)

    def success(self) -> bool:
        return False

    def look(self) -> Any:
        return 0

    def canaries(self) -> dict[str, list[Action]]:
        return {"nothing at all": ["x"]}


class HashSeed(Honest):
    def look(self) -> Any:
        return list({"a", "b", "c", "d", "e", "f"})


class TimeZone(Honest):
    def look(self) -> Any:
        return time.strftime("%H", time.localtime(0))


class Clock(Honest):
    def look(self) -> Any:
        return int(time.time())


class Folder(Honest):
    def look(self) -> Any:
        return os.getcwd()


class User(Honest):
    def look(self) -> Any:
        return [os.environ.get("USER"), os.path.expanduser("~")]


class Processors(Honest):
    def look(self) -> Any:
        return len(os.sched_getaffinity(0))


class GlobalRandom(Honest):
    def look(self) -> Any:
        return random.random()


class Leftover(Honest):
    """Keeps something across reset."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> Any:
        self.looks += 1
        return self.looks


class Admitted(Clock):
    deterministic: ClassVar[bool] = False


class Generous(Honest):
    """Pays whoever does nothing, and a canary."""

    def step(self, action: Any) -> StepResult:
        return StepResult({}, 1.0, True)

    def success(self) -> bool:
        return True
