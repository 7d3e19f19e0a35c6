"""Writes ``docs/explanation/audit.md``: an audit of every bundled suite.

``python docs/make_audit_page.py`` takes some minutes; it records what it audits.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

from crucible.auditing import AuditReport, audit_dataset
from crucible.claims import CLAIMS
from crucible.recording import Plan, record_plan
from crucible.suites import suite_names
from crucible.world_references import resolve_worlds

PAGE = Path(__file__).parent / "explanation" / "audit.md"
SAMPLE = {"code-basics": 1, "shell-basics": 1}

HEAD = """# What binds every field

Written by `python docs/make_audit_page.py`, which records every bundled suite with its reference
solution and its wrong attempt and runs `crucible audit` on it.

`crucible audit TARGET` edits every stored field of some rows – flips, drops, retypes, reorders,
swaps between episodes – and verifies each edit as a dataset of its own: once with all hashes left
as they were, once with every hash, root and count made to fit, as an attacker who controls
everything would. The tables say which check caught the edits of the second kind:

- **replay**: a re-run gave something else;
- **recomputation**: arithmetic, a label, the plan or the form of the row contradicts it;
- **anchor**: the world is another one, which nobody vouches for;
- **equivalent**: the re-run gives exactly the edited record (another seed of an environment that
  ignores it, a space at the end of a query), so that only the published root binds it;
- **recorded-only**: nothing, and the field is labelled as the recorder's word.

With hashes left as they were, the bytes alone give every edit away.
"""


def page() -> str:
    """The whole page."""
    sections = [HEAD]
    for suite in suite_names():
        report = audit_suite(suite)
        sections.append(f"## {suite}\n\n{table_of(report)}")
    return "\n".join(section.rstrip() + "\n" for section in sections)


def audit_suite(suite: str) -> AuditReport:
    """Record a suite with both of its attempts and audit some rows."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        out = Path(folder) / "dataset"
        for agent in ("oracle", "wrong"):
            worlds = tuple(resolve_worlds(suite, {}))
            record_plan(Plan(worlds, (range(2),), agent), out, workers=1)
        return audit_dataset(out, sample=SAMPLE.get(suite, 3))


def table_of(report: AuditReport) -> str:
    """A table of fields and checks."""
    lines = [
        f"{report.num_edits} edits of {report.num_rows} episodes; "
        f"unbound: {', '.join(report.unbound) or 'nothing'}.",
        "",
        "| field | claim | caught by |",
        "|---|---|---|",
    ]
    for name in CLAIMS:
        audit = report.fields[name]
        lines.append(f"| `{name}` | {audit.label} | {counts_of(audit.recomputed)} |")
    return "\n".join(lines)


def counts_of(counter: Counter[str]) -> str:
    """``check number`` pairs."""
    return ", ".join(f"{check} {count}" for check, count in sorted(counter.items())) or "–"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
