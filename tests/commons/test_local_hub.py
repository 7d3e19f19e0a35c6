"""The protocol, as the stock clients speak it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from crucible.commons import LocalHub
from crucible.commons.localhub import lfs, serve, uploads
from crucible.errors import UsageError

CARD = b"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: [data/train.parquet]
tags: [walks]
---
# Walks
"""


@pytest.fixture
def api(local_hub: LocalHub) -> HfApi:
    return HfApi(endpoint=local_hub.endpoint, token="local")


@pytest.fixture
def repo(api: HfApi, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A repository of this test's own, with a card and one Parquet file of 1,000 rows."""
    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]
    repo_id = f"someone/r{digest}"
    api.create_repo(repo_id, repo_type="dataset", private=True)
    pq.write_table(pa.table({"x": list(range(1000)), "y": ["a"] * 1000}), tmp_path / "t.parquet")
    operations = [
        CommitOperationAdd("data/train.parquet", tmp_path / "t.parquet"),
        CommitOperationAdd("README.md", CARD),
    ]
    api.create_commit(repo_id, operations, commit_message="first", repo_type="dataset")
    return repo_id


def add(api: HfApi, repo: str, path: str, content: bytes, parent: str | None = None) -> Any:
    operation = CommitOperationAdd(path, content)
    return api.create_commit(
        repo, [operation], commit_message=f"add {path}", repo_type="dataset", parent_commit=parent
    )


def test_a_repository_is_made_once_and_says_who_owns_it(api: HfApi, repo: str) -> None:
    assert api.whoami()["name"] == "local"
    assert api.create_repo(repo, repo_type="dataset", exist_ok=True).repo_id == repo
    with pytest.raises(HfHubHTTPError):
        api.create_repo(repo, repo_type="dataset")
    info = api.dataset_info(repo)
    assert info.private is True
    assert info.tags == ["walks"]
    assert {s.rfilename for s in info.siblings or ()} == {
        ".gitattributes",
        "README.md",
        "data/train.parquet",
    }


def test_a_commit_that_changes_nothing_is_none(api: HfApi, repo: str) -> None:
    head = api.dataset_info(repo).sha
    assert add(api, repo, "README.md", CARD).oid == head


def test_a_stale_parent_is_refused(api: HfApi, repo: str) -> None:
    old = api.dataset_info(repo).sha
    add(api, repo, "a.txt", b"1", parent=old)
    with pytest.raises(HfHubHTTPError) as caught:
        add(api, repo, "b.txt", b"2", parent=old)
    assert caught.value.response.status_code == 412


def test_a_snapshot_is_of_the_revision_that_was_asked_for(api: HfApi, repo: str) -> None:
    first = api.dataset_info(repo).sha
    api.create_tag(repo, tag="v1", revision=first, repo_type="dataset")
    add(api, repo, "later.txt", b"x")
    for revision, there in (("v1", False), (first, False), ("main", True)):
        folder = Path(api.snapshot_download(repo, repo_type="dataset", revision=revision))
        assert (folder / "later.txt").exists() is there
    with pytest.raises(HfHubHTTPError):
        api.create_tag(repo, tag="v1", repo_type="dataset")
    api.delete_tag(repo, tag="v1", repo_type="dataset")
    with pytest.raises(RevisionNotFoundError):
        api.dataset_info(repo, revision="v1")


def test_branches_and_history(api: HfApi, repo: str) -> None:
    api.create_branch(repo, branch="side", repo_type="dataset")
    operation = CommitOperationAdd("side.txt", b"x")
    api.create_commit(
        repo, [operation], commit_message="aside", revision="side", repo_type="dataset"
    )
    refs = api.list_repo_refs(repo, repo_type="dataset")
    assert sorted(branch.name for branch in refs.branches) == ["main", "side"]
    titles = [c.title for c in api.list_repo_commits(repo, revision="side", repo_type="dataset")]
    assert titles == ["aside", "first", "initial commit"]
    assert not api.file_exists(repo, "side.txt", repo_type="dataset")
    api.delete_branch(repo, branch="side", repo_type="dataset")


def test_trees_and_paths_show_large_files_by_their_digest(
    api: HfApi, repo: str, tmp_path: Path
) -> None:
    digest = hashlib.sha256((tmp_path / "t.parquet").read_bytes()).hexdigest()
    entries = {e.path: e for e in api.list_repo_tree(repo, repo_type="dataset", recursive=True)}
    assert entries["data/train.parquet"].lfs.sha256 == digest  # type: ignore[union-attr]
    assert [e.path for e in api.list_repo_tree(repo, "data", repo_type="dataset")] == [
        "data/train.parquet"
    ]
    paths = api.get_paths_info(repo, ["data", "README.md", "none"], repo_type="dataset")
    assert [entry.path for entry in paths] == ["data", "README.md"]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(repo, "none", repo_type="dataset"))


