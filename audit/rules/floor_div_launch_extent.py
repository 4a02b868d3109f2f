"""Declares the rule ``floor-div-launch-extent``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.symbolic import Form
from warp_audit.audit.source.tiles import rounds_up
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import Launch


class FloorDivLaunchExtent(Rule):
    """The number of blocks is rounded down, so the remainder of the work is never done.

    What it finds: a launch over ``n // c`` (or ``int(n / c)``) where each thread handles ``c`` items, the kernel
    tests for the end of the array, and nothing in the function checks that ``c`` divides ``n``.

    Why it matters: the last ``n % c`` items are left out, and with ``n < c`` all of them. Nothing is reported.

    Instead: round up: ``(n + c - 1) // c``.
    """

    code = "WPA109"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#362",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.kernel
        def smooth(x: wp.array(dtype=float), width: int):
            b = wp.tid()
            for k in range(width):
                if b * width + k < x.shape[0]:
                    x[b * width + k] *= 0.5

        def run(x, width):
            blocks = len(x) // width
            wp.launch(smooth, dim=blocks, inputs=[x, width])  # error: WPA109
            wp.launch(smooth, dim=x.shape[0] // width, inputs=[x, width])  # error: WPA109
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def smooth(x: wp.array(dtype=float), width: int):
            b = wp.tid()
            for k in range(width):
                if b * width + k < x.shape[0]:
                    x[b * width + k] *= 0.5

        @wp.kernel
        def pairs(x: wp.array(dtype=float)):
            b = wp.tid()
            x[2 * b] = x[2 * b + 1]

        def run(x, width):
            wp.launch(smooth, dim=(len(x) + width - 1) // width, inputs=[x, width])
            wp.launch(pairs, dim=len(x) // 2, inputs=[x])

        def run_even(x, width):
            assert len(x) % width == 0
            wp.launch(smooth, dim=len(x) // width, inputs=[x, width])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel, extents = launch.kernel, launch.extents
        if kernel is None or extents is None or kernel.tid_arity is None:
            return
        for axis, extent in enumerate(extents):
            divided = _rounded_down(launch.function.symbols.form(extent))
            if divided is None or _is_checked(launch) or not _expects_rest(kernel, axis, divided, launch):
                continue
            fix = None
            if isinstance(extent, ast.BinOp) and isinstance(extent.op, ast.FloorDiv):
                below = ast.unparse(extent.right)
                text = f"({ast.unparse(extent.left)} + {below} - 1) // {below}"
                fix = self.mend("round up", Replace(Place.of(extent), text))
            yield self.at(
                launch,
                extent,
                f"the extent '{ast.unparse(extent)}' is rounded down, but '{kernel.name}' expects a last, "
                "partial block",
                "round up: (n + c - 1) // c",
                fix=fix,
            )


def _rounded_down(form: Form) -> tuple[Form, Form] | None:
    """Dividend and divisor of a division that drops the rest."""
    atom = form.single()
    if atom is not None and atom[0] in ("floordiv", "div") and not rounds_up(form):
        return atom[1], atom[2]
    return None


def _is_checked(launch: Launch) -> bool:
    """Whether the function looks at a remainder, or rounds up somewhere."""
    return any(isinstance(node.op, ast.Mod) for node in launch.function.flow.of(ast.BinOp))  # type: ignore[attr-defined]


def _expects_rest(kernel: DeviceFunction, axis: int, divided: tuple[Form, Form], launch: Launch) -> bool:
    """Whether a thread works on several items, and tests for the end."""
    atom = ("tid", axis)
    for access in kernel.accesses:
        for index in access.indices:
            form = kernel.symbols.form(index)
            scaled = any(
                (a == atom and c not in (0, 1)) or (a[0] == "mul" and any(part == Form.of(atom) for part in a[2:]))
                for a, c in form.terms
            )
            if scaled and kernel.symbols.upper_bounds(form, access.site):
                return True
    return False
