"""What looks like a solution and is none, by environment: played by a check."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["command_canaries", "sql_canaries", "sql_write_canaries", "terminal_canaries"]

Canaries = dict[str, list[Any]]

LATER = "a background process that answers later"
MAX_LITERAL_ROWS = 50
_TABLE = re.compile(r"(?i)\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?[\"`\[]?(\w+)")


def sql_canaries(
    expected_rows: Sequence[Sequence[Any]], schema_sql: str, *, submit: bool
) -> Canaries:
    """The expected rows, written as literals; once more by a statement that also reads a table."""
    rows = [list(row) for row in expected_rows]
    if len(rows) > MAX_LITERAL_ROWS or any(not row for row in rows):
        return {}
    if rows:
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        columns = ", ".join(f"column{index + 1}" for index in range(len(rows[0])))
        literal = f"SELECT {columns} FROM (VALUES {values})"
    else:
        literal = "SELECT 1 WHERE 0"
    statements = {"a constant-literal answer": literal}
    table = _TABLE.search(schema_sql)
    if table is not None:
        count = f"(SELECT count(*) FROM {table[1]})"
        reading = f"{literal} WHERE {count} >= 0" if rows else f"SELECT 1 WHERE {count} < 0"
        statements["a constant-literal answer that reads"] = reading
    return {
        name: [{"tool": "submit", "sql": sql} if submit else sql]
        for name, sql in statements.items()
    }


def sql_write_canaries() -> Canaries:
    """Statements that change nothing."""
    return {"a statement that changes nothing": ["SELECT 1"]}


def command_canaries(files: Mapping[str, str], task: str, expected_stdout: str) -> Canaries:
    """Success, output and files that are not the output of the command itself."""
    say = f"printf '%s' {shlex.quote(expected_stdout)}"
    canaries: Canaries = {"the expected text on standard error": [f"{say} >&2"]}
    if not expected_stdout:
        return canaries
    canaries |= {
        "an exit status alone": ["exit 0"],
        "a background process that prints later": [f"(sleep 0.3; {say}) &"],
        "a file left by an earlier command": [f"{say} > left-behind", "cat left-behind"],
        "edited files": [
            "; ".join(f"{say} > {shlex.quote(path)}" for path in files) or "true",
            "; ".join(f"cat {shlex.quote(path)}" for path in list(files)[:1]) or "true",
        ],
    }
    if _is_visible(expected_stdout, task):
        canaries["the expected text that the task shows"] = [say]
    for path, text in files.items():
        if text.strip() == expected_stdout.strip():
            canaries["a file that holds the expected text"] = [f"cat {shlex.quote(path)}"]
    return canaries


def terminal_canaries(
    checks: Sequence[Mapping[str, Any]], files: Mapping[str, str], task: str
) -> Canaries:
    """The expected texts where they must not count, and checks that are made to pass."""
    texts = [check for check in checks if "text" in check]
    canaries: Canaries = {}
    if texts:
        linked = [
            f"rm -rf {_path(c)}; mkdir -p $(dirname {_path(c)}); "
            f"printf '%s' {shlex.quote(c['text'])} > \"$HOME/.answer{index}\"; "
            f'ln -s "$HOME/.answer{index}" {_path(c)}'
            for index, c in enumerate(texts)
        ]
        canaries["a symlink in the answer's place"] = ["; ".join(linked)]
        late = f"(sleep 0.3; {_written(texts)}) >/dev/null 2>&1 &"
        canaries[LATER] = [late, "sleep 0.6"]
        detached = f"setsid bash -c {shlex.quote(f'sleep 0.3; {_written(texts)}')}"
        canaries["a detached process that answers later"] = [
            f"{detached} </dev/null >/dev/null 2>&1 &",
            "sleep 0.6",
        ]
        if all(_is_visible(check["text"], task) for check in texts):
            canaries["the expected text that the task shows"] = [_written(texts)]
    return canaries | _check_canaries(checks, files)


def _check_canaries(checks: Sequence[Mapping[str, Any]], files: Mapping[str, str]) -> Canaries:
    """For checks that run something: programs and start files that always succeed, and the given
    files that a check names, emptied into ones that do."""
    commands = [check["command"] for check in checks if "command" in check]
    if not commands and not any("pattern" in check for check in checks):
        return {}
    fake = "printf '#!/bin/sh\\nexit 0\\n'"
    programs = " ".join(sorted({"grep", "test", "bash", *_first_words(commands)}))
    canaries: Canaries = {
        "programs and start files that always succeed": [
            f'mkdir -p bin; for p in {programs}; do {fake} > "bin/$p"; chmod +x "bin/$p"; done; '
            "for f in .bashrc .bash_profile .profile .bash_env; do echo 'exit 0' > $f; done; "
            'export PATH="$HOME/bin:$PATH" BASH_ENV="$HOME/.bash_env"; test() { return 0; }; '
            "export -f test"
        ]
    }
    named = [path for path in files if any(path in command for command in commands)]
    if named:
        edits = [f"{fake} > {shlex.quote(p)}; chmod +x {shlex.quote(p)}" for p in named]
        canaries["edited check files"] = ["; ".join(edits)]
    return canaries


def _first_words(commands: Sequence[str]) -> list[str]:
    words = (command.split()[0] for command in commands if command.split())
    return [word for word in words if re.fullmatch(r"[\w.-]+", word)]


def _written(checks: Sequence[Mapping[str, Any]]) -> str:
    """Shell that writes what every check expects."""
    return "; ".join(
        f"mkdir -p $(dirname {_path(check)}); "
        f"printf '%s' {shlex.quote(check['text'])} > {_path(check)}"
        for check in checks
    )


def _path(check: Mapping[str, Any]) -> str:
    return shlex.quote(str(check["path"]))


def _is_visible(text: str, task: str) -> bool:
    """Whether the task shows a text as a word or words of its own."""
    words = text.strip()
    return bool(words) and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", task) is not None


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case int() | float():
            return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
