"""A pane with one level of a kernel as numbered lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from warp_audit.debugger.views import KernelView, ViewLine
from warp_audit.reports.style import printable
from warp_audit.tui.focus import Focus

_TITLES = {"python": "Python", "ir": "IR", "ptx": "PTX", "sass": "SASS"}


class CodePane(ScrollView, can_focus=True):
    """Lines with a cursor; lines of the focus's IR nodes are lit, in Python down to the columns."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "code--number", "code--text", "code--quiet", "code--cursor", "code--linked", "code--span",
    }  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(0)", "Start", show=False),
        Binding("end,G", "edge(1)", "End", show=False),
        Binding("left,h", "shift(-8)", "Left", show=False),
        Binding("right,l", "shift(8)", "Right", show=False),
        Binding("enter", "follow", "Next match", show=False),
    ]

    @dataclass
    class Moved(Message):
        """The cursor moved to a line of a level."""

        level: str
        position: int

    def __init__(self, level: str) -> None:
        super().__init__(id=level, classes="code")
        self.level = level
        self.border_title = _TITLES[level]
        self.lines: tuple[ViewLine, ...] = ()
        self.view: KernelView | None = None
        self.cursor = 0
        self.linked: frozenset[int] = frozenset()
        self.nodes: frozenset[int] = frozenset()
        self.number_width = 5

    def load(self, view: KernelView) -> None:
        """Show a kernel from its first line."""
        self.view = view
        self.lines = view.levels[self.level]
        self.cursor = 0
        self.linked = frozenset()
        width = max((len(printable(line.text.expandtabs(4))) for line in self.lines), default=0)
        self.number_width = max((len(self.label(line)) for line in self.lines), default=1) + 1
        self.virtual_size = Size(width + self.number_width, len(self.lines))
        self.border_subtitle = "" if self.lines else "none"
        self.scroll_to(0, 0, animate=False)
        self.refresh()

    def show(self, focus: Focus) -> None:
        """Light what belongs to the focus; bring it into sight where the focus is elsewhere."""
        assert self.view is not None
        self.nodes = focus.nodes
        self.linked = frozenset(self.view.lines_of(self.level, focus.nodes)) if focus.nodes else frozenset()
        if focus.level == self.level:
            self.cursor = focus.position
        elif self.linked and self.cursor not in self.linked:
            self.cursor = self.first_linked()
        self.border_subtitle = f"{len(self.linked)} lit" if self.linked else ("" if self.lines else "none")
        if focus.level == self.level or self.linked:
            self.reveal()
        self.refresh()

    def first_linked(self) -> int:
        """The first lit line; among IR lines the first op, which tells more than a declaration."""
        ops = [at for at in self.linked if self.lines[at].nodes and self.is_op(self.lines[at])]
        return min(ops or self.linked)

    def is_op(self, line: ViewLine) -> bool:
        """Whether a line is more than the declaration of a value."""
        assert self.view is not None
        return any((node := self.view.nodes.get(n)) is not None and node.op != "value" for n in line.nodes)

    def reveal(self) -> None:
        """Scroll no further than needed to have the cursor in sight, with some lines around it."""
        height = max(self.scrollable_content_region.height, 1)
        margin = min(2, height // 4)
        top = self.scroll_offset.y
        wanted = min(max(top, self.cursor + margin - height + 1), max(self.cursor - margin, 0))
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)

    def label(self, line: ViewLine) -> str:
        """What stands in the gutter of a line."""
        if self.level == "sass":
            return f"{line.number:#06x}"
        return str(line.number) if line.number else ""

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        scroll_x, scroll_y = self.scroll_offset
        at = scroll_y + y
        width = self.scrollable_content_region.width
        if at >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = self.lines[at]
        text = printable(line.text.expandtabs(4))
        base = self.get_component_rich_style("code--text" if line.nodes else "code--quiet", partial=False)
        number = self.get_component_rich_style("code--number", partial=False)
        over = Style()
        if at == self.cursor and self.has_focus:
            over = Style(bgcolor=self.get_component_rich_style("code--cursor", partial=False).bgcolor)
        elif at in self.linked:
            over = Style(bgcolor=self.get_component_rich_style("code--linked", partial=False).bgcolor)
        segments = [Segment(text, base + over)]
        if self.level == "python" and at in self.linked and self.view is not None and not self.has_focus:
            span = self.view.span(self.nodes, line.file, line.number)
            if span is not None:
                marked = base + over + self.get_component_rich_style("code--span", partial=True)
                start, end = span[0] - 1, min(span[1] - 1, len(text))
                segments = [
                    Segment(text[:start], base + over),
                    Segment(text[start:end], marked),
                    Segment(text[end:], base + over),
                ]
        gutter = Segment(self.label(line).rjust(self.number_width - 1) + " ", number + over)
        body = Strip(segments).crop(scroll_x, scroll_x + max(width - self.number_width, 0))
        return Strip([gutter, *body]).adjust_cell_length(width, base + over)

    def move_to(self, position: int) -> None:
        """Put the cursor on a line and say so."""
        if self.lines:
            self.cursor = max(0, min(position, len(self.lines) - 1))
            self.post_message(self.Moved(self.level, self.cursor))

    def action_move(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.move_to(self.cursor + by * max(self.scrollable_content_region.height - 1, 1))

    def action_edge(self, end: int) -> None:
        self.move_to(len(self.lines) - 1 if end else 0)

    def action_shift(self, by: int) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x + by), animate=False)

    def action_follow(self) -> None:
        """Go to the next lit line of this pane, keeping the lit set."""
        after = sorted(at for at in self.linked if at > self.cursor) or sorted(self.linked)
        if after:
            self.cursor = after[0]
            self.reveal()
            self.refresh()

    def on_click(self, event: Click) -> None:
        self.move_to(self.scroll_offset.y + event.y - 1)

    def on_focus(self) -> None:
        if self.lines:
            self.post_message(self.Moved(self.level, self.cursor))

    def on_blur(self) -> None:
        self.refresh()

    def find(self, text: str, backwards: bool = False) -> bool:
        """Put the cursor on the next line that holds the text, in any case; False when none does."""
        wanted = text.casefold()
        count = len(self.lines)
        for step in range(1, count + 1):
            at = (self.cursor - step if backwards else self.cursor + step) % count
            if wanted in self.lines[at].text.casefold() or wanted == self.label(self.lines[at]).casefold():
                self.move_to(at)
                return True
        return False

    @property
    def visible_lines(self) -> Region:
        """The lines in sight, as a region of the virtual space."""
        return Region(0, self.scroll_offset.y, 1, self.scrollable_content_region.height)
