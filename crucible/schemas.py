"""The part of JSON Schema that tools and kwargs are described with.

Supported keywords: ``type`` (one name or a list), ``properties``, ``required``,
``additionalProperties`` (a boolean or a schema), ``items``, ``enum``, ``minimum``, ``maximum``,
``minItems``, ``maxItems``, ``maxLength``, ``pattern`` (searched, as in JSON Schema). Annotations
(``description``, ``title``, ``default``) say nothing about validity. A schema with any other
keyword is refused, so that no constraint is ever silently ignored. Source: JSON Schema 2020-12,
whose meaning these keywords keep, except that ``integer`` accepts integers only, never ``1.0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from crucible.errors import UsageError

__all__ = ["SchemaError", "check_schema"]

_ANNOTATIONS = {"description", "title", "default"}
_KEYWORDS = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxLength",
    "pattern",
}


class SchemaError(UsageError):
    """A schema that uses a keyword outside the supported part."""


def check_schema(value: Any, schema: Mapping[str, Any]) -> str | None:
    """The first way in which ``value`` breaks ``schema``, as a sentence; None if it fits.

    Raises:
        SchemaError: if the schema uses an unsupported keyword.
    """
    return next(_problems(value, schema, ""), None)


def _search(pattern: str, value: str) -> bool:
    """Whether ``pattern`` occurs in ``value``; a ``$`` at its end is the end of the text, as in
    JSON Schema, and not also the place before a last line break, as in Python."""
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1] + r"\Z"
    return re.search(pattern, value) is not None


def _is_type(value: Any, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    raise SchemaError(f"schema type {name!r} is not a JSON Schema type")


def _problems(value: Any, schema: Mapping[str, Any], pointer: str) -> Iterator[str]:
    unknown = set(schema) - _KEYWORDS - _ANNOTATIONS
    if unknown:
        raise SchemaError(f"schema at {pointer or '/'}: keyword {min(unknown)!r} is not supported")
    where = pointer or "/"
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_type(value, name) for name in names):
            yield f"{where}: expected {' or '.join(names)}, found {type(value).__name__}"
            return
    if "enum" in schema and not any(
        type(value) is type(option) and value == option for option in schema["enum"]
    ):
        yield f"{where}: expected one of {schema['enum']}, found {value!r}"
    yield from _scalar_problems(value, schema, where)
    if isinstance(value, dict):
        yield from _object_problems(value, schema, pointer)
    if isinstance(value, list):
        yield from _array_problems(value, schema, pointer)


def _scalar_problems(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if _is_type(value, "number"):
        if "minimum" in schema and value < schema["minimum"]:
            yield f"{where}: expected at least {schema['minimum']}, found {value}"
        if "maximum" in schema and value > schema["maximum"]:
            yield f"{where}: expected at most {schema['maximum']}, found {value}"
    if isinstance(value, str):
        if "maxLength" in schema and len(value) > schema["maxLength"]:
            yield f"{where}: expected at most {schema['maxLength']} characters, found {len(value)}"
        if "pattern" in schema and not _search(schema["pattern"], value):
            yield f"{where}: expected text that matches {schema['pattern']}, found {value!r:.80}"


def _object_problems(
    value: dict[str, Any], schema: Mapping[str, Any], pointer: str
) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{pointer or '/'}: expected the key {name!r}, which is missing"
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties:
            yield from _problems(item, properties[name], f"{pointer}/{name}")
        elif rest is False:
            yield f"{pointer or '/'}: unknown key {name!r}"
        elif isinstance(rest, Mapping):
            yield from _problems(item, rest, f"{pointer}/{name}")


def _array_problems(value: list[Any], schema: Mapping[str, Any], pointer: str) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"{pointer or '/'}: expected at least {schema['minItems']} items, found {len(value)}"
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield f"{pointer or '/'}: expected at most {schema['maxItems']} items, found {len(value)}"
    if "items" in schema:
        for index, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{pointer}/{index}")
