"""A stranger's episodes are re-run in a box, or not at all."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from boxes import needs_box
from tampering import forge_rows
from walking import RecordWalks, Walk

from crucible import sandbox
from crucible.isolation import placement_of
from crucible.recording import Plan, record_plan
from crucible.verification import verify_dataset, verify_trajectory
from crucible.world_references import resolve_worlds


def statuses(folder: Path) -> set[tuple[str, str | None]]:
    report = verify_dataset(folder, workers=1)
    return {(verdict.status, verdict.sandbox) for verdict in report.verdicts}


def as_a_stranger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody else"))


def test_what_was_recorded_here_replays_in_this_process(record_walks: RecordWalks) -> None:
    assert statuses(record_walks()) == {("reproduced", "in-process")}


@needs_box
def test_a_strangers_episode_replays_in_a_box(
    record_walks: RecordWalks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = record_walks()
    as_a_stranger(monkeypatch, tmp_path)
    assert statuses(folder) == {("reproduced", "bwrap")}


@needs_box
def test_an_edited_copy_of_ones_own_data_is_a_strangers(record_walks: RecordWalks) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[0]["steps"][0].update(action="7"))
    assert {verdict.sandbox for verdict in verify_dataset(folder, workers=1).verdicts} == {"bwrap"}


@needs_box
def test_the_box_holds_nothing_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kwargs = {"secret": str(secret), "port": listener.getsockname()[1]}
        worlds = tuple(resolve_worlds("curious:Curious", kwargs))
        folder = tmp_path / "d"
        record_plan(Plan(worlds, (range(1),), "walking:Up"), folder, workers=1)
        as_a_stranger(monkeypatch, tmp_path)
        report = verify_dataset(folder, workers=1)
    (verdict,) = report.verdicts
    (mismatch,) = verdict.mismatches
    assert (mismatch.field, mismatch.path) == ("final_observation", "/found/0")
    assert (mismatch.recorded, mismatch.replayed) == ('"file"', None)


def test_without_a_box_only_what_runs_no_code_replays(
    record_walks: RecordWalks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_a_stranger(monkeypatch, tmp_path)
    monkeypatch.setattr(sandbox, "box_problem", lambda: "user namespaces are off")
    (guess,) = resolve_worlds("guess-basics/up-to-100", {})
    assert placement_of(guess, is_own=False).level == "in-process"
    for name in ("sql-skills/payroll", "walking:Walk"):
        (world,) = resolve_worlds(name, {})
        placement = placement_of(world, is_own=False)
        assert str(placement.problem).startswith("sandbox: user namespaces are off. ")
        assert "bubblewrap" in str(placement.problem)
        assert placement_of(world, is_own=True).problem is None
    folder = record_walks()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a third"))
    report = verify_dataset(folder, workers=1)
    assert report.counts["unverifiable"] == 5
    assert report.exit_code == 3
    assert {verdict.sandbox for verdict in report.verdicts} == {None}


@needs_box
def test_a_single_file_is_a_strangers(tmp_path: Path) -> None:
    from walking import Up

    from crucible import rollout
    from crucible.registry import import_environment

    import_environment("walking:Walk")
    report = verify_trajectory(rollout(Walk(), Up(), seed=1), allow_unanchored=True)
    assert (report.verdicts[0].status, report.verdicts[0].sandbox) == ("reproduced", "bwrap")
