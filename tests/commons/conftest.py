"""A local Hub that the stock clients of this process talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crucible.commons import LocalHub


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
