from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from tampering import data_path
from walking import RecordWalks

from crucible.cli import main
from crucible.dataset.loose import find_loose_files, read_loose_rows
from crucible.dataset.rows import read_rows
from crucible.errors import FormatError, TargetNotFoundError
from crucible.verification import verify_dataset


def copied(folder: Path, out: Path, change: Callable[[Any], Any] = lambda table: table) -> Path:
    """What ``datasets`` writes of a dataset: no manifest, its own schema and encodings."""
    change(load_dataset(str(folder), split="train")).to_parquet(str(out / "train" / "0000.parquet"))
    worlds = load_dataset(str(folder), "worlds", split="worlds")
    worlds.to_parquet(str(out / "worlds" / "0000.parquet"))
    return out


def test_a_copy_without_a_manifest_has_the_same_rows(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    folder = record_walks()
    copy = copied(folder, tmp_path / "copy", lambda table: table.add_column("mine", [1] * 5))
    files = find_loose_files(copy)
    assert [path.name for path in files.trajectories] == ["0000.parquet"]
    assert files.unchecked == ("mine",)
    rows = list(read_loose_rows(files.trajectories[0], "trajectories"))
    assert rows == list(read_rows(data_path(folder), "trajectories"))


def test_its_rows_are_verified_and_its_completeness_is_unknown(
    record_walks: RecordWalks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copied(record_walks(), tmp_path / "copy", lambda table: table.select(range(3)))
    report = verify_dataset(copy, workers=1)
    assert report.counts["reproduced"] == report.num_rows == 3
    assert (report.completeness, report.root, report.exit_code) == ("unknown", None, 3)
    assert main(["verify", str(copy), "--workers", "1"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("ROWS REPRODUCED, COMPLETENESS UNKNOWN: 3 of 3 rows reproduced (3 ")


def test_an_edited_row_is_tampered_and_named(record_walks: RecordWalks, tmp_path: Path) -> None:
    def edit(row: dict[str, Any]) -> dict[str, Any]:
        if row["seed"] == 2:
            row["steps"][1]["reward"] = 7.0
        return row

    copy = copied(record_walks(), tmp_path / "copy", lambda table: table.map(edit))
    report = verify_dataset(copy, workers=1)
    assert (report.counts["tampered"], report.counts["reproduced"]) == (1, 4)
    assert report.verdicts[2].mismatches[0].field == "reward"
    assert report.exit_code == 1


def test_without_worlds_nothing_can_be_re_run(record_walks: RecordWalks, tmp_path: Path) -> None:
    copy = copied(record_walks(), tmp_path / "copy")
    (copy / "worlds" / "0000.parquet").unlink()
    report = verify_dataset(copy, workers=1)
    assert report.counts["unverifiable"] == 5
    assert report.exit_code == 3


def test_other_parquet_files_are_no_dataset(tmp_path: Path) -> None:
    pq.write_table(pa.table({"steps": [1]}), tmp_path / "other.parquet")
    (tmp_path / "not.parquet").write_bytes(b"PAR1")
    with pytest.raises(TargetNotFoundError, match="neither"):
        verify_dataset(tmp_path)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_a_column_is_measured_before_it_is_decoded(
    record_walks: RecordWalks, tmp_path: Path, text: pa.DataType
) -> None:
    table = pq.read_table(data_path(record_walks(seeds=(range(60),))))
    index = table.schema.get_field_index("provenance")
    value = pa.array(['{"a":"' + "x" * (2 << 20) + '"}'], text)
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 60, pa.int32()), value).cast(text)
    path = tmp_path / "bomb.parquet"
    pq.write_table(table.set_column(index, "provenance", column), path, compression="zstd")
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    rows = read_loose_rows(path, "trajectories")
    next(rows)
    assert pa.total_allocated_bytes() - before < 32 << 20
    assert len(list(rows)) == 59


def test_a_dictionary_that_expands_beyond_a_row_is_refused(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    folder = record_walks()
    rows = list(read_rows(data_path(folder), "trajectories"))
    step = {**rows[0]["steps"][0], "info": '"' + "a" * (1 << 20) + '"'}
    rows[0]["steps"] = [step] * 100
    path = tmp_path / "bomb.parquet"
    schema = pq.read_schema(data_path(folder))
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")
    assert path.stat().st_size < 100_000
    with pytest.raises(FormatError, match="a row holds more than"):
        list(read_loose_rows(path, "trajectories"))


@pytest.mark.parametrize("name", ["seed", "steps"])
def test_a_column_of_another_type_is_refused(
    record_walks: RecordWalks, tmp_path: Path, name: str
) -> None:
    table = pq.read_table(data_path(record_walks()))
    index = table.schema.get_field_index(name)
    other = pa.array(["x"] * table.num_rows)
    pq.write_table(table.set_column(index, name, other), tmp_path / "other.parquet")
    with pytest.raises(FormatError, match=f"column {name} is not of type"):
        list(read_loose_rows(tmp_path / "other.parquet", "trajectories"))
    with pytest.raises(FormatError, match="holds no row that can be read"):
        verify_dataset(tmp_path, workers=1)


def test_a_copy_by_pandas_is_no_lie_and_a_broken_file_is_left_out(
    record_walks: RecordWalks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    (tmp_path / "copy").mkdir()
    for config, name in (("trajectories", "train"), ("worlds", "worlds")):
        frame = load_dataset(str(folder), config, split=name).to_pandas()
        frame.to_parquet(tmp_path / "copy" / f"{name}.parquet")
    (tmp_path / "copy" / "broken.parquet").write_bytes(b"PAR1 but no more")
    report = verify_dataset(tmp_path / "copy", workers=1)
    assert report.counts["reproduced"] == report.num_rows == 5
    assert [file.where for file in report.skipped] == ["broken.parquet"]
    assert report.exit_code == 3
    assert main(["verify", str(tmp_path / "copy"), "--workers", "1"]) == 3
    assert "left out: broken.parquet: it cannot be read" in capsys.readouterr().out
