"""What tests of boxes need: a mark, and another user to be."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import crucible
from crucible.sandbox import box_problem

needs_box = pytest.mark.skipif(
    box_problem() is not None, reason=f"bubblewrap cannot make boxes here: {box_problem()}"
)


@contextmanager
def ordinary_user() -> Iterator[tuple[list[str], dict[str, str]]]:
    """For root: the start of a command line that runs Python as somebody without rights, and the
    environment for it, with a home folder of its own."""
    home = Path("/tmp") / f"crucible-ordinary-{os.getpid()}"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    environment = {**os.environ, "HOME": str(home)}
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    root = Path(crucible.__file__).parent.parent
    environment["PYTHONPATH"] = os.pathsep.join([*filter(None, sys.path), str(root)])
    user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"]
    try:
        yield [*user, readable_python()], environment
    finally:
        shutil.rmtree(home, ignore_errors=True)


def readable_python() -> str:
    """An interpreter of this version that an ordinary user can run."""
    own = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 0o001 for folder in own.parents):
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    other = shutil.which(f"python{version}", path="/usr/bin")
    if other is None:
        pytest.skip(f"{own} and no other Python {version} can be run by an ordinary user")
    return other
