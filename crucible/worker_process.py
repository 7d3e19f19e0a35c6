"""The program of a worker process: ``python -m crucible.worker_process``.

It reads length-prefixed, pickled messages from standard input – the first says which function to
run – and writes length-prefixed JSON to what was standard output. What environments print goes to
standard error. Where the parent is gone, and standard input with it, it ends at once, whatever it
is doing.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import sys
import threading
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
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive_all, args=(requests, jobs), daemon=True).start()
    setup = jobs.get()
    sys.path[:] = setup["path"]
    for module in setup["imports"]:
        import_module_for_environments(module)
    module_name, _, name = setup["function"].partition(":")
    function = getattr(importlib.import_module(module_name), name)
    _answer(answers, True)
    while True:
        _answer(answers, function(jobs.get()))


def _answer(answers: BinaryIO, result: Any) -> None:
    data = orjson.dumps(result)
    try:
        answers.write(len(data).to_bytes(8, "big") + data)
        answers.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody waits for it any more


def _receive_all(requests: BinaryIO, jobs: queue.SimpleQueue[Any]) -> None:
    """Queue every message; end the process when there are no more."""
    while len(head := requests.read(8)) == 8:
        jobs.put(pickle.loads(requests.read(int.from_bytes(head, "big"))))
    os._exit(0)


if __name__ == "__main__":
    main()
