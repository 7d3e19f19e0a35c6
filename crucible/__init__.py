"""Crucible: record what agents do in real software, and re-run it to check every claim.

Starting points: :class:`Environment`, :func:`rollout`, :func:`replay`, :class:`Trajectory`,
:func:`verify_dataset`. Everything is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crucible.agents import Agent, AgentInfo, AgentStopError, ScriptedAgent
    from crucible.env import Action, Environment, Observation, ResetResult, StepResult
    from crucible.errors import CrucibleError
    from crucible.recording import Plan, record_plan
    from crucible.registry import make, register, registered
    from crucible.replaying import Mismatch, ReplayReport, replay
    from crucible.reward import Criterion, Rubric, rubric
    from crucible.rollouts import rollout
    from crucible.trajectory import Step, Trajectory
    from crucible.verdicts import Verdict, VerificationReport
    from crucible.verification import verify_dataset, verify_trajectory
    from crucible.version import __version__

__all__ = [
    "Action",
    "Agent",
    "AgentInfo",
    "AgentStopError",
    "Criterion",
    "CrucibleError",
    "Environment",
    "Mismatch",
    "Observation",
    "Plan",
    "ReplayReport",
    "ResetResult",
    "Rubric",
    "ScriptedAgent",
    "Step",
    "StepResult",
    "Trajectory",
    "Verdict",
    "VerificationReport",
    "__version__",
    "make",
    "record_plan",
    "register",
    "registered",
    "replay",
    "rollout",
    "rubric",
    "verify_dataset",
    "verify_trajectory",
]

_HOMES = {
    "agents": ("Agent", "AgentInfo", "AgentStopError", "ScriptedAgent"),
    "env": ("Action", "Environment", "Observation", "ResetResult", "StepResult"),
    "errors": ("CrucibleError",),
    "recording": ("Plan", "record_plan"),
    "registry": ("make", "register", "registered"),
    "replaying": ("Mismatch", "ReplayReport", "replay"),
    "reward": ("Criterion", "Rubric", "rubric"),
    "rollouts": ("rollout",),
    "trajectory": ("Step", "Trajectory"),
    "verdicts": ("Verdict", "VerificationReport"),
    "verification": ("verify_dataset", "verify_trajectory"),
    "version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'crucible' has no attribute {name!r}")
    return getattr(importlib.import_module(f"crucible.{home}"), name)


def __dir__() -> list[str]:
    return __all__
