"""Reading verification reports. They are shown to people; no program believes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crucible.canonical import parse_json
from crucible.dataset.files import read_bounded
from crucible.errors import FormatError
from crucible.schemas import check_schema
from crucible.verdicts import STATUSES

__all__ = ["REPORTS_FOLDER", "parse_report", "read_report", "reports_in"]

REPORTS_FOLDER = "crucible/verification"
MAX_REPORT_BYTES = 64 * 1024 * 1024
MAX_REPORTS = 1000

_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_TEXT_MAP = {"type": "object", "additionalProperties": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_MISMATCH = _object(
    step={"type": ["integer", "null"]},
    field=_TEXT,
    path=_TEXT,
    recorded=_MAYBE_TEXT,
    replayed=_MAYBE_TEXT,
)
_VERDICT = _object(
    row=_COUNT,
    fingerprint=_TEXT,
    status={"type": "string", "enum": list(STATUSES)},
    world=_TEXT,
    label=_TEXT,
    agent=_TEXT,
    seed={"type": "integer"},
    reason=_MAYBE_TEXT,
    mismatches={"type": "array", "items": _MISMATCH},
    prefix={"type": "boolean"},
    anchor=_MAYBE_TEXT,
    messages=_MAYBE_TEXT,
    sandbox=_MAYBE_TEXT,
)
_REPORT = _object(
    format={"type": "integer", "enum": [1]},
    root={"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"},
    rows=_COUNT,
    planned=_COUNT,
    withheld=_COUNT,
    transcripts=_COUNT,
    completeness={"type": "string", "enum": ["checked", "unknown"]},
    unchecked_columns={"type": "array", "items": _TEXT},
    skipped={"type": "array", "items": _object(where=_TEXT, what=_TEXT)},
    counts=_object(**dict.fromkeys(STATUSES, _COUNT)),
    findings={"type": "array", "items": _object(where=_TEXT, what=_TEXT)},
    unanchored=_TEXT_MAP,
    unbound=_COUNT,
    verdicts={"type": "array", "items": _VERDICT},
    exit_code={"type": "integer", "enum": [0, 1, 3]},
)


def parse_report(data: bytes) -> dict[str, Any]:
    """The report in ``data``, as :meth:`VerificationReport.to_dict` gives it.

    Raises:
        FormatError: if it is malformed, of another format, or contradicts itself.
    """
    try:
        body: dict[str, Any] = parse_json(data.decode())
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8: {error}") from None
    problem = check_schema(body, _REPORT)
    if problem:
        raise FormatError(f"at {problem}")
    counts = body["counts"]
    if sum(counts.values()) != body["rows"]:
        raise FormatError(f"it counts {sum(counts.values())} verdicts on {body['rows']} rows")
    if len(body["verdicts"]) != body["rows"] - counts["reproduced"]:
        raise FormatError("it does not list every verdict other than reproduced")
    bad = counts["diverged"] or counts["tampered"] or body["findings"]
    if (body["exit_code"] == 1) != bool(bad):
        raise FormatError(f"its exit code {body['exit_code']} does not follow from its counts")
    return body


def read_report(path: Path) -> dict[str, Any]:
    """The report in a file.

    Raises:
        FormatError: if it cannot be read or is malformed.
    """
    try:
        return parse_report(read_bounded(path, MAX_REPORT_BYTES))
    except FormatError as error:
        raise FormatError(f"{path.name}: {error}") from None


def reports_in(folder: Path) -> list[Path]:
    """The files of reports in a dataset, by name."""
    return sorted((folder / REPORTS_FOLDER).glob("*.json"))[:MAX_REPORTS]
