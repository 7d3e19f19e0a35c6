"""What the SQL environments share: their tools, their counters and how an answer is graded."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from crucible.canonical import canonical_text
from crucible.digests import state_digest
from crucible.env import JSON, Action, Environment, Observation, StepResult
from crucible.envs.sqldb import LockedDatabase, QueryResult, StatementError
from crucible.envs.sqlgrading import grade_rows, is_correct, score_of

__all__ = ["QueryEnvironment", "QuerySession", "Question", "Rules", "Variant"]

MAX_OPS = 1_000_000
WRONG_REWARD = -0.1
EXPLORE_REWARD = -0.01
_SHOWN_ROWS = 30

Variant = tuple[LockedDatabase, Sequence[Sequence[Any]]]
"""Other data for the same schema, and the rows that a right statement returns there."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what decides whether a statement answers it.

    ``check_sql``, where given, is run after the agent's statement, and its rows are graded.
    ``variants`` gives other databases on which the statement must be right as well.
    """

    expected_rows: Sequence[Sequence[Any]]
    ordered: bool = True
    must_read: bool = False
    rubric: Mapping[str, float] | None = None
    check_sql: str | None = None
    variants: Callable[[], Sequence[Variant]] = field(default=lambda: ())


@dataclass(frozen=True, slots=True)
class Rules:
    """What an agent may do: with ``submit`` queries explore and only submissions are graded."""

    submit: bool = False
    write: bool = False
    max_attempts: int | None = None
    max_ops: int = MAX_OPS


class QuerySession:
    """One episode over one database."""

    def __init__(self, database: LockedDatabase, question: Question, *, rules: Rules) -> None:
        self.database, self.question, self.rules = database, question, rules
        self.num_attempts = 0
        self.solved = False
        self.best_score = self._start_score = self._initial_score()

    def act(self, action: Action) -> StepResult:
        """What ``action`` led to: text is a query, an object names its tool."""
        match action:
            case {"tool": "describe", "table": str(table)} if self._describes:
                return self._explored(lambda: self._description(table))
            case {"tool": "submit", "sql": str(sql)} if self.rules.submit:
                return self._graded(sql)
            case str() | bool() | int() | float() | None:
                sql = action if isinstance(action, str) else canonical_text(action)
                if self.rules.submit:
                    return self._explored(lambda: _observation(self._query(sql), columns=True))
                return self._graded(sql)
        return self._failed("expected a statement or a call of one of the tools")

    def digest(self, domain: str, *, hidden: str) -> str:
        """The digest of the database's content, the counters, and what else is ``hidden``."""
        counters = canonical_text([self.num_attempts, self.best_score, self.solved])
        return state_digest(domain, self.database.content_digest(), counters, hidden)

    @property
    def _describes(self) -> bool:
        return self.rules.submit or self.rules.write

    def _query(self, sql: str) -> QueryResult:
        return self.database.query(sql, max_ops=self.rules.max_ops)

    def _description(self, table: str) -> JSON:
        quoted = '"' + table.replace('"', '""') + '"'
        sql = self.database.describe(table)
        count = self._query(f"SELECT count(*) FROM {quoted}").rows[0][0]
        return {"table": table, "sql": sql, "num_rows": count}

    def _explored(self, look: Callable[[], JSON]) -> StepResult:
        info = {"attempts": self.num_attempts}
        try:
            return StepResult(look(), EXPLORE_REWARD, done=False, info=info)
        except StatementError as error:
            return StepResult({"error": str(error)}, EXPLORE_REWARD * 2, done=False, info=info)

    def _graded(self, sql: str) -> StepResult:
        run = self.database.write if self.rules.write else self.database.query
        try:
            result = run(sql, max_ops=self.rules.max_ops)
            rows, note = self._graded_rows(sql, result)
        except StatementError as error:
            return self._failed(str(error))
        self.num_attempts += 1
        question = self.question
        self.solved = note is None and is_correct(
            rows, question.expected_rows, ordered=question.ordered
        )
        info: JSON = {"correct": self.solved, "attempts": self.num_attempts}
        reward = self._reward(rows if note is None else [], info)
        observation = _observation(result, columns=self.rules.submit)
        if self.rules.submit:
            observation["correct"] = self.solved
        if self.rules.write:
            observation["num_changed"] = result.num_changed
        if note:
            observation["note"] = note
        return StepResult(observation, reward, done=self.solved or self._exhausted, info=info)

    def _failed(self, error: str) -> StepResult:
        self.num_attempts += 1
        self.solved = False
        info = {"error": error, "attempts": self.num_attempts}
        return StepResult({"error": error}, WRONG_REWARD, done=self._exhausted, info=info)

    @property
    def _exhausted(self) -> bool:
        limit = self.rules.max_attempts
        return limit is not None and self.num_attempts >= limit

    def _graded_rows(self, sql: str, result: QueryResult) -> tuple[list[list[Any]], str | None]:
        """The rows to grade, and why they earn nothing where that is so."""
        question = self.question
        if question.check_sql is not None:
            return self.database.query(question.check_sql).rows, None
        if question.must_read and not result.reads:
            return result.rows, "the answer must be computed from the tables"
        right = is_correct(result.rows, question.expected_rows, ordered=question.ordered)
        if right and not all(self._holds(sql, variant) for variant in question.variants()):
            return result.rows, "the statement gives wrong rows on other data"
        return result.rows, None

    def _holds(self, sql: str, variant: Variant) -> bool:
        database, expected = variant
        try:
            rows = database.query(sql, max_ops=self.rules.max_ops).rows
        except StatementError:
            return False
        return is_correct(rows, expected, ordered=self.question.ordered)

    def _initial_score(self) -> float:
        """What the database scores as built, which no statement gets credit for."""
        question = self.question
        if question.rubric is None or question.check_sql is None:
            return 0.0
        rows = self.database.query(question.check_sql).rows
        grade = grade_rows(rows, question.expected_rows, ordered=question.ordered)
        return min(score_of(grade, question.rubric), 0.95)

    def _reward(self, rows: Sequence[Sequence[Any]], info: JSON) -> float:
        """The reward of a graded statement.

        With a rubric, a statement earns what it adds to the best score so far, so that the
        credit of an episode sums to 1.0 and repeating a half-right answer earns nothing.
        """
        question = self.question
        if question.rubric is None:
            return 1.0 if self.solved else WRONG_REWARD
        grade = grade_rows(rows, question.expected_rows, ordered=question.ordered)
        score = score_of(grade, question.rubric)
        info["rubric"], info["score"] = grade.to_dict(), score
        gain = max(0.0, score - self.best_score) / (1.0 - self._start_score)
        self.best_score = max(self.best_score, score)
        cost = EXPLORE_REWARD if self.rules.write else WRONG_REWARD
        return round(gain if self.solved else gain + cost, 4)


