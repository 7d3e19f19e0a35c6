"""Rewards out of several weighted checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crucible.errors import UsageError

__all__ = ["Check", "Criterion", "Rubric", "rubric"]

Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Criterion:
    """One named check over a state, with its weight."""

    name: str
    weight: float
    check: Check


class Rubric:
    """Weighted criteria. Every check must be a function of the state alone, or the reward would
    not replay."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        """Raises:
        UsageError: if there are no criteria, two share a name, or the weights do not add up
            to a positive number.
        """
        self.criteria = list(criteria)
        names = [criterion.name for criterion in self.criteria]
        self._total = math.fsum(criterion.weight for criterion in self.criteria)
        if not names or len(set(names)) != len(names):
            raise UsageError("a rubric needs criteria with names of their own")
        if self._total <= 0 or any(criterion.weight < 0 for criterion in self.criteria):
            raise UsageError("the weights of a rubric are not negative and sum to more than 0")

    def score(self, state: Any) -> tuple[float, dict[str, bool]]:
        """The fraction of the weight whose checks pass, in [0, 1], and name → passed.

        Put the second into ``info``, so that the reason for the reward is recorded too.
        """
        breakdown = {criterion.name: bool(criterion.check(state)) for criterion in self.criteria}
        earned = math.fsum(c.weight for c in self.criteria if breakdown[c.name])
        return earned / self._total, breakdown


def rubric(*criteria: tuple[str, float, Check]) -> Rubric:
    """A rubric out of ``(name, weight, check)`` triples."""
    return Rubric([Criterion(*criterion) for criterion in criteria])
