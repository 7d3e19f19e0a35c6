"""Push: one commit with everything, or nothing."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.commons.client import check_repo_id, hub_api, hub_errors, is_stale_parent
from crucible.commons.merging import extends, merge
from crucible.dataset.card import CARD_PATH, NOT_REPLAYED, render_card
from crucible.dataset.folder import MANIFEST_PATH, read_card, read_manifest
from crucible.dataset.manifest import Manifest, Shard
from crucible.dataset.stats import dataset_stats
from crucible.errors import HubError, IntegrityError, PolicyError
from crucible.verdicts import VerificationReport
from crucible.verification import verify_dataset
from crucible.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["PushOptions", "PushResult", "push_dataset"]

MAX_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How to publish.

    ``public`` makes a new repository public; ``replay`` re-runs every episode first; ``replace``
    lets rows that are on the Hub vanish; ``license`` goes into the card; ``tag`` is set on the
    commit.
    """

    public: bool = False
    replay: bool = True
    replace: bool = False
    license: str | None = None
    tag: str | None = None
    message: str = "Add trajectories"
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class PushResult:
    """What is on the Hub now. ``uploaded`` are the shards that were sent, ``num_bytes`` their
    size; both are empty where nothing was new."""

    repo_id: str
    commit: str
    root: str
    uploaded: tuple[str, ...]
    num_bytes: int


def push_dataset(folder: Path, repo_id: str, options: PushOptions | None = None) -> PushResult:
    """Publish the dataset in ``folder`` as ``repo_id``.

    Everything is checked and, unless told otherwise, re-run first. Only shards that the Hub lacks
    are sent; one commit holds them with manifest and card. Where somebody else has appended to
    the same dataset meanwhile, both are kept.

    Raises:
        PolicyError: if a row does not reproduce, rows on the Hub would vanish, or an existing
            repository is public and ``public`` was not asked for.
        IntegrityError: if the dataset does not agree with itself, or the Hub with what was sent.
        HubError: if the Hub cannot take it.
    """
    options = options or PushOptions()
    check_repo_id(repo_id)
    report = _gate(folder, options)
    api = hub_api()
    with hub_errors(repo_id):
        api.create_repo(repo_id, repo_type="dataset", private=not options.public, exist_ok=True)
        is_private = api.dataset_info(repo_id).private
    if not is_private and not options.public:
        raise PolicyError(f"{repo_id} is public already: push with --public to publish there")
    with tempfile.TemporaryDirectory(prefix="crucible-push-") as temporary:
        result = _commit_until_it_holds(
            _Push(api, repo_id, folder, Path(temporary), options, _replay_line(report, options))
        )
    if options.tag is not None:
        _tag(api, repo_id, result.commit, options.tag)
    return result


@dataclass(frozen=True, slots=True)
class _Push:
    api: HfApi
    repo_id: str
    folder: Path
    temporary: Path
    options: PushOptions
    replay_line: str


def _gate(folder: Path, options: PushOptions) -> VerificationReport:
    report = verify_dataset(
        folder,
        workers=options.workers,
        allow_unanchored=True,
        replay=options.replay,
    )
    if report.findings:
        first = report.findings[0]
        raise IntegrityError(f"{folder} is not fit to publish: {first.where}: {first.what}")
    bad = {status: count for status, count in report.counts.items() if count}
    bad.pop("reproduced", None)
    if not options.replay:
        bad.pop("unverifiable", None)
    if bad:
        counted = ", ".join(f"{count} {status}" for status, count in bad.items())
        raise PolicyError(
            f"{folder} is not fit to publish: {counted} of {report.num_rows} rows "
            "(crucible verify names them)"
        )
    return report


def _replay_line(report: VerificationReport, options: PushOptions) -> str:
    if not options.replay:
        return NOT_REPLAYED
    return (
        f"Before publishing, all {report.num_rows} episodes were re-run with Crucible "
        f"{__version__} and every claim came out equal. That is the publisher's word: verify it."
    )


def _commit_until_it_holds(push: _Push) -> PushResult:
    """Try until no other commit comes between reading the head and writing on it."""
    from huggingface_hub.errors import HfHubHTTPError

    for attempt in range(MAX_ATTEMPTS):
        with hub_errors(push.repo_id):
            head = push.api.dataset_info(push.repo_id, revision="main").sha
        assert head is not None
        manifest, files = _plan(push, head)
        uploads = _missing_shards(push, head, manifest)
        if uploads is None:
            return PushResult(push.repo_id, head, manifest.root, (), 0)
        try:
            commit = _commit(push, head, manifest, files=files, uploads=uploads)
        except HubError as error:
            cause = error.__cause__
            lost = not isinstance(cause, HfHubHTTPError) and _landed(push, manifest)
            if not lost:
                # Whoever replaces decided for the rows that he saw, not for newer ones.
                final = attempt == MAX_ATTEMPTS - 1 or push.options.replace
                if not is_stale_parent(cause) or final:
                    raise
                time.sleep(random.uniform(0.05, 0.3) * 2 ** min(attempt, 4))
                continue
            commit = lost
        _read_back(push, commit, manifest)
        sent = tuple(shard.path for shard in uploads)
        num_bytes = sum(shard.bytes for shard in uploads)
        return PushResult(push.repo_id, commit, manifest.root, sent, num_bytes)
    raise HubError(f"{push.repo_id}: others commit faster than we can: try again later")


