"""Audit: edit every recorded field, and say which check caught it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crucible.anchors import Anchors
from crucible.claims import CLAIMS, RECORDED_ONLY
from crucible.dataset.card import CARD_PATH, render_card
from crucible.dataset.files import write_durably
from crucible.dataset.folder import MANIFEST_PATH, read_manifest, read_worlds
from crucible.dataset.manifest import Manifest, Recording
from crucible.dataset.rows import read_rows
from crucible.dataset.schema import trajectory_of, trajectory_schema
from crucible.dataset.shards import ShardWriter
from crucible.dataset.stats import StatsCounter
from crucible.errors import CrucibleError, PolicyError
from crucible.judging import rerun_jobs
from crucible.mutations import Mutation, mutations_of
from crucible.verdicts import VerificationReport
from crucible.verification import Shared, verify_dataset
from crucible.workers import WorkerCrew
from crucible.worlds import World

__all__ = ["AuditReport", "FieldAudit", "audit_dataset"]

Row = dict[str, Any]

_REPLAYED_FIELDS = {"observation", "reward", "terminated", "truncated", "info", "digest", "step"}
_REPLAYED_FIELDS |= {"reset_info", "initial_digest", "final_observation", "error", "success"}


@dataclass(slots=True)
class FieldAudit:
    """How edits of one field were caught: check → number, with hashes left as they were and with
    all of them made to fit by an attacker. ``example`` shows one that nothing or only the
    published root caught."""

    label: str
    left: Counter[str] = field(default_factory=Counter)
    recomputed: Counter[str] = field(default_factory=Counter)
    example: str | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found, field by field."""

    num_rows: int
    num_edits: int
    fields: dict[str, FieldAudit]

    @property
    def unbound(self) -> list[str]:
        """Fields in which an edit was caught by nothing although they are not recorded-only, or
        in which an equivalent edit is possible although they are neither seed nor action."""
        return [
            name
            for name, audit in self.fields.items()
            if audit.left["nothing"]
            or audit.recomputed["nothing"]
            or (audit.recomputed["equivalent"] and name not in ("seed", "steps.action"))
        ]

    @property
    def exit_code(self) -> int:
        """1 where something is bound by nothing, else 0."""
        return 1 if self.unbound else 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        fields = {
            name: {
                "label": audit.label,
                "left": dict(audit.left),
                "recomputed": dict(audit.recomputed),
                "example": audit.example,
            }
            for name, audit in self.fields.items()
        }
        return {
            "rows": self.num_rows,
            "edits": self.num_edits,
            "fields": fields,
            "unbound": self.unbound,
            "exit_code": self.exit_code,
        }


def audit_dataset(
    folder: Path,
    *,
    sample: int = 3,
    seed: int = 0,
    on_edit: Callable[[], None] = lambda: None,
) -> AuditReport:
    """Edit every field of ``sample`` rows of the dataset in ``folder``, one edit at a time.

    Every edit is verified twice as a dataset of its own in a temporary folder: once with the
    hashes left alone, once with all hashes and counts recomputed.

    Raises:
        PolicyError: if a sampled row does not verify as it is.
        FormatError: if the dataset cannot be read.
    """
    manifest = read_manifest(folder)
    worlds = read_worlds(folder, manifest)
    pairs = _sample(folder, manifest, sample, seed)
    limits = {recording.id: recording.plan["max_steps"] for recording in manifest.recordings}
    fields = {name: FieldAudit(label) for name, label in CLAIMS.items()}
    num_edits = 0
    with WorkerCrew(rerun_jobs) as crew:
        for row, other in pairs:
            limit, world = limits.get(row["recording"]), worlds[row["world"]]
            with tempfile.TemporaryDirectory(prefix="crucible-audit-") as temporary:
                bench = _Bench(Path(temporary), row, world, max_steps=limit, crew=crew)
                for mutation in mutations_of(bench.row, other):
                    bench.audit(mutation, fields[mutation.field])
                    num_edits += 1
                    on_edit()
    return AuditReport(len(pairs), num_edits, fields)


def _sample(folder: Path, manifest: Manifest, count: int, seed: int) -> list[tuple[Row, Row]]:
    """Random rows, each with another row to swap fields with."""
    chosen = random.Random(seed)
    shards = manifest.shards_of("trajectories")
    rows = [row for s in shards for row in read_rows(folder / s.path, "trajectories")]
    picked = chosen.sample(rows, min(count, len(rows)))
    return [(row, chosen.choice(rows)) for row in picked]


