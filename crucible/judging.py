"""From a record and its re-runs to a verdict. Workers re-run; the parent decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crucible.chat import bind_messages
from crucible.code_digests import LIVE
from crucible.env_pool import EnvironmentPool
from crucible.episodes import Transcript, describe_error, rerun
from crucible.errors import (
    CrucibleError,
    EnvironmentUnknownError,
    FormatError,
    PolicyError,
    SandboxUnavailableError,
    VersionError,
)
from crucible.registry import environment_class
from crucible.replaying import Mismatch, compare
from crucible.rollouts import DEFAULT_MAX_STEPS
from crucible.toolchain import toolchain
from crucible.trajectory import RECORDERS_WORD, Trajectory
from crucible.workers import WorkerDiedError
from crucible.worlds import World

__all__ = ["UNPLANNED", "Judgement", "Rerun", "RerunJob", "judge", "rerun_job", "rerun_jobs"]

UNPLANNED = -1
"""Stands for the limit of a plan that is not known, as in a single file."""


@dataclass(frozen=True, slots=True)
class RerunJob:
    """What a worker needs to re-run one episode.

    ``transcript`` is the recorded transcript digest: where a run gives another one, the worker
    runs once more, so that the parent has two independent replays to decide with. ``chat`` is the
    record itself where it has messages, which only the environment can bind to the steps.
    ``boxed`` says that the worker itself must run in a box.
    """

    world: World
    seed: int
    action_texts: tuple[str, ...]
    transcript: str
    chat: Trajectory | None = None
    boxed: bool = False

    @classmethod
    def of(
        cls, trajectory: Trajectory, transcript: str | None = None, *, boxed: bool = False
    ) -> RerunJob:
        """The job that re-runs ``trajectory``; ``transcript`` is its digest where it is known."""
        actions = tuple(step.action_text for step in trajectory.steps)
        chat = None if trajectory.messages_text is None else trajectory
        digest = transcript or trajectory.transcript
        return cls(trajectory.world, trajectory.seed, actions, digest, chat, boxed)


@dataclass(frozen=True, slots=True)
class Rerun:
    """What a worker gives back: transcripts, or why there are none (status and reason).

    ``unbound`` says why recorded messages are not what the steps say; None if they are.
    ``max_steps`` is the environment's own limit.
    """

    transcripts: tuple[Transcript, ...]
    status: str | None = None
    reason: str | None = None
    unbound: str | None = None
    max_steps: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain JSON values, as it crosses from a worker."""
        return {
            "transcripts": [transcript.to_dict() for transcript in self.transcripts],
            "status": self.status,
            "reason": self.reason,
            "unbound": self.unbound,
            "max_steps": self.max_steps,
        }

    @classmethod
    def from_dict(cls, body: Any) -> Rerun:
        """The answer of a worker. One that is malformed counts as a worker that died.

        Raises:
            WorkerDiedError: if it is malformed.
        """
        try:
            status, reason, unbound = body["status"], body["reason"], body["unbound"]
            max_steps = body["max_steps"]
            transcripts = tuple(Transcript.from_dict(t) for t in body["transcripts"])
            if status not in (None, "unverifiable", "refused"):
                raise ValueError(f"status {status!r:.40}")
            if not (transcripts or isinstance(status, str)):
                raise ValueError("neither transcripts nor a status")
            if not isinstance(reason, str | None) or not isinstance(unbound, str | None):
                raise ValueError("a reason that is no text")
            if type(max_steps) not in (int, type(None)):
                raise ValueError("a limit that is no number")
        except (KeyError, TypeError, ValueError, FormatError) as error:
            raise WorkerDiedError(f"a worker gave a malformed answer: {error}") from None
        return cls(transcripts, status, reason, unbound, max_steps)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A status with its reason and the claims that were not confirmed."""

    status: str
    reason: str | None = None
    mismatches: tuple[Mismatch, ...] = ()
    prefix: bool = False
    unbound: str | None = None


_pool = EnvironmentPool()


def rerun_jobs(jobs: Sequence[RerunJob]) -> list[dict[str, Any]]:
    """Re-run each of ``jobs``, as :meth:`Rerun.to_dict`; never raises for what a world does."""
    return [rerun_job(job).to_dict() for job in jobs]


def rerun_job(job: RerunJob) -> Rerun:
    """Re-run one episode; never raises for what a world does."""
    try:
        first = _run_once(job)
        if first.transcripts[0].digest == job.transcript:
            return first
        return replace(first, transcripts=(*first.transcripts, *_run_once(job).transcripts))
    except EnvironmentUnknownError as error:
        return Rerun((), "unverifiable", f"not installed: {error}")
    except VersionError as error:
        return Rerun((), "unverifiable", f"version: {error}")
    except SandboxUnavailableError as error:
        return Rerun((), "unverifiable", f"sandbox: {error}")
    except PolicyError as error:
        return Rerun((), "unverifiable", str(error))
    except CrucibleError as error:
        return Rerun((), "refused", str(error))
    except Exception as error:
        return Rerun((), "refused", f"{job.world.env_id} cannot be run: {describe_error(error)}")


def _run_once(job: RerunJob) -> Rerun:
    if job.world.code_digest == LIVE:
        raise PolicyError("recorded with live Python objects, which data cannot rebuild")
    env = _pool.get(job.world)
    try:
        if env.needs_sandbox:
            from crucible.sandbox import require_box

            require_box()
        if not env.deterministic:
            raise PolicyError("the environment declares itself not deterministic")
        transcript = rerun(env, job.seed, action_texts=job.action_texts)
        unbound = None if job.chat is None else bind_messages(env, job.chat)
        return Rerun((transcript,), unbound=unbound, max_steps=env.max_steps)
    finally:
        _pool.release(job.world, env)


def judge(trajectory: Trajectory, result: Rerun, *, planned_steps: int | None = None) -> Judgement:
    """The verdict that re-runs allow: a record is called wrong only where two independent
    replays agree with each other and differ from it.

    ``planned_steps`` is the limit of the recording's plan, None where it left the limit to the
    environment, ``UNPLANNED`` where there is no plan.
    """
    if result.status is not None:
        return Judgement(result.status, result.reason)
    limit = planned_steps or result.max_steps or DEFAULT_MAX_STEPS
    try:
        mismatches = compare(trajectory, result.transcripts[0])
    except FormatError as error:
        return Judgement("unverifiable", f"a worker gave a malformed answer: {error}")
    if planned_steps != UNPLANNED and trajectory.max_steps != limit:
        texts = str(trajectory.max_steps), str(limit)
        mismatches.append(Mismatch(None, "max_steps", "", *texts))
    if not mismatches:
        prefix = trajectory.end in RECORDERS_WORD
        return Judgement("reproduced", prefix=prefix, unbound=result.unbound)
    if len({transcript.digest for transcript in result.transcripts}) > 1:
        return Judgement("unverifiable", "not deterministic here: two replays disagree")
    recorded = trajectory.provenance.get("toolchain")
    here = toolchain(environment_class(trajectory.world.env_id).toolchain_needs)
    if isinstance(recorded, dict):
        moved = [name for name in here if recorded.get(name) not in (None, here[name])]
        if moved:
            versions = ", ".join(f"{n} {recorded[n]} there, {here[n]} here" for n in moved)
            return Judgement("unverifiable", f"toolchain: {versions}", tuple(mismatches))
    return Judgement("diverged", mismatches=tuple(mismatches))
