"""The question templates of ``sql-synth``: wording, a right statement and a plausible mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crucible.envs.sqlschemas import CITIES, SUBJECTS

__all__ = ["GROUPS", "TEMPLATES", "Template"]


@dataclass(frozen=True, slots=True)
class Template:
    """A question with holes that ``choices`` fill.

    ``explore`` templates show the names of the tables only, so that an agent has to look at
    ``tables`` before it can answer.
    """

    name: str
    group: str
    schema: str
    tables: tuple[str, ...]
    ask: str
    sql: str
    wrong: str
    choices: Mapping[str, Sequence[str | int]]
    explore: bool = False


_JOIN = (
    Template(
        "customer-spend",
        "join",
        "shop",
        ("customers", "orders", "order_items", "products"),
        "For each customer in {city} with at least one shipped order: the name and the total "
        "(price_cents times quantity) over shipped orders, highest total first, ties by name.",
        "SELECT c.name, SUM(p.price_cents * i.quantity) AS total FROM customers c "
        "JOIN orders o ON o.customer_id = c.id JOIN order_items i ON i.order_id = o.id "
        "JOIN products p ON p.id = i.product_id WHERE c.city = '{city}' AND o.status = 'shipped' "
        "GROUP BY c.id ORDER BY total DESC, c.name",
        "SELECT c.name, SUM(p.price_cents * i.quantity) AS total FROM customers c "
        "JOIN orders o ON o.customer_id = c.id JOIN order_items i ON i.order_id = o.id "
        "JOIN products p ON p.id = i.product_id WHERE c.city = '{city}' "
        "GROUP BY c.id ORDER BY total DESC, c.name",
        {"city": CITIES},
        explore=True,
    ),
    Template(
        "course-roster",
        "join",
        "school",
        ("students", "enrolments", "courses"),
        "The names of the students who got a grade of at least {grade} in {title}, alphabetically.",
        "SELECT s.name FROM students s JOIN enrolments e ON e.student_id = s.id "
        "JOIN courses c ON c.id = e.course_id WHERE c.title = '{title}' AND e.grade >= {grade} "
        "ORDER BY s.name",
        "SELECT s.name FROM students s JOIN enrolments e ON e.student_id = s.id "
        "WHERE e.grade >= {grade} ORDER BY s.name",
        {"title": SUBJECTS, "grade": (50, 55, 60, 65, 70)},
        explore=True,
    ),
    Template(
        "never-lent",
        "join",
        "library",
        ("books", "loans"),
        "The titles of the {genre} books that were never lent, alphabetically.",
        "SELECT b.title FROM books b LEFT JOIN loans l ON l.book_id = b.id "
        "WHERE b.genre = '{genre}' AND l.id IS NULL ORDER BY b.title",
        "SELECT b.title FROM books b JOIN loans l ON l.book_id = b.id "
        "WHERE b.genre = '{genre}' AND l.returned_on IS NULL ORDER BY b.title",
        {"genre": ("novel", "travel", "history")},
        explore=True,
    ),
    Template(
        "visits-per-doctor",
        "join",
        "clinic",
        ("doctors", "visits"),
        "For every {specialty} doctor, also those without any: the name and the number of visits "
        "with a fee of at least {fee}, alphabetically.",
        "SELECT d.name, COUNT(v.id) FROM doctors d LEFT JOIN visits v ON v.doctor_id = d.id "
        "AND v.fee >= {fee} WHERE d.specialty = '{specialty}' GROUP BY d.id ORDER BY d.name",
        "SELECT d.name, COUNT(v.id) FROM doctors d JOIN visits v ON v.doctor_id = d.id "
        "WHERE d.specialty = '{specialty}' AND v.fee >= {fee} GROUP BY d.id ORDER BY d.name",
        {"specialty": ("skin", "heart", "eyes"), "fee": (40, 60, 80)},
        explore=True,
    ),
)

_GROUP = (
    Template(
        "large-payrolls",
        "group",
        "staff",
        ("departments", "employees"),
        "The departments whose salaries add up to more than {limit}: name and sum, highest "
        "first, ties by name.",
        "SELECT d.name, SUM(e.salary) AS total FROM departments d JOIN employees e "
        "ON e.department_id = d.id GROUP BY d.id HAVING total > {limit} "
        "ORDER BY total DESC, d.name",
        "SELECT d.name, SUM(e.salary) AS total FROM departments d JOIN employees e "
        "ON e.department_id = d.id WHERE d.budget > {limit} GROUP BY d.id "
        "ORDER BY total DESC, d.name",
        {"limit": (150000, 200000, 250000, 300000)},
    ),
    Template(
        "drivers-per-base",
        "group",
        "fleet",
        ("drivers", "trips"),
        "For each base: the number of different drivers who made a trip of more than {km} km, "
        "bases alphabetically, bases with none left out.",
        "SELECT d.base, COUNT(DISTINCT d.id) FROM drivers d JOIN trips t ON t.driver_id = d.id "
        "WHERE t.km > {km} GROUP BY d.base ORDER BY d.base",
        "SELECT d.base, COUNT(*) FROM drivers d JOIN trips t ON t.driver_id = d.id "
        "WHERE t.km > {km} GROUP BY d.base ORDER BY d.base",
        {"km": (100, 150, 200, 250)},
    ),
    Template(
        "units-per-category",
        "group",
        "shop",
        ("products", "order_items"),
        "For each category of which at least {units} units were ordered: the category and the "
        "units, most units first, ties by category.",
        "SELECT p.category, SUM(i.quantity) AS units FROM products p JOIN order_items i "
        "ON i.product_id = p.id GROUP BY p.category HAVING units >= {units} "
        "ORDER BY units DESC, p.category",
        "SELECT p.category, COUNT(*) AS units FROM products p JOIN order_items i "
        "ON i.product_id = p.id GROUP BY p.category ORDER BY units DESC, p.category",
        {"units": (20, 40, 60)},
    ),
    Template(
        "average-grades",
        "group",
        "school",
        ("courses", "enrolments"),
        "Over courses of at least {credits} credits, for each department: its name, the average "
        "grade rounded to one decimal, and the number of enrolments without a grade; departments "
        "alphabetically.",
        "SELECT c.department, ROUND(AVG(e.grade), 1), SUM(e.grade IS NULL) FROM courses c "
        "JOIN enrolments e ON e.course_id = c.id WHERE c.credits >= {credits} "
        "GROUP BY c.department ORDER BY c.department",
        "SELECT c.department, ROUND(AVG(e.grade), 1), COUNT(e.grade) FROM courses c "
        "JOIN enrolments e ON e.course_id = c.id WHERE c.credits >= {credits} "
        "GROUP BY c.department ORDER BY c.department",
        {"credits": (2, 3, 4)},
    ),
)

_WINDOW = (
    Template(
        "top-paid",
        "window",
        "staff",
        ("departments", "employees"),
        "The {n} best paid people of each department (equal salaries by name): department, name "
        "and salary, departments alphabetically, best paid first.",
        "SELECT department, name, salary FROM (SELECT d.name AS department, e.name, e.salary, "
        "ROW_NUMBER() OVER (PARTITION BY d.id ORDER BY e.salary DESC, e.name) AS place "
        "FROM departments d JOIN employees e ON e.department_id = d.id) WHERE place <= {n} "
        "ORDER BY department, place",
        "SELECT d.name, e.name, e.salary FROM departments d JOIN employees e "
        "ON e.department_id = d.id ORDER BY e.salary DESC LIMIT {n}",
        {"n": (1, 2, 3)},
        explore=True,
    ),
    Template(
        "running-km",
        "window",
        "fleet",
        ("trips",),
        "The trips of the driver with id {driver} by date, then id: date, km, and the km driven "
        "so far including that trip.",
        "SELECT started_on, km, SUM(km) OVER (ORDER BY started_on, id) FROM trips "
        "WHERE driver_id = {driver} ORDER BY started_on, id",
        "SELECT started_on, km, SUM(km) OVER () FROM trips "
        "WHERE driver_id = {driver} ORDER BY started_on, id",
        {"driver": tuple(range(1, 10))},
        explore=True,
    ),
    Template(
        "visit-before",
        "window",
        "clinic",
        ("visits", "doctors"),
        "The visits to {specialty} doctors by date, then id: date, and the date of the same "
        "patient's visit before it among these (NULL for the first).",
        "SELECT v.visited_on, LAG(v.visited_on) OVER (PARTITION BY v.patient_id "
        "ORDER BY v.visited_on, v.id) FROM visits v JOIN doctors d ON d.id = v.doctor_id "
        "WHERE d.specialty = '{specialty}' ORDER BY v.visited_on, v.id",
        "SELECT v.visited_on, LAG(v.visited_on) OVER (ORDER BY v.visited_on, v.id) "
        "FROM visits v JOIN doctors d ON d.id = v.doctor_id "
        "WHERE d.specialty = '{specialty}' ORDER BY v.visited_on, v.id",
        {"specialty": ("skin", "heart", "eyes")},
        explore=True,
    ),
    Template(
        "price-rank",
        "window",
        "shop",
        ("products",),
        "For each product that costs at least {price} cents: category, name and its rank by price "
        "within its category, dearest first; equal prices share a rank and no rank is skipped. "
        "Rank among those products only; by category, rank and name.",
        "SELECT category, name, DENSE_RANK() OVER (PARTITION BY category ORDER BY price_cents "
        "DESC) AS place FROM products WHERE price_cents >= {price} ORDER BY category, place, name",
        "SELECT category, name, DENSE_RANK() OVER (ORDER BY price_cents DESC) AS place "
        "FROM products WHERE price_cents >= {price} ORDER BY category, place, name",
        {"price": (100, 200, 300, 400)},
        explore=True,
    ),
)

_SUBQUERY = (
    Template(
        "above-own-average",
        "subquery",
        "staff",
        ("employees",),
        "The people hired after {year} who earn more than the average of their own department: "
        "name and salary, alphabetically.",
        "SELECT e.name, e.salary FROM employees e WHERE e.hired_on > '{year}-12-31' AND e.salary > "
        "(SELECT AVG(x.salary) FROM employees x WHERE x.department_id = e.department_id) "
        "ORDER BY e.name",
        "SELECT e.name, e.salary FROM employees e WHERE e.hired_on > '{year}-12-31' AND e.salary > "
        "(SELECT AVG(x.salary) FROM employees x) ORDER BY e.name",
        {"year": (2010, 2011, 2012, 2013)},
    ),
    Template(
        "busy-members",
        "subquery",
        "library",
        ("members", "loans"),
        "The members who borrowed more often than the average over all members, those without "
        "loans included: name and number of loans, alphabetically. Count loans from {month} on.",
        "SELECT m.name, COUNT(*) AS n FROM members m JOIN loans l ON l.member_id = m.id "
        "WHERE l.loaned_on >= '{month}-01' GROUP BY m.id HAVING n > (SELECT COUNT(*) * 1.0 FROM "
        "loans WHERE loaned_on >= '{month}-01') / (SELECT COUNT(*) FROM members) ORDER BY m.name",
        "SELECT m.name, COUNT(*) AS n FROM members m JOIN loans l ON l.member_id = m.id "
        "WHERE l.loaned_on >= '{month}-01' GROUP BY m.id ORDER BY m.name",
        {"month": ("2024-01", "2024-02", "2024-03", "2024-04")},
    ),
    Template(
        "passed-all",
        "subquery",
        "school",
        ("students", "enrolments", "courses"),
        "The names of the students of year {year} who have no grade under {grade} "
        "and at least one grade, alphabetically.",
        "SELECT s.name FROM students s WHERE s.year = {year} AND NOT EXISTS (SELECT 1 FROM "
        "enrolments e WHERE e.student_id = s.id AND e.grade < {grade}) AND EXISTS (SELECT 1 FROM "
        "enrolments e WHERE e.student_id = s.id AND e.grade IS NOT NULL) ORDER BY s.name",
        "SELECT DISTINCT s.name FROM students s JOIN enrolments e ON e.student_id = s.id "
        "WHERE s.year = {year} AND e.grade >= {grade} ORDER BY s.name",
        {"year": (1, 2, 3, 4), "grade": (44, 48, 52, 56)},
    ),
    Template(
        "not-bought-in",
        "subquery",
        "shop",
        ("products", "orders", "order_items", "customers"),
        "The names of the products that no customer from {city} ever ordered, alphabetically.",
        "SELECT name FROM products WHERE id NOT IN (SELECT i.product_id FROM order_items i "
        "JOIN orders o ON o.id = i.order_id JOIN customers c ON c.id = o.customer_id "
        "WHERE c.city = '{city}') ORDER BY name",
        "SELECT DISTINCT p.name FROM products p JOIN order_items i ON i.product_id = p.id "
        "JOIN orders o ON o.id = i.order_id JOIN customers c ON c.id = o.customer_id "
        "WHERE c.city <> '{city}' ORDER BY p.name",
        {"city": CITIES},
    ),
)

_MEMBER_GENRE = (
    "SELECT m.name FROM members m JOIN loans l ON l.member_id = m.id "
    "JOIN books b ON b.id = l.book_id WHERE b.genre = '{%s}'"
)
_PATIENT_SPECIALTY = (
    "SELECT p.name FROM patients p JOIN visits v ON v.patient_id = p.id "
    "JOIN doctors d ON d.id = v.doctor_id WHERE d.specialty = '{%s}'"
)
_STUDENT_DEPARTMENT = (
    "SELECT s.name FROM students s JOIN enrolments e ON e.student_id = s.id "
    "JOIN courses c ON c.id = e.course_id WHERE c.department = '{%s}' AND s.year <= {year}"
)
_SET = (
    Template(
        "both-genres",
        "set",
        "library",
        ("members", "loans", "books"),
        "The names of the members who borrowed a {a} book and also a {b} book, alphabetically.",
        f"{_MEMBER_GENRE % 'a'} INTERSECT {_MEMBER_GENRE % 'b'} ORDER BY 1",
        f"{_MEMBER_GENRE % 'a'} UNION {_MEMBER_GENRE % 'b'} ORDER BY 1",
        {"a": ("novel", "travel"), "b": ("history",)},
    ),
    Template(
        "one-not-other",
        "set",
        "clinic",
        ("patients", "visits", "doctors"),
        "The names of the patients who saw a doctor for {a} but never one for {b}, alphabetically.",
        f"{_PATIENT_SPECIALTY % 'a'} EXCEPT {_PATIENT_SPECIALTY % 'b'} ORDER BY 1",
        f"{_PATIENT_SPECIALTY % 'a'} AND d.specialty <> '{{b}}' GROUP BY p.name ORDER BY 1",
        {"a": ("skin", "heart"), "b": ("eyes",)},
    ),
    Template(
        "base-or-distance",
        "set",
        "fleet",
        ("drivers", "vehicles", "trips"),
        "The plates of the vehicles that were driven by someone of the {base} base or on a trip "
        "of more than {km} km, each once, in order.",
        "SELECT v.plate FROM vehicles v JOIN trips t ON t.vehicle_id = v.id JOIN drivers d "
        "ON d.id = t.driver_id WHERE d.base = '{base}' UNION SELECT v.plate FROM vehicles v "
        "JOIN trips t ON t.vehicle_id = v.id WHERE t.km > {km} ORDER BY 1",
        "SELECT v.plate FROM vehicles v JOIN trips t ON t.vehicle_id = v.id JOIN drivers d "
        "ON d.id = t.driver_id WHERE d.base = '{base}' UNION ALL SELECT v.plate FROM vehicles v "
        "JOIN trips t ON t.vehicle_id = v.id WHERE t.km > {km} ORDER BY 1",
        {"base": ("north", "south", "east"), "km": (350, 370, 380)},
    ),
    Template(
        "exactly-one",
        "set",
        "school",
        ("students", "enrolments", "courses"),
        "The names of the students of the years up to {year} who take {a} courses or {b} courses, "
        "but not both, alphabetically.",
        f"SELECT name FROM (SELECT * FROM ({_STUDENT_DEPARTMENT % 'a'} EXCEPT "
        f"{_STUDENT_DEPARTMENT % 'b'}) UNION SELECT * FROM ({_STUDENT_DEPARTMENT % 'b'} EXCEPT "
        f"{_STUDENT_DEPARTMENT % 'a'})) ORDER BY name",
        f"{_STUDENT_DEPARTMENT % 'a'} UNION {_STUDENT_DEPARTMENT % 'b'} ORDER BY 1",
        {"a": ("science", "arts"), "b": ("letters",), "year": (3, 4)},
    ),
)

_DATE = (
    Template(
        "orders-per-month",
        "date",
        "shop",
        ("orders",),
        "For each month of {year} with orders that were not cancelled: the month as 'YYYY-MM' and "
        "their number, in order.",
        "SELECT strftime('%Y-%m', ordered_on) AS month, COUNT(*) FROM orders WHERE "
        "ordered_on LIKE '{year}-%' AND status <> 'cancelled' GROUP BY month ORDER BY month",
        "SELECT strftime('%m', ordered_on) AS month, COUNT(*) FROM orders WHERE "
        "ordered_on LIKE '{year}-%' GROUP BY month ORDER BY month",
        {"year": (2022, 2023, 2024)},
        explore=True,
    ),
    Template(
        "long-loans",
        "date",
        "library",
        ("books", "loans"),
        "The loans that lasted more than {days} days, those not returned counted up to "
        "2024-12-31: title and number of days, longest first, ties by title, then loan id.",
        "SELECT b.title, CAST(julianday(COALESCE(l.returned_on, '2024-12-31')) - "
        "julianday(l.loaned_on) AS INTEGER) AS days FROM loans l JOIN books b ON b.id = l.book_id "
        "WHERE days > {days} ORDER BY days DESC, b.title, l.id",
        "SELECT b.title, CAST(julianday(l.returned_on) - julianday(l.loaned_on) AS INTEGER) "
        "AS days FROM loans l JOIN books b ON b.id = l.book_id "
        "WHERE days > {days} ORDER BY days DESC, b.title, l.id",
        {"days": (7, 9, 11)},
        explore=True,
    ),
    Template(
        "full-years",
        "date",
        "staff",
        ("employees",),
        "The people who had completed at least {n} full years since they were hired on "
        "{day}: name and hire date, earliest first, ties by name.",
        "SELECT name, hired_on FROM employees WHERE date(hired_on, '+{n} years') <= '{day}' "
        "ORDER BY hired_on, name",
        "SELECT name, hired_on FROM employees WHERE strftime('%Y', '{day}') - "
        "strftime('%Y', hired_on) > {n} ORDER BY hired_on, name",
        {"n": (4, 5, 6, 7, 8), "day": ("2023-06-15", "2022-07-01", "2023-05-20")},
        explore=True,
    ),
    Template(
        "weekend-visits",
        "date",
        "clinic",
        ("doctors", "visits"),
        "For each {specialty} doctor with visits on a Saturday or Sunday: the name and how many, "
        "alphabetically.",
        "SELECT d.name, COUNT(*) FROM doctors d JOIN visits v ON v.doctor_id = d.id WHERE "
        "d.specialty = '{specialty}' AND strftime('%w', v.visited_on) IN ('0', '6') "
        "GROUP BY d.id ORDER BY d.name",
        "SELECT d.name, COUNT(*) FROM doctors d JOIN visits v ON v.doctor_id = d.id WHERE "
        "d.specialty = '{specialty}' AND strftime('%w', v.visited_on) IN ('6', '7') "
        "GROUP BY d.id ORDER BY d.name",
        {"specialty": ("skin", "heart", "eyes")},
        explore=True,
    ),
)

TEMPLATES: Mapping[str, Template] = {
    template.name: template for template in (*_JOIN, *_GROUP, *_WINDOW, *_SUBQUERY, *_SET, *_DATE)
}
"""All templates by name."""

GROUPS: Sequence[str] = tuple(dict.fromkeys(template.group for template in TEMPLATES.values()))
"""The groups, in order of difficulty."""
