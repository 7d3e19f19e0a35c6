"""``crucible record``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.cli.console import JsonOption, QuietOption, note, print_json, print_line, progress

if TYPE_CHECKING:
    from crucible.recording import Plan, RecordingSummary

__all__ = ["COMMANDS", "parse_kwargs", "parse_seeds"]


def record(
    world: Annotated[
        str, typer.Argument(metavar="WORLD|SUITE", help="env_id, suite, suite/name, module:Class.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The dataset folder.")],
    agent: Annotated[
        str, typer.Option(help="oracle, wrong, random, null, or module:Class.")
    ] = "oracle",
    kwarg: Annotated[
        list[str] | None, typer.Option("-k", metavar="KEY=JSON", help="An argument of the world.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="A:B (B excluded), N, or a comma list.")] = "0:1",
    attempts: Annotated[int, typer.Option(min=1, help="Attempts per world and seed.")] = 1,
    max_steps: Annotated[int | None, typer.Option("--max-steps", "--max_steps", min=1)] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run an agent in a world or suite and record every episode as a dataset."""
    from crucible.recording import Plan, record_plan
    from crucible.world_references import resolve_worlds

    worlds = resolve_worlds(world, parse_kwargs(kwarg or []))
    plan = Plan(tuple(worlds), parse_seeds(seeds), agent, attempts, max_steps)
    _announce(plan, quiet=quiet or as_json)
    with progress("recording", plan.num_episodes, quiet=quiet or as_json) as advance:
        summary = record_plan(plan, out, workers=workers, on_episode=lambda row: advance())
    _report(summary, out, as_json=as_json)


def _announce(plan: Plan, *, quiet: bool) -> None:
    num_seeds = sum(len(seeds) for seeds in plan.seeds)
    note(
        f"{len(plan.worlds)} worlds × {num_seeds} seeds × {plan.attempts} attempts "
        f"= {plan.num_episodes} episodes",
        quiet=quiet,
    )
    unseeded = [world.label for world in plan.worlds if not world.seeded]
    if unseeded and num_seeds > 1:
        note(
            f"note: {len(unseeded)} worlds are the same for every seed (such as {unseeded[0]}): "
            "their episodes count once in statistics",
            quiet=quiet,
        )


def _report(summary: RecordingSummary, out: Path, *, as_json: bool) -> None:
    recording = summary.recording
    if as_json:
        result: dict[str, Any] = {
            "path": str(out),
            "root": summary.manifest.root,
            "recording": recording.id,
            "planned": recording.planned,
            "recorded": recording.recorded,
            "errored": recording.errored,
            "rows": summary.manifest.num_rows,
        }
        print_json(result)
        return
    errored = f", {recording.errored} of them with an error" if recording.errored else ""
    print_line(f"recorded {recording.recorded} episodes{errored} into {out}")
    print_line(f"root {summary.manifest.root}")


def parse_seeds(text: str) -> tuple[range, ...]:
    """Ranges of seeds: ``A:B`` without B, a single number, or a comma list of both.

    Raises:
        UsageError: if ``text`` is none of these.
    """
    from crucible.errors import UsageError

    ranges = []
    for part in text.split(","):
        start, separator, stop = part.partition(":")
        try:
            first = int(start or "0")
            ranges.append(range(first, int(stop) if separator else first + 1))
        except ValueError:
            raise UsageError(f"seeds: expected A:B, N or a comma list, found {text!r}") from None
    return tuple(ranges)


def parse_kwargs(pairs: list[str]) -> dict[str, Any]:
    """Arguments from ``KEY=JSON``; text that is not JSON is taken as a string.

    Raises:
        UsageError: if a pair has no ``=``.
    """
    from crucible.canonical import parse_json
    from crucible.errors import TextError, UsageError

    kwargs = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key:
            raise UsageError(f"-k: expected KEY=JSON, found {pair!r}")
        try:
            kwargs[key] = parse_json(text)
        except TextError:
            kwargs[key] = text
    return kwargs


COMMANDS = (record,)
