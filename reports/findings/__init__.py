"""Findings as text, JSON and what other tools read: one file a format, ``render(report, style)``.

A format is found by walking this package; its docstring is what ``--format`` says of it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from warp_audit.errors import BrokenPromise

if TYPE_CHECKING:
    from warp_audit.audit.lint.report import Report
    from warp_audit.reports.style import Style


def format_names() -> list[str]:
    """The formats there are, in alphabetical order."""
    return sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))


def render(name: str, report: Report, style: Style) -> str:
    """A report in a format.

    Raises:
        BrokenPromise: the format's module lacks a part.
    """
    module = importlib.import_module(f"{__name__}.{name}")
    if not module.__doc__ or not hasattr(module, "render"):
        raise BrokenPromise(f"the format {name} has no docstring or no function render")
    text: str = module.render(report, style)
    return text
