"""Supervised fine-tuning with TRL on chats from verified episodes."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crucible.canonical import parse_text
from crucible.dataset.files import write_durably
from crucible.dataset.folder import is_dataset
from crucible.errors import PolicyError, UsageError, require
from crucible.training.exports import (
    EXPORT_PATH,
    ExportOptions,
    export_dataset,
    load_export,
)
from crucible.training.tiny import tiny_model, tiny_tokenizer
from crucible.training.tokenization import tokenize_chat
from crucible.version import __version__

__all__ = ["SFTOptions", "SFTResult", "train_sft"]

TINY = "tiny"


@dataclass(frozen=True, slots=True)
class SFTOptions:
    """How to train. ``lora_rank`` 0 trains all weights; ``trl`` goes to ``SFTConfig`` as it is.
    ``max_tokens`` leaves out longer chats; nothing is ever truncated."""

    max_steps: int = 100
    learning_rate: float = 2e-3
    batch_size: int = 4
    lora_rank: int = 0
    max_tokens: int = 4096
    seed: int = 0
    allow_unanchored: bool = False
    trl: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SFTResult:
    """What a run gave: the training loss at its first and last logged step, and where it is."""

    output_dir: Path
    parent_root: str
    num_rows: int
    num_left_out: int
    max_steps: int
    first_loss: float
    last_loss: float
    losses: tuple[float, ...]


def train_sft(
    source: Path, *, model: str, output_dir: Path, options: SFTOptions | None = None
) -> SFTResult:
    """Fine-tune ``model`` on an export, or on a dataset that is verified and exported first.

    Args:
        source: a folder with an export or a dataset.
        model: a path or id for transformers, or ``tiny`` for a model built here.
        output_dir: where model, tokenizer, ``results.json`` and model card go.
        options: how to train.

    Raises:
        DependencyError: if torch or TRL are not installed.
        PolicyError: if no row can be trained on.
        UsageError: if ``source`` is neither, or the model cannot be loaded.
    """
    options = options or SFTOptions()
    for name in ("torch", "trl", "peft"):
        require(name, extra="train")
    export = _export_of(source, output_dir, options)
    rows = list(load_export(export))
    tokenizer, network = _load(model, rows, options)
    examples, left_out = _examples(rows, tokenizer, options)
    losses = _run(network, tokenizer, examples, output_dir=output_dir, options=options)
    root = str(_statement(export)["parent_root"])
    result = SFTResult(
        output_dir=output_dir,
        parent_root=root,
        num_rows=len(examples),
        num_left_out=left_out,
        max_steps=options.max_steps,
        first_loss=losses[0],
        last_loss=losses[-1],
        losses=tuple(losses),
    )
    _write_results(result, model, rows, options=options)
    return result


def _statement(export: Path) -> dict[str, Any]:
    body: dict[str, Any] = parse_text((export / EXPORT_PATH).read_text(encoding="utf-8"))
    return body


def _export_of(source: Path, output_dir: Path, options: SFTOptions) -> Path:
    if (source / EXPORT_PATH).is_file():
        return source
    if not is_dataset(source):
        raise UsageError(f"{source} holds neither a dataset nor an export")
    export = output_dir / "export"
    allow = ExportOptions(allow_unanchored=options.allow_unanchored, success=True)
    export_dataset(source, export, options=allow)
    return export


def _load(model: str, rows: list[dict[str, Any]], options: SFTOptions) -> tuple[Any, Any]:
    if model == TINY:
        texts = [json.dumps(row["messages"], ensure_ascii=False) for row in rows]
        tokenizer = tiny_tokenizer(texts)
        return tokenizer, tiny_model(tokenizer, seed=options.seed)
    transformers = require("transformers", extra="train")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        network = transformers.AutoModelForCausalLM.from_pretrained(model)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise UsageError(f"model {model!r} cannot be loaded: {first_line}") from error
    return tokenizer, network


def _examples(
    rows: list[dict[str, Any]], tokenizer: Any, options: SFTOptions
) -> tuple[list[dict[str, list[int]]], int]:
    """Token ids and labels of the rows that fit, made here from their messages."""
    examples = []
    for row in rows:
        chat = tokenize_chat(tokenizer, row["messages"], row["tools"])
        if len(chat.input_ids) <= options.max_tokens:
            examples.append({"input_ids": chat.input_ids, "labels": chat.labels})
    if not examples:
        raise PolicyError(f"every chat has more than {options.max_tokens} tokens")
    return examples, len(rows) - len(examples)


def _run(
    network: Any,
    tokenizer: Any,
    examples: list[dict[str, list[int]]],
    *,
    output_dir: Path,
    options: SFTOptions,
) -> list[float]:
    """Train and save; the loss at every logged step."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    torch = require("torch", extra="train")
    datasets = require("datasets", extra="train")
    with warnings.catch_warnings():
        # What the training libraries say to each other is not for whoever calls us.
        warnings.simplefilter("ignore")
        trl = require("trl", extra="train")
        settings: dict[str, Any] = {
            "output_dir": str(output_dir / "checkpoints"),
            "max_steps": options.max_steps,
            "learning_rate": options.learning_rate,
            "per_device_train_batch_size": options.batch_size,
            "max_length": None,
            "packing": False,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "seed": options.seed,
            "disable_tqdm": True,
            "gradient_checkpointing": False,
            "use_cpu": not torch.cuda.is_available(),
            "bf16": torch.cuda.is_available(),
        }
        trainer = trl.SFTTrainer(
            model=network,
            args=trl.SFTConfig(**{**settings, **options.trl}),
            train_dataset=datasets.Dataset.from_list(examples),
            processing_class=tokenizer,
            peft_config=_lora(options),
        )
        trainer.remove_callback(
            require("transformers.trainer_callback", extra="train").PrinterCallback
        )
        trainer.train()
        trainer.save_model(str(output_dir))
        tokenizer.save_pretrained(str(output_dir))
    return [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]


def _lora(options: SFTOptions) -> Any:
    if options.lora_rank == 0:
        return None
    peft = require("peft", extra="train")
    return peft.LoraConfig(
        r=options.lora_rank,
        lora_alpha=2 * options.lora_rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def _write_results(
    result: SFTResult, model: str, rows: list[dict[str, Any]], *, options: SFTOptions
) -> None:
    worlds = sorted({row["label"] for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    body = {
        **asdict(result),
        "output_dir": result.output_dir.name,
        "model": model,
        "options": asdict(options),
        "worlds": worlds,
        "seeds": seeds,
        "crucible": __version__,
    }
    text = json.dumps(body, indent=2, sort_keys=True) + "\n"
    write_durably(result.output_dir / "results.json", text.encode())
    write_durably(result.output_dir / "README.md", _model_card(result, model, worlds).encode())


def _model_card(result: SFTResult, model: str, worlds: list[str]) -> str:
    listed = "\n".join(f"- {world}" for world in worlds)
    return f"""---
tags:
- crucible
- sft
---

# {model}, fine-tuned on verified episodes

Supervised fine-tuning with TRL on {result.num_rows} chats, {result.max_steps} steps. The training
loss went from {result.first_loss:.3f} to {result.last_loss:.3f}. Nothing here says how well the
model acts: measure that in the environments themselves.

The chats come from the dataset with root `{result.parent_root}`, whose episodes were re-run before
training. Worlds:

{listed}
"""
