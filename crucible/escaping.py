"""One way for text that a stranger wrote to reach a terminal, a page or a card."""

from __future__ import annotations

import html
import unicodedata

__all__ = ["html_text", "markdown_text", "plain_text"]

_MARKDOWN = {ord(c): f"&#{ord(c)};" for c in "\\`*_{}[]()<>#+-!|&~"}


def plain_text(text: str, *, limit: int | None = None) -> str:
    """``text`` with control, format and bidirectional characters made visible, in one line.

    ``limit`` cuts long text and says how much is missing.
    """
    cut = text if limit is None or len(text) <= limit else text[:limit]
    safe = "".join(c if _is_harmless(c) else _visible(c) for c in cut)
    return safe if len(cut) == len(text) else f"{safe}… ({len(text) - len(cut)} more)"


def html_text(text: str) -> str:
    """``text`` for an HTML page, attribute values included."""
    return html.escape(plain_text(text), quote=True)


def markdown_text(text: str) -> str:
    """``text`` for a Markdown card: no character keeps a meaning."""
    return plain_text(text).translate(_MARKDOWN)


def _is_harmless(character: str) -> bool:
    return character == " " or unicodedata.category(character) not in (
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    )


def _visible(character: str) -> str:
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(character)
    return named.get(character, f"\\x{code:02x}" if code < 256 else f"\\u{{{code:x}}}")
