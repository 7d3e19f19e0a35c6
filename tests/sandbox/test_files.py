from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from crucible.errors import EpisodeError
from crucible.sandbox import Entry, check_path, materialize, tree_digest
from crucible.sandbox import files as files_module
from crucible.sandbox.files import read_tree, write_file

UNSAFE: list[Any] = [
    "",
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a//b",
    "./a",
    "a/.",
    "a\x00b",
    "a\\b",
    "a\nb",
    "a\x1bb",
    "a\u202eb",
    "a\u200bb",
    "\ud800",
    "x" * 201,
    "/".join("a" * 40),
    "/".join(["a"] * 1200),
    7,
    None,
    ("a",),
]


@pytest.mark.parametrize("path", UNSAFE)
def test_an_unsafe_path_is_one_value_error(path: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        check_path(path)
    with pytest.raises(ValueError):
        materialize(tmp_path / "in", {"fine": "x", path: "x"})
    assert not (tmp_path / "in").exists()


def test_ordinary_paths_are_safe(tmp_path: Path) -> None:
    materialize(tmp_path, {"a.txt": "x", "b/c d/é.py": "y", ".hidden": "z"})
    assert (tmp_path / "b/c d/é.py").read_text() == "y"


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo", "folder"])
def test_nothing_in_the_way_is_written_through(tmp_path: Path, kind: str) -> None:
    victim, root = tmp_path / "victim", tmp_path / "root"
    victim.write_text("precious")
    root.mkdir()
    place = root / "file"
    match kind:
        case "symlink":
            place.symlink_to(victim)
        case "hardlink":
            os.link(victim, place)
        case "fifo":
            os.mkfifo(place)
        case "folder":
            (place / "deep" / "er").mkdir(parents=True)
    write_file(root, "file", Entry("file", b"new"))
    assert victim.read_text() == "precious"
    assert place.read_bytes() == b"new"
    assert not place.is_symlink()


def test_a_linked_folder_on_the_way_is_replaced(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "a").symlink_to(outside)
    write_file(root, "a/b", Entry("file", b"new"))
    assert list(outside.iterdir()) == []
    assert (root / "a/b").read_bytes() == b"new"


def test_a_tree_is_read_without_following_or_opening_anything_odd(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("TOPSECRET")
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d/f").write_bytes(b"\xff\x00")
    (root / "link").symlink_to(secret)
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    (root / "run").write_text("x")
    (root / "run").chmod(0o755)
    os.mkdir(os.fsencode(root) + b"/bad\xff")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
        tree = read_tree(root)
    assert tree == {
        "bad\\xff": Entry("folder"),
        "d": Entry("folder"),
        "d/f": Entry("file", b"\xff\x00"),
        "link": Entry("link", os.fsencode(secret)),
        "pipe": Entry("special"),
        "run": Entry("file", b"x", True),
        "sock": Entry("special"),
        "up": Entry("link", b".."),
    }


def test_permissions_that_were_taken_away_do_not_hide_a_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    (tmp_path / "d/f").chmod(0)
    (tmp_path / "d").chmod(0)
    assert read_tree(tmp_path)["d/f"].data == b"x"
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0
    (tmp_path / "d").chmod(0o700)


def test_a_tree_that_is_too_big_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("xx")
    (tmp_path / "b").write_text("xx")
    monkeypatch.setattr(files_module, "MAX_TREE_BYTES", 3)
    with pytest.raises(EpisodeError):
        read_tree(tmp_path)
    monkeypatch.setattr(files_module, "MAX_TREE_BYTES", 10)
    monkeypatch.setattr(files_module, "MAX_TREE_ENTRIES", 1)
    with pytest.raises(EpisodeError):
        read_tree(tmp_path)


def test_the_digest_of_a_tree_sees_every_part() -> None:
    trees: list[dict[str, Entry]] = [
        {},
        {"a": Entry("file", b"x")},
        {"b": Entry("file", b"x")},
        {"a": Entry("file", b"y")},
        {"a": Entry("file", b"x", True)},
        {"a": Entry("link", b"x")},
        {"a": Entry("folder")},
        {"a": Entry("file", b"x"), "b": Entry("file")},
    ]
    assert len({tree_digest(tree) for tree in trees}) == len(trees)
