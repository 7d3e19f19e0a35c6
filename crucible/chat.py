"""The chat of an episode: made from its steps, or recorded and bound to them.

Messages have the form of chat APIs; the arguments of a tool call are JSON text, as received.
Nothing here steps an environment: observations come from the record, which is verified elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crucible.canonical import canonical_text, parse_text
from crucible.env import JSON, Environment
from crucible.episodes import is_malformed
from crucible.errors import FormatError
from crucible.trajectory import Trajectory

__all__ = ["Chat", "bind_messages", "canonical_chat"]

_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "tool": {"role", "content", "tool_call_id", "name"},
    "assistant": {"role", "content", "tool_calls", "reasoning", "reasoning_content"},
}
_CALL_KEYS = {"id", "type", "function"}
_FUNCTION_KEYS = {"name", "arguments"}


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages, and the tools that they call."""

    messages: list[JSON]
    tools: list[JSON]


def canonical_chat(env: Environment, trajectory: Trajectory) -> Chat:
    """The chat that the environment itself would write for the actions of ``trajectory``."""
    observations = _observations(trajectory)
    messages: list[JSON] = []
    if env.system_prompt is not None:
        messages.append({"role": "system", "content": env.system_prompt})
    messages.append({"role": "user", "content": env.render(observations[0])})
    for index, step in enumerate(trajectory.steps):
        action, answer = step.action, env.render(observations[index + 1])
        if is_malformed(action):
            received = action["$malformed"]
            text = received if isinstance(received, str) else canonical_text(received)
            messages.append({"role": "assistant", "content": text})
            messages.append({"role": "user", "content": answer})
            continue
        message = env.to_message(action, call_id=f"call_{index}")
        messages += [message, *_answers(message, answer)]
    return Chat(messages, env.tools())


def bind_messages(env: Environment, trajectory: Trajectory) -> str | None:
    """Why the recorded messages are not what the steps say, as one phrase; None if they are.

    Bound are the tools, user and tool messages, the system message, the form, ids and links of
    tool calls, and that every assistant message parses to the recorded actions. What an
    assistant wrote beside its actions is the recorder's word.
    """
    try:
        return next(_problems(env, trajectory), None)
    except (FormatError, KeyError, TypeError, AttributeError) as error:
        return f"the messages are malformed: {error}"


def _observations(trajectory: Trajectory) -> list[Any]:
    """Every observation, the first and the final one included."""
    seen = [step.observation for step in trajectory.steps]
    return [*seen, trajectory.final_observation]


def _answers(message: JSON, text: str) -> Iterator[JSON]:
    """What the environment answers to an assistant message of one action."""
    calls = message.get("tool_calls")
    if not calls:
        yield {"role": "user", "content": text}
        return
    call = calls[0]
    name = call["function"]["name"]
    yield {"role": "tool", "tool_call_id": call["id"], "name": name, "content": text}


def _problems(env: Environment, trajectory: Trajectory) -> Iterator[str]:
    if trajectory.messages_text is None or trajectory.tools_text is None:
        yield "there are no messages"
        return
    messages = parse_text(trajectory.messages_text)
    if trajectory.tools_text != canonical_text(env.tools()):
        yield "the tools are not the environment's"
    yield from _form_problems(messages)
    rest = list(messages)
    if rest and rest[0]["role"] == "system" and rest.pop(0)["content"] != env.system_prompt:
        yield "the system message is not the environment's"
    observations = [env.render(observation) for observation in _observations(trajectory)]
    if not rest or rest.pop(0) != {"role": "user", "content": observations[0]}:
        yield "the first message is not the first observation"
    yield from _turn_problems(env, trajectory, rest=rest, observations=observations)


def _turn_problems(
    env: Environment, trajectory: Trajectory, *, rest: list[JSON], observations: Sequence[str]
) -> Iterator[str]:
    """Walk through the turns: each assistant message, then an answer for each of its actions.
    After the last step nothing may follow but one more message of the assistant, without calls."""
    taken = 0
    while rest:
        message = rest.pop(0)
        if message["role"] != "assistant":
            yield f"a {message['role']} message answers nothing"
            return
        calls = message.get("tool_calls") or [None]
        if taken == trajectory.num_steps:
            if rest or calls != [None]:
                yield "something follows the end of the episode"
            return
        for call, action in zip(calls, env.parse(message), strict=True):
            if taken == trajectory.num_steps:
                yield "a tool call follows the end of the episode"
                return
            if canonical_text(action) != trajectory.steps[taken].action_text:
                yield f"a message does not parse to the action of step {taken}"
            taken += 1
            if taken == trajectory.num_steps and not rest and call in (None, calls[-1]):
                return
            if not rest or rest.pop(0) != _expected_answer(call, observations[taken]):
                yield f"the answer to step {taken - 1} is not what the environment renders"
    if taken < trajectory.num_steps:
        yield f"{trajectory.num_steps - taken} steps have no message"


def _expected_answer(call: JSON | None, text: str) -> JSON:
    if call is None:
        return {"role": "user", "content": text}
    name = call["function"]["name"]
    return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": text}


def _form_problems(messages: Any) -> Iterator[str]:
    """Unknown keys, and ids of tool calls that are missing or not unique."""
    ids: set[str] = set()
    for message in messages:
        allowed = _KEYS.get(message["role"])
        if allowed is None or not set(message) <= allowed:
            yield "a message has an unknown role or key"
        for call in message.get("tool_calls") or ():
            if set(call) != _CALL_KEYS or set(call["function"]) != _FUNCTION_KEYS:
                yield "a tool call has an unknown or missing key"
            if call["type"] != "function" or not isinstance(call["id"], str) or call["id"] in ids:
                yield "a tool call has no id of its own"
            ids.add(call["id"])
