from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tampering import forge_rows
from walking import RecordWalks

from crucible.cli import main
from crucible.errors import FormatError
from crucible.reports import parse_report, read_report
from crucible.verification import verify_dataset


@pytest.fixture
def body(record_walks: RecordWalks) -> dict[str, Any]:
    """A report with something in every list."""
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][1].update(reward=0.75))
    (folder / "x.py").touch()
    return verify_dataset(folder, workers=1).to_dict()


def test_what_verify_says_is_read_back(body: dict[str, Any], tmp_path: Path) -> None:
    assert body["verdicts"] and body["findings"]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(body))
    assert read_report(path) == body


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda b: b.update(more=1),
    lambda b: b.pop("root"),
    lambda b: b.update(format=2),
    lambda b: b.update(rows=True),
    lambda b: b.update(rows=5.0),
    lambda b: b.update(rows=6),
    lambda b: b["counts"].update(reproduced=5),
    lambda b: b["counts"].update(other=0),
    lambda b: b.update(root="0"),
    lambda b: b.update(exit_code=0),
    lambda b: b.update(exit_code=2),
    lambda b: b["verdicts"].clear(),
    lambda b: b["verdicts"][0].update(status="fine"),
    lambda b: b["verdicts"][0]["mismatches"][0].update(step="1"),
    lambda b: b["findings"][0].pop("where"),
    lambda b: b.update(unanchored={"x": 1}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_report_that_is_off_in_any_way_is_refused(
    body: dict[str, Any], change: Callable[[dict[str, Any]], Any]
) -> None:
    change(body)
    with pytest.raises(FormatError):
        parse_report(json.dumps(body).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"format":1,"format":1}', b"[" * 9999])
def test_bytes_that_are_no_report_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        parse_report(data)


def test_show_lists_reports_as_somebodys_word(
    record_walks: RecordWalks, body: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks("honest")
    reports = folder / "crucible" / "verification"
    reports.mkdir()
    (reports / "mine.json").write_text(json.dumps(verify_dataset(folder, workers=1).to_dict()))
    (reports / "other.json").write_text(json.dumps(body))
    (reports / "wrong.json").write_text("{}")
    assert main(["show", str(folder)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "report mine.json: 5 of 5 rows reproduced (its author's word)" in out
    assert "report other.json: 4 of 5 rows reproduced, of another root than this one" in out
    assert "report wrong.json: at " in out
    assert verify_dataset(folder, workers=1).ok
