"""Environments that depend on something that they should not, one a kind."""

from __future__ import annotations

import datetime
import getpass
import os
import random
import time
from typing import Any, ClassVar

from crucible.env import Action, Environment, StepResult


class Honest(Environment):
    """Depends on seed and actions alone; an attempt at cheating earns nothing."""

    max_steps = 3

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
        return time.strftime("%d %H:%M", time.localtime(0))


class Clock(Honest):
    def look(self) -> Any:
        return int(time.time())


class Day(Honest):
    """Differs only on another day."""

    def look(self) -> Any:
        return str(datetime.datetime.now(datetime.UTC).date())


class Today(Honest):
    def look(self) -> Any:
        return datetime.date.today().isoformat()


class Folder(Honest):
    def look(self) -> Any:
        return os.getcwd()


class User(Honest):
    def look(self) -> Any:
        return getpass.getuser()


class Home(Honest):
    def look(self) -> Any:
        return os.path.expanduser("~")


class Locale(Honest):
    def look(self) -> Any:
        return os.environ.get("LC_ALL")


class Processors(Honest):
    def look(self) -> Any:
        return os.cpu_count()


class Affinity(Honest):
    def look(self) -> Any:
        return len(os.sched_getaffinity(0))


class GlobalRandom(Honest):
    def look(self) -> Any:
        return random.random()


class NumpyRandom(Honest):
    def look(self) -> Any:
        import numpy

        return float(numpy.random.random())


class Leftover(Honest):
    """Keeps something across reset."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> Any:
        self.looks += 1
        return self.looks


class SharedLeftover(Honest):
    """Keeps something across environments of one process."""

    looks: ClassVar[list[int]] = []

    def look(self) -> Any:
        self.looks.append(1)
        return len(self.looks)


class Entropy(Honest):
    """Depends on nothing that anybody could hold still."""

    def look(self) -> Any:
        return os.urandom(4).hex()


class HashedReward(Honest):
    """Observes the same, and pays differently."""

    def step(self, action: Any) -> StepResult:
        return StepResult({"seen": 0}, -float(hash("x") % 1000) - 1.0, False)


class Dying(Honest):
    """Ends its process where it has another name."""

    def look(self) -> Any:
        if os.environ.get("USER") in ("ana", "boris", "chloe"):
            os._exit(7)
        return 0


class Admitted(Clock):
    deterministic: ClassVar[bool] = False


class Generous(Honest):
    """Pays whoever does nothing, and a canary."""

    def step(self, action: Any) -> StepResult:
        return StepResult({}, 1.0, True)

    def success(self) -> bool:
        return True


class Named(Generous):
    """Known by its name once its module was imported."""

    env_id: ClassVar[str] = "leaking-named"


class Paying(Honest):
    """Pays a canary in its first step and takes it back in the second."""

    def reset(self, seed: int) -> Any:
        self.sign = -1.0
        return {}

    def step(self, action: Any) -> StepResult:
        self.sign = -self.sign
        return StepResult({}, self.sign if action == "cheat" else 0.0, False)

    def canaries(self) -> dict[str, list[Action]]:
        return {"there and back": ["cheat", "cheat"], "documented": ["cheat"], "honest": ["x"]}

    def known_canaries(self) -> dict[str, str]:
        return {"documented": "of its own"}


class Documented(Paying):
    """Pays only what it says it does."""

    def canaries(self) -> dict[str, list[Action]]:
        return {"documented": ["cheat"]}


class Broken(Honest):
    """Cannot be reset."""

    def reset(self, seed: int) -> Any:
        raise OSError("no such service")


class Boxed(Honest):
    """Needs what may not be there."""

    needs_sandbox: ClassVar[bool] = True
