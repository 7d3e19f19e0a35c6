from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from walking import RecordWalks, Walk

from crucible.dataset.folder import read_manifest, read_trajectories, read_worlds
from crucible.errors import UsageError
from crucible.recording import Plan, record_plan
from crucible.registry import import_environment
from crucible.rollouts import rollout
from crucible.state import folder_lock, recorded_worlds
from crucible.world_references import resolve_worlds
from crucible.worlds import world_of


def test_rows_are_the_planned_episodes_in_their_order(record_walks: RecordWalks) -> None:
    folder = record_walks(seeds=(range(3), range(7, 9)), attempts=2)
    rows = [(t.seed, t.world.digest) for t in read_trajectories(folder)]
    digest = resolve_worlds("walking:Walk", {})[0].digest
    assert rows == [(seed, digest) for seed in (0, 1, 2, 7, 8) for _ in range(2)]


def test_a_recorded_row_is_the_rollout(record_walks: RecordWalks) -> None:
    from walking import Up

    folder = record_walks(kwargs={"goal": 4})
    import_environment("walking:Walk")
    for trajectory in read_trajectories(folder):
        again = rollout(Walk(goal=4), Up(), seed=trajectory.seed)
        assert again.fingerprint == trajectory.fingerprint


def test_worker_processes_give_the_same_rows_as_one(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    alone = record_walks(seeds=(range(40),))
    plan = Plan(tuple(resolve_worlds("walking:Walk", {})), (range(40),), "walking:Up")
    seen: list[int] = []

    def note_seed(row: dict[str, Any]) -> None:
        seen.append(row["seed"])

    record_plan(plan, tmp_path / "two", workers=2, on_episode=note_seed)
    fingerprints = [
        [t.fingerprint for t in read_trajectories(d)] for d in (alone, tmp_path / "two")
    ]
    assert fingerprints[0] == fingerprints[1]
    assert seen == list(range(40))


def test_the_manifest_counts_what_was_planned_and_recorded(record_walks: RecordWalks) -> None:
    manifest = read_manifest(record_walks(world="walking:Broken", attempts=2))
    (recording,) = manifest.recordings
    assert (recording.planned, recording.recorded, recording.errored) == (10, 10, 10)
    assert manifest.worlds == {recording.plan["worlds"][0]: 10}
    assert manifest.extends is None


def test_recording_again_appends(record_walks: RecordWalks) -> None:
    folder = record_walks()
    first = read_manifest(folder)
    record_walks(seeds=(range(5, 7),))
    second = read_manifest(folder)
    assert second.extends == first.digest
    assert set(first.shards) < set(second.shards)
    assert second.num_rows == 7
    assert len(second.recordings) == 2
    assert len(second.shards_of("worlds")) == 1


def test_plain_datasets_loads_both_tables(record_walks: RecordWalks) -> None:
    folder = record_walks()
    rows = load_dataset(str(folder))["train"]
    expected = [t.fingerprint for t in read_trajectories(folder)]
    assert rows["fingerprint"][:] == expected
    worlds = load_dataset(str(folder), "worlds")["worlds"]
    assert worlds[0]["world"] == rows[0]["world"]


def test_worlds_are_remembered_as_recorded_here(record_walks: RecordWalks) -> None:
    folder = record_walks()
    assert set(read_worlds(folder, read_manifest(folder))) == recorded_worlds()


def test_a_folder_that_holds_something_else_is_left_alone(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    (tmp_path / "walks").mkdir()
    (tmp_path / "walks" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        record_walks()
    assert [p.name for p in (tmp_path / "walks").iterdir()] == ["thesis.txt"]


def test_a_folder_has_one_writer(record_walks: RecordWalks, tmp_path: Path) -> None:
    with folder_lock(tmp_path / "walks"), pytest.raises(UsageError, match="another process"):
        record_walks()


def test_an_interrupted_recording_leaves_no_half_shard(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    def interrupt(row: dict[str, Any]) -> None:
        if row["seed"] == 3:
            raise KeyboardInterrupt

    plan = Plan(tuple(resolve_worlds("walking:Walk", {})), (range(5),), "walking:Up")
    with pytest.raises(KeyboardInterrupt):
        record_plan(plan, tmp_path / "walks", workers=1, on_episode=interrupt)
    assert [p for p in (tmp_path / "walks").rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    "plan",
    [
        {"seeds": ()},
        {"seeds": (range(0),)},
        {"seeds": (range(0, 4, 2),)},
        {"seeds": (range(2**63, 2**63 + 1),)},
        {"attempts": 0},
        {"max_steps": 0},
        {"agent": "nobody"},
        {"agent": "walking:Nobody"},
        {"agent": "oracle"},
    ],
)
def test_a_plan_that_cannot_be_recorded_is_refused(
    record_walks: RecordWalks, plan: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        record_walks(**plan)


@pytest.mark.parametrize("reference", ["nothing", "walking:Nothing", "nothing:Walk", "walking:Up"])
def test_an_unknown_world_is_refused(reference: str) -> None:
    with pytest.raises(UsageError):
        resolve_worlds(reference, {})


def test_the_code_of_a_users_class_is_in_its_worlds_digest() -> None:
    world = world_of(Walk())
    assert world.code_digest is not None
    assert world.distribution is None
