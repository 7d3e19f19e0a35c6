from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from huggingface_hub import CommitOperationAdd, HfApi
from tampering import data_path, edit_rows, flip_byte, forge_rows
from walking import RecordWalks

from crucible.cli import main
from crucible.commons import (
    LocalHub,
    PushOptions,
    dataset_info,
    prove_row_of,
    pull_dataset,
    pull_to_cache,
    push_dataset,
    pushing,
)
from crucible.commons.client import hub_api
from crucible.dataset.folder import read_manifest, read_trajectories
from crucible.errors import CrucibleError, HubError, IntegrityError, PolicyError, UsageError
from crucible.verification import verify_dataset

ALONE = PushOptions(workers=1)


@pytest.fixture
def repo(request: pytest.FixtureRequest, local_hub: LocalHub) -> str:
    """A name of this test's own."""
    return f"someone/r{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]}"


def test_what_is_pushed_is_what_is_pulled_verified_and_loaded(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    folder = record_walks()
    pushed = push_dataset(folder, repo, PushOptions(workers=1, license="mit", tag="v1"))
    assert pushed.root == read_manifest(folder).root
    pulled = pull_dataset(repo, revision="v1", local_dir=tmp_path / "pulled")
    assert (pulled.commit, pulled.root) == (pushed.commit, pushed.root)
    assert verify_dataset(pulled.path, workers=1).ok
    fingerprints = [t.fingerprint for t in read_trajectories(folder)]
    assert load_dataset(str(pulled.path), split="train")["fingerprint"][:] == fingerprints
    card = (pulled.path / "README.md").read_text()
    assert "license: mit" in card
    assert f"crucible verify {repo}" in card
    assert "all 5 episodes were re-run" in card


def test_a_row_on_the_hub_is_proven_from_its_shard_alone(
    record_walks: RecordWalks, repo: str
) -> None:
    folder = record_walks()
    push_dataset(folder, repo, ALONE)
    info = dataset_info(repo)
    in_shard, in_dataset = prove_row_of(info, 3)
    assert in_shard.holds() and in_dataset.holds()
    assert in_dataset.root == read_manifest(folder).root
    assert (in_shard, in_dataset) == prove_row_of(dataset_info(folder), 3)
    with pytest.raises(UsageError):
        prove_row_of(info, 5)


def test_a_repository_without_a_manifest_is_verified_row_by_row(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    folder = record_walks()
    for config, name in (("trajectories", "train"), ("worlds", "worlds")):
        rows = load_dataset(str(folder), config, split=name)
        rows.to_parquet(str(tmp_path / "copy" / f"{name}.parquet"))
    api = hub_api()
    api.create_repo(repo, repo_type="dataset")
    api.upload_folder(repo_id=repo, folder_path=tmp_path / "copy", repo_type="dataset")
    for _ in range(2):
        report = verify_dataset(pull_to_cache(repo, loose=True), workers=1)
        assert (report.counts["reproduced"], report.exit_code) == (5, 3)
    with pytest.raises(HubError, match="not in that revision"):
        pull_to_cache(repo)


def test_the_hub_copy_loads_with_nothing_of_ours(
    record_walks: RecordWalks, repo: str, local_hub: LocalHub
) -> None:
    push_dataset(record_walks(), repo, ALONE)
    code = f"from datasets import load_dataset; print(len(load_dataset({repo!r}, split='train')))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | local_hub.env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "5", done.stderr


def test_pushing_again_is_nothing_and_appending_sends_only_what_is_new(
    record_walks: RecordWalks, repo: str
) -> None:
    folder = record_walks()
    first = push_dataset(folder, repo, ALONE)
    assert len(first.uploaded) == 2
    again = push_dataset(folder, repo, ALONE)
    assert (again.uploaded, again.commit) == ((), first.commit)
    record_walks(seeds=(range(5, 7),))
    more = push_dataset(folder, repo, ALONE)
    assert len(more.uploaded) == 1
    assert more.num_bytes < first.num_bytes
    assert dataset_info(repo).manifest.num_rows == 7


def test_a_new_repository_is_private_unless_told_otherwise(
    record_walks: RecordWalks, repo: str
) -> None:
    folder = record_walks()
    push_dataset(folder, repo, ALONE)
    assert dataset_info(repo).private is True
    push_dataset(folder, f"{repo}-open", PushOptions(workers=1, public=True))
    assert dataset_info(f"{repo}-open").private is False


def test_two_who_append_to_the_same_dataset_both_keep_their_rows(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    push_dataset(record_walks("origin"), repo, ALONE)
    folders = []
    for index in range(3):
        pull_dataset(repo, local_dir=tmp_path / f"copy-{index}")
        seeds = (range(10 * (index + 1), 10 * (index + 1) + 2),)
        folders.append(record_walks(f"copy-{index}", seeds=seeds))
    failures: list[CrucibleError] = []

    def push(folder: Path) -> None:
        try:
            push_dataset(folder, repo, ALONE)
        except CrucibleError as error:
            failures.append(error)

    threads = [threading.Thread(target=push, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    pulled = pull_dataset(repo, local_dir=tmp_path / "all")
    report = verify_dataset(pulled.path, workers=1)
    assert report.ok
    found = sorted(t.seed for t in read_trajectories(pulled.path))
    assert found == [0, 1, 2, 3, 4, 10, 11, 20, 21, 30, 31]


def test_rows_on_the_hub_do_not_vanish_unless_told_so(record_walks: RecordWalks, repo: str) -> None:
    push_dataset(record_walks("one"), repo, ALONE)
    other = record_walks("other", seeds=(range(2),))
    with pytest.raises(PolicyError, match="5 rows that are not in this one and would vanish"):
        push_dataset(other, repo, ALONE)
    push_dataset(other, repo, PushOptions(workers=1, replace=True))
    assert dataset_info(repo).manifest.num_rows == 2
    files = HfApi(endpoint=os.environ["HF_ENDPOINT"]).list_repo_files(repo, repo_type="dataset")
    assert sum(name.startswith("data/") for name in files) == 1


@pytest.mark.parametrize("hashes", ["left", "made to fit"])
def test_a_dataset_that_lies_is_not_published(
    record_walks: RecordWalks, repo: str, hashes: str
) -> None:
    folder = record_walks()
    edit = edit_rows if hashes == "left" else forge_rows
    edit(folder, lambda rows: rows[1]["steps"][0].update(reward=9.0))
    with pytest.raises((PolicyError, IntegrityError)):
        push_dataset(folder, repo, ALONE)
    with pytest.raises(HubError):
        dataset_info(repo)


def test_publishing_without_a_replay_says_so_in_the_card(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    push_dataset(record_walks(), repo, PushOptions(replay=False))
    pulled = pull_dataset(repo, local_dir=tmp_path / "pulled")
    card = (pulled.path / "README.md").read_text()
    assert "Nothing in this dataset has been replayed by its publisher." in card
    broken = record_walks("broken")
    edit_rows(broken, lambda rows: rows.pop())
    with pytest.raises(IntegrityError):
        push_dataset(broken, f"{repo}-broken", PushOptions(replay=False))


def test_a_byte_that_flipped_on_the_server_is_caught_and_the_old_copy_stays(
    record_walks: RecordWalks, repo: str, tmp_path: Path, local_hub: LocalHub
) -> None:
    folder = record_walks()
    push_dataset(folder, repo, ALONE)
    target = tmp_path / "pulled"
    pull_dataset(repo, local_dir=target)
    before = sorted(p.name for p in target.rglob("*"))
    digest = read_manifest(folder).shards_of("trajectories")[0].sha256
    stored = local_hub._folder / "datasets" / f"{repo}.git" / "lfs" / "objects"
    flip_byte(stored / digest[:2] / digest[2:4] / digest, 500)
    with pytest.raises(IntegrityError, match="expected sha256"):
        pull_dataset(repo, local_dir=target)
    assert sorted(p.name for p in target.rglob("*")) == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".pulled")] == []
    flip_byte(stored / digest[:2] / digest[2:4] / digest, 500)


def test_a_pull_leaves_a_folder_of_something_else_alone(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    push_dataset(record_walks(), repo, ALONE)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.txt").write_text("mine")
    with pytest.raises(UsageError):
        pull_dataset(repo, local_dir=tmp_path / "thesis")
    assert (tmp_path / "thesis" / "a.txt").read_text() == "mine"


def test_the_cache_holds_one_copy_of_each_commit(record_walks: RecordWalks, repo: str) -> None:
    folder = record_walks()
    pushed = push_dataset(folder, repo, ALONE)
    path = pull_to_cache(repo)
    marker = path / "LICENSE"
    marker.write_text("x")
    assert pull_to_cache(repo, pushed.commit) == path
    assert marker.exists()


def test_a_repository_without_a_dataset_of_ours_is_one_error(
    repo: str, local_hub: LocalHub, tmp_path: Path
) -> None:
    HfApi(endpoint=local_hub.endpoint).create_repo(repo, repo_type="dataset")
    with pytest.raises(HubError, match="not in that revision"):
        pull_dataset(repo, local_dir=tmp_path / "x")


def test_the_whole_way_on_the_command_line(
    record_walks: RecordWalks,
    repo: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = record_walks()
    monkeypatch.chdir(tmp_path)
    assert main(["push", repo, str(folder), "--workers", "1", "-q"]) == 0
    assert main(["push", repo, str(folder), "--workers", "1", "-q"]) == 0
    assert "nothing new" in capsys.readouterr().out
    assert main(["info", repo]) == 0
    assert "5 episodes in 1 worlds, private" in capsys.readouterr().out
    assert main(["pull", repo, "--local-dir", "here"]) == 0
    assert capsys.readouterr().out == "here\n"
    assert main(["verify", repo, "--workers", "1"]) == 0
    assert main(["verify", f"hf://datasets/{repo}@main", "--workers", "1"]) == 0
    assert capsys.readouterr().out.count("VERIFIED: 5 of 5") == 2
    assert main(["info", repo, "--json"]) == main(["pull", repo, "--json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["pull", "someone/none"], 4, "no such dataset"),
        (["info", "someone/none"], 4, "no such dataset"),
        (["verify", "someone/none"], 4, "no such dataset"),
        (["pull", "no-slash"], 2, "namespace/name"),
        (["push", "a/b/c", "FOLDER"], 2, "namespace/name"),
        (["push", "someone/x", "nowhere"], 2, "holds no dataset"),
    ],
)
def test_failures_end_with_one_sentence(
    record_walks: RecordWalks,
    local_hub: LocalHub,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    folder = str(record_walks())
    assert main([folder if a == "FOLDER" else a for a in arguments]) == code
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and says in error


def test_a_hub_that_is_not_there_is_one_sentence(
    record_walks: RecordWalks,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert main(["pull", "someone/x"]) == 4
    assert "cannot be reached" in capsys.readouterr().err


def test_a_wrong_token_is_one_sentence(
    record_walks: RecordWalks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = record_walks()
    with LocalHub(tmp_path / "guarded", token="secret") as hub:
        for name, value in hub.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HF_TOKEN", "guess")
        assert main(["push", "someone/x", str(folder), "--workers", "1"]) == 4
    assert "hf auth login" in capsys.readouterr().err


def test_a_hub_with_a_token_takes_and_gives_a_dataset(
    record_walks: RecordWalks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalHub(tmp_path / "guarded", token="secret") as hub:
        for name, value in hub.env().items():
            monkeypatch.setenv(name, value)
        pushed = push_dataset(record_walks(), "someone/x", ALONE)
        pulled = pull_dataset("someone/x", local_dir=tmp_path / "pulled")
    assert (pulled.commit, pulled.root) == (pushed.commit, pushed.root)


def test_a_pull_never_drops_rows_that_are_only_here(
    record_walks: RecordWalks, repo: str, tmp_path: Path
) -> None:
    folder = record_walks()
    push_dataset(folder, repo, ALONE)
    record_walks(seeds=(range(5, 7),))
    with pytest.raises(PolicyError, match="would vanish"):
        pull_dataset(repo, local_dir=folder)
    assert len(list(read_trajectories(folder))) == 7
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_pull_keeps_the_users_own_files(record_walks: RecordWalks, repo: str) -> None:
    folder = record_walks()
    push_dataset(folder, repo, ALONE)
    (folder / "LICENSE").write_text("mine")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "plot.png").write_bytes(b"x")
    pull_dataset(repo, local_dir=folder)
    assert (folder / "LICENSE").read_text() == "mine"
    assert (folder / "pictures" / "plot.png").exists()
    assert verify_dataset(folder, workers=1).ok


@pytest.mark.parametrize("name", ["dataset_infos.json", ".huggingface.yaml", "data/more.parquet"])
def test_a_repository_with_files_that_are_not_listed_is_not_pulled(
    record_walks: RecordWalks, repo: str, tmp_path: Path, name: str
) -> None:
    push_dataset(record_walks(), repo, ALONE)
    add = CommitOperationAdd(name, b"{}")
    api = HfApi(endpoint=os.environ["HF_ENDPOINT"])
    api.create_commit(repo, [add], commit_message="more", repo_type="dataset")
    with pytest.raises(IntegrityError, match="not in the manifest"):
        pull_dataset(repo, local_dir=tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()


def test_a_private_push_does_not_publish_in_a_public_repository(
    record_walks: RecordWalks, repo: str
) -> None:
    api = HfApi(endpoint=os.environ["HF_ENDPOINT"])
    api.create_repo(repo, repo_type="dataset", private=False)
    with pytest.raises(PolicyError, match="public already"):
        push_dataset(record_walks(), repo, ALONE)
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes"]


def test_replacing_gives_up_when_somebody_commits_meanwhile(
    record_walks: RecordWalks, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    push_dataset(record_walks("one"), repo, ALONE)
    other = record_walks("other", seeds=(range(2),))
    newer = CommitOperationAdd("note.png", b"x")
    plain = pushing._commit

    def late(push: Any, head: str, *arguments: Any, **options: Any) -> str:
        api = HfApi(endpoint=os.environ["HF_ENDPOINT"])
        api.create_commit(repo, [newer], commit_message="meanwhile", repo_type="dataset")
        return plain(push, head, *arguments, **options)

    monkeypatch.setattr(pushing, "_commit", late)
    with pytest.raises(HubError, match="somebody else committed first"):
        push_dataset(other, repo, PushOptions(workers=1, replace=True))
    assert dataset_info(repo).manifest.num_rows == 5


def test_every_byte_of_a_shard_counts(record_walks: RecordWalks) -> None:
    folder = record_walks()
    flip_byte(data_path(folder), 11)
    assert verify_dataset(folder, workers=1, replay=False).exit_code == 1
