"""What SQL may do: an allow-list of actions and functions, and the budget of a statement.

The authorizer sees a statement while it is compiled. It does not see functions in a column's
DEFAULT, so every built-in function that is not allowed is also replaced by one that refuses.
"""

from __future__ import annotations

import enum
import functools
import sqlite3
import time
from collections.abc import Callable
from typing import Any

__all__ = ["ALLOWED_FUNCTIONS", "Phase", "StatementGuard"]

OPS_PER_CALL = 100
"""Virtual machine operations between two looks at the budget."""
MAX_SECONDS = 10.0
"""The wall-clock limit of a statement: a safety net, never a recorded outcome."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ALLOWED_FUNCTIONS = frozenset(
    _words("""
    abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank
    first_value floor glob group_concat hex ifnull iif instr json json_array json_array_length
    json_extract json_group_array json_group_object json_object json_type json_valid julianday
    lag last_value lead length like likelihood likely lower ltrim max min mod nth_value ntile
    nullif octet_length percent_rank quote rank replace round row_number rtrim sign sqrt strftime
    string_agg substr substring sum time total trim typeof unicode unixepoch unlikely upper
    -> ->>
    """)
)
"""Functions whose value depends on their arguments and the SQLite version alone."""

_DATE_FUNCTIONS = {
    "date": 1,
    "datetime": 1,
    "julianday": 1,
    "strftime": 2,
    "time": 1,
    "unixepoch": 1,
}
"""Date functions and the fewest arguments with which they do not read the clock."""
_CLOCK_WORDS = ("now", "localtime", "utc")

_ACTIONS = _words(
    "CREATE_INDEX CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE CREATE_TEMP_TRIGGER "
    "CREATE_TEMP_VIEW CREATE_TRIGGER CREATE_VIEW DELETE DROP_INDEX DROP_TABLE DROP_TEMP_INDEX "
    "DROP_TEMP_TABLE DROP_TEMP_TRIGGER DROP_TEMP_VIEW DROP_TRIGGER DROP_VIEW INSERT PRAGMA READ "
    "SELECT TRANSACTION UPDATE ATTACH DETACH ALTER_TABLE REINDEX ANALYZE CREATE_VTABLE "
    "DROP_VTABLE FUNCTION SAVEPOINT RECURSIVE"
)
_NAMES = {getattr(sqlite3, f"SQLITE_{name}"): name for name in _ACTIONS}
_CODES = {name: code for code, name in _NAMES.items()}


def _codes(names: str) -> frozenset[int]:
    return frozenset(_CODES[name] for name in _words(names))


class Phase(enum.Enum):
    """Who runs SQL: each phase has its own allow-list."""

    SETUP = "setup"
    READ = "read"
    WRITE = "write"
    INTERNAL = "internal"


_READS = "SELECT READ FUNCTION RECURSIVE"
_WRITES = f"{_READS} INSERT UPDATE DELETE"
_ALLOWED = {
    Phase.READ: _codes(_READS),
    Phase.WRITE: _codes(_WRITES),
    Phase.SETUP: _codes(
        f"{_WRITES} TRANSACTION REINDEX CREATE_INDEX CREATE_TABLE CREATE_TRIGGER CREATE_VIEW "
        "DROP_INDEX DROP_TABLE DROP_TRIGGER DROP_VIEW"
    ),
}
_READ, _FUNCTION = _CODES["READ"], _CODES["FUNCTION"]
_CREATES = _codes("CREATE_TABLE CREATE_VIEW")
_ROW_WRITES = _codes("INSERT UPDATE DELETE")
_CATALOG = frozenset({"sqlite_master", "sqlite_schema", "sqlite_sequence"})


class StatementGuard:
    """The authorizer and the progress handler of one connection.

    It refers to no connection but a private one, so that the connection it guards is freed as
    soon as its owner is.
    """

    def __init__(self) -> None:
        self.phase = Phase.INTERNAL
        self.reads: set[str] = set()
        self.refusal: str | None = None
        self.exceeded: str | None = None
        self._known = set(_CATALOG)
        self._calls_left = 0
        self._deadline = 0.0
        self._calendar: sqlite3.Connection | None = None

    def install(self, connection: sqlite3.Connection) -> None:
        """Guard ``connection`` from now on."""
        for name in _builtin_functions() - ALLOWED_FUNCTIONS:
            connection.create_function(name, -1, functools.partial(self._refuse_function, name))
        for name in _DATE_FUNCTIONS:
            connection.create_function(name, -1, self._dated(name), deterministic=True)
        connection.set_authorizer(self.authorize)
        connection.set_progress_handler(self.progress, OPS_PER_CALL)

    def start(self, phase: Phase, *, max_ops: int) -> None:
        """Begin a statement: forget the last one and refill the budget."""
        self.phase = phase
        self.reads = set()
        self.refusal = self.exceeded = None
        self._calls_left = max_ops // OPS_PER_CALL
        self._deadline = time.monotonic() + MAX_SECONDS

    def know(self, tables: list[str]) -> None:
        """Allow reading ``tables``, which exist in a database that was copied."""
        self._known |= {name.lower() for name in tables}

    def close(self) -> None:
        """Release the private connection."""
        if self._calendar is not None:
            self._calendar.close()
            self._calendar = None

    def authorize(self, action: int, first: str | None, *context: str | None) -> int:
        """SQLite's authorizer: OK for what the phase allows, else DENY."""
        if self.phase is Phase.INTERNAL:
            return sqlite3.SQLITE_OK
        second = context[0]
        if action not in _ALLOWED[self.phase]:
            return self._deny(_NAMES.get(action, f"action {action}"))
        if action in _CREATES and first is not None:
            self._known.add(first.lower())
        elif action == _READ:
            return self._authorize_read((first or "").lower(), second)
        elif action in _ROW_WRITES and self.phase is Phase.WRITE and first in _CATALOG:
            return self._deny(f"writing {first}")
        elif action == _FUNCTION and (second or "").lower() not in ALLOWED_FUNCTIONS:
            return self._deny(f"function {second}")
        return sqlite3.SQLITE_OK

    def _authorize_read(self, table: str, column: str | None) -> int:
        if table in self._known:
            if table not in _CATALOG:
                self.reads.add(table)
        elif column:  # count(*) over a subquery or WITH reports a table without a column
            return self._deny(f"reading {table}")
        return sqlite3.SQLITE_OK

    def progress(self) -> int:
        """SQLite's progress handler: non-zero ends the statement."""
        self._calls_left -= 1
        if self._calls_left < 0:
            self.exceeded = "ops"
        elif time.monotonic() > self._deadline:
            self.exceeded = "time"
        return int(self.exceeded is not None and self.phase is not Phase.INTERNAL)

    def _deny(self, what: str) -> int:
        self.refusal = self.refusal or what
        return sqlite3.SQLITE_DENY

    def _refuse_function(self, name: str, *arguments: Any) -> None:
        self.refusal = self.refusal or f"function {name}"
        raise ValueError(name)

    def _dated(self, name: str) -> Callable[..., Any]:
        """The date function ``name`` without the clock and the time zone of this machine."""

        def call(*arguments: Any) -> Any:
            if len(arguments) < _DATE_FUNCTIONS[name] or any(map(_reads_clock, arguments)):
                self.refusal = self.refusal or f"{name}() without an explicit date"
                raise ValueError(name)
            if self._calendar is None:
                self._calendar = sqlite3.connect(":memory:", check_same_thread=False)
            marks = ",".join("?" * len(arguments))
            return self._calendar.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

        return call


def _reads_clock(argument: Any) -> bool:
    if isinstance(argument, str):
        lowered = argument.lower()
        return any(word in lowered for word in _CLOCK_WORDS)
    return isinstance(argument, bytes)


@functools.cache
def _builtin_functions() -> frozenset[str]:
    connection = sqlite3.connect(":memory:")
    try:
        listed = connection.execute("SELECT DISTINCT lower(name) FROM pragma_function_list")
        return frozenset(name for (name,) in listed)
    finally:
        connection.close()
