"""Every fenced example of README and docs runs, in the order of its page.

``bash`` and ``python`` blocks of a page run in one folder; `` ```bash exit=1 `` says which exit
status is expected; ``text`` blocks show output or need what a test has not (an account).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_ONLY = {"text", "json", "yaml", "toml"}
NOT_RUN = ("make demo", "make test", "make check", "crucible demo")
"""Commands that run the tests themselves, or that the demo's own test runs."""


def blocks_of(page: str) -> list[tuple[str, int, str]]:
    text = (ROOT / page).read_text()
    return [(kind, int(code or 0), body) for kind, code, body in BLOCK.findall(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in (ROOT / page).read_text()])
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
    }
    for kind, expected, body in blocks_of(page):
        if kind in SHOWN_ONLY or any(command in body for command in NOT_RUN):
            continue
        argv = {"bash": ["bash", "-euc", body], "python": [sys.executable, "-c", body]}[kind]
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == expected, f"{page}:\n{body}\n{done.stdout}{done.stderr}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
            if "://" not in target and not ((ROOT / page).parent / target).exists():
                broken.append(f"{page} -> {target}")
    assert broken == []
