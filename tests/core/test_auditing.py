from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from walking import RecordWalks

from crucible import integrity
from crucible.auditing import audit_dataset
from crucible.claims import CLAIMS, RECORDED_ONLY
from crucible.cli import main
from crucible.dataset.schema import trajectory_schema
from crucible.errors import PolicyError
from crucible.mutations import mutations_of


def leaves_of(schema: pa.Schema) -> set[str]:
    found = set()
    for field in schema:
        found.add(field.name)
        nested = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(nested):
            found |= {f"{field.name}.{child.name}" for child in nested}
    return found - {"agent"}


def test_every_stored_field_has_a_label() -> None:
    assert set(CLAIMS) == leaves_of(trajectory_schema())


def test_every_field_is_edited_in_several_ways(record_walks: RecordWalks) -> None:
    report = audit_dataset(record_walks(), sample=1)
    for name, audit in report.fields.items():
        assert audit.left.total() == audit.recomputed.total() >= 1, name
    assert sum(audit.left.total() for audit in report.fields.values()) == report.num_edits > 80


def test_an_honest_environment_binds_everything_it_should(record_walks: RecordWalks) -> None:
    report = audit_dataset(record_walks(attempts=2), sample=2)
    assert report.unbound == []
    assert report.exit_code == 0
    for name, audit in report.fields.items():
        assert audit.left["nothing"] == 0, name
        if CLAIMS[name] == RECORDED_ONLY:
            assert audit.recomputed[RECORDED_ONLY] > 0, name
    assert report.fields["steps.reward"].recomputed["replay"] > 0
    assert report.fields["total_reward"].recomputed["recomputation"] > 0


def test_an_environment_that_ignores_its_seed_has_equivalent_edits(
    record_walks: RecordWalks,
) -> None:
    report = audit_dataset(record_walks(world="walking:Still"), sample=1)
    assert report.fields["seed"].recomputed["equivalent"] > 0
    assert report.fields["seed"].example is not None
    assert report.unbound == []


@pytest.mark.parametrize(("check", "unbound"), [("_lie_in", "suite"), ("_check_plans", "attempt")])
def test_a_check_that_is_missing_shows(
    record_walks: RecordWalks, monkeypatch: pytest.MonkeyPatch, check: str, unbound: str
) -> None:
    folder = record_walks()
    monkeypatch.setattr(integrity, check, lambda *arguments, **options: None)
    report = audit_dataset(folder, sample=1)
    assert unbound in report.unbound
    assert report.exit_code == 1


def test_a_dataset_that_does_not_verify_cannot_be_audited(record_walks: RecordWalks) -> None:
    with pytest.raises(PolicyError, match="does not verify as it is"):
        audit_dataset(record_walks(world="walking:Moody"))


def test_the_command_prints_a_table_or_an_object(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(record_walks())
    assert main(["audit", folder, "--sample", "1"]) == 0
    out = capsys.readouterr().out
    assert "every field is bound, except those that are recorded-only" in out
    assert main(["audit", folder, "--sample", "1", "--json"]) == 0
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (body["rows"], body["unbound"]) == (1, [])
    assert main(["audit", "nothing-here"]) == 2


def test_no_edit_leaves_the_row_as_it_was(record_walks: RecordWalks) -> None:
    from tampering import data_path

    from crucible.dataset.rows import read_rows

    rows = list(read_rows(data_path(record_walks()), "trajectories"))
    edits = list(mutations_of(rows[0], rows[1]))
    assert all(repr(edit.row) != repr(rows[0]) for edit in edits)
    assert {edit.field for edit in edits} == set(CLAIMS)
