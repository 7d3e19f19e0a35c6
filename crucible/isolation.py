"""Where an episode is re-run: in this process, in a worker in a box, or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from crucible.errors import EnvironmentUnknownError
from crucible.registry import environment_class
from crucible.worlds import World

__all__ = ["BWRAP", "IN_PROCESS", "Placement", "placement_of"]

BWRAP = "bwrap"
IN_PROCESS = "in-process"


@dataclass(frozen=True, slots=True)
class Placement:
    """``boxed``: the environment itself runs in a box. ``level`` is what the verdict states;
    ``problem`` says why the episode must not be re-run here."""

    boxed: bool = False
    level: str | None = None
    problem: str | None = None


def placement_of(world: World, *, is_own: bool) -> Placement:
    """Where an episode of ``world`` is re-run; ``is_own`` where this user recorded it.

    A stranger's actions reach an environment only in a box. Environments that come with Crucible
    and run commands put each command into a box of its own; those that run neither commands nor
    SQL replay outside one where there is none.
    """
    from crucible.sandbox import box_problem
    from crucible.sandbox.probe import HOW

    try:
        cls = environment_class(world.env_id)
    except EnvironmentUnknownError:
        return Placement(level=IN_PROCESS)  # the worker says what is missing, and runs nothing
    is_bundled = cls.__module__.startswith("crucible.envs.")
    if is_bundled and cls.needs_sandbox:
        return Placement(level=BWRAP)
    if is_own:
        return Placement(level=IN_PROCESS)
    problem = box_problem()
    if problem is None:
        return Placement(boxed=True, level=BWRAP)
    if is_bundled and not cls.runs_code:
        return Placement(level=IN_PROCESS)
    return Placement(problem=f"sandbox: {problem}. {HOW}")
