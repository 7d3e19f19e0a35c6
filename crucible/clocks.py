"""What Python says of the wall clock, changed for the whole process."""

from __future__ import annotations

import copyreg
import datetime
import functools
import time
from collections.abc import Callable
from datetime import date as plain_date
from datetime import datetime as plain_datetime
from typing import Any

__all__ = ["hold_clock", "shift_clock"]

TICK_S = 0.001

_now: Callable[[], float] = time.time


def shift_clock(seconds: float) -> None:
    """Move the wall clock for everything that is imported after this.

    Only what Python's own functions say moves; what C libraries and other programs read stays.
    """
    real = time.time
    _install(lambda: real() + seconds)


def hold_clock(start_s: float) -> None:
    """Let the wall clock advance by a millisecond with every look at it, from ``start_s`` on."""
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        return start_s + looks * TICK_S

    _install(now)


class _Meta(type):
    """Plain dates are instances of the class that stands in for theirs."""

    def __instancecheck__(cls, instance: Any) -> bool:
        plain = _STAND_INS.get(cls)
        return isinstance(instance, plain) if plain else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        plain = _STAND_INS.get(cls)
        return issubclass(subclass, plain) if plain else super().__subclasscheck__(subclass)


class _Datetime(plain_datetime, metaclass=_Meta):
    """Its constructors give plain dates, so that code which looks at exact types sees none."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        made = plain_datetime if cls is _Datetime else cls
        return plain_datetime.__new__(made, *arguments, **options)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(_now(), tz)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(_now())

    @classmethod
    def utcnow(cls) -> Any:
        return cls.fromtimestamp(_now(), datetime.UTC).replace(tzinfo=None)


class _Date(plain_date, metaclass=_Meta):
    """See :class:`_Datetime`."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        made = plain_date if cls is _Date else cls
        return plain_date.__new__(made, *arguments, **options)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(_now())


_STAND_INS: dict[type, type] = {_Datetime: plain_datetime, _Date: plain_date}


def _install(now: Callable[[], float]) -> None:
    global _now
    _now = now
    localtime, gmtime, strftime = time.localtime, time.gmtime, time.strftime
    ctime, asctime = time.ctime, time.asctime

    def at(moment: float | None) -> float:
        return now() if moment is None else moment

    changed: dict[str, Any] = {
        "time": now,
        "time_ns": lambda: int(now() * 1e9),
        "localtime": lambda secs=None: localtime(at(secs)),
        "gmtime": lambda secs=None: gmtime(at(secs)),
        "ctime": lambda secs=None: ctime(at(secs)),
        "asctime": lambda *t: asctime(*t) if t else asctime(localtime(now())),
        "strftime": lambda form, *t: strftime(form, *t) if t else strftime(form, localtime(now())),
    }
    for name, function in changed.items():
        setattr(time, name, function)
    for name, stand_in in (("datetime", _Datetime), ("date", _Date)):
        stand_in.__name__ = stand_in.__qualname__ = name
        stand_in.__module__ = "datetime"
        setattr(datetime, name, stand_in)
        # A plain date is pickled by the name of its class, which is the stand-in's now.
        copyreg.pickle(_STAND_INS[stand_in], functools.partial(_reduced, stand_in))


def _reduced(stand_in: type, made: Any) -> tuple[type, Any]:
    return stand_in, made.__reduce__()[1]
