"""The version of Crucible."""

from __future__ import annotations

import importlib.metadata

__all__ = ["__version__"]

__version__ = importlib.metadata.version("crucible-rl")
