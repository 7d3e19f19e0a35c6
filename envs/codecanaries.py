"""What looks like a solution of a ``code-task`` and is none.

Every attempt defines any name that a test may import, so that it reaches the grader; none computes
anything. A symlink to an answer cannot be tried: edits are contents of ordinary files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["code_canaries", "known_code_canaries"]

Canaries = dict[str, list[Any]]

SHARED = "shared-process"

_STUBS = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *arguments, **options: None
"""
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
    if name.startswith("__"):
        raise AttributeError(name)
    return Equal()
"""
_LYING = """
class Lying({base}):
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    def __hash__(self):
        return 0
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *arguments, **options: Lying({value!r})
"""
_PATCHED = (
    """
import sys, unittest
def nothing(*arguments, **options):
    return None
for name in ("pytest", "_pytest.python"):
    if name in sys.modules:
        sys.modules[name].Function.runtest = nothing
unittest.TestCase.run = nothing
unittest.TestCase.__call__ = nothing
"""
    + _STUBS
)
_FORGING = """
import json, os, sys
def forge():
    names = ["forged::%d" % number for number in range(60)]
    text = json.dumps([sys.argv[1], names, {}]) if len(sys.argv) > 3 else '["ok", "forged"]\\n' * 60
    for descriptor in range(1, 64):
        try:
            os.write(descriptor, text.encode())
        except OSError:
            pass
"""
_FORGED = _FORGING + "forge()\nos._exit(0)\n"
_ATEXIT = _FORGING + "import atexit\natexit.register(forge)\n" + _STUBS
_REWRITING = (
    """
import atexit, glob, os
def rewrite():
    for path in glob.glob("/tmp/**/*", recursive=True) + glob.glob("**/*", recursive=True):
        if os.path.isfile(path) and path.endswith((".json", ".xml", ".txt", ".log")):
            try:
                with open(path, "w") as file:
                    file.write("[]")
            except OSError:
                pass
atexit.register(rewrite)
"""
    + _ATEXIT
)
_SWAPPED = (
    """
import sys, types
class Swapped(types.ModuleType):
    def __getattr__(self, name):
        return lambda *arguments, **options: None
for name in ("pytest", "unittest"):
    sys.modules[name] = Swapped(name)
"""
    + _STUBS
)
_PATCHED_JSON = (
    """
import json
real = json.dumps
def dumps(value, *arguments, **options):
    if isinstance(value, list) and len(value) == 3 and isinstance(value[2], dict):
        value = [value[0], sorted({*value[1], *value[2]}), {}]
    return real(value, *arguments, **options)
json.dumps = dumps
"""
    + _STUBS
)
_PRINTED = "print('passed')\nprint('OK')\nprint('[\"ok\", \"forged\"]')\n" + _STUBS

EXITS = {
    "sys.exit(0)": "import sys\nsys.exit(0)\n",
    "os._exit(0)": "import os\nos._exit(0)\n",
}
INSIDE = {
    "an object that equals everything": _EQUAL,
    "an int that equals everything": _LYING.format(base="int", value=-987654321),
    "a str that equals everything": _LYING.format(base="str", value="no such text"),
    "a patched test runner": _PATCHED,
    "a forged report": _FORGED,
    "a patched json": _PATCHED_JSON,
    "a sys.modules swap": _SWAPPED,
}
"""What works from inside of the process that judges, where there is one."""
OUTSIDE = {
    "an atexit that rewrites results": _REWRITING,
    "printed results": _PRINTED,
}


def code_canaries(files: Mapping[str, str], grader: Mapping[str, Any]) -> Canaries:
    """Attempts to pass a grader without a solution, by name. Every one replaces all Python files
    of the task, so that what was right before does not count."""
    sources = [path for path in files if path.endswith(".py")]
    sources = sources or [str(grader.get("module", "solution.py"))]

    def everywhere(text: str, **more: str) -> list[Any]:
        return [{**dict.fromkeys(sources, text), **more}]

    canaries = {name: everywhere(text) for name, text in {**EXITS, **INSIDE, **OUTSIDE}.items()}
    conftest = {"conftest.py": "import os\nos._exit(0)\n"}
    canaries["os._exit(0) in conftest"] = everywhere(_STUBS, **conftest)
    pinned = grader.get("files", {})
    if pinned:
        edited = dict.fromkeys(pinned, "def test_nothing():\n    pass\n")
        canaries["edited tests"] = everywhere(_STUBS, **edited)
    return canaries


def known_code_canaries(grader: Mapping[str, Any]) -> dict[str, str]:
    """What a grader may pay because it shares its process with what it grades, and no grader of
    that kind can help it. Where the command is not pytest, its exit status is all there is."""
    if grader.get("kind") != "command":
        return {}
    if grader["command"][0] == "pytest":
        return dict.fromkeys(INSIDE, SHARED)
    return dict.fromkeys((*INSIDE, *EXITS, *OUTSIDE), SHARED)
