"""Environments by world, built from data and kept where that is safe."""

from __future__ import annotations

from crucible.env import Environment
from crucible.errors import VersionError
from crucible.registry import environment_class, make
from crucible.worlds import World, world_of

__all__ = ["EnvironmentPool"]


class EnvironmentPool:
    """Gives the environment of a world for one episode.

    Environments that come with Crucible keep nothing across ``reset`` (their tests show it), so
    one instance a world is enough; every other environment is built anew for every episode.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Environment] = {}

    def get(self, world: World) -> Environment:
        """The environment of ``world``, to be given back with :meth:`release`.

        Raises:
            EnvironmentUnknownError: if it is not registered here.
            VersionError: if what is installed is not what ``world`` names.
            FormatError: if the kwargs do not fit.
        """
        kept = self._kept.get(world.digest)
        if kept is not None:
            return kept
        installed = environment_class(world.env_id)
        if installed.env_version != world.env_version:
            raise VersionError(
                f"{world.env_id} is installed in version {installed.env_version}, "
                f"the record names {world.env_version}"
            )
        env = make(world.env_id, world.kwargs)
        found = world_of(env)
        if found.code_digest != world.code_digest:
            env.close()
            raise VersionError(
                f"the code of {world.env_id} here has digest {found.code_digest}, "
                f"the record names {world.code_digest}"
            )
        if world.code_digest is None:
            self._kept[world.digest] = env
        return env

    def release(self, world: World, env: Environment) -> None:
        """Give an environment back after its episode."""
        if self._kept.get(world.digest) is not env:
            env.close()

    def close(self) -> None:
        """Close the environments that were kept."""
        for env in self._kept.values():
            env.close()
        self._kept.clear()
