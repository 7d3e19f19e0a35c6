"""Exports: training sets made from verified episodes, each row naming the one it comes from."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.canonical import canonical_text, parse_text
from crucible.chat import Chat, bind_messages, canonical_chat
from crucible.dataset.files import write_durably
from crucible.dataset.folder import read_manifest, read_trajectories
from crucible.env_pool import EnvironmentPool
from crucible.errors import CrucibleError, FormatError, PolicyError, UsageError, require
from crucible.training.tokenization import tokenize_chat
from crucible.trajectory import Trajectory
from crucible.verdicts import Verdict, VerificationReport
from crucible.verification import verify_dataset
from crucible.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EXPORT_PATH", "ExportOptions", "ExportSummary", "export_dataset", "load_export"]

EXPORT_PATH = "crucible/export.json"
FORMATS = ("sft",)
ROWS_PER_GROUP = 1000

_LINEAGE = ("fingerprint", "world", "label", "verdict", "anchor", "agent")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to export.

    ``tokenizer`` is a path or id; with one, rows hold ``input_ids`` and ``labels``. Only rows
    that reproduced in anchored worlds go out, unless ``allow_unverified`` or
    ``allow_unanchored`` – then every row says so. ``canonical_turns`` writes the assistant's
    turns from the verified actions even where a chat was recorded.
    """

    tokenizer: str | None = None
    min_reward: float | None = None
    success: bool = False
    world: str | None = None
    agent: str | None = None
    max_tokens: int | None = None
    canonical_turns: bool = False
    allow_unanchored: bool = False
    allow_unverified: bool = False


@dataclass(slots=True)
class ExportSummary:
    """What went out, and how many rows were left out for which reason."""

    path: Path
    num_rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def export_dataset(
    folder: Path,
    out: Path,
    *,
    format: str = "sft",
    options: ExportOptions | None = None,
    report: VerificationReport | None = None,
) -> ExportSummary:
    """Export the verified episodes of the dataset in ``folder`` into the folder ``out``.

    Args:
        folder: a dataset.
        out: a folder that is empty or not there.
        format: ``sft``: a chat a row.
        options: which rows, and how.
        report: a verification of this dataset, made now if None.

    Raises:
        UsageError: if the format is unknown or ``out`` is in use.
        PolicyError: if no row is left, or the report is of another dataset.
    """
    options = options or ExportOptions()
    if format not in FORMATS:
        raise UsageError(f"export format {format!r} is unknown (known: {', '.join(FORMATS)})")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not empty: choose another --out")
    manifest = read_manifest(folder)
    if report is None:
        report = verify_dataset(folder)
    if report.root != manifest.root:
        raise PolicyError(f"the verification is of root {report.root}, not of {manifest.root}")
    summary = ExportSummary(out)
    tokenizer = _load_tokenizer(options.tokenizer) if options.tokenizer else None
    rows = _rows(folder, report, options=options, tokenizer=tokenizer, summary=summary)
    _write(out, rows, tokenized=tokenizer is not None, summary=summary)
    if summary.num_rows == 0:
        (out / "data" / "train.parquet").unlink()
        reasons = ", ".join(f"{count} {why}" for why, count in summary.left_out.items())
        raise PolicyError(f"nothing is left to export: {reasons or 'the dataset is empty'}")
    _write_statement(out, manifest.root, format, options=options, tokenizer=tokenizer)
    return summary


