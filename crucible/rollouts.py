"""Rollouts: an agent acts in an environment, and everything is recorded."""

from __future__ import annotations

from typing import Any

from crucible.agents import Agent, AgentStopError, agent_info
from crucible.canonical import canonical_text, parse_text
from crucible.env import Environment
from crucible.episodes import Episode, describe_error
from crucible.errors import CrucibleError, UsageError
from crucible.trajectory import Trajectory, sum_rewards
from crucible.worlds import World, world_of

__all__ = ["DEFAULT_MAX_STEPS", "rollout", "rollout_in"]

DEFAULT_MAX_STEPS = 100


def rollout(
    env: Environment, agent: Agent, *, seed: int, max_steps: int | None = None
) -> Trajectory:
    """The trajectory of one episode of ``agent`` in ``env``.

    Args:
        env: any environment; it is reset with ``seed``.
        agent: anything with ``reset()`` and ``act(observation)``.
        seed: −2^63 … 2^63−1.
        max_steps: stop after so many steps; None means the environment's own ``max_steps``,
            else 100.

    Raises:
        UsageError: if ``max_steps`` or ``seed`` is out of range.

    An environment or agent that fails gives a trajectory with ``error``, never a lost one.
    """
    limit = max_steps if max_steps is not None else (env.max_steps or DEFAULT_MAX_STEPS)
    if limit <= 0:
        raise UsageError(f"max_steps: expected a positive number, found {limit}")
    if not -(2**63) <= seed < 2**63:
        raise UsageError(f"seed: expected a 64-bit integer, found {seed}")
    return rollout_in(world_of(env), env, agent=agent, seed=seed, max_steps=limit)


def rollout_in(
    world: World, env: Environment, *, agent: Agent, seed: int, max_steps: int
) -> Trajectory:
    """:func:`rollout` for callers that know the world and the limit already."""
    episode = Episode(env)
    end, failure = _drive(episode, agent, seed=seed, max_steps=max_steps)
    success = None
    if end != "error":
        try:
            success = episode.success()
        except CrucibleError as error:
            end, failure = "error", str(error)
    return Trajectory(
        world=world,
        seed=seed,
        max_steps=max_steps,
        agent=agent_info(agent),
        initial_digest=episode.initial_digest,
        reset_info_text=episode.reset_info_text,
        steps=tuple(episode.steps),
        final_observation_text=episode.observation_text,
        end=end,
        total_reward=sum_rewards(episode.steps),
        success=success,
        error=failure,
        messages_text=_text_or_none(getattr(agent, "messages", None)),
        tools_text=_text_or_none(env.tools() if getattr(agent, "messages", None) else None),
        tokens_text=_text_or_none(getattr(agent, "tokens", None)),
    )


def _drive(episode: Episode, agent: Agent, *, seed: int, max_steps: int) -> tuple[str, str | None]:
    """Run the episode; why it ended, and the error if it failed."""
    try:
        episode.reset(seed)
    except CrucibleError as error:
        return "error", str(error)
    try:
        agent.reset()
        for _ in range(max_steps):
            action_text = canonical_text(agent.act(parse_text(episode.observation_text)))
            try:
                step = episode.step(action_text)
            except CrucibleError as error:
                return "error", str(error)
            if step.terminated:
                return "terminated", None
            if step.truncated:
                return "truncated", None
    except AgentStopError:
        return "agent_stop", None
    except Exception as error:
        return "error", f"agent failed: {describe_error(error)}"
    return "max_steps", None


def _text_or_none(value: Any) -> str | None:
    return None if value is None else canonical_text(value)
