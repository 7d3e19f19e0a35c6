from __future__ import annotations

import math
from collections import OrderedDict
from enum import IntEnum
from typing import Any, Literal

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crucible.canonical import (
    MAX_DEPTH,
    MAX_TEXT_BYTES,
    Difference,
    canonical_text,
    check_encoder,
    first_difference,
    parse_json,
    parse_text,
)
from crucible.errors import IntegrityError, TextError, ValueRefusedError


class Digit(IntEnum):
    TWO = 2


VECTORS: list[tuple[Any, str]] = [
    ("42", '"42"'),
    ("true", '"true"'),
    ("null", '"null"'),
    ('{"a":1}', '"{\\"a\\":1}"'),
    (-0.0, "-0.0"),
    (0.0, "0.0"),
    (1.0, "1.0"),
    (1, "1"),
    (1e16, "1e+16"),
    (1e-7, "1e-7"),
    (0.1, "0.1"),
    (5e-324, "5e-324"),
    (2.2250738585072014e-308, "2.2250738585072014e-308"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (2**53 - 1, "9007199254740991"),
    (2**53 + 1, "9007199254740993"),
    (2**63, "9223372036854775808"),
    (2**64 - 1, "18446744073709551615"),
    (-(2**63), "-9223372036854775808"),
    ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ({"\U0001f600": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f600":1}'),
    ({}, "{}"),
    ([], "[]"),
    ([{}, [], ""], '[{},[],""]'),
    ('\x00\x1f\x7f\n"\\/é', '"\\u0000\\u001f\x7f\\n\\"\\\\/é"'),
    ((1, (2,)), "[1,[2]]"),
    (b"\x00\xff", '{"$bytes":"AP8="}'),
    ({"$key": 1, "$$": 2}, '{"$$$":2,"$$key":1}'),
    ({"$malformed": {"$bytes": "x"}}, '{"$malformed":{"$$bytes":"x"}}'),
    (np.float32(0.1), "0.10000000149011612"),
    (np.int8(-3), "-3"),
    (np.bool_(True), "true"),
    (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
    (Digit.TWO, "2"),
]


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert canonical_text(value) == text
    assert canonical_text(parse_text(text)) == text


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_arrays_survive_bit_for_bit(dtype: str, order: Literal["<", ">"]) -> None:
    array = np.arange(6).reshape(2, 3).astype(np.dtype(dtype).newbyteorder(order))
    back = parse_text(canonical_text({"x": [array]}))["x"][0]
    assert back.shape == (2, 3)
    assert back.dtype == np.dtype(dtype).newbyteorder("<")
    assert np.array_equal(back, array)


def test_nan_payloads_in_arrays_survive() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000000], dtype="<u8")
    back = parse_text(canonical_text(bits.view("<f8")))
    assert back.view("<u8").tolist() == bits.tolist()


REFUSED: list[tuple[Any, str, str]] = [
    ({"a": [1, math.nan]}, "/a/1", "finite"),
    ([math.inf], "/0", "finite"),
    ({"x/y": {"~": 2**64}}, "/x~1y/~0", "outside"),
    ([-(2**63) - 1], "/0", "outside"),
    ([{1, 2}], "/0", "set"),
    ({"a": {1: 2}}, "/a", "expected a string"),
    (["\ud800"], "/0", "surrogate"),
    ({"\udfff": 1}, "/\udfff", "surrogate"),
    ([np.array([object()])], "/0", "dtype"),
    ([np.array(["a"])], "/0", "dtype"),
    ([np.longdouble(1)], "/0", "has no canonical form"),
    ([object()], "/0", "object"),
    ([np.float64("nan")], "/0", "finite"),
]


@pytest.mark.parametrize(("value", "pointer", "reason"), REFUSED)
def test_what_has_no_canonical_form_is_refused_with_its_place(
    value: Any, pointer: str, reason: str
) -> None:
    with pytest.raises(ValueRefusedError, match=reason) as caught:
        canonical_text(value)
    assert caught.value.pointer == pointer


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded_in_both_directions() -> None:
    assert parse_text(canonical_text(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(ValueRefusedError, match="nested deeper"):
        canonical_text(nested(MAX_DEPTH + 1))
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(TextError):
            parse_text("[" * depth + "1" + "]" * depth)


def test_size_is_bounded_in_both_directions() -> None:
    with pytest.raises(ValueRefusedError, match="bytes"):
        canonical_text("x" * MAX_TEXT_BYTES)
    with pytest.raises(TextError, match="bytes"):
        parse_text('"' + "x" * MAX_TEXT_BYTES + '"')


NOT_CANONICAL = [
    "",
    " 1",
    "1 ",
    '{"b":1,"a":2}',
    '{"a":1,"a":1}',
    '{"a": 1}',
    "1e5",
    "1E+16",
    "1.00",
    "-0",
    "01",
    "NaN",
    "Infinity",
    "18446744073709551616",
    '"\\u0041"',
    '"\\/"',
    '"\\ud800"',
    '{"$x":1}',
    '{"$bytes":"AP8"}',
    '{"$bytes":"AP9="}',
    '{"$bytes":1}',
    '{"$ndarray":{"data":"","dtype":"<f8","shape":[1]}}',
    '{"$ndarray":{"data":"","dtype":"O","shape":[0]}}',
    '{"$ndarray":{"data":"","dtype":["<f8"],"shape":[0]}}',
    '{"$ndarray":{"data":"","dtype":{},"shape":[0]}}',
    '{"$ndarray":{"data":"","dtype":">f8","shape":[0]}}',
    '{"$ndarray":{"data":"","dtype":"<f8","shape":[-1]}}',
    '{"$ndarray":{"data":"","dtype":"<f8","shape":[true]}}',
    '{"$ndarray":{"data":"","dtype":"<f8","shape":[0],"x":1}}',
    '{"$$malformed":1}',
]


@pytest.mark.parametrize("text", NOT_CANONICAL)
def test_text_in_any_other_form_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        parse_text(text)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=20)
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["$", "$$", "$bytes", "$ndarray", "$malformed"]
)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(keys, v, max_size=4), max_leaves=20
)


@given(values)
def test_every_allowed_value_round_trips(value: Any) -> None:
    text = canonical_text(value)
    assert parse_text(text) == value
    assert canonical_text(parse_text(text)) == text


@given(values, values)
def test_texts_are_equal_exactly_where_there_is_no_difference(a: Any, b: Any) -> None:
    left, right = canonical_text(a), canonical_text(b)
    assert (first_difference(left, right) is None) == (left == right)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("1", "1.0", Difference("", "1", "1.0")),
        ("true", "1", Difference("", "true", "1")),
        ("0.0", "-0.0", Difference("", "0.0", "-0.0")),
        ('{"a":[1,2]}', '{"a":[1,3]}', Difference("/a/1", "2", "3")),
        ('{"a":[1]}', '{"a":[1,3]}', Difference("/a/1", None, "3")),
        ('{"a/b":1,"c":2}', '{"c":2}', Difference("/a~1b", "1", None)),
        ("[]", "{}", Difference("", "[]", "{}")),
    ],
)
def test_the_first_difference_has_its_place_and_both_values(
    left: str, right: str, expected: Difference
) -> None:
    assert first_difference(left, right) == expected


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "NaN", "[1", "18446744073709551616", "[" * 5000])
def test_foreign_json_is_read_strictly(text: str) -> None:
    with pytest.raises(TextError):
        parse_json(text)


def test_foreign_json_may_have_any_spacing_and_no_tags() -> None:
    assert parse_json(' {"b": 1.50, "$bytes": "x"} ') == {"b": 1.5, "$bytes": "x"}


def test_an_encoder_that_writes_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_encoder.cache_clear()
    check_encoder()
    check_encoder.cache_clear()
    real = orjson.dumps
    monkeypatch.setattr(orjson, "dumps", lambda *a, **k: real(*a, **k).replace(b"e+16", b"e16"))
    with pytest.raises(IntegrityError, match="writes 1e\\+16 not as"):
        check_encoder()
    check_encoder.cache_clear()


@pytest.mark.parametrize("shape", ["[18446744073709551615,0]", "[9223372036854775807,0]"])
def test_an_array_of_an_impossible_shape_is_refused(shape: str) -> None:
    with pytest.raises(TextError):
        parse_text('{"$ndarray":{"data":"","dtype":"<f8","shape":SHAPE}}'.replace("SHAPE", shape))
