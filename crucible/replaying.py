"""Replay: re-run one trajectory and compare every claim it makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from crucible.canonical import canonical_text, first_difference
from crucible.env import Environment
from crucible.episodes import Transcript, rerun
from crucible.errors import DivergenceError
from crucible.fingerprints import float_bytes
from crucible.trajectory import RECORDERS_WORD, Step, Trajectory, sum_rewards

__all__ = ["Mismatch", "ReplayReport", "compare", "recomputed_mismatches", "replay"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One claim that a re-run did not confirm.

    ``step`` is None for claims about the whole episode; ``path`` is a JSON pointer into the
    field; ``recorded`` and ``replayed`` are canonical texts, None where a side has no value.
    """

    step: int | None
    field: str
    path: str
    recorded: str | None
    replayed: str | None

    def __str__(self) -> str:
        where = f"step {self.step}: " if self.step is not None else ""
        place = f"{self.field}{' at ' + self.path if self.path else ''}"
        recorded, replayed = (
            "nothing" if value is None else value for value in (self.recorded, self.replayed)
        )
        return f"{where}{place}: recorded {recorded}, replayed {replayed}"

    def to_dict(self) -> dict[str, Any]:
        """The mismatch as plain JSON values."""
        return {
            "step": self.step,
            "field": self.field,
            "path": self.path,
            "recorded": self.recorded,
            "replayed": self.replayed,
        }


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found. ``steps`` is the number of steps that the record has."""

    steps: int
    mismatches: tuple[Mismatch, ...]

    @property
    def ok(self) -> bool:
        """Whether every replayed and recomputed claim was confirmed."""
        return not self.mismatches

    def raise_for_mismatch(self) -> None:
        """Nothing, if the replay confirmed everything.

        Raises:
            DivergenceError: with the first mismatch.
        """
        if self.mismatches:
            more = len(self.mismatches) - 1
            rest = f" (and {more} more)" if more else ""
            raise DivergenceError(f"{self.mismatches[0]}{rest}")


def replay(env: Environment, trajectory: Trajectory) -> ReplayReport:
    """Re-run the actions of ``trajectory`` in ``env`` and compare everything.

    ``env`` must be the world that the record names: another id or other kwargs are mismatches.
    """
    mismatches = list(_world_mismatches(env, trajectory))
    actions = [step.action_text for step in trajectory.steps]
    transcript = rerun(env, trajectory.seed, action_texts=actions)
    mismatches += compare(trajectory, transcript)
    return ReplayReport(trajectory.num_steps, tuple(mismatches))


def compare(trajectory: Trajectory, transcript: Transcript) -> list[Mismatch]:
    """Every claim of ``trajectory`` that ``transcript`` or arithmetic does not confirm.

    What a file of crucible-rl 0.1 or 0.2 never recorded is not compared.
    """
    return [*_replayed_mismatches(trajectory, transcript), *recomputed_mismatches(trajectory)]


def recomputed_mismatches(trajectory: Trajectory) -> Iterator[Mismatch]:
    """What the record says about itself and can be computed from itself."""
    total = sum_rewards(trajectory.steps)
    if trajectory.file_version is not None:
        total = 0.0  # crucible-rl 0.1 and 0.2 added up step by step
        for step in trajectory.steps:
            total += step.reward
    yield from _scalar(None, "total_reward", trajectory.total_reward, total)
    for index, step in enumerate(trajectory.steps[:-1]):
        for flag in ("terminated", "truncated"):
            if getattr(step, flag):
                yield Mismatch(index, flag, "", "true", "false")
    if trajectory.file_version is None:
        yield from _end_mismatches(trajectory)


def _end_mismatches(trajectory: Trajectory) -> Iterator[Mismatch]:
    last = trajectory.steps[-1] if trajectory.steps else None
    if last is not None and last.terminated:
        expected = "terminated"
    elif last is not None and last.truncated:
        expected = "truncated"
    elif trajectory.num_steps >= trajectory.max_steps:
        expected = "max_steps"
    else:
        expected = trajectory.end if trajectory.end in RECORDERS_WORD else "agent_stop"
    if trajectory.end == "error" and trajectory.num_steps <= trajectory.max_steps:
        return  # success() may fail after any end; the record is a prefix then
    yield from _scalar(None, "end", trajectory.end, expected)
    if trajectory.num_steps > trajectory.max_steps:
        yield from _scalar(None, "num_steps", trajectory.num_steps, trajectory.max_steps)


def _replayed_mismatches(trajectory: Trajectory, transcript: Transcript) -> list[Mismatch]:
    """What the re-run does not confirm. The digests say whether anything differs, and the fields
    what it is."""
    if trajectory.file_version is not None:
        return list(_field_mismatches(trajectory, transcript))
    recorded, replayed = trajectory.transcript, transcript.digest
    if recorded == replayed:
        return list(_ending_mismatches(trajectory, transcript))
    found = list(_field_mismatches(trajectory, transcript))
    return found or [Mismatch(None, "transcript", "", recorded, replayed)]


def _field_mismatches(trajectory: Trajectory, transcript: Transcript) -> Iterator[Mismatch]:
    legacy = trajectory.file_version is not None
    if not legacy:
        yield from _text(None, "reset_info", trajectory.reset_info_text, transcript.reset_info_text)
        yield from _scalar(
            None, "initial_digest", trajectory.initial_digest, transcript.initial_digest
        )
    for index, recorded in enumerate(trajectory.steps):
        if index >= len(transcript.steps):
            reason = transcript.error or "the episode was over"
            yield Mismatch(index, "step", "", recorded.action_text, canonical_text(reason))
            return
        yield from _step(index, recorded, transcript.steps[index], digests=not legacy)
    final = trajectory.final_observation_text
    if final is not None and transcript.error is None:
        yield from _text(None, "final_observation", final, transcript.final_observation_text)
    yield from _ending_mismatches(trajectory, transcript)


def _ending_mismatches(trajectory: Trajectory, transcript: Transcript) -> Iterator[Mismatch]:
    legacy = trajectory.file_version is not None
    if transcript.error is not None and trajectory.end != "error":
        yield Mismatch(None, "error", "", None, canonical_text(transcript.error))
    elif not legacy and trajectory.end not in ("error", "timeout"):
        yield from _scalar(None, "success", trajectory.success, transcript.success)


def _step(index: int, recorded: Step, replayed: Step, *, digests: bool) -> Iterator[Mismatch]:
    if recorded == replayed and float_bytes(recorded.reward) == float_bytes(replayed.reward):
        return  # 0.0 and -0.0 are equal in Python, and two values here
    texts = ("observation", "info")
    for name in texts:
        pair = (getattr(side, f"{name}_text") for side in (recorded, replayed))
        yield from _text(index, name, *pair)
    scalars = ("reward", "terminated", "truncated", "digest")
    for name in scalars if digests else scalars[:2]:
        yield from _scalar(index, name, getattr(recorded, name), getattr(replayed, name))


def _text(step: int | None, field: str, recorded: str, replayed: str) -> Iterator[Mismatch]:
    difference = first_difference(recorded, replayed)
    if difference:
        yield Mismatch(step, field, difference.pointer, difference.left, difference.right)


def _scalar(step: int | None, field: str, recorded: Any, replayed: Any) -> Iterator[Mismatch]:
    texts = canonical_text(recorded), canonical_text(replayed)
    if texts[0] != texts[1]:
        yield Mismatch(step, field, "", *texts)


def _world_mismatches(env: Environment, trajectory: Trajectory) -> Iterator[Mismatch]:
    world = trajectory.world
    yield from _scalar(None, "env_id", world.env_id, env.name())
    if trajectory.file_version is None:
        yield from _scalar(None, "env_version", world.env_version, type(env).env_version)
    if not env.live:
        yield from _text(None, "kwargs", world.kwargs_text, canonical_text(env.kwargs()))
