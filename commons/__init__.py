"""The Hub layer: publish, pull and look at datasets with the stock client."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crucible.commons.info import DatasetInfo, dataset_info, prove_row_of
    from crucible.commons.localhub import LocalHub
    from crucible.commons.pulling import Pulled, pull_dataset, pull_to_cache
    from crucible.commons.pushing import PushOptions, PushResult, push_dataset

__all__ = [
    "DatasetInfo",
    "LocalHub",
    "Pulled",
    "PushOptions",
    "PushResult",
    "dataset_info",
    "prove_row_of",
    "pull_dataset",
    "pull_to_cache",
    "push_dataset",
]

_HOMES = {
    "info": ("DatasetInfo", "dataset_info", "prove_row_of"),
    "localhub": ("LocalHub",),
    "pulling": ("Pulled", "pull_dataset", "pull_to_cache"),
    "pushing": ("PushOptions", "PushResult", "push_dataset"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'crucible.commons' has no attribute {name!r}")
    return getattr(importlib.import_module(f"crucible.commons.{home}"), name)
