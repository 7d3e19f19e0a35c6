"""Running the local Hub."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crucible.errors import HubError, UsageError, require

__all__ = ["LocalHub", "serve"]

START_SECONDS = 20.0


def serve(folder: Path, *, host: str = "127.0.0.1", port: int = 8642, token: str | None) -> None:
    """Serve the repositories below ``folder`` until interrupted.

    Raises:
        UsageError: if the address is not a loopback one and there is no token, or is taken.
        DependencyError: if the server is not installed.
    """
    if not _is_loopback(host) and not token:
        raise UsageError(f"--host {host}: any address but a loopback one needs --token")
    _server(folder, _bound(host, port), token).run(sockets=None)


class LocalHub:
    """A local Hub in a thread of this process, for the length of a ``with`` block.

    ``endpoint`` is its address; :meth:`env` what the clients need in their environment before
    they are imported.
    """

    def __init__(self, folder: Path, *, token: str | None = None) -> None:
        """Raises:
        DependencyError: if the server is not installed.
        """
        self._folder, self.token = folder, token
        # TCP is named so that answers are not held back (asyncio turns Nagle's algorithm off for
        # sockets that say so).
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.endpoint = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = _server(folder, ("127.0.0.1", 0), token)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def env(self) -> dict[str, str]:
        """What makes the stock clients talk to this Hub, and to nothing else."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_TOKEN": self.token or "local",
            "HF_HOME": str(self._folder / "client"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise HubError(f"the local Hub did not start at {self.endpoint}")
            time.sleep(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(timeout=START_SECONDS)
        self._socket.close()


def _server(folder: Path, address: tuple[str, int], token: str | None) -> Any:
    uvicorn = require("uvicorn", extra="hub")
    require("dulwich.repo", extra="hub")
    require("starlette", extra="hub")
    from crucible.commons.localhub.app import make_app

    app = make_app(folder, token=token)
    host, port = address
    options = {"log_level": "warning", "access_log": False, "lifespan": "off"}
    return uvicorn.Server(uvicorn.Config(app, host=host, port=port, **options))


def _bound(host: str, port: int) -> tuple[str, int]:
    """The address, once it is known that it can be had."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise UsageError(f"{host}:{port} cannot be served: {error.strerror}") from error
    return host, port


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
