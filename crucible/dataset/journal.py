"""Whether somebody is writing a dataset: a file that is there from the first byte to the last."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crucible.dataset.card import check_card
from crucible.dataset.files import sync_folder, write_durably
from crucible.dataset.folder import (
    JOURNAL_PATH,
    is_dataset,
    is_unfinished,
    read_card,
    read_manifest,
    write_card,
)
from crucible.dataset.manifest import Manifest
from crucible.errors import FormatError, IntegrityError

__all__ = ["journal", "recover"]

_OURS = re.compile(r"[a-z0-9._-]+-[0-9a-f]{16}\.parquet|\..*\.tmp")


@contextmanager
def journal(folder: Path) -> Iterator[None]:
    """Mark ``folder`` as being written inside the block. Whatever ends the block early, what was
    complete before it stays, and nothing of it is left; so too after a run that was killed.

    Raises:
        FormatError: if the manifest that is there cannot be read.
    """
    recover(folder)
    write_durably(folder / JOURNAL_PATH, b'{"format":1}')
    try:
        yield
    except BaseException:
        recover(folder)
        raise
    (folder / JOURNAL_PATH).unlink()
    sync_folder(folder / "crucible")


def recover(folder: Path) -> None:
    """Bring a folder that was left in the middle of a recording back to the last dataset that was
    complete in it; nothing, where there is no journal."""
    if not is_unfinished(folder):
        return
    manifest = read_manifest(folder, even_unfinished=True) if is_dataset(folder) else None
    listed = {shard.path for shard in manifest.shards} if manifest else set()
    for place in (".", "crucible", "data", "worlds"):
        for path in (folder / place).glob("*"):
            name = path.relative_to(folder).as_posix()
            if name not in listed and _OURS.fullmatch(path.name) and path.is_file():
                path.unlink()
    if manifest is not None:
        _mend_card(folder, manifest)
    (folder / JOURNAL_PATH).unlink()
    for place in ("data", "worlds", "crucible"):
        with contextlib.suppress(OSError):
            (folder / place).rmdir()


def _mend_card(folder: Path, manifest: Manifest) -> None:
    """The card is written after the manifest, and may still be that of the one before."""
    try:
        check_card(read_card(folder), manifest)
    except (FormatError, IntegrityError):
        write_card(folder, manifest)
