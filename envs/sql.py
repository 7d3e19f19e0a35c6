"""A task over a real SQLite database, graded by the rows that come back."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

from crucible.env import JSON, Action, Observation
from crucible.envs.canaries import sql_canaries, sql_write_canaries
from crucible.envs.querying import (
    MAX_OPS,
    QueryEnvironment,
    QuerySession,
    Question,
    Rules,
    Variant,
)
from crucible.envs.sqldb import IdleDatabases, LockedDatabase
from crucible.envs.sqlgrading import RUBRIC
from crucible.registry import register

__all__ = ["SQLTaskEnv", "SQLTaskOptions"]

_IDLE = IdleDatabases(16)
_ROWS_SCHEMA = {"type": "array", "items": {"type": "array"}}
_TEXT = {"type": "string"}


class SQLTaskOptions(TypedDict, total=False):
    """The keyword arguments of :class:`SQLTaskEnv` beside the task itself.

    ordered: whether the rows must come in the order of ``expected_rows`` (default True).
    mode: ``read``, or ``write`` to let statements insert, update and delete; then
        ``check_sql`` is graded after each (default ``read``).
    check_sql: the query whose rows must equal ``expected_rows`` in a ``write`` task.
    rubric: the weights of partial credit (:data:`crucible.envs.sqlgrading.RUBRIC`), or None
        for +1.0 and -0.1 alone (default).
    must_read: whether rows that no table was read for earn nothing (default False).
    variants: other data for the same schema, ``{"seed_sql", "expected_rows"}`` each, on which
        a right statement must hold too, so that rows written as literals earn nothing.
    submit: whether queries only explore and ``submit`` is graded (default False).
    max_attempts: graded statements after which the episode ends unsolved (default None).
    schema: ``full``, or ``names`` to show the names of the tables only (default ``full``).
    max_ops: the budget of a statement in SQLite virtual machine operations.
    """

    ordered: bool
    mode: str
    check_sql: str | None
    rubric: Mapping[str, float] | None
    must_read: bool
    variants: Sequence[Mapping[str, Any]]
    submit: bool
    max_attempts: int | None
    schema: str
    max_ops: int


_DEFAULTS: SQLTaskOptions = {
    "ordered": True,
    "mode": "read",
    "check_sql": None,
    "rubric": None,
    "must_read": False,
    "variants": [],
    "submit": False,
    "max_attempts": None,
    "schema": "full",
    "max_ops": MAX_OPS,
}


@register("sql-task")
class SQLTaskEnv(QueryEnvironment):
    """Answer a question about a database with SQL, or change it as asked.

    The agent's statement is text. With the four arguments alone, ``+1.0`` ends the episode when
    the statement returns ``expected_rows``; anything else gives ``-0.1`` and another try.

    Args:
        schema_sql: the script that creates the tables.
        seed_sql: the script that fills them.
        task: what is asked, in words.
        expected_rows: the rows of a right answer.
        options: see :class:`SQLTaskOptions`.

    Raises:
        ValueError: if the options contradict each other.
    """

    env_version: ClassVar[str] = "1"
    seeded: ClassVar[bool] = False
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "schema_sql": _TEXT,
            "seed_sql": _TEXT,
            "task": _TEXT,
            "expected_rows": _ROWS_SCHEMA,
            "ordered": {"type": "boolean"},
            "mode": {"type": "string", "enum": ["read", "write"]},
            "check_sql": {"type": ["string", "null"]},
            "rubric": {
                "type": ["object", "null"],
                "properties": {p: {"type": "number", "minimum": 0, "maximum": 1} for p in RUBRIC},
                "additionalProperties": False,
            },
            "must_read": {"type": "boolean"},
            "variants": {
                "type": "array",
                "maxItems": 8,
                "items": {
                    "type": "object",
                    "properties": {"seed_sql": _TEXT, "expected_rows": _ROWS_SCHEMA},
                    "required": ["seed_sql", "expected_rows"],
                    "additionalProperties": False,
                },
            },
            "submit": {"type": "boolean"},
            "max_attempts": {"type": ["integer", "null"], "minimum": 1},
            "schema": {"type": "string", "enum": ["full", "names"]},
            "max_ops": {"type": "integer", "minimum": 1000, "maximum": 5_000_000},
        },
        "required": ["schema_sql", "seed_sql", "task", "expected_rows"],
        "additionalProperties": False,
    }
    system_prompt: ClassVar[str | None] = (
        "You solve tasks on an SQLite database by calling the tools. Each call holds exactly one "
        "SQL statement. Return only the columns asked for, in the order asked for."
    )

    def __init__(
        self,
        schema_sql: str,
        seed_sql: str,
        task: str,
        expected_rows: list[list[Any]],
        **options: Unpack[SQLTaskOptions],
    ) -> None:
        unknown = set(options) - set(_DEFAULTS)
        if unknown:
            raise TypeError(f"sql-task has no option {min(unknown)!r}")
        self.schema_sql, self.seed_sql, self.task = schema_sql, seed_sql, task
        self.expected_rows = expected_rows
        self._options: SQLTaskOptions = {**_DEFAULTS, **options}
        self._rules = _rules(self._options)
        self._template: LockedDatabase | None = None
        self._database: LockedDatabase | None = None
        self._variants: list[Variant] | None = None

    def canaries(self) -> dict[str, list[Action]]:
        if self._rules.write:
            return sql_write_canaries()
        return sql_canaries(self.expected_rows, self.schema_sql, submit=self._rules.submit)

    def reset(self, seed: int) -> Observation:
        """The task and the schema, over a database as it was built.

        Raises:
            PolicyError: if the scripts ask for something that is not allowed.
            EpisodeError: if the scripts fail.
        """
        self._session = QuerySession(self._fresh_database(), self._question(), rules=self._rules)
        return {"task": self.task, "schema": self._shown_schema()}

    def kwargs(self) -> dict[str, Any]:
        given = {
            "schema_sql": self.schema_sql,
            "seed_sql": self.seed_sql,
            "task": self.task,
            "expected_rows": self.expected_rows,
        }
        return copy.deepcopy({**given, **self._options})

    def close(self) -> None:
        if self._template is not None:
            _IDLE.give_back(self._template, self.schema_sql, self.seed_sql)
        if self._database is not None:
            self._database.close()
        for (database, _), variant in zip(
            self._variants or (), self._options["variants"], strict=False
        ):
            _IDLE.give_back(database, self.schema_sql, variant["seed_sql"])
        self._template = self._database = self._variants = self._session = None

    def _fresh_database(self) -> LockedDatabase:
        """The database as built: the same one while statements cannot change it."""
        if self._template is None:
            self._template = _IDLE.take(self.schema_sql, self.seed_sql)
            self._template.content_digest()
        if not self._rules.write:
            return self._template
        if self._database is None:
            self._database = self._template.copy()
        elif self._database.content_digest() != self._template.content_digest():
            self._database.restore(self._template)
        return self._database

    def _question(self) -> Question:
        options = self._options
        return Question(
            self.expected_rows,
            ordered=options["ordered"],
            must_read=options["must_read"],
            rubric=options["rubric"],
            check_sql=options["check_sql"],
            variants=self._built_variants,
        )

    def _built_variants(self) -> list[Variant]:
        if self._variants is None:
            self._variants = [
                (_IDLE.take(self.schema_sql, v["seed_sql"]), v["expected_rows"])
                for v in self._options["variants"]
            ]
        return self._variants

    def _shown_schema(self) -> str:
        if self._options["schema"] == "full" or self._template is None:
            return self.schema_sql
        return f"Tables: {', '.join(self._template.tables())}"


def _rules(options: SQLTaskOptions) -> Rules:
    write = options["mode"] == "write"
    if write != (options["check_sql"] is not None):
        raise ValueError("check_sql goes with mode 'write', and mode 'write' needs it")
    if write and (options["submit"] or options["variants"] or options["must_read"]):
        raise ValueError("submit, variants and must_read go with mode 'read' only")
    return Rules(
        submit=options["submit"],
        write=write,
        max_attempts=options["max_attempts"],
        max_ops=options["max_ops"],
    )
