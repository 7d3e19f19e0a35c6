"""Training sets from verified episodes, and TRL runs on them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crucible.training.exports import (
        ExportOptions,
        ExportSummary,
        export_dataset,
        load_export,
    )
    from crucible.training.sft import SFTOptions, SFTResult, train_sft
    from crucible.training.tokenization import TokenizedChat, tokenize_chat

__all__ = [
    "ExportOptions",
    "ExportSummary",
    "SFTOptions",
    "SFTResult",
    "TokenizedChat",
    "export_dataset",
    "load_export",
    "tokenize_chat",
    "train_sft",
]

_HOMES = {
    "exports": ("ExportOptions", "ExportSummary", "export_dataset", "load_export"),
    "sft": ("SFTOptions", "SFTResult", "train_sft"),
    "tokenization": ("TokenizedChat", "tokenize_chat"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'crucible.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"crucible.training.{home}"), name)
