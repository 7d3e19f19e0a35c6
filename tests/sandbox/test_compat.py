"""The sandbox names of crucible-rl 0.2.0 behave as they did."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crucible.sandbox import DockerSandbox, GradeResult, Sandbox, SubprocessSandbox, command_grader


def test_a_command_over_files_passes_where_it_exits_zero() -> None:
    box = SubprocessSandbox()
    assert isinstance(box, Sandbox)
    passed = box.run({"a.py": "print('hi')"}, [sys.executable, "a.py"])
    assert passed == GradeResult(True, 0, "hi\n", "")
    failed = box.run({"a.py": "raise SystemExit(3)"}, [sys.executable, "a.py"])
    assert (failed.passed, failed.exit_code) == (False, 3)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"../x": ""}, ["true"]),
        ({"a": ""}, ["no-such-program"]),
        ({"a": ""}, [sys.executable, "-c", "while True: pass"]),
    ],
)
def test_whatever_goes_wrong_is_a_grade_that_does_not_pass(
    files: dict[str, str], command: list[str]
) -> None:
    result = SubprocessSandbox(timeout=0.5).run(files, command)
    assert (result.passed, result.exit_code) == (False, -1)
    assert result.stderr


def test_a_time_out_must_be_positive() -> None:
    with pytest.raises(ValueError):
        SubprocessSandbox(timeout=0)
    with pytest.raises(ValueError):
        DockerSandbox(timeout=-1)


def test_a_grader_runs_its_command_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1")
    assert command_grader(["test", "-f", "x"])(tmp_path)
    assert not command_grader(["test", "-f", "y"])(tmp_path)


def test_docker_commands_have_no_network_and_docker_may_be_absent(tmp_path: Path) -> None:
    command = DockerSandbox().docker_command(tmp_path, ["true"])
    assert command[:5] == ["docker", "run", "--rm", "--network", "none"]
    assert command[-2:] == ["python:3.12-slim", "true"]
    absent = DockerSandbox(docker="no-such-docker").run({"a": ""}, ["true"])
    assert absent == GradeResult(False, -1, "", "no-such-docker is not available")
    refused = DockerSandbox(docker="false").run({"a": ""}, ["true"])
    assert not refused.passed
    assert DockerSandbox(docker="false").run({"../a": ""}, ["true"]).exit_code == -1
