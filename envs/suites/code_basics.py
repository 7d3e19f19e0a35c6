"""``code-basics``: small functions to repair or write, and one whole package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crucible.suites import Suite, SuiteWorld

__all__ = ["suite"]

Edits = Sequence[Mapping[str, str]]


def _world(
    name: str,
    task: str,
    *,
    files: Mapping[str, str],
    grader: Mapping[str, Any],
    oracle: Edits,
    wrong: Edits,
) -> SuiteWorld:
    kwargs = {"files": dict(files), "task": task, "grader": dict(grader)}
    return SuiteWorld(name, "code-task", kwargs, lambda seed: oracle, lambda seed: wrong)


def _calls(function: str, *cases: tuple[list[Any], Any]) -> dict[str, Any]:
    return {
        "kind": "calls",
        "module": "solution.py",
        "function": function,
        "cases": [{"args": args, "expected": expected} for args, expected in cases],
    }


def _pytest(num_tests: int, **files: str) -> dict[str, Any]:
    pinned = {f"{name}.py": text for name, text in files.items()}
    return {
        "kind": "command",
        "command": ["pytest", *pinned],
        "files": pinned,
        "num_tests": num_tests,
    }


TEXTS_TEST = """
from solution import is_palindrome


def test_plain_words():
    assert is_palindrome("level")
    assert not is_palindrome("lever")


def test_case_does_not_count():
    assert is_palindrome("Level")


def test_spaces_and_punctuation_do_not_count():
    assert is_palindrome("A man, a plan, a canal: Panama!")


def test_empty_text():
    assert is_palindrome("")
"""
INTERVALS_TEST = """
from solution import merge


def test_nothing():
    assert merge([]) == []


def test_overlap():
    assert merge([[1, 3], [2, 6]]) == [[1, 6]]


def test_touching_ends_join():
    assert merge([[1, 2], [2, 3]]) == [[1, 3]]


def test_any_order():
    assert merge([[8, 10], [1, 3], [2, 6]]) == [[1, 6], [8, 10]]


def test_an_interval_inside_another():
    assert merge([[1, 9], [2, 3]]) == [[1, 9]]
"""
ROMAN_TEST = """
import pytest

from solution import to_roman


@pytest.mark.parametrize(
    ("number", "roman"),
    [(1, "I"), (3, "III"), (4, "IV"), (9, "IX"), (58, "LVIII"), (1994, "MCMXCIV")],
)
def test_numbers(number, roman):
    assert to_roman(number) == roman


def test_zero_is_refused():
    with pytest.raises(ValueError):
        to_roman(0)
