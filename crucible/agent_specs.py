"""From what a user types after ``--agent`` to an agent."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from crucible.agents import Agent, AgentInfo, NullAgent, RandomAgent, ScriptedAgent
from crucible.env import Environment, Observation
from crucible.errors import UsageError
from crucible.fingerprints import tagged_hash
from crucible.suites import load_suite
from crucible.worlds import World

__all__ = ["check_agent_spec", "is_model_backed", "make_agent"]

_BUNDLED = ("oracle", "wrong", "random", "null")
_MODEL_BACKED = ("openai", "hf")


def check_agent_spec(spec: str, worlds: list[World]) -> None:
    """Nothing, if ``spec`` gives an agent in each of ``worlds``.

    Raises:
        UsageError: if it does not.
    """
    if spec in ("oracle", "wrong"):
        bare = next((world for world in worlds if world.suite is None), None)
        if bare is not None:
            raise UsageError(
                f"agent {spec!r} comes from a suite, and {bare.env_id} with these kwargs is in none"
            )
    elif spec not in _BUNDLED:
        _user_class(spec)


def is_model_backed(spec: str) -> bool:
    """Whether the agent waits for a model most of the time, so that its episodes run in threads of
    one process and not in processes of their own."""
    return spec.partition(":")[0] in _MODEL_BACKED


def make_agent(spec: str, world: World, *, env: Environment, seed: int, attempt: int) -> Agent:
    """The agent for one episode.

    Raises:
        UsageError: if ``spec`` names none.
    """
    if spec in ("oracle", "wrong"):
        if world.suite is None or world.name is None:
            raise UsageError(f"agent {spec!r}: {world.env_id} with these kwargs is in no suite")
        entry = load_suite(world.suite).world(world.name)
        solution = (entry.oracle if spec == "oracle" else entry.wrong)(seed)
        if isinstance(solution, Agent):
            return _Named(solution, spec)
        return ScriptedAgent(solution, name=spec)
    if spec == "random":
        state = tagged_hash("random-agent", world.digest, str(seed), str(attempt))
        return RandomAgent(env, seed=int.from_bytes(state[:8], "big"))
    if spec == "null":
        return NullAgent()
    agent: Agent = _user_class(spec)()
    return agent


class _Named:
    """A suite's agent under the name it was asked for by."""

    def __init__(self, agent: Agent, name: str) -> None:
        self._agent = agent
        self.info = AgentInfo(name)

    def reset(self) -> None:
        self._agent.reset()

    def act(self, observation: Observation) -> Any:
        return self._agent.act(observation)


@functools.cache
def _user_class(spec: str) -> Any:
    module_name, separator, qualname = spec.partition(":")
    if not separator:
        known = ", ".join(_BUNDLED)
        raise UsageError(f"agent {spec!r} is unknown (known: {known}, or module:Class of your own)")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = functools.reduce(getattr, qualname.split("."), importlib.import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"agent {spec!r} cannot be imported: {error}") from error
    if not callable(found):
        raise UsageError(f"agent {spec!r} is not a class")
    return found
