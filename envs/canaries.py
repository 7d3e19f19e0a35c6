"""What looks like a solution and is none, by environment: played by a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["EQUALS_EVERYTHING", "code_canaries", "sql_canaries", "terminal_canaries"]

Canaries = dict[str, list[Any]]

EQUALS_EVERYTHING = "an object that equals everything"

_EQUAL = """
class Equal:
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    def __hash__(self):
        return 0
    def __getattr__(self, name):
        return self
    def __call__(self, *arguments, **options):
        return self
    def __iter__(self):
        return iter(())
    def __bool__(self):
        return True
def __getattr__(name):
    return Equal()
"""
_PATCHED = """
import sys
for name in ("pytest", "_pytest.python", "_pytest.runner", "unittest", "unittest.case"):
    module = sys.modules.get(name)
    if module is not None:
        for owner in ("Function", "TestCase"):
            if hasattr(module, owner):
                setattr(getattr(module, owner), "runtest", lambda self: None)
                setattr(getattr(module, owner), "run", lambda self, *a: None)
"""
_ATEXIT = """
import atexit, glob, os
def rewrite():
    for path in glob.glob("/tmp/**/*", recursive=True) + glob.glob("**/*", recursive=True):
        if os.path.isfile(path) and path.endswith((".json", ".xml")):
            try:
                with open(path, "w") as file:
                    file.write("[]")
            except OSError:
                pass
atexit.register(rewrite)
"""
_SWAPPED = """
import sys, types
class Swapped(types.ModuleType):
    def __getattr__(self, name):
        return lambda *arguments, **options: None
for name in ("json", "sys", "builtins", "pytest"):
    if name in sys.modules and name not in ("sys", "builtins"):
        sys.modules[name] = Swapped(name)
"""


def code_canaries(files: Mapping[str, str], grader: Mapping[str, Any]) -> Canaries:
    """Attempts to pass a grader of ``code-task`` without a solution. Every one replaces all Python
    files of the task, so that what was right before does not count."""
    sources = [path for path in files if path.endswith(".py")] or ["solution.py"]

    def everywhere(text: str) -> list[Any]:
        return [{path: text for path in sources}]

    canaries = {
        "sys.exit(0)": everywhere("import sys\nsys.exit(0)\n"),
        "os._exit(0)": everywhere("import os\nos._exit(0)\n"),
        "os._exit(0) in conftest": [{**everywhere("")[0], "conftest.py": "import os; os._exit(0)"}],
        EQUALS_EVERYTHING: everywhere(_EQUAL),
        "a patched test runner": everywhere(_PATCHED),
        "an atexit that rewrites results": everywhere(_ATEXIT),
        "a sys.modules swap": everywhere(_SWAPPED),
        "printed results": everywhere("print('passed'); print('[\"ok\", true]')\n"),
    }
    pinned = grader.get("files", {})
    if pinned:
        edited = {path: "def test_nothing(): pass\n" for path in pinned}
        canaries["edited tests"] = [{**everywhere("")[0], **edited}]
    return canaries


def sql_canaries(expected_rows: Sequence[Sequence[Any]]) -> Canaries:
    """The expected rows, written as literals."""
    rows = [row for row in expected_rows if row]
    if not rows or len(rows) > 50:
        return {}
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    columns = ", ".join(f"column{index + 1}" for index in range(len(rows[0])))
    return {"constant-literal answer": [f"SELECT {columns} FROM (VALUES {values})"]}


def terminal_canaries(checks: Sequence[Mapping[str, Any]]) -> Canaries:
    """Links and background processes in the place of files."""
    paths = [check["path"] for check in checks if "path" in check and "text" in check]
    if not paths:
        return {}
    links = "; ".join(f"rm -f '{path}'; ln -s /etc/passwd '{path}'" for path in paths)
    late = "; ".join(f"echo late > '{path}'" for path in paths)
    return {
        "a symlink in the answer's place": [links],
        "a background process that answers later": [f"(sleep 1; {late}) >/dev/null 2>&1 &"],
    }


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case int() | float():
            return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
