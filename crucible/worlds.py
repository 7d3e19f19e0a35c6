"""Worlds: an environment with everything that decides its behaviour."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from crucible.canonical import canonical_text, parse_text
from crucible.code_digests import LIVE, code_identity
from crucible.env import Environment
from crucible.errors import EnvironmentUnknownError
from crucible.fingerprints import tagged_hash
from crucible.suites import load_suite, loadable_suites

__all__ = ["World", "bundled_worlds", "label_world", "world_lie", "world_of"]


@dataclass(frozen=True, slots=True)
class World:
    """What rebuilds an environment, and where its code comes from.

    ``code_digest`` is None for the environments that come with Crucible: their ``env_version``
    stands for their behaviour. ``distribution`` is the publisher's claim.
    """

    env_id: str
    env_version: str
    kwargs_text: str
    code_digest: str | None = None
    distribution: str | None = None
    distribution_version: str | None = None
    suite: str | None = None
    suite_version: str | None = None
    name: str | None = None
    toolchain_needs: tuple[str, ...] = ()
    seeded: bool = True

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments of the environment's constructor."""
        kwargs: dict[str, Any] = parse_text(self.kwargs_text)
        return kwargs

    @property
    def digest(self) -> str:
        """SHA-256 over what decides the behaviour: id, version, kwargs and code."""
        fields = (self.env_id, self.env_version, self.kwargs_text, self.code_digest)
        return tagged_hash("world", *fields).hex()

    @property
    def label(self) -> str:
        """``suite/name`` where the world is in a suite, else the environment's id."""
        return f"{self.suite}/{self.name}" if self.suite else self.env_id

    def to_row(self) -> dict[str, Any]:
        """The world as a row of the ``worlds`` table."""
        return {
            "world": self.digest,
            "suite": self.suite,
            "suite_version": self.suite_version,
            "name": self.name,
            "env_id": self.env_id,
            "env_version": self.env_version,
            "kwargs": self.kwargs_text,
            "distribution": self.distribution,
            "distribution_version": self.distribution_version,
            "code_digest": self.code_digest,
            "toolchain_needs": list(self.toolchain_needs),
            "seeded": self.seeded,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> World:
        """The world of a row whose types were checked by the schema."""
        fields = {key: value for key, value in row.items() if key not in ("world", "kwargs")}
        fields["toolchain_needs"] = tuple(fields["toolchain_needs"])
        return cls(kwargs_text=row["kwargs"], **fields)


def world_of(env: Environment) -> World:
    """The world of a live environment, labelled with its suite where it is in one.

    Raises:
        ValueRefusedError: if its kwargs have no canonical form.
    """
    cls = type(env)
    identity = code_identity(cls)
    world = World(
        env_id=env.name(),
        env_version=cls.env_version,
        kwargs_text=canonical_text(env.kwargs()),
        code_digest=LIVE if env.live else identity.code_digest,
        distribution=identity.distribution,
        distribution_version=identity.version,
        toolchain_needs=tuple(sorted(cls.toolchain_needs)),
        seeded=cls.seeded,
    )
    return label_world(world)


def label_world(world: World) -> World:
    """``world`` with the suite and name under which an installed suite lists it, if any.

    A digest therefore has one label, however the episode was started.
    """
    known = _suite_labels().get((world.env_id, world.kwargs_text))
    if known is None:
        return world
    suite, version, name = min(known)
    return replace(world, suite=suite, suite_version=version, name=name)


def world_lie(world: World) -> str | None:
    """What a recorded world says of itself that the same environment and suite here contradict.

    Its digest does not cover labels, needs and seeding. None where nothing contradicts, or where
    another version is installed, so that nothing can be said.
    """
    from crucible.registry import environment_class

    try:
        cls = environment_class(world.env_id)
    except EnvironmentUnknownError:
        return None
    identity = code_identity(cls)
    same = (cls.env_version, identity.code_digest) == (world.env_version, world.code_digest)
    if not same:
        return None
    for name, here in (
        ("seeded", cls.seeded),
        ("toolchain_needs", tuple(sorted(cls.toolchain_needs))),
        ("distribution", identity.distribution),
        ("distribution_version", identity.version),
    ):
        if getattr(world, name) != here:
            return f"{name} is {getattr(world, name)!r}, the environment itself says {here!r}"
    return _label_lie(world)


def _label_lie(world: World) -> str | None:
    """A label that is not what the installed suites call such a world. One of a suite that is not
    here is the record's word."""
    label = (world.suite, world.suite_version, world.name)
    if label == (None, None, None):
        return None
    if None in label:
        return "its suite, the suite's version and its name are there together or not at all"
    known = _suite_labels().get((world.env_id, world.kwargs_text), frozenset())
    if label in known:
        return None
    if known:
        suite, version, name = min(known)
        return f"it is {suite}/{name} of version {version}, not {world.label}"
    is_here = any(suite.name == world.suite for suite in loadable_suites())
    if is_here and load_suite(str(world.suite)).version == world.suite_version:
        return f"it is not the world {world.label} of that suite"
    return None


@functools.cache
def bundled_worlds() -> frozenset[str]:
    """The digests of all worlds in the suites that come with Crucible."""
    from crucible.registry import make

    digests = set()
    for suite in loadable_suites():
        for entry in suite.worlds:
            world = world_of(make(entry.env_id, entry.kwargs))
            if world.code_digest is None:
                digests.add(world.digest)
    return frozenset(digests)


@functools.cache
def _suite_labels() -> dict[tuple[str, str], frozenset[tuple[str, str, str]]]:
    """(env_id, kwargs text) → every (suite, version, name) over the installed suites."""
    from crucible.registry import make

    labels: defaultdict[tuple[str, str], set[tuple[str, str, str]]] = defaultdict(set)
    for suite in loadable_suites():
        for entry in suite.worlds:
            kwargs = canonical_text(make(entry.env_id, entry.kwargs).kwargs())
            labels[entry.env_id, kwargs].add((suite.name, suite.version, entry.name))
    return {key: frozenset(names) for key, names in labels.items()}