def load_export(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of an export as exact Python objects, ``messages`` and ``tools`` decoded.

    Raises:
        FormatError: if ``path`` holds no export.
    """
    import pyarrow.parquet as pq

    if not (path / EXPORT_PATH).is_file():
        raise FormatError(f"{path} holds no export: {EXPORT_PATH} is not there")
    with pq.ParquetFile(path / "data" / "train.parquet") as file:
        for batch in file.iter_batches(batch_size=256):
            for row in batch.to_pylist():
                for name in ("messages", "tools"):
                    row[name] = parse_text(row[name])
                yield row


def _rows(
    folder: Path,
    report: VerificationReport,
    *,
    options: ExportOptions,
    tokenizer: Any,
    summary: ExportSummary,
) -> Iterator[dict[str, Any]]:
    environments = EnvironmentPool()
    pairs = zip(report.verdicts, read_trajectories(folder), strict=True)
    try:
        for verdict, trajectory in pairs:
            reason = _why_not(verdict, trajectory, options)
            row: dict[str, Any] = {}
            if reason is None:
                try:
                    row = _row(verdict, trajectory, options=options, environments=environments)
                    reason = _tokenize(row, tokenizer, options)
                except CrucibleError as error:
                    reason = str(error)
            if reason is not None:
                summary.left_out[reason] += 1
                continue
            summary.num_rows += 1
            yield row
    finally:
        environments.close()


def _why_not(verdict: Verdict, trajectory: Trajectory, options: ExportOptions) -> str | None:
    """Why a row is not exported; None if it is."""
    trusted = verdict.status == "reproduced" or (
        options.allow_unverified and verdict.status == "unverifiable"
    )
    if not trusted:
        return verdict.status
    if verdict.anchor is None and not options.allow_unanchored:
        return "in a world that is not anchored"
    if options.success and trajectory.success is not True:
        return "without success"
    if options.min_reward is not None and trajectory.total_reward < options.min_reward:
        return f"with a reward below {options.min_reward}"
    if options.world is not None and options.world not in (verdict.label, verdict.world):
        return "in another world"
    if options.agent is not None and options.agent != trajectory.agent.name:
        return "by another agent"
    if trajectory.num_steps == 0:
        return "without a step"
    if verdict.messages not in (None, "bound") and not options.canonical_turns:
        return "with messages that are not bound to its steps"
    return None


def _row(
    verdict: Verdict,
    trajectory: Trajectory,
    *,
    options: ExportOptions,
    environments: EnvironmentPool,
) -> dict[str, Any]:
    env = environments.get(trajectory.world)
    try:
        recorded = trajectory.messages is not None and not options.canonical_turns
        if recorded and bind_messages(env, trajectory) is not None:
            raise PolicyError("with messages that are not bound to its steps")
        if recorded:
            chat = Chat(trajectory.messages or [], env.tools())
        else:
            chat = canonical_chat(env, trajectory)
    finally:
        environments.release(trajectory.world, env)
    return {
        "messages": canonical_text(chat.messages),
        "tools": canonical_text(chat.tools),
        "turns": "recorded" if recorded else "canonical",
        "fingerprint": verdict.fingerprint,
        "steps": trajectory.num_steps,
        "world": verdict.world,
        "label": verdict.label,
        "seed": trajectory.seed,
        "agent": trajectory.agent.name,
        "total_reward": trajectory.total_reward,
        "verdict": verdict.status,
        "anchor": verdict.anchor or "none",
    }


def _tokenize(row: dict[str, Any], tokenizer: Any, options: ExportOptions) -> str | None:
    """Add token ids and labels; why the row is left out, if it is."""
    if tokenizer is None:
        return None
    chat = tokenize_chat(tokenizer, parse_text(row["messages"]), parse_text(row["tools"]))
    if options.max_tokens is not None and len(chat.input_ids) > options.max_tokens:
        return f"with more than {options.max_tokens} tokens"
    row |= {"input_ids": chat.input_ids, "labels": chat.labels}
    return None


def _schema(*, tokenized: bool) -> pa.Schema:
    import pyarrow as pa

    text = pa.string()
    fields = [("messages", text), ("tools", text), ("turns", text), ("fingerprint", text)]
    fields += [("steps", pa.int32()), ("world", text), ("label", text), ("seed", pa.int64())]
    fields += [("agent", text), ("total_reward", pa.float64())]
    fields += [("verdict", text), ("anchor", text)]
    if tokenized:
        ids = pa.list_(pa.field("element", pa.int32()))
        fields += [("input_ids", ids), ("labels", ids)]
    return pa.schema(fields)


def _write(
    out: Path, rows: Iterator[dict[str, Any]], *, tokenized: bool, summary: ExportSummary
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(tokenized=tokenized)
    (out / "data").mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(out / "data" / "train.parquet", schema, compression="zstd") as writer:
        group: list[dict[str, Any]] = []
        for row in rows:
            group.append(row)
            if len(group) == ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                group = []
        writer.write_table(pa.Table.from_pylist(group, schema=schema))


def _write_statement(
    out: Path, parent_root: str, format: str, *, options: ExportOptions, tokenizer: Any
) -> None:
    """What this export is and where it comes from, and a card that loads it."""
    data = (out / "data" / "train.parquet").read_bytes()
    body: dict[str, Any] = {
        "format": 1,
        "kind": format,
        "parent_root": parent_root,
        "options": asdict(options),
        "crucible": __version__,
        "sha256": hashlib.sha256(data).hexdigest(),
        "chat_template": None,
    }
    if tokenizer is not None:
        template = str(tokenizer.chat_template)
        body["chat_template"] = hashlib.sha256(template.encode()).hexdigest()
    write_durably(out / EXPORT_PATH, canonical_text(body).encode())
    write_durably(out / "README.md", _card(parent_root).encode())


def _card(parent_root: str) -> str:
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path:
    - data/train.parquet
tags:
- crucible
- sft
---

# Chats from verified episodes

Made from the dataset with root `{parent_root}`. Every row names its episode (`fingerprint`), its
world, and the verdict under which it was exported. `messages` and `tools` are JSON text, so that no
number changes on the way:

```python
from pathlib import Path

from crucible.training import load_export

for row in load_export(Path(".")):
    print(row["messages"], row["tools"])
```
"""


def _load_tokenizer(name: str) -> Any:
    transformers = require("transformers", extra="train")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UsageError(f"tokenizer {name!r} cannot be loaded: {first_line}") from error
    if not tokenizer.chat_template:
        raise PolicyError(f"tokenizer {name!r} has no chat template")
    return tokenizer
