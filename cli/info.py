"""``crucible info``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from crucible.cli.console import JsonOption, print_json, print_line
from crucible.cli.targets import RevisionOption

if TYPE_CHECKING:
    from crucible.commons import DatasetInfo

__all__ = ["COMMANDS"]


def info(
    target: Annotated[str, typer.Argument(help="A folder, or org/name[@rev].")],
    row: Annotated[
        int | None, typer.Option(min=0, help="Prove that this row is in the dataset of the root.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="ROOT", help="Prove that nothing of this earlier root was changed."),
    ] = None,
    revision: RevisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a dataset says of itself, without its episodes; prove rows and appends."""
    from crucible.cli.targets import dataset_reference
    from crucible.commons import dataset_info, prove_row_of
    from crucible.proofs import prove_append

    found = dataset_info(*dataset_reference(target, revision=revision))
    body = found.to_dict()
    if row is not None:
        in_shard, in_dataset = prove_row_of(found, row)
        body["row"] = {"row": row, "shard": in_shard.to_dict(), "dataset": in_dataset.to_dict()}
    if since is not None:
        body["append"] = prove_append(found.manifest, since).to_dict()
    if as_json:
        print_json(body)
    else:
        _print_info(found, body)


def _print_info(found: DatasetInfo, body: dict[str, Any]) -> None:
    visibility = {True: ", private", False: ", public", None: ""}[found.private]
    print_line(f"{found.name}: {body['rows']} episodes in {body['worlds']} worlds{visibility}")
    if found.commit is not None:
        print_line(f"commit {found.commit}, last changed {found.last_modified}")
    print_line(f"root {body['root']}, {len(body['shards'])} shards, {body['bytes']} bytes")
    for recording in found.manifest.recordings:
        print_line(
            f"recording {recording.id[:16]}: agent {recording.plan['agent']}, "
            f"{recording.planned} planned, {recording.recorded} recorded, "
            f"{recording.withheld} withheld"
        )
    if "row" in body:
        shard = body["shards"][body["row"]["dataset"]["index"]]["path"]
        print_line(
            f"row {body['row']['row']} is leaf {body['row']['shard']['leaf']} of {shard}, which "
            "is in the root (--json gives the proof)"
        )
    if "append" in body:
        proof = body["append"]
        print_line(
            f"extends {proof['old_root']}: its {proof['old_size']} shards are unchanged, "
            f"{proof['new_size'] - proof['old_size']} were added (--json gives the proof)"
        )
    print_line("as its publisher states it; crucible verify re-runs every episode")


COMMANDS = (info,)