class QueryEnvironment(Environment):
    """The base of ``sql-task`` and ``sql-synth``; subclasses open the session in ``reset``."""

    toolchain_needs: ClassVar[tuple[str, ...]] = ("sqlite",)
    max_steps = 20

    _rules: Rules = Rules()
    _session: QuerySession | None = None
    _hidden: str = ""

    @abstractmethod
    def kwargs(self) -> dict[str, Any]: ...

    def step(self, action: Action) -> StepResult:
        if self._session is None:
            self.reset(0)
        assert self._session is not None
        return self._session.act(action)

    def digest(self) -> str:
        if self._session is None:
            return state_digest(self.env_id, "not reset")
        return self._session.digest(self.env_id, hidden=self._hidden)

    def success(self) -> bool:
        return self._session is not None and self._session.solved

    def tools(self) -> list[JSON]:
        rules = self._rules
        verb = "Run one SQLite statement" if rules.write else "Run one SQLite SELECT"
        graded = "" if rules.submit or rules.write else " Its rows are your answer."
        tools = [_tool("query", f"{verb} and see its rows.{graded}", argument="sql")]
        if rules.submit or rules.write:
            tools.append(_tool("describe", "See the columns of a table.", argument="table"))
        if rules.submit:
            tools.append(
                _tool("submit", "Hand in the SELECT that answers the task.", argument="sql")
            )
        return tools

    def action_from_call(self, name: str, arguments: JSON) -> Action:
        return arguments["sql"] if name == "query" else {"tool": name, **arguments}

    def call_from_action(self, action: Action) -> tuple[str, JSON]:
        if isinstance(action, dict) and isinstance(action.get("tool"), str):
            return action["tool"], {k: v for k, v in action.items() if k != "tool"}
        return "query", {"sql": action}

    def action_from_text(self, text: str) -> Action | None:
        """The SQL of ``text``: its first fenced block, or all of it where it begins as SQL.

        Where answers are submitted, it is a submission.
        """
        fenced = re.search(r"```(?:sql|sqlite)?[ \t]*\n(.*?)```", text, re.DOTALL | re.IGNORECASE)
        sql = (fenced.group(1) if fenced else text).strip()
        if not sql or not (fenced or _SQL_START.match(sql)):
            return None
        return {"tool": "submit", "sql": sql} if self._rules.submit else sql

    def render(self, observation: Observation) -> str:
        match observation:
            case {"task": str(task), "schema": str(schema)}:
                return f"{task}\n\n{schema}"
            case {"error": str(error)}:
                return f"Error: {error}"
            case {"sql": str(sql), "num_rows": count}:
                return f"{sql}\n-- {count} rows"
            case {"rows": list(rows)}:
                return _rendered_rows(observation, rows)
        return super().render(observation)


_SQL_START = re.compile(r"(?i)(select|with|values|insert|update|delete|replace)\b")


def _tool(name: str, description: str, *, argument: str) -> JSON:
    text = "One SQLite statement." if argument == "sql" else "The table's name."
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": text}},
        "required": [argument],
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _observation(result: QueryResult, *, columns: bool) -> JSON:
    observation: JSON = {"rows": result.rows}
    if columns:
        observation["columns"] = list(result.columns)
    return observation


def _rendered_rows(observation: JSON, rows: list[Any]) -> str:
    lines = [" | ".join(observation["columns"])] if "columns" in observation else []
    for row in rows[:_SHOWN_ROWS]:
        lines.append(" | ".join(v if isinstance(v, str) else canonical_text(v) for v in row))
    if len(rows) > _SHOWN_ROWS:
        lines.append(f"… {len(rows) - _SHOWN_ROWS} more rows")
    if not rows:
        lines.append("(no rows)")
    if "num_changed" in observation:
        lines.append(f"({observation['num_changed']} rows changed)")
    if observation.get("correct") is False:
        lines.append("This is not the answer.")
    if "note" in observation:
        lines.append(f"Note: {observation['note']}.")
    return "\n".join(lines)
