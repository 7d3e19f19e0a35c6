"""``crucible verify`` and ``crucible replay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crucible.cli.console import (
    JsonOption,
    QuietOption,
    note,
    print_json,
    print_line,
    print_table,
    progress,
)
from crucible.cli.targets import ImportOption, RevisionOption

if TYPE_CHECKING:
    from crucible.trajectory import Trajectory
    from crucible.verdicts import Verdict, VerificationReport

__all__ = ["COMMANDS", "print_report"]

SHOWN_VERDICTS = 20
VALUE_CHARACTERS = 200


def verify(
    target: Annotated[str, typer.Argument(help="A folder, a trajectory file, or org/name[@rev].")],
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    allow_unanchored: Annotated[
        bool,
        typer.Option("--allow-unanchored", help="Accept worlds that nobody you trust has pinned."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write the JSON report here as well.")
    ] = None,
    revision: RevisionOption = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Re-run every episode of a dataset and check every recorded claim."""
    from crucible.cli.targets import import_modules, local_target
    from crucible.dataset.folder import is_dataset, read_manifest
    from crucible.trajectory import Trajectory
    from crucible.verification import verify_dataset, verify_trajectory

    import_modules(imports)
    path = local_target(target, revision=revision, loose=True)
    if path.is_file():
        result = verify_trajectory(Trajectory.load(path), allow_unanchored=allow_unanchored)
    else:
        rows = read_manifest(path).num_rows if is_dataset(path) else None
        with progress("verifying", rows, quiet=quiet or as_json) as advance:
            result = verify_dataset(
                path,
                workers=workers,
                allow_unanchored=allow_unanchored,
                on_verdict=lambda verdict: advance(),
            )
    if report is not None:
        _write_report(result, report)
    if as_json:
        print_json(result.to_dict())
    else:
        print_report(result)
    raise typer.Exit(result.exit_code)