def test_long_listings_come_in_pages(
    api: HfApi, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crucible.commons.localhub import downloads

    operations = [CommitOperationAdd(f"many/{i}.txt", b"x") for i in range(25)]
    api.create_commit(repo, operations, commit_message="many", repo_type="dataset")
    monkeypatch.setattr(downloads, "PAGE_ENTRIES", 10)
    assert len(list(api.list_repo_tree(repo, "many", repo_type="dataset"))) == 25


def test_files_and_folders_are_deleted(api: HfApi, repo: str) -> None:
    operations = [CommitOperationDelete("data/"), CommitOperationDelete("README.md")]
    api.create_commit(repo, operations, commit_message="less", repo_type="dataset")
    assert api.list_repo_files(repo, repo_type="dataset") == [".gitattributes"]


def test_upload_folder_works(api: HfApi, repo: str, tmp_path: Path) -> None:
    (tmp_path / "up" / "deep").mkdir(parents=True)
    (tmp_path / "up" / "deep" / "a.bin").write_bytes(b"\0" * 5000)
    (tmp_path / "up" / "b.txt").write_text("b")
    api.upload_folder(repo_id=repo, folder_path=tmp_path / "up", repo_type="dataset")
    names = api.list_repo_files(repo, repo_type="dataset")
    assert {"deep/a.bin", "b.txt"} <= set(names)


def test_large_files_go_up_in_parts(
    api: HfApi, repo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 10_000)
    data = os.urandom(35_000)
    (tmp_path / "big.parquet").write_bytes(data)
    add(api, repo, "data/big.parquet", data)
    path = api.hf_hub_download(repo, "data/big.parquet", repo_type="dataset")
    assert Path(path).read_bytes() == data


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda api, repo: api.dataset_info("someone/none"), RepositoryNotFoundError),
        (lambda api, repo: api.dataset_info(repo, revision="none"), RevisionNotFoundError),
        (lambda api, repo: api.dataset_info(repo, revision="0" * 40), RevisionNotFoundError),
        (
            lambda api, repo: api.hf_hub_download(repo, "none", repo_type="dataset"),
            EntryNotFoundError,
        ),
    ],
)
def test_what_is_not_there_has_the_clients_own_error(
    api: HfApi, repo: str, call: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(api, repo)


CLIENT = """
import json, sys
from datasets import load_dataset
from huggingface_hub import HfFileSystem
repo = sys.argv[1]
plain = load_dataset(repo, split="train")
stream = load_dataset(repo, split="train", streaming=True)
columns = load_dataset(repo, split="train", columns=["y"])
few = load_dataset(repo, split="train", filters=[("x", ">", 990)])
direct = load_dataset("parquet", data_files=f"hf://datasets/{repo}/data/*.parquet")["train"]
with HfFileSystem().open(f"datasets/{repo}/README.md", "rb") as file:
    card = file.read().decode()
first = next(iter(stream))
print(json.dumps([len(plain), first, columns.column_names, len(few), len(direct), card]))
"""


def test_datasets_and_paths_load_with_nothing_of_ours(local_hub: LocalHub, repo: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, repo],
        env=os.environ | local_hub.env(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    expected = [1000, {"x": 0, "y": "a"}, ["y"], 9, 1000, CARD.decode()]
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_many_committers_at_once_all_land(api: HfApi, repo: str) -> None:
    failures: list[BaseException] = []

    def append(number: int) -> None:
        for _ in range(100):
            head = api.dataset_info(repo).sha
            try:
                add(api, repo, f"from-{number}.txt", b"x", parent=head)
                return
            except HfHubHTTPError as error:
                if error.response.status_code != 412:
                    failures.append(error)
                    return
        failures.append(AssertionError(f"{number} never landed"))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    names = api.list_repo_files(repo, repo_type="dataset")
    assert sum(name.startswith("from-") for name in names) == 8


def test_a_repository_on_disk_is_a_git_repository(
    api: HfApi, repo: str, running_hub: LocalHub
) -> None:
    folder = running_hub._folder / "datasets" / f"{repo}.git"
    log = subprocess.run(
        ["git", "-C", folder, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert log.stdout.split("\n")[:2] == ["first", "initial commit"]
    subprocess.run(["git", "-C", folder, "fsck", "--strict"], check=True, capture_output=True)


def request(url: str, data: bytes | None = None, method: str = "GET", **headers: str) -> Any:
    sent = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(sent, timeout=10) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


@pytest.mark.parametrize(
    "path", ["../../x", "/etc/x", "a/../../x", ".git/config", "", "a//b", "a\0b"]
)
def test_paths_that_lead_out_of_a_repository_are_refused(
    local_hub: LocalHub, repo: str, path: str
) -> None:
    lines = [
        {"key": "header", "value": {"summary": "x"}},
        {"key": "file", "value": {"path": path, "content": "eA=="}},
    ]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    url = f"{local_hub.endpoint}/api/datasets/{repo}/commit/main"
    assert request(url, body, "POST")[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/api/datasets/..%2F..%2Fetc/passwd",
        "/api/datasets/a/..",
        "/datasets/../../etc/passwd/resolve/main/x",
        "/lfs/a/b/../../../etc/passwd",
        "/nothing",
    ],
)
def test_addresses_that_lead_elsewhere_are_refused(local_hub: LocalHub, path: str) -> None:
    status, body, _ = request(local_hub.endpoint + path)
    assert status in (400, 404)
    assert "error" in json.loads(body)


@pytest.mark.parametrize("body", [b"", b"nonsense", b'{"key":1}', b"[]", b'{"key":"x","value":{}}'])
def test_a_malformed_commit_changes_nothing(
    local_hub: LocalHub, api: HfApi, repo: str, body: bytes
) -> None:
    head = api.dataset_info(repo).sha
    request(f"{local_hub.endpoint}/api/datasets/{repo}/commit/main", body, "POST")
    assert api.dataset_info(repo).sha == head


def test_a_large_file_that_was_not_sent_or_is_damaged_is_refused(
    local_hub: LocalHub, repo: str
) -> None:
    oid = "0" * 64
    url = f"{local_hub.endpoint}/lfs/{repo}/{oid}"
    assert request(url, b"bytes of something else", "PUT")[0] == 403
    asked = json.dumps({"objects": [{"oid": oid, "size": 23}]}).encode()
    batch = f"{local_hub.endpoint}/datasets/{repo}.git/info/lfs/objects/batch"
    answer = json.loads(request(batch, asked, "POST")[1])
    given = answer["objects"][0]["actions"]["upload"]["href"]
    assert request(given, b"bytes of something else", "PUT")[0] == 400
    lines = [
        {"key": "header", "value": {"summary": "x"}},
        {"key": "lfsFile", "value": {"path": "a.parquet", "oid": oid, "size": 23}},
    ]
    body = "\n".join(json.dumps(line) for line in lines).encode()
    commit = f"{local_hub.endpoint}/api/datasets/{repo}/commit/main"
    assert request(commit, body, "POST")[0] == 422


def test_ranges_of_small_files(local_hub: LocalHub, repo: str) -> None:
    url = f"{local_hub.endpoint}/datasets/{repo}/resolve/main/README.md"
    assert request(url, Range="bytes=0-2")[:2] == (206, b"---")
    assert request(url, Range="bytes=-6")[:2] == (206, b"Walks\n")
    assert request(url, Range=f"bytes={len(CARD)}-")[0] == 416
    status, body, headers = request(url, method="HEAD")
    assert (status, body, headers["Content-Length"]) == (200, b"", str(len(CARD)))
    assert len(headers["X-Repo-Commit"]) == 40


def test_a_token_guards_private_repositories_and_every_change(tmp_path: Path) -> None:
    with LocalHub(tmp_path, token="secret") as hub:
        owner = HfApi(endpoint=hub.endpoint, token="secret")
        stranger = HfApi(endpoint=hub.endpoint, token="guess")
        owner.create_repo("a/private", repo_type="dataset", private=True)
        owner.create_repo("a/public", repo_type="dataset", private=False)
        with pytest.raises(RepositoryNotFoundError):
            stranger.dataset_info("a/private")
        assert stranger.dataset_info("a/public").private is False
        for call in (
            lambda: stranger.create_repo("b/new", repo_type="dataset"),
            lambda: add(stranger, "a/public", "x.txt", b"x"),
            lambda: stranger.delete_repo("a/public", repo_type="dataset"),
            lambda: stranger.whoami(),
        ):
            with pytest.raises(HfHubHTTPError):
                call()
        owner.delete_repo("a/private", repo_type="dataset")
        with pytest.raises(RepositoryNotFoundError):
            owner.dataset_info("a/private")


def test_only_dataset_repositories_are_held(api: HfApi) -> None:
    with pytest.raises(HfHubHTTPError, match="dataset repositories only"):
        api.create_repo("a/model", repo_type="model")


def test_an_open_address_needs_a_token_and_a_taken_one_is_an_error(
    local_hub: LocalHub, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="needs --token"):
        serve(tmp_path, host="0.0.0.0", port=0, token=None)
    taken = int(local_hub.endpoint.rpartition(":")[2])
    with pytest.raises(UsageError, match="cannot be served"):
        serve(tmp_path, port=taken, token=None)


def test_a_pointer_is_read_back_and_other_blobs_are_none() -> None:
    pointer = lfs.Pointer("ab" * 32, 7)
    assert lfs.Pointer.from_bytes(pointer.to_bytes()) == pointer
    assert lfs.Pointer.from_bytes(b"version https://git-lfs.github.com/spec/v1\n") is None
