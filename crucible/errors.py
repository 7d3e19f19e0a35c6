"""Every error that can leave Crucible, and the exit code the command ends with.

    CrucibleError                     exit 2
    ├── UsageError                    2   the caller asked for something impossible
    ├── ValueRefusedError             2   a value that canonical form does not allow
    ├── FormatError                   2   a file or row that is not format 1
    │   └── TextError                 2   text that is not in canonical form
    ├── TargetNotFoundError           2   no such folder, file or dataset
    ├── UnfinishedError               2   a recording that was interrupted
    ├── EnvironmentUnknownError       3   the environment is not registered here
    ├── VersionError                  3   another version than the recorded one
    ├── SandboxUnavailableError       3   no isolation on this machine
    ├── PolicyError                   3   a gate or policy said no
    ├── EpisodeError                  3   an environment or agent broke its contract
    ├── IntegrityError                1   bytes, digests or counts do not agree
    │   └── DigestMismatchError       1
    ├── DivergenceError               1   a re-run gave something else
    ├── HubError                      4   Hub or network
    └── DependencyError               2   an extra is not installed

A message says what, where, expected, found, and at most one command that fixes it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = [
    "CrucibleError",
    "DependencyError",
    "DigestMismatchError",
    "DivergenceError",
    "EnvironmentUnknownError",
    "EpisodeError",
    "FormatError",
    "HubError",
    "IntegrityError",
    "PolicyError",
    "SandboxUnavailableError",
    "TargetNotFoundError",
    "TextError",
    "UnfinishedError",
    "UsageError",
    "ValueRefusedError",
    "VersionError",
    "require",
]


class CrucibleError(Exception):
    """The root of every error of ours; ``exit_code`` is what the command ends with."""

    exit_code = 2


class UsageError(CrucibleError):
    """The caller asked for something that cannot be done as asked."""


class ValueRefusedError(CrucibleError):
    """A value that canonical form does not allow; ``pointer`` is its JSON pointer."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"value at {pointer or '/'}: {reason}")
        self.pointer, self.reason = pointer, reason

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.pointer, self.reason)


class FormatError(CrucibleError):
    """A file, table or row that does not follow format 1."""


class TextError(FormatError):
    """Stored text that is not in canonical form."""


class TargetNotFoundError(CrucibleError):
    """No folder, file or dataset of that name."""


class UnfinishedError(CrucibleError):
    """The folder holds a recording that was interrupted."""


class EnvironmentUnknownError(CrucibleError):
    """The environment is not registered here."""

    exit_code = 3


class VersionError(CrucibleError):
    """Another version is installed than the one the record was made with."""

    exit_code = 3


class SandboxUnavailableError(CrucibleError):
    """This machine offers no isolation that the environment requires."""

    exit_code = 3


class PolicyError(CrucibleError):
    """A gate or policy said no."""

    exit_code = 3


class EpisodeError(CrucibleError):
    """An environment or agent broke its contract during an episode."""

    exit_code = 3


class IntegrityError(CrucibleError):
    """Bytes, digests or counts do not agree with each other."""

    exit_code = 1


class DigestMismatchError(IntegrityError):
    """The bytes of ``path`` do not hash to the digest in the manifest."""

    def __init__(self, path: str, *, expected: str, actual: str) -> None:
        super().__init__(f"{path}: expected sha256 {expected}, found {actual}")
        self.path, self.expected, self.actual = path, expected, actual


class DivergenceError(CrucibleError):
    """A re-run gave something else than the record says."""

    exit_code = 1


class HubError(CrucibleError):
    """The Hub, or the way to it, failed."""

    exit_code = 4


class DependencyError(CrucibleError):
    """An optional dependency is missing; the message names the extra that holds it."""


def require(module: str, *, extra: str) -> ModuleType:
    """The imported ``module``, or one sentence that says which extra brings it.

    Raises:
        DependencyError: if the module cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"{module} is not installed ({error}): run  pip install 'crucible-rl[{extra}]'"
        ) from error
