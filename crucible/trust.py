"""The worlds and suites that this user has pinned, in the user's config folder only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crucible.canonical import canonical_text, parse_text
from crucible.dataset.files import write_durably
from crucible.errors import FormatError, UsageError
from crucible.schemas import check_schema

__all__ = ["TrustFile", "read_trust", "trust_path", "write_trust"]

_DIGEST = re.compile("[0-9a-f]{64}")
_NAMES = {"type": "array", "items": {"type": "string"}}
_SCHEMA = {
    "type": "object",
    "properties": {"format": {"type": "integer", "enum": [1]}, "worlds": _NAMES, "suites": _NAMES},
    "required": ["format", "worlds", "suites"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class TrustFile:
    """What this user vouches for: digests of worlds, and names of installed suites."""

    worlds: frozenset[str] = field(default_factory=frozenset)
    suites: frozenset[str] = field(default_factory=frozenset)

    def adding(self, worlds: Iterable[str] = (), suites: Iterable[str] = ()) -> TrustFile:
        """This file with more in it.

        Raises:
            UsageError: if a world is not given by its whole digest.
        """
        new = frozenset(worlds)
        bad = next((digest for digest in new if not _DIGEST.fullmatch(digest)), None)
        if bad is not None:
            raise UsageError(f"a world is pinned by its 64 hexadecimal digits, found {bad!r:.80}")
        return replace(self, worlds=self.worlds | new, suites=self.suites | frozenset(suites))

    def removing(self, worlds: Iterable[str] = (), suites: Iterable[str] = ()) -> TrustFile:
        """This file with less in it."""
        return TrustFile(self.worlds - frozenset(worlds), self.suites - frozenset(suites))

    def to_dict(self) -> dict[str, Any]:
        """The file's content."""
        return {"format": 1, "worlds": sorted(self.worlds), "suites": sorted(self.suites)}


def trust_path() -> Path:
    """Where the trust file is: ``$XDG_CONFIG_HOME/crucible/trust.json``."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "crucible" / "trust.json"


def read_trust() -> TrustFile:
    """This user's trust file; an empty one if there is none.

    Raises:
        FormatError: if it is malformed.
    """
    path = trust_path()
    try:
        body = parse_text(path.read_text(encoding="utf-8").rstrip("\n"))
    except FileNotFoundError:
        return TrustFile()
    except (OSError, UnicodeDecodeError, FormatError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from None
    problem = check_schema(body, _SCHEMA)
    if problem:
        raise FormatError(f"{path} at {problem}")
    return TrustFile(frozenset(body["worlds"]), frozenset(body["suites"]))


def write_trust(trust: TrustFile) -> None:
    """Replace this user's trust file."""
    write_durably(trust_path(), (canonical_text(trust.to_dict()) + "\n").encode())
