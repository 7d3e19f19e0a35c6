"""``crucible audit``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from crucible.cli.console import (
    JsonOption,
    QuietOption,
    print_json,
    print_line,
    print_table,
    progress,
)
from crucible.cli.targets import ImportOption, RevisionOption

if TYPE_CHECKING:
    from crucible.auditing import AuditReport

__all__ = ["COMMANDS", "print_audit"]

EDITS_PER_ROW = 130


def audit(
    target: Annotated[str, typer.Argument(help="A folder, or org/name[@rev].")],
    sample: Annotated[int, typer.Option(min=1, help="How many rows to edit.")] = 3,
    seed: Annotated[int, typer.Option(help="Picks the rows.")] = 0,
    revision: RevisionOption = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Edit every recorded field of some rows, and say which check catches each edit."""
    from crucible.auditing import audit_dataset
    from crucible.cli.targets import import_modules, local_target

    import_modules(imports)
    folder = local_target(target, revision=revision)
    total = sample * EDITS_PER_ROW
    with progress("editing", total, quiet=quiet or as_json) as advance:
        report = audit_dataset(folder, sample=sample, seed=seed, on_edit=advance)
    if as_json:
        print_json(report.to_dict())
    else:
        print_audit(report)
    raise typer.Exit(report.exit_code)


def print_audit(report: AuditReport) -> None:
    """The report as people read it."""
    rows = [
        (
            name,
            audit.label,
            _counts(audit.left),
            _counts(audit.recomputed),
            audit.example or "",
        )
        for name, audit in report.fields.items()
    ]
    headings = ("field", "claim", "caught, hashes left", "caught, hashes recomputed", "example")
    print_table(headings, rows)
    print_line(f"{report.num_edits} edits of {report.num_rows} rows, each verified twice")
    if report.unbound:
        print_line(f"UNBOUND: {', '.join(report.unbound)}")
    else:
        print_line("every field is bound, except those that are recorded-only")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{check} {count}" for check, count in sorted(counter.items())) or "–"


COMMANDS = (audit,)
