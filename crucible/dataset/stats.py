"""Statistics over the rows of a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crucible.dataset.manifest import Shard
from crucible.dataset.rows import read_rows
from crucible.errors import FormatError

__all__ = ["DatasetStats", "GroupStats", "dataset_stats"]

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
    reward: float = 0.0
    steps: int = 0
    succeeded: int = 0
    judged: int = 0
    transcripts: set[str] = field(default_factory=set)


def dataset_stats(folder: Path, shards: Iterable[Shard]) -> DatasetStats:
    """The statistics of trajectory shards below ``folder``, without reading their steps.

    Raises:
        FormatError: if a shard cannot be read.
    """
    tallies: dict[tuple[str, str], _Tally] = {}
    ends: dict[str, int] = {}
    for shard in shards:
        for row in _summaries(folder / shard.path):
            label = f"{row['suite']}/{row['name']}" if row["suite"] else row["env_id"]
            tally = tallies.setdefault((label, row["agent"]["name"]), _Tally())
            _add(tally, row)
            ends[row["end"]] = ends.get(row["end"], 0) + 1
    groups = tuple(_group(*key, tally) for key, tally in sorted(tallies.items()))
    return DatasetStats(
        num_rows=sum(tally.episodes for tally in tallies.values()),
        num_steps=sum(tally.steps for tally in tallies.values()),
        num_transcripts=len(set().union(*(tally.transcripts for tally in tallies.values()))),
        ends=dict(sorted(ends.items())),
        groups=groups,
    )


def _summaries(path: Path) -> Iterable[dict[str, Any]]:
    for row in read_rows(path, "trajectories", columns=_COLUMNS):
        if None in (row[name] for name in _REQUIRED) or row["agent"]["name"] is None:
            raise FormatError(f"{path.name}: a column that may not be null is")
        yield row


def _add(tally: _Tally, row: dict[str, Any]) -> None:
    tally.episodes += 1
    tally.reward += row["total_reward"]
    tally.steps += row["num_steps"]
    tally.transcripts.add(f"{row['world']}:{row['transcript']}")
    if row["success"] is not None:
        tally.judged += 1
        tally.succeeded += row["success"]


def _group(world: str, agent: str, tally: _Tally) -> GroupStats:
    return GroupStats(
        world=world,
        agent=agent,
        episodes=tally.episodes,
        transcripts=len(tally.transcripts),
        success_rate=tally.succeeded / tally.judged if tally.judged else None,
        mean_reward=tally.reward / tally.episodes,
        mean_steps=tally.steps / tally.episodes,
    )
