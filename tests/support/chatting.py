"""Datasets whose rows have a recorded chat."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tampering import forge_rows

from crucible.canonical import canonical_text
from crucible.chat import canonical_chat
from crucible.dataset.folder import read_trajectories
from crucible.env_pool import EnvironmentPool

Messages = list[dict[str, Any]]


def record_chat(folder: Path, change: Callable[[Messages, int], Any]) -> None:
    """Give every row the environment's own chat, changed, with all hashes made to fit."""
    environments = EnvironmentPool()
    trajectories = list(read_trajectories(folder))

    def edit(rows: list[dict[str, Any]]) -> None:
        for row, trajectory in zip(rows, trajectories, strict=True):
            chat = canonical_chat(environments.get(trajectory.world), trajectory)
            change(chat.messages, row["seed"])
            row["messages"] = canonical_text(chat.messages)
            row["tools"] = canonical_text(chat.tools)

    forge_rows(folder, edit)
