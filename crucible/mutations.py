"""Every way in which an audit edits a stored row."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from crucible.canonical import canonical_text
from crucible.claims import CLAIMS

__all__ = ["Mutation", "mutations_of"]

Row = dict[str, Any]

_TEXTS = {"reset_info", "final_observation", "messages", "tools", "tokens", "provenance"}
_TEXTS |= {"agent.sampling", "steps.observation", "steps.action", "steps.info"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One edit: which field, what kind, and the row after it."""

    field: str
    kind: str
    row: Row


def mutations_of(row: Row, other: Row) -> Iterator[Mutation]:
    """Every edit of ``row``; what is swapped comes from ``other``. Edits that change nothing are
    left out."""
    for field in CLAIMS:
        for kind, changed in _edits(field, row, other):
            if repr(changed) != repr(row):  # 1 and True are equal, and so are 0.0 and -0.0
                yield Mutation(field, kind, changed)


def _edits(field: str, row: Row, other: Row) -> Iterator[tuple[str, Row]]:
    if field == "steps":
        yield from _list_edits(row, other)
        return
    if field.startswith("steps."):
        name = field.removeprefix("steps.")
        for index in sorted({0, len(row["steps"]) - 1}):
            if index < 0:
                continue
            value = row["steps"][index][name]
            for kind, new in _value_edits(field, value):
                yield kind, _with(row, _setting(name, new, step=index))
        if len(row["steps"]) > 1:
            yield "reorder", _with(row, lambda r: _swap_steps(r, name))
        return
    parent, _, name = field.rpartition(".")
    value = row[parent][name] if parent else row[name]
    for kind, new in _value_edits(field, value):
        yield kind, _with(row, _setting(name, new, parent=parent))
    theirs = other[parent][name] if parent else other[name]
    yield "swap", _with(row, _setting(name, theirs, parent=parent))


def _with(row: Row, change: Callable[[Row], Any]) -> Row:
    copy = deepcopy(row)
    change(copy)
    return copy


def _setting(
    name: str, value: Any, *, parent: str = "", step: int | None = None
) -> Callable[[Row], None]:
    """The change that puts ``value`` into a column, a struct's field or a step's field."""

    def change(row: Row) -> None:
        place = row["steps"][step] if step is not None else row[parent] if parent else row
        place[name] = value

    return change


def _swap_steps(row: Row, name: str) -> None:
    first, last = row["steps"][0], row["steps"][-1]
    first[name], last[name] = last[name], first[name]


def _list_edits(row: Row, other: Row) -> Iterator[tuple[str, Row]]:
    yield "drop first", _with(row, lambda r: r["steps"].pop(0) if r["steps"] else None)
    yield "drop last", _with(row, lambda r: r["steps"].pop() if r["steps"] else None)
    yield "truncate", _with(row, lambda r: r["steps"].clear())
    yield "duplicate", _with(row, lambda r: r["steps"].extend(deepcopy(r["steps"][-1:])))
    yield "reorder", _with(row, lambda r: r["steps"].reverse())
    yield "swap", _with(row, lambda r: r.update(steps=deepcopy(other["steps"])))


def _value_edits(field: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(kind, new value) for one leaf."""
    if value is None:
        made = {"success": True, "error": "made up"}.get(field, "made up")
        yield "add", '"made up"' if field in _TEXTS else made
    elif isinstance(value, bool):
        yield "flip", not value
    elif isinstance(value, int):
        yield "flip", value + 1
        yield "flip sign", -value - 1
    elif isinstance(value, float):
        yield "flip", value + 1.0
        yield "flip last bit", math.nextafter(value, math.inf)
        yield "flip sign", -value
    elif field in _TEXTS:
        yield from _text_edits(field, value)
    else:
        yield "flip", f"{value}x"
        yield "drop", "" if field in ("initial_digest", "steps.digest") else None


def _text_edits(field: str, text: str) -> Iterator[tuple[str, str]]:
    """Edits of a value inside canonical text, and of text that is no longer canonical."""
    value = json.loads(text)
    yield "flip", canonical_text(_plain_edit(value))
    yield "retype", canonical_text(_retyped(value))
    yield "drop", canonical_text(None)
    yield "respace", f" {text}"
    if field == "steps.action":
        yield "same effect", canonical_text(_commented(value))


def _plain_edit(value: Any) -> Any:
    """``value`` with its first leaf changed."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case None:
            return 0
        case []:
            return [0]
        case list():
            return [_plain_edit(value[0]), *value[1:]]
    if not value:
        return {"x": 0}
    key = sorted(value)[0]
    return {**value, key: _plain_edit(value[key])}


def _retyped(value: Any) -> Any:
    """``value`` with its first leaf in another type that looks alike."""
    match value:
        case bool():
            return int(value)
        case int():
            return float(value)
        case float():
            return str(value)
        case str():
            return [value]
        case None:
            return "null"
        case []:
            return {}
        case list():
            return [_retyped(value[0]), *value[1:]]
    if not value:
        return []
    key = sorted(value)[0]
    return {**value, key: _retyped(value[key])}


def _commented(value: Any) -> Any:
    """An action with something at its end that many languages ignore."""
    if isinstance(value, str):
        return f"{value} "
    if isinstance(value, dict) and value:
        key = sorted(value)[-1]
        return {**value, key: _commented(value[key])}
    if isinstance(value, list) and value:
        return [*value[:-1], _commented(value[-1])]
    return value
