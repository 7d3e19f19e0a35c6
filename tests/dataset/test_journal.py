"""A recorder that is killed, at any moment."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from walking import RecordWalks

from crucible.cli import main
from crucible.dataset.folder import JOURNAL_PATH, read_manifest
from crucible.errors import UnfinishedError
from crucible.verification import verify_dataset


class KilledError(BaseException):
    """Stands for the end of the process: nothing after it runs, handlers neither."""


def record_killed(
    record_walks: RecordWalks, folder: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Record into ``folder`` up to the given rename or removal; False if there are fewer."""
    count = 0
    real_replace, real_unlink = os.replace, Path.unlink
    snapshot = folder.parent / "snapshot"

    def counted() -> None:
        nonlocal count
        count += 1
        if count == moment:
            shutil.rmtree(snapshot, ignore_errors=True)
            shutil.copytree(folder, snapshot)
            raise KilledError

    def replace(*arguments: Any, **options: Any) -> None:
        counted()
        real_replace(*arguments, **options)

    def unlink(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == "journal.json":
            counted()
        real_unlink(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        patch.setattr(Path, "unlink", unlink)
        try:
            record_walks(folder.name, seeds=(range(5, 8),), kwargs={"goal": 4})
        except KilledError:
            shutil.rmtree(folder)
            snapshot.rename(folder)
            return True
    return False


@pytest.mark.parametrize("has_dataset", [True, False])
@pytest.mark.parametrize("moment", range(1, 8))
def test_a_killed_recorder_leaves_an_unfinished_folder_that_the_next_one_mends(
    record_walks: RecordWalks,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    moment: int,
    has_dataset: bool,
) -> None:
    folder = tmp_path / "walks"
    if has_dataset:
        record_walks()
    else:
        folder.mkdir()
    was_killed = record_killed(record_walks, folder, moment, monkeypatch)
    assert was_killed == (moment <= 6)
    if not was_killed:
        return
    if (folder / JOURNAL_PATH).exists():
        with pytest.raises(UnfinishedError, match="was killed"):
            verify_dataset(folder, workers=1)
        assert main(["show", str(folder)]) == main(["verify", str(folder)]) == 2
    elif has_dataset:
        assert verify_dataset(folder, workers=1).ok
    record_walks(seeds=(range(20, 22),))
    assert verify_dataset(folder, workers=1).ok
    assert not (folder / JOURNAL_PATH).exists()
    listed = {shard.path for shard in read_manifest(folder).shards}
    stored = {str(p.relative_to(folder)) for p in folder.rglob("*.parquet")}
    assert stored == listed


def test_a_recording_that_fails_leaves_the_folder_as_it_was(record_walks: RecordWalks) -> None:
    folder = record_walks()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fail(row: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    from crucible.recording import Plan, record_plan
    from crucible.world_references import resolve_worlds

    plan = Plan(tuple(resolve_worlds("walking:Walk", {"goal": 9})), (range(3),), "walking:Up")
    with pytest.raises(KeyboardInterrupt):
        record_plan(plan, folder, workers=1, on_episode=fail)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before
