"""Whatever is recorded comes back bit for bit: through Parquet, and through ``load_dataset``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from crucible.canonical import canonical_text, parse_text
from crucible.dataset.card import render_card
from crucible.dataset.folder import MANIFEST_PATH, read_trajectories
from crucible.dataset.manifest import Manifest
from crucible.dataset.schema import row_of
from crucible.dataset.shards import ShardWriter
from crucible.dataset.stats import StatsCounter
from crucible.env import Environment, ResetResult, StepResult
from crucible.rollouts import rollout
from crucible.trajectory import Trajectory

DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"]
DTYPES += ["<c8", "<c16"]
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["42", "true", "null", '{"a":1}', "", "\x00", "\U0001f600", "e\u0301"])
    | text
    | st.binary(max_size=9)
    | arrays
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(text | st.sampled_from(["$", "$bytes", "$ndarray"]), inner, max_size=3)
    ),
    max_leaves=8,
)
rewards = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


class Tape(Environment):
    """Plays what it was given."""

    live = True

    def __init__(self, frames: list[tuple[Any, float, Any]]) -> None:
        self.frames = frames
        self.at = 0

    def reset(self, seed: int) -> ResetResult:
        self.at = 0
        return ResetResult(self.frames[0][0], {"value": self.frames[0][2]})

    def step(self, action: Any) -> StepResult:
        observation, reward, info = self.frames[self.at]
        self.at += 1
        return StepResult(observation, reward, self.at == len(self.frames), {"value": info})

    def digest(self) -> str:
        return str(self.at)


class Player:
    """Acts with the frames as well."""

    def __init__(self, frames: list[tuple[Any, float, Any]]) -> None:
        self.actions = [frame[2] for frame in frames]

    def reset(self) -> None:
        self.left = list(self.actions)

    def act(self, observation: Any) -> Any:
        return self.left.pop(0)


def written(folder: Path, trajectory: Trajectory) -> Manifest:
    worlds = ShardWriter(folder, config="worlds", split="worlds")
    worlds.add(trajectory.world.to_row())
    data = ShardWriter(folder, config="trajectories", split="train")
    row = row_of(trajectory, split="train", recording="0" * 64, attempt=0)
    data.add(row)
    shards = (*worlds.close(), *data.close())
    manifest = Manifest(shards, {trajectory.world.digest: 1}, ())
    (folder / MANIFEST_PATH).parent.mkdir()
    (folder / MANIFEST_PATH).write_bytes(manifest.to_bytes())
    counter = StatsCounter()
    counter.add(row)
    (folder / "README.md").write_text(render_card(manifest, counter.stats()))
    return manifest


frames = st.lists(st.tuples(values, rewards, values), min_size=1, max_size=3)


@given(frames)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_trajectory_comes_back_from_parquet(frames: list[tuple[Any, float, Any]]) -> None:
    trajectory = rollout(Tape(frames), Player(frames), seed=0)
    assert trajectory.end == "terminated", trajectory.error
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder), trajectory)
        (back,) = read_trajectories(Path(folder))
    assert back.fingerprint == trajectory.fingerprint
    assert back == trajectory
    actions = [canonical_text(step.action) for step in back.steps]
    assert actions == [canonical_text(frame[2]) for frame in frames]


@given(frames)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_load_dataset_gives_the_same_texts_and_numbers(
    frames: list[tuple[Any, float, Any]],
) -> None:
    trajectory = rollout(Tape(frames), Player(frames), seed=0)
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        written(Path(folder), trajectory)
        row = datasets.load_dataset(folder, split="train", cache_dir=cache)[0]
    expected = row_of(trajectory, split="train", recording="0" * 64, attempt=0)
    assert row == expected
    assert repr(row["steps"]) == repr(expected["steps"])
    for step, (_, _, info) in zip(row["steps"], frames, strict=True):
        assert canonical_text(parse_text(step["action"])) == canonical_text(info)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_survive_bit_for_bit(dtype: str) -> None:
    data = np.frombuffer(np.random.default_rng(0).bytes(16 * 6), dtype=dtype)
    if dtype == "?":
        data = data.view("u1") % 2 == 1
    back = parse_text(canonical_text({"x": data.reshape(2, -1)}))["x"]
    assert back.dtype == np.dtype(dtype)
    assert back.tobytes() == data.tobytes()
