"""What a re-run changes around an episode that must not depend on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FACTORS", "Condition", "Factor", "Setting", "base_condition", "condition_of_run"]

MIN_RUNS = 3
CLOCK_OFFSETS_S = (0.0, 40 * 86_400.0 + 18_439.0, -400 * 86_400.0 - 7_261.0)
_HELD_TIME_S = 1_700_000_000.25


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a factor: environment variables of the process, where ``{folder}`` stands for a
    folder of the check's own, and what the process does to itself."""

    variables: dict[str, str] = field(default_factory=dict)
    change: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Factor:
    """Something that must not matter, and the values that it takes, run by run. The first two
    differ everywhere."""

    name: str
    settings: tuple[Setting, ...]

    def of_run(self, run: int) -> Setting:
        """The value in a run, counted from 0."""
        return self.settings[run % len(self.settings)]


def _variables(*names: str, values: tuple[str, ...]) -> tuple[Setting, ...]:
    return tuple(Setting(dict.fromkeys(names, value)) for value in values)


def _changes(name: str, *values: Any) -> tuple[Setting, ...]:
    return tuple(Setting(change={name: value}) for value in values)


FACTORS = (
    Factor("hash seed", _variables("PYTHONHASHSEED", values=("0", "1", "random"))),
    Factor("time zone", _variables("TZ", values=("UTC", "Asia/Tokyo", "America/St_Johns"))),
    Factor("locale", _variables("LC_ALL", "LANG", values=("C.UTF-8", "{locale}"))),
    Factor(
        "user name",
        _variables("USER", "LOGNAME", "LNAME", "USERNAME", values=("ana", "boris", "chloe")),
    ),
    Factor("home", _variables("HOME", values=("{folder}/h1", "{folder}/h2", "{folder}/h3"))),
    Factor("working folder", _changes("folder", "w1", "w2", "w3")),
    Factor("number of processors", _changes("one_processor", False, True)),
    Factor("wall clock", _changes("clock_offset_s", *CLOCK_OFFSETS_S)),
    Factor("order and repetition of episodes", _changes("again", "no", "backwards", "forwards")),
    Factor("state of the global random numbers", _changes("random_seed", 1, 2, 3)),
)
"""Everything that is changed. A run takes one value of each; an episode that moved is run again
with each alone."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Under what a process re-runs episodes."""

    variables: dict[str, str]
    change: dict[str, Any]

    def environment(self, folder: Path) -> dict[str, str]:
        """The variables of the process."""
        filled = {
            name: value.format(folder=folder, locale=_other_locale())
            for name, value in self.variables.items()
        }
        Path(filled["HOME"]).mkdir(exist_ok=True)
        return {**os.environ, **filled}

    def working_folder(self, folder: Path) -> Path:
        """The working folder of the process, made if it is not there."""
        path = folder / str(self.change["folder"])
        path.mkdir(exist_ok=True)
        return path


def condition_of_run(run: int) -> Condition:
    """The condition of a run, counted from 0: no factor has the value of the run before."""
    return _merged(factor.of_run(run) for factor in FACTORS)


def base_condition(changed: Factor | None = None) -> Condition:
    """The first value of every factor, and the second of ``changed``; the clock advances a little
    with every look at it, so that two such runs see the same times."""
    condition = _merged(factor.of_run(1 if factor is changed else 0) for factor in FACTORS)
    return Condition(condition.variables, {**condition.change, "held_time_s": _HELD_TIME_S})


def _merged(settings: Iterator[Setting]) -> Condition:
    variables: dict[str, str] = {}
    change: dict[str, Any] = {}
    for setting in settings:
        variables |= setting.variables
        change |= setting.change
    return Condition(variables, change)


def _other_locale() -> str:
    """A locale that is installed and not one of C's, else C."""
    try:
        listed = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    except (OSError, UnicodeDecodeError):
        return "C"
    others = (name for name in listed if not name.startswith(("C", "POSIX")))
    return next((name for name in others if name.lower().endswith("utf8")), "C")
