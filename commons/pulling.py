"""Pull: a dataset of the Hub as a folder, every byte checked before anything is visible."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from crucible.canonical import canonical_text
from crucible.commons.client import check_repo_id, hub_api, hub_errors
from crucible.commons.merging import extends
from crucible.dataset.card import CARD_PATH, check_card
from crucible.dataset.files import file_sha256, write_durably
from crucible.dataset.folder import (
    MANIFEST_PATH,
    is_dataset,
    read_card,
    read_manifest,
    unlisted_names,
)
from crucible.dataset.manifest import Manifest
from crucible.errors import DigestMismatchError, IntegrityError, PolicyError, UsageError
from crucible.state import state_folder

__all__ = ["Pulled", "pull_dataset", "pull_to_cache"]

DEFAULT_REVISION = "main"


@dataclass(frozen=True, slots=True)
class Pulled:
    """Where a dataset is now, and which commit and root it has."""

    path: Path
    repo_id: str
    commit: str
    root: str


def pull_dataset(
    repo_id: str, *, local_dir: Path | None = None, revision: str | None = None
) -> Pulled:
    """Download a dataset at one commit into ``local_dir`` (``./NAME`` if None).

    The dataset in ``local_dir`` is replaced in one step at the end, and left alone if anything
    fails. Rows that only ``local_dir`` has are never dropped; a user's own files beside the
    dataset stay.

    Raises:
        HubError: if the Hub cannot give the dataset.
        UsageError: if ``local_dir`` holds something that is not a dataset.
        PolicyError: if ``local_dir`` holds rows that the Hub has not.
        FormatError: if what the Hub gives is not a dataset of ours.
        IntegrityError: if its files or bytes are not what its manifest says.
    """
    check_repo_id(repo_id)
    target = local_dir or Path(repo_id.rpartition("/")[2])
    if (
        target.exists()
        and not is_dataset(target)
        and (not target.is_dir() or any(target.iterdir()))
    ):
        raise UsageError(f"{target} holds something else: choose another --local-dir")
    commit = resolve_commit(repo_id, revision)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        fresh = Path(temporary) / "dataset"
        manifest = _download(repo_id, commit, fresh)
        _keep_what_is_only_here(target, fresh, manifest)
        _replace(target, fresh, Path(temporary) / "old")
    pulled = Pulled(target, repo_id, commit, manifest.root)
    _write_lock(pulled, manifest)
    return pulled


def pull_to_cache(repo_id: str, revision: str | None = None, *, loose: bool = False) -> Path:
    """The folder of a checked copy below the user's cache folder, downloaded if it is not there.

    With ``loose``, a repository without a manifest is no error: its Parquet files are downloaded.

    Raises:
        HubError: if the Hub cannot give the dataset.
        FormatError: if what the Hub gives is not a dataset of ours.
        IntegrityError: if its bytes are not what its manifest says.
    """
    check_repo_id(repo_id)
    commit = resolve_commit(repo_id, revision)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    target = Path(base) / "crucible" / "datasets" / repo_id.replace("/", "--") / commit
    if is_dataset(target):
        return target
    if loose and not _has_manifest(repo_id, commit):
        return _pull_loose(repo_id, commit, target.with_name(f"{commit}-loose"))
    pull_dataset(repo_id, revision=commit, local_dir=target)
    return target


def resolve_commit(repo_id: str, revision: str | None) -> str:
    """The 40-digit commit that a branch, tag or commit names now.

    Raises:
        HubError: if there is none.
    """
    named = revision or DEFAULT_REVISION
    with hub_errors(f"{repo_id}@{named}"):
        commit = hub_api().dataset_info(repo_id, revision=named).sha
    if commit is None:
        raise UsageError(f"{repo_id}@{named}: the Hub names no commit")
    return commit


def _has_manifest(repo_id: str, commit: str) -> bool:
    with hub_errors(f"{repo_id}@{commit[:12]}"):
        return hub_api().file_exists(repo_id, MANIFEST_PATH, repo_type="dataset", revision=commit)


def _pull_loose(repo_id: str, commit: str, target: Path) -> Path:
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        fresh = Path(temporary) / "files"
        fresh.mkdir()
        with hub_errors(f"{repo_id}@{commit[:12]}"):
            hub_api().snapshot_download(
                repo_id,
                repo_type="dataset",
                revision=commit,
                allow_patterns=["*.parquet"],
                local_dir=fresh,
            )
        shutil.rmtree(fresh / ".cache", ignore_errors=True)
        os.rename(fresh, target)
    return target


def _download(repo_id: str, commit: str, folder: Path) -> Manifest:
    """Download exactly what the manifest lists, and check all of it."""
    api = hub_api()
    with hub_errors(f"{repo_id}@{commit[:12]}"):
        for name in (MANIFEST_PATH, CARD_PATH):
            api.hf_hub_download(
                repo_id, name, repo_type="dataset", revision=commit, local_dir=folder
            )
    manifest = read_manifest(folder)
    with hub_errors(f"{repo_id}@{commit[:12]}"):
        names = api.list_repo_files(repo_id, repo_type="dataset", revision=commit)
    unlisted = unlisted_names(names, manifest)
    if unlisted:
        raise IntegrityError(f"{repo_id}: {unlisted[0]} is not in the manifest")
    paths = [shard.path for shard in manifest.shards]
    with hub_errors(f"{repo_id}@{commit[:12]}"):
        api.snapshot_download(
            repo_id,
            repo_type="dataset",
            revision=commit,
            allow_patterns=[*paths, "LICENSE*", "NOTICE*"],
            local_dir=folder,
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    check_card(read_card(folder), manifest)
    for shard in manifest.shards:
        path = folder / shard.path
        actual = file_sha256(path) if path.is_file() else "nothing"
        if actual != shard.sha256:
            raise DigestMismatchError(shard.path, expected=shard.sha256, actual=actual)
    return manifest


def _keep_what_is_only_here(target: Path, fresh: Path, manifest: Manifest) -> None:
    """Carry a user's own files over; refuse to drop rows.

    Raises:
        PolicyError: if ``target`` holds a recording that ``manifest`` has not.
    """
    if not is_dataset(target):
        return
    old = read_manifest(target)
    if not extends(manifest, old):
        raise PolicyError(
            f"{target} holds rows that are not in that revision and would vanish: push them "
            "first, or choose another --local-dir"
        )
    listed = {shard.path for shard in old.shards} | {MANIFEST_PATH, CARD_PATH}
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target)
        if path.is_dir() or name.as_posix() in listed or (fresh / name).exists():
            continue
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, fresh / name, follow_symlinks=False)


def _replace(target: Path, fresh: Path, old: Path) -> None:
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(fresh, target)
    except BaseException:
        if old.exists():
            os.rename(old, target)
        raise


def _write_lock(pulled: Pulled, manifest: Manifest) -> None:
    """Remember what was pulled where, outside the dataset."""
    path = pulled.path.resolve()
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    body = {
        "format": 1,
        "path": str(path),
        "repo_id": pulled.repo_id,
        "commit": pulled.commit,
        "root": pulled.root,
        "manifest": manifest.digest,
    }
    write_durably(state_folder() / "pulls" / f"{name}.json", canonical_text(body).encode())