"""
SHOP = {
    "shop/__init__.py": '"""A small shop."""\n',
    "shop/prices.py": (
        '"""Prices in cents."""\n\n\n'
        "def with_tax(cents: int, percent: int) -> int:\n"
        '    """The price with tax, rounded half up."""\n'
        "    return cents + cents * percent // 100\n"
    ),
    "shop/cart.py": (
        '"""A cart of items."""\n\nfrom shop.prices import with_tax\n\n\n'
        "class Cart:\n"
        '    """Items by name, each with a price in cents and a number."""\n\n'
        "    def __init__(self):\n        self.items = {}\n\n"
        "    def add(self, name, cents, number=1):\n"
        '        """Put ``number`` of an item in; adding again adds up."""\n'
        "        self.items[name] = (cents, number)\n\n"
        "    def total(self, percent=0):\n"
        '        """What everything costs, with tax on the sum."""\n'
        "        return with_tax(sum(c for c, n in self.items.values()), percent)\n"
    ),
    "shop/discounts.py": (
        '"""Discounts."""\n\n\n'
        "def best(cents, offers):\n"
        '    """The lowest price that an offer (percentage or amount) gives; never below 0."""\n'
        "    raise NotImplementedError\n"
    ),
}
SHOP_TESTS = {
    "test_prices.py": (
        "from shop.prices import with_tax\n\n\n"
        "def test_whole_cents():\n    assert with_tax(1000, 19) == 1190\n\n\n"
        "def test_half_a_cent_goes_up():\n    assert with_tax(50, 19) == 60\n\n\n"
        "def test_no_tax():\n    assert with_tax(123, 0) == 123\n"
    ),
    "test_cart.py": (
        "from shop.cart import Cart\n\n\n"
        "def test_numbers_count():\n"
        "    cart = Cart()\n    cart.add('pen', 150, 2)\n    cart.add('ink', 400)\n"
        "    assert cart.total() == 700\n\n\n"
        "def test_adding_again_adds_up():\n"
        "    cart = Cart()\n    cart.add('pen', 150)\n    cart.add('pen', 150, 2)\n"
        "    assert cart.total() == 450\n\n\n"
        "def test_tax_is_on_the_sum():\n"
        "    cart = Cart()\n    cart.add('pen', 25, 2)\n    assert cart.total(percent=19) == 60\n"
    ),
    "test_discounts.py": (
        "from shop.discounts import best\n\n\n"
        "def test_percentage():\n    assert best(1000, [{'percent': 10}]) == 900\n\n\n"
        "def test_the_best_of_many():\n"
        "    assert best(1000, [{'percent': 10}, {'amount': 250}]) == 750\n\n\n"
        "def test_never_below_zero():\n    assert best(100, [{'amount': 250}]) == 0\n\n\n"
        "def test_no_offer():\n    assert best(100, []) == 100\n"
    ),
}
PRICES_FIXED = SHOP["shop/prices.py"].replace(
    "cents + cents * percent // 100", "(cents * (100 + percent) + 50) // 100"
)
CART_FIXED = (
    SHOP["shop/cart.py"]
    .replace(
        "self.items[name] = (cents, number)",
        "self.items[name] = (cents, number + self.items.get(name, (0, 0))[1])",
    )
    .replace("sum(c for c, n in", "sum(c * n for c, n in")
)
DISCOUNTS_FIXED = SHOP["shop/discounts.py"].replace(
    "    raise NotImplementedError\n",
    "    prices = [cents]\n"
    "    for offer in offers:\n"
    "        if 'percent' in offer:\n"
    "            prices.append(cents * (100 - offer['percent']) // 100)\n"
    "        else:\n"
    "            prices.append(cents - offer['amount'])\n"
    "    return max(0, min(prices))\n",
)
ROMAN = (
    "NUMERALS = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'),\n"
    "            (50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]\n\n\n"
    "def to_roman(number):\n"
    "    result = ''\n"
    "    for value, letters in NUMERALS:\n"
    "        result += letters * (number // value)\n"
    "        number %= value\n"
    "    return result\n"
)
MERGE = (
    "def merge(intervals):\n"
    "    merged = []\n"
    "    for start, end in sorted(intervals):\n"
    "        if merged and start <= merged[-1][1]:\n"
    "            merged[-1][1] = max(merged[-1][1], end)\n"
    "        else:\n"
    "            merged.append([start, end])\n"
    "    return merged\n"
)

suite = Suite(
    "code-basics",
    "1",
    "small functions to repair or write, and a package with several test modules",
    (
        _world(
            "median",
            "median(numbers) in solution.py should give the median of a list: the middle number, "
            "or the mean of the two in the middle. Repair it.",
            files={"solution.py": "def median(numbers):\n    return numbers[len(numbers) // 2]\n"},
            grader=_calls(
                "median",
                ([[3, 1, 2]], 2),
                ([[5]], 5),
                ([[4, 1, 3, 2]], 2.5),
                ([[10, 2, 38, 23, 38, 23, 21]], 23),
            ),
            oracle=[
                {
                    "solution.py": "def median(numbers):\n    ordered = sorted(numbers)\n"
                    "    middle = len(ordered) // 2\n    if len(ordered) % 2:\n"
                    "        return ordered[middle]\n"
                    "    return (ordered[middle - 1] + ordered[middle]) / 2\n"
                }
            ],
            wrong=[
                {
                    "solution.py": "def median(numbers):\n"
                    "    return sorted(numbers)[len(numbers) // 2]\n"
                }
            ],
        ),
        _world(
            "palindrome",
            "is_palindrome(text) in solution.py should say whether a text reads the same "
            "backwards; case, spaces and punctuation do not count. Repair it.",
            files={"solution.py": "def is_palindrome(text):\n    return text == text[::-1]\n"},
            grader=_pytest(4, test_palindrome=TEXTS_TEST),
            oracle=[
                {
                    "solution.py": "def is_palindrome(text):\n"
                    "    letters = [c for c in text.lower() if c.isalnum()]\n"
                    "    return letters == letters[::-1]\n"
                }
            ],
            wrong=[
                {
                    "solution.py": "def is_palindrome(text):\n"
                    "    text = text.lower()\n    return text == text[::-1]\n"
                }
            ],
        ),
        _world(
            "merge-intervals",
            "Write merge(intervals) in solution.py: a list of [start, end] pairs with those that "
            "overlap or touch merged, in order.",
            files={"solution.py": "def merge(intervals):\n    raise NotImplementedError\n"},
            grader=_pytest(5, test_intervals=INTERVALS_TEST),
            oracle=[
                {},
                {"solution.py": MERGE.replace("sorted(intervals)", "intervals")},
                {"solution.py": MERGE},
            ],
            wrong=[{"solution.py": MERGE.replace("sorted(intervals)", "intervals")}],
        ),
        _world(
            "roman-numerals",
            "Write to_roman(number) in solution.py: the Roman numeral of a number from 1 on; "
            "ValueError for anything below.",
            files={"solution.py": "def to_roman(number):\n    raise NotImplementedError\n"},
            grader=_pytest(7, test_roman=ROMAN_TEST),
            oracle=[
                {},
                {"solution.py": ROMAN},
                {
                    "solution.py": ROMAN.replace(
                        "    result = ''\n",
                        "    if number < 1:\n        raise ValueError(number)\n    result = ''\n",
                    )
                },
            ],
            wrong=[{"solution.py": ROMAN}],
        ),
        _world(
            "word-counts",
            "Write count_words(text) in solution.py: an object that maps every word, in lower case "
            "and without punctuation at its ends, to how often it occurs.",
            files={"solution.py": "def count_words(text):\n    raise NotImplementedError\n"},
            grader=_calls(
                "count_words",
                (["the cat and the dog"], {"the": 2, "cat": 1, "and": 1, "dog": 1}),
                (["Stop! Stop, please."], {"stop": 2, "please": 1}),
                ([""], {}),
                (["don't - stop"], {"don't": 1, "stop": 1}),
            ),
            oracle=[
                {
                    "solution.py": "from collections import Counter\n"
                    "from string import punctuation\n\n\ndef count_words(text):\n"
                    "    words = (w.strip(punctuation) for w in text.lower().split())\n"
                    "    return dict(Counter(w for w in words if w))\n"
                }
            ],
            wrong=[
                {
                    "solution.py": "from collections import Counter\n\n\ndef count_words(text):\n"
                    "    return dict(Counter(text.lower().split()))\n"
                }
            ],
        ),
        _world(
            "run-lengths",
            "Write encode(text) in solution.py: a list of [character, length] for every run of "
            "equal characters.",
            files={"solution.py": "def encode(text):\n    raise NotImplementedError\n"},
            grader=_calls(
                "encode",
                (["aaab"], [["a", 3], ["b", 1]]),
                ([""], []),
                (["abba"], [["a", 1], ["b", 2], ["a", 1]]),
            ),
            oracle=[
                {
                    "solution.py": "from itertools import groupby\n\n\ndef encode(text):\n"
                    "    return [[c, len(list(run))] for c, run in groupby(text)]\n"
                }
            ],
            wrong=[
                {
                    "solution.py": "def encode(text):\n"
                    "    return [[c, text.count(c)] for c in dict.fromkeys(text)]\n"
                }
            ],
        ),
        _world(
            "shop-package",
            "The package shop has three test modules: test_prices.py, test_cart.py and "
            "test_discounts.py. Make them all pass; the docstrings say what is meant.",
            files={**SHOP, **SHOP_TESTS},
            grader={
                "kind": "command",
                "command": ["pytest", *SHOP_TESTS],
                "files": SHOP_TESTS,
                "num_tests": 10,
            },
            oracle=[
                {},
                {"shop/prices.py": PRICES_FIXED},
                {"shop/cart.py": CART_FIXED},
                {"shop/discounts.py": DISCOUNTS_FIXED},
            ],
            wrong=[{}, {"shop/prices.py": PRICES_FIXED}, {"test_cart.py": "def test(): pass\n"}],
        ),
    ),
)
