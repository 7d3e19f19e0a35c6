"""The reference pages are what command and packages say."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_cli_page_is_up_to_date() -> None:
    script = runpy.run_path(str(DOCS / "make_cli_page.py"))
    assert (DOCS / "reference/cli.md").read_text() == script["cli_page"]()


def test_the_api_page_lists_what_is_public() -> None:
    script = runpy.run_path(str(DOCS / "make_api_page.py"))
    assert (DOCS / "reference/api.md").read_text() == script["api_page"]()
