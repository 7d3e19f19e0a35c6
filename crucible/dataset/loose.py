"""Reading rows where there is no manifest: a conversion by the Hub, a ``map()``\\ ped copy.

Such files were written by somebody else's tool: columns may be in another order, with others
beside them, with metadata and dictionaries. What the rows claim is ours and can be verified;
whether they are all that were recorded cannot.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.dataset.manifest import MANIFEST_PATH
from crucible.dataset.rows import PLAIN_ENCODINGS, open_parquet, rows_of
from crucible.dataset.schema import schema_of
from crucible.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LooseFiles", "find_loose_files", "read_loose_rows"]

MAX_FILES = 10_000
MAX_BATCH_BYTES = 64 * 1024 * 1024
BATCH_ROWS = 64

_ENCODINGS = PLAIN_ENCODINGS | {2, 8}
"""And ``PLAIN_DICTIONARY`` and ``RLE_DICTIONARY``, which are measured after they were read."""


@dataclass(frozen=True, slots=True)
class LooseFiles:
    """Parquet files by what their columns are; ``unchecked`` names columns that are not ours, and
    ``unreadable`` the files that are no Parquet."""

    trajectories: tuple[Path, ...]
    worlds: tuple[Path, ...]
    unchecked: tuple[str, ...]
    unreadable: tuple[Path, ...]


def find_loose_files(folder: Path) -> LooseFiles:
    """The Parquet files below ``folder`` that hold our columns, in the order of their names;
    hidden folders and datasets of their own are left out.

    Raises:
        FormatError: if there are too many files to look at.
    """
    found: dict[str, list[Path]] = {"trajectories": [], "worlds": []}
    unchecked: set[str] = set()
    unreadable: list[Path] = []
    for number, path in enumerate(sorted(_parquet_files(folder))):
        if number >= MAX_FILES:
            raise FormatError(f"{folder}: more than {MAX_FILES} Parquet files and no manifest")
        names = _column_names(path)
        if names is None:
            unreadable.append(path)
            continue
        for config, paths in found.items():
            ours = set(schema_of(config).names)
            if ours <= names:
                paths.append(path)
                unchecked |= names - ours
                break
    return LooseFiles(
        tuple(found["trajectories"]),
        tuple(found["worlds"]),
        tuple(sorted(unchecked)),
        tuple(unreadable),
    )


def read_loose_rows(path: Path, config: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, reduced to the columns of ``config``.

    Raises:
        FormatError: if the file cannot be read, a column has another type than format 1 gives it,
            or a row is too large.
    """
    names = schema_of(config).names
    with open_parquet(path, encodings=_ENCODINGS) as (file, _):
        texts = _text_paths(file.schema_arrow)
    with open_parquet(path, encodings=_ENCODINGS, read_dictionary=texts) as (file, num_groups):
        for field in schema_of(config):
            index = file.schema_arrow.get_all_field_indices(field.name)
            if len(index) != 1 or not _same(file.schema_arrow.field(index[0]).type, field.type):
                raise FormatError(f"{path.name}: column {field.name} is not of type {field.type}")
        for index in range(num_groups):
            for batch in file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[index], columns=names
            ):
                yield from _small_rows(batch, path)


def _parquet_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        folders[:] = [
            name
            for name in folders
            if name[0] != "." and not (here / name / MANIFEST_PATH).exists()
        ]
        yield from (here / name for name in names if name.endswith(".parquet"))


def _column_names(path: Path) -> set[str] | None:
    try:
        with open_parquet(path, encodings=_ENCODINGS) as (file, _):
            return set(file.schema_arrow.names)
    except FormatError:
        return None


def _text_paths(schema: pa.Schema) -> list[str]:
    """The paths of all text columns, as Parquet names them."""
    import pyarrow as pa

    def of(kind: pa.DataType, path: str) -> Iterator[str]:
        if pa.types.is_struct(kind):
            for child in kind:
                yield from of(child.type, f"{path}.{child.name}")
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from of(kind.value_type, f"{path}.list.element")
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            yield path

    return [path for field in schema for path in of(field.type, field.name)]


def _same(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether two types hold the same values, however lists and texts are laid out."""
    import pyarrow as pa

    types = pa.types
    if types.is_null(found):
        return True  # what other tools write for a column without values
    if types.is_integer(expected):
        return bool(types.is_integer(found))
    if types.is_dictionary(found):
        return _same(found.value_type, expected)
    if types.is_string(expected):
        return bool(types.is_string(found) or types.is_large_string(found))
    if types.is_list(expected):
        is_list = types.is_list(found) or types.is_large_list(found)
        return bool(is_list) and _same(found.value_type, expected.value_type)
    if types.is_struct(expected):
        return (
            bool(types.is_struct(found))
            and {f.name for f in found} == {f.name for f in expected}
            and found.num_fields == expected.num_fields
            and all(_same(found.field(f.name).type, f.type) for f in expected)
        )
    return bool(found.equals(expected))


def _small_rows(batch: pa.RecordBatch, path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a batch, each alone where together they would be too large."""
    if sum(_decoded_bytes(column) for column in batch.columns) <= MAX_BATCH_BYTES:
        yield from rows_of(batch, path.name)
        return
    for index in range(batch.num_rows):
        row = batch.slice(index, 1)
        if sum(_decoded_bytes(column) for column in row.columns) > MAX_BATCH_BYTES:
            raise FormatError(f"{path.name}: a row holds more than {MAX_BATCH_BYTES} bytes")
        yield from rows_of(row, path.name)


def _decoded_bytes(array: pa.Array) -> int:
    """The bytes of all texts in ``array`` once each is a value of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        return int(pc.sum(pc.take(lengths, array.indices)).as_py() or 0)
    if types.is_struct(array.type):
        return sum(_decoded_bytes(child) for child in array.flatten())
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _decoded_bytes(array.flatten())
    if types.is_string(array.type) or types.is_large_string(array.type):
        return int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return len(array) * 8
