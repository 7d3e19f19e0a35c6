from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from crucible.agents import RandomAgent
from crucible.canonical import canonical_text, parse_text
from crucible.registry import make
from crucible.suites import Suite, SuiteWorld, load_suite

NAMES = ("guess-basics", "http-basics", "sql-skills", "sql-synth")
SUITES = [load_suite(name) for name in NAMES]
WORLDS = [pytest.param(world, id=f"{s.name}/{world.name}") for s in SUITES for world in s.worlds]
SEEDS = (0, 1, 2, 7, 1_000_003)
Play = Callable[..., list[dict[str, Any]]]
LIGHT = (
    "import sys, crucible.envs\n"
    "heavy = {'torch', 'numpy', 'datasets', 'pyarrow', 'transformers', 'typer', 'rich'}\n"
    "print(sorted(heavy & set(sys.modules)))\n"
)


@pytest.mark.parametrize("world", WORLDS)
def test_the_oracle_reaches_the_goal_and_the_wrong_attempt_does_not(
    world: SuiteWorld, play: Play
) -> None:
    env = make(world.env_id, world.kwargs)
    for seed in SEEDS:
        steps = play(env, world.oracle(seed), seed=seed)
        assert env.success() and steps[-1]["done"]
        wrong = play(env, world.wrong(seed), seed=seed)
        assert not env.success()
        assert sum(s["reward"] for s in wrong[1:]) < sum(s["reward"] for s in steps[1:])


@pytest.mark.parametrize("world", WORLDS)
def test_an_episode_is_the_same_in_a_fresh_instance(world: SuiteWorld, play: Play) -> None:
    used = make(world.env_id, world.kwargs)
    play(used, world.wrong(2), seed=2)
    again = play(used, world.oracle(1), seed=1)
    fresh = make(world.env_id, parse_text(canonical_text(used.kwargs())))
    assert canonical_text(play(fresh, world.oracle(1), seed=1)) == canonical_text(again)


@pytest.mark.parametrize("world", WORLDS)
def test_the_kwargs_of_a_world_are_canonical_and_complete(world: SuiteWorld) -> None:
    text = canonical_text(world.kwargs)
    env = make(world.env_id, parse_text(text))
    assert set(world.kwargs) <= set(env.kwargs())
    assert make(world.env_id, env.kwargs()).kwargs() == env.kwargs()
    assert type(env).env_version == "1" and type(env).system_prompt


@pytest.mark.parametrize("suite", SUITES, ids=NAMES)
def test_at_least_a_third_of_the_worlds_need_three_steps(suite: Suite, play: Play) -> None:
    shortest = []
    for world in suite.worlds:
        env = make(world.env_id, world.kwargs)
        shortest.append(min(len(play(env, world.oracle(s), seed=s)) - 1 for s in SEEDS))
    assert 3 * sum(length >= 3 for length in shortest) >= len(shortest)


@pytest.mark.parametrize("world", WORLDS)
def test_random_actions_are_answered_and_solve_nothing(world: SuiteWorld, play: Play) -> None:
    env = make(world.env_id, world.kwargs)
    for seed in range(5):
        steps = play(env, RandomAgent(env, seed=seed), seed=seed)
        assert len(steps) > 1
        assert not env.success() or env.name() == "guess"


def test_every_other_seed_gives_another_episode_where_a_world_says_it_is_seeded() -> None:
    for suite in SUITES:
        for world in suite.worlds:
            env = make(world.env_id, world.kwargs)
            digests = set()
            for seed in range(5):
                env.reset(seed)
                digests.add(env.digest())
            assert (len(digests) > 1) == type(env).seeded, world.name


def test_train_and_test_seeds_are_disjoint() -> None:
    for name in ("guess-basics", "sql-synth"):
        suite = load_suite(name)
        assert suite.split_of(999_999) == "train" and suite.split_of(1_000_000) == "test"


def test_importing_the_environments_loads_nothing_heavy() -> None:
    found = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, env=os.environ
    )
    assert found.stdout.strip() == "[]"
