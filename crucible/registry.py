"""Which environments are known here, and how to rebuild one from its id and kwargs.

An installed distribution adds environments through the entry-point group
``crucible.environments`` (name = ``env_id``, value = ``module:Class``) and suites through
``crucible.suites``. Nothing is imported because a dataset says so: an id that neither an entry
point, :func:`register` nor :func:`import_environment` made known is an error.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from crucible.env import Environment
from crucible.errors import EnvironmentUnknownError, FormatError, UsageError
from crucible.schemas import check_schema

__all__ = [
    "environment_class",
    "import_environment",
    "import_module_for_environments",
    "make",
    "register",
    "registered",
    "user_modules",
]

EnvironmentType = TypeVar("EnvironmentType", bound=type[Environment])

_registered: dict[str, type[Environment]] = {}
_user_modules: dict[str, None] = {}


def register(env_id: str) -> Callable[[EnvironmentType], EnvironmentType]:
    """A class decorator that makes an environment known as ``env_id``.

    Raises:
        UsageError: if another class already has that id.
    """

    def decorate(cls: EnvironmentType) -> EnvironmentType:
        known = _registered.get(env_id)
        if known is not None and _qualified_name(known) != _qualified_name(cls):
            raise UsageError(f"environment {env_id!r} is already registered by {known.__module__}")
        cls.env_id = env_id
        _registered[env_id] = cls
        return cls

    return decorate


def registered() -> list[str]:
    """The ids of all environments known here, sorted."""
    return sorted({*_registered, *_entry_points()})


def environment_class(env_id: str) -> type[Environment]:
    """The class behind ``env_id``.

    Raises:
        EnvironmentUnknownError: if the id is not known here, or its module does not load.
    """
    if env_id not in _registered:
        entry = _entry_points().get(env_id)
        if entry is None:
            raise EnvironmentUnknownError(
                f"environment {env_id!r} is not registered here (known: {', '.join(registered())})"
            )
        try:
            found = entry.load()
        except Exception as error:
            raise EnvironmentUnknownError(
                f"environment {env_id!r} cannot be loaded: {error}"
            ) from error
        register(env_id)(_checked_class(found, entry.value))
    return _registered[env_id]


def make(env_id: str, kwargs: Mapping[str, Any]) -> Environment:
    """The environment that ``env_id`` and ``kwargs`` describe.

    Raises:
        EnvironmentUnknownError: if the id is not known here.
        FormatError: if the kwargs do not fit the environment's schema or constructor.
    """
    cls = environment_class(env_id)
    if cls.kwargs_schema is not None:
        problem = check_schema(dict(kwargs), cls.kwargs_schema)
        if problem:
            raise FormatError(f"kwargs of {env_id} at {problem}")
    try:
        return cls(**kwargs)
    except (TypeError, ValueError) as error:
        raise FormatError(f"kwargs of {env_id}: {error}") from error


def import_environment(reference: str) -> type[Environment]:
    """The class ``module:QualName`` that the user named, made known under that name.

    Raises:
        UsageError: if there is no such module or class, or it is no environment.
    """
    module_name, _, qualname = reference.partition(":")
    module = _import_user_module(module_name)
    try:
        found = functools.reduce(getattr, qualname.split("."), module)
    except AttributeError:
        raise UsageError(f"module {module_name!r} has no {qualname!r}") from None
    cls = _checked_class(found, reference)
    return register(cls.own_id())(cls)


def import_module_for_environments(module_name: str) -> None:
    """Import a module that the user named and make all its environments known.

    Raises:
        UsageError: if the module cannot be imported.
    """
    module = _import_user_module(module_name)
    for value in vars(module).values():
        ours = isinstance(value, type) and issubclass(value, Environment)
        if ours and value.__module__ == module.__name__:
            register(value.own_id())(value)


def user_modules() -> tuple[str, ...]:
    """The modules that the user named so far in this process; workers import them too."""
    return tuple(_user_modules)


def _import_user_module(module_name: str) -> Any:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"module {module_name!r} cannot be imported: {error}") from error
    _user_modules[module_name] = None
    return module


def _checked_class(found: Any, reference: str) -> type[Environment]:
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise UsageError(f"{reference} is not a crucible.Environment class")
    return found


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


@functools.cache
def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    found = importlib.metadata.entry_points(group="crucible.environments")
    return {entry.name: entry for entry in found}
