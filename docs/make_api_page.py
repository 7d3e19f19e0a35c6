"""Writes ``docs/reference/api.md`` from docstrings: ``python docs/make_api_page.py``."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

PAGE = Path(__file__).parent / "reference" / "api.md"
PACKAGES = ("crucible", "crucible.envs", "crucible.commons", "crucible.training")

HEAD = """# The Python API

Written by `python docs/make_api_page.py`; a test compares it with the packages. What is not listed
here is not public.
"""


def api_page() -> str:
    """The whole page."""
    sections = [HEAD]
    for package in PACKAGES:
        module = importlib.import_module(package)
        lines = [f"## `{package}`", "", first_paragraph(module), ""]
        for name in module.__all__:
            value = getattr(module, name)
            about = first_paragraph(value) if callable(value) else ""
            lines.append(f"- `{name}{signature_of(value)}` {about}".rstrip())
        sections.append("\n".join(lines))
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def first_paragraph(value: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


def signature_of(value: object) -> str:
    """The parameter names of a function, without their types."""
    if not inspect.isfunction(value):
        return ""
    names = []
    star = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            names.append("*")
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        names.append(prefix + parameter.name)
    return f"({', '.join(names)})"


if __name__ == "__main__":
    PAGE.write_text(api_page(), encoding="utf-8")
