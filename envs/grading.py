"""Grading an agent's files in a box: what was run, and what came of it, as data.

The process that decides a reward never imports what is graded.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from crucible.canonical import canonical_text, parse_json
from crucible.envs.commands import fresh_workspace
from crucible.errors import CrucibleError
from crucible.sandbox import HOME, BoxResult, SandboxPolicy, run_in_box
from crucible.sandbox.runtime import SITE, find_runtime

__all__ = ["Grade", "check_grader", "grade"]

Grade = dict[str, Any]
"""``score`` in [0, 1], ``passed`` (names of what passed) and ``failed`` (name → why)."""

MAX_REASON = 300

_BLOCKED = re.compile(
    r"(^|/)(conftest\.py|pytest\.ini|\.pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|"
    r"sitecustomize\.py|usercustomize\.py|[^/]*\.pth)$"
)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")

_CALLS = """
import importlib.util, json, os, sys
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
with open(sys.argv[1]) as file:
    spec = json.load(file)
os.unlink(sys.argv[1])
sys.path.insert(0, sys.argv[2])
def say(*what):
    report.write(json.dumps(what, allow_nan=False) + "\\n")
    report.flush()
try:
    path = os.path.join(sys.argv[2], spec["module"])
    found = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(found)
    sys.modules["candidate"] = module
    found.loader.exec_module(module)
    function = getattr(module, spec["function"])
except BaseException as error:
    say("import", type(error).__name__ + ": " + str(error)[:300])
    os._exit(0)
for arguments in spec["cases"]:
    try:
        say("ok", function(*arguments))
    except BaseException as error:
        say("error", type(error).__name__ + ": " + str(error)[:300])
os._exit(0)
"""
_PYTEST = """
import json, os, sys
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
key, site, home = sys.argv[1:4]
sys.path.insert(0, site)
sys.path.append(home)
import pytest
class Outcomes:
    def __init__(self):
        self.passed, self.failed = set(), {}
    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed.setdefault(report.nodeid, str(getattr(crash, "message", report.longrepr)))
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
    def pytest_collectreport(self, report):
        if report.failed:
            self.failed[report.nodeid] = str(report.longrepr).strip().splitlines()[-1]
