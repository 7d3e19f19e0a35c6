"""From what a user types for a target to a local path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crucible.trajectory import Trajectory

__all__ = [
    "ImportOption",
    "RevisionOption",
    "dataset_reference",
    "import_modules",
    "local_target",
    "one_trajectory",
]

RevisionOption = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub dataset.")
]
ImportOption = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="A module of your own environments."),
]

_REPO = re.compile(r"(?:hf://datasets/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def import_modules(modules: list[str] | None) -> None:
    """Import the modules that the user named; their environments become known."""
    from crucible.registry import import_module_for_environments

    for module in modules or []:
        import_module_for_environments(module)


def local_target(target: str, *, revision: str | None = None, loose: bool = False) -> Path:
    """The folder or file that ``target`` names; a Hub dataset is pulled into the cache first, with
    ``loose`` also one that has no manifest.

    Raises:
        TargetNotFoundError: if it names nothing.
        HubError: if the Hub cannot give the dataset.
    """
    found, named = dataset_reference(target, revision=revision)
    if isinstance(found, Path):
        return found
    from crucible.commons import pull_to_cache

    return pull_to_cache(found, revision=named, loose=loose)


def dataset_reference(target: str, *, revision: str | None = None) -> tuple[Path | str, str | None]:
    """The path, or the repo id and its revision, that ``target`` names. A path that exists wins.

    Raises:
        TargetNotFoundError: if it is neither.
    """
    from crucible.cli.console import note
    from crucible.errors import TargetNotFoundError

    path = Path(target)
    match = _REPO.fullmatch(target)
    if path.exists():
        if match and not target.startswith((".", "/")) and revision is None:
            note(f"note: {target} is taken as the path on this machine", quiet="/" not in target)
        return path, None
    if match is None:
        raise TargetNotFoundError(f"{target}: no such file or folder, and no org/name of a dataset")
    return match[1], revision or match[2]


def one_trajectory(path: Path, *, fingerprint: str | None, row: int | None) -> Trajectory:
    """The trajectory of a file, or the one that ``fingerprint`` or ``row`` picks in a folder.

    Raises:
        UsageError: if nothing or more than one is picked.
    """
    from crucible.dataset.folder import read_trajectories
    from crucible.errors import UsageError
    from crucible.trajectory import Trajectory

    if path.is_file():
        return Trajectory.load(path)
    if (fingerprint is None) == (row is None):
        raise UsageError(f"{path} holds many trajectories: choose one with --id or --row")
    if fingerprint is not None and not re.fullmatch("[0-9a-f]{8,64}", fingerprint):
        raise UsageError(f"--id: expected 8 to 64 hexadecimal digits, found {fingerprint!r}")
    for index, trajectory in enumerate(read_trajectories(path)):
        wanted = index == row if fingerprint is None else None
        if wanted or (fingerprint and trajectory.fingerprint.startswith(fingerprint)):
            return trajectory
    raise UsageError(f"{path} has no trajectory {fingerprint if fingerprint else f'in row {row}'}")
