"""``crucible export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crucible.cli.console import JsonOption, QuietOption, print_json, print_line, progress
from crucible.cli.targets import ImportOption, RevisionOption

if TYPE_CHECKING:
    from crucible.training import ExportSummary
    from crucible.verdicts import VerificationReport

__all__ = ["COMMANDS"]


def export(
    target: Annotated[str, typer.Argument(help="A folder, or org/name[@rev].")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder that is not there yet.")],
    format: Annotated[str, typer.Option("--format", help="sft: a chat a row.")] = "sft",
    tokenizer: Annotated[
        str | None, typer.Option(help="A path or id: adds input_ids and labels.")
    ] = None,
    min_reward: Annotated[float | None, typer.Option("--min-reward", "--min_reward")] = None,
    success: Annotated[bool, typer.Option("--success", help="Only episodes that did.")] = False,
    world: Annotated[str | None, typer.Option(help="Only this world: label or digest.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", "--max_tokens", min=1, help="With --tokenizer.")
    ] = None,
    canonical_turns: Annotated[
        bool, typer.Option("--canonical-turns", help="Write turns from the verified actions.")
    ] = False,
    allow_unanchored: Annotated[bool, typer.Option("--allow-unanchored")] = False,
    allow_unverified: Annotated[bool, typer.Option("--allow-unverified")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="End 3 if a row did not reproduce.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    revision: RevisionOption = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Verify a dataset, then write a training set from what reproduced in anchored worlds."""
    from crucible.cli.targets import import_modules, local_target
    from crucible.training import ExportOptions, export_dataset

    import_modules(imports)
    folder = local_target(target, revision=revision)
    report = _verified(folder, workers, quiet=quiet or as_json)
    options = ExportOptions(
        tokenizer=tokenizer,
        min_reward=min_reward,
        success=success,
        world=world,
        agent=agent,
        max_tokens=max_tokens,
        canonical_turns=canonical_turns,
        allow_unanchored=allow_unanchored,
        allow_unverified=allow_unverified,
    )
    summary = export_dataset(folder, out, format=format, options=options, report=report)
    _print_summary(summary, as_json=as_json)
    if strict and report.counts["reproduced"] < report.num_rows:
        raise typer.Exit(3)


def _verified(folder: Path, workers: int | None, *, quiet: bool) -> VerificationReport:
    from crucible.dataset.folder import read_manifest
    from crucible.verification import verify_dataset

    with progress("verifying", read_manifest(folder).num_rows, quiet=quiet) as advance:
        return verify_dataset(folder, workers=workers, on_verdict=lambda verdict: advance())


def _print_summary(summary: ExportSummary, *, as_json: bool) -> None:
    left_out = dict(sorted(summary.left_out.items()))
    if as_json:
        body = {"path": str(summary.path), "rows": summary.num_rows, "left_out": left_out}
        print_json(body)
        return
    print_line(f"exported {summary.num_rows} rows to {summary.path}")
    for reason, count in left_out.items():
        print_line(f"left out {count}: {reason}")


COMMANDS = (export,)