outcomes = Outcomes()
pytest.main(
    ["-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null", "--rootdir", home, "-q",
     "--import-mode=importlib", *sys.argv[4:]],
    plugins=[outcomes],
)
report.write(json.dumps([key, sorted(outcomes.passed - set(outcomes.failed)), outcomes.failed]))
report.flush()
os._exit(0)
"""


def check_grader(grader: Mapping[str, Any]) -> None:
    """Nothing, if ``grader`` is one.

    Raises:
        ValueError: if it is not.
    """
    kind = grader.get("kind")
    needed = {"calls": ("module", "function", "cases"), "command": ("command",)}.get(str(kind))
    if needed is None:
        raise ValueError(f"grader kind {kind!r} is unknown (known: calls, command)")
    missing = [name for name in needed if name not in grader]
    if missing or not grader[needed[-1]]:
        raise ValueError(f"grader {kind} needs {missing[0] if missing else needed[-1]!r}")


def grade(grader: Mapping[str, Any], files: Mapping[str, str]) -> Grade:
    """What ``grader`` makes of an agent's ``files``, in a fresh box.

    Raises:
        SandboxUnavailableError: if there is no isolation here.
    """
    if grader["kind"] == "calls":
        return _grade_calls(grader, files)
    if grader["command"][0] == "pytest":
        return _grade_pytest(grader, files)
    return _grade_command(grader, files)


def _grade_calls(grader: Mapping[str, Any], files: Mapping[str, str]) -> Grade:
    """Arguments go in as JSON, results come out as JSON, and are compared here: the expected
    values never enter the box."""
    cases: Sequence[Mapping[str, Any]] = grader["cases"]
    spec = {
        "module": grader["module"],
        "function": grader["function"],
        "cases": [case["args"] for case in cases],
    }
    spec_path = f".crucible-{secrets.token_hex(8)}.json"
    policy = SandboxPolicy()
    with fresh_workspace({**_allowed(files), spec_path: json.dumps(spec)}, policy) as workspace:
        argv = [str(find_runtime().python), "-I", "-c", _CALLS, f"{HOME}/{spec_path}", HOME]
        result = run_in_box(workspace, argv)
    answers = [_answer(line) for line in result.stdout.splitlines()[: len(cases)]]
    passed, failed = [], {}
    for index, case in enumerate(cases):
        name = str(case.get("name", index))
        problem = _case_problem(case, answers, index, result)
        if problem is None:
            passed.append(name)
        else:
            failed[name] = problem
    return _grade_of(passed, failed, len(cases))


def _answer(line: bytes) -> tuple[str, Any]:
    try:
        kind, value = parse_json(line.decode())
    except (CrucibleError, UnicodeDecodeError, ValueError, TypeError):
        return "error", "the result is no JSON value"
    return (kind, value) if kind in ("ok", "error", "import") else ("error", "no result")


def _case_problem(
    case: Mapping[str, Any], answers: list[tuple[str, Any]], index: int, result: BoxResult
) -> str | None:
    if answers and answers[0][0] == "import":
        return _reason(answers[0][1])
    if index >= len(answers):
        return (
            f"no result: stopped over the limit of {result.stopped}"
            if result.stopped
            else "no result"
        )
    kind, value = answers[index]
    if kind == "error":
        return _reason(value)
    if canonical_text(value) == canonical_text(case["expected"]):
        return None
    return _reason(f"wrong result {canonical_text(value)}")


def _grade_pytest(grader: Mapping[str, Any], files: Mapping[str, str]) -> Grade:
    """Pinned test files go over the agent's; what could steer pytest is left out. The tests
    share a process with what they test, so a candidate made to cheat can lie here: the grader is
    labelled ``shared-process``."""
    pinned = grader.get("files", {})
    key = secrets.token_hex(8)
    with fresh_workspace({**_allowed(files), **pinned}) as workspace:
        python = str(find_runtime().python)
        argv = [python, "-I", "-c", _PYTEST, key, SITE, HOME, *grader["command"][1:]]
        result = run_in_box(workspace, argv, with_pytest=True)
    passed, failed = _pytest_report(result, key)
    expected = grader.get("num_tests") or len(passed) + len(failed)
    return _grade_of(passed, failed, max(expected, len(passed) + len(failed)))


def _pytest_report(result: BoxResult, key: str) -> tuple[list[str], dict[str, str]]:
    try:
        stated, passed, failed = parse_json(result.stdout.decode())
        if stated != key:
            raise ValueError
        return [str(name) for name in passed], {str(k): _reason(v) for k, v in failed.items()}
    except (CrucibleError, UnicodeDecodeError, ValueError, TypeError, AttributeError):
        limit = f": stopped over the limit of {result.stopped}" if result.stopped else ""
        return [], {"pytest": f"the tests did not finish{limit}"}


def _grade_command(grader: Mapping[str, Any], files: Mapping[str, str]) -> Grade:
    with fresh_workspace({**_allowed(files), **grader.get("files", {})}) as workspace:
        result = run_in_box(workspace, grader["command"])
    if result.ok:
        return _grade_of(["command"], {}, 1)
    return _grade_of([], {"command": f"exit status {result.exit_code}"}, 1)


def _allowed(files: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if not _BLOCKED.search(path)}


def _grade_of(passed: list[str], failed: Mapping[str, str], total: int) -> Grade:
    score = len(passed) / total if total else 0.0
    return {"score": score, "passed": sorted(passed), "failed": dict(sorted(failed.items()))}


def _reason(text: Any) -> str:
    """A reason that is the same in every run: without addresses, and not long."""
    return _ADDRESS.sub("0x…", str(text))[:MAX_REASON]
