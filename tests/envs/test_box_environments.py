"""``command``, ``terminal`` and ``code-task``, and their suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from boxes import needs_box

from crucible import ScriptedAgent, replay, rollout
from crucible.canonical import canonical_text
from crucible.env import Environment
from crucible.envs import CodeTaskEnv, CommandEnv, TerminalEnv
from crucible.errors import FormatError
from crucible.registry import make
from crucible.sandbox import command_grader
from crucible.suites import SuiteWorld, load_suite

pytestmark = [pytest.mark.box, needs_box]

WORLDS = [w for name in ("shell-basics", "code-basics") for w in load_suite(name).worlds]


def play(env: Environment, actions: Any) -> Environment:
    env.reset(0)
    for action in actions:
        if env.step(action).done:
            break
    return env


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
def test_the_oracle_solves_and_the_wrong_attempt_does_not(world: SuiteWorld) -> None:
    for actions, solved in ((world.oracle(0), True), (world.wrong(0), False)):
        env = make(world.env_id, world.kwargs)
        trajectory = rollout(env, ScriptedAgent(actions), seed=0)  # type: ignore[arg-type]
        assert trajectory.success is solved, trajectory.steps[-1]
        assert replay(make(world.env_id, world.kwargs), trajectory).ok
        env.close()


def test_a_third_of_each_suite_takes_three_steps_or_more() -> None:
    for name in ("shell-basics", "code-basics"):
        suite = load_suite(name)
        lengths = []
        for world in suite.worlds:
            env = make(world.env_id, world.kwargs)
            oracle = ScriptedAgent(world.oracle(0))  # type: ignore[arg-type]
            lengths.append(rollout(env, oracle, seed=0).num_steps)
            env.close()
        assert len(suite.worlds) >= 6
        assert sum(length >= 3 for length in lengths) * 3 >= len(lengths)


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
def test_kwargs_rebuild_the_environment(world: SuiteWorld) -> None:
    env = make(world.env_id, world.kwargs)
    again = make(world.env_id, env.kwargs())
    assert canonical_text(again.kwargs()) == canonical_text(env.kwargs())


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: w.name)
def test_messages_of_a_solution_parse_to_its_actions(world: SuiteWorld) -> None:
    env = make(world.env_id, world.kwargs)
    for action in world.oracle(0):  # type: ignore[union-attr]
        assert env.parse(env.to_message(action, call_id="c")) == [action]


def command() -> CommandEnv:
    return CommandEnv({"a.txt": "b\na\n"}, "sort a.txt", "a\nb", timeout=5)


def test_a_command_is_graded_by_status_and_output() -> None:
    env = command()
    assert env.reset(0) == {"task": "sort a.txt", "files": {"a.txt": "b\na\n"}}
    right = env.step(["sort", "a.txt"])
    assert (right.reward, right.done, right.info["correct"]) == (1.0, True, True)
    assert right.observation == {"stdout": "a\nb\n", "stderr": "", "exit_code": 0}
    for action in ("cat a.txt", "sort a.txt; exit 1", ["no-such-program"], [], 7, {"a": 1}, "a\0b"):
        wrong = env.step(action)
        assert (wrong.reward, wrong.done) == (-0.1, False)
    assert env.success() is False


def test_commands_do_not_see_each_others_files() -> None:
    env = command()
    env.reset(0)
    env.step("touch new; rm a.txt")
    assert env.step("ls").observation["stdout"] == "a.txt\n"


def test_a_time_out_is_an_observation_without_output() -> None:
    env = CommandEnv({"a": ""}, "t", "x", timeout=0.3)
    env.reset(0)
    result = env.step("echo x; sleep 9")
    assert result.observation == {"stdout": "", "stderr": "", "exit_code": -9, "stopped": "time"}
    assert result.reward == -0.1


def test_a_dataset_cannot_raise_a_time_out() -> None:
    env = CommandEnv({"a": ""}, "t", "x", timeout=1e9)
    env.reset(0)
    assert env.step("true").observation["exit_code"] == 0


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("command", {"files": {"a": 1}, "task": "t", "expected_stdout": "x"}),
        ("command", {"files": {}, "task": "t", "expected_stdout": "x", "timeout": 0}),
        ("command", {"files": {}, "task": "t", "expected_stdout": "x", "shell": "/bin/sh"}),
        ("terminal", {"files": {}, "task": "t", "goal": []}),
        ("terminal", {"files": {}, "task": "t", "goal": [{"check": "trust me"}]}),
        ("terminal", {"files": {}, "task": "t", "goal": [{"check": "file_equals", "path": "a"}]}),
        ("code-task", {"files": {}, "task": "t", "grader": {"kind": "command", "command": ["x"]}}),
        ("code-task", {"files": {"a": ""}, "task": "t", "grader": {"kind": "calls"}}),
        ("code-task", {"files": {"a": ""}, "task": "t", "grader": {"kind": "mine"}}),
    ],
)
def test_kwargs_that_make_no_sense_are_one_error(env_id: str, kwargs: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        make(env_id, kwargs)


def terminal(*goal: dict[str, Any]) -> TerminalEnv:
    checks = goal or ({"check": "file_equals", "path": "out", "text": "x\n"},)
    return TerminalEnv({"in.txt": "x\n"}, "copy in.txt to out", list(checks), timeout=5)


def test_files_stay_and_each_new_check_earns_its_share_once() -> None:
    env = terminal(
        {"check": "file_exists", "path": "a", "weight": 3},
        {"check": "file_absent", "path": "in.txt"},
    )
    env.reset(0)
    assert env.step("touch a").reward == pytest.approx(0.70)
    assert env.step("rm a").reward == pytest.approx(-0.05)
    assert env.step("touch a").reward == pytest.approx(-0.05)
    last = env.step("rm in.txt")
    assert (last.reward, last.done) == (0.25, True)
    assert last.info["checks"] == {"file_exists a": True, "file_absent in.txt": True}
    env.close()


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        ({"check": "file_equals", "path": "out", "text": "x\n"}, "cp in.txt out", "echo y > out"),
        ({"check": "file_contains", "path": "out", "text": "x"}, "echo axb > out", "mkdir out"),
        (
            {"check": "file_matches", "path": "out", "pattern": "^[xy]+$"},
            "echo xy > out",
            "echo xz > out",
        ),
        ({"check": "file_exists", "path": "d/e"}, "mkdir -p d; touch d/e", "touch d"),
        ({"check": "file_absent", "path": "in.txt"}, "rm in.txt", "mv in.txt x; mkdir in.txt"),
        ({"check": "command_succeeds", "command": "test -s out"}, "echo x > out", "touch out"),
    ],
)
def test_each_kind_of_check(check: dict[str, Any], good: str, bad: str) -> None:
    env = terminal(check)
    assert play(env, [bad]).success() is False
    assert play(env, [good]).success() is True
    env.close()


def test_a_link_to_the_answer_is_not_the_answer() -> None:
    env = terminal()
    assert play(env, ["ln -s in.txt out"]).success() is False
    env.close()


def test_what_the_agent_leaves_behind_cannot_steer_a_check() -> None:
    env = terminal({"check": "command_succeeds", "command": "python3 -c 'import json; exit(1)'"})
    attack = "echo 'import os; os._exit(0)' > json.py; echo 'exit 0' > .bashrc; alias python3=true"
    play(env, [attack])
    assert env.success() is True  # the world's own command imports from the agent's folder
    strict = terminal({"check": "command_succeeds", "command": "python3 -I -c 'exit(1)'"})
    assert (
        play(strict, [attack, "printf '#!/bin/sh\\n' > python3; chmod +x python3"]).success()
        is False
    )
    env.close()
    strict.close()


def test_odd_files_neither_stop_nor_fool_the_terminal() -> None:
    env = terminal()
    env.reset(0)
    script = "mkfifo out; ln -s /etc/passwd p; printf x > $'bad\\xff'; mkdir d; chmod 000 d in.txt"
    result = env.step(script)
    assert result.observation["exit_code"] == 0
    assert env.success() is False
    assert env.step("rm -rf out; echo x > out").done
    env.close()


def test_digests_cover_every_file() -> None:
    digests = set()
    env = terminal()
    for script in ("true", "touch a", "mkdir a", "echo x > a", "touch a; chmod +x a", "ln -s x a"):
        digests.add(play(env, [script]).digest())
    env.close()
    assert len(digests) == 6


def test_a_live_goal_and_a_live_grader_work_as_before_and_say_so() -> None:
    live = TerminalEnv({"a": ""}, "t", lambda files: "b" in files)
    live.reset(0)
    assert live.step("touch c").reward == -0.05
    done = live.step("touch b")
    assert (done.reward, done.done, done.info) == (1.0, True, {"solved": True})
    assert live.live and "goal" not in live.kwargs()
    live.close()
    code = CodeTaskEnv({"a": "x"}, "t", command_grader(["grep", "-q", "y", "a"]))
    code.reset(0)
    assert code.step({"b": "y"}).observation == {"files": {"a": "x", "b": "y"}}
    assert code.step({"a": "y"}).reward == 1.0
    assert code.live

    def fail(folder: Path) -> bool:
        raise RuntimeError

    broken = CodeTaskEnv({"a": "x"}, "t", fail)
    broken.reset(0)
    assert broken.step({}).reward == -0.1


ADD = {"solution.py": "def add(a, b):\n    return a - b\n"}
GOOD = "def add(a, b):\n    return a + b\n"


def calls() -> CodeTaskEnv:
    cases = [{"args": [1, 2], "expected": 3}, {"args": [1.5, 1], "expected": 2.5}]
    grader = {"kind": "calls", "module": "solution.py", "function": "add", "cases": cases}
    return CodeTaskEnv(ADD, "repair add", grader)


CHEATS = {
    "exit": "import sys; sys.exit(0)",
    "hard exit": "import os; os._exit(0)",
    "equal to everything": "class E:\n    __eq__ = lambda *a: True\ndef add(a, b): return E()",
    "a bool for a number": "def add(a, b): return True",
    "an int for a float": "def add(a, b): return int(a + b) if a > 1 else float(a + b)",
    "nan": "def add(a, b): return float('nan')",
    "forged lines": "import os\nos.write(1, b'[\"ok\", 1]\\n' * 4)\ndef add(a, b): return 0",
    "patched json": "import json\njson.dumps = lambda *a, **k: '[1]'\ndef add(a, b): return 0",
    "recursion": "def add(a, b): return add(a, b)",
    "syntax": "def add(",
    "endless": "import time\ntime.sleep(60)",
}


@pytest.mark.parametrize("name", [name for name in CHEATS if name != "endless"])
def test_a_candidate_cannot_talk_its_way_past_the_calls_grader(name: str) -> None:
    env = calls()
    env.reset(0)
    result = env.step({"solution.py": CHEATS[name]})
    assert not result.done
    assert result.info["score"] == 0.0
    assert env.step({"solution.py": GOOD}).done


def pytest_task() -> CodeTaskEnv:
    test = "from solution import add\n\n\ndef test_one():\n    assert add(1, 2) == 3\n\n\n"
    test += "def test_two():\n    assert add(2, 2) == 4\n"
    pinned = {"test_add.py": test}
    grader = {
        "kind": "command",
        "command": ["pytest", "test_add.py"],
        "files": pinned,
        "num_tests": 2,
    }
    return CodeTaskEnv(ADD, "repair add", grader)


@pytest.mark.parametrize(
    "edits",
    [
        {"test_add.py": "def test_one(): pass\n\n\ndef test_two(): pass\n"},
        {"conftest.py": "import os\nprint('[]')\nos._exit(0)\n"},
        {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
        {"sitecustomize.py": "import os\nos._exit(0)\n"},
        {"pytest.py": "def main(*a, **k): return 0\n"},
        {"_pytest/__init__.py": ""},
        {"solution.py": "import sys\nsys.exit(0)\n"},
        {"solution.py": "import os\nos._exit(0)\n"},
        {"solution.py": "raise SystemExit(0)\n"},
        {"json.py": "def dumps(*a, **k): return '[]'\n"},
    ],
)
def test_what_steers_pytest_earns_nothing(edits: dict[str, str]) -> None:
    env = pytest_task()
    env.reset(0)
    result = env.step(edits)
    assert (result.info["score"], result.reward) == (0.0, -0.1)
    assert env.step({"solution.py": GOOD, "test_add.py": ""}).done


def test_failures_are_named_without_times_or_addresses() -> None:
    env = pytest_task()
    env.reset(0)
    code = "class A: pass\n\n\ndef add(a, b):\n    return A() if a == 1 else 4\n"
    first = env.step({"solution.py": code}).observation
    assert first["passed"] == ["test_add.py::test_two"]
    assert "0x…" in first["failed"]["test_add.py::test_one"]
    assert env.step({}).observation == first


def test_any_other_command_passes_where_it_exits_zero() -> None:
    grader = {
        "kind": "command",
        "command": ["bash", "check.sh"],
        "files": {"check.sh": "test -f b"},
    }
    env = CodeTaskEnv({"a": "x"}, "make b", grader)
    env.reset(0)
    assert env.step({"check.sh": "exit 0"}).info["score"] == 0.0
    assert env.step({"b": ""}).done


def test_edits_that_are_not_safe_are_refused_and_nothing_changes() -> None:
    env = calls()
    env.reset(0)
    unsafe: list[Any] = [{"../x": ""}, {"a": 1}, {"a": "x" * 200_001}, [], None, "x"]
    for action in unsafe:
        result = env.step(action)
        assert result.reward == -0.1
        assert "error" in result.observation
    many = {f"f{i}": "" for i in range(201)}
    assert "files" in env.step(many).observation["error"]
    assert env.step({"solution.py": GOOD}).done


def test_observations_render_as_text() -> None:
    env = pytest_task()
    assert "repair add" in env.render(env.reset(0))
    assert env.render(env.step({}).observation).startswith("0 passed, 2 failed\nFAILED test_add.py")
    shell = terminal()
    assert "in.txt" in shell.render(shell.reset(0))
    assert shell.render(shell.step("echo a; exit 2").observation) == "a\n[exit status 2]\n"
    shell.close()
    assert shell.action_from_text("Try:\n```bash\nls -a\n```") == "ls -a"
