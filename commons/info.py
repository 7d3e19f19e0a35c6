"""What is known of a dataset without downloading its episodes."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crucible.commons.client import check_repo_id, hub_api, hub_errors
from crucible.dataset.files import read_bounded
from crucible.dataset.folder import MANIFEST_PATH, read_manifest
from crucible.dataset.manifest import MAX_MANIFEST_BYTES, Manifest
from crucible.proofs import InclusionProof, prove_row, prove_shards, shard_of_row

__all__ = ["DatasetInfo", "dataset_info", "prove_row_of"]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What a manifest says, and the Hub where it came from there.

    ``name`` is a repo id or a folder; ``commit``, ``private``, ``last_modified`` and ``tags`` are
    the Hub's, and None or empty for a folder.
    """

    name: str
    manifest: Manifest
    commit: str | None = None
    private: bool | None = None
    last_modified: str | None = None
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The information as plain JSON values; every shard with its inclusion proof."""
        manifest = self.manifest
        return {
            "name": self.name,
            "commit": self.commit,
            "root": manifest.root,
            "manifest": manifest.digest,
            "extends": manifest.extends,
            "rows": manifest.num_rows,
            "worlds": len(manifest.worlds),
            "bytes": sum(shard.bytes for shard in manifest.shards),
            "private": self.private,
            "last_modified": self.last_modified,
            "tags": list(self.tags),
            "recordings": [{"id": r.id, **asdict(r)} for r in manifest.recordings],
            "shards": [
                {**asdict(shard), "proof": proof.to_dict()}
                for shard, proof in zip(manifest.shards, prove_shards(manifest), strict=True)
            ],
        }


def dataset_info(target: str | Path, revision: str | None = None) -> DatasetInfo:
    """What the manifest of ``target`` says: a folder, or a repo id at ``revision`` (the main
    branch if None).

    Raises:
        HubError: if the Hub cannot give it.
        TargetNotFoundError: if the folder holds no dataset.
        FormatError: if it is not a dataset of ours.
    """
    if isinstance(target, Path):
        return DatasetInfo(str(target), read_manifest(target))
    check_repo_id(target)
    api = hub_api()
    with hub_errors(f"{target}@{revision or 'main'}"):
        info = api.dataset_info(target, revision=revision)
        path = api.hf_hub_download(target, MANIFEST_PATH, repo_type="dataset", revision=info.sha)
    data = read_bounded(Path(path).resolve(), MAX_MANIFEST_BYTES)
    return DatasetInfo(
        name=target,
        manifest=Manifest.from_bytes(data),
        commit=str(info.sha),
        private=info.private,
        last_modified=info.last_modified.isoformat() if info.last_modified else None,
        tags=tuple(info.tags or ()),
    )


def prove_row_of(info: DatasetInfo, row: int) -> tuple[InclusionProof, InclusionProof]:
    """:func:`crucible.proofs.prove_row`; of a dataset on the Hub, only the row's shard is
    downloaded.

    Raises:
        UsageError: if there is no such row.
        HubError: if the Hub cannot give the shard.
        IntegrityError: if the shard's rows do not have the root that the manifest states.
    """
    if info.commit is None:
        return prove_row(Path(info.name), row)
    shard, _ = shard_of_row(info.manifest, row)
    with tempfile.TemporaryDirectory(prefix="crucible-shard-") as folder:
        with hub_errors(f"{info.name}@{info.commit}"):
            for name in (MANIFEST_PATH, shard.path):
                hub_api().hf_hub_download(
                    info.name, name, repo_type="dataset", revision=info.commit, local_dir=folder
                )
        return prove_row(Path(folder), row)
