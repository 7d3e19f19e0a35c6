"""Workers that the tests of one process share, so that each does not start its own."""

from __future__ import annotations

import atexit
import functools
from pathlib import Path
from typing import Any

from crucible.judging import rerun_jobs
from crucible.registry import import_module_for_environments
from crucible.verdicts import VerificationReport
from crucible.verification import Shared, verify_dataset
from crucible.workers import WorkerCrew


@functools.cache
def shared() -> Shared:
    """The workers; they know the environments of :mod:`walking`."""
    import_module_for_environments("walking")
    crew = WorkerCrew(rerun_jobs)
    atexit.register(crew.close)
    return Shared(crew=crew)


def verify(folder: Path, **options: Any) -> VerificationReport:
    """Verify a dataset with one worker that is there already."""
    import_module_for_environments("walking")
    return verify_dataset(folder, workers=1, shared=shared(), **options)
