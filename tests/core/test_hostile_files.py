"""Files that were made to crash, hang or exhaust whoever reads them."""

from __future__ import annotations

import copy
import io
import os
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tampering import data_path, flip_byte, forge_rows
from walking import RecordWalks

from crucible.claims import CLAIMS, RECORDED_ONLY
from crucible.cli import main
from crucible.dataset.card import render_card
from crucible.dataset.files import file_sha256
from crucible.dataset.folder import MANIFEST_PATH, read_manifest
from crucible.dataset.schema import trajectory_schema
from crucible.dataset.stats import DatasetStats, dataset_stats
from crucible.errors import FormatError

LONG = os.environ.get("CRUCIBLE_TEST_LONG") == "1"


def run(*arguments: str) -> tuple[int, str]:
    """Exit code, and what was said on stderr."""
    err = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        code = main([*arguments])
    return code, err.getvalue()


def list_file(folder: Path, new: Path, *, rows: int) -> None:
    """Put ``new`` in the place of the only shard, with manifest and card made to fit it."""
    manifest = read_manifest(folder)
    old = manifest.shards_of("trajectories")[0]
    sha256 = file_sha256(new)
    path = f"data/train-{sha256[:16]}.parquet"
    (folder / old.path).unlink()
    new.rename(folder / path)
    size = (folder / path).stat().st_size
    shard = replace(old, path=path, sha256=sha256, bytes=size, rows=rows)
    manifest = replace(manifest, shards=(*manifest.shards_of("worlds"), shard))
    (folder / MANIFEST_PATH).write_bytes(manifest.to_bytes())
    try:
        stats = dataset_stats(folder, manifest.shards_of("trajectories"))
    except FormatError:
        stats = DatasetStats(rows, 0, 0, {}, ())
    (folder / "README.md").write_text(render_card(manifest, stats))


def write(folder: Path, table: pa.Table, **options: Any) -> None:
    new = folder / "new.parquet"
    options = {"use_dictionary": False, "store_schema": False, "compression": "zstd"} | options
    pq.write_table(table, new, **options)
    list_file(folder, new, rows=table.num_rows)


def with_rows(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        rows = pq.read_table(data_path(folder)).to_pylist()
        change(rows)
        write(folder, pa.Table.from_pylist(rows, schema=trajectory_schema()))

    return apply


def with_table(change: Callable[[pa.Table], pa.Table], **options: Any) -> Callable[[Path], None]:
    return lambda folder: write(folder, change(pq.read_table(data_path(folder))), **options)


def twice(table: pa.Table) -> pa.Table:
    names = [*table.column_names, "split"]
    return pa.Table.from_arrays([*table.columns, table.column("split")], names=names)


def cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    index = table.schema.get_field_index(name)
    return table.set_column(index, name, table.column(name).cast(kind))


def not_utf8(table: pa.Table) -> pa.Table:
    data = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary())
    array = pa.Array.from_buffers(pa.string(), table.num_rows, data.buffers())
    return table.set_column(2, pa.field("split", pa.string()), array)


