from __future__ import annotations

import json

import pytest
from walking import RecordWalks

from crucible.cli import main
from crucible.dataset.folder import read_manifest
from crucible.proofs import AppendProof, InclusionProof


def test_info_states_proofs_that_hold(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks(seeds=(range(3),))
    old = read_manifest(folder).root
    record_walks(seeds=(range(3, 5),), kwargs={"goal": 4})
    new = read_manifest(folder).root
    assert main(["info", str(folder), "--row", "4", "--since", old, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["root"], body["rows"], body["commit"]) == (new, 5, None)
    proofs = [InclusionProof.from_dict(shard["proof"]) for shard in body["shards"]]
    assert len(proofs) == 4
    in_shard, in_dataset = (InclusionProof.from_dict(body["row"][k]) for k in ("shard", "dataset"))
    assert all(proof.holds() and proof.root == new for proof in (*proofs, in_dataset))
    assert in_shard.holds()
    assert in_shard.root == body["shards"][in_dataset.index]["root"]
    append = AppendProof.from_dict(body["append"])
    assert append.holds() and (append.old_root, append.new_root) == (old, new)


def test_info_says_it_for_people(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    root = read_manifest(folder).root
    assert main(["info", str(folder), "--row", "0", "--since", root]) == 0
    out = capsys.readouterr().out
    assert f"root {root}, 2 shards" in out
    assert "row 0 is leaf " in out and "its 2 shards are unchanged, 0 were added" in out


def test_what_cannot_be_proven_is_one_error(
    record_walks: RecordWalks, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record_walks()
    assert main(["info", str(folder), "--row", "9"]) == 2
    assert "rows 0 to 4" in capsys.readouterr().err
    assert main(["info", str(folder), "--since", "0" * 64]) == 1
    assert "does not extend" in capsys.readouterr().err
    assert main(["info", str(folder / "data")]) == 2
    assert main(["info", "nothing-here"]) == 2
