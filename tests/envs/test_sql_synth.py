from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from crucible.digests import state_digest
from crucible.envs import SQLSynthEnv
from crucible.envs.sql_synth import make_problem
from crucible.envs.sqlschemas import SCHEMAS
from crucible.envs.sqltemplates import GROUPS, TEMPLATES
from crucible.errors import FormatError
from crucible.registry import make

ALL = tuple(GROUPS)
SHOW = (
    "from crucible.envs import SQLSynthEnv\n"
    "env = SQLSynthEnv()\n"
    "for seed in range(6):\n"
    "    print(env.reset(seed), env.digest(), env._problem.expected_rows)\n"
)
Play = Callable[..., list[dict[str, Any]]]


def test_there_are_six_groups_of_templates_over_at_least_five_schemas() -> None:
    sizes = Counter(template.group for template in TEMPLATES.values())
    assert set(sizes) == {"join", "group", "window", "subquery", "set", "date"}
    assert min(sizes.values()) >= 3 and len(TEMPLATES) >= 20
    assert len({template.schema for template in TEMPLATES.values()}) >= 5
    for template in TEMPLATES.values():
        assert set(template.tables) <= set(SCHEMAS[template.schema].tables)


def test_at_least_a_third_of_the_templates_hide_the_columns() -> None:
    hidden = [template for template in TEMPLATES.values() if template.explore]
    assert 3 * len(hidden) >= len(TEMPLATES)
    for template in hidden:
        env = SQLSynthEnv([template.name])
        assert env.reset(1)["schema"].startswith("Tables: ")


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_template_is_solved_by_its_oracle_and_not_by_its_mistake(
    name: str, play: Play
) -> None:
    env = SQLSynthEnv([name])
    for seed in (0, 1, 2, 3, 1_000_000):
        problem = make_problem((name,), seed)
        steps = play(env, problem.oracle(), seed=seed)
        assert env.success() and steps[-1]["done"] and steps[-1]["reward"] == 1.0
        assert play(env, problem.mistake(), seed=seed)[-1]["done"] and not env.success()


def test_two_hundred_seeds_are_solved_and_use_every_template() -> None:
    env = SQLSynthEnv()
    used = set()
    for seed in range(200):
        env.reset(seed)
        problem = make_problem(ALL, seed)
        used.add(problem.template.name)
        results = [env.step(action) for action in problem.oracle()]
        assert env.success() and results[-1].done, (seed, problem)
        env.reset(seed)
        assert [env.step(a) for a in problem.mistake()[:4]][-1].done and not env.success()
    assert used == set(TEMPLATES)


def test_the_right_rows_as_literals_earn_nothing() -> None:
    env = SQLSynthEnv()
    for seed in range(20):
        env.reset(seed)
        problem = make_problem(ALL, seed)
        table = problem.template.tables[0]
        literals = " UNION ALL ".join(
            "SELECT "
            + ", ".join("NULL" if v is None else repr(v) for v in row)
            + f" FROM {table} WHERE rowid = 1"
            for row in problem.expected_rows
        )
        result = env.step({"tool": "submit", "sql": literals})
        assert not env.success() and result.reward == -0.1, (seed, literals)


def test_train_and_test_seeds_share_no_question_over_the_same_data() -> None:
    def drawn(seeds: range) -> set[str]:
        problems = [make_problem(ALL, seed) for seed in seeds]
        return {state_digest("problem", p.task, p.seed_sql) for p in problems}

    train, test = drawn(range(150)), drawn(range(1_000_000, 1_000_150))
    assert len(train) == len(test) == 150
    assert not train & test


def test_equal_questions_have_different_answers_under_different_seeds() -> None:
    problems = [make_problem(("large-payrolls",), seed) for seed in range(40)]
    answers = {str(problem.expected_rows) for problem in problems}
    assert len({problem.task for problem in problems}) < len(answers) == 40


def test_the_problems_are_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SHOW],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1 and len(outputs.pop().splitlines()) == 6


def test_the_problems_of_a_version_never_move() -> None:
    problems = [make_problem(ALL, seed) for seed in range(10)]
    parts = [f"{p.task}\n{p.seed_sql}\n{p.expected_rows}" for p in problems]
    assert (
        state_digest("golden", *parts)
        == "4dc30d9b8017f4b40c1e8ed1bb655152361d3d3e1e61453d63b6a09892627d8b"
    )


def test_kwargs_rebuild_the_environment_with_defaults_filled_in() -> None:
    kwargs = SQLSynthEnv().kwargs()
    assert kwargs == {"templates": list(ALL), "max_attempts": 3}
    rebuilt = make("sql-synth", kwargs)
    assert rebuilt.reset(5) == SQLSynthEnv().reset(5)


@pytest.mark.parametrize("templates", [[], ["no-such"], "join", [3]])
def test_unknown_templates_are_refused(templates: Any) -> None:
    with pytest.raises(FormatError):
        make("sql-synth", {"templates": templates})
