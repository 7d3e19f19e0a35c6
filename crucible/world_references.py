"""From what a user types for a world or suite to worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crucible.errors import UsageError
from crucible.registry import import_environment, make, registered
from crucible.suites import Suite, load_suite, suite_names
from crucible.worlds import World, world_of

__all__ = ["resolve_worlds"]


def resolve_worlds(reference: str, kwargs: Mapping[str, Any]) -> list[World]:
    """The worlds that ``reference`` names: a suite, ``suite/name``, an ``env_id`` or
    ``module:Class``.

    Raises:
        UsageError: if it names none, or kwargs are given for a suite.
        FormatError: if the kwargs do not fit the environment.
    """
    suite_name, _, world_name = reference.partition("/")
    if suite_name in suite_names():
        if kwargs:
            raise UsageError(f"{reference} is in a suite, which fixes its kwargs: drop -k")
        suite = load_suite(suite_name)
        return _suite_worlds(suite, [suite.world(world_name)] if world_name else suite.worlds)
    if reference in registered():
        return [world_of(make(reference, kwargs))]
    if ":" in reference:
        cls = import_environment(reference)
        return [world_of(make(cls.env_id, kwargs))]
    known = ", ".join([*suite_names(), *registered()])
    raise UsageError(f"world {reference!r} is unknown (known: {known}, or module:Class)")


def _suite_worlds(suite: Suite, entries: Sequence[Any]) -> list[World]:
    return [world_of(make(entry.env_id, entry.kwargs)) for entry in entries]
