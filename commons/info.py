"""What is known of a dataset on the Hub without downloading its episodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crucible.commons.client import check_repo_id, hub_api, hub_errors
from crucible.dataset.folder import MANIFEST_PATH
from crucible.dataset.manifest import Manifest, Recording

__all__ = ["DatasetInfo", "dataset_info"]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """One revision of a dataset on the Hub, as its manifest and the Hub state it."""

    repo_id: str
    commit: str
    root: str
    manifest: str
    num_rows: int
    num_worlds: int
    num_bytes: int
    private: bool | None
    last_modified: str | None
    tags: tuple[str, ...]
    recordings: tuple[Recording, ...]

    def to_dict(self) -> dict[str, Any]:
        """The information as plain JSON values."""
        recordings = [{"id": r.id, **asdict(r)} for r in self.recordings]
        return {**asdict(self), "tags": list(self.tags), "recordings": recordings}


def dataset_info(repo_id: str, revision: str | None = None) -> DatasetInfo:
    """What the manifest of ``repo_id`` at ``revision`` (the main branch if None) says.

    Raises:
        HubError: if the Hub cannot give it.
        FormatError: if it is not a dataset of ours.
    """
    check_repo_id(repo_id)
    api = hub_api()
    with hub_errors(f"{repo_id}@{revision or 'main'}"):
        info = api.dataset_info(repo_id, revision=revision)
        path = api.hf_hub_download(repo_id, MANIFEST_PATH, repo_type="dataset", revision=info.sha)
    manifest = Manifest.from_bytes(Path(path).read_bytes())
    return DatasetInfo(
        repo_id=repo_id,
        commit=str(info.sha),
        root=manifest.root,
        manifest=manifest.digest,
        num_rows=manifest.num_rows,
        num_worlds=len(manifest.worlds),
        num_bytes=sum(shard.bytes for shard in manifest.shards),
        private=info.private,
        last_modified=info.last_modified.isoformat() if info.last_modified else None,
        tags=tuple(info.tags or ()),
        recordings=manifest.recordings,
    )
