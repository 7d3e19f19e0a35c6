"""The suite ``sql-synth``: made-up SQL questions, one world a group and one of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crucible.envs.sql_synth import make_problem
from crucible.envs.sqltemplates import GROUPS
from crucible.suites import Suite, SuiteWorld

__all__ = ["suite"]


def _world(name: str, groups: tuple[str, ...]) -> SuiteWorld:
    def oracle(seed: int) -> Sequence[Any]:
        return make_problem(groups, seed).oracle()

    def wrong(seed: int) -> Sequence[Any]:
        return make_problem(groups, seed).mistake()

    kwargs = {"templates": list(groups), "max_attempts": 3}
    return SuiteWorld(name, "sql-synth", kwargs, oracle=oracle, wrong=wrong)


suite = Suite(
    name="sql-synth",
    version="1",
    description="SQL questions drawn by the seed from 24 templates over six schemas.",
    worlds=(*(_world(group, (group,)) for group in GROUPS), _world("all", tuple(GROUPS))),
    splits={"train": range(0, 1_000_000), "test": range(1_000_000, 2_000_000)},
)
