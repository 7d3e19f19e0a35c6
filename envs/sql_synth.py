"""SQL questions that a seed makes up: schema, data, wording and the right rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from crucible.canonical import canonical_text
from crucible.env import JSON, Action, Observation
from crucible.envs.canaries import sql_canaries
from crucible.envs.querying import QueryEnvironment, QuerySession, Question, Rules, Variant
from crucible.envs.sqldb import IdleDatabases, LockedDatabase
from crucible.envs.sqlgrading import RUBRIC, is_correct
from crucible.envs.sqlschemas import SCHEMAS, Draw, fill_sql
from crucible.envs.sqltemplates import GROUPS, TEMPLATES, Template
from crucible.errors import EpisodeError
from crucible.registry import register

__all__ = ["Problem", "SQLSynthEnv", "make_problem"]

_MAX_DRAWS = 200
_IDLE = IdleDatabases(16)


@dataclass(frozen=True, slots=True)
class Problem:
    """One question: ``sql`` answers it, ``wrong`` looks as if it did."""

    template: Template
    task: str
    sql: str
    wrong: str
    seed_sql: str
    expected_rows: list[list[Any]]
    labels: tuple[str, ...]

    def oracle(self) -> list[Action]:
        """The actions of somebody who looks first, tries, and then hands in."""
        looks: list[Action] = [
            {"tool": "describe", "table": table}
            for table in self.template.tables
            if self.template.explore
        ]
        return [*looks, self.sql, {"tool": "submit", "sql": self.sql}]

    def mistake(self) -> list[Action]:
        """The actions of somebody who hands in the wrong statement as often as allowed."""
        return [self.wrong, *[{"tool": "submit", "sql": self.wrong}] * 10]


@register("sql-synth")
class SQLSynthEnv(QueryEnvironment):
    """Answer a made-up question about made-up data, differently for every seed.

    ``query`` and ``describe`` explore at a small cost; ``submit`` is graded, with partial
    credit, and must hold on other data of the same schema too.

    Args:
        templates: names of templates or groups; one template of them is drawn by the seed.
        max_attempts: the submissions after which the episode ends unsolved.

    Raises:
        ValueError: if a name is unknown or there is none.
    """

    env_version: ClassVar[str] = "1"
    seeded: ClassVar[bool] = True
    kwargs_schema: ClassVar[JSON | None] = {
        "type": "object",
        "properties": {
            "templates": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "max_attempts": {"type": "integer", "minimum": 1, "maximum": 10},
        },
        "additionalProperties": False,
    }
    system_prompt: ClassVar[str | None] = (
        "You answer questions about an SQLite database. Use describe to see a table's columns and "
        "query to try a SELECT. When the rows are right, call submit with that SELECT. Return "
        "only the columns asked for, in the order asked for."
    )

    def __init__(self, templates: Sequence[str] = tuple(GROUPS), max_attempts: int = 3) -> None:
        self.templates = list(templates)
        self.max_attempts = max_attempts
        _chosen(tuple(self.templates))
        self._rules = Rules(submit=True, max_attempts=max_attempts)
        self._problem: Problem | None = None
        self._database: LockedDatabase | None = None
        self._variants: list[Variant] = []

    def reset(self, seed: int) -> Observation:
        self.close()
        problem = self._problem = make_problem(tuple(self.templates), seed)
        schema = SCHEMAS[problem.template.schema]
        self._database = _IDLE.take(schema.sql, problem.seed_sql)
        self._hidden = canonical_text([problem.template.name, problem.sql])
        question = Question(
            problem.expected_rows,
            must_read=True,
            rubric=RUBRIC,
            variants=functools.partial(self._other_data, problem),
        )
        self._session = QuerySession(self._database, question, rules=self._rules)
        shown = schema.sql
        if problem.template.explore:
            shown = f"Tables: {', '.join(sorted(schema.tables))}"
        return {"task": problem.task, "schema": shown}

    def canaries(self) -> dict[str, list[Action]]:
        if self._problem is None:
            return {}
        schema = SCHEMAS[self._problem.template.schema]
        return sql_canaries(self._problem.expected_rows, schema.sql, submit=True)

    def kwargs(self) -> dict[str, Any]:
        return {"templates": list(self.templates), "max_attempts": self.max_attempts}

    def close(self) -> None:
        if self._problem is not None and self._database is not None:
            schema = SCHEMAS[self._problem.template.schema]
            _IDLE.give_back(self._database, schema.sql, self._problem.seed_sql)
        for database, _ in self._variants:
            database.close()
        self._session = self._database = None
        self._variants = []

    def _other_data(self, problem: Problem) -> list[Variant]:
        """Data on which the rows differ, so that rows written as literals are wrong there."""
        schema = SCHEMAS[problem.template.schema]
        for number in range(0 if self._variants else _MAX_DRAWS):
            rows = schema.fill(Draw(*problem.labels, "other", number))
            database = LockedDatabase.build(schema.sql, fill_sql(rows))
            expected = database.query(problem.sql).rows
            if expected and not is_correct(expected, problem.expected_rows, ordered=True):
                self._variants = [(database, expected)]
                break
            database.close()
        return self._variants


@functools.lru_cache(maxsize=256)
def make_problem(templates: tuple[str, ...], seed: int) -> Problem:
    """The problem that ``seed`` draws from ``templates``.

    Data and holes are drawn until the right statement returns rows and the wrong one others.
    """
    chosen = _chosen(templates)
    labels = (",".join(template.name for template in chosen), str(seed))
    template = Draw(*labels, "template").pick(chosen)
    schema = SCHEMAS[template.schema]
    for number in range(_MAX_DRAWS):
        draw = Draw(*labels, template.name, number)
        holes = {name: draw.pick(list(options)) for name, options in template.choices.items()}
        sql, wrong = _filled(template.sql, holes), _filled(template.wrong, holes)
        seed_sql = fill_sql(schema.fill(draw))
        database = LockedDatabase.build(schema.sql, seed_sql)
        try:
            rows = database.query(sql).rows
            if rows and not is_correct(database.query(wrong).rows, rows, ordered=True):
                task = _filled(template.ask, holes)
                return Problem(template, task, sql, wrong, seed_sql, rows, labels)
        finally:
            _IDLE.give_back(database, schema.sql, seed_sql)
    raise EpisodeError(f"sql-synth: template {template.name} has no problem for seed {seed}")


def _filled(text: str, holes: dict[str, str | int]) -> str:
    for name, value in holes.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def _chosen(names: tuple[str, ...]) -> list[Template]:
    unknown = sorted(set(names) - set(GROUPS) - set(TEMPLATES))
    if unknown or not names:
        raise ValueError(f"templates: no template or group {unknown[0] if unknown else ''!r}")
    return [t for t in TEMPLATES.values() if t.name in names or t.group in names]
