"""The terminal debugger's screen: one kernel as Python, IR, PTX and SASS, tied together."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.widgets import Footer, Input, Static

from warp_audit.debugger.builds import Build, UnitFacts
from warp_audit.debugger.index import Code
from warp_audit.debugger.views import LEVELS, KernelView, kernel_view
from warp_audit.reports.style import printable
from warp_audit.tui.focus import Focus
from warp_audit.tui.panes.code import CodePane
from warp_audit.tui.panes.stack import StackBar
from warp_audit.tui.picker import KernelPicker


class DebugApp(App[None]):
    """Walk through one kernel of a build at a time."""

    CSS_PATH = "theme.tcss"
    TITLE = "warp-audit"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("o", "pick", "Open kernel"),
        Binding("b", "turn", "Forward/backward"),
        Binding("z", "zoom", "Zoom"),
        Binding("slash", "search", "Find", key_display="/"),
        Binding("n", "again(0)", "Next", show=False),
        Binding("N", "again(1)", "Previous", show=False),
        Binding("tab", "app.focus_next", "Next pane", show=False),
        Binding("d", "toggle_theme", "Dark/light", show=False),
        Binding("escape", "cancel", show=False),
    ]

    def __init__(self, build: Build, unit: UnitFacts, code: Code) -> None:
        super().__init__()
        self.build = build
        self.codes: dict[str, tuple[UnitFacts, Code]] = {}
        for one in build.units:
            order = build.index(one).entity_lines()
            for found in sorted(
                build.index(one).codes(), key=lambda c: (order.get(c.kernel, (0, 0)), c.passed != "forward")
            ):
                self.codes[f"k{len(self.codes)}"] = (one, found)
        self.view: KernelView = kernel_view(build, unit, code)
        self.focus_state = Focus(code.name, "python", 0)
        self.wanted = ""

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Grid(id="panes"):
            for level in LEVELS:
                yield CodePane(level)
        yield StackBar(id="stack")
        yield Input(id="find", placeholder="find in this pane")
        yield Footer()

    def on_mount(self) -> None:
        self.theme = "textual-dark"
        self.query_one("#find").display = False
        self.load()

    def load(self) -> None:
        """Fill the panes with the current view; the focus goes to the kernel's first line with code."""
        for pane in self.query(CodePane):
            pane.load(self.view)
        first = next((at for at, line in enumerate(self.view.levels["python"]) if len(line.nodes) > 1), 0)
        level = "python" if self.view.levels["python"] else "ir"
        pane = self.query_one(f"#{level}", CodePane)
        pane.cursor = first if level == "python" else 0
        pane.focus()
        self.set_focus_to(level, pane.cursor)

    def on_code_pane_moved(self, message: CodePane.Moved) -> None:
        self.set_focus_to(message.level, message.position)

    def set_focus_to(self, level: str, position: int) -> None:
        """Make a line the focus of every pane."""
        lines = self.view.levels[level]
        nodes = lines[position].nodes if position < len(lines) else frozenset()
        self.focus_state = Focus(self.view.code.name, level, position, nodes)
        for pane in self.query(CodePane):
            pane.show(self.focus_state)
        self.query_one(StackBar).show(self.view, self.focus_state)
        code = self.view.code
        self.query_one("#title", Static).update(
            f"{self.view.title}".replace("[", "\\[")
            + f"   regs {code.registers}  shared {code.shared}  local {code.local}   "
            + printable(code.name).replace("[", "\\[")
        )

    def action_pick(self) -> None:
        """Open the kernel picker."""
        kernels = {
            key: f"{unit.kernels.get(code.kernel, code.name)}  {code.passed}  {unit.arch}  {unit.module}"
            for key, (unit, code) in self.codes.items()
        }

        def chosen(key: str | None) -> None:
            if key is not None:
                unit, code = self.codes[key]
                self.open(unit, code)

        self.push_screen(KernelPicker(kernels), chosen)

    def open(self, unit: UnitFacts, code: Code) -> None:
        """Show another compiled kernel."""
        self.view = kernel_view(self.build, unit, code)
        self.load()

    def action_turn(self) -> None:
        """Switch between a kernel and its adjoint, staying on the Python line."""
        now = self.view.code
        other = next(
            (
                (unit, code)
                for unit, code in self.codes.values()
                if unit is self.view.unit and code.kernel == now.kernel and code.passed != now.passed
            ),
            None,
        )
        if other is None:
            self.notify("compiled without a backward pass", severity="warning")
            return
        place = self._python_place()
        self.open(*other)
        for at, line in enumerate(self.view.levels["python"]):
            if (line.file, line.number) == place:
                self.set_focus_to("python", at)
                break

    def _python_place(self) -> tuple[str, int] | None:
        lines = self.view.levels["python"]
        if self.focus_state.level == "python" and lines:
            line = lines[self.focus_state.position]
            return line.file, line.number
        return next(((n.file, n.line) for n in map(self.view.nodes.get, self.focus_state.nodes) if n is not None), None)

    def action_zoom(self) -> None:
        """Give the whole screen to the pane in use, or back to all four."""
        grid = self.query_one("#panes", Grid)
        zoomed = grid.toggle_class("zoomed").has_class("zoomed")
        for pane in self.query(CodePane):
            pane.display = not zoomed or pane.has_focus
            self.call_after_refresh(pane.reveal)

    def action_toggle_theme(self) -> None:
        """Switch between dark and light."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_search(self) -> None:
        """Ask for a text to find in the pane in use."""
        field = self.query_one("#find", Input)
        field.display = True
        field.value = ""
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "find":
            self.wanted = event.value
            self._close_search()
            self.action_again(0)

    def _close_search(self) -> None:
        self.query_one("#find").display = False
        self.query_one(f"#{self.focus_state.level}", CodePane).focus()

    def action_again(self, backwards: int) -> None:
        """Find the next or previous line with the text asked for last."""
        pane = self.query_one(f"#{self.focus_state.level}", CodePane)
        if self.wanted and not pane.find(self.wanted, bool(backwards)):
            self.notify(f"{self.wanted!r} is not in this pane", severity="warning", markup=False)

    def action_cancel(self) -> None:
        """Close the search field, or leave the zoom."""
        if self.query_one("#find").display:
            self._close_search()
        elif self.query_one("#panes").has_class("zoomed"):
            self.action_zoom()
