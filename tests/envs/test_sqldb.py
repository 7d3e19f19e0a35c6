"""Statements that attack the database, the process or determinism."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from crucible.canonical import canonical_text, parse_text
from crucible.envs.sqldb import IdleDatabases, LockedDatabase, StatementError
from crucible.errors import EpisodeError, PolicyError

SCRIPT = "CREATE TABLE e (n TEXT, s INTEGER); INSERT INTO e VALUES ('a', 1), ('b', 2), ('c', 3);"
ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "


@pytest.fixture
def database() -> LockedDatabase:
    return LockedDatabase.build(SCRIPT)


def refused(database: LockedDatabase, sql: str) -> str:
    with pytest.raises(StatementError) as caught:
        database.query(sql)
    assert database.query("SELECT COUNT(*) FROM e").rows == [[3]]
    return str(caught.value)


@pytest.mark.parametrize("sql", ["ATTACH '{path}' AS x", "VACUUM INTO '{path}'"])
def test_no_statement_writes_a_file(sql: str, database: LockedDatabase, tmp_path: Path) -> None:
    path = tmp_path / "owned.db"
    assert "ATTACH" in refused(database, sql.format(path=path))
    with pytest.raises(PolicyError, match="ATTACH"):
        LockedDatabase.build(SCRIPT, sql.format(path=path))
    with pytest.raises(StatementError):
        database.write(sql.format(path=path))
    assert not path.exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT printf('%.*c', 900000000, 'x')",
        "SELECT format('%.*c', 900000000, 'x')",
        "SELECT zeroblob(900000000)",
        "SELECT hex(zeroblob(900000000))",
        "SELECT randomblob(8)",
        "SELECT random()",
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT sqlite_version()",
        "SELECT changes()",
        "SELECT last_insert_rowid()",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT CURRENT_DATE",
        "SELECT CURRENT_TIME",
        "SELECT sin(1.0)",
        "PRAGMA table_info(e)",
        "PRAGMA writable_schema = ON",
        "SELECT * FROM pragma_table_info('e')",
        "SELECT * FROM dbstat",
        "SELECT * FROM json_each('[1]')",
        "DETACH main",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT s",
        "ANALYZE",
        "UPDATE e SET s = 0",
        "INSERT INTO e VALUES ('d', 4)",
        "DELETE FROM e",
        "DROP TABLE e",
        "ALTER TABLE e ADD COLUMN z",
        "CREATE TEMP TABLE z (a)",
        "CREATE VIRTUAL TABLE z USING fts5(a)",
        "CREATE TRIGGER z AFTER INSERT ON e BEGIN DELETE FROM e; END",
    ],
)
def test_what_is_not_allowed_is_refused(sql: str, database: LockedDatabase) -> None:
    message = refused(database, sql)
    assert "not authorized" in message or "no such" in message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date('now')",
        "SELECT date('NOW')",
        "SELECT date('n' || 'ow')",
        "SELECT date(n || 'w') FROM (SELECT 'no' AS n)",
        "SELECT datetime(x'6e6f77')",
        "SELECT date()",
        "SELECT strftime('%s')",
        "SELECT unixepoch()",
        "SELECT julianday('now')",
        "SELECT datetime('2024-01-01', 'localtime')",
        "SELECT datetime('2024-01-01', 'utc')",
    ],
)
def test_the_clock_and_the_time_zone_cannot_be_read(sql: str, database: LockedDatabase) -> None:
    assert "explicit date" in refused(database, sql)


def test_explicit_dates_are_computed_as_sqlite_does(database: LockedDatabase) -> None:
    sql = (
        "SELECT date('2024-01-31', '+1 month'), strftime('%Y-%m', '2023-05-06'), date(NULL), "
        "julianday('2024-01-02') - julianday('2024-01-01'), unixepoch('1970-01-02'), time(0)"
    )
    expected = [["2024-03-02", "2023-05", None, 1.0, 86400, "12:00:00"]]
    assert database.query(sql).rows == expected


@pytest.mark.parametrize("default", ["(random())", "CURRENT_TIMESTAMP", "(hex(randomblob(4)))"])
def test_a_column_default_cannot_call_what_a_statement_may_not(default: str) -> None:
    schema = f"CREATE TABLE d (a, b DEFAULT {default});"
    with pytest.raises(PolicyError):
        LockedDatabase.build(schema, "INSERT INTO d (a) VALUES (1)")
    database = LockedDatabase.build(schema)
    with pytest.raises(StatementError, match="not authorized"):
        database.write("INSERT INTO d (a) VALUES (1)")
    assert database.query("SELECT COUNT(*) FROM d").rows == [[0]]


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS + "SELECT COUNT(*) FROM c",
        ENDLESS + "SELECT MAX(i) FROM c WHERE i < 0",
        "SELECT COUNT(*) FROM " + ", ".join(f"e AS e{i}" for i in range(15)),
    ],
)
def test_a_statement_without_end_exceeds_its_operation_budget(
    sql: str, database: LockedDatabase
) -> None:
    assert refused(database, sql) == "statement exceeded its operation budget"


def test_the_operation_budget_is_the_same_count_every_time(database: LockedDatabase) -> None:
    sql = "SELECT COUNT(*) FROM e AS a, e AS b, e AS c, e AS d"

    def fits(max_ops: int) -> bool:
        try:
            database.query(sql, max_ops=max_ops)
        except StatementError:
            return False
        return True

    limits = range(0, 3000, 100)
    outcomes = [fits(limit) for limit in limits]
    assert outcomes == [fits(limit) for limit in limits] == sorted(outcomes)
    assert outcomes[0] is False and outcomes[-1] is True


def test_an_endless_script_is_stopped() -> None:
    with pytest.raises(EpisodeError, match="operation budget"):
        LockedDatabase.build(
            "CREATE TABLE x (i)", "INSERT INTO x " + ENDLESS + "SELECT i FROM c WHERE i < 0"
        )


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS + "SELECT i FROM c",
        ENDLESS + "SELECT i, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' FROM c",
        "WITH RECURSIVE c(i, t) AS (SELECT 1, 'aaaaaaaaaa' UNION ALL SELECT i + 1, t || t FROM c) "
        "SELECT MAX(length(t)) FROM c",
        ENDLESS + "SELECT group_concat('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') FROM c",
        "SELECT 1" + " + 1" * 150,
        "SELECT " + "abs(" * 150 + "1" + ")" * 150,
        "SELECT 1" + " UNION ALL SELECT 1" * 60,
        "SELECT '" + "x" * 70_000 + "'",
        "SELECT 9e999",
        "SELECT -9e999",
        "SELECT ?",
        "SELECT 'a\0b'",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "/* x */ EXPLAIN QUERY PLAN SELECT * FROM e",
    ],
)
def test_what_is_too_large_or_has_no_canonical_form_is_an_error(
    sql: str, database: LockedDatabase
) -> None:
    assert refused(database, sql)


def test_blobs_and_broken_text_come_back_as_bytes_and_are_canonical(
    database: LockedDatabase,
) -> None:
    rows = database.query("SELECT x'00ff', CAST(x'ff41' AS TEXT), 0.1, 9223372036854775807").rows
    assert rows == [[b"\x00\xff", b"\xffA", 0.1, 2**63 - 1]]
    assert parse_text(canonical_text(rows)) == rows


def test_the_tables_that_a_statement_read_are_reported(database: LockedDatabase) -> None:
    assert database.query("SELECT n FROM e").reads == {"e"}
    assert database.query("SELECT COUNT(*) FROM e").reads == {"e"}
    assert database.query("SELECT 'a', 1 UNION VALUES (1, 2)").reads == frozenset()
    assert database.query("SELECT COUNT(*) FROM sqlite_master").reads == frozenset()


@pytest.mark.parametrize(
    "sql", ["INSERT INTO sqlite_master VALUES (1, 1, 1, 1, 1)", "DELETE FROM sqlite_sequence"]
)
def test_the_catalog_cannot_be_written_to(sql: str) -> None:
    database = LockedDatabase.build("CREATE TABLE a (i INTEGER PRIMARY KEY AUTOINCREMENT);")
    with pytest.raises(StatementError):
        database.write(sql)


def test_the_content_digest_covers_schema_rowids_and_storage_classes() -> None:
    scripts = [
        "CREATE TABLE a (x);",
        "CREATE TABLE a (y);",
        "CREATE TABLE a (x); CREATE INDEX i ON a (x);",
        "CREATE TABLE a (x); INSERT INTO a VALUES (1);",
        "CREATE TABLE a (x); INSERT INTO a VALUES (1.0);",
        "CREATE TABLE a (x); INSERT INTO a VALUES ('1');",
        "CREATE TABLE a (x); INSERT INTO a VALUES (x'31');",
        "CREATE TABLE a (x); INSERT INTO a VALUES (NULL);",
        "CREATE TABLE a (x); INSERT INTO a (rowid, x) VALUES (7, 1);",
        "CREATE TABLE a (x); INSERT INTO a VALUES (CAST(x'ff' AS TEXT));",
        "CREATE TABLE a (x); INSERT INTO a VALUES (x'ff');",
        "CREATE TABLE a (x PRIMARY KEY) WITHOUT ROWID; INSERT INTO a VALUES (1);",
        "CREATE TABLE a (rowid, _rowid_, oid); INSERT INTO a VALUES (1, 2, 3);",
    ]
    digests = [LockedDatabase.build(script).content_digest() for script in scripts]
    assert len(set(digests)) == len(scripts)
    assert digests == [LockedDatabase.build(script).content_digest() for script in scripts]


def test_a_copy_changes_on_its_own(database: LockedDatabase) -> None:
    copy = database.copy()
    assert copy.content_digest() == database.content_digest()
    copy.write("DELETE FROM e WHERE s = 1")
    assert copy.content_digest() != database.content_digest()
    assert database.query("SELECT COUNT(*) FROM e").rows == [[3]]
    copy.restore(database)
    assert copy.content_digest() == database.content_digest()


def test_a_write_that_returns_too_much_changes_nothing(database: LockedDatabase) -> None:
    many = ENDLESS + "INSERT INTO e SELECT 'x', i FROM c LIMIT 11000 RETURNING s"
    with pytest.raises(StatementError):
        database.write(many)
    assert database.query("SELECT COUNT(*) FROM e").rows == [[3]]


def test_a_statement_past_the_wall_clock_limit_is_no_outcome_to_record(
    database: LockedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = database.content_digest()
    monkeypatch.setattr("crucible.envs.sqlguard.MAX_SECONDS", -1.0)
    with pytest.raises(EpisodeError, match="wall-clock"):
        database.query(ENDLESS + "SELECT COUNT(*) FROM c")
    with pytest.raises(EpisodeError, match="wall-clock"):
        database.write("INSERT INTO e " + ENDLESS + "SELECT 'x', i FROM c LIMIT 1000")
    monkeypatch.undo()
    assert database.query("SELECT COUNT(*) FROM e").rows == [[3]]
    assert database.content_digest() == digest


def test_what_a_trigger_wrote_counts_as_changed() -> None:
    database = LockedDatabase.build(
        SCRIPT,
        "CREATE TABLE log (n TEXT);"
        "CREATE TRIGGER t AFTER INSERT ON e BEGIN INSERT INTO log VALUES (new.n); END;",
    )
    before = database.content_digest()
    assert database.write("INSERT INTO e VALUES ('d', 4) RETURNING n").num_changed == 2
    assert database.query("SELECT n FROM log").rows == [["d"]]
    assert database.content_digest() != before


def test_an_idle_database_has_one_owner_at_a_time() -> None:
    idle = IdleDatabases(1)
    first, second = idle.take(SCRIPT), idle.take(SCRIPT)
    assert first is not second
    idle.give_back(first, SCRIPT)
    assert idle.take(SCRIPT) is first
    idle.give_back(first, SCRIPT)
    idle.give_back(second, "other script")
    with pytest.raises(sqlite3.ProgrammingError):
        first.tables()
