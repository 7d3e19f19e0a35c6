from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from walking import Up, Walk

from crucible import Trajectory, replay, rollout
from crucible.errors import FormatError, TargetNotFoundError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved trajectory."""
    path = tmp_path / "episode.trajectory.json"
    rollout(Walk(), Up(), seed=3).save(path)
    return path


def test_a_saved_trajectory_is_read_back_equal(tmp_path: Path) -> None:
    trajectory = rollout(Walk(goal=2), Up(), seed=1)
    trajectory.save(tmp_path / "t.json")
    loaded = Trajectory.load(tmp_path / "t.json")
    assert loaded == trajectory
    assert loaded.fingerprint == trajectory.fingerprint
    assert replay(Walk(goal=2), loaded).ok
    assert list(tmp_path.iterdir()) == [tmp_path / "t.json"]


def rewrite(path: Path, change: Any) -> None:
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values that hold no others."""
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, (*path, i))]
    return [path]


def test_every_changed_leaf_is_refused(file: Path) -> None:
    original = file.read_text()
    paths = leaves(json.loads(original))
    assert len(paths) > 40
    for path in paths:
        body = json.loads(original)
        place: Any = body
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        place[path[-1]] = {str: f"{old}x", bool: not old}.get(type(old), 7)
        file.write_text(json.dumps(body))
        if path[:2] == ("trajectory", "provenance") or path in UNBOUND:
            continue
        with pytest.raises(FormatError):
            Trajectory.load(file)


UNBOUND = {
    ("trajectory", "world", "distribution"),
    ("trajectory", "world", "distribution_version"),
    ("trajectory", "world", "suite_version"),
    ("trajectory", "world", "seeded"),
    ("trajectory", "world", "toolchain_needs"),
}
"""Claims about the world that its digest does not cover; verify compares them with what is
installed."""


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(version=5),
        lambda body: body.update(version=True),
        lambda body: body.update(more=1),
        lambda body: body.pop("version"),
        lambda body: body["trajectory"].pop("final_observation"),
        lambda body: body["trajectory"].update(seed=3.0),
        lambda body: body["trajectory"].update(claim=1),
        lambda body: body["trajectory"]["steps"][0].update(claim=1),
        lambda body: body["trajectory"]["steps"].pop(),
        lambda body: body["trajectory"]["steps"].append("x"),
        lambda body: body["trajectory"]["steps"][0].update(reward=1),
        lambda body: body["trajectory"]["steps"][0].update(action="1 "),
        lambda body: body["trajectory"].update(steps={}),
        lambda body: body["trajectory"].update(tools="[]"),
        lambda body: body["trajectory"]["world"].update(toolchain_needs=[1]),
    ],
)
def test_a_malformed_file_is_one_error(file: Path, change: Any) -> None:
    rewrite(file, change)
    with pytest.raises(FormatError):
        Trajectory.load(file)


@pytest.mark.parametrize(
    "text", ["", "[]", "nonsense", '{"version":4,"version":4,"trajectory":{}}', "[" * 100_000]
)
def test_text_that_is_no_trajectory_is_one_error(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(FormatError):
        Trajectory.load(file)


def test_bytes_that_are_no_text_are_one_error(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError):
        Trajectory.load(file)


def test_a_missing_file_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(TargetNotFoundError):
        Trajectory.load(tmp_path / "none.json")


def legacy(version: int, **extra: Any) -> dict[str, Any]:
    """A file as crucible-rl 0.2.0 (or 0.1.0) wrote it for its number-guessing environment."""
    step = {
        "observation": {"feedback": "start", "high": 100, "low": 1},
        "action": 50,
        "reward": -0.05,
        "done": False,
        "info": {"guesses": 1},
        "digest": "b8b8eb83374c0bf3",
    }
    body = {
        "env_id": "guess",
        "seed": 0,
        "initial_observation": {"feedback": "start", "high": 100, "low": 1},
        "transitions": [step],
        "total_reward": -0.05,
    }
    return {"version": version, "trajectory": body | extra}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_the_first_releases_are_read(tmp_path: Path, version: int) -> None:
    extra: dict[str, Any] = {"env_config": {"low": 1, "high": 100, "max_guesses": 10}}
    if version == 3:
        extra["final_observation"] = {"feedback": "lower", "high": 100, "low": 1}
    path = tmp_path / "old.json"
    path.write_text(json.dumps(legacy(version, **extra)))
    trajectory = Trajectory.load(path)
    assert trajectory.file_version == version
    assert trajectory.world.env_version == "0.2.0"
    assert (trajectory.final_observation is not None) == (version == 3)


def test_an_unknown_key_in_an_old_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(legacy(3, claim=1)))
    with pytest.raises(FormatError, match="claim"):
        Trajectory.load(path)
