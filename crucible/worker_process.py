"""The program of a worker process: ``python -m crucible.worker_process``.

It reads length-prefixed, pickled messages from standard input – the first says which function to
run – and writes length-prefixed JSON to what was standard output. What environments print goes to
standard error.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from typing import Any, BinaryIO

import orjson

from crucible.registry import import_module_for_environments

__all__ = ["main"]


def main() -> None:
    """Serve jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    setup = _receive(requests)
    if setup is None:
        return
    sys.path[:] = setup["path"]
    for module in setup["imports"]:
        import_module_for_environments(module)
    module_name, _, name = setup["function"].partition(":")
    function = getattr(importlib.import_module(module_name), name)
    while (job := _receive(requests)) is not None:
        data = orjson.dumps(function(job))
        answers.write(len(data).to_bytes(8, "big") + data)
        answers.flush()


def _receive(requests: BinaryIO) -> Any:
    head = requests.read(8)
    if len(head) < 8:
        return None
    return pickle.loads(requests.read(int.from_bytes(head, "big")))


if __name__ == "__main__":
    main()
