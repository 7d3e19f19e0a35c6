"""The ``crucible`` command: parse, call one library function, print, exit."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command and give its exit code. No traceback reaches the user; set
    ``CRUCIBLE_DEBUG=1`` to see one.
    """
    from crucible.cli.app import run
    from crucible.errors import CrucibleError

    try:
        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except CrucibleError as error:
        if os.environ.get("CRUCIBLE_DEBUG"):
            raise
        sys.stderr.write(f"error: {_one_line(error)}\n")
        return error.exit_code
    except Exception as error:
        if os.environ.get("CRUCIBLE_DEBUG"):
            raise
        sys.stderr.write(
            f"error: unexpected {type(error).__name__}: {_one_line(error)} "
            "(a bug in Crucible: please report it; CRUCIBLE_DEBUG=1 shows where)\n"
        )
        return 2


def _one_line(error: BaseException) -> str:
    from crucible.escaping import plain_text

    return plain_text(" ".join(str(error).split()))
