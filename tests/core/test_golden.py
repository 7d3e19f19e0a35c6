"""``tests/data/format-1``: a dataset that must stay readable for ever, and whose environments may
not change what they do without a new ``env_version`` (see ``make_golden.py``)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from datasets import load_dataset

from crucible.cli import main
from crucible.dataset.folder import read_manifest, read_trajectories
from crucible.proofs import prove_append, prove_row
from crucible.registry import environment_class, registered
from crucible.sandbox import box_problem
from crucible.verification import verify_dataset

DATA = Path(__file__).parent.parent / "data"
GOLDEN = DATA / "format-1"
EXPECTED = json.loads((DATA / "format-1.json").read_text())
BUNDLED = sorted(name for name in registered() if ":" not in name)


def test_it_is_read_as_it_was_written() -> None:
    manifest = read_manifest(GOLDEN)
    assert (manifest.root, manifest.digest) == (EXPECTED["root"], EXPECTED["manifest"])
    fingerprints = [trajectory.fingerprint for trajectory in read_trajectories(GOLDEN)]
    assert fingerprints == EXPECTED["fingerprints"]
    rows = load_dataset(str(GOLDEN))
    stored = [fingerprint for split in rows.values() for fingerprint in split["fingerprint"]]
    assert sorted(stored) == sorted(fingerprints)
    assert len(load_dataset(str(GOLDEN), "worlds")["worlds"]) == len(manifest.worlds)


def test_it_holds_what_a_dataset_can_hold() -> None:
    trajectories = list(read_trajectories(GOLDEN))
    ends = {trajectory.end for trajectory in trajectories}
    assert ends == {"terminated", "max_steps", "agent_stop", "error"}
    assert any(trajectory.messages_text for trajectory in trajectories)
    assert {trajectory.success for trajectory in trajectories} >= {True, False}
    assert len(read_manifest(GOLDEN).recordings) > 10


def test_its_proofs_hold() -> None:
    manifest = read_manifest(GOLDEN)
    for row in range(0, manifest.num_rows, 5):
        assert all(proof.holds() for proof in prove_row(GOLDEN, row))
    assert prove_append(manifest, manifest.root).holds()


def test_everything_in_it_is_consistent(capsys: pytest.CaptureFixture[str]) -> None:
    report = verify_dataset(GOLDEN, replay=False)
    assert report.findings == ()
    assert {verdict.reason for verdict in report.verdicts} == {"not replayed, as asked"}
    assert main(["show", str(GOLDEN)]) == 0
    assert EXPECTED["root"] in capsys.readouterr().out


@pytest.mark.parametrize("env_id", BUNDLED)
def test_every_bundled_environment_is_in_it_in_its_present_version(env_id: str) -> None:
    versions = {
        trajectory.world.env_version
        for trajectory in read_trajectories(GOLDEN)
        if trajectory.world.env_id == env_id
    }
    assert environment_class(env_id).env_version in versions


def test_no_environment_behaves_differently_without_a_new_version() -> None:
    report = verify_dataset(GOLDEN, workers=2, allow_unanchored=True)
    statuses = Counter(verdict.status for verdict in report.verdicts)
    boxed = 0 if box_problem() is None else statuses["unverifiable"]
    assert statuses["reproduced"] + boxed == report.num_rows, [
        (verdict.label, verdict.reason, verdict.mismatches)
        for verdict in report.verdicts
        if verdict.status != "reproduced"
    ]