def replay(
    target: Annotated[str, typer.Argument(help="A trajectory file, a folder, or org/name[@rev].")],
    fingerprint: Annotated[
        str | None, typer.Option("--id", help="A fingerprint, or its first 8 or more digits.")
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, help="The row, counted from 0.")] = None,
    revision: RevisionOption = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Re-run one trajectory and show every claim that the re-run did not confirm."""
    from crucible.cli.targets import import_modules, local_target, one_trajectory
    from crucible.verification import verify_trajectory

    import_modules(imports)
    path = local_target(target, revision=revision)
    trajectory = one_trajectory(path, fingerprint=fingerprint, row=row)
    result = verify_trajectory(trajectory, allow_unanchored=True)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_replay(trajectory, result)
    raise typer.Exit(result.exit_code)


def _write_report(result: VerificationReport, path: Path) -> None:
    from crucible.canonical import canonical_text
    from crucible.dataset.files import write_durably
    from crucible.errors import UsageError

    try:
        write_durably(path, (canonical_text(result.to_dict()) + "\n").encode())
    except OSError as error:
        raise UsageError(f"--report {path}: {error.strerror}") from error


def print_report(result: VerificationReport) -> None:
    """The report as people read it: the headline, what is wrong, and what it means."""
    print_line(_headline(result))
    for finding in result.findings[:SHOWN_VERDICTS]:
        print_line(f"tampered: {finding.where}: {finding.what}")
    _print_bad([verdict for verdict in result.verdicts if verdict.status != "reproduced"])
    if len(result.verdicts) > 1:
        print_table(("verdict", "rows"), [(k, v) for k, v in result.counts.items() if v])
    prefixes = sum(v.prefix for v in result.verdicts if v.status == "reproduced")
    if prefixes:
        print_line(f"{prefixes} reproduced rows end where the recorder says so (prefix)")
    if result.num_unbound:
        print_line(
            f"{result.num_unbound} reproduced rows have messages that are not bound to their "
            "steps; exports leave them out"
        )
    if result.completeness == "unknown":
        print_line(
            "there is no manifest: whether these are all rows that were recorded, and who stands "
            "for them, is unknown"
        )
    for file in result.skipped[:SHOWN_VERDICTS]:
        print_line(f"left out: {file.where}: {file.what}")
    if result.unchecked_columns:
        names = ", ".join(result.unchecked_columns[:10])
        print_line(f"columns that are not Crucible's were not checked: {names}")
    if result.unanchored:
        print_line(_unanchored_line(result))


def _print_bad(bad: list[Verdict]) -> None:
    """Rows that name what is wrong in them first; then the others, one line a reason."""
    named = [verdict for verdict in bad if verdict.mismatches]
    for verdict in named[:SHOWN_VERDICTS]:
        print_line(_line(verdict))
        for mismatch in verdict.mismatches[:3]:
            print_line(f"    {_mismatch_line(str(mismatch))}")
    if len(named) > SHOWN_VERDICTS:
        print_line(f"… and {len(named) - SHOWN_VERDICTS} more (--json or --report lists all)")
    others: dict[tuple[str, str | None], list[Verdict]] = {}
    for verdict in bad:
        if not verdict.mismatches:
            others.setdefault((verdict.status, verdict.reason), []).append(verdict)
    for verdicts in list(others.values())[:SHOWN_VERDICTS]:
        more = f" (and {len(verdicts) - 1} more rows)" if len(verdicts) > 1 else ""
        print_line(_line(verdicts[0]) + more)


def _headline(result: VerificationReport) -> str:
    counts = result.counts
    reproduced = f"{counts['reproduced']} of {result.num_rows} rows reproduced"
    if counts["diverged"] or counts["tampered"] or result.findings:
        verdict = "NOT VERIFIED"
    elif counts["refused"] or counts["unverifiable"]:
        verdict = "NOT VERIFIABLE HERE"
    elif result.unanchored:
        verdict = "REPRODUCED, worlds accepted unanchored"
        if not result.allow_unanchored:
            verdict = "REPRODUCED, BUT IN WORLDS NOBODY YOU TRUST HAS PINNED"
    elif result.completeness == "unknown":
        verdict = "ROWS REPRODUCED, COMPLETENESS UNKNOWN"
    else:
        verdict = "VERIFIED"
    root = f"; root {result.root[:16]}…" if result.root else ""
    withheld = f", {result.withheld} withheld" if result.withheld else ""
    planned = "" if result.completeness == "unknown" else f"{result.planned} planned{withheld}, "
    return f"{verdict}: {reproduced} ({planned}{result.num_transcripts} distinct transcripts){root}"


def _line(verdict: Verdict) -> str:
    place = f"row {verdict.row} ({verdict.fingerprint[:16]}, {verdict.label}, seed {verdict.seed})"
    return f"{verdict.status}: {place}{': ' + verdict.reason if verdict.reason else ''}"


def _mismatch_line(text: str) -> str:
    limit = 2 * VALUE_CHARACTERS
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def _unanchored_line(result: VerificationReport) -> str:
    worlds = result.unanchored
    some = ", ".join(f"{label} ({digest[:16]})" for digest, label in list(worlds.items())[:5])
    return (
        f"{len(worlds)} worlds are not anchored: {some}. Their answers may have been written to "
        "fit; --allow-unanchored accepts them"
    )


def _print_replay(trajectory: Trajectory, result: VerificationReport) -> None:
    verdict = result.verdicts[0]
    word = f"{verdict.status} (prefix)" if verdict.prefix else verdict.status
    print_line(
        f"{word}: {trajectory.world.label}, seed {trajectory.seed}, {trajectory.num_steps} steps, "
        f"total reward {trajectory.total_reward:g}"
    )
    if verdict.reason:
        print_line(verdict.reason)
    for mismatch in verdict.mismatches:
        print_line(_mismatch_line(str(mismatch)))
    if verdict.anchor is None:
        note("note: the world is not anchored: nobody you trust has pinned it")


COMMANDS = (verify, replay)
