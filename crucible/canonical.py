"""Canonical values: one text for every value, one value for every text.

The rules are ``docs/reference/format.md`` section "Values". The text is what is stored, hashed
and compared; nothing is ever hashed from a re-encoding.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from crucible.errors import IntegrityError, TextError, ValueRefusedError

__all__ = [
    "MAX_DEPTH",
    "MAX_TEXT_BYTES",
    "Difference",
    "canonical_text",
    "check_encoder",
    "check_text",
    "first_difference",
    "parse_json",
    "parse_text",
]

MAX_DEPTH = 200
MAX_TEXT_BYTES = 16 * 1024 * 1024

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_ARRAY_ITEM_BYTES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}


_VECTORS: list[tuple[Any, str]] = [
    (-0.0, "-0.0"),
    (1e15, "1000000000000000.0"),
    (1e16, "1e+16"),
    (1e-5, "0.00001"),
    (1.5e-6, "1.5e-6"),
    (1e-7, "1e-7"),
    (5e-324, "5e-324"),
    (1 / 3, "0.3333333333333333"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (2**53 + 1, "9007199254740993"),
    (2**64 - 1, "18446744073709551615"),
    (-(2**63), "-9223372036854775808"),
    ('\x00\x1f\x7f\n"\\/\u2028', '"\\u0000\\u001f\x7f\\n\\"\\\\/\u2028"'),
    ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'),
    ({"b": [], "a": {}, "": None}, '{"":null,"a":{},"b":[]}'),
    ([True, "42", '{"a":1}'], '[true,"42","{\\"a\\":1}"]'),
    ({"$x": b"\x00"}, '{"$$x":{"$bytes":"AA=="}}'),
]


def canonical_text(value: Any) -> str:
    """The canonical JSON text of ``value``.

    Tuples become lists, numpy scalars numbers, arrays and bytes tagged objects; a key that
    begins with ``$`` is escaped with another ``$``.

    Raises:
        ValueRefusedError: for anything that canonical form does not allow, with the JSON
            pointer of the culprit.
    """
    try:
        data = orjson.dumps(_plain(value, 0), option=_OPTIONS)
    except _Refusal as refusal:
        raise ValueRefusedError(_pointer(refusal.path), refusal.reason) from None
    if len(data) > MAX_TEXT_BYTES:
        raise ValueRefusedError("", f"expected at most {MAX_TEXT_BYTES} bytes, found {len(data)}")
    return data.decode()


def parse_text(text: str) -> Any:
    """The value of a canonical ``text``, with arrays and bytes decoded and keys unescaped.

    Raises:
        TextError: if ``text`` is not in canonical form.
    """
    value = _decoded(_raw(text), 0)
    if '"$' in text and canonical_text(value) != text:
        raise TextError(f"text with a tag is not in canonical form: {text:.80}")
    return value


def check_text(text: str) -> None:
    """Nothing, if ``text`` is in canonical form.

    Raises:
        TextError: if it is not.
    """
    _raw(text)
    if '"$' in text or text.count("[") + text.count("{") > MAX_DEPTH:
        parse_text(text)


@functools.cache
def check_encoder() -> None:
    """Nothing, if the installed encoder writes every branch of the form as format 1 has it.

    Raises:
        IntegrityError: if it does not: every digest that it gives would be of other bytes.
    """
    for value, text in _VECTORS:
        if canonical_text(value) != text or canonical_text(parse_text(text)) != text:
            raise IntegrityError(
                f"orjson {orjson.__version__} writes {value!r} not as {text}: format 1 cannot be "
                "written or checked with it"
            )


def parse_json(text: str) -> Any:
    """The value of JSON that somebody else wrote, such as a model's tool arguments.

    Raises:
        TextError: if it is not JSON, repeats a key, or holds a value that canonical form
            does not allow.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        canonical_text(value)
    except (ValueError, RecursionError, ValueRefusedError) as error:
        raise TextError(f"not acceptable JSON ({error}): {text:.80}") from None
    return value


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two texts differ; a side that lacks the place is None."""

    pointer: str
    left: str | None
    right: str | None


def first_difference(left: str, right: str) -> Difference | None:
    """Where two canonical texts first differ, in document order; None if they are equal."""
    if left == right:
        return None
    return _difference(_raw(left), _raw(right), [])


class _Refusal(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.path: list[str | int] = []


def _pointer(reversed_path: list[str | int]) -> str:
    """An RFC 6901 pointer from path elements, innermost first."""
    return "".join(
        "/" + str(element).replace("~", "~0").replace("/", "~1")
        for element in reversed(reversed_path)
    )


def _plain(value: Any, depth: int) -> Any:
    """``value`` out of None, bool, int, float, str, list and dict alone."""
    kind = type(value)
    if kind is str:
        return _checked_str(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if not _INT_MIN <= value <= _INT_MAX:
            raise _Refusal(f"integer {value} is outside -2^63 … 2^64-1")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise _Refusal(f"{value} is not a finite number")
        return value
    if depth >= MAX_DEPTH:
        raise _Refusal(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _plain_dict(value, depth)
    if isinstance(value, list | tuple):
        return _plain_list(value, depth)
    return _plain_other(value, depth)


def _checked_str(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Refusal("text holds a lone surrogate") from None
    return value


def _plain_list(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    result = []
    for index, item in enumerate(value):
        try:
            result.append(_plain(item, depth + 1))
        except _Refusal as refusal:
            refusal.path.append(index)
            raise
    return result


def _plain_dict(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    tag = len(value) == 1 and "$malformed" in value
    result = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _Refusal(f"key {key!r:.40} is a {type(key).__name__}, expected a string")
        try:
            name = _checked_str(str(key))
            escaped = "$" + name if name.startswith("$") and not tag else name
            result[escaped] = _plain(item, depth + 1)
        except _Refusal as refusal:
            refusal.path.append(str(key))
            raise
    return result


def _plain_other(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, str):
        return _checked_str(str.__str__(value))
    if isinstance(value, int):
        return _plain(int(value), depth)
    if type(value).__module__ == "numpy":
        return _plain_numpy(value, depth)
    if isinstance(value, float):
        return _plain(float(value), depth)
    raise _Refusal(f"a {type(value).__name__} has no canonical form")


def _plain_numpy(value: Any, depth: int) -> Any:
    import numpy as np

    if isinstance(value, np.generic):
        if value.dtype.itemsize in _ARRAY_ITEM_BYTES.get(value.dtype.kind, ()) and (
            value.dtype.kind != "c"
        ):
            return _plain(value.item(), depth)
        raise _Refusal(f"a numpy {value.dtype} scalar has no canonical form")
    if not isinstance(value, np.ndarray):
        raise _Refusal(f"a {type(value).__name__} has no canonical form")
    kind, size = value.dtype.kind, value.dtype.itemsize
    if size not in _ARRAY_ITEM_BYTES.get(kind, ()):
        raise _Refusal(f"an array of dtype {value.dtype} has no canonical form")
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    body = {
        "dtype": little.dtype.str,
        "shape": list(value.shape),
        "data": base64.b64encode(little.tobytes(order="C")).decode(),
    }
    return {"$ndarray": body}


def _raw(text: str) -> Any:
    if len(text) > MAX_TEXT_BYTES:
        raise TextError(f"expected at most {MAX_TEXT_BYTES} bytes of text, found {len(text)}")
    try:
        data = text.encode()
        value = orjson.loads(data)
        same = orjson.dumps(value, option=_OPTIONS) == data
    except (ValueError, TypeError) as error:
        raise TextError(f"not canonical JSON ({error}): {text:.80}") from None
    if not same:
        raise TextError(f"JSON is not in canonical form: {text:.80}")
    return value


def _decoded(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        _check_depth(depth)
        return [_decoded(item, depth + 1) for item in value]
    if isinstance(value, dict):
        _check_depth(depth)
        if len(value) == 1:
            ((key, item),) = value.items()
            if key == "$bytes":
                return _decoded_base64(item)
            if key == "$ndarray":
                return _decoded_array(item)
            if key == "$malformed":
                return {key: _decoded(item, depth + 1)}
        return {_unescaped(key): _decoded(item, depth + 1) for key, item in value.items()}
    return value


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise TextError(f"text is nested deeper than {MAX_DEPTH} levels")


def _unescaped(key: str) -> str:
    if not key.startswith("$"):
        return key
    if not key.startswith("$$"):
        raise TextError(f"key {key!r:.40} is reserved")
    return key[1:]


def _decoded_base64(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise TextError(f"tagged bytes are not base64 ({error})") from None


def _decoded_array(body: Any) -> Any:
    import numpy as np

    if not isinstance(body, dict) or set(body) != {"dtype", "shape", "data"}:
        raise TextError("a tagged array needs exactly dtype, shape and data")
    dtype, shape = body["dtype"], body["shape"]
    known = {f"{'|' if n == 1 else '<'}{k}{n}" for k, ns in _ARRAY_ITEM_BYTES.items() for n in ns}
    is_known = isinstance(dtype, str) and dtype in known
    if not is_known or not isinstance(shape, list) or len(shape) > 32:
        raise TextError(f"a tagged array has dtype {dtype!r:.40} and shape {shape!r:.40}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise TextError(f"a tagged array has shape {shape!r:.80}")
    data = _decoded_base64(body["data"])
    if math.prod(shape) * int(dtype[2:]) != len(data):
        raise TextError(
            f"a tagged array of shape {shape} and dtype {dtype} holds {len(data)} bytes"
        )
    try:
        return np.frombuffer(data, dtype=dtype).reshape(shape).copy()
    except (OverflowError, ValueError) as error:
        raise TextError(f"a tagged array has shape {shape!r:.80} ({error})") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _difference(left: Any, right: Any, path: list[str | int]) -> Difference | None:
    if isinstance(left, dict) and isinstance(right, dict):
        keys: list[Any] = sorted(set(left) | set(right))
        return _item_difference(left, right, (keys, path))
    if isinstance(left, list) and isinstance(right, list):
        indices = list(range(max(len(left), len(right))))
        return _item_difference(dict(enumerate(left)), dict(enumerate(right)), (indices, path))
    texts = _dumps(left), _dumps(right)
    if texts[0] == texts[1]:
        return None
    return Difference(_pointer(path[::-1]), *texts)


def _item_difference(
    left: dict[Any, Any], right: dict[Any, Any], place: tuple[list[Any], list[str | int]]
) -> Difference | None:
    keys, path = place
    for key in keys:
        if key not in left or key not in right:
            sides = (_dumps(side[key]) if key in side else None for side in (left, right))
            return Difference(_pointer([*path, key][::-1]), *sides)
        found = _difference(left[key], right[key], [*path, key])
        if found:
            return found
    return None


def _dumps(value: Any) -> str:
    return orjson.dumps(value, option=_OPTIONS).decode()