def _plan(push: _Push, head: str) -> tuple[Manifest, Path]:
    """The manifest to publish on top of ``head``, and the folder that holds all its shards."""
    ours = read_manifest(push.folder)
    theirs = _remote_manifest(push, head)
    if theirs is None or push.options.replace or extends(ours, theirs):
        return ours, push.folder
    if extends(theirs, ours):
        return theirs, _with_remote(push, head, theirs)
    merged = merge(ours, theirs, folder=push.folder)
    return merged, _with_remote(push, head, merged)


def _remote_manifest(push: _Push, head: str) -> Manifest | None:
    from huggingface_hub.errors import EntryNotFoundError

    with hub_errors(push.repo_id):
        try:
            path = push.api.hf_hub_download(
                push.repo_id, MANIFEST_PATH, repo_type="dataset", revision=head
            )
        except EntryNotFoundError:
            return None
    return Manifest.from_bytes(Path(path).read_bytes())


def _with_remote(push: _Push, head: str, manifest: Manifest) -> Path:
    """A folder with every shard of ``manifest``: ours, and from the Hub what we lack."""
    together = push.temporary / "together"
    lacking = [shard.path for shard in manifest.shards if not (push.folder / shard.path).is_file()]
    if lacking:
        with hub_errors(push.repo_id):
            push.api.snapshot_download(
                push.repo_id,
                repo_type="dataset",
                revision=head,
                allow_patterns=lacking,
                local_dir=together,
            )
    for shard in manifest.shards:
        target = together / shard.path
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(push.folder / shard.path, target)
    return together


def _missing_shards(push: _Push, head: str, manifest: Manifest) -> list[Shard] | None:
    """The shards that the Hub lacks; None where it has exactly this manifest."""
    remote = _remote_manifest(push, head)
    if remote == manifest and push.options.license is None:
        return None
    present = _large_files(push, head)
    return [shard for shard in manifest.shards if present.get(shard.path) != shard.sha256]


def _large_files(push: _Push, commit: str) -> dict[str, str]:
    """Path → SHA-256 of every large file in a commit."""
    with hub_errors(push.repo_id):
        entries = push.api.list_repo_tree(
            push.repo_id, repo_type="dataset", revision=commit, recursive=True
        )
        found = ((entry.path, getattr(entry, "lfs", None)) for entry in entries)
        return {path: lfs.sha256 for path, lfs in found if lfs is not None}


def _commit(
    push: _Push, head: str, manifest: Manifest, *, files: Path, uploads: Sequence[Shard]
) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    stats = dataset_stats(files, manifest.shards_of("trajectories"))
    card = render_card(
        manifest,
        stats,
        previous=read_card(push.folder),
        repo_id=push.repo_id,
        replay_line=push.replay_line,
        keys={"license": push.options.license} if push.options.license else None,
    )
    shards = [CommitOperationAdd(shard.path, files / shard.path) for shard in uploads]
    operations: list[Any] = [
        *shards,
        CommitOperationAdd(MANIFEST_PATH, manifest.to_bytes()),
        CommitOperationAdd(CARD_PATH, card.encode()),
    ]
    listed = {shard.path for shard in manifest.shards}
    stale = [path for path in _large_files(push, head) if path not in listed]
    operations += [CommitOperationDelete(path) for path in stale if push.options.replace]
    with hub_errors(push.repo_id):
        if shards:
            push.api.preupload_lfs_files(push.repo_id, additions=shards, repo_type="dataset")
        return push.api.create_commit(
            push.repo_id,
            operations,
            commit_message=push.options.message,
            repo_type="dataset",
            parent_commit=head,
        ).oid


def _landed(push: _Push, manifest: Manifest) -> str | None:
    """The head, if the commit whose answer was lost is there after all."""
    with hub_errors(push.repo_id):
        head = push.api.dataset_info(push.repo_id, revision="main").sha
    assert head is not None
    return head if _remote_manifest(push, head) == manifest else None


def _read_back(push: _Push, commit: str, manifest: Manifest) -> None:
    present = _large_files(push, commit)
    wrong = [shard.path for shard in manifest.shards if present.get(shard.path) != shard.sha256]
    if wrong or _remote_manifest(push, commit) != manifest:
        place = wrong[0] if wrong else MANIFEST_PATH
        raise IntegrityError(f"{push.repo_id}@{commit[:12]}: {place} is not what was sent")


def _tag(api: HfApi, repo_id: str, commit: str, tag: str) -> None:
    from huggingface_hub.errors import HfHubHTTPError

    with hub_errors(f"{repo_id}, tag {tag}"):
        try:
            api.create_tag(repo_id, tag=tag, revision=commit, repo_type="dataset")
        except HfHubHTTPError as error:
            refs = api.list_repo_refs(repo_id, repo_type="dataset")
            if {ref.name: ref.target_commit for ref in refs.tags}.get(tag) != commit:
                raise error
