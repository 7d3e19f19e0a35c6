"""Agents: anything that chooses an action from an observation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from crucible.env import Action, Environment, Observation, malformed

__all__ = [
    "Agent",
    "AgentInfo",
    "AgentStopError",
    "NullAgent",
    "RandomAgent",
    "ScriptedAgent",
    "agent_info",
]


@runtime_checkable
class Agent(Protocol):
    """What a rollout drives.

    An agent may also have ``info`` (an :class:`AgentInfo`), ``messages`` (the chat of the
    episode so far, as sent and received) and ``tokens``; the recorder stores them.
    """

    def reset(self) -> None:
        """Prepare for a new episode."""

    def act(self, observation: Observation) -> Action:
        """The action to take after ``observation``.

        Raises:
            AgentStopError: to end the episode here.
        """


class AgentStopError(Exception):
    """Raised by :meth:`Agent.act` to end the episode; recorded as ``agent_stop``."""


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """Who acted: recorded in every row, never verified."""

    name: str
    version: str | None = None
    model: str | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


def agent_info(agent: Agent) -> AgentInfo:
    """The agent's own ``info``, or its class name."""
    info = getattr(agent, "info", None)
    return info if isinstance(info, AgentInfo) else AgentInfo(type(agent).__name__)


class ScriptedAgent:
    """Takes a fixed list of actions, then stops."""

    def __init__(self, actions: Sequence[Action], *, name: str = "scripted") -> None:
        self.info = AgentInfo(name)
        self._actions = list(actions)
        self._next = 0

    def reset(self) -> None:
        self._next = 0

    def act(self, observation: Observation) -> Action:
        if self._next >= len(self._actions):
            raise AgentStopError
        self._next += 1
        return self._actions[self._next - 1]


class NullAgent:
    """Answers every observation with an empty message, which fits no tool."""

    info = AgentInfo("null")

    def reset(self) -> None:
        """Nothing to prepare."""

    def act(self, observation: Observation) -> Action:
        return malformed("")


class RandomAgent:
    """Calls a random tool with random arguments that fit its schema."""

    info = AgentInfo("random")

    def __init__(self, env: Environment, *, seed: int) -> None:
        self._env = env
        self._tools = env.tools()
        self._seed = seed
        self._random = random.Random(seed)

    def reset(self) -> None:
        self._random = random.Random(self._seed)

    def act(self, observation: Observation) -> Action:
        function = self._random.choice(self._tools)["function"]
        arguments = self._value(function["parameters"])
        return self._env.action_from_call(function["name"], arguments)

    def _value(self, schema: dict[str, Any]) -> Any:
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        kind = schema.get("type", "string")
        match kind if isinstance(kind, str) else kind[0]:
            case "object":
                return {k: self._value(v) for k, v in schema.get("properties", {}).items()}
            case "array":
                return [self._value(schema.get("items", {})) for _ in range(schema.get("minItems", 1))]
            case "integer":
                return self._random.randint(schema.get("minimum", 0), schema.get("maximum", 100))
            case "number":
                return self._random.uniform(schema.get("minimum", 0.0), schema.get("maximum", 1.0))
            case "boolean":
                return self._random.random() < 0.5
            case "null":
                return None
        return "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz ", k=8))
