"""What verify can say about one trajectory, and about all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from crucible.replaying import Mismatch

__all__ = ["STATUSES", "Finding", "Status", "Verdict", "VerificationReport"]

Status = str
STATUSES = ("reproduced", "diverged", "tampered", "unverifiable", "refused")
"""Every verdict, as DESIGN and ``docs/reference/format.md`` define them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one row.

    ``row`` counts from 0 over the whole dataset. ``prefix`` is True where the end of the episode
    is the recorder's word. ``anchor`` says why its world is trusted, None if nobody does.
    ``messages`` is ``bound`` where the recorded chat is what the steps say, else why it is not;
    None where there is no chat, or it was not checked. Unbound is no accusation: such a chat is
    not exported. ``sandbox`` is the isolation that the episode was re-run in: ``bwrap`` or
    ``in-process``; None where it was not re-run.
    """

    row: int
    fingerprint: str
    status: Status
    world: str
    label: str
    agent: str
    seed: int
    reason: str | None = None
    mismatches: tuple[Mismatch, ...] = ()
    prefix: bool = False
    anchor: str | None = None
    messages: str | None = None
    sandbox: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return {
            "row": self.row,
            "fingerprint": self.fingerprint,
            "status": self.status,
            "world": self.world,
            "label": self.label,
            "agent": self.agent,
            "seed": self.seed,
            "reason": self.reason,
            "mismatches": [mismatch.to_dict() for mismatch in self.mismatches],
            "prefix": self.prefix,
            "anchor": self.anchor,
            "messages": self.messages,
            "sandbox": self.sandbox,
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the dataset as a whole that does not agree: ``where`` and ``what``."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """What verify found.

    ``root`` is None where there is no manifest to state it. ``completeness`` is ``checked`` where
    the rows were compared with what was planned, and ``unknown`` where there is no plan to
    compare with; a single trajectory is ``checked``. ``unchecked_columns`` are not ours, and
    ``skipped`` are files without a manifest that cannot be read.
    """

    root: str | None
    num_rows: int
    planned: int
    withheld: int
    num_transcripts: int
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    allow_unanchored: bool = False
    completeness: str = "checked"
    unchecked_columns: tuple[str, ...] = ()
    skipped: tuple[Finding, ...] = ()

    @property
    def counts(self) -> dict[Status, int]:
        """How many rows have each verdict."""
        counted = Counter(verdict.status for verdict in self.verdicts)
        return {status: counted[status] for status in STATUSES}

    @property
    def num_unbound(self) -> int:
        """How many reproduced rows have a chat that is not what their steps say."""
        return sum(v.messages not in (None, "bound") for v in self.verdicts)

    @property
    def unanchored(self) -> dict[str, str]:
        """World digest → label, for the worlds that nobody this user trusts stands for."""
        return {v.world: v.label for v in self.verdicts if v.anchor is None and v.world}

    @property
    def exit_code(self) -> int:
        """1 when anything diverged or was tampered with, 3 when anything could not be decided
        or no anchor holds, 0 when every claim was confirmed."""
        counts = self.counts
        if counts["diverged"] or counts["tampered"] or self.findings:
            return 1
        if counts["refused"] or counts["unverifiable"] or self.completeness == "unknown":
            return 3
        return 3 if self.unanchored and not self.allow_unanchored else 0

    @property
    def ok(self) -> bool:
        """Whether every row reproduced in a trusted world."""
        return self.exit_code == 0

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values; only verdicts other than ``reproduced`` are listed."""
        return {
            "format": 1,
            "root": self.root,
            "rows": self.num_rows,
            "planned": self.planned,
            "withheld": self.withheld,
            "transcripts": self.num_transcripts,
            "completeness": self.completeness,
            "unchecked_columns": list(self.unchecked_columns),
            "skipped": [{"where": f.where, "what": f.what} for f in self.skipped],
            "counts": self.counts,
            "findings": [{"where": f.where, "what": f.what} for f in self.findings],
            "unanchored": self.unanchored,
            "unbound": self.num_unbound,
            "verdicts": [v.to_dict() for v in self.verdicts if v.status != "reproduced"],
            "exit_code": self.exit_code,
        }
