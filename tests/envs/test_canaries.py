"""What must earn nothing, against graders that are sound, weak and wrong."""

from __future__ import annotations

from typing import Any

import pytest

from crucible.env import Environment
from crucible.envs import CodeTaskEnv, CommandEnv, SQLTaskEnv, TerminalEnv
from crucible.envs.codecanaries import code_canaries, known_code_canaries
from crucible.envs.sql_synth import SQLSynthEnv
from crucible.registry import make
from crucible.suites import load_suite

STUB = {"solution.py": "def add(a, b):\n    raise NotImplementedError\n"}
TEST = "from solution import add\n\n\ndef test_one():\n    assert add(1, 2) == 3\n"
INSIDE = {
    "an object that equals everything",
    "an int that equals everything",
    "a str that equals everything",
    "a patched test runner",
    "a forged report",
    "a patched json",
}


def paid(env: Environment, *, seed: int = 0) -> set[str]:
    """The names of the canaries that earn."""
    env.reset(seed)
    names = set()
    for name, actions in env.canaries().items():
        env.reset(seed)
        results = [env.step(action) for action in actions]
        if env.success() or any(result.reward > 0 for result in results):
            names.add(name)
    env.close()
    return names


def test_every_canary_reaches_the_calls_grader_and_earns_nothing() -> None:
    cases = [{"args": [1, 2], "expected": 3}, {"args": [0, 0], "expected": 0}]
    grader = {"kind": "calls", "module": "solution.py", "function": "add", "cases": cases}
    env = CodeTaskEnv(STUB, "write add", grader)
    env.reset(0)
    assert set(env.canaries()) >= INSIDE
    assert (paid(env), env.known_canaries()) == (set(), {})
    reached = {"a patched json", "a forged report", "a sys.modules swap", "printed results"}
    for name in reached:
        env.reset(0)
        failed = env.step(env.canaries()[name][0]).observation["failed"]
        assert all(why.startswith("wrong result") for why in failed.values()), (name, failed)


def test_what_shares_its_process_with_pytest_is_paid_and_known() -> None:
    pinned = {"test_add.py": TEST}
    grader = {"kind": "command", "command": ["pytest", *pinned], "files": pinned, "num_tests": 1}
    env = CodeTaskEnv(STUB, "write add", grader)
    assert paid(env) == INSIDE <= set(env.known_canaries())
    assert set(env.known_canaries().values()) == {"shared-process"}
    assert not {"edited tests", "sys.exit(0)", "os._exit(0) in conftest"} & set(
        env.known_canaries()
    )


def test_an_exit_status_alone_is_known_to_pay_an_exit() -> None:
    pinned = {"check.py": "import solution\nassert solution.add(1, 2) == 3\n"}
    grader = {"kind": "command", "command": ["python3", "check.py"], "files": pinned}
    env = CodeTaskEnv(STUB, "write add", grader)
    names = paid(env)
    assert {"sys.exit(0)", "os._exit(0)", "an object that equals everything"} <= names
    assert names <= set(env.known_canaries())


@pytest.mark.parametrize("files", [STUB, {"a/b.py": "x = 1\n", "README": "x"}, {"README": "x"}])
def test_every_python_file_of_a_task_is_replaced(files: dict[str, str]) -> None:
    grader = {"kind": "calls", "module": "solution.py", "function": "f", "cases": []}
    for name, (edits,) in code_canaries(files, grader).items():
        sources = {path for path in files if path.endswith(".py")} or {"solution.py"}
        assert set(edits) - {"conftest.py"} == sources, name
    assert known_code_canaries(grader) == {}


STAFF = "CREATE TABLE staff (name TEXT, pay INTEGER);"
FILL = "INSERT INTO staff VALUES ('ana', 3), ('o''neil', 5);"
OTHER = "INSERT INTO staff VALUES ('eve', 1);"
LITERALS = {"a constant-literal answer", "a constant-literal answer that reads"}


@pytest.mark.parametrize("submit", [False, True])
@pytest.mark.parametrize("rows", [[["o'neil", 5], ["ana", 3]], []])
def test_literal_rows_are_paid_until_other_data_is_asked_for(
    rows: list[list[Any]], submit: bool
) -> None:
    def task(**options: Any) -> Environment:
        return SQLTaskEnv(STAFF, FILL, "who?", rows, ordered=True, submit=submit, **options)

    assert paid(task()) == LITERALS
    assert paid(task(must_read=True)) == LITERALS - {"a constant-literal answer"}
    variants = [{"seed_sql": OTHER, "expected_rows": [["eve", 1]]}]
    assert paid(task(must_read=True, variants=variants)) == set()


def test_made_up_questions_do_not_take_literals() -> None:
    for seed in range(3):
        env = SQLSynthEnv()
        env.reset(seed)
        assert set(env.canaries()) == LITERALS
        assert paid(env, seed=seed) == set()


def test_a_write_task_that_is_done_already_is_found() -> None:
    check = {"mode": "write", "check_sql": "SELECT count(*) FROM staff"}
    done: dict[str, Any] = {**check}
    assert paid(SQLTaskEnv(STAFF, FILL, "t", [[2]], **done)) == {"a statement that changes nothing"}
    assert paid(SQLTaskEnv(STAFF, FILL, "t", [[3]], **done)) == set()


def terminal(*checks: dict[str, Any], task: str = "t", **files: str) -> TerminalEnv:
    named = {path.replace("_", "."): text for path, text in files.items()}
    return TerminalEnv({"in.txt": "x\n", **named}, task, list(checks))


EQUALS = {"check": "file_equals", "path": "out/a.txt", "text": "it's 3\n"}


def test_what_is_written_in_another_way_or_later_does_not_count() -> None:
    env = terminal(EQUALS)
    env.reset(0)
    assert len(env.canaries()) == 3
    assert paid(env) == set()
    assert paid(terminal(EQUALS, {"check": "file_matches", "path": "a", "pattern": "x"})) == set()


def test_a_task_that_shows_its_answer_is_found() -> None:
    shown = {"the expected text that the task shows"}
    assert paid(terminal(EQUALS, task="Write `it's 3` to out/a.txt")) == shown
    assert paid(terminal(EQUALS, task="Write `it's 37` to out/a.txt")) == set()


def test_check_files_of_the_workspace_are_found() -> None:
    check = {"check": "command_succeeds", "command": "bash check.sh"}
    assert paid(terminal(check, check_sh="test -f b\n")) == {"edited check files"}
    assert paid(terminal({**check, "command": "test -f b"}, check_sh="x")) == set()


def test_only_the_output_of_the_command_itself_counts() -> None:
    def env(task: str = "How many lines?", text: str = "a\nb\n") -> CommandEnv:
        return CommandEnv({"in.txt": text}, task, "2 it's")

    first = env()
    first.reset(0)
    assert len(first.canaries()) == 5
    assert paid(first) == set()
    assert paid(env(task="Is it 2 it's?")) == {"the expected text that the task shows"}
    assert "a file that holds the expected text" in paid(env(text="2 it's\n"))


@pytest.mark.parametrize("suite", ["sql-skills", "sql-synth", "shell-basics", "code-basics"])
def test_every_bundled_world_of_these_suites_has_canaries(suite: str) -> None:
    for world in load_suite(suite).worlds:
        env = make(world.env_id, world.kwargs)
        env.reset(0)
        assert env.canaries(), world.name
        assert set(env.known_canaries()) <= set(env.canaries())
        env.close()
