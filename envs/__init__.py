"""The environments that come with Crucible."""

from crucible.envs.guess import GuessEnv
from crucible.envs.sql import SQLTaskEnv

__all__ = ["GuessEnv", "SQLTaskEnv"]
