from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tampering import forge_rows
from walking import RecordWalks

from crucible.dataset.folder import read_manifest
from crucible.dataset.manifest import Shard
from crucible.errors import FormatError, IntegrityError, UsageError
from crucible.fingerprints import leaf_hash
from crucible.proofs import (
    AppendProof,
    InclusionProof,
    prove_append,
    prove_row,
    prove_shards,
)


def shard(number: int) -> Shard:
    return Shard("trajectories", f"data/train-{number}", "train", f"{number:064x}", 1, 2, "0" * 64)


def test_the_root_depends_on_order_rows_and_both_digests(record_walks: RecordWalks) -> None:
    manifest = read_manifest(record_walks())
    a, b = shard(1), shard(2)
    changed = [replace(a, rows=3), replace(a, root="e" * 64), replace(a, sha256="d" * 64)]
    lists = [(a, b), (b, a), (a,), (), *[(each, b) for each in changed]]
    assert len({replace(manifest, shards=each).root for each in lists}) == len(lists)


def test_a_row_is_proven_with_nothing_but_the_root(record_walks: RecordWalks) -> None:
    folder = record_walks(seeds=(range(5),))
    record_walks(seeds=(range(5, 8),))
    manifest = read_manifest(folder)
    for row in range(8):
        in_shard, in_dataset = prove_row(folder, row)
        assert in_shard.holds() and in_dataset.holds()
        assert in_dataset.root == manifest.root
        bound = {"rows": in_shard.size, "root": in_shard.root}
        found = manifest.shards[in_dataset.index]
        assert in_dataset.leaf == leaf_hash({**bound, "sha256": found.sha256}).hex()
        for proof in (in_shard, in_dataset):
            assert InclusionProof.from_dict(proof.to_dict()) == proof
            assert not replace(proof, leaf="0" * 64).holds()
            assert not replace(proof, root="0" * 64).holds()
    with pytest.raises(UsageError, match="rows 0 to 7"):
        prove_row(folder, 8)


def test_no_row_is_proven_in_a_shard_that_was_edited(record_walks: RecordWalks) -> None:
    folder = record_walks()
    manifest = read_manifest(folder)
    forge_rows(folder, lambda rows: rows[0].update(seed=1))
    (honest,), (forged,) = (m.shards_of("trajectories") for m in (manifest, read_manifest(folder)))
    (folder / forged.path).rename(folder / honest.path)
    (folder / "crucible/manifest.json").write_bytes(manifest.to_bytes())
    with pytest.raises(IntegrityError, match="do not have the root"):
        prove_row(folder, 0)


def test_every_append_proves_that_it_kept_what_was_there(record_walks: RecordWalks) -> None:
    roots = []
    for number in range(5):
        kwargs = {"goal": 3 + number // 2}
        folder = record_walks(seeds=(range(number, number + 1),), kwargs=kwargs)
        manifest = read_manifest(folder)
        roots.append(manifest.root)
        for root in roots:
            proof = prove_append(manifest, root)
            assert proof.holds()
            assert (proof.old_root, proof.new_root) == (root, manifest.root)
            assert AppendProof.from_dict(proof.to_dict()) == proof
    assert all(proof.holds() for proof in prove_shards(manifest))
    for shards in (manifest.shards[1:], manifest.shards[::-1]):
        with pytest.raises(IntegrityError, match="does not extend"):
            prove_append(replace(manifest, shards=shards), roots[0])


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"leaf": "0"},
        {"leaf": "0" * 64 + "\n"},
        {"index": -1},
        {"size": True},
        {"path": "0"},
        {"path": ["x"]},
    ],
)
def test_a_malformed_proof_is_refused(record_walks: RecordWalks, change: dict[str, Any]) -> None:
    proof, _ = prove_row(record_walks(), 0)
    with pytest.raises(FormatError):
        InclusionProof.from_dict({**proof.to_dict(), **change})
    with pytest.raises(FormatError):
        AppendProof.from_dict(proof.to_dict())
