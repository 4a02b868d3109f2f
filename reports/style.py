"""Colour for terminals, and only for them."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def coloured(stream: TextIO) -> bool:
    """Whether colour is wanted on a stream: a terminal, and neither NO_COLOR nor a dumb one."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Style:
    """Marks text for one stream; the text itself where colour is not wanted."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.on = coloured(stream or sys.stdout)

    def _mark(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self._mark("1", text)

    def dim(self, text: str) -> str:
        return self._mark("2", text)

    def place(self, text: str) -> str:
        """A file and line."""
        return self._mark("36", text)

    def marked(self, text: str) -> str:
        """The part of a line that is meant."""
        return self._mark("1;33", text)


def printable(text: str) -> str:
    """User text without control characters, so that it cannot drive the terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