def raw(data: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        new = folder / "new.parquet"
        new.write_bytes(data(data_path(folder).read_bytes()))
        list_file(folder, new, rows=5)

    return apply


def replaced_by_pipe(name: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = data_path(folder) if name == "shard" else folder / name
        path.unlink()
        os.mkfifo(path)

    return apply


def enlarged(name: str) -> Callable[[Path], Any]:
    return lambda folder: os.truncate(folder / name, 1 << 30)


def card(text: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / "README.md").write_text(text)


def replaced_by_folder(folder: Path) -> None:
    path = data_path(folder)
    path.unlink()
    path.mkdir()


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{n}: &{n} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n"
    for p, n in zip("abcdef", "bcdefg", strict=True)
)

HOSTILE: dict[str, Callable[[Path], Any]] = {
    "manifest of 1 GB": enlarged(MANIFEST_PATH),
    "card of 1 GB": enlarged("README.md"),
    "manifest is a pipe": replaced_by_pipe(MANIFEST_PATH),
    "card is a pipe": replaced_by_pipe("README.md"),
    "shard is a pipe": replaced_by_pipe("shard"),
    "shard is a folder": replaced_by_folder,
    "no worlds": lambda d: shutil.rmtree(d / "worlds"),
    "column twice": with_table(twice),
    "schema metadata": with_table(
        lambda t: t.replace_schema_metadata({"huggingface": "{}"}), store_schema=True
    ),
    "extra column": with_table(lambda t: t.append_column("x", pa.array([1] * 5))),
    "missing column": with_table(lambda t: t.drop_columns(["tokens"])),
    "reordered columns": with_table(lambda t: t.select(t.column_names[::-1])),
    "wider integers": with_table(lambda t: cast(t, "attempt", pa.int64())),
    "dictionaries": with_table(lambda t: t, use_dictionary=True),
    "text that is not UTF-8": with_table(not_utf8),
    "not Parquet": raw(lambda data: b"PAR1" + bytes(100) + b"PAR1"),
    "cut off": raw(lambda data: data[:-20]),
    "lying footer": raw(lambda data: data[:-8] + (0x7FFFFFFF).to_bytes(4, "little") + b"PAR1"),
    "a value of 150 MB that compresses to nothing": with_rows(
        lambda rows: rows[0].update(final_observation='"' + "a" * (150 << 20) + '"')
    ),
    "text over its limit": with_rows(
        lambda rows: rows[0].update(final_observation='"' + "a" * (17 << 20) + '"')
    ),
    "too many steps": with_rows(lambda rows: rows[0].update(steps=rows[0]["steps"][:1] * 100_001)),
    "null list": with_rows(lambda rows: rows[0].update(steps=None)),
    "null step": with_rows(lambda rows: rows[0].update(steps=[None])),
    "null struct": with_rows(lambda rows: rows[0].update(agent=None)),
    "null key": with_rows(lambda rows: rows[0].update(recording=None)),
    "not a number": with_rows(lambda rows: rows[0].update(total_reward=float("nan"))),
    "infinite reward": with_rows(lambda rows: rows[0]["steps"][0].update(reward=float("inf"))),
    "smallest seed": with_rows(lambda rows: rows[0].update(seed=-(2**63))),
    "deep text": with_rows(lambda rows: rows[0].update(reset_info="[" * 5000 + "]" * 5000)),
    "YAML that expands": card(f"---\n{BOMB}configs: [*g,*g]\n---\n"),
    "YAML that nests": card("---\n" + "[" * 5000 + "\n---\n"),
    "YAML with a key twice": lambda d: (d / "README.md").write_text(
        (d / "README.md").read_text().replace("---\n", "---\nconfigs: []\n", 1)
    ),
    "YAML of a Python object": card("---\n!!python/object/apply:os.system ['true']\n---\n"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_dataset_is_one_answer(record_walks: RecordWalks, name: str) -> None:
    folder = record_walks()
    HOSTILE[name](folder)
    code, err = run("verify", str(folder), "--workers", "1")
    assert code in (1, 2)
    assert "a bug in Crucible" not in err and "Traceback" not in err
    for command in ("show", "stats", "worlds"):
        assert "a bug in Crucible" not in run(command, str(folder))[1]


@pytest.mark.parametrize("seed", range(1000 if LONG else 60))
def test_a_random_flipped_bit_in_a_bound_file_is_reported(
    record_walks: RecordWalks, seed: int
) -> None:
    folder = record_walks(seeds=(range(2),))
    choice = random.Random(seed)
    files = [data_path(folder), folder / MANIFEST_PATH, next((folder / "worlds").iterdir())]
    flip_byte(choice.choice(files), choice.randrange(1 << 20))
    code, err = run("verify", str(folder), "--workers", "1")
    assert code in (1, 2)
    assert "a bug in Crucible" not in err


@pytest.mark.parametrize("seed", range(500 if LONG else 30))
def test_a_random_edit_with_every_hash_made_to_fit_is_reported(
    record_walks: RecordWalks, seed: int
) -> None:
    """Except in what is recorded-only, and where an honest re-run gives the edited record."""
    folder = record_walks(seeds=(range(3),), attempts=2)
    choice = random.Random(seed)
    rows = pq.read_table(data_path(folder)).to_pylist()
    index = choice.randrange(6)
    field, edited = randomly_edited(rows[index], choice)
    fits = field not in ("fingerprint", "transcript", "num_steps")
    try:
        forge_rows(folder, lambda rows: rows.__setitem__(index, edited), refingerprint=fits)
    except FormatError:
        forge_rows(folder, lambda rows: rows.__setitem__(index, edited), refingerprint=False)
    code, err = run("verify", str(folder), "--workers", "1")
    assert "a bug in Crucible" not in err
    if CLAIMS[field] != RECORDED_ONLY and field not in ("seed", "steps.action"):
        assert code in (1, 2, 3), field


def randomly_edited(row: dict[str, Any], choice: random.Random) -> tuple[str, dict[str, Any]]:
    """One leaf of the row changed somewhere: the leaf's name, and the row."""
    field = choice.choice(sorted(set(CLAIMS) - {"steps"}))
    edited = copy.deepcopy(row)
    parent, _, name = field.rpartition(".")
    place: Any = edited[parent] if parent else edited
    if parent == "steps":
        place = choice.choice(place)
    old = place[name]
    while repr(place[name]) == repr(old):
        match old:
            case None:
                place[name] = True if name == "success" else '"x"'
            case bool():
                place[name] = choice.choice([None, not old]) if name == "success" else not old
            case int():
                place[name] = choice.randrange(-3, 9)
            case float():
                place[name] = choice.choice([0.0, -0.0, old + 1e-12, -old, choice.gauss(0, 1e6)])
            case _:
                at = choice.randrange(len(old) + 1)
                insert = choice.choice(["", "0", '"', " ", "\u0430", "{", "1e"])
                place[name] = old[:at] + insert + old[at + choice.randrange(3) :]
    return field, edited


@pytest.mark.parametrize("kind", ["pipe", "2 GB", "folder"])
def test_a_hostile_trajectory_file_is_one_answer(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "2 GB":
            path.touch()
            os.truncate(path, 1 << 31)
    for command in ("replay", "show", "verify"):
        code, err = run(command, str(path))
        assert code == 2
        assert err.startswith("error: ") and "a bug in Crucible" not in err


def test_no_edit_of_any_row_crashes_a_reader(record_walks: RecordWalks) -> None:
    from crucible.mutations import mutations_of

    honest = record_walks(seeds=(range(2),))
    rows = pq.read_table(data_path(honest)).to_pylist()
    for number, edit in enumerate(mutations_of(rows[0], rows[1])):
        if number % (1 if LONG else 4):
            continue
        folder = honest.parent / "edited"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(honest, folder)
        edited = copy.deepcopy([edit.row, rows[1]])
        write(folder, pa.Table.from_pylist(edited, schema=trajectory_schema()))
        assert "a bug in Crucible" not in run("verify", str(folder), "--workers", "1")[1], edit
        assert "a bug in Crucible" not in run("stats", str(folder))[1], edit
