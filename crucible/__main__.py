"""``python -m crucible``."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    sys.exit(importlib.import_module("crucible.cli").main())
