"""A local Hub that the stock clients of this process talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from crucible.commons import LocalHub

# The client reads these when it is first imported.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@pytest.fixture(scope="session")
def running_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHub]:
    """One server for all tests."""
    with LocalHub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def local_hub(running_hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    """The server, with this test's environment pointing at it."""
    for name, value in running_hub.env().items():
        monkeypatch.setenv(name, value)
    return running_hub
