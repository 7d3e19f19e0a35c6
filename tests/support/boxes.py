"""A mark for tests that run commands in boxes."""

from __future__ import annotations

import pytest

from crucible.sandbox import box_problem

needs_box = pytest.mark.skipif(
    box_problem() is not None, reason=f"bubblewrap cannot make boxes here: {box_problem()}"
)
