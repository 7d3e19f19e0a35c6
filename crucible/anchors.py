"""World anchors: a record must not choose its own judge."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from crucible.errors import EnvironmentUnknownError
from crucible.registry import make
from crucible.state import recorded_worlds
from crucible.suites import load_suite
from crucible.trust import read_trust
from crucible.worlds import World, bundled_worlds, world_of

__all__ = ["Anchors", "suite_worlds"]


class Anchors:
    """Which worlds can be trusted to judge, as this user sees it when the object is made."""

    def __init__(self, also_recorded: Iterable[str] = ()) -> None:
        """The anchors of this user, who for this once recorded ``also_recorded`` too.

        Raises:
            FormatError: if the trust file is malformed.
        """
        self._bundled = bundled_worlds()
        self._recorded = recorded_worlds() | frozenset(also_recorded)
        trust = read_trust()
        self._trusted = trust.worlds | suite_worlds(trust.suites)

    def of(self, world: World) -> str | None:
        """Why ``world`` is trusted: ``bundled`` in a suite that comes with Crucible, ``trusted``
        by this user's trust file, or ``recorded`` in by this user. None where nobody stands for
        it."""
        digest = world.digest
        if digest in self._bundled:
            return "bundled"
        if digest in self._trusted:
            return "trusted"
        return "recorded" if digest in self._recorded else None


def suite_worlds(names: Iterable[str]) -> frozenset[str]:
    """The digests of the worlds of installed suites, with the code that is installed now; a
    suite that is gone has none."""
    digests = set()
    for name in names:
        with contextlib.suppress(EnvironmentUnknownError):
            for entry in load_suite(name).worlds:
                digests.add(world_of(make(entry.env_id, entry.kwargs)).digest)
    return frozenset(digests)
