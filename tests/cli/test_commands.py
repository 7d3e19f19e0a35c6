from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tampering import edit_rows, forge_rows
from walking import RecordWalks, Up, Walk

from crucible.cli import main
from crucible.rollouts import rollout


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_record_then_verify_ends_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    arguments = ["-k", "goal=2", "--agent", "walking:Up", "--seeds", "0:4,9", "--workers", "1"]
    assert main(["record", "walking:Walk", "--out", out, *arguments]) == 0
    assert "recorded 5 episodes" in capsys.readouterr().out
    assert main(["verify", out, "--import", "walking", "--workers", "1"]) == 0
    assert capsys.readouterr().out.startswith("VERIFIED: 5 of 5 rows reproduced")


def test_verify_names_step_field_and_both_values(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    edit_rows(folder, lambda rows: rows[2]["steps"][1].update(reward=0.75))
    assert main(["verify", str(folder), "--workers", "1"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT VERIFIED")
    assert "step 1: reward: recorded 0.75, replayed 0." in out
    assert "(and 3 more rows)" in out


def test_verify_json_is_one_object_and_the_report_file_is_the_same(
    record_walks: RecordWalks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    report = tmp_path / "report.json"
    code, body = run_json(capsys, "verify", str(folder), "--workers", "1", "--report", str(report))
    assert (code, body["exit_code"], body["counts"]["reproduced"]) == (0, 0, 5)
    assert json.loads(report.read_text()) == body


def test_replay_picks_a_row_by_number_or_fingerprint(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(record_walks())
    _, shown = run_json(capsys, "show", folder, "--row", "3")
    assert main(["replay", folder, "--id", shown["fingerprint"][:8]]) == 0
    assert "seed 3" in capsys.readouterr().out


def test_replay_of_a_diverged_row_ends_one(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][1].update(info="{}"))
    assert main(["replay", str(folder), "--row", "2"]) == 1
    out = capsys.readouterr().out
    assert "step 1: info at /third: recorded nothing, replayed 0.3333333333333333" in out


def test_show_and_replay_take_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from crucible.registry import import_environment

    import_environment("walking:Walk")
    path = tmp_path / "t.json"
    rollout(Walk(), Up(), seed=0).save(path)
    assert main(["show", str(path)]) == 0
    assert "fingerprint" in capsys.readouterr().out
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out.startswith("reproduced: walking:Walk, seed 0")


def test_show_and_stats_of_a_dataset_agree(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(record_walks(attempts=3))
    _, shown = run_json(capsys, "show", folder)
    _, figures = run_json(capsys, "stats", folder)
    assert shown["stats"] == figures
    assert (figures["num_rows"], figures["num_transcripts"]) == (15, 5)
    assert main(["show", folder]) == main(["stats", folder]) == 0


def test_envs_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    _, listed = run_json(capsys, "envs", "list")
    assert "guess" in [entry["env_id"] for entry in listed["environments"]]
    _, shown = run_json(capsys, "envs", "show", "guess")
    assert shown["seeded"] is True
    assert main(["envs", "list"]) == 0


def test_control_characters_of_a_stranger_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Rude(Walk):
        def reset(self, seed: int) -> Any:
            return "\x1b[2J\u202e<b>[red]"

    path = tmp_path / "t.json"
    rollout(Rude(), Up(), seed=0, max_steps=1).save(path)
    main(["show", str(path)])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert "[red]" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["verify", "nothing-here"], 2),
        (["verify", "."], 2),
        (["show", "nothing-here"], 2),
        (["replay", "FOLDER"], 2),
        (["replay", "FOLDER", "--row", "99"], 2),
        (["replay", "FOLDER", "--id", "xyz"], 2),
        (["replay", "FOLDER", "--id", "0" * 64], 2),
        (["record", "nothing", "--out", "o"], 2),
        (["record", "walking:Walk", "--out", "o", "--seeds", "a:b"], 2),
        (["record", "walking:Walk", "--out", "o", "-k", "goal"], 2),
        (["record", "walking:Walk", "--out", "o", "-k", "speed=1", "--agent", "null"], 2),
        (["verify", "FOLDER", "--import", "no_such_module"], 2),
        (["envs", "show", "nothing"], 2),
        (["nonsense"], 2),
        (["verify", "FOLDER", "--nonsense"], 2),
    ],
)
def test_bad_input_is_one_sentence_and_no_traceback(
    record_walks: RecordWalks,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
) -> None:
    folder = record_walks()
    monkeypatch.chdir(folder.parent)
    assert main([str(folder) if a == "FOLDER" else a for a in arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert len(captured.err.splitlines()) == 1


def test_an_unexpected_failure_is_one_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: list[str]) -> int:
        raise RuntimeError("boom\nbang")

    monkeypatch.setattr("crucible.cli.app.run", fail)
    assert main([]) == 2
    assert "unexpected RuntimeError: boom bang" in capsys.readouterr().err


def test_an_interrupt_ends_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("crucible.cli.app.run", interrupt)
    assert main([]) == 130
