"""Suites: named, versioned lists of worlds with a solution and a plausible wrong attempt each."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crucible.agents import Agent
from crucible.errors import EnvironmentUnknownError, UsageError

__all__ = ["Solution", "Suite", "SuiteWorld", "load_suite", "loadable_suites", "suite_names"]

Solution = Callable[[int], Sequence[Any] | Agent]
"""From a seed to the actions of one episode, or to an agent that finds them."""


@dataclass(frozen=True, slots=True)
class SuiteWorld:
    """One world of a suite: ``env_id`` and ``kwargs`` rebuild it, the rest tries it out.

    ``oracle`` reaches the goal on every seed; ``wrong`` is an attempt that looks plausible and
    does not.
    """

    name: str
    env_id: str
    kwargs: Mapping[str, Any]
    oracle: Solution
    wrong: Solution


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of worlds. ``version`` changes whenever a world does.

    ``splits`` maps a split to the seeds that belong to it; other seeds are in ``train``.
    """

    name: str
    version: str
    description: str
    worlds: tuple[SuiteWorld, ...]
    splits: Mapping[str, range] = field(default_factory=dict)

    def world(self, name: str) -> SuiteWorld:
        """The world called ``name``.

        Raises:
            UsageError: if there is none.
        """
        for world in self.worlds:
            if world.name == name:
                return world
        names = ", ".join(world.name for world in self.worlds)
        raise UsageError(f"suite {self.name} has no world {name!r} (worlds: {names})")

    def split_of(self, seed: int) -> str:
        """The split that episodes of ``seed`` belong to."""
        return next((split for split, seeds in self.splits.items() if seed in seeds), "train")


def suite_names() -> list[str]:
    """The names of the suites of every installed distribution, sorted."""
    return sorted(_entry_points())


def loadable_suites() -> Iterator[Suite]:
    """Every installed suite that loads; a broken distribution does not stop the others."""
    for name in suite_names():
        with contextlib.suppress(EnvironmentUnknownError):
            yield load_suite(name)


@functools.cache
def load_suite(name: str) -> Suite:
    """The suite called ``name``.

    Raises:
        EnvironmentUnknownError: if no installed distribution has one of that name, or the one
            that has cannot load it.
    """
    entry = _entry_points().get(name)
    if entry is None:
        known = ", ".join(suite_names())
        raise EnvironmentUnknownError(f"suite {name!r} is not installed here (known: {known})")
    try:
        loaded = entry.load()
        suite = loaded if isinstance(loaded, Suite) else loaded()
    except Exception as error:
        raise EnvironmentUnknownError(f"suite {name!r} cannot be loaded: {error}") from error
    if not isinstance(suite, Suite) or suite.name != name:
        raise UsageError(f"entry point {entry.value} does not give a suite named {name!r}")
    return suite


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {entry.name: entry for entry in importlib.metadata.entry_points(group="crucible.suites")}
