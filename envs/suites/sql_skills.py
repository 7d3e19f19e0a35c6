"""The suite ``sql-skills``: hand-written SQL tasks, from one SELECT to changes in several steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crucible.envs.sqlgrading import RUBRIC
from crucible.suites import Suite, SuiteWorld

__all__ = ["suite"]

_STAFF = (
    "CREATE TABLE employees (name TEXT PRIMARY KEY, department TEXT NOT NULL, "
    "salary INTEGER NOT NULL);"
)
_STAFF_ROWS = (
    "INSERT INTO employees VALUES ('Mara', 'Labs', 72000), ('Otto', 'Labs', 64000), "
    "('Priya', 'Sales', 58000), ('Ravi', 'Sales', 81000), ('Sofia', 'Ops', 49000), "
    "('Timo', 'Labs', 69000), ('Ulla', 'Sales', 52000);"
)
_OTHER_STAFF_ROWS = (
    "INSERT INTO employees VALUES ('Anouk', 'Ops', 41000), ('Boris', 'Ops', 45000), "
    "('Chloe', 'Ops', 43000), ('Dario', 'Labs', 90000), ('Elif', 'Sales', 70000), "
    "('Femke', 'Sales', 30000), ('Goran', 'Ops', 40000);"
)
_FORUM = (
    "CREATE TABLE people (id INTEGER PRIMARY KEY, handle TEXT, joined TEXT);"
    "CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER, reply_to INTEGER, words INTEGER);"
    "CREATE TABLE votes (post INTEGER, voter INTEGER, value INTEGER);"
)
_FORUM_ROWS = (
    "INSERT INTO people VALUES (1, 'kestrel', '2021-02-01'), (2, 'otter', '2021-05-09'), "
    "(3, 'lynx', '2022-01-20'), (4, 'heron', '2022-08-14');"
    "INSERT INTO posts VALUES (10, 1, NULL, 120), (11, 2, 10, 45), (12, 1, 11, 60), "
    "(13, 3, 10, 200), (14, 2, NULL, 80), (15, 3, 14, 30);"
    "INSERT INTO votes VALUES (10, 2, 1), (10, 3, 1), (11, 1, -1), (12, 3, 1), (13, 1, 1), "
    "(13, 2, -1), (14, 3, 1), (14, 1, 1), (15, 2, 1);"
)
_OTHER_FORUM_ROWS = (
    "INSERT INTO people VALUES (1, 'badger', '2020-03-03'), (2, 'finch', '2020-04-04'), "
    "(3, 'mole', '2020-05-05');"
    "INSERT INTO posts VALUES (1, 3, NULL, 10), (2, 3, 1, 20), (3, 2, 1, 30), (4, 2, 3, 40), "
    "(5, 1, NULL, 50);"
    "INSERT INTO votes VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1), (4, 3, 1), (5, 2, -1);"
)
_BANK = (
    "CREATE TABLE accounts (owner TEXT PRIMARY KEY, balance INTEGER CHECK (balance >= 0));"
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY, source TEXT, target TEXT, amount INTEGER);"
    "INSERT INTO accounts VALUES ('ines', 500), ('jon', 120), ('kim', 0);"
)
_STOCK = (
    "CREATE TABLE items (id INTEGER PRIMARY KEY, sku TEXT, quantity INTEGER);"
    "CREATE TABLE archive (sku TEXT, quantity INTEGER);"
    "INSERT INTO items VALUES (1, 'bolt', 40), (2, 'BOLT', 5), (3, 'nut', 0), (4, 'cog', 7), "
    "(5, 'pin', 0);"
)

_SECOND = "SELECT name FROM employees ORDER BY salary DESC LIMIT 1 OFFSET 1"
_PAYROLL = "SELECT department, SUM(salary) FROM employees GROUP BY department ORDER BY department"
_LARGE = (
    "SELECT department, COUNT(*) FROM employees GROUP BY department HAVING COUNT(*) >= 3 "
    "ORDER BY department"
)
_ABOVE = (
    "SELECT name, salary FROM employees WHERE salary > (SELECT AVG(salary) FROM employees) "
    "ORDER BY salary DESC"
)
_VOTES = (
    "SELECT p.handle, SUM(v.value) AS score FROM people p JOIN posts t ON t.author = p.id "
    "JOIN votes v ON v.post = t.id GROUP BY p.id ORDER BY score DESC, p.handle"
)
_REPLIED = (
    "SELECT DISTINCT p.handle FROM people p JOIN posts a ON a.author = p.id "
    "JOIN posts b ON b.id = a.reply_to WHERE b.author <> a.author ORDER BY p.handle"
)


def _staff(name: str, task: str, *, actions: tuple[str, str], rows: tuple[Any, Any]) -> SuiteWorld:
    """One SELECT over the employees; every attempt is graded."""
    right, wrong = actions
    kwargs = {
        "schema_sql": _STAFF,
        "seed_sql": _STAFF_ROWS,
        "task": task,
        "expected_rows": rows[0],
        "rubric": dict(RUBRIC),
        "must_read": True,
        "variants": [{"seed_sql": _OTHER_STAFF_ROWS, "expected_rows": rows[1]}],
        "max_attempts": 5,
    }
    return _world(name, kwargs, actions=([right], [wrong]))


def _forum(name: str, task: str, *, actions: tuple[str, str], rows: tuple[Any, Any]) -> SuiteWorld:
    """A question over tables that have to be looked up first; submissions are graded."""
    right, wrong = actions
    kwargs = {
        "schema_sql": _FORUM,
        "seed_sql": _FORUM_ROWS,
        "task": task,
        "expected_rows": rows[0],
        "rubric": dict(RUBRIC),
        "must_read": True,
        "variants": [{"seed_sql": _OTHER_FORUM_ROWS, "expected_rows": rows[1]}],
        "submit": True,
        "schema": "names",
        "max_attempts": 3,
    }
    looks: list[Any] = [{"tool": "describe", "table": t} for t in ("people", "posts")]
    oracle = [*looks, right, {"tool": "submit", "sql": right}]
    return _world(name, kwargs, actions=(oracle, [*looks, {"tool": "submit", "sql": wrong}]))


def _change(
    name: str,
    task: str,
    *,
    sql: tuple[str, str],
    actions: tuple[list[Any], list[Any]],
    expected_rows: list[list[Any]],
) -> SuiteWorld:
    """A change of the database, one statement at a time; ``sql`` builds and checks it."""
    kwargs = {
        "schema_sql": sql[0],
        "seed_sql": "",
        "task": task,
        "mode": "write",
        "check_sql": sql[1],
        "rubric": dict(RUBRIC),
        "max_attempts": 12,
        "expected_rows": expected_rows,
    }
    return _world(name, kwargs, actions=actions)


def _world(
    name: str, kwargs: dict[str, Any], *, actions: tuple[Sequence[Any], Sequence[Any]]
) -> SuiteWorld:
    return SuiteWorld(
        name, "sql-task", kwargs, oracle=lambda seed: actions[0], wrong=lambda seed: actions[1]
    )


_WORLDS = (
    _staff(
        "second-highest",
        "The name of the employee with the second highest salary.",
        actions=(_SECOND, "SELECT name FROM employees ORDER BY salary DESC LIMIT 1"),
        rows=([["Mara"]], [["Elif"]]),
    ),
    _staff(
        "payroll",
        "For each department, alphabetically: its name and the sum of its salaries.",
        actions=(_PAYROLL, _PAYROLL.replace("SUM", "MAX")),
        rows=(
            [["Labs", 205000], ["Ops", 49000], ["Sales", 191000]],
            [["Labs", 90000], ["Ops", 169000], ["Sales", 100000]],
        ),
    ),
    _staff(
        "large-departments",
        "The departments with at least three employees, alphabetically: name and head count.",
        actions=(_LARGE, _LARGE.replace(">= 3", "> 3")),
        rows=([["Labs", 3], ["Sales", 3]], [["Ops", 4]]),
    ),
    _staff(
        "above-average",
        "Name and salary of those who earn more than the average, highest salary first.",
        actions=(_ABOVE, _ABOVE.replace("AVG", "MIN")),
        rows=(
            [["Ravi", 81000], ["Mara", 72000], ["Timo", 69000], ["Otto", 64000]],
            [["Dario", 90000], ["Elif", 70000]],
        ),
    ),
    _forum(
        "votes-per-author",
        "For each author of a post with votes: the handle and the sum of the votes on all their "
        "posts, highest first, ties by handle.",
        actions=(_VOTES, _VOTES.replace("SUM(v.value)", "COUNT(*)")),
        rows=(
            [["kestrel", 3], ["lynx", 1], ["otter", 1]],
            [["finch", 3], ["mole", 2], ["badger", -1]],
        ),
    ),
    _forum(
        "replied-to-others",
        "The handles of those who replied to a post of somebody else, each once, alphabetically.",
        actions=(
            _REPLIED,
            _REPLIED.replace(" JOIN posts b ON b.id = a.reply_to WHERE b.author", " WHERE 0"),
        ),
        rows=([["kestrel"], ["lynx"], ["otter"]], [["finch"]]),
    ),
    _change(
        "transfer",
        "Move 150 from ines to kim, and write one ledger row with id 1 for it: source, target and "
        "amount.",
        sql=(
            _BANK,
            "SELECT owner, balance, NULL FROM accounts UNION ALL "
            "SELECT source, target, amount FROM ledger ORDER BY 1, 2",
        ),
        actions=(
            [
                "UPDATE accounts SET balance = balance - 150 WHERE owner = 'ines'",
                "UPDATE accounts SET balance = balance + 150 WHERE owner = 'kim'",
                "INSERT INTO ledger VALUES (1, 'ines', 'kim', 150)",
            ],
            [
                "UPDATE accounts SET balance = balance - 150 WHERE owner = 'ines'",
                "UPDATE accounts SET balance = balance + 150",
                "INSERT INTO ledger VALUES (1, 'ines', 'kim', 150)",
            ],
        ),
        expected_rows=[
            ["ines", 350, None],
            ["ines", "kim", 150],
            ["jon", 120, None],
            ["kim", 150, None],
        ],
    ),
    _change(
        "tidy-stock",
        "Add the quantity of 'BOLT' to 'bolt' and delete 'BOLT'; then move the items with "
        "quantity 0 from items to archive.",
        sql=(
            _STOCK,
            "SELECT 'items', sku, quantity FROM items UNION ALL "
            "SELECT 'archive', sku, quantity FROM archive ORDER BY 1, 2",
        ),
        actions=(
            [
                "UPDATE items SET quantity = quantity + 5 WHERE sku = 'bolt'",
                "DELETE FROM items WHERE sku = 'BOLT'",
                "INSERT INTO archive SELECT sku, quantity FROM items WHERE quantity = 0",
                "DELETE FROM items WHERE quantity = 0",
            ],
            [
                "DELETE FROM items WHERE sku = 'BOLT'",
                "INSERT INTO archive SELECT sku, quantity FROM items WHERE quantity = 0",
                "DELETE FROM items WHERE quantity = 0",
            ],
        ),
        expected_rows=[
            ["archive", "nut", 0],
            ["archive", "pin", 0],
            ["items", "bolt", 45],
            ["items", "cog", 7],
        ],
    ),
)

suite = Suite(
    name="sql-skills",
    version="1",
    description="SQL tasks from one SELECT to exploring, joining and changing a database.",
    worlds=_WORLDS,
)
