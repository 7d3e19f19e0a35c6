from __future__ import annotations

from typing import Any

import pytest

from crucible.envs import SQLTaskEnv
from crucible.envs.sqlgrading import RUBRIC
from crucible.errors import EpisodeError, FormatError, PolicyError
from crucible.registry import make

SCHEMA = "CREATE TABLE t (name TEXT, n INTEGER);"
SEED = "INSERT INTO t VALUES ('a', 3), ('b', 5), ('c', 4);"
RIGHT = "SELECT name FROM t ORDER BY n DESC LIMIT 2"
EXPECTED = [["b"], ["c"]]


def task_env(**options: Any) -> SQLTaskEnv:
    env = SQLTaskEnv(SCHEMA, SEED, "the two largest", EXPECTED, **options)
    env.reset(0)
    return env


def write_env(**options: Any) -> SQLTaskEnv:
    env = SQLTaskEnv(
        SCHEMA,
        SEED,
        "set a to 9 and delete b",
        [["a", 9], ["c", 4]],
        mode="write",
        check_sql="SELECT name, n FROM t ORDER BY name",
        **options,
    )
    env.reset(0)
    return env


def test_the_four_arguments_behave_as_in_version_0_2_0() -> None:
    env = SQLTaskEnv(SCHEMA, SEED, "the two largest", EXPECTED)
    assert env.reset(0) == {"task": "the two largest", "schema": SCHEMA}
    wrong = env.step("SELECT name FROM t")
    assert wrong.observation == {"rows": [["a"], ["b"], ["c"]]}
    assert (wrong.reward, wrong.done) == (-0.1, False)
    assert wrong.info == {"correct": False, "attempts": 1}
    failed = env.step("SELECT nope FROM t")
    assert failed.observation == {"error": "no such column: nope"}
    assert failed.info == {"error": "no such column: nope", "attempts": 2}
    assert (failed.reward, failed.done, env.success()) == (-0.1, False, False)
    right = env.step(RIGHT)
    assert right.observation == {"rows": EXPECTED}
    assert (right.reward, right.done, right.info) == (1.0, True, {"correct": True, "attempts": 3})
    assert env.success()


@pytest.mark.parametrize("sql", ["UPDATE t SET n = 0", "DELETE FROM t", "DROP TABLE t"])
def test_a_read_only_task_cannot_be_written_to(sql: str) -> None:
    env = task_env()
    before = env.digest()
    assert "not authorized" in env.step(sql).observation["error"]
    assert env.step("SELECT COUNT(*), SUM(n) FROM t").observation == {"rows": [[3, 12]]}
    env.reset(0)
    assert env.digest() == before


@pytest.mark.parametrize("action", [None, 5, True, [], {"tool": "submit", "sql": RIGHT}, {}])
def test_an_action_that_is_no_statement_is_answered_with_an_error(action: Any) -> None:
    result = task_env().step(action)
    assert "error" in result.observation and result.reward == -0.1


def test_partial_credit_sums_to_one_and_is_never_paid_twice() -> None:
    env = task_env(rubric=dict(RUBRIC))
    half = env.step("SELECT name FROM t ORDER BY name LIMIT 2")
    assert half.info["rubric"] == {"columns": 1.0, "num_rows": 1.0, "values": 0.5}
    assert (half.reward, half.info["score"]) == (0.25, 0.35)
    assert env.step("SELECT name FROM t ORDER BY name LIMIT 2").reward == -0.1
    assert env.step(RIGHT).reward == 0.65


def test_rows_in_any_order_are_right_only_where_order_does_not_matter() -> None:
    ascending = "SELECT name FROM t WHERE n > 3 ORDER BY n"
    assert not task_env().step(ascending).done
    assert task_env(ordered=False).step(ascending).done


LITERALS = "SELECT 'b' UNION ALL SELECT 'c'"
READING_LITERALS = "SELECT 'b' FROM t WHERE n = 3 UNION ALL SELECT 'c' FROM t WHERE n = 3"


def test_rows_that_no_table_was_read_for_earn_nothing_where_reading_is_asked_for() -> None:
    assert task_env().step(LITERALS).reward == 1.0
    result = task_env(must_read=True).step(LITERALS)
    assert result.reward == -0.1 and not result.done and "note" in result.observation


def test_rows_that_only_fit_the_data_shown_earn_nothing_where_there_are_variants() -> None:
    other = {"seed_sql": "INSERT INTO t VALUES ('x', 1), ('y', 2)", "expected_rows": [["y"], ["x"]]}
    env = task_env(must_read=True, rubric=dict(RUBRIC), variants=[other])
    result = env.step(READING_LITERALS)
    assert result.reward == -0.1 and result.info["score"] == 0.0 and not env.success()
    assert env.step(RIGHT).done


def test_with_submit_only_submissions_are_graded() -> None:
    env = task_env(submit=True, max_attempts=2, schema="names")
    assert env.reset(0)["schema"] == "Tables: t"
    described = env.step({"tool": "describe", "table": "T"})
    assert described.observation["sql"] == SCHEMA.rstrip(";") and described.reward == -0.01
    looked = env.step(RIGHT)
    assert looked.observation == {"rows": EXPECTED, "columns": ["name"]} and not looked.done
    assert "error" in env.step({"tool": "describe", "table": "zz"}).observation
    assert not env.step({"tool": "submit", "sql": "SELECT 1"}).done
    handed_in = env.step({"tool": "submit", "sql": RIGHT})
    assert handed_in.done and handed_in.reward == 1.0 and env.success()


