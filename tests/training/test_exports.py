from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chatting import record_chat
from datasets import load_dataset
from tampering import edit_rows, forge_rows
from walking import RecordWalks

from crucible.canonical import parse_text
from crucible.chat import canonical_chat
from crucible.cli import main
from crucible.dataset.folder import read_manifest, read_trajectories
from crucible.env_pool import EnvironmentPool
from crucible.errors import FormatError, PolicyError, UsageError
from crucible.training import ExportOptions, ExportSummary, export_dataset, load_export
from crucible.verification import verify_dataset


def export(folder: Path, out: Path, **options: Any) -> ExportSummary:
    report = verify_dataset(folder, workers=1)
    return export_dataset(folder, out, options=ExportOptions(**options), report=report)


def test_every_row_is_the_chat_of_a_verified_episode_and_names_it(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    folder = record_walks()
    summary = export(folder, tmp_path / "sft")
    rows = list(load_export(tmp_path / "sft"))
    assert summary.num_rows == len(rows) == 5
    environments = EnvironmentPool()
    for row, trajectory in zip(rows, read_trajectories(folder), strict=True):
        chat = canonical_chat(environments.get(trajectory.world), trajectory)
        assert (row["messages"], row["tools"]) == (chat.messages, chat.tools)
        assert row["fingerprint"] == trajectory.fingerprint
        assert (row["verdict"], row["anchor"], row["turns"]) == (
            "reproduced",
            "recorded",
            "canonical",
        )


def test_the_statement_names_the_parent_and_the_bytes(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    folder = record_walks()
    export(folder, tmp_path / "sft")
    body = parse_text((tmp_path / "sft" / "crucible" / "export.json").read_text())
    assert body["parent_root"] == read_manifest(folder).root
    data = (tmp_path / "sft" / "data" / "train.parquet").read_bytes()
    assert body["sha256"] == hashlib.sha256(data).hexdigest()
    loaded = load_dataset(str(tmp_path / "sft"), split="train")
    assert loaded.num_rows == 5
    assert isinstance(json.loads(loaded[0]["messages"]), list)


def test_a_diverged_row_is_left_out_and_counted(record_walks: RecordWalks, tmp_path: Path) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][0].update(reward=9.0))
    summary = export(folder, tmp_path / "sft")
    assert (summary.num_rows, dict(summary.left_out)) == (4, {"diverged": 1})
    kept = [row["seed"] for row in load_export(tmp_path / "sft")]
    assert kept == [0, 1, 3, 4]


def test_nothing_of_a_tampered_shard_goes_out(record_walks: RecordWalks, tmp_path: Path) -> None:
    folder = record_walks()
    edit_rows(folder, lambda rows: rows[2]["steps"][0].update(reward=9.0))
    with pytest.raises(PolicyError, match="nothing is left to export: 5 tampered"):
        export(folder, tmp_path / "sft")
    record_walks(seeds=(range(5, 7),))
    assert export(folder, tmp_path / "second").num_rows == 2


def test_worlds_that_are_not_anchored_need_a_flag_and_say_so(
    record_walks: RecordWalks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record_walks()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    with pytest.raises(PolicyError, match="not anchored"):
        export(folder, tmp_path / "sft")
    export(folder, tmp_path / "allowed", allow_unanchored=True)
    assert {row["anchor"] for row in load_export(tmp_path / "allowed")} == {"none"}


def test_unverified_rows_need_a_flag_and_say_so(record_walks: RecordWalks, tmp_path: Path) -> None:
    folder = record_walks(world="walking:Admits", max_steps=2)
    with pytest.raises(PolicyError, match="unverifiable"):
        export(folder, tmp_path / "sft")
    export(folder, tmp_path / "allowed", allow_unverified=True)
    assert {row["verdict"] for row in load_export(tmp_path / "allowed")} == {"unverifiable"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_reward": 0.9}, "with a reward below 0.9"),
        ({"success": True}, "without success"),
        ({"world": "guess"}, "in another world"),
        ({"agent": "oracle"}, "by another agent"),
    ],
)
def test_filters_leave_rows_out_and_say_why(
    record_walks: RecordWalks, tmp_path: Path, options: dict[str, Any], expected: str
) -> None:
    folder = record_walks(seeds=(range(3),))
    record_walks(seeds=(range(3, 5),), max_steps=1)
    try:
        summary = export(folder, tmp_path / "sft", **options)
        assert 0 < summary.num_rows < 5
        assert expected in summary.left_out
    except PolicyError as error:
        assert f"5 {expected}" in str(error)


def test_recorded_messages_go_out_where_they_are_bound(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    folder = record_walks()

    def change(messages: Any, seed: int) -> None:
        messages[1]["content"] = f"thinking {seed}"
        if seed == 3:
            messages[0]["content"] = "a friendlier start"

    record_chat(folder, change)
    summary = export(folder, tmp_path / "sft")
    assert dict(summary.left_out) == {"with messages that are not bound to its steps": 1}
    rows = list(load_export(tmp_path / "sft"))
    assert {row["turns"] for row in rows} == {"recorded"}
    assert rows[0]["messages"][1]["content"] == "thinking 0"
    canonical = export(folder, tmp_path / "canonical", canonical_turns=True)
    assert canonical.num_rows == 5
    assert "thinking" not in str(list(load_export(tmp_path / "canonical")))


def test_a_report_of_another_dataset_is_refused(record_walks: RecordWalks, tmp_path: Path) -> None:
    folder = record_walks()
    report = replace(verify_dataset(folder, workers=1), root="0" * 64)
    with pytest.raises(PolicyError, match="is of root 000"):
        export_dataset(folder, tmp_path / "sft", report=report)


def test_what_cannot_be_exported_is_one_error(record_walks: RecordWalks, tmp_path: Path) -> None:
    folder = record_walks()
    with pytest.raises(UsageError, match="known: sft"):
        export_dataset(folder, tmp_path / "x", format="xml")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        export_dataset(folder, tmp_path / "full")
    with pytest.raises(FormatError, match="holds no export"):
        list(load_export(folder))


def test_the_command_says_what_was_left_out(
    record_walks: RecordWalks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][0].update(reward=9.0))
    base = ["export", str(folder), "--workers", "1"]
    assert main([*base, "--out", str(tmp_path / "a")]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "left out 1: diverged"
    assert main([*base, "--out", str(tmp_path / "b"), "--strict"]) == 3
    capsys.readouterr()
    assert main([*base, "--out", str(tmp_path / "c"), "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["rows"], body["left_out"]) == (4, {"diverged": 1})
    assert main([*base, "--out", str(tmp_path / "d"), "--format", "xml"]) == 2
    assert main([*base, "--out", str(tmp_path / "e"), "--tokenizer", str(tmp_path)]) == 2
