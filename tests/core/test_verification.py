from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chatting import Messages, record_chat
from crews import verify
from tampering import Rows, data_path, edit_rows, flip_byte, forge_rows, forge_world
from walking import RecordWalks, Up, Walk

from crucible.dataset.folder import MANIFEST_PATH, read_manifest, write_dataset_files
from crucible.dataset.manifest import Manifest
from crucible.errors import CrucibleError, FormatError, TargetNotFoundError
from crucible.rollouts import rollout
from crucible.verdicts import VerificationReport
from crucible.verification import verify_dataset, verify_trajectory


def check(folder: Path) -> VerificationReport:
    return verify(folder)


def test_an_honest_dataset_verifies(record_walks: RecordWalks) -> None:
    report = check(record_walks(attempts=2))
    assert report.ok
    assert report.counts["reproduced"] == report.num_rows == report.planned == 10
    assert report.num_transcripts == 5
    assert {verdict.anchor for verdict in report.verdicts} == {"recorded"}


def test_worker_processes_give_the_same_report_as_one(record_walks: RecordWalks) -> None:
    folder = record_walks(seeds=(range(40),))
    forge_rows(folder, lambda rows: rows[33]["steps"][0].update(reward=9.0))
    two = verify_dataset(folder, workers=2)
    assert two == check(folder)
    assert two.exit_code == 1


def test_an_edited_reward_is_tampered_and_named(record_walks: RecordWalks) -> None:
    folder = record_walks()
    edit_rows(folder, lambda rows: rows[2]["steps"][1].update(reward=0.75))
    report = check(folder)
    assert report.exit_code == 1
    assert report.counts["tampered"] == 5
    (named,) = [verdict for verdict in report.verdicts if verdict.mismatches]
    assert named.row == 2
    first = named.mismatches[0]
    assert (first.step, first.field, first.recorded) == (1, "reward", "0.75")


def test_a_reward_edited_with_all_hashes_made_to_fit_diverges(record_walks: RecordWalks) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][1].update(reward=0.75))
    report = check(folder)
    assert report.findings == ()
    assert (report.counts["diverged"], report.counts["reproduced"]) == (1, 4)
    assert report.exit_code == 1


