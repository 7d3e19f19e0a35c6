"""World anchors: a record must not choose its own judge."""

from __future__ import annotations

from crucible.state import recorded_worlds
from crucible.worlds import World, bundled_worlds

__all__ = ["anchor_of"]


def anchor_of(world: World) -> str | None:
    """Why ``world`` can be trusted to judge: ``bundled`` in a suite that comes with Crucible,
    or ``recorded`` in by this user. None where nobody this user trusts stands for it."""
    if world.digest in bundled_worlds():
        return "bundled"
    if world.digest in recorded_worlds():
        return "recorded"
    return None
