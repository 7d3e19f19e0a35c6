"""The single-file JSON form of a trajectory, and the files of crucible-rl 0.1 and 0.2."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from crucible.agents import AgentInfo
from crucible.canonical import canonical_text, check_text, parse_json
from crucible.dataset.files import read_bounded
from crucible.errors import FormatError, TargetNotFoundError, TextError
from crucible.trajectory import ENDS, Step, Trajectory
from crucible.worlds import World

__all__ = ["FILE_VERSION", "read_trajectory", "write_trajectory"]

FILE_VERSION = 4
MAX_FILE_BYTES = 64 * 1024 * 1024

_TEXT = (str,)
_OPTIONAL_TEXT = (str, type(None))
_STEP_TYPES: dict[str, tuple[type, ...]] = {
    "observation": _TEXT,
    "action": _TEXT,
    "reward": (float,),
    "terminated": (bool,),
    "truncated": (bool,),
    "info": _TEXT,
    "digest": _TEXT,
}
_WORLD_TYPES: dict[str, tuple[type, ...]] = {
    "world": _TEXT,
    "suite": _OPTIONAL_TEXT,
    "suite_version": _OPTIONAL_TEXT,
    "name": _OPTIONAL_TEXT,
    "env_id": _TEXT,
    "env_version": _TEXT,
    "kwargs": _TEXT,
    "distribution": _OPTIONAL_TEXT,
    "distribution_version": _OPTIONAL_TEXT,
    "code_digest": _OPTIONAL_TEXT,
    "toolchain_needs": (list,),
    "seeded": (bool,),
}
_TRAJECTORY_TYPES: dict[str, tuple[type, ...]] = {
    "fingerprint": _TEXT,
    "world": (dict,),
    "seed": (int,),
    "max_steps": (int,),
    "agent": (dict,),
    "initial_digest": _TEXT,
    "reset_info": _TEXT,
    "steps": (list,),
    "final_observation": _TEXT,
    "end": _TEXT,
    "total_reward": (float,),
    "success": (bool, type(None)),
    "error": _OPTIONAL_TEXT,
    "messages": _OPTIONAL_TEXT,
    "tools": _OPTIONAL_TEXT,
    "tokens": _OPTIONAL_TEXT,
    "provenance": (dict,),
}
_AGENT_TYPES: dict[str, tuple[type, ...]] = {
    "name": _TEXT,
    "version": _OPTIONAL_TEXT,
    "model": _OPTIONAL_TEXT,
    "sampling": (dict,),
}
_LEGACY_TYPES: dict[str, tuple[type, ...]] = {
    "env_id": _TEXT,
    "seed": (int,),
    "initial_observation": (object,),
    "env_config": (dict,),
    "transitions": (list,),
    "total_reward": (int, float),
    "final_observation": (object,),
}
_LEGACY_STEP_TYPES: dict[str, tuple[type, ...]] = {
    "observation": (object,),
    "action": (object,),
    "reward": (int, float),
    "done": (bool,),
    "info": (dict,),
    "digest": _TEXT,
}


def write_trajectory(trajectory: Trajectory, path: Path) -> None:
    """Write ``trajectory`` to ``path``, in one piece or not at all."""
    body = {"version": FILE_VERSION, "trajectory": _to_dict(trajectory)}
    text = json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_trajectory(path: Path) -> Trajectory:
    """The trajectory in ``path``.

    Raises:
        TargetNotFoundError: if there is no such file.
        FormatError: if it is not a trajectory, or lies about its own digests.
    """
    if not path.exists():
        raise TargetNotFoundError(f"{path}: no such file")
    data = read_bounded(path, MAX_FILE_BYTES)
    try:
        return _from_envelope(parse_json(data.decode()))
    except (UnicodeDecodeError, TextError) as error:
        raise FormatError(f"{path} is not a trajectory file: {error}") from None
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _from_envelope(envelope: Any) -> Trajectory:
    body = _checked(envelope, {"version": (int,), "trajectory": (dict,)}, "file")
    version = body["version"]
    if version in (1, 2, 3):
        return _from_legacy(body["trajectory"], version)
    if version != FILE_VERSION:
        raise FormatError(
            f"trajectory file version {version} is unknown (known: 1 to {FILE_VERSION})"
        )
    return _from_dict(body["trajectory"])


def _to_dict(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "fingerprint": trajectory.fingerprint,
        "world": trajectory.world.to_row(),
        "seed": trajectory.seed,
        "max_steps": trajectory.max_steps,
        "agent": {
            "name": trajectory.agent.name,
            "version": trajectory.agent.version,
            "model": trajectory.agent.model,
            "sampling": trajectory.agent.sampling,
        },
        "initial_digest": trajectory.initial_digest,
        "reset_info": trajectory.reset_info_text,
        "steps": [
            {name: getattr(step, _step_field(name)) for name in _STEP_TYPES}
            for step in trajectory.steps
        ],
        "final_observation": trajectory.final_observation_text,
        "end": trajectory.end,
        "total_reward": trajectory.total_reward,
        "success": trajectory.success,
        "error": trajectory.error,
        "messages": trajectory.messages_text,
        "tools": trajectory.tools_text,
        "tokens": trajectory.tokens_text,
        "provenance": trajectory.provenance,
    }


def _from_dict(body: dict[str, Any]) -> Trajectory:
    fields = _checked(body, _TRAJECTORY_TYPES, "trajectory")
    world_row = _checked(fields["world"], _WORLD_TYPES, "world")
    if not all(isinstance(need, str) for need in world_row["toolchain_needs"]):
        raise FormatError("world: toolchain_needs must be texts")
    if (fields["messages"] is None) != (fields["tools"] is None):
        raise FormatError("trajectory: messages and tools are there together or not at all")
    world = World.from_row(world_row)
    if world.digest != world_row["world"]:
        raise FormatError(f"world: expected digest {world_row['world']}, found {world.digest}")
    texts = ("reset_info", "final_observation", "messages", "tools", "tokens")
    for name in texts:
        if fields[name] is not None:
            check_text(fields[name])
    if fields["end"] not in ENDS:
        raise FormatError(f"end: expected one of {sorted(ENDS)}, found {fields['end']!r:.40}")
    trajectory = Trajectory(
        world=world,
        seed=fields["seed"],
        max_steps=fields["max_steps"],
        agent=AgentInfo(**_checked(fields["agent"], _AGENT_TYPES, "agent")),
        initial_digest=fields["initial_digest"],
        reset_info_text=fields["reset_info"],
        steps=tuple(_step_from_dict(step, i) for i, step in enumerate(fields["steps"])),
        final_observation_text=fields["final_observation"],
        end=fields["end"],
        total_reward=fields["total_reward"],
        success=fields["success"],
        error=fields["error"],
        messages_text=fields["messages"],
        tools_text=fields["tools"],
        tokens_text=fields["tokens"],
        provenance=fields["provenance"],
    )
    if trajectory.fingerprint != fields["fingerprint"]:
        raise FormatError(
            f"fingerprint: the file says {fields['fingerprint']}, "
            f"its content gives {trajectory.fingerprint}"
        )
    return trajectory


def _step_from_dict(body: Any, index: int) -> Step:
    fields = _checked(body, _STEP_TYPES, f"step {index}")
    for name in ("observation", "action", "info"):
        check_text(fields[name])
    return Step(**{_step_field(name): value for name, value in fields.items()})


def _step_field(name: str) -> str:
    return f"{name}_text" if name in ("observation", "action", "info") else name


def _from_legacy(body: dict[str, Any], version: int) -> Trajectory:
    """A file of crucible-rl 0.1 or 0.2; what it never recorded stays unrecorded."""
    optional = {"env_config", "transitions", "total_reward", "final_observation"}
    fields = _checked(body, _LEGACY_TYPES, "trajectory", optional=optional)
    steps = tuple(_legacy_step(step, i) for i, step in enumerate(fields.get("transitions", [])))
    final = fields.get("final_observation", fields["initial_observation"] if not steps else None)
    unrecorded = "final_observation" not in fields and bool(steps)
    return Trajectory(
        world=World(
            env_id=fields["env_id"],
            env_version="0.2.0",
            kwargs_text=canonical_text(fields.get("env_config", {})),
        ),
        seed=fields["seed"],
        max_steps=max(len(steps), 1),
        agent=AgentInfo("unrecorded"),
        initial_digest="",
        reset_info_text="{}",
        steps=steps,
        final_observation_text=None if unrecorded else canonical_text(final),
        end="terminated" if steps and steps[-1].terminated else "agent_stop",
        total_reward=float(fields.get("total_reward", 0.0)),
        file_version=version,
    )


def _legacy_step(body: Any, index: int) -> Step:
    fields = _checked(body, _LEGACY_STEP_TYPES, f"transition {index}")
    return Step(
        canonical_text(fields["observation"]),
        canonical_text(fields["action"]),
        float(fields["reward"]),
        fields["done"],
        False,
        canonical_text(fields["info"]),
        fields["digest"],
    )


def _checked(
    body: Any,
    types: dict[str, tuple[type, ...]],
    where: str,
    *,
    optional: frozenset[str] | set[str] = frozenset(),
) -> dict[str, Any]:
    """``body`` if it is an object with exactly these keys and types."""
    if not isinstance(body, dict):
        raise FormatError(f"{where}: expected an object, found {type(body).__name__}")
    unknown, missing = set(body) - set(types), set(types) - set(body) - set(optional)
    if unknown or missing:
        what = f"unknown key {min(unknown)!r}" if unknown else f"missing key {min(missing)!r}"
        raise FormatError(f"{where}: {what}")
    for name, value in body.items():
        if types[name] != (object,) and type(value) not in types[name]:
            expected = " or ".join(t.__name__ for t in types[name])
            raise FormatError(f"{where}: {name} is a {type(value).__name__}, expected {expected}")
    return body
