"""The columns of a dataset: one explicit Arrow schema for every shard (format.md, "Tables")."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from crucible.agents import AgentInfo
from crucible.canonical import canonical_text, check_text, parse_text
from crucible.errors import FormatError
from crucible.trajectory import ENDS, Step, Trajectory
from crucible.worlds import World

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["row_of", "schema_of", "trajectory_of", "trajectory_schema", "world_schema"]

NULLABLE = frozenset(
    {"suite", "name", "success", "error", "messages", "tools", "tokens", "suite_version"}
    | {"distribution", "distribution_version", "code_digest"}
)
"""Columns that may hold null; a null anywhere else is malformed."""


@functools.cache
def trajectory_schema() -> pa.Schema:
    """The schema of ``data/``: one row an episode."""
    import pyarrow as pa

    text = pa.string()
    agent = pa.struct([(name, text) for name in ("name", "version", "model", "sampling")])
    step = pa.struct(
        [
            ("observation", text),
            ("action", text),
            ("reward", pa.float64()),
            ("terminated", pa.bool_()),
            ("truncated", pa.bool_()),
            ("info", text),
            ("digest", text),
        ]
    )
    return pa.schema(
        [
            ("fingerprint", text),
            ("transcript", text),
            ("split", text),
            ("suite", text),
            ("name", text),
            ("env_id", text),
            ("env_version", text),
            ("world", text),
            ("recording", text),
            ("seed", pa.int64()),
            ("attempt", pa.int32()),
            ("max_steps", pa.int32()),
            ("agent", agent),
            ("num_steps", pa.int32()),
            ("total_reward", pa.float64()),
            ("end", text),
            ("success", pa.bool_()),
            ("error", text),
            ("initial_digest", text),
            ("reset_info", text),
            ("steps", pa.list_(pa.field("element", step))),
            ("final_observation", text),
            ("messages", text),
            ("tools", text),
            ("tokens", text),
            ("provenance", text),
        ]
    )


@functools.cache
def world_schema() -> pa.Schema:
    """The schema of ``worlds/``: one row a world."""
    import pyarrow as pa

    text = pa.string()
    names = ("world", "suite", "suite_version", "name", "env_id", "env_version", "kwargs")
    origin = ("distribution", "distribution_version", "code_digest")
    fields = [(name, text) for name in names + origin]
    fields += [
        ("toolchain_needs", pa.list_(pa.field("element", text))),
        ("seeded", pa.bool_()),
    ]
    return pa.schema(fields)


def schema_of(config: str) -> pa.Schema:
    """The schema of ``worlds`` or ``trajectories``."""
    return world_schema() if config == "worlds" else trajectory_schema()


def row_of(trajectory: Trajectory, *, split: str, recording: str, attempt: int) -> dict[str, Any]:
    """The row of one trajectory, with its fingerprint and its place in the dataset."""
    world, agent = trajectory.world, trajectory.agent
    transcript = trajectory.transcript
    return {
        "fingerprint": trajectory.fingerprint_with(transcript),
        "transcript": transcript,
        "split": split,
        "suite": world.suite,
        "name": world.name,
        "env_id": world.env_id,
        "env_version": world.env_version,
        "world": world.digest,
        "recording": recording,
        "seed": trajectory.seed,
        "attempt": attempt,
        "max_steps": trajectory.max_steps,
        "agent": {
            "name": agent.name,
            "version": agent.version,
            "model": agent.model,
            "sampling": canonical_text(agent.sampling),
        },
        "num_steps": trajectory.num_steps,
        "total_reward": trajectory.total_reward,
        "end": trajectory.end,
        "success": trajectory.success,
        "error": trajectory.error,
        "initial_digest": trajectory.initial_digest,
        "reset_info": trajectory.reset_info_text,
        "steps": [_step_row(step) for step in trajectory.steps],
        "final_observation": trajectory.final_observation_text,
        "messages": trajectory.messages_text,
        "tools": trajectory.tools_text,
        "tokens": trajectory.tokens_text,
        "provenance": canonical_text(trajectory.provenance),
    }


def trajectory_of(row: dict[str, Any], world: World) -> Trajectory:
    """The trajectory of a row whose columns follow :func:`trajectory_schema`.

    Raises:
        FormatError: if a value is missing, is not canonical text, or contradicts another.
    """
    missing = [name for name, value in row.items() if value is None and name not in NULLABLE]
    if missing:
        raise FormatError(f"column {missing[0]} is null")
    if row["agent"]["name"] is None or row["agent"]["sampling"] is None:
        raise FormatError("agent.name or agent.sampling is null")
    if (row["messages"] is None) != (row["tools"] is None):
        raise FormatError("messages and tools are there together or not at all")
    if row["end"] not in ENDS:
        raise FormatError(f"end is {row['end']!r:.40}, expected one of {', '.join(sorted(ENDS))}")
    steps = tuple(_step_of(step, index) for index, step in enumerate(row["steps"]))
    if row["num_steps"] != len(steps):
        raise FormatError(f"num_steps is {row['num_steps']}, but there are {len(steps)} steps")
    if not (math.isfinite(row["total_reward"]) and all(math.isfinite(s.reward) for s in steps)):
        raise FormatError("a reward is not a finite number")
    sampling, provenance = parse_text(row["agent"]["sampling"]), parse_text(row["provenance"])
    if not isinstance(sampling, dict) or not isinstance(provenance, dict):
        raise FormatError("agent.sampling and provenance must be objects")
    for name in ("reset_info", "final_observation", "messages", "tools", "tokens"):
        if row[name] is not None:
            check_text(row[name])
    return Trajectory(
        world=world,
        seed=row["seed"],
        max_steps=row["max_steps"],
        agent=AgentInfo(
            row["agent"]["name"], row["agent"]["version"], row["agent"]["model"], sampling
        ),
        initial_digest=row["initial_digest"],
        reset_info_text=row["reset_info"],
        steps=steps,
        final_observation_text=row["final_observation"],
        end=row["end"],
        total_reward=row["total_reward"],
        success=row["success"],
        error=row["error"],
        messages_text=row["messages"],
        tools_text=row["tools"],
        tokens_text=row["tokens"],
        provenance=provenance,
    )


def _step_row(step: Step) -> dict[str, Any]:
    return {
        "observation": step.observation_text,
        "action": step.action_text,
        "reward": step.reward,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "info": step.info_text,
        "digest": step.digest,
    }


def _step_of(row: dict[str, Any] | None, index: int) -> Step:
    if row is None or None in row.values():
        raise FormatError(f"step {index} holds null")
    for name in ("observation", "action", "info"):
        check_text(row[name])
    return Step(
        row["observation"],
        row["action"],
        row["reward"],
        row["terminated"],
        row["truncated"],
        row["info"],
        row["digest"],
    )
