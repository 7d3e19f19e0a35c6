"""Writes ``docs/reference/cli.md`` from the command itself: ``python docs/make_cli_page.py``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from crucible.cli.app import app

PAGE = Path(__file__).parent / "reference" / "cli.md"

HEAD = """# The command

Written by `python docs/make_cli_page.py`; a test compares it with the command.

Every command that reports takes `--json` (one object on stdout). Results go to stdout, progress
and remarks to stderr. Exit codes: 0 all good, 1 diverged or tampered, 2 usage or nothing could be
read, 3 refused, unverifiable, not anchored or a gate said no, 4 Hub or network, 130 interrupted.
"""


def cli_page() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    sections = [HEAD]
    for name, command in commands_of(root, "crucible"):
        sections.append(f"## `{name}`\n\n{command.help or ''}\n\n{parameters_of(command)}")
    return "\n".join(section.rstrip() + "\n" for section in sections)


def commands_of(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Every command below ``group`` with its whole name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def parameters_of(command: Any) -> str:
    """A table of arguments and options."""
    lines = ["| | default | |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = f"`{parameter.name.upper()}`"
        else:
            name = ", ".join(f"`{option}`" for option in parameter.opts)
        default = parameter.default
        shown = "" if default in (None, False, ()) or callable(default) else f"`{default}`"
        if parameter.required:
            shown = "required"
        lines.append(f"| {name} | {shown} | {getattr(parameter, 'help', None) or ''} |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(cli_page(), encoding="utf-8")