def test_the_last_attempt_ends_the_episode_unsolved() -> None:
    env = task_env(max_attempts=2)
    assert not env.step("SELECT 1").done
    assert env.step("SELECT nope").done
    assert not env.success()


def test_a_write_task_is_solved_when_the_check_query_returns_the_rows() -> None:
    env = write_env()
    first = env.step("UPDATE t SET n = 9 WHERE name = 'a'")
    assert first.observation == {"rows": [], "num_changed": 1} and not first.done
    last = env.step("DELETE FROM t WHERE name = 'b'")
    assert last.done and last.reward == 1.0 and env.success()


def test_a_reset_undoes_what_was_written() -> None:
    env = write_env()
    before = env.digest()
    env.step("DELETE FROM t")
    assert env.digest() != before
    env.reset(1)
    assert env.digest() == before
    assert env.step("SELECT COUNT(*) FROM t").observation["rows"] == [[3]]


def test_the_digest_of_a_write_task_covers_every_row() -> None:
    digests = set()
    for sql in (
        "UPDATE t SET n = 3.0 WHERE name = 'a'",
        "UPDATE t SET n = 'x' WHERE name = 'a'",
        "UPDATE t SET n = x'78' WHERE name = 'a'",
        "UPDATE t SET n = NULL WHERE name = 'a'",
        "UPDATE t SET rowid = 77 WHERE name = 'a'",
        "INSERT INTO t VALUES ('d', 1)",
        "SELECT 1",
    ):
        env = write_env()
        env.step(sql)
        digests.add(env.digest())
    assert len(digests) == 6  # an INTEGER column stores 3.0 as 3


def test_a_failing_write_changes_nothing() -> None:
    env = SQLTaskEnv(
        "CREATE TABLE u (n INTEGER UNIQUE)",
        "INSERT INTO u VALUES (1), (2)",
        "t",
        [],
        mode="write",
        check_sql="SELECT n FROM u",
    )
    env.reset(0)
    assert "UNIQUE" in env.step("UPDATE u SET n = n + 1 WHERE n = 1").observation["error"]
    assert env.step("SELECT n FROM u").observation["rows"] == [[1], [2]]


def test_a_statement_that_changes_nothing_earns_nothing_in_a_write_task() -> None:
    env = write_env(rubric=dict(RUBRIC))
    assert env.step("SELECT 1").reward == -0.01
    rewards = [
        env.step("UPDATE t SET n = 9 WHERE name = 'a'").reward,
        env.step("DELETE FROM t WHERE name = 'b'").reward,
    ]
    assert sum(rewards) == pytest.approx(0.99)


def test_the_schema_cannot_be_changed_by_a_write_task() -> None:
    env = write_env()
    for sql in ("DROP TABLE t", "CREATE TABLE v (a)", "CREATE VIEW v AS SELECT 1", "BEGIN"):
        assert "not authorized" in env.step(sql).observation["error"]


def test_kwargs_rebuild_the_environment_with_defaults_filled_in() -> None:
    kwargs = task_env().kwargs()
    assert kwargs["ordered"] is True and kwargs["mode"] == "read" and kwargs["rubric"] is None
    assert make("sql-task", kwargs).kwargs() == kwargs


def test_kwargs_that_contradict_each_other_are_refused() -> None:
    base = {"schema_sql": SCHEMA, "seed_sql": SEED, "task": "t", "expected_rows": []}
    for more in (
        {"mode": "write"},
        {"check_sql": "SELECT 1"},
        {"mode": "write", "check_sql": "SELECT 1", "submit": True},
        {"timeout": 3},
        {"max_ops": 10**12},
    ):
        with pytest.raises(FormatError):
            make("sql-task", {**base, **more})


def test_scripts_that_fail_or_ask_for_too_much_are_named_at_reset() -> None:
    with pytest.raises(EpisodeError, match="no such table"):
        SQLTaskEnv("", "INSERT INTO nope VALUES (1)", "t", []).reset(0)
    with pytest.raises(PolicyError, match="ATTACH"):
        SQLTaskEnv("ATTACH ':memory:' AS x", "", "t", []).reset(0)


def test_sql_is_read_from_a_fence_or_from_text_that_begins_as_sql() -> None:
    env = task_env()
    assert env.action_from_text("Sure:\n```sql\nSELECT 1;\n```\nDone.") == "SELECT 1;"
    assert env.action_from_text("  select 2") == "select 2"
    assert env.action_from_text("I would select the rows") is None
    submitting = task_env(submit=True)
    assert submitting.action_from_text("SELECT 3") == {"tool": "submit", "sql": "SELECT 3"}


def test_two_environments_over_the_same_scripts_do_not_disturb_each_other() -> None:
    one, two = task_env(), task_env()
    one.step("SELECT nope")
    assert one.digest() != two.digest()
    one.close()
    three = task_env()
    assert three.digest() == two.digest()
    assert three.step(RIGHT).done
