"""Comparing the rows that came back with the rows that should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crucible.canonical import canonical_text

__all__ = ["RUBRIC", "RowGrade", "grade_rows", "is_correct", "score_of"]

Rows = Sequence[Sequence[Any]]

RUBRIC: Mapping[str, float] = {"columns": 0.1, "num_rows": 0.1, "values": 0.3}
"""The weights that suites use; what is missing to 1 is given for the right answer alone."""


@dataclass(frozen=True, slots=True)
class RowGrade:
    """How far rows agree with the expected ones.

    ``values`` is the share of rows found whatever their order; ``columns`` and ``num_rows``
    are 0.0 or 1.0.
    """

    correct: bool
    columns: float
    num_rows: float
    values: float

    def to_dict(self) -> dict[str, float]:
        """The parts by name, as reported in ``info``."""
        return {
            "columns": self.columns,
            "num_rows": self.num_rows,
            "values": self.values,
        }


def is_correct(rows: Rows, expected: Rows, *, ordered: bool) -> bool:
    """Whether ``rows`` are the expected ones; with ``ordered`` off, in any order.

    Values compare as Python's ``==`` does: 3 equals 3.0, but not "3".
    """
    if len(rows) != len(expected):
        return False
    if ordered:
        return all(list(row) == list(wanted) for row, wanted in zip(rows, expected, strict=True))
    return Counter(map(_key, rows)) == Counter(map(_key, expected))


def grade_rows(rows: Rows, expected: Rows, *, ordered: bool) -> RowGrade:
    """The grade of ``rows``, part by part."""
    common = (Counter(map(_key, rows)) & Counter(map(_key, expected))).total()
    widths = {len(row) for row in expected}
    return RowGrade(
        correct=is_correct(rows, expected, ordered=ordered),
        columns=float(bool(rows) and {len(row) for row in rows} <= widths),
        num_rows=float(len(rows) == len(expected)),
        values=round(common / max(len(rows), len(expected), 1), 4),
    )


def score_of(grade: RowGrade, rubric: Mapping[str, float]) -> float:
    """The partial credit of ``grade`` in [0, 1]; 1.0 for the right answer and for it alone."""
    if grade.correct:
        return 1.0
    parts = grade.to_dict()
    return round(min(sum(weight * parts[part] for part, weight in rubric.items()), 0.95), 4)


def _key(row: Sequence[Any]) -> Hashable:
    return tuple(v if isinstance(v, Hashable) else canonical_text(v) for v in row)
