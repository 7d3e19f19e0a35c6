"""Writing the Parquet files of a dataset."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from crucible.dataset.files import file_sha256, sync_folder
from crucible.dataset.manifest import Shard
from crucible.dataset.schema import schema_of
from crucible.fingerprints import leaf_hash
from crucible.merkle import merkle_root

__all__ = ["ShardWriter", "approximate_bytes"]

ROW_GROUP_BYTES = 32 * 1024 * 1024
ROW_GROUP_ROWS = 4096
SHARD_BYTES = 256 * 1024 * 1024


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
        size = approximate_bytes(row)
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


def approximate_bytes(row: dict[str, Any]) -> int:
    """The size of a row's text and steps, close to its size in memory."""
    total = 0
    for value in row.values():
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, list):
            total += sum(approximate_bytes(v) if isinstance(v, dict) else 8 for v in value)
        else:
            total += 8
    return total
