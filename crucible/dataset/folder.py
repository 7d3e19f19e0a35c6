"""A dataset as a folder: finding, reading and writing its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from crucible.dataset.card import CARD_PATH, MAX_CARD_BYTES, render_card
from crucible.dataset.files import read_bounded, write_durably
from crucible.dataset.manifest import MANIFEST_PATH, MAX_MANIFEST_BYTES, Manifest
from crucible.dataset.rows import read_rows
from crucible.dataset.stats import dataset_stats
from crucible.errors import FormatError, TargetNotFoundError, UnfinishedError
from crucible.trajectory import Trajectory
from crucible.worlds import World

__all__ = [
    "JOURNAL_PATH",
    "MANIFEST_PATH",
    "add_world",
    "check_finished",
    "is_dataset",
    "is_unfinished",
    "read_card",
    "read_manifest",
    "read_trajectories",
    "read_worlds",
    "unlisted_files",
    "unlisted_names",
    "write_card",
    "write_dataset_files",
]

JOURNAL_PATH = "crucible/journal.json"

_LICENCES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "NOTICE.txt")
_FREE_SUFFIXES = (".png", ".jpg", ".jpeg", ".svg", ".gif", ".webp")


def is_dataset(folder: Path) -> bool:
    """Whether ``folder`` holds a dataset of ours: something is where the manifest should be."""
    return os.path.lexists(folder / MANIFEST_PATH)


def is_unfinished(folder: Path) -> bool:
    """Whether ``folder`` is being recorded into, or was when the recorder was killed."""
    return os.path.lexists(folder / JOURNAL_PATH)


def check_finished(folder: Path) -> None:
    """Nothing, if nobody is in the middle of writing ``folder``.

    Raises:
        UnfinishedError: if somebody is, or was killed.
    """
    if is_unfinished(folder):
        raise UnfinishedError(
            f"{folder} is being recorded into, or a recording there was killed: the next "
            "crucible record into it takes away what is incomplete"
        )


def read_manifest(folder: Path, *, even_unfinished: bool = False) -> Manifest:
    """The manifest of the dataset in ``folder``.

    Raises:
        UnfinishedError: if the folder is in the middle of a recording.
        TargetNotFoundError: if there is no such folder or manifest.
        FormatError: if the manifest is malformed.
    """
    path = folder / MANIFEST_PATH
    if not even_unfinished:
        check_finished(folder)
    if not is_dataset(folder):
        raise TargetNotFoundError(f"{folder} holds no dataset: {MANIFEST_PATH} is not there")
    return Manifest.from_bytes(read_bounded(path, MAX_MANIFEST_BYTES))


def read_card(folder: Path) -> str:
    """The text of the dataset card.

    Raises:
        FormatError: if there is none, or it is no text.
    """
    try:
        return read_bounded(folder / CARD_PATH, MAX_CARD_BYTES).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{CARD_PATH} is not UTF-8: {error}") from None


def read_worlds(folder: Path, manifest: Manifest) -> dict[str, World]:
    """Digest → world, over every ``worlds`` shard.

    Raises:
        FormatError: if a shard cannot be read, or a world is not what its digest says.
    """
    worlds: dict[str, World] = {}
    for shard in manifest.shards_of("worlds"):
        for row in read_rows(folder / shard.path, "worlds"):
            add_world(worlds, row, shard.path)
    return worlds


def add_world(worlds: dict[str, World], row: dict[str, Any], where: str) -> None:
    """Put the world of a row of ``where`` into ``worlds``.

    Raises:
        FormatError: if the world is not what its digest says, or differs from one that is there.
    """
    required = ("world", "env_id", "env_version", "kwargs", "toolchain_needs", "seeded")
    if any(row[name] is None for name in required) or None in row["toolchain_needs"]:
        raise FormatError(f"{where}: a world holds null")
    world = World.from_row(row)
    if world.digest != row["world"]:
        raise FormatError(f"{where}: world {row['world']:.80} has digest {world.digest}")
    if not isinstance(world.kwargs, dict):
        raise FormatError(f"{where}: kwargs of {world.env_id:.80} are no object")
    if worlds.setdefault(world.digest, world) != world:
        raise FormatError(f"{where}: world {world.digest} occurs with two contents")


def read_trajectories(folder: Path) -> Iterator[Trajectory]:
    """Every trajectory of the dataset in ``folder``, in manifest order; checks nothing else.

    Raises:
        FormatError: if a row is malformed.
    """
    from crucible.dataset.schema import trajectory_of

    manifest = read_manifest(folder)
    worlds = read_worlds(folder, manifest)
    for shard in manifest.shards_of("trajectories"):
        for row in read_rows(folder / shard.path, "trajectories"):
            if row["world"] not in worlds:
                raise FormatError(f"{shard.path}: world {row['world']} is in no worlds shard")
            yield trajectory_of(row, worlds[row["world"]])


def unlisted_files(folder: Path, manifest: Manifest) -> list[str]:
    """:func:`unlisted_names` over the files of a folder."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return unlisted_names((path.relative_to(folder).as_posix() for path in paths), manifest)


def unlisted_names(names: Iterable[str], manifest: Manifest) -> list[str]:
    """Files that ``load_dataset`` could read or that look like ours, but are not in the manifest.

    Free are the card, licences, images, dot files other than ``.huggingface.yaml``, and reports.
    """
    listed = {shard.path for shard in manifest.shards} | {MANIFEST_PATH, CARD_PATH}
    return [name for name in sorted(names) if name not in listed and not _is_free(name)]


def _is_free(name: str) -> bool:
    base = name.rpartition("/")[2]
    if any(part.startswith(".") for part in name.split("/")):
        return base != ".huggingface.yaml"
    if name.startswith("crucible/verification/") and name.endswith(".json"):
        return True
    return name in _LICENCES or name.lower().endswith(_FREE_SUFFIXES)


def write_dataset_files(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, then the card, keeping the card's own text.

    Raises:
        FormatError: if a shard cannot be read.
    """
    write_durably(folder / MANIFEST_PATH, manifest.to_bytes())
    write_card(folder, manifest)


def write_card(folder: Path, manifest: Manifest) -> None:
    """Write the card, keeping its own text.

    Raises:
        FormatError: if a shard cannot be read.
    """
    stats = dataset_stats(folder, manifest.shards_of("trajectories"))
    previous = read_card(folder) if (folder / CARD_PATH).is_file() else None
    card = render_card(manifest, stats, previous=previous)
    write_durably(folder / CARD_PATH, card.encode())
