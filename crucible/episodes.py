"""One run of an environment in canonical text: what rollouts and replays have in common."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crucible.canonical import canonical_text, parse_text
from crucible.env import Environment, ResetResult, StepResult
from crucible.errors import CrucibleError, EpisodeError, FormatError
from crucible.fingerprints import transcript_of
from crucible.trajectory import Step

__all__ = ["Episode", "Transcript", "describe_error", "is_malformed", "rerun"]

_MALFORMED_OBSERVATION = canonical_text({"error": "the message fits no tool of this environment"})
_MALFORMED_INFO = canonical_text({"malformed": True})


@dataclass(frozen=True, slots=True)
class Transcript:
    """What an environment said in one run. ``error`` says what stopped the run early."""

    initial_digest: str
    reset_info_text: str
    steps: tuple[Step, ...]
    final_observation_text: str
    success: bool | None
    error: str | None = None

    @property
    def digest(self) -> str:
        """The transcript digest, as :func:`crucible.fingerprints.transcript_of` gives it."""
        return transcript_of(
            self.initial_digest,
            self.reset_info_text,
            self.steps,
            final_observation=self.final_observation_text,
        )

    def to_dict(self) -> dict[str, Any]:
        """The transcript as plain JSON values."""
        return {
            "initial_digest": self.initial_digest,
            "reset_info": self.reset_info_text,
            "steps": [[getattr(step, name) for name in _STEP_FIELDS] for step in self.steps],
            "final_observation": self.final_observation_text,
            "success": self.success,
            "error": self.error,
        }

    @classmethod
    def from_dict(cls, body: Any) -> Transcript:
        """The transcript that :meth:`to_dict` gave, however its bearer may have changed it.

        Whether its texts are canonical shows when they are compared with recorded ones.

        Raises:
            FormatError: if a value is missing or has another type.
        """
        try:
            steps = tuple(_checked_step(step) for step in body["steps"])
            texts = body["initial_digest"], body["reset_info"], body["final_observation"]
            success, error = body["success"], body["error"]
        except (KeyError, TypeError) as problem:
            raise FormatError(f"a transcript lacks {problem}") from None
        if not all(type(text) is str for text in texts) or type(success) not in (bool, type(None)):
            raise FormatError("a transcript holds a value of another type")
        if error is not None and type(error) is not str:
            raise FormatError("a transcript holds an error that is no text")
        return cls(texts[0], texts[1], steps, texts[2], success, error)


class Episode:
    """Drives one environment from reset to end, giving and taking canonical text.

    The environment receives decoded canonical values, whichever side of the disk an action
    comes from.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.observation_text = "null"
        self.reset_info_text = "{}"
        self.initial_digest = ""
        self.steps: list[Step] = []

    def reset(self, seed: int) -> None:
        """Start the episode.

        Raises:
            EpisodeError: if the environment fails or returns what its contract does not allow.
        """
        try:
            result = self._env.reset(seed)
            observation, info = (
                (result.observation, result.info)
                if isinstance(result, ResetResult)
                else (result, {})
            )
            self.observation_text = canonical_text(observation)
            self.reset_info_text = canonical_text(info)
            self.initial_digest = self._digest()
        except Exception as error:
            raise EpisodeError(f"reset failed: {describe_error(error)}") from error
        self.steps = []

    def step(self, action_text: str) -> Step:
        """The step that the action leads to.

        Raises:
            EpisodeError: if the environment fails or returns what its contract does not allow.
        """
        action = parse_text(action_text)
        try:
            result = self._malformed() if is_malformed(action) else self._checked(action)
            reward, terminated, truncated, info_text, observation_text = result
            step = Step(
                self.observation_text,
                action_text,
                reward,
                terminated,
                truncated,
                info_text,
                self._digest(),
            )
        except Exception as error:
            raise EpisodeError(f"step {len(self.steps)} failed: {describe_error(error)}") from error
        self.observation_text = observation_text
        self.steps.append(step)
        return step

    def success(self) -> bool | None:
        """Whether the episode reached its goal.

        Raises:
            EpisodeError: if the environment fails or says something else.
        """
        try:
            return _flag_or_none(self._env.success())
        except Exception as error:
            raise EpisodeError(f"success failed: {describe_error(error)}") from error

    def _digest(self) -> str:
        digest = self._env.digest()
        if not isinstance(digest, str):
            raise EpisodeError(f"digest() gave a {type(digest).__name__}, expected a string")
        return digest

    def _malformed(self) -> tuple[float, bool, bool, str, str]:
        penalty = float(self._env.malformed_penalty)
        return penalty, False, False, _MALFORMED_INFO, _MALFORMED_OBSERVATION

    def _checked(self, action: Any) -> tuple[float, bool, bool, str, str]:
        result = self._env.step(action)
        if not isinstance(result, StepResult):
            raise EpisodeError(f"step() gave a {type(result).__name__}, expected a StepResult")
        reward = float(result.reward)
        if not math.isfinite(reward):
            raise EpisodeError(f"reward {reward} is not a finite number")
        return (
            reward,
            _flag(result.done),
            _flag(result.truncated),
            canonical_text(result.info),
            canonical_text(result.observation),
        )


_STEP_FIELDS = tuple(field.name for field in dataclasses.fields(Step))
_STEP_TYPES = (str, str, float, bool, bool, str, str)


def _checked_step(values: Any) -> Step:
    if not isinstance(values, list) or tuple(map(type, values)) != _STEP_TYPES:
        raise FormatError("a step of a transcript holds a value of another type")
    return Step(*values)


def is_malformed(action: Any) -> bool:
    """Whether ``action`` stands for a message that fits no tool."""
    return type(action) is dict and len(action) == 1 and "$malformed" in action


def rerun(env: Environment, seed: int, *, action_texts: Iterable[str]) -> Transcript:
    """What ``env`` says when reset with ``seed`` and given these actions.

    Stops where the environment ends the episode or fails; never raises for what the
    environment does.
    """
    episode = Episode(env)
    success, failure = None, None
    try:
        episode.reset(seed)
        for action_text in action_texts:
            step = episode.step(action_text)
            if step.terminated or step.truncated:
                break
        success = episode.success()
    except CrucibleError as error:
        failure = str(error)
    return Transcript(
        episode.initial_digest,
        episode.reset_info_text,
        tuple(episode.steps),
        episode.observation_text,
        success,
        failure,
    )


def describe_error(error: BaseException) -> str:
    """``Type: message`` of an error in one line, for the record."""
    if isinstance(error, CrucibleError):
        return str(error)
    text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
    return " ".join(text.split())[:500]


def _flag(value: Any) -> bool:
    flag = _flag_or_none(value)
    if flag is None:
        raise EpisodeError("a flag is None, expected True or False")
    return flag


def _flag_or_none(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and value.dtype.kind == "b":
        return bool(value)
    raise EpisodeError(f"a flag is a {type(value).__name__}, expected True or False")
