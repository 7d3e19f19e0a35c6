"""The trajectory: the record of one episode."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crucible.agents import AgentInfo
from crucible.canonical import canonical_text, parse_text
from crucible.fingerprints import float_bytes, int_bytes, tagged_hash, transcript_of
from crucible.worlds import World

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ENDS", "RECORDERS_WORD", "Step", "Trajectory", "sum_rewards"]

RECORDERS_WORD = frozenset({"agent_stop", "error", "timeout"})
"""The ends that no re-run can confirm: there the record is a prefix."""

ENDS = frozenset({"terminated", "truncated", "max_steps"}) | RECORDERS_WORD


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the observation acted on, the action, and what the environment answered.

    ``reward``, the flags, ``info`` and ``digest`` (of the state) follow the action. Values are
    held as canonical text, which is what is hashed and compared; the properties decode them.
    """

    observation_text: str
    action_text: str
    reward: float
    terminated: bool
    truncated: bool
    info_text: str
    digest: str

    @property
    def observation(self) -> Any:
        """The observation that the agent acted on."""
        return parse_text(self.observation_text)

    @property
    def action(self) -> Any:
        """The action that the agent took."""
        return parse_text(self.action_text)

    @property
    def info(self) -> dict[str, Any]:
        """What the environment said about the step."""
        info: dict[str, Any] = parse_text(self.info_text)
        return info


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Everything that was recorded of one episode.

    ``end`` says why it stopped: ``terminated``, ``truncated``, ``max_steps``, ``agent_stop``,
    ``error`` or ``timeout``. ``messages``, ``tools`` and ``tokens`` are canonical texts of the
    chat, None for agents that had none. ``final_observation_text`` is None only in files of
    crucible-rl 0.1 that never recorded it; ``file_version`` is the version of such a file.
    """

    world: World
    seed: int
    max_steps: int
    agent: AgentInfo
    initial_digest: str
    reset_info_text: str
    steps: tuple[Step, ...]
    final_observation_text: str | None
    end: str
    total_reward: float
    success: bool | None = None
    error: str | None = None
    messages_text: str | None = None
    tools_text: str | None = None
    tokens_text: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    file_version: int | None = None

    @property
    def num_steps(self) -> int:
        """How many steps the episode has."""
        return len(self.steps)

    @property
    def initial_observation(self) -> Any:
        """The first observation; None where the episode failed before it."""
        text = self.steps[0].observation_text if self.steps else self.final_observation_text
        return None if text is None else parse_text(text)

    @property
    def final_observation(self) -> Any:
        """The last observation, which no action followed."""
        return (
            None if self.final_observation_text is None else parse_text(self.final_observation_text)
        )

    @property
    def messages(self) -> list[dict[str, Any]] | None:
        """The chat as it was sent and received, or None."""
        return None if self.messages_text is None else parse_text(self.messages_text)

    @property
    def transcript(self) -> str:
        """The digest of everything the environment said and was told."""
        return transcript_of(
            self.initial_digest,
            self.reset_info_text,
            self.steps,
            final_observation=self.final_observation_text,
        )

    @property
    def fingerprint(self) -> str:
        """The digest of every claim the record makes (format.md, "Fingerprint")."""
        return self.fingerprint_with(self.transcript)

    def fingerprint_with(self, transcript: str) -> str:
        """:attr:`fingerprint` for callers that have the transcript already."""
        return tagged_hash(
            "fingerprint",
            transcript,
            self.world.digest,
            self.world.suite,
            self.world.name,
            self.world.env_id,
            self.world.env_version,
            int_bytes(self.seed),
            int_bytes(self.max_steps),
            self.agent.name,
            self.agent.version,
            self.agent.model,
            canonical_text(self.agent.sampling),
            int_bytes(self.num_steps),
            float_bytes(self.total_reward),
            self.end,
            None if self.success is None else int_bytes(self.success),
            self.error,
            self.messages_text,
            self.tools_text,
            self.tokens_text,
        ).hex()

    def save(self, path: str | Path) -> None:
        """Write the single-file JSON form, in one piece or not at all."""
        from crucible.trajectory_files import write_trajectory

        write_trajectory(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """Read a single-file trajectory; versions 1 to 3 are those of crucible-rl 0.1 and 0.2.

        Raises:
            TargetNotFoundError: if there is no such file.
            FormatError: if it is not a trajectory, or lies about its own digests.
        """
        from crucible.trajectory_files import read_trajectory

        return read_trajectory(Path(path))


def sum_rewards(steps: Sequence[Step]) -> float:
    """The total reward of an episode: the correctly rounded sum (``math.fsum``)."""
    return math.fsum(step.reward for step in steps)
