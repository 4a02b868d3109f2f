"""Choose a kernel: a list that narrows as one types."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option


class KernelPicker(ModalScreen[str | None]):
    """Gives the key of the kernel chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss_none", "Close"),
        Binding("down", "step(1)", show=False, priority=True),
        Binding("up", "step(-1)", show=False, priority=True),
    ]

    def __init__(self, kernels: dict[str, str]) -> None:
        super().__init__()
        self.kernels = kernels  # key → what is shown

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Input(placeholder="part of a kernel's name")
            yield OptionList(id="kernels")

    def on_mount(self) -> None:
        self.narrow("")

    def narrow(self, text: str) -> None:
        """List the kernels whose line holds every word typed."""
        listed = self.query_one(OptionList)
        listed.clear_options()
        words = text.casefold().split()
        for key, shown in self.kernels.items():
            if all(word in shown.casefold() for word in words):
                listed.add_option(Option(shown.replace("[", "\\["), id=key))
        if listed.option_count:
            listed.highlighted = 0

    def on_input_changed(self, event: Input.Changed) -> None:
        self.narrow(event.value)

    def on_input_submitted(self) -> None:
        listed = self.query_one(OptionList)
        if listed.highlighted is not None:
            self.dismiss(listed.get_option_at_index(listed.highlighted).id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_step(self, by: int) -> None:
        listed = self.query_one(OptionList)
        if listed.option_count:
            listed.highlighted = ((listed.highlighted or 0) + by) % listed.option_count

    def action_dismiss_none(self) -> None:
        self.dismiss(None)
