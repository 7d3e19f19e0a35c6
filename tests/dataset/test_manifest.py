from __future__ import annotations

from typing import Any

import pytest
from walking import RecordWalks

from crucible.canonical import canonical_text, parse_text
from crucible.dataset.folder import MANIFEST_PATH, read_manifest
from crucible.dataset.manifest import Manifest
from crucible.errors import FormatError


@pytest.fixture
def body(record_walks: RecordWalks) -> dict[str, Any]:
    """The content of an honest manifest."""
    content: dict[str, Any] = parse_text((record_walks() / MANIFEST_PATH).read_text())
    return content


def test_a_manifest_is_read_back_equal(record_walks: RecordWalks) -> None:
    manifest = read_manifest(record_walks())
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


CHANGES: list[tuple[str, Any]] = [
    ("unknown key", lambda b: b.update(more=1)),
    ("missing key", lambda b: b.pop("extends")),
    ("format", lambda b: b.update(format=2)),
    ("format as bool", lambda b: b.update(format=True)),
    ("root", lambda b: b.update(root="0" * 64)),
    ("rows as float", lambda b: b["shards"][0].update(rows=1.0)),
    ("rows as bool", lambda b: b["shards"][0].update(rows=True)),
    ("negative rows", lambda b: b["shards"][0].update(rows=-1)),
    ("path up", lambda b: b["shards"][1].update(path="data/../x.parquet")),
    ("absolute path", lambda b: b["shards"][1].update(path="/etc/passwd")),
    ("path of another name", lambda b: b["shards"][1].update(path="data/train-0.parquet")),
    ("split", lambda b: b["shards"][1].update(split="test")),
    ("config", lambda b: b["shards"][1].update(config="worlds")),
    ("shard twice", lambda b: b["shards"].append(b["shards"][1])),
    ("recording twice", lambda b: b["recordings"].append(b["recordings"][0])),
    ("order", lambda b: b["shards"].reverse()),
    ("id", lambda b: b["recordings"][0].update(id="0" * 64)),
    ("nonce", lambda b: b["recordings"][0].update(nonce="x")),
    ("planned", lambda b: b["recordings"][0].update(planned=4)),
    ("recorded", lambda b: b["recordings"][0].update(recorded=4)),
    ("plan", lambda b: b["recordings"][0]["plan"].update(attempts=2)),
    ("seeds", lambda b: b["recordings"][0]["plan"].update(seeds=[[5]])),
    ("shards as object", lambda b: b.update(shards={})),
]


@pytest.mark.parametrize("change", [c for _, c in CHANGES], ids=[name for name, _ in CHANGES])
def test_a_manifest_that_is_off_in_any_way_is_refused(body: dict[str, Any], change: Any) -> None:
    change(body)
    with pytest.raises(FormatError):
        Manifest.from_bytes(canonical_text(body).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"1", b"\xff", b"{} ", b'{"format":1,"format":1}'])
def test_bytes_that_are_no_manifest_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        Manifest.from_bytes(data)
