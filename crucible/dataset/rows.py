"""Reading the Parquet files of a dataset: one row after another, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from crucible.dataset.files import is_regular
from crucible.dataset.pages import Chunk, pages_of, row_groups_of
from crucible.dataset.schema import schema_of
from crucible.errors import FormatError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["PLAIN_ENCODINGS", "open_parquet", "read_rows", "rows_of"]

MAX_GROUP_BYTES = 80 * 1024 * 1024
MAX_GROUP_VALUES = 1 << 21
MAX_STEPS = 100_000
PLAIN_ENCODINGS = frozenset({0, 3})
"""``PLAIN`` and ``RLE`` of the format's ``Encoding``."""
BATCH_ROWS = 256
BATCH_STEPS = 50_000


def read_rows(
    path: Path, config: str, *, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a shard, some rows in memory at a time; only some columns where asked.

    Raises:
        FormatError: if the file is not Parquet, has another schema, or holds more in a row or row
            group than format 1 allows.
    """
    with open_parquet(path, encodings=PLAIN_ENCODINGS) as (file, num_groups):
        if not file.schema_arrow.equals(schema_of(config), check_metadata=True):
            raise FormatError(f"{path.name}: the columns are not those of {config}")
        for index in range(num_groups):
            for batch in file.iter_batches(
                batch_size=BATCH_ROWS, row_groups=[index], columns=columns
            ):
                yield from rows_of(batch, path.name)


@contextmanager
def open_parquet(
    path: Path, *, encodings: frozenset[int], **options: Any
) -> Iterator[tuple[pq.ParquetFile, int]]:
    """The reader of a file that was measured, and its number of row groups; whatever goes wrong
    inside is a malformed file.

    In the encodings of :data:`PLAIN_ENCODINGS` values are as large as they are decoded.

    Raises:
        FormatError: if the file is not Parquet, cannot be decoded, needs more than a row group may
            hold, or has another encoding than ``encodings``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_regular(path):
        raise FormatError(f"{path.name} is not an ordinary file")
    try:
        with path.open("rb") as raw:
            groups = row_groups_of(raw)
            for group in groups:
                _check_group(raw, group, encodings)
            with pq.ParquetFile(raw, **options) as file:
                if file.num_row_groups != len(groups):
                    raise FormatError("its footer is read in two ways")
                yield file, len(groups)
    except FormatError as error:
        raise FormatError(f"{path.name}: {str(error).removeprefix(f'{path.name}: ')}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise FormatError(f"{path.name} cannot be read as Parquet: {error}") from None


def _check_group(raw: BinaryIO, group: list[Chunk], encodings: frozenset[int]) -> None:
    """Refuse a row group before it is decoded, if it would be larger than it may be."""
    total = 0
    for chunk in group:
        values = 0
        for page in pages_of(raw, chunk):
            total += page.uncompressed
            values += page.values
            if page.encoding not in encodings:
                raise FormatError(f"column {chunk.column} is not in plain encoding")
            if total > MAX_GROUP_BYTES or values > MAX_GROUP_VALUES:
                raise FormatError(
                    f"column {chunk.column} needs more than a row group may hold "
                    f"({MAX_GROUP_BYTES} bytes, {MAX_GROUP_VALUES} values)"
                )


def rows_of(batch: pa.RecordBatch, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a batch as Python objects, few steps at a time.

    Raises:
        FormatError: if an episode has too many steps.
    """
    import pyarrow.compute as pc

    if "steps" not in batch.schema.names:
        yield from batch.to_pylist()
        return
    lengths = pc.list_value_length(batch.column("steps"))
    longest, total = pc.max(lengths).as_py() or 0, pc.sum(lengths).as_py() or 0
    if longest > MAX_STEPS:
        raise FormatError(f"{name}: an episode has {longest} steps, at most {MAX_STEPS}")
    if total <= BATCH_STEPS:
        yield from batch.to_pylist()
        return
    for index in range(batch.num_rows):
        yield from batch.slice(index, 1).to_pylist()
