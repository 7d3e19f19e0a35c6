from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from walking import Walk

from crucible import ScriptedAgent, Trajectory, rollout
from crucible.agents import NullAgent
from crucible.canonical import canonical_text
from crucible.chat import bind_messages, canonical_chat

Messages = list[dict[str, Any]]


class Guide(Walk):
    """A walk with a system message."""

    system_prompt = "Walk to the goal."


def walked(*actions: Any) -> Trajectory:
    return rollout(Guide(goal=9), ScriptedAgent(actions or [1, 2]), seed=0)


def with_chat(trajectory: Trajectory, change: Callable[[Messages], Any]) -> Trajectory:
    """The trajectory with the environment's own chat recorded, after ``change``."""
    chat = canonical_chat(Guide(goal=9), trajectory)
    change(chat.messages)
    return replace(
        trajectory,
        messages_text=canonical_text(chat.messages),
        tools_text=canonical_text(chat.tools),
    )


def test_the_canonical_chat_is_the_steps_in_words() -> None:
    trajectory = walked()
    messages = canonical_chat(Guide(goal=9), trajectory).messages
    roles = " ".join(m["role"] for m in messages)
    assert roles == "system user assistant tool assistant tool"
    assert messages[1]["content"] == trajectory.steps[0].observation_text
    assert messages[2]["tool_calls"][0]["function"] == {
        "name": "step",
        "arguments": '{"action":1}',
    }
    assert messages[3]["tool_call_id"] == messages[2]["tool_calls"][0]["id"]
    assert messages[5]["content"] == trajectory.final_observation_text


def test_malformed_actions_are_shown_as_they_were_received() -> None:
    trajectory = rollout(Guide(), NullAgent(), seed=0, max_steps=1)
    messages = canonical_chat(Guide(), trajectory).messages
    assert messages[2] == {"role": "assistant", "content": ""}
    assert messages[3]["role"] == "user"
    assert bind_messages(Guide(), with_chat(trajectory, lambda m: None)) is None


def call_named(name: str) -> list[dict[str, Any]]:
    function = {"name": "step", "arguments": '{"action":1}'}
    return [{"id": name, "type": "function", "function": function}]


BOUND: dict[str, Callable[[Messages], Any]] = {
    "as it is": lambda m: None,
    "with prose": lambda m: m[2].update(content="Let me think."),
    "with reasoning": lambda m: m[2].update(reasoning_content="One step, then two."),
    "without the last answer": lambda m: m.pop(),
    "without the system message": lambda m: m.pop(0),
    "with a message after the end": lambda m: m.append({"role": "assistant", "content": "Done."}),
    "with spaces in the arguments": lambda m: m[2]["tool_calls"][0]["function"].update(
        arguments='{ "action" : 1 }'
    ),
    "with other ids": lambda m: (
        m[2]["tool_calls"][0].update(id="x"),
        m[3].update(tool_call_id="x"),
    ),
}
UNBOUND: dict[str, Callable[[Messages], Any]] = {
    "system message": lambda m: m[0].update(content="Walk away."),
    "first observation": lambda m: m[1].update(content="{}"),
    "answer": lambda m: m[3].update(content=m[3]["content"] + " "),
    "last answer": lambda m: m[5].update(content="You won."),
    "action": lambda m: m[2]["tool_calls"][0]["function"].update(arguments='{"action":2}'),
    "extra argument": lambda m: m[2]["tool_calls"][0]["function"].update(
        arguments='{"action":1,"why":"x"}'
    ),
    "argument twice": lambda m: m[2]["tool_calls"][0]["function"].update(
        arguments='{"action":2,"action":1}'
    ),
    "another tool": lambda m: m[2]["tool_calls"][0]["function"].update(name="jump"),
    "relinked id": lambda m: m[3].update(tool_call_id="call_1"),
    "id twice": lambda m: (
        m[4]["tool_calls"][0].update(id="call_0"),
        m[5].update(tool_call_id="call_0"),
    ),
    "key in a message": lambda m: m[2].update(weight=1),
    "key in a call": lambda m: m[2]["tool_calls"][0].update(index=0),
    "key in a function": lambda m: m[2]["tool_calls"][0]["function"].update(strict=True),
    "kind of call": lambda m: m[2]["tool_calls"][0].update(type="code"),
    "role": lambda m: m[1].update(role="developer"),
    "missing turn": lambda m: (m.pop(), m.pop()),
    "dropped answer": lambda m: m.pop(3),
    "user message in between": lambda m: m.insert(4, {"role": "user", "content": "Go on."}),
    "no call": lambda m: m[2].pop("tool_calls"),
    "no function": lambda m: m[2]["tool_calls"][0].pop("function"),
    "empty": lambda m: m.clear(),
    "answer after the end": lambda m: m.extend(
        [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "You won."}]
    ),
    "two remarks after the end": lambda m: m.extend([{"role": "assistant", "content": "x"}] * 2),
    "system message after the end": lambda m: m.append({"role": "system", "content": "x"}),
    "call after the end": lambda m: m.append({**m[4], "tool_calls": call_named("call_9")}),
    "parallel call after the end": lambda m: m[4]["tool_calls"].extend(call_named("call_9")),
    "parallel call after the end without answers": lambda m: (
        m.pop(),
        m[4]["tool_calls"].extend(call_named("call_9")),
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_messages_that_say_what_the_steps_say_are_bound(name: str) -> None:
    assert bind_messages(Guide(goal=9), with_chat(walked(), BOUND[name])) is None


@pytest.mark.parametrize("name", UNBOUND)
def test_messages_that_say_anything_else_are_unbound(name: str) -> None:
    assert bind_messages(Guide(goal=9), with_chat(walked(), UNBOUND[name])) is not None


def test_tools_that_are_not_the_environments_unbind() -> None:
    trajectory = replace(with_chat(walked(), lambda m: None), tools_text="[]")
    assert bind_messages(Guide(goal=9), trajectory) == "the tools are not the environment's"
    assert bind_messages(Guide(goal=9), walked()) == "there are no messages"


@pytest.mark.parametrize("text", ["{}", "[1]", "null", '"x"', '[{"role":"user"}]'])
def test_messages_of_another_shape_are_unbound_not_an_error(text: str) -> None:
    trajectory = replace(with_chat(walked(), lambda m: None), messages_text=text)
    assert bind_messages(Guide(goal=9), trajectory) is not None


def test_parallel_calls_are_answered_one_by_one() -> None:
    def join(messages: Messages) -> None:
        first, second = messages[2], messages[4]
        first["tool_calls"] += second["tool_calls"]
        del messages[4]

    assert bind_messages(Guide(goal=9), with_chat(walked(), join)) is None
