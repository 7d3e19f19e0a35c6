"""An SQLite database in memory that runs other people's SQL without trusting it."""

from __future__ import annotations

import math
import sqlite3
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from crucible.digests import state_digest
from crucible.envs.sqlguard import Phase, StatementGuard
from crucible.errors import CrucibleError, EpisodeError, PolicyError

__all__ = ["IdleDatabases", "LockedDatabase", "QueryResult", "StatementError"]

MAX_ROWS = 10_000
MAX_RESULT_BYTES = 1024 * 1024
MAX_STATEMENT_BYTES = 64 * 1024
SETUP_OPS = 20_000_000
CHECK_OPS = 5_000_000

_HEAP_BYTES = 512 * 1024 * 1024  # of all connections of the process: SQLite has no other kind
_MAX_PAGES = 16_384
_SETUP_LENGTH = 1024 * 1024
_SETUP_SQL_LENGTH = 4 * 1024 * 1024
_STATEMENT_LENGTH = 256 * 1024
# A value of 1 MiB lets one instr() run for seven seconds, and no handler is called inside it.
_LIMITS = {
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_EXPLAINED = (
    ("addr", "opcode", "p1", "p2", "p3", "p4", "p5", "comment"),
    ("id", "parent", "notused", "detail"),
)
_FAILURES = (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError)


class StatementError(CrucibleError):
    """A statement that failed or was refused; the message is what the agent is told."""


class _RawText(bytes):
    """Text that is not valid UTF-8."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a statement returned, in canonical values.

    ``reads`` names the tables of the database that the statement referred to, and
    ``num_changed`` counts the rows that it wrote.
    """

    columns: tuple[str, ...]
    rows: list[list[Any]]
    reads: frozenset[str] = frozenset()
    num_changed: int = 0


class LockedDatabase:
    """A database built by a script, in which statements read or write within limits."""

    def __init__(self) -> None:
        self._guard = StatementGuard()
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=0, check_same_thread=False
        )
        for pragma in (
            f"hard_heap_limit={_HEAP_BYTES}",
            f"max_page_count={_MAX_PAGES}",
            "temp_store=MEMORY",
            "mmap_size=0",
            "cell_size_check=ON",
        ):
            self._connection.execute(f"PRAGMA {pragma}").close()
        for category, limit in _LIMITS.items():
            self._connection.setlimit(category, limit)
        self._connection.text_factory = _decoded
        self._guard.install(self._connection)
        self._set_lengths(_STATEMENT_LENGTH, MAX_STATEMENT_BYTES)
        self._content: str | None = None

    @classmethod
    def build(cls, *scripts: str) -> LockedDatabase:
        """The database that ``scripts``, run in order, create and fill.

        Raises:
            PolicyError: if a script asks for something that is not allowed.
            EpisodeError: if a script fails.
        """
        database = cls()
        for script in scripts:
            database._run_script(script)
        return database

    def copy(self) -> LockedDatabase:
        """A database with the same content that changes on its own."""
        target = type(self)()
        target.restore(self)
        return target

    def restore(self, source: LockedDatabase) -> None:
        """Make the content equal to that of ``source``."""
        self._guard.phase = source._guard.phase = Phase.INTERNAL
        source._connection.backup(self._connection)
        self._guard.know(source._names())
        self._content = source._content

    def query(self, sql: str, *, max_ops: int = CHECK_OPS) -> QueryResult:
        """The result of one read-only statement.

        Raises:
            StatementError: if it fails, writes, or exceeds a limit.
            EpisodeError: if it exceeds the wall-clock limit, which is no outcome to record.
        """
        self._start(sql, phase=Phase.READ, max_ops=max_ops)
        try:
            return self._fetched(sql)
        except _FAILURES as error:
            raise self._explained(error) from None

    def write(self, sql: str, *, max_ops: int = CHECK_OPS) -> QueryResult:
        """The result of one statement that may insert, update and delete, all or nothing.

        Raises:
            StatementError: if it fails, changes the schema, or exceeds a limit.
            EpisodeError: if it exceeds the wall-clock limit.
        """
        before = self._connection.total_changes
        self._internal("BEGIN")
        self._start(sql, phase=Phase.WRITE, max_ops=max_ops)
        try:
            result = self._fetched(sql)
        except StatementError:
            self._roll_back()
            raise
        except _FAILURES as error:
            self._roll_back()
            raise self._explained(error) from None
        num_changed = self._connection.total_changes - before
        self._internal("COMMIT")
        if num_changed:
            self._content = None
        return replace(result, num_changed=num_changed)

    def tables(self) -> list[str]:
        """The names of the tables and views, sorted."""
        return sorted(name for name in self._names() if not name.startswith("sqlite_"))

    def describe(self, table: str) -> str:
        """The statement that created ``table``.

        Raises:
            StatementError: if there is no table or view of that name.
        """
        for name, sql in self._internal("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"):
            if str(name).lower() == table.lower():
                return str(sql)
        raise StatementError(f"no such table: {table}")

    def content_digest(self) -> str:
        """The digest of the schema and all rows; computed again only after a write."""
        if self._content is None:
            self._set_lengths(_SETUP_LENGTH, _SETUP_SQL_LENGTH)
            parts = self._content_parts()
            self._set_lengths(_STATEMENT_LENGTH, MAX_STATEMENT_BYTES)
            self._content = state_digest("sqlite", *parts)
        return self._content

    def close(self) -> None:
        """Release the memory; the database cannot be used any more."""
        self._guard.close()
        self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def _run_script(self, script: str) -> None:
        self._set_lengths(_SETUP_LENGTH, _SETUP_SQL_LENGTH)
        self._guard.start(Phase.SETUP, max_ops=SETUP_OPS)
        try:
            self._connection.executescript(script).close()
        except _FAILURES as error:
            failure = self._explained(error)
            kind = PolicyError if self._guard.refusal else EpisodeError
            raise kind(f"the script that builds the database: {failure}") from None
        if self._connection.in_transaction:
            self._internal("COMMIT")
        self._set_lengths(_STATEMENT_LENGTH, MAX_STATEMENT_BYTES)

    def _start(self, sql: str, *, phase: Phase, max_ops: int) -> None:
        self._guard.start(phase, max_ops=max_ops)
        try:
            num_bytes = len(sql.encode())
        except UnicodeEncodeError:
            num_bytes = MAX_STATEMENT_BYTES + 1
        if num_bytes > MAX_STATEMENT_BYTES:
            if self._connection.in_transaction:
                self._roll_back()
            raise StatementError(f"statement is longer than {MAX_STATEMENT_BYTES} bytes of UTF-8")

    def _fetched(self, sql: str) -> QueryResult:
        cursor = self._connection.execute(sql)
        try:
            columns = tuple(column[0] for column in cursor.description or ())
            if columns in _EXPLAINED:
                raise StatementError("EXPLAIN is not allowed")
            rows: list[list[Any]] = []
            size = 0
            for row in cursor:
                values = [_value(value) for value in row]
                size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in values)
                if len(rows) >= MAX_ROWS or size > MAX_RESULT_BYTES:
                    raise StatementError(
                        f"result is larger than {MAX_ROWS} rows or {MAX_RESULT_BYTES} bytes"
                    )
                rows.append(values)
            return QueryResult(columns, rows, frozenset(self._guard.reads))
        finally:
            cursor.close()

    def _explained(self, error: Exception) -> StatementError:
        """What the agent is told: SQLite's own words, ours where Python's would differ."""
        guard = self._guard
        if guard.exceeded == "time":
            raise EpisodeError("a statement exceeded the wall-clock limit")
        if guard.exceeded:
            return StatementError("statement exceeded its operation budget")
        if guard.refusal:
            return StatementError(f"not authorized: {guard.refusal}")
        if isinstance(error, MemoryError):
            return StatementError("statement exceeded the memory limit")
        if "one statement at a time" in str(error):
            return StatementError("expected one statement, found several")
        if isinstance(error, sqlite3.ProgrammingError) or not isinstance(error, sqlite3.Error):
            return StatementError("statement has parameters or characters that are not supported")
        return StatementError(str(error))

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._internal("ROLLBACK")

    def _internal(self, sql: str) -> list[tuple[Any, ...]]:
        self._guard.phase = Phase.INTERNAL
        cursor = self._connection.execute(sql)
        try:
            return cast("list[tuple[Any, ...]]", cursor.fetchall())
        finally:
            cursor.close()

    def _names(self) -> list[str]:
        found = self._internal("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return [str(name) for (name,) in found]

    def _set_lengths(self, length: int, sql_length: int) -> None:
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, sql_length)

    def _content_parts(self) -> list[bytes]:
        schema = self._internal("SELECT type, name, tbl_name, sql FROM sqlite_master")
        parts = sorted(_encoded_row(row) for row in schema)
        tables = self._internal("SELECT name FROM sqlite_master WHERE type = 'table'")
        for name in sorted(str(name) for (name,) in tables):
            rows = self._table_rows(name)
            parts += [name.encode(), str(len(rows)).encode(), *rows]
        return parts

    def _table_rows(self, table: str) -> Sequence[bytes]:
        quoted = '"' + table.replace('"', '""') + '"'
        for rowid in ("rowid", "_rowid_", "oid"):
            try:
                rows = self._internal(f"SELECT t.{rowid}, * FROM {quoted} t ORDER BY t.{rowid}")
            except sqlite3.OperationalError:
                continue
            return [_encoded_row(row) for row in rows]
        return sorted(_encoded_row(row) for row in self._internal(f"SELECT * FROM {quoted}"))