class _Bench:
    """A dataset of one row that is edited again and again."""

    def __init__(
        self, folder: Path, row: Row, world: World, *, max_steps: int | None, crew: WorkerCrew
    ) -> None:
        self._folder, self._world = folder, world
        self.row, self._recording = _alone(row, world, max_steps)
        self._honest = folder / "honest"
        self._shared = Shared(Anchors(also_recorded=[world.digest]), crew)
        _write(self._honest, self.row, world, self._recording)
        report = verify_dataset(self._honest, workers=1, shared=self._shared)
        if not report.ok:
            reason = report.verdicts[0].reason if report.verdicts else report.findings[0].what
            raise PolicyError(
                f"row {row['fingerprint'][:16]} does not verify as it is ({reason or 'diverged'}): "
                "an audit needs an honest dataset"
            )

    def audit(self, mutation: Mutation, audit: FieldAudit) -> None:
        """Count which checks catch the edit."""
        audit.left[self.caught_with_hashes_left(mutation)] += 1
        check = self.caught_with_hashes_recomputed(mutation)
        audit.recomputed[check] += 1
        if check in ("equivalent", "nothing") and audit.example is None:
            audit.example = f"{mutation.kind}, seed {self.row['seed']}"

    def caught_with_hashes_left(self, mutation: Mutation) -> str:
        """The strongest check that names the edit in the shard; its bytes give it away at least."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        edited = self._folder / "left"
        shutil.rmtree(edited, ignore_errors=True)
        shutil.copytree(self._honest, edited)
        path = next((edited / "data").iterdir())
        table = pa.Table.from_pylist([mutation.row], schema=trajectory_schema())
        pq.write_table(table, path, compression="zstd", use_dictionary=False, store_schema=False)
        check = _check_of(self._verified(edited))
        return "root" if check == "nothing" else check

    def caught_with_hashes_recomputed(self, mutation: Mutation) -> str:
        """The check that catches the edit when every hash and count fits it."""
        edited = self._folder / "recomputed"
        shutil.rmtree(edited, ignore_errors=True)
        row = _rehashed(mutation, self._world)
        _write(edited, row, self._world, self._recording)
        check = _check_of(self._verified(edited), bytes_fit=True)
        if check != "nothing":
            return check
        if CLAIMS[mutation.field] == RECORDED_ONLY:
            return RECORDED_ONLY
        return "equivalent" if mutation.field in ("seed", "steps.action") else "nothing"

    def _verified(self, folder: Path) -> VerificationReport | CrucibleError:
        try:
            return verify_dataset(folder, workers=1, shared=self._shared)
        except CrucibleError as error:
            return error


def _alone(row: Row, world: World, max_steps: int | None) -> tuple[Row, Recording]:
    """The row as the only one of a recording that was planned for it."""
    seed = row["seed"]
    # Neighbouring seeds are planned too, so that an edited seed is not caught by the plan alone.
    plan = {
        "agent": row["agent"]["name"],
        "attempts": 1,
        "max_steps": max_steps,
        "seeds": [[seed - 2, seed + 3]],
        "worlds": [world.digest],
    }
    errored = int(row["error"] is not None)
    recording = Recording("audit", plan, 5, 1, errored, withheld=4)
    return {**row, "recording": recording.id, "attempt": 0}, recording


def _rehashed(mutation: Mutation, world: World) -> Row:
    """The edited row with its own digests made to fit, as far as that is possible."""
    row = mutation.row
    if mutation.field in ("fingerprint", "transcript", "num_steps"):
        return row
    row["num_steps"] = len(row["steps"])
    try:
        trajectory = trajectory_of(row, world)
        row["transcript"] = trajectory.transcript
        row["fingerprint"] = trajectory.fingerprint
    except (CrucibleError, KeyError, TypeError):
        pass
    return row


def _write(folder: Path, row: Row, world: World, recording: Recording) -> None:
    worlds = ShardWriter(folder, config="worlds", split="worlds")
    worlds.add(world.to_row())
    rows = ShardWriter(folder, config="trajectories", split="train")
    rows.add(row)
    shards = [*worlds.close(), *rows.close()]
    errored = int(row["error"] is not None)
    manifest = Manifest(
        shards=tuple(shards),
        worlds={world.digest: 1},
        recordings=(replace(recording, errored=errored),),
    )
    write_durably(folder / MANIFEST_PATH, manifest.to_bytes())
    counter = StatsCounter()
    counter.add(row)
    card = render_card(manifest, counter.stats())
    write_durably(folder / CARD_PATH, card.encode())


def _check_of(report: VerificationReport | CrucibleError, *, bytes_fit: bool = False) -> str:
    """The strongest check that a report names: replay, recomputation, anchor, or nothing."""
    if isinstance(report, CrucibleError):
        return "recomputation"
    fields: Iterable[str] = [m.field for v in report.verdicts for m in v.mismatches]
    if _REPLAYED_FIELDS & set(fields):
        return "replay"
    if list(fields):
        return "recomputation"
    own = [v for v in report.verdicts if v.status in ("tampered", "refused", "diverged")]
    own = [v for v in own if "is not the file that the manifest lists" not in str(v.reason)]
    unbound = report.num_unbound > 0
    if own or unbound or (bytes_fit and report.findings):
        return "recomputation"
    if any(v.status == "unverifiable" for v in report.verdicts):
        return "recomputation"
    return "anchor" if report.unanchored else "nothing"
