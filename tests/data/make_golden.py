"""Writes ``format-1``: one dataset with every bundled environment, several ways to end, a chat and
an append. Run once before a release of the format, never to make a failing test pass::

    PYTHONPATH=tests/support:tests/data python tests/data/make_golden.py
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from chatting import record_chat

from crucible.agents import AgentInfo, ScriptedAgent
from crucible.dataset.folder import read_manifest, read_trajectories
from crucible.recording import Plan, record_plan
from crucible.world_references import resolve_worlds

DATA = Path(__file__).parent
FOLDER = DATA / "format-1"

RECORDINGS: list[tuple[str, str, dict[str, Any]]] = [
    ("guess-basics/around-zero", "oracle", {}),
    ("guess-basics/around-zero", "random", {"max_steps": 2, "attempts": 2}),
    ("guess-basics/up-to-100", "make_golden:Crash", {}),
    ("sql-skills/transfer", "oracle", {}),
    ("sql-skills/payroll", "wrong", {}),
    ("sql-synth", "oracle", {"max_steps": 30}),
    ("http-basics/orders", "oracle", {}),
    ("http-basics/weather", "null", {}),
    ("shell-basics/sum-by-shop", "oracle", {}),
    ("code-basics/median", "oracle", {}),
    ("code-basics/shop-package", "oracle", {}),
    ("command", "make_golden:CountLines", {}),
]
COMMAND = {
    "files": {"log.txt": "a\nb\nc\n"},
    "task": "Count the lines of log.txt.",
    "expected_stdout": "3",
}


class CountLines(ScriptedAgent):
    """Tries an empty command first."""

    info = AgentInfo("count-lines", "1")

    def __init__(self) -> None:
        super().__init__(["true", "wc -l < log.txt"])


class Crash(ScriptedAgent):
    """Fails after one guess."""

    info = AgentInfo("crash", "1")

    def __init__(self) -> None:
        super().__init__([50])

    def act(self, observation: Any) -> Any:
        if self._next:
            raise RuntimeError("made to fail")
        return super().act(observation)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for number, (world, agent, options) in enumerate(RECORDINGS):
        worlds = tuple(resolve_worlds(world, COMMAND if world == "command" else {}))[:1]
        record_plan(Plan(worlds, (range(2),), agent, **options), FOLDER, workers=1)
        if number == 0:
            record_chat(FOLDER, lambda messages, seed: None)
    manifest = read_manifest(FOLDER)
    expected = {
        "root": manifest.root,
        "manifest": manifest.digest,
        "fingerprints": [t.fingerprint for t in read_trajectories(FOLDER)],
    }
    (DATA / "format-1.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    import os

    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        main()
