"""An environment that looks around."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from walking import Walk

from crucible.env import StepResult


class Curious(Walk):
    """Tries what a box must not allow, and says what it could do."""

    secret: str = ""
    port: int = 0

    def __init__(self, secret: str = "", port: int = 0) -> None:
        super().__init__()
        self.secret, self.port = secret, port

    def step(self, action: Any) -> StepResult:
        found = []
        if os.path.exists(self.secret):
            found.append("file")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            found.append("network")
        except OSError:
            pass
        try:
            Path("/usr/canary").touch()
            Path("/usr/canary").unlink()
            found.append("usr")
        except OSError:
            pass
        if len(list(Path("/proc").glob("[0-9]*"))) > 10:
            found.append("processes")
        return StepResult({"found": found}, 0.0, True)
