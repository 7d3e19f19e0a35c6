"""Writing and reading the Parquet files of a dataset."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.dataset.files import file_sha256, is_regular, sync_folder
from crucible.dataset.manifest import Shard
from crucible.dataset.schema import trajectory_schema, world_schema
from crucible.errors import FormatError
from crucible.fingerprints import leaf_hash
from crucible.merkle import merkle_root

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ShardWriter", "read_rows", "schema_of"]

ROW_GROUP_BYTES = 32 * 1024 * 1024
ROW_GROUP_ROWS = 4096
SHARD_BYTES = 256 * 1024 * 1024

MAX_GROUP_BYTES = 128 * 1024 * 1024
MAX_STEPS = 100_000
BATCH_ROWS = 256
BATCH_STEPS = 50_000


def schema_of(config: str) -> pa.Schema:
    """The Arrow schema of ``worlds`` or ``trajectories``."""
    return world_schema() if config == "worlds" else trajectory_schema()


class ShardWriter:
    """Writes rows of one config and split into content-named shards below ``folder``.

    Row groups and shards are bounded by the size of their rows, so that no reader needs more
    memory than a row group. :meth:`close` gives the shards that were written.
    """

    def __init__(self, folder: Path, *, config: str, split: str) -> None:
        self._folder, self._config, self._split = folder, config, split
        self._subfolder = folder / ("worlds" if config == "worlds" else "data")
        self._shards: list[Shard] = []
        self._start_shard()

    def _start_shard(self) -> None:
        self._leaves: list[bytes] = []
        self._pending: list[dict[str, Any]] = []
        self._pending_bytes = 0
        self._shard_bytes = 0
        self._writer: Any = None
        self._temporary: Path | None = None

    def add(self, row: dict[str, Any]) -> None:
        """Append one row that follows the schema of the config."""
        self._leaves.append(leaf_hash(row))
        size = _approximate_bytes(row)
        if self._pending and (
            self._pending_bytes + size > ROW_GROUP_BYTES or len(self._pending) >= ROW_GROUP_ROWS
        ):
            self._flush_group()
        self._pending.append(row)
        self._pending_bytes += size
        self._shard_bytes += size
        if self._shard_bytes >= SHARD_BYTES:
            self._seal()

    def close(self) -> list[Shard]:
        """Seal what is left; every shard written by this writer, in order."""
        if self._leaves:
            self._seal()
        return self._shards

    def discard(self) -> None:
        """Remove the shard that was not sealed."""
        if self._writer is not None:
            self._writer.close()
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
        self._start_shard()

    def _flush_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = schema_of(self._config)
        if self._writer is None:
            self._subfolder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._subfolder, prefix=".", suffix=".tmp")
            os.close(handle)
            self._temporary = Path(name)
            self._writer = pq.ParquetWriter(
                self._temporary,
                schema,
                compression="zstd",
                use_dictionary=False,
                write_page_index=True,
                store_schema=False,
            )
        self._writer.write_table(pa.Table.from_pylist(self._pending, schema=schema))
        self._pending, self._pending_bytes = [], 0

    def _seal(self) -> None:
        self._flush_group()
        self._writer.close()
        assert self._temporary is not None
        with self._temporary.open("rb") as file:
            os.fsync(file.fileno())
        sha256 = file_sha256(self._temporary)
        name = f"{self._split}-{sha256[:16]}.parquet"
        path = self._subfolder / name
        size = self._temporary.stat().st_size
        self._temporary.chmod(0o644)
        os.replace(self._temporary, path)
        sync_folder(self._subfolder)
        shard = Shard(
            config=self._config,
            path=f"{self._subfolder.name}/{name}",
            split=self._split,
            sha256=sha256,
            bytes=size,
            rows=len(self._leaves),
            root=merkle_root(self._leaves).hex(),
        )
        self._shards.append(shard)
        self._start_shard()


def read_rows(
    path: Path, config: str, *, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a shard, some rows in memory at a time; only some columns where asked.

    Raises:
        FormatError: if the file is not Parquet, has another schema, or holds more in a row or row
            group than format 1 allows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not is_regular(path):
        raise FormatError(f"{path.name} is not an ordinary file")
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema_of(config), check_metadata=True):
                raise FormatError(f"{path.name}: the columns are not those of {config}")
            for index in range(file.num_row_groups):
                _check_group(file.metadata.row_group(index), path.name)
                for batch in file.iter_batches(
                    batch_size=BATCH_ROWS, row_groups=[index], columns=columns
                ):
                    yield from _rows_of(batch, path.name)
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise FormatError(f"{path.name} cannot be read as Parquet: {error}") from None


def _check_group(group: Any, name: str) -> None:
    """Refuse a row group before it is decoded, if it would be larger than it may be.

    Without dictionaries the size of the encoded values is that of the decoded ones, so that a
    small file cannot become large in memory.
    """
    total = 0
    for index in range(group.num_columns):
        chunk = group.column(index)
        if not set(chunk.encodings) <= {"PLAIN", "RLE"} or chunk.has_dictionary_page:
            raise FormatError(f"{name}: column {chunk.path_in_schema} is not in plain encoding")
        total += chunk.total_uncompressed_size
    if total > MAX_GROUP_BYTES:
        raise FormatError(f"{name}: a row group holds {total} bytes, at most {MAX_GROUP_BYTES}")


def _rows_of(batch: pa.RecordBatch, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a batch as Python objects, few steps at a time."""
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


def _approximate_bytes(row: dict[str, Any]) -> int:
    """The size of a row's text and steps, close to its size in memory."""
    total = 0
    for value in row.values():
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, list):
            total += sum(_approximate_bytes(v) if isinstance(v, dict) else 8 for v in value)
        else:
            total += 8
    return total
