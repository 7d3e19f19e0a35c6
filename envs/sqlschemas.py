"""The schemas of ``sql-synth`` and the random data that fills them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["SCHEMAS", "Draw", "Rows", "Schema", "fill_sql"]

T = TypeVar("T")
Rows = Mapping[str, Sequence[tuple[Any, ...]]]


class Draw:
    """Random choices that are the same on every Python: only ``random.random`` is used."""

    def __init__(self, *labels: str | int) -> None:
        text = "crucible.sql-synth\0" + "\0".join(map(str, labels))
        digest = hashlib.sha256(text.encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with ``probability``."""
        return self._random.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of ``items``."""
        return items[self.between(0, len(items) - 1)]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different ones of ``items``, in random order."""
        rest = list(items)
        return [rest.pop(self.between(0, len(rest) - 1)) for _ in range(count)]

    def day(self, first_year: int = 2021, last_year: int = 2024) -> str:
        """A date as text."""
        year, month = self.between(first_year, last_year), self.between(1, 12)
        return f"{year}-{month:02d}-{self.between(1, 28):02d}"


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables, and a function that draws their rows."""

    tables: Mapping[str, str]
    fill: Callable[[Draw], Rows]

    @property
    def sql(self) -> str:
        """The script that creates the tables."""
        return "\n".join(f"CREATE TABLE {name} ({body});" for name, body in self.tables.items())


def fill_sql(rows: Rows) -> str:
    """The script that inserts ``rows``."""
    statements = []
    for table, content in rows.items():
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in content)
        statements.append(f"INSERT INTO {table} VALUES {values};")
    return "\n".join(statements)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = _words(
    "Ada Bo Cleo Dara Edo Finn Gia Hugo Iris Jona Kaya Leo Mina Nils Ola Pia Quin Rosa Sven Tara "
    "Uma Vito Wanda Xeno Yara Zane Alba Bram Cora Dion Elsa Faro Greta Hana Ivo Juno"
)
CITIES = _words("Oslo Lima Accra Quito")
THINGS = _words(
    "anvil bench crate drill easel flask gauge hinge inkpot jack kettle lamp mallet nozzle oven "
    "pulley quill ruler spade torch urn vise wrench yoke"
)
SUBJECTS = _words(
    "Algebra Botany Ceramics Drawing Ethics Forestry Geometry Harmony Logic Mechanics Optics "
    "Poetry Rhetoric Statics Topology"
)
TITLES = _words(
    "Amber Birch Comet Delta Ember Fjord Grove Haven Islet Jade Karst Ledge Mirage Nectar Orbit "
    "Prism Quartz Ridge Shoal Tundra"
)


def _shop(draw: Draw) -> Rows:
    customers = [
        (i, name, draw.pick(CITIES), draw.day()) for i, name in _numbered(draw, PEOPLE, count=12)
    ]
    categories = ["tools", "kitchen", "office"]
    products = [
        (i, name, draw.pick(categories), 50 * draw.between(2, 30))
        for i, name in _numbered(draw, THINGS, count=12)
    ]
    orders = [
        (i, draw.between(1, 11), draw.day(2022, 2024), draw.pick(["shipped", "open", "cancelled"]))
        for i in range(1, 31)
    ]
    items = [
        (order, product, draw.between(1, 9))
        for order in range(1, 31)
        for product in sorted(draw.sample(range(1, 12), draw.between(1, 3)))
    ]
    return {"customers": customers, "products": products, "orders": orders, "order_items": items}


def _school(draw: Draw) -> Rows:
    students = [(i, name, draw.between(1, 4)) for i, name in _numbered(draw, PEOPLE, count=14)]
    courses = [
        (i, title, ["science", "arts", "letters"][i % 3], draw.between(2, 8))
        for i, title in _numbered(draw, SUBJECTS, count=9)
    ]
    enrolments = [
        (student, course, None if draw.chance(0.15) else draw.between(40, 100))
        for student in range(1, 15)
        for course in sorted(draw.sample(range(1, 10), draw.between(2, 6)))
    ]
    return {"students": students, "courses": courses, "enrolments": enrolments}


def _library(draw: Draw) -> Rows:
    members = [(i, name, draw.day(2018, 2020)) for i, name in _numbered(draw, PEOPLE, count=12)]
    books = [
        (i, title, ["novel", "travel", "history"][i % 3], 10 * draw.between(9, 60))
        for i, title in _numbered(draw, TITLES, count=15)
    ]
    loans = []
    for i in range(1, 37):
        month, day = draw.between(1, 11), draw.between(1, 14)
        back = None if draw.chance(0.2) else f"2024-{month:02d}-{day + draw.between(1, 14):02d}"
        lent = f"2024-{month:02d}-{day:02d}"
        loans.append((i, draw.between(1, 11), draw.between(1, 11), lent, back))
    return {"members": members, "books": books, "loans": loans}


def _clinic(draw: Draw) -> Rows:
    specialties = ["skin", "heart", "eyes"]
    doctors = [(i, name, specialties[i % 3]) for i, name in _numbered(draw, PEOPLE[:18], count=9)]
    patients = [
        (i, name, draw.day(1950, 2010)) for i, name in _numbered(draw, PEOPLE[18:], count=12)
    ]
    visits = [
        (i, draw.pick([1, 2, 3, 5, 6, 7]), draw.between(1, 12), draw.day(2023, 2024), fee)
        for i, fee in ((i, 5 * draw.between(4, 40)) for i in range(1, 41))
    ]
    return {"doctors": doctors, "patients": patients, "visits": visits}


def _fleet(draw: Draw) -> Rows:
    bases = ["north", "south", "east"]
    drivers = [(i, name, bases[i % 3]) for i, name in _numbered(draw, PEOPLE, count=9)]
    vehicles = [
        (i, f"{draw.pick('ABCD')}{100 + 7 * i}", draw.pick(["van", "bus"])) for i in range(1, 9)
    ]
    trips = [
        (i, draw.between(1, 9), draw.between(1, 8), draw.day(2024, 2024), draw.between(5, 400))
        for i in range(1, 46)
    ]
    return {"drivers": drivers, "vehicles": vehicles, "trips": trips}


def _staff(draw: Draw) -> Rows:
    names = draw.sample(["Sales", "Labs", "Ops", "Legal", "Press"], 4)
    departments = [(i, name, 1000 * draw.between(80, 400)) for i, name in enumerate(names, 1)]
    employees = [
        (i, name, draw.between(1, 4), 100 * draw.between(250, 900), draw.day(2010, 2023))
        for i, name in _numbered(draw, PEOPLE, count=20)
    ]
    return {"departments": departments, "employees": employees}


def _numbered(draw: Draw, names: Sequence[str], *, count: int) -> list[tuple[int, str]]:
    return list(enumerate(draw.sample(names, count), 1))


_ID = "id INTEGER PRIMARY KEY"
SCHEMAS: Mapping[str, Schema] = {
    "shop": Schema(
        {
            "customers": f"{_ID}, name TEXT, city TEXT, joined TEXT",
            "products": f"{_ID}, name TEXT, category TEXT, price_cents INTEGER",
            "orders": f"{_ID}, customer_id INTEGER, ordered_on TEXT, status TEXT",
            "order_items": "order_id INTEGER, product_id INTEGER, quantity INTEGER",
        },
        _shop,
    ),
    "school": Schema(
        {
            "students": f"{_ID}, name TEXT, year INTEGER",
            "courses": f"{_ID}, title TEXT, department TEXT, credits INTEGER",
            "enrolments": "student_id INTEGER, course_id INTEGER, grade INTEGER",
        },
        _school,
    ),
    "library": Schema(
        {
            "members": f"{_ID}, name TEXT, joined TEXT",
            "books": f"{_ID}, title TEXT, genre TEXT, pages INTEGER",
            "loans": f"{_ID}, member_id INTEGER, book_id INTEGER, loaned_on TEXT, returned_on TEXT",
        },
        _library,
    ),
    "clinic": Schema(
        {
            "doctors": f"{_ID}, name TEXT, specialty TEXT",
            "patients": f"{_ID}, name TEXT, born TEXT",
            "visits": f"{_ID}, doctor_id INTEGER, patient_id INTEGER, visited_on TEXT, fee INTEGER",
        },
        _clinic,
    ),
    "fleet": Schema(
        {
            "drivers": f"{_ID}, name TEXT, base TEXT",
            "vehicles": f"{_ID}, plate TEXT, kind TEXT",
            "trips": f"{_ID}, driver_id INTEGER, vehicle_id INTEGER, started_on TEXT, km INTEGER",
        },
        _fleet,
    ),
    "staff": Schema(
        {
            "departments": f"{_ID}, name TEXT, budget INTEGER",
            "employees": f"{_ID}, name TEXT, department_id INTEGER, salary INTEGER, hired_on TEXT",
        },
        _staff,
    ),
}
"""All schemas by name."""
