"""The environments that come with Crucible."""

from crucible.envs.code import CodeTaskEnv
from crucible.envs.command import CommandEnv
from crucible.envs.guess import GuessEnv
from crucible.envs.http import HttpTaskEnv
from crucible.envs.sql import SQLTaskEnv
from crucible.envs.sql_synth import SQLSynthEnv
from crucible.envs.terminal import TerminalEnv

__all__ = [
    "CodeTaskEnv",
    "CommandEnv",
    "GuessEnv",
    "HttpTaskEnv",
    "SQLSynthEnv",
    "SQLTaskEnv",
    "TerminalEnv",
]
