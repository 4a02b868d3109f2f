"""The inline stack of the line in focus, innermost first, and its IR op."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.widgets import Static

from warp_audit.debugger.views import KernelView
from warp_audit.reports.style import printable
from warp_audit.tui.focus import Focus


class StackBar(Static):
    """Two lines: what the focus is, and through which functions it was inlined."""

    def show(self, view: KernelView, focus: Focus) -> None:
        """Show the stack of the focus's instruction, or of the first one of its nodes."""
        line = view.levels[focus.level][focus.position] if view.levels[focus.level] else None
        at = line.number if line is not None and focus.level == "sass" else None
        if at is None and focus.nodes:
            at = next((found.number for found in view.levels["sass"] if found.nodes & focus.nodes), None)
        nodes = [view.nodes[n] for n in sorted(focus.nodes) if n in view.nodes]
        node = next((n for n in nodes if n.op != "value"), nodes[0] if nodes else None)
        first = "no IR op belongs to this line"
        if node is not None:
            access = f"   {node.access}" if node.access else ""
            adjoint = f"   adjoint of ir:{node.forward}" if node.forward and node.passed == "backward" else ""
            first = f"ir:{node.node}  {node.text}{access}{adjoint}"
        frames = view.stacks.get(at, ()) if at is not None else ()
        second = " < ".join(f"{f.function or '?'} {Path(f.file).name}:{f.line}" for f in frames)
        if not second:
            second = "no instruction is left of it" if node is not None else ""
        self.update(Text(f"{printable(first)}\n{printable(second)}", no_wrap=True, overflow="ellipsis"))
