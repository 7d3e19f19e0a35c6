"""``crucible demo``."""

from __future__ import annotations

import typer

__all__ = ["COMMANDS", "app"]

app = typer.Typer(help="demo", no_args_is_help=True)

COMMANDS = ()
