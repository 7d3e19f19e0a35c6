"""Files whose footer lies about what decoding them needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tampering import data_path
from walking import RecordWalks

from crucible.dataset.pages import MAX_HEADER_BYTES, Chunk, pages_of, row_groups_of
from crucible.dataset.rows import read_rows
from crucible.dataset.schema import trajectory_schema
from crucible.errors import FormatError


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    options = {"use_dictionary": False, "store_schema": False, "compression": "zstd"} | options
    pq.write_table(table, path, **options)
    return path


def test_pages_are_those_that_the_writer_wrote(record_walks: RecordWalks) -> None:
    path = data_path(record_walks(seeds=(range(50),)))
    group = pq.read_metadata(path).row_group(0)
    with path.open("rb") as file:
        (chunks,) = row_groups_of(file)
        assert len(chunks) == group.num_columns
        for index, chunk in enumerate(chunks):
            expected = group.column(index)
            assert chunk.column == expected.path_in_schema
            pages = list(pages_of(file, chunk))
            assert sum(page.values for page in pages) == expected.num_values
            uncompressed = sum(page.uncompressed for page in pages)
            assert 0 < uncompressed <= expected.total_uncompressed_size
            assert {page.encoding for page in pages} <= {0, 3}
            with pytest.raises(FormatError):
                list(pages_of(file, replace(chunk, length=chunk.length - 1)))


def test_a_dictionary_is_found_where_it_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["a", "b"] * 500}), tmp_path / "x")
    with (tmp_path / "x").open("rb") as file:
        ((chunk,),) = row_groups_of(file)
        first, *others = pages_of(file, chunk)
    assert first.is_dictionary and first.values == 2
    assert others and not any(page.is_dictionary for page in others)
    assert {page.encoding for page in others} == {8}


def varint(number: int, *, width: int) -> bytes:
    """A Thrift integer in exactly ``width`` bytes."""
    zigzag = number * 2
    groups = [(zigzag >> 7 * i) & 0x7F for i in range(width)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def test_a_footer_that_understates_a_page_does_not_help(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    rows = pq.read_table(data_path(record_walks())).to_pylist()
    rows[0]["final_observation"] = '"' + "a" * (150 << 20) + '"'
    path = write(tmp_path / "x", pa.Table.from_pylist(rows, schema=trajectory_schema()))
    group = pq.read_metadata(path).row_group(0)
    names = [group.column(i).path_in_schema for i in range(group.num_columns)]
    column = names.index("final_observation")
    size = group.column(column).total_uncompressed_size
    data = path.read_bytes()
    assert varint(size, width=5) in data
    path.write_bytes(data.replace(varint(size, width=5), varint(1, width=5)))
    assert pq.read_metadata(path).row_group(0).column(column).total_uncompressed_size == 1
    with pytest.raises(FormatError, match="needs more than a row group may hold"):
        next(read_rows(path, "trajectories"))


def test_a_list_of_ten_million_nulls_is_refused_before_it_is_read(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    table = pq.read_table(data_path(record_walks(seeds=(range(1),))))
    kind = trajectory_schema().field("steps").type
    steps = pa.ListArray.from_arrays([0, 10_000_000], pa.nulls(10_000_000, kind.value_type))
    index = table.schema.get_field_index("steps")
    table = table.set_column(index, trajectory_schema().field("steps"), steps.cast(kind))
    path = write(tmp_path / "x", table)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(FormatError, match="needs more than a row group may hold"):
        next(read_rows(path, "trajectories"))


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_an_encoding_that_repeats_prefixes_is_refused(
    record_walks: RecordWalks, tmp_path: Path, encoding: str
) -> None:
    table = pq.read_table(data_path(record_walks()))
    path = write(tmp_path / "x", table, column_encoding={"error": encoding})
    with pytest.raises(FormatError, match="not in plain encoding"):
        next(read_rows(path, "trajectories"))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x15",
        b"\x15" + b"\xff" * 12,
        b"\x1c" * 40,
        b"\x18\xff\xff\xff\xff\x0f",
        b"\x19\xfc\xff\xff\xff\xff\x0f" + b"\x00" * 10,
        b"\x1d\x00",
        b"\x15\x00\x15\x02\x15\x01\x2c\x15\x02\x15\x00\x00\x00",
        b"\x15\x00\x15\x02\x15\x02\x00",
        b"\x15\x02\x15\x02\x15\x02\x00",
        bytes(MAX_HEADER_BYTES),
    ],
)
def test_a_malformed_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(header)
    with path.open("rb") as file, pytest.raises(FormatError):
        list(pages_of(file, Chunk("x", 0, len(header) or 1)))
    footer = header + len(header).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(b"PAR1" + footer)
    with path.open("rb") as file, pytest.raises(FormatError):
        row_groups_of(file)


def test_statistics_that_contradict_the_schema_do_not_end_the_process(
    record_walks: RecordWalks, tmp_path: Path
) -> None:
    """pyarrow aborts where it is asked for the metadata of such a column."""
    honest = data_path(record_walks()).read_bytes()
    length = int.from_bytes(honest[-8:-4], "little")
    footer = honest[-8 - length : -8]
    two_levels = footer.index(b"\x19\x26")
    one_level = footer[:two_levels] + b"\x19\x16" + footer[two_levels + 3 :]
    tail = len(one_level).to_bytes(4, "little") + b"PAR1"
    path = tmp_path / "x"
    path.write_bytes(honest[: -8 - length] + one_level + tail)
    code = "from pathlib import Path; from crucible.dataset.rows import read_rows;"
    code += f"list(read_rows(Path({str(path)!r}), 'trajectories'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "FormatError: x cannot be read as Parquet: Definition level" in done.stderr