def step(**changes: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[1]["steps"][0].update(changes)


def row(**changes: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[1].update(changes)


EDITS: dict[str, Callable[[Rows], Any]] = {
    "observation": step(observation='{"at":7}'),
    "action": step(action="2"),
    "reward": step(reward=0.0001),
    "terminated": step(terminated=True),
    "truncated": step(truncated=True),
    "info": step(info="{}"),
    "digest": step(digest="at:77"),
    "seed": row(seed=99),
    "max_steps": row(max_steps=1),
    "total_reward": row(total_reward=77.0),
    "end": row(end="max_steps"),
    "success": row(success=False),
    "initial_digest": row(initial_digest="?"),
    "reset_info": row(reset_info="{}"),
    "final_observation": row(final_observation="null"),
    "drop last step": lambda rows: rows[1]["steps"].pop(),
    "drop first step": lambda rows: rows[1]["steps"].pop(0),
    "no steps": lambda rows: rows[1]["steps"].clear(),
    "duplicate step": lambda rows: rows[1]["steps"].append(rows[1]["steps"][-1]),
    "reorder steps": lambda rows: rows[1]["steps"].reverse(),
    "swap steps of two episodes": lambda rows: rows[0].update(steps=rows[1]["steps"]),
    "seed that was not planned": row(seed=77),
    "attempt that was not planned": row(attempt=1),
    "drop row": lambda rows: rows.pop(),
    "duplicate row": lambda rows: rows.append(rows[0]),
    "row of another recording": row(recording="0" * 64),
    "world": row(world="0" * 64),
    "split": row(split="test"),
    "suite": row(suite="sql-skills"),
    "env_id": row(env_id="guess"),
    "env_version": row(env_version="7"),
    "error": row(error="made up"),
    "unknown end": row(end="won"),
    "null": row(final_observation=None),
    "text that is not canonical": step(info='{"third": 0.3}'),
}


@pytest.mark.parametrize("hashes", ["left", "made to fit"])
@pytest.mark.parametrize("name", EDITS)
def test_every_edit_is_reported(record_walks: RecordWalks, name: str, hashes: str) -> None:
    folder = record_walks()
    if hashes == "left":
        edit_rows(folder, EDITS[name])
    else:
        fits = name not in ("unknown end", "null", "text that is not canonical")
        forge_rows(folder, EDITS[name], refingerprint=fits)
    assert check(folder).exit_code in (1, 3)
    assert not check(folder).ok


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_in_any_bound_file_is_reported(record_walks: RecordWalks, seed: int) -> None:
    folder = record_walks()
    paths = [data_path(folder), next((folder / "worlds").iterdir()), folder / MANIFEST_PATH]
    flip_byte(paths[seed % 3], 7919 * (seed + 1))
    try:
        report = check(folder)
    except CrucibleError as error:
        assert error.exit_code in (1, 2)
    else:
        assert report.exit_code == 1


FILES: dict[str, Callable[[Path], Any]] = {
    "unlisted shard": lambda d: shutil.copy(data_path(d), d / "data" / "more.parquet"),
    "script": lambda d: (d / "walks.py").write_text(""),
    "hub config": lambda d: (d / ".huggingface.yaml").write_text("a: 1"),
    "infos": lambda d: (d / "dataset_infos.json").write_text("{}"),
    "linked folder": lambda d: (d / "data" / "more").symlink_to(d.parent),
    "link in a hidden place": lambda d: (d / "more").symlink_to("nowhere"),
    "data that calls itself a licence": lambda d: shutil.copy(
        data_path(d), d / "data" / "LICENSE.parquet"
    ),
    "shard gone": lambda d: data_path(d).unlink(),
    "shard is a link": lambda d: replace_by_link(data_path(d), d.parent / "x"),
    "card gone": lambda d: (d / "README.md").unlink(),
    "card without YAML": lambda d: (d / "README.md").write_text("# Hello"),
    "card of another root": lambda d: replace_in(d / "README.md", "root: `", "root: `0"),
    "card that loads less": lambda d: replace_in(d / "README.md", "  default: true\n", ""),
    "card with better figures": lambda d: replace_in(d / "README.md", "| 100% |", "| 99% |"),
    "card with fewer planned": lambda d: replace_in(
        d / "README.md", "Planned attempts: 5", "Planned attempts: 50"
    ),
    "card with a second summary": lambda d: replace_in(
        d / "README.md", "<!-- crucible:begin -->\n", "<!-- crucible:begin -->\n99 episodes\n<!--\n"
    ),
    "card with a second block": lambda d: replace_in(
        d / "README.md", "# Trajectories", "<!-- crucible:begin -->\n<!-- crucible:end -->"
    ),
    "card whose YAML ends elsewhere for others": lambda d: replace_in(
        d / "README.md", "\n---\n", "\n---x: 1\nconfigs: []\n---\n"
    ),
    "card with a carriage return": lambda d: (d / "README.md").write_bytes(
        (d / "README.md").read_bytes().replace(b"---\n", b"---\n# x\r---\n", 1)
    ),
    "card with another line separator": lambda d: replace_in(
        d / "README.md", "---\n", "---\n# x\u2028configs: []\n"
    ),
    "card that casts": lambda d: replace_in(
        d / "README.md", "---\n", "---\ndataset_info: {features: [{name: seed, dtype: bool}]}\n"
    ),
    "worlds with another root": lambda d: change_worlds_shard(d, root="0" * 64),
    "worlds with more rows": lambda d: change_worlds_shard(d, rows=1000),
    "worlds that are not there": lambda d: change_manifest_worlds(d),
    "card with one more row in its table": lambda d: replace_in(
        d / "README.md", "|---|", "| x | y | 9 | 9 | 100% | 1.000 | 1.0 |\n|---|"
    ),
    "card with a filter": lambda d: replace_in(
        d / "README.md", "  default: true\n", "  default: true\n  filters: [[seed, '>', 2]]\n"
    ),
}


def change_worlds_shard(folder: Path, **changes: Any) -> None:
    manifest = read_manifest(folder)
    worlds, data = manifest.shards
    write_manifest(folder, replace(manifest, shards=(replace(worlds, **changes), data)))


def change_manifest_worlds(folder: Path) -> None:
    manifest = read_manifest(folder)
    write_manifest(folder, replace(manifest, worlds={**manifest.worlds, "0" * 64: 0}))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST_PATH).unlink()
    write_dataset_files(folder, manifest)


def replace_by_link(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", FILES)
def test_files_that_do_not_agree_are_found(record_walks: RecordWalks, name: str) -> None:
    folder = record_walks()
    FILES[name](folder)
    report = check(folder)
    assert report.exit_code == 1
    assert report.findings


def test_a_users_own_text_licence_and_pictures_are_free(record_walks: RecordWalks) -> None:
    folder = record_walks()
    card = folder / "README.md"
    card.write_text(card.read_text().replace("# Trajectories", "# Mine\n\nRead me.", 1))
    (folder / "LICENSE").write_text("MIT")
    (folder / "plot.png").write_bytes(b"")
    (folder / ".gitattributes").write_text("")
    assert check(folder).ok
    record_walks(seeds=(range(5, 6),))
    assert "# Mine\n\nRead me." in card.read_text()


def test_a_dataset_of_somebody_else_needs_an_anchor(
    record_walks: RecordWalks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record_walks()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    report = check(folder)
    assert report.counts["reproduced"] == 5
    assert report.exit_code == 3
    assert list(report.unanchored.values()) == ["walking:Walk"]
    assert verify_dataset(folder, workers=1, allow_unanchored=True).exit_code == 0


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        ("walking:Admits", "not deterministic"),
        ("walking:Moody", "two replays disagree"),
        ("walking:Live", "live Python objects"),
    ],
)
def test_what_cannot_be_decided_is_unverifiable(
    record_walks: RecordWalks, world: str, reason: str
) -> None:
    report = check(record_walks(world=world))
    assert report.exit_code == 3
    assert report.counts["unverifiable"] == 5
    assert all(reason in str(verdict.reason) for verdict in report.verdicts)


def test_another_version_of_the_environment_is_unverifiable(
    record_walks: RecordWalks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record_walks()
    monkeypatch.setattr(Walk, "env_version", "2")
    report = check(folder)
    assert report.exit_code == 3
    assert "installed in version 2" in str(report.verdicts[0].reason)


def test_an_environment_that_is_not_installed_is_unverifiable(
    record_walks: RecordWalks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record_walks()
    monkeypatch.setattr("crucible.registry._registered", {})
    report = verify_dataset(folder, workers=1)
    assert report.exit_code == 3
    assert "not installed" in str(report.verdicts[0].reason)


def test_ends_that_are_the_recorders_word_reproduce_as_prefixes(
    record_walks: RecordWalks,
) -> None:
    report = check(record_walks(world="walking:Broken"))
    assert report.ok
    assert all(verdict.prefix for verdict in report.verdicts)


def test_no_dataset_and_no_manifest_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(TargetNotFoundError):
        check(tmp_path / "nothing")
    (tmp_path / "crucible").mkdir()
    (tmp_path / MANIFEST_PATH).write_text("{}")
    with pytest.raises(FormatError):
        check(tmp_path)


def test_one_trajectory_is_verified_alone() -> None:
    trajectory = rollout(Walk(), Up(), seed=0)
    from crucible.registry import import_environment

    import_environment("walking:Walk")
    report = verify_trajectory(trajectory, allow_unanchored=True)
    assert report.ok
    assert report.root is None


def test_the_report_lists_only_what_did_not_reproduce(record_walks: RecordWalks) -> None:
    folder = record_walks()
    forge_rows(folder, lambda rows: rows[2]["steps"][1].update(reward=0.75))
    body = check(folder).to_dict()
    assert body["counts"]["diverged"] == len(body["verdicts"]) == 1
    assert body["verdicts"][0]["mismatches"][0]["field"] == "reward"
    assert body["exit_code"] == 1


def test_a_chat_is_bound_or_not_and_neither_changes_the_verdict(record_walks: RecordWalks) -> None:
    folder = record_walks()

    def change(messages: Messages, seed: int) -> None:
        messages[1]["content"] = "the assistant's own words"
        if seed == 2:
            messages[0]["content"] = "another start"

    record_chat(folder, change)
    report = check(folder)
    assert report.exit_code == 0
    words = [verdict.messages for verdict in report.verdicts]
    assert words.count("bound") == 4
    assert words[2] == "the first message is not the first observation"
    assert report.num_unbound == report.to_dict()["unbound"] == 1
    assert verify_dataset(folder, workers=2) == report


WORLD_EDITS: dict[str, dict[str, Any]] = {
    "seeding": {"seeded": False},
    "needs": {"toolchain_needs": ("sqlite",)},
    "distribution": {"distribution": "trusted", "distribution_version": "1"},
    "label of another suite": {"suite": "sql-skills", "suite_version": "1", "name": "payroll"},
    "label of a suite that is not here, without its version": {"suite": "olympiad", "name": "x"},
    "name without a suite": {"name": "payroll"},
}


@pytest.mark.parametrize("name", WORLD_EDITS)
def test_what_a_world_says_of_itself_is_compared_with_what_is_here(
    record_walks: RecordWalks, name: str
) -> None:
    folder = record_walks()
    forge_world(folder, WORLD_EDITS[name])
    report = check(folder)
    assert report.exit_code == 1
    assert report.findings[0].where.startswith("world ")


def test_a_label_in_a_single_file_is_compared_with_what_is_here() -> None:
    trajectory = rollout(Walk(), Up(), seed=0)
    from crucible.registry import import_environment

    import_environment("walking:Walk")
    named = replace(trajectory.world, suite="guess-basics", suite_version="1", name="up-to-100")
    report = verify_trajectory(replace(trajectory, world=named), allow_unanchored=True)
    assert report.exit_code == 1
    assert report.findings[0].where.startswith("world ")


LABELS = [
    ("olympiad", "1", "hardest"),
    ("guess-basics", "2", "up-to-100"),
    ("guess-basics", "1", "up-to-1000"),
    ("guess-basics", None, "up-to-100"),
]


@pytest.mark.parametrize(("suite", "version", "name"), LABELS)
def test_a_bundled_world_carries_its_own_label_or_none(
    record_walks: RecordWalks, suite: str, version: str | None, name: str
) -> None:
    folder = record_walks(world="guess-basics/up-to-100", agent="oracle")
    forge_world(folder, {"suite": suite, "suite_version": version, "name": name})
    assert check(folder).exit_code == 1
    forge_world(folder, {"suite": None, "suite_version": None, "name": None})
    assert check(folder).findings == ()
