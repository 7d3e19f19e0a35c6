from __future__ import annotations

from typing import Any

import pytest

from crucible.envs import HttpTaskEnv
from crucible.errors import FormatError
from crucible.registry import make

RECORDING: dict[str, Any] = {
    "GET /users/5": {"status": 200, "body": {"id": 5}},
    "POST /users": {"status": 201, "body": {"id": 6}},
}
LOGIN = {"method": "POST", "path": "/login", "body": {"user": "a"}}


def session_env(**options: Any) -> HttpTaskEnv:
    kwargs: dict[str, Any] = {
        "exchanges": [
            {**LOGIN, "response": {"status": 200, "body": "tok"}},
            {
                "method": "GET",
                "path": "/me",
                "headers": {"Authorization": "tok"},
                "response": {"status": 200, "body": 42},
            },
        ],
        "expected_answer": 42,
        "goals": ["POST /login", "GET /me"],
        **options,
    }
    recording = {"GET /me": {"status": 401, "body": None}}
    return HttpTaskEnv(recording, "hand in /me", None, **kwargs)


def test_the_four_arguments_behave_as_in_version_0_2_0() -> None:
    env = HttpTaskEnv(RECORDING, "fetch user 5", {"id": 5})
    assert env.reset(0) == {"task": "fetch user 5", "endpoints": ["GET /users/5", "POST /users"]}
    missed = env.step({"method": "get", "path": "/nope"})
    assert missed.observation == {"response": {"status": 404, "body": None}}
    assert (missed.reward, missed.done) == (-0.1, False)
    assert missed.info == {"correct": False, "attempts": 1}
    hit = env.step({"path": "/users/5"})
    assert hit.observation == {"response": {"status": 200, "body": {"id": 5}}}
    assert (hit.reward, hit.done, hit.info) == (1.0, True, {"correct": True, "attempts": 2})
    assert env.success()


def test_an_answer_is_a_request_where_no_answer_is_expected() -> None:
    env = HttpTaskEnv(RECORDING, "t", {"id": 5})
    env.reset(0)
    assert env.step({"answer": 1}).observation["response"]["status"] == 404
    assert [tool["function"]["name"] for tool in env.tools()] == ["request"]


@pytest.mark.parametrize("action", [None, "GET /users/5", 3, [], {"path": "/", "headers": 3}])
def test_an_action_that_is_no_request_is_answered_with_an_error(action: Any) -> None:
    env = HttpTaskEnv(RECORDING, "t", {"id": 5})
    env.reset(0)
    result = env.step(action)
    assert "error" in result.observation and result.reward == -0.1


def test_a_response_cannot_be_changed_through_its_observation() -> None:
    env = HttpTaskEnv(RECORDING, "t", None)
    env.reset(0)
    env.step({"path": "/users/5"}).observation["response"]["body"]["id"] = 6
    assert env.step({"path": "/users/5"}).observation["response"]["body"] == {"id": 5}


def test_headers_and_body_select_the_exchange() -> None:
    env = session_env()
    env.reset(0)
    assert env.step({"path": "/me"}).observation["response"]["status"] == 401
    assert env.step({**LOGIN, "body": {"user": "b"}}).observation["response"]["status"] == 404
    assert env.step(LOGIN).observation["response"] == {"status": 200, "body": "tok"}
    with_token = {"path": "/me", "headers": {"AUTHORIZATION": "tok"}}
    assert env.step(with_token).observation["response"] == {"status": 200, "body": 42}


def test_goals_and_answer_add_up_to_one_less_the_cost_of_requests() -> None:
    env = session_env()
    env.reset(0)
    actions = [LOGIN, LOGIN, {"path": "/me", "headers": {"authorization": "tok"}}, {"answer": 42}]
    results = [env.step(action) for action in actions]
    assert [r.reward for r in results] == [0.23, -0.02, 0.23, 0.5]
    assert results[-1].done and env.success()
    assert results[-1].info["goals"] == {"POST /login": True, "GET /me": True}


def test_a_refused_request_reaches_no_goal() -> None:
    env = session_env()
    env.reset(0)
    assert env.step({"path": "/me"}).info["goals"]["GET /me"] is False


@pytest.mark.parametrize("answer", [41, 42.0, "42", True, None])
def test_a_wrong_answer_ends_the_episode_unsolved(answer: Any) -> None:
    env = session_env()
    env.reset(0)
    result = env.step({"answer": answer})
    assert result.done and result.reward == -0.1 and not env.success()


def test_the_digest_covers_attempts_and_reached_goals() -> None:
    env = session_env()
    digests = []
    for actions in ([], [LOGIN], [{"path": "/me"}], [LOGIN, LOGIN]):
        env.reset(0)
        for action in actions:
            env.step(action)
        digests.append(env.digest())
    assert len(set(digests)) == 4


def test_kwargs_rebuild_the_environment_with_defaults_filled_in() -> None:
    env = HttpTaskEnv(RECORDING, "t", {"id": 5})
    kwargs = env.kwargs()
    assert kwargs["not_found"] == {"status": 404, "body": None} and kwargs["goals"] == []
    assert make("http-task", kwargs).kwargs() == kwargs
    assert make("http-task", session_env().kwargs()).kwargs() == session_env().kwargs()


def test_kwargs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FormatError):
        make("http-task", {"recording": {}, "task": "t", "expected_body": 1, "live": True})
    with pytest.raises(TypeError, match="live"):
        HttpTaskEnv({}, "t", 1, live=True)  # type: ignore[call-arg]


def test_plain_text_is_read_as_a_request_or_an_answer() -> None:
    env = session_env()
    assert env.action_from_text("Let me see.\nGET /me") == {"method": "GET", "path": "/me"}
    assert env.action_from_text("Answer: 42") == {"answer": 42}
    assert env.action_from_text("no request here") is None


def test_the_endpoints_can_be_left_for_the_agent_to_find() -> None:
    assert session_env(list_endpoints=False).reset(0) == {"task": "hand in /me"}
    assert session_env().reset(0)["endpoints"] == ["GET /me", "POST /login"]
