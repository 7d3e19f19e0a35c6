from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crucible.envs import GuessEnv
from crucible.registry import make


def test_the_secrets_are_those_of_version_0_2_0() -> None:
    assert [GuessEnv().secret(seed) for seed in (0, 1, 2, 3, 11)] == [50, 18, 8, 31, 58]


def test_guesses_give_the_observations_rewards_and_infos_of_version_0_2_0() -> None:
    env = GuessEnv(1, 100, 3)
    assert env.reset(0) == {"feedback": "start", "low": 1, "high": 100}
    result = env.step(10)
    assert result.observation == {"feedback": "higher", "low": 1, "high": 100}
    assert (result.reward, result.done, result.info) == (-0.05, False, {"guesses": 1})
    assert env.step(90).observation["feedback"] == "lower"
    result = env.step(50)
    assert result.observation == {"feedback": "correct"}
    assert (result.reward, result.done) == (1.0, True)
    assert result.info == {"secret": 50, "guesses": 3}
    assert env.success()


def test_the_last_wrong_guess_ends_the_episode_unsolved() -> None:
    env = GuessEnv(max_guesses=2)
    env.reset(0)
    assert not env.step(1).done
    assert env.step(1).done
    assert not env.success()


@pytest.mark.parametrize("action", ["50", 50.0, " 50 ", 50.9])
def test_whatever_int_read_in_version_0_2_0_is_still_a_guess(action: Any) -> None:
    env = GuessEnv()
    env.reset(0)
    assert env.step(action).done


@pytest.mark.parametrize(
    "action", [None, "many", "", [], {"a": 1}, float("inf"), float("nan"), "9" * 5000, b"50"]
)
def test_an_action_that_is_no_integer_is_answered_with_an_error(action: Any) -> None:
    env = GuessEnv()
    env.reset(0)
    result = env.step(action)
    assert "error" in result.observation and result.reward == -0.05 and not result.done
    assert not env.success()


def test_the_digest_covers_secret_guesses_and_the_last_guess() -> None:
    env = GuessEnv()
    digests = []
    for seed, actions in ((0, []), (1, []), (0, [7]), (0, [8]), (0, [7, 7]), (0, [None])):
        env.reset(seed)
        for action in actions:
            env.step(action)
        digests.append(env.digest())
    assert len(set(digests)) == len(digests)


def test_kwargs_rebuild_the_environment_with_defaults_filled_in() -> None:
    assert GuessEnv().kwargs() == {"low": 1, "high": 100, "max_guesses": 10}
    rebuilt = make("guess", GuessEnv(2, 9, 3).kwargs())
    assert rebuilt.kwargs() == {"low": 2, "high": 9, "max_guesses": 3}


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="low must be <= high"):
        GuessEnv(low=9, high=1)


def test_plain_text_is_read_as_its_last_integer() -> None:
    env = GuessEnv()
    read: Callable[[str], Any] = env.action_from_text
    assert read("Between 1 and 100, so 50.") == 50
    assert read("-7") == -7
    assert read("no idea") is None
    assert env.parse({"content": "I guess 12"}) == [12]
    assert env.parse({"content": "hm"}) == [{"$malformed": "hm"}]
