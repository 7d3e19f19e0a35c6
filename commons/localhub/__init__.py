"""A Hub of one's own: the Hub's protocol for the stock clients, git repositories on disk."""

from crucible.commons.localhub.server import LocalHub, serve

__all__ = ["LocalHub", "serve"]
