"""``crucible show`` and ``crucible stats``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.cli.console import JsonOption, print_json, print_line, print_table
from crucible.cli.targets import RevisionOption

if TYPE_CHECKING:
    from crucible.dataset.manifest import Manifest
    from crucible.dataset.stats import DatasetStats
    from crucible.trajectory import Trajectory

__all__ = ["COMMANDS"]


def show(
    target: Annotated[str, typer.Argument(help="A folder, a trajectory file, or org/name[@rev].")],
    fingerprint: Annotated[
        str | None, typer.Option("--id", help="A fingerprint, or its first 8 or more digits.")
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, help="The row, counted from 0.")] = None,
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a dataset or one trajectory holds. Nothing is re-run: see verify."""
    from crucible.cli.targets import local_target, one_trajectory

    path = local_target(target, revision=revision)
    if path.is_file() or fingerprint is not None or row is not None:
        trajectory = one_trajectory(path, fingerprint=fingerprint, row=row)
        _show_trajectory(trajectory, as_json=as_json)
    else:
        _show_dataset(path, as_json=as_json)


def stats(
    target: Annotated[str, typer.Argument(help="A folder, or org/name[@rev].")],
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Episodes, success and rewards by world and agent, as recorded."""
    from crucible.cli.targets import local_target
    from crucible.dataset.folder import read_manifest
    from crucible.dataset.stats import dataset_stats

    path = local_target(target, revision=revision)
    figures = dataset_stats(path, read_manifest(path).shards_of("trajectories"))
    if as_json:
        print_json(figures.to_dict())
        return
    print_line(
        f"{figures.num_rows} episodes, {figures.num_steps} steps, "
        f"{figures.num_transcripts} distinct transcripts"
    )
    print_line("ends: " + ", ".join(f"{end} {count}" for end, count in figures.ends.items()))
    _print_groups(figures)


def _print_groups(figures: DatasetStats) -> None:
    headings = ("world", "agent", "episodes", "distinct", "success", "mean reward", "mean steps")
    rows = [
        (
            group.world,
            group.agent,
            group.episodes,
            group.transcripts,
            "–" if group.success_rate is None else f"{group.success_rate:.0%}",
            f"{group.mean_reward:.3f}",
            f"{group.mean_steps:.1f}",
        )
        for group in figures.groups
    ]
    print_table(headings, rows)


def _show_dataset(path: Path, *, as_json: bool) -> None:
    from crucible.dataset.folder import read_manifest
    from crucible.dataset.stats import dataset_stats

    manifest = read_manifest(path)
    figures = dataset_stats(path, manifest.shards_of("trajectories"))
    planned = sum(recording.planned for recording in manifest.recordings)
    if as_json:
        shown: dict[str, Any] = {
            "root": manifest.root,
            "rows": manifest.num_rows,
            "worlds": len(manifest.worlds),
            "planned": planned,
            "shards": [shard.path for shard in manifest.shards],
            "stats": figures.to_dict(),
        }
        print_json(shown)
        return
    print_line(f"{path}: {manifest.num_rows} episodes in {len(manifest.worlds)} worlds")
    print_line(f"root {manifest.root}")
    for recording in manifest.recordings:
        print_line(
            f"recording {recording.id[:16]}: agent {recording.plan['agent']}, "
            f"{recording.planned} planned, {recording.recorded} recorded, "
            f"{recording.errored} with an error, {recording.withheld} withheld"
        )
    _print_groups(figures)
    _print_reports(path, manifest)
    print_line("as recorded; crucible verify re-runs every episode")


def _print_reports(path: Path, manifest: Manifest) -> None:
    """The reports that lie in the dataset, as what they are: somebody's word."""
    from crucible.errors import FormatError
    from crucible.reports import read_report, reports_in

    for file in reports_in(path):
        try:
            body = read_report(file)
        except FormatError as error:
            print_line(f"report {error}")
            continue
        of = "" if body["root"] == manifest.root else ", of another root than this one"
        print_line(
            f"report {file.name}: {body['counts']['reproduced']} of {body['rows']} rows "
            f"reproduced{of} (its author's word)"
        )


def _show_trajectory(trajectory: Trajectory, *, as_json: bool) -> None:
    from crucible.replaying import recomputed_mismatches

    problems = [str(mismatch) for mismatch in recomputed_mismatches(trajectory)]
    if as_json:
        print_json({**_trajectory_json(trajectory), "problems": problems})
    else:
        _print_trajectory(trajectory, problems)
    if problems:
        raise typer.Exit(1)


def _trajectory_json(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "fingerprint": trajectory.fingerprint,
        "world": trajectory.world.digest,
        "label": trajectory.world.label,
        "env_id": trajectory.world.env_id,
        "env_version": trajectory.world.env_version,
        "seed": trajectory.seed,
        "agent": trajectory.agent.name,
        "end": trajectory.end,
        "success": trajectory.success,
        "error": trajectory.error,
        "num_steps": trajectory.num_steps,
        "total_reward": trajectory.total_reward,
        "steps": [
            {
                "observation": step.observation_text,
                "action": step.action_text,
                "reward": step.reward,
                "terminated": step.terminated,
                "truncated": step.truncated,
                "info": step.info_text,
                "digest": step.digest,
            }
            for step in trajectory.steps
        ],
        "final_observation": trajectory.final_observation_text,
    }


def _print_trajectory(trajectory: Trajectory, problems: list[str]) -> None:
    from crucible.escaping import plain_text

    print_line(f"{trajectory.world.label} ({trajectory.world.env_id}), seed {trajectory.seed}")
    print_line(f"fingerprint {trajectory.fingerprint}")
    print_line(
        f"agent {trajectory.agent.name}, {trajectory.num_steps} steps, "
        f"total reward {trajectory.total_reward:g}, end {trajectory.end}, "
        f"success {trajectory.success}"
    )
    if trajectory.error:
        print_line(f"error {plain_text(trajectory.error, limit=500)}")
    for index, step in enumerate(trajectory.steps):
        print_line(f"[{index}] observation {plain_text(step.observation_text, limit=600)}")
        print_line(f"    action {plain_text(step.action_text, limit=600)}")
        print_line(f"    reward {step.reward:g}  info {plain_text(step.info_text, limit=300)}")
    if trajectory.final_observation_text is not None:
        print_line(f"final observation {plain_text(trajectory.final_observation_text, limit=600)}")
    for problem in problems:
        print_line(f"inconsistent: {problem}")


COMMANDS = (show, stats)
