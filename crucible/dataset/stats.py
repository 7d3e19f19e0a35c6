"""Statistics over the rows of a dataset."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crucible.dataset.manifest import Shard
from crucible.dataset.rows import read_rows
from crucible.errors import FormatError

__all__ = ["DatasetStats", "GroupStats", "StatsCounter", "dataset_stats"]

_COLUMNS = ["transcript", "suite", "name", "env_id", "world", "agent", "success"]
_COLUMNS += ["total_reward", "num_steps", "end"]
_REQUIRED = ("transcript", "env_id", "world", "agent", "total_reward", "num_steps", "end")


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Figures of one agent in one world. ``success_rate`` is None where success is not defined;
    ``transcripts`` counts distinct ones, which is what samples should be counted by."""

    world: str
    agent: str
    episodes: int
    transcripts: int
    success_rate: float | None
    mean_reward: float
    mean_steps: float


@dataclass(frozen=True, slots=True)
class DatasetStats:
    """Figures of a dataset, with one group for each agent in each world."""

    num_rows: int
    num_steps: int
    num_transcripts: int
    ends: dict[str, int]
    groups: tuple[GroupStats, ...]

    def to_dict(self) -> dict[str, Any]:
        """The statistics as plain JSON values."""
        return asdict(self)


@dataclass(slots=True)
class _Tally:
    episodes: int = 0
    rewards: list[float] = field(default_factory=list)
    steps: int = 0
    succeeded: int = 0
    judged: int = 0
    transcripts: set[str] = field(default_factory=set)


def dataset_stats(folder: Path, shards: Iterable[Shard]) -> DatasetStats:
    """The statistics of trajectory shards below ``folder``, without reading their steps.

    Raises:
        FormatError: if a shard cannot be read.
    """
    counter = StatsCounter()
    for shard in shards:
        for row in read_rows(folder / shard.path, "trajectories", columns=_COLUMNS):
            if not counter.add(row):
                raise FormatError(f"{shard.path}: a column that may not be null is")
    return counter.stats()


class StatsCounter:
    """Counts rows one by one."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._ends: Counter[str] = Counter()

    def add(self, row: Mapping[str, Any]) -> bool:
        """Count one row; False, and nothing counted, where a column that may not be null is."""
        agent = row["agent"] and row["agent"]["name"]
        if agent is None or any(row[name] is None for name in _REQUIRED):
            return False
        label = f"{row['suite']}/{row['name']}" if row["suite"] else row["env_id"]
        tally = self._tallies.setdefault((label, agent), _Tally())
        tally.episodes += 1
        tally.rewards.append(row["total_reward"])
        tally.steps += row["num_steps"]
        tally.transcripts.add(f"{row['world']}:{row['transcript']}")
        if row["success"] is not None:
            tally.judged += 1
            tally.succeeded += row["success"]
        self._ends[row["end"]] += 1
        return True

    def stats(self) -> DatasetStats:
        """The statistics of all rows so far."""
        tallies = self._tallies
        return DatasetStats(
            num_rows=sum(tally.episodes for tally in tallies.values()),
            num_steps=sum(tally.steps for tally in tallies.values()),
            num_transcripts=len(set().union(*(tally.transcripts for tally in tallies.values()))),
            ends=dict(sorted(self._ends.items())),
            groups=tuple(_group(*key, tally) for key, tally in sorted(tallies.items())),
        )


def _group(world: str, agent: str, tally: _Tally) -> GroupStats:
    return GroupStats(
        world=world,
        agent=agent,
        episodes=tally.episodes,
        transcripts=len(tally.transcripts),
        success_rate=tally.succeeded / tally.judged if tally.judged else None,
        mean_reward=_mean(tally.rewards),
        mean_steps=tally.steps / tally.episodes,
    )


def _mean(rewards: list[float]) -> float:
    """Their correctly rounded sum over their number, whatever their order; not a number where a
    reward is none."""
    try:
        return math.fsum(rewards) / len(rewards)
    except (OverflowError, ValueError):
        return math.nan
