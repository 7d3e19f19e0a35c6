"""Who stands for a world, and the forged world that replays perfectly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crucible.anchors import Anchors
from crucible.recording import Plan, record_plan
from crucible.suites import loadable_suites
from crucible.trust import TrustFile, write_trust
from crucible.verification import verify_dataset
from crucible.world_references import resolve_worlds
from crucible.worlds import World, world_of


def payroll() -> World:
    (world,) = resolve_worlds("sql-skills/payroll", {})
    return world


def forged() -> World:
    """The payroll task with an answer key that fits a wrong answer."""
    kwargs = {**payroll().kwargs, "expected_rows": [["Research", 1]]}
    (world,) = resolve_worlds("sql-task", kwargs)
    return world


def test_bundled_worlds_are_anchored_for_everybody() -> None:
    anchors = Anchors()
    for suite in loadable_suites():
        for entry in suite.worlds:
            (world,) = resolve_worlds(f"{suite.name}/{entry.name}", {})
            assert anchors.of(world) == "bundled", world.label


def test_digests_of_bundled_worlds_are_their_own() -> None:
    digests = [
        resolve_worlds(f"{suite.name}/{entry.name}", {})[0].digest
        for suite in loadable_suites()
        for entry in suite.worlds
    ]
    assert len(set(digests)) == len(digests)


def test_a_world_started_bare_has_the_label_of_its_suite() -> None:
    (bare,) = resolve_worlds("sql-task", payroll().kwargs)
    assert bare == payroll()
    assert bare.label == "sql-skills/payroll"


def test_a_forged_world_reproduces_and_is_named_as_not_anchored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = forged()
    record_plan(Plan((world,), (range(2),), "null"), tmp_path / "d", workers=1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "the victim"))
    report = verify_dataset(tmp_path / "d", workers=1)
    assert report.counts["reproduced"] == 2
    assert report.exit_code == 3
    assert report.unanchored == {world.digest: "sql-task"}


def test_every_change_of_a_world_is_another_world() -> None:
    world = payroll()
    changed = [
        world,
        replace(world, env_version="2"),
        replace(world, env_id="sql-synth"),
        replace(world, kwargs_text="{}"),
        replace(world, code_digest="0" * 64),
    ]
    assert len({w.digest for w in changed}) == 5
    anchors = Anchors()
    assert [anchors.of(w) for w in changed] == ["bundled", None, None, None, None]


def test_pinning_a_suite_pins_its_worlds_as_they_are_installed() -> None:
    write_trust(TrustFile(suites=frozenset({"sql-skills", "gone"})))
    assert Anchors().of(payroll()) == "bundled"
    write_trust(TrustFile(worlds=frozenset({forged().digest})))
    assert Anchors().of(forged()) == "trusted"


def test_live_worlds_are_worlds_of_their_own() -> None:
    from walking import Live, Walk

    assert world_of(Live()).digest != world_of(Walk()).digest
