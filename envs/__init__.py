"""The environments that come with Crucible."""

from crucible.envs.guess import GuessEnv
from crucible.envs.http import HttpTaskEnv
from crucible.envs.sql import SQLTaskEnv
from crucible.envs.sql_synth import SQLSynthEnv

__all__ = ["GuessEnv", "HttpTaskEnv", "SQLSynthEnv", "SQLTaskEnv"]