class IdleDatabases:
    """Databases that were only read and may be read again: building one costs more than an
    episode. A database is in use by one owner at a time.
    """

    def __init__(self, max_databases: int) -> None:
        self._max_databases = max_databases
        self._idle: dict[tuple[str, ...], LockedDatabase] = {}
        self._lock = threading.Lock()

    def take(self, *scripts: str) -> LockedDatabase:
        """An idle database that ``scripts`` built, or a new one."""
        with self._lock:
            database = self._idle.pop(scripts, None)
        return database or LockedDatabase.build(*scripts)

    def give_back(self, database: LockedDatabase, *scripts: str) -> None:
        """Keep ``database``, which nobody wrote to, for the next one who wants ``scripts``."""
        with self._lock:
            displaced = self._idle.pop(scripts, None)
            self._idle[scripts] = database
            if displaced is None and len(self._idle) > self._max_databases:
                displaced = self._idle.pop(next(iter(self._idle)))
        if displaced is not None:
            displaced.close()


def _decoded(data: bytes) -> str | _RawText:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _RawText(data)


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise StatementError(f"result holds {value}, which is not a finite number")
    return bytes(value) if isinstance(value, _RawText) else value


def _encoded_row(row: Sequence[Any]) -> bytes:
    return b"".join(map(_encoded, row))


def _encoded(value: Any) -> bytes:
    """``value`` with its storage class and length, so that no two rows encode alike."""
    match value:
        case None:
            return b"n"
        case int():
            tag, data = b"i", str(value).encode()
        case float():
            tag, data = b"f", struct.pack(">d", value)
        case str():
            tag, data = b"t", value.encode()
        case _RawText():
            tag, data = b"t", bytes(value)
        case _:
            tag, data = b"b", bytes(value)
    return tag + len(data).to_bytes(8, "big") + data
