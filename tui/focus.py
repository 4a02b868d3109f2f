"""What the screen is about: one place of one kernel, the same for every pane."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Focus:
    """A line of one level of a kernel, and the IR nodes that tie it to the others.

    ``thread`` and ``step`` belong to stepping: which thread's values are shown, and when.
    """

    kernel: str  # the compiled function
    level: str  # python, ir, ptx or sass
    position: int  # of the line among the level's
    nodes: frozenset[int] = frozenset()
    thread: tuple[int, ...] | None = None
    step: int | None = None
