"""What people and programs see: results on stdout, everything else on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.escaping import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["JsonOption", "QuietOption", "note", "print_json", "print_line", "print_table"]
__all__ += ["progress", "result_console"]

PIPED_WIDTH = 160

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]


def print_json(value: dict[str, Any]) -> None:
    """One stable JSON object on stdout."""
    import json

    _write(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """One line of the result on stdout, control characters made visible."""
    _write(plain_text(text) + "\n")


def _write(text: str) -> None:
    """Write to stdout. A reader that has gone away does not change how the command ends."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str, *, quiet: bool = False) -> None:
    """A remark on stderr."""
    if not quiet:
        sys.stderr.write(plain_text(text) + "\n")


def result_console() -> Console:
    """A rich console on stdout that takes no markup from its text."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on stdout; numbers are right-aligned."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, heading in enumerate(headings):
        numeric = all(_is_number(row[index]) for row in rows)
        last = index == len(headings) - 1
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=not last)
    for row in rows:
        table.add_row(*(plain_text(str(cell)) for cell in row))
    console = result_console()
    with console.capture() as captured:
        console.print(table)
    _write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


@contextmanager
def progress(label: str, total: int | None, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A progress bar with rate and time left on stderr; nothing where stderr is no terminal.

    Gives the function that advances it by one.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, rate="")

        def advance() -> None:
            elapsed = bar.tasks[0].elapsed or 0.0
            rate = f"{bar.tasks[0].completed / elapsed:.0f}/s" if elapsed > 0.5 else ""
            bar.update(task, advance=1, rate=rate)

        yield advance


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell).strip("%-–").replace(".", "").isdigit()
