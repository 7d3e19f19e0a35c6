"""A recorded HTTP service as an environment: every response is data, nothing is sent."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

from crucible.canonical import canonical_text, parse_json
from crucible.digests import state_digest
from crucible.env import JSON, Action, Environment, Observation, StepResult
from crucible.errors import TextError
from crucible.registry import register

__all__ = ["HttpTaskEnv", "HttpTaskOptions"]

WRONG_REWARD = -0.1
REQUEST_REWARD = -0.02
GOALS_SHARE = 0.5

_RESPONSE: JSON = {"type": "object", "properties": {"status": {"type": "integer"}}}
_REQUEST = re.compile(r"(?m)^[ \t`]*(GET|POST|PUT|PATCH|DELETE|HEAD)[ \t]+(/[^\s`]*)[ \t`]*$")
_ANSWER = re.compile(r"(?mi)^[ \t]*(?:final )?answer:[ \t]*(.+?)[ \t]*$")
_JSON_TYPES = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


class HttpTaskOptions(TypedDict, total=False):
    """The keyword arguments of :class:`HttpTaskEnv` beside the service itself.

    exchanges: responses that depend on more than method and path: ``method``, ``path``,
        ``response`` and ``headers`` and ``body`` that the request must have (headers at least
        these, names in any case; body equal). The first that fits goes before ``recording``.
    expected_answer: what must be handed in with ``submit``; then responses earn no reward of
        their own, and ``expected_body`` says nothing.
    goals: "METHOD path" keys; half of the reward is for the first good response of each.
    list_endpoints: whether the first observation lists all endpoints (default True).
    """

    exchanges: Sequence[Mapping[str, Any]]
    expected_answer: Any
    goals: Sequence[str]
    list_endpoints: bool


_DEFAULTS: HttpTaskOptions = {
    "exchanges": [],
    "expected_answer": None,
    "goals": [],
    "list_endpoints": True,
}


@register("http-task")
class HttpTaskEnv(Environment):
    """Find the right request, or work through several and hand in an answer.

    An action is a request ``{"method", "path"}`` with optional ``headers`` and ``body``, or
    ``{"answer": …}`` where an answer is expected. With the first four arguments alone, ``+1.0``
    ends the episode when the response's body is ``expected_body``; others give ``-0.1``.

    Args:
        recording: from "METHOD path" to ``{"status", "body"}``.
        task: what is asked, in words.
        expected_body: the body that solves the task.
        not_found: the response for everything that is not recorded.
        options: see :class:`HttpTaskOptions`.
    """

    env_version: ClassVar[str] = "1"
    runs_code: ClassVar[bool] = False
    seeded: ClassVar[bool] = False
    max_steps = 30
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "recording": {"type": "object", "additionalProperties": _RESPONSE},
            "task": {"type": "string"},
            "expected_body": {},
            "not_found": {"type": ["object", "null"]},
            "exchanges": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "method": {"type": "string"},
                        "path": {"type": "string"},
                        "headers": {
                            "type": "object",
                            "additionalProperties": {"type": "string"},
                        },
                        "body": {},
                        "response": _RESPONSE,
                    },
                    "required": ["method", "path", "response"],
                    "additionalProperties": False,
                },
            },
            "expected_answer": {},
            "goals": {"type": "array", "items": {"type": "string"}},
            "list_endpoints": {"type": "boolean"},
        },
        "required": ["recording", "task", "expected_body"],
        "additionalProperties": False,
    }
    system_prompt: ClassVar[str | None] = (
        "You work with an HTTP service through the tools. Make one request at a time, read the "
        "response, and use what it says (ids, tokens, links) in the next one."
    )

    def __init__(
        self,
        recording: dict[str, Any],
        task: str,
        expected_body: Any,
        not_found: dict[str, Any] | None = None,
        **options: Unpack[HttpTaskOptions],
    ) -> None:
        unknown = set(options) - set(_DEFAULTS)
        if unknown:
            raise TypeError(f"http-task has no option {min(unknown)!r}")
        self.recording = dict(recording)
        self.task = task
        self.expected_body = expected_body
        self.not_found = not_found if not_found is not None else {"status": 404, "body": None}
        self._options: HttpTaskOptions = {**_DEFAULTS, **options}
        self._start()

    def reset(self, seed: int) -> Observation:
        self._start()
        observation: JSON = {"task": self.task}
        if self._options["list_endpoints"]:
            listed = {f"{e['method'].upper()} {e['path']}" for e in self._options["exchanges"]}
            observation["endpoints"] = sorted(listed | set(self.recording))
        return observation

    def step(self, action: Action) -> StepResult:
        self._num_attempts += 1
        if self._answers and isinstance(action, dict) and set(action) == {"answer"}:
            return self._submitted(action["answer"])
        if not isinstance(action, dict) or not isinstance(action.get("headers", {}), dict):
            error = "expected a request with method and path"
            info = {"correct": False, "attempts": self._num_attempts}
            return StepResult({"error": error}, WRONG_REWARD, done=False, info=info)
        return self._requested(action)

    def digest(self) -> str:
        state = [self._num_attempts, self._solved, sorted(self._reached)]
        return state_digest("http-task", canonical_text(state))

    def kwargs(self) -> dict[str, Any]:
        given = {
            "recording": self.recording,
            "task": self.task,
            "expected_body": self.expected_body,
            "not_found": self.not_found,
        }
        return copy.deepcopy({**given, **self._options})

    def success(self) -> bool:
        return self._solved

    def tools(self) -> list[JSON]:
        text = {"type": "string"}
        request = {
            "method": {**text, "description": "GET, POST, PUT, PATCH or DELETE; default GET."},
            "path": {**text, "description": "The path with its query string, from '/' on."},
            "headers": {"type": "object", "additionalProperties": text},
            "body": {"description": "The JSON body."},
        }
        tools = [_tool("request", "Send a request, see the response.", arguments=(request, "path"))]
        if self._answers:
            kind = next(
                n for t, n in _JSON_TYPES if isinstance(self._options["expected_answer"], t)
            )
            answer = {"answer": {"type": kind, "description": "The answer to the task."}}
            tools.append(_tool("submit", "Hand in the answer.", arguments=(answer, "answer")))
        return tools

    def action_from_call(self, name: str, arguments: JSON) -> Action:
        return dict(arguments)

    def call_from_action(self, action: Action) -> tuple[str, JSON]:
        if self._answers and isinstance(action, dict) and set(action) == {"answer"}:
            return "submit", action
        return "request", action

    def action_from_text(self, text: str) -> Action | None:
        """The last line "METHOD /path", or the last "Answer: …" where one is expected."""
        answers = _ANSWER.findall(text) if self._answers else []
        if answers:
            return {"answer": _typed(answers[-1], self._options["expected_answer"])}
        requests = _REQUEST.findall(text)
        return dict(zip(("method", "path"), requests[-1], strict=True)) if requests else None

    def render(self, observation: Observation) -> str:
        match observation:
            case {"task": str(task), "endpoints": list(endpoints)}:
                return "\n".join([task, "", "Endpoints:", *endpoints])
            case {"task": str(task)}:
                return task
            case {"response": {"status": int(status), "body": body}}:
                shown = body if isinstance(body, str) else canonical_text(body)
                return f"HTTP {status}\n{shown}"
            case {"correct": bool(correct)}:
                return "That is correct." if correct else "That is not the answer."
            case {"error": str(error)}:
                return f"Error: {error}."
        return super().render(observation)

    @property
    def _answers(self) -> bool:
        return self._options["expected_answer"] is not None

    def _start(self) -> None:
        self._num_attempts = 0
        self._solved = False
        self._reached: set[str] = set()

    def _requested(self, action: JSON) -> StepResult:
        key = f"{str(action.get('method', 'GET')).upper()} {action.get('path', '/')!s}"
        response = self._response(key, action)
        plain = not self._answers and not self._options["goals"]
        self._solved = not self._answers and response.get("body") == self.expected_body
        reward = self._progress(key, response)
        if self._solved:
            reward += 1.0 - (GOALS_SHARE if self._options["goals"] else 0.0)
        elif plain:
            reward += WRONG_REWARD
        else:
            reward += REQUEST_REWARD
        observation = {"response": copy.deepcopy(response)}
        return StepResult(observation, round(reward, 4), done=self._solved, info=self._info())

    def _submitted(self, answer: Any) -> StepResult:
        expected = self._options["expected_answer"]
        if isinstance(answer, str) and isinstance(expected, str):
            self._solved = answer.strip() == expected.strip()
        else:
            self._solved = canonical_text(answer) == canonical_text(expected)
        right = 1.0 - (GOALS_SHARE if self._options["goals"] else 0.0)
        reward = right if self._solved else WRONG_REWARD
        observation = {"correct": self._solved}
        return StepResult(observation, reward, done=True, info=self._info())

    def _response(self, key: str, action: JSON) -> Mapping[str, Any]:
        for exchange in self._options["exchanges"]:
            if key == f"{exchange['method'].upper()} {exchange['path']}" and _fits(
                action, exchange
            ):
                return dict(exchange["response"])
        return dict(self.recording.get(key, self.not_found))

    def _progress(self, key: str, response: Mapping[str, Any]) -> float:
        """The credit for reaching a goal for the first time."""
        goals = self._options["goals"]
        status = response.get("status")
        good = isinstance(status, int) and status < 400
        if key not in goals or key in self._reached or not good:
            return 0.0
        self._reached.add(key)
        return GOALS_SHARE / len(set(goals))

    def _info(self) -> JSON:
        info: JSON = {"correct": self._solved, "attempts": self._num_attempts}
        if self._options["goals"]:
            info["goals"] = {goal: goal in self._reached for goal in self._options["goals"]}
        return info


def _fits(action: JSON, exchange: Mapping[str, Any]) -> bool:
    """Whether the request has the headers and the body that ``exchange`` asks for."""
    sent = {str(name).lower(): value for name, value in action.get("headers", {}).items()}
    for name, value in exchange.get("headers", {}).items():
        if sent.get(name.lower()) != value:
            return False
    if "body" not in exchange:
        return True
    return canonical_text(action.get("body")) == canonical_text(exchange["body"])


def _typed(text: str, expected: Any) -> Any:
    """``text`` as a value of the kind of ``expected`` where it can be read as one."""
    if isinstance(expected, str):
        return text
    try:
        return parse_json(text)
    except TextError:
        return text


def _tool(name: str, description: str, *, arguments: tuple[JSON, str]) -> JSON:
    properties, required = arguments
    parameters = {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
