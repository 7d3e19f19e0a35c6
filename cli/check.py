"""``crucible envs check``."""

from __future__ import annotations

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
from crucible.cli.targets import ImportOption

if TYPE_CHECKING:
    from crucible.checking import CheckReport

__all__ = ["check_environment"]

SHOWN_PROBLEMS = 40
KINDS = ("moved", "oracle", "null", "canary", "unchecked", "known", "note")


def check_environment(
    name: Annotated[str, typer.Argument(metavar="WORLD|SUITE")],
    seeds: Annotated[str, typer.Option(help="A:B (B excluded), N, or a comma list.")] = "0:1",
    runs: Annotated[
        int, typer.Option(min=3, help="Re-runs of every episode, each under other conditions.")
    ] = 3,
    kwargs: Annotated[
        list[str] | None, typer.Option("-k", metavar="KEY=JSON", help="An argument of the world.")
    ] = None,
    imports: ImportOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check worlds before you publish them: are they deterministic, does the reference solution
    solve, and does what is no solution earn nothing?"""
    from crucible.checking import check_worlds
    from crucible.cli.record import parse_kwargs, parse_seeds
    from crucible.cli.targets import import_modules
    from crucible.world_references import resolve_worlds

    import_modules(imports)
    worlds = resolve_worlds(name, parse_kwargs(kwargs or []))
    numbers = [seed for each in parse_seeds(seeds) for seed in each]
    with progress("checking", len(worlds), quiet=quiet or as_json) as advance:
        report = check_worlds(worlds, numbers, runs=runs, on_world=advance)
    if as_json:
        print_json(report.to_dict())
    else:
        _print_check(report)
    raise typer.Exit(report.exit_code)


def _print_check(report: CheckReport) -> None:
    headings = ("world", "determinism", "oracle", "null", "random", "canaries")
    rows = [(w.label, w.determinism, w.oracle, w.null, w.random, w.canaries) for w in report.worlds]
    print_table(headings, rows)
    for problem in report.problems[:SHOWN_PROBLEMS]:
        print_line(str(problem))
    if len(report.problems) > SHOWN_PROBLEMS:
        print_line(f"… and {len(report.problems) - SHOWN_PROBLEMS} more (--json lists all)")
    print_line(_headline(report))


def _headline(report: CheckReport) -> str:
    if report.exit_code:
        kinds = [problem.kind for problem in report.problems]
        return ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS if kind in kinds)
    words = {world.determinism for world in report.worlds}
    same = f"every episode came out the same in {report.runs} re-runs under changed conditions"
    if words == {"declared not"}:
        same = "no episode was re-run: nothing here is declared deterministic"
    elif words != {"ok"}:
        same += ", but for worlds that are declared not deterministic"
    if all(world.canaries == "–" for world in report.worlds):
        return f"{same}; there are no canaries to try"
    known = any(problem.kind == "known" for problem in report.problems)
    return f"{same}; no canary earns{', except for what is known' if known else ''}"
