"""Feeds mutated files to every reader for some seconds: ``python fuzzing.py SECONDS SEED``.

Prints one JSON object: inputs tried and refused by reader, and the process's peak memory.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from walking import Up, Walk

from crucible import Trajectory, rollout
from crucible.canonical import parse_json, parse_text
from crucible.dataset.folder import MANIFEST_PATH, read_manifest, read_worlds
from crucible.dataset.manifest import Manifest
from crucible.dataset.rows import read_rows
from crucible.errors import CrucibleError
from crucible.recording import Plan, record_plan
from crucible.reports import parse_report
from crucible.trust import read_trust, trust_path
from crucible.verification import verify_dataset
from crucible.world_references import resolve_worlds

TOKENS = [b"null", b"true", b"1e999", b"-0", b"NaN", b'"', b"{", b"[" * 300, b"]", b":", b","]
TOKENS += [b"\\ud800", b"\xff", b"\x00", b"18446744073709551616", b"$ndarray", b'{"$bytes":1}']
TOKENS += [b"\xff" * 5, b"\x80\x80\x80\x80\x08", b"PAR1", b"\x15\x02", b"\x19\xfc"]


def mutated(data: bytes, choice: random.Random) -> bytes:
    """``data`` with a few random edits."""
    out = bytearray(data)
    for _ in range(choice.choice([1, 1, 2, 4, 16])):
        at = choice.randrange(len(out) + 1)
        match choice.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << choice.randrange(8)
            case 1:
                out[at:at] = choice.choice(TOKENS)
            case 2:
                del out[at : at + choice.choice([1, 2, 8, 64])]
            case 3:
                start = choice.randrange(len(out) + 1)
                out[at:at] = out[start : start + choice.choice([1, 8, 64, 512])]
            case 4:
                out[at : at + 4] = choice.randbytes(4)
            case _ if choice.random() < 0.1:
                del out[at:]
    return bytes(out)


def readers(folder: Path) -> dict[str, tuple[bytes, Callable[[bytes], Any]]]:
    """Reader → an honest input, and what reads one."""
    dataset = folder / "dataset"
    worlds = tuple(resolve_worlds("walking:Walk", {}))
    record_plan(Plan(worlds, (range(3),), "walking:Up"), dataset, workers=1)
    manifest = read_manifest(dataset)
    world_shard, data_shard = (dataset / shard.path for shard in manifest.shards)
    rollout(Walk(), Up(), seed=1).save(folder / "t.json")
    verified = verify_dataset(dataset, workers=1, replay=False)
    report = json.dumps(verified.to_dict()).encode()

    def as_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
        path = folder / name

        def apply(data: bytes) -> Any:
            path.write_bytes(data)
            return read(path)

        return apply

    def trust_of(data: bytes) -> Any:
        trust_path().parent.mkdir(parents=True, exist_ok=True)
        trust_path().write_bytes(data)
        return read_trust()

    def worlds_of(data: bytes) -> Any:
        world_shard.write_bytes(data)
        return read_worlds(dataset, manifest)

    text = b'{"a":[1,2.5,"x",null,true,{"$bytes":"AP8="}],"b":{"$$x":-0.0,"e":1e+16}}'
    array = b'{"$ndarray":{"data":"AQACAA==","dtype":"<u2","shape":[1,2]}}'
    return {
        "canonical text": (text, lambda data: parse_text(data.decode())),
        "arrays": (array, lambda data: parse_text(data.decode())),
        "JSON": (text, lambda data: parse_json(data.decode())),
        "manifest": ((dataset / MANIFEST_PATH).read_bytes(), Manifest.from_bytes),
        "report": (report, parse_report),
        "trust": (b'{"format":1,"suites":["a"],"worlds":[]}', trust_of),
        "trajectory": ((folder / "t.json").read_bytes(), as_file("t.json", Trajectory.load)),
        "worlds": (world_shard.read_bytes(), worlds_of),
        "rows": (
            data_shard.read_bytes(),
            as_file("x.parquet", lambda path: list(read_rows(path, "trajectories"))),
        ),
    }


def main(seconds: float, seed: int) -> None:
    """Fuzz; anything that a reader raises beside its own errors ends the process."""
    choice = random.Random(seed)
    tried: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            os.environ[name] = f"{folder}/home"
        targets = readers(Path(folder))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, (honest, read) in targets.items():
                data = mutated(honest, choice)
                start = time.monotonic()
                tried[name] += 1
                try:
                    read(data)
                except (CrucibleError, UnicodeDecodeError):
                    refused[name] += 1
                except BaseException:
                    sys.stderr.write(f"{name} fell over input {data[:2000]!r}\n")
                    raise
                slowest = max(slowest, time.monotonic() - start)
    # Not ru_maxrss: a child begins with what its parent had when it was started.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
    figures = {"tried": tried, "refused": refused, "slowest_s": slowest, "peak_mib": peak}
    sys.stdout.write(json.dumps(figures))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
