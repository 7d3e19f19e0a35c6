"""What stands behind every stored field: replayed, recomputed, or the recorder's word alone."""

from __future__ import annotations

__all__ = ["CLAIMS", "RECOMPUTED", "RECORDED_ONLY", "REPLAYED"]

REPLAYED, RECOMPUTED, RECORDED_ONLY = "replayed", "recomputed", "recorded-only"

CLAIMS: dict[str, str] = {
    "fingerprint": RECOMPUTED,
    "transcript": RECOMPUTED,
    "split": RECOMPUTED,
    "suite": RECOMPUTED,
    "name": RECOMPUTED,
    "env_id": RECOMPUTED,
    "env_version": RECOMPUTED,
    "world": RECOMPUTED,
    "recording": RECOMPUTED,
    "seed": REPLAYED,
    "attempt": RECOMPUTED,
    "max_steps": RECOMPUTED,
    "agent.name": RECORDED_ONLY,
    "agent.version": RECORDED_ONLY,
    "agent.model": RECORDED_ONLY,
    "agent.sampling": RECORDED_ONLY,
    "num_steps": RECOMPUTED,
    "total_reward": RECOMPUTED,
    "end": RECOMPUTED,
    "success": RECOMPUTED,
    "error": RECORDED_ONLY,
    "initial_digest": REPLAYED,
    "reset_info": REPLAYED,
    "steps": REPLAYED,
    "steps.observation": REPLAYED,
    "steps.action": REPLAYED,
    "steps.reward": REPLAYED,
    "steps.terminated": REPLAYED,
    "steps.truncated": REPLAYED,
    "steps.info": REPLAYED,
    "steps.digest": REPLAYED,
    "final_observation": REPLAYED,
    "messages": RECOMPUTED,
    "tools": RECOMPUTED,
    "tokens": RECORDED_ONLY,
    "provenance": RECORDED_ONLY,
}
"""Field → label; ``steps`` stands for the list itself. Of messages, an assistant's prose and
reasoning are recorded-only."""
