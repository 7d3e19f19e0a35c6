"""The suite ``http-basics``: recorded services, from one request to a session of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crucible.suites import Suite, SuiteWorld

__all__ = ["suite"]

_UNAUTHORISED = {"status": 401, "body": {"error": "token missing or wrong"}}
_TOKEN = {"authorization": "Bearer t-4471"}


def _ok(body: Any) -> dict[str, Any]:
    return {"status": 200, "body": body}


def _get(path: str, **more: Any) -> dict[str, Any]:
    return {"method": "GET", "path": path, **more}


def _world(
    name: str, kwargs: dict[str, Any], *, actions: tuple[Sequence[Any], Sequence[Any]]
) -> SuiteWorld:
    return SuiteWorld(
        name, "http-task", kwargs, oracle=lambda seed: actions[0], wrong=lambda seed: actions[1]
    )


_DIRECTORY = _world(
    "directory",
    {
        "recording": {
            "GET /people": _ok([{"id": 3, "name": "Noor"}, {"id": 8, "name": "Piet"}]),
            "GET /people/3": _ok({"id": 3, "name": "Noor", "phone": "555-0103"}),
            "GET /people/8": _ok({"id": 8, "name": "Piet", "phone": "555-0108"}),
        },
        "task": "Fetch the record of Piet.",
        "expected_body": {"id": 8, "name": "Piet", "phone": "555-0108"},
    },
    actions=([_get("/people"), _get("/people/8")], [_get("/people"), _get("/people/3")]),
)

_WEATHER = _world(
    "weather",
    {
        "recording": {
            "GET /stations": _ok(["harbour", "hilltop"]),
            "GET /stations/harbour/today": _ok({"celsius": 11.5, "wind": 32}),
            "GET /stations/hilltop/today": _ok({"celsius": 6.0, "wind": 54}),
        },
        "task": "Hand in the wind at the hilltop station today.",
        "expected_body": None,
        "expected_answer": 54,
        "goals": ["GET /stations/hilltop/today"],
    },
    actions=(
        [_get("/stations/hilltop/today"), {"answer": 54}],
        [_get("/stations/harbour/today"), {"answer": 32}],
    ),
)

_ORDERS_LOGIN = {"method": "POST", "path": "/login", "body": {"user": "mel", "password": "fern"}}
_ORDERS = _world(
    "orders",
    {
        "recording": {
            "POST /login": {"status": 403, "body": {"error": "wrong user or password"}},
            "GET /orders": _UNAUTHORISED,
            "GET /orders/71": _UNAUTHORISED,
            "GET /orders/72": _UNAUTHORISED,
        },
        "task": (
            'Log in at POST /login with the body {"user": "mel", "password": "fern"}; send '
            "the token it returns as the header authorization: Bearer TOKEN. Hand in the carrier "
            "of mel's late order."
        ),
        "expected_body": None,
        "exchanges": [
            {**_ORDERS_LOGIN, "response": _ok({"token": "t-4471"})},
            {
                **_get("/orders", headers=_TOKEN),
                "response": _ok([{"id": 71, "state": "on time"}, {"id": 72, "state": "late"}]),
            },
            {
                **_get("/orders/71", headers=_TOKEN),
                "response": _ok({"id": 71, "carrier": "Swift", "state": "on time"}),
            },
            {
                **_get("/orders/72", headers=_TOKEN),
                "response": _ok({"id": 72, "carrier": "Heron Post", "state": "late"}),
            },
        ],
        "expected_answer": "Heron Post",
        "goals": ["POST /login", "GET /orders", "GET /orders/72"],
        "list_endpoints": False,
    },
    actions=(
        [
            _ORDERS_LOGIN,
            _get("/orders", headers=_TOKEN),
            _get("/orders/72", headers=_TOKEN),
            {"answer": "Heron Post"},
        ],
        [
            _ORDERS_LOGIN,
            _get("/orders", headers=_TOKEN),
            _get("/orders/71", headers=_TOKEN),
            {"answer": "Swift"},
        ],
    ),
)

_TICKETS = _world(
    "tickets",
    {
        "recording": {
            "GET /tickets": _ok(
                {"tickets": [{"id": 5, "title": "Login loop"}], "next": "/tickets?page=2"}
            ),
            "GET /tickets?page=2": _ok(
                {"tickets": [{"id": 9, "title": "Slow export"}], "next": None}
            ),
            "GET /tickets/5": _ok({"id": 5, "assignee": "dana", "hours": 3}),
            "GET /tickets/9": _ok({"id": 9, "assignee": "omar", "hours": 7}),
        },
        "task": (
            "Start at GET /tickets and follow the pages. Hand in how many hours were spent on the "
            "ticket 'Slow export'; GET /tickets/ID has them."
        ),
        "expected_body": None,
        "expected_answer": 7,
        "goals": ["GET /tickets", "GET /tickets?page=2", "GET /tickets/9"],
        "list_endpoints": False,
    },
    actions=(
        [_get("/tickets"), _get("/tickets?page=2"), _get("/tickets/9"), {"answer": 7}],
        [_get("/tickets"), _get("/tickets/5"), {"answer": 3}],
    ),
)

suite = Suite(
    name="http-basics",
    version="1",
    description="Recorded services: find the right request, log in, follow pages, hand in.",
    worlds=(_DIRECTORY, _WEATHER, _ORDERS, _TICKETS),
)
