"""The contract of an environment: real software wrapped as a gradable world."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from crucible.canonical import canonical_text, parse_json
from crucible.errors import TextError
from crucible.schemas import check_schema

__all__ = ["Action", "Environment", "Observation", "ResetResult", "StepResult", "malformed"]

Observation = Any
Action = Any
JSON = dict[str, Any]


@dataclass(slots=True)
class StepResult:
    """What one step gave: the next observation, the reward and whether the episode is over.

    ``done`` is Gymnasium's ``terminated``; ``truncated`` ends an episode without its goal
    being decided (a budget of the environment ran out).
    """

    observation: Observation
    reward: float
    done: bool
    info: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False


@dataclass(slots=True)
class ResetResult:
    """What a reset gave, for environments that also report ``info``."""

    observation: Observation
    info: dict[str, Any] = field(default_factory=dict)


def malformed(received: Any) -> Action:
    """The action that stands for a message which does not fit the environment's tools."""
    return {"$malformed": received}


class Environment(ABC):
    """A world that an agent acts in, rebuilt from ``kwargs`` alone.

    The determinism contract: ``reset(seed)`` and the same actions give the same observations,
    rewards, flags, ``info`` and digests, in any process, on any day. An environment that
    cannot keep it sets ``deterministic = False``; its trajectories are recorded and labelled,
    never reported as reproduced.

    ``reset`` and ``step`` receive decoded canonical values and return values that canonical
    form allows (``docs/reference/format.md``).
    """

    env_id: ClassVar[str] = ""
    env_version: ClassVar[str] = "0"
    deterministic: ClassVar[bool] = True
    seeded: ClassVar[bool] = True
    """False where every seed gives the same episode."""
    max_steps: int | None = None
    """The number of steps after which a rollout stops by itself; None means 100."""
    malformed_penalty: ClassVar[float] = -0.1
    """The reward of a step whose action did not fit the tools."""
    toolchain_needs: ClassVar[tuple[str, ...]] = ()
    """Components (``crucible.toolchain``) that outputs depend on, such as ``sqlite``."""
    needs_sandbox: ClassVar[bool] = False
    """True where stepping runs commands, which are run in isolation only."""
    runs_code: ClassVar[bool] = True
    """False where stepping runs neither commands nor SQL nor other code of an action."""
    kwargs_schema: ClassVar[JSON | None] = None
    """The JSON schema of ``kwargs``; None accepts anything the constructor accepts."""
    system_prompt: ClassVar[str | None] = None
    """The system message that language-model agents get."""
    live: bool = False
    """True where the instance holds live Python objects that ``kwargs`` cannot carry."""

    _kwargs: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            setattr(cls, "__init__", _remembering(cls.__dict__["__init__"]))  # noqa: B010

    @abstractmethod
    def reset(self, seed: int) -> Observation | ResetResult:
        """The first observation of an episode that ``seed`` alone determines."""

    @abstractmethod
    def step(self, action: Action) -> StepResult:
        """What ``action`` led to."""

    def digest(self) -> str:
        """A SHA-256 of the state that later steps depend on; empty where there is none."""
        return ""

    def kwargs(self) -> dict[str, Any]:
        """The arguments that rebuild this environment: what ``__init__`` was called with."""
        return dict(getattr(self, "_kwargs", {}))

    def success(self) -> bool | None:
        """Whether the episode so far reached its goal; None where there is no such notion."""
        return None

    def canaries(self) -> dict[str, list[Action]]:
        """Actions that look like a solution of the episode that was reset last and are none, by
        name: ``crucible envs check`` plays each, and every one that earns is reported."""
        return {}

    def known_canaries(self) -> dict[str, str]:
        """Canaries that the grader is documented to pay: name → the class of weakness it has, such
        as ``shared-process``. They are reported, and no failure."""
        return {}

    def close(self) -> None:  # noqa: B027 - most environments hold nothing
        """Release what the environment holds."""

    def name(self) -> str:
        """The id under which the environment is recorded: see :meth:`own_id`."""
        return self.own_id()

    @classmethod
    def own_id(cls) -> str:
        """The class's own ``env_id``, else ``module:QualName``. An id is never inherited: a
        subclass is another environment."""
        own: str = cls.__dict__.get("env_id", "")
        return own or f"{cls.__module__}:{cls.__qualname__}"

    # What language-model agents use. The defaults make every environment usable: one tool
    # that takes the action as it is.

    def tools(self) -> list[JSON]:
        """The environment's function tools, as JSON schemas in the form chat APIs take."""
        return [
            {
                "type": "function",
                "function": {
                    "name": "step",
                    "description": "Take one action in the environment.",
                    "parameters": {
                        "type": "object",
                        "properties": {"action": {"description": "The action to take."}},
                        "required": ["action"],
                        "additionalProperties": False,
                    },
                },
            }
        ]

    def render(self, observation: Observation) -> str:
        """The text of ``observation`` in a chat: strings as they are, the rest as JSON."""
        return observation if isinstance(observation, str) else canonical_text(observation)

    def parse(self, message: Mapping[str, Any]) -> list[Action]:
        """The actions of an assistant ``message``: one for each tool call, in order.

        Total: a call or text that does not fit becomes :func:`malformed`. A message without
        calls is read by :meth:`action_from_text`.
        """
        calls = message.get("tool_calls")
        if calls:
            return [self._parse_call(call) for call in calls]
        content = message.get("content")
        action = self.action_from_text(content) if isinstance(content, str) else None
        return [malformed(content) if action is None else action]

    def to_message(self, action: Action, *, call_id: str) -> JSON:
        """The assistant message whose :meth:`parse` gives ``action`` back."""
        name, arguments = self.call_from_action(action)
        function = {"name": name, "arguments": canonical_text(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    def action_from_call(self, name: str, arguments: JSON) -> Action:
        """The action of a tool call that fits the schema of :meth:`tools`."""
        return arguments["action"]

    def call_from_action(self, action: Action) -> tuple[str, JSON]:
        """The tool name and arguments that :meth:`action_from_call` turns into ``action``."""
        return "step", {"action": action}

    def action_from_text(self, text: str) -> Action | None:
        """The action that plain text without a tool call stands for, or None for malformed."""
        return None

    def _parse_call(self, call: Any) -> Action:
        try:
            function = call["function"]
            name, raw = function["name"], function["arguments"]
            arguments = parse_json(raw) if isinstance(raw, str) else raw
            schema = self._tool_schemas[name]
        except (KeyError, TypeError, TextError):
            return malformed(call)
        if not isinstance(arguments, dict) or check_schema(arguments, schema):
            return malformed(call)
        return self.action_from_call(name, arguments)

    @functools.cached_property
    def _tool_schemas(self) -> dict[str, JSON]:
        return {t["function"]["name"]: t["function"]["parameters"] for t in self.tools()}


def _remembering(init: Any) -> Any:
    """``init`` that also keeps the arguments of the outermost call for :meth:`kwargs`."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapper(self: Environment, *args: Any, **kwargs: Any) -> None:
        if "_kwargs" not in self.__dict__:
            self._kwargs = _bound_arguments(signature, (self, *args), kwargs)
        init(self, *args, **kwargs)

    return wrapper


def _bound_arguments(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return {}  # the constructor itself raises the same error, with its own message
    arguments = dict(list(bound.arguments.items())[1:])
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(arguments.pop(parameter.name, {}))
    return arguments
