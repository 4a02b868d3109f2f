"""Declares the rule ``foreign-math-in-kernel``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.builtins import is_builtin
from warp_audit.audit.source.refusals import inside_static
from warp_audit.audit.source.types import NAMED
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


_MODULES = ("numpy.", "math.", "torch.", "jax.", "cupy.", "scipy.", "random.")


class ForeignMathInKernel(Rule):
    """A kernel calls a function of another library.

    What it finds: a call of ``np.…``, ``math.…``, ``torch.…`` and the like inside a kernel or func.

    Why it matters: Warp looks only at the last part of the name and calls its own function of that name, whose
    rounding and special cases can differ (``np.round`` rounds half to even, ``wp.round`` away from zero); without
    one the build stops.

    Instead: call Warp's function by its own name, and choose the one you mean: ``wp.rint`` rounds half to even.
    """

    code = "WPA603"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1198",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        import math
        from numpy import floor

        @wp.func
        def wave(x: float):
            return math.sin(x) + floor(x)  # error: WPA603
        """,
    )
    GOOD = (
        """
        import math

        HALF = wp.constant(0.5 * math.pi)

        @wp.func
        def wave(x: float):
            return wp.sin(x + HALF) * wp.static(math.sqrt(2.0)) + math.pi
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        static = inside_static(function)
        for call, _ in function.calls():
            name = function.qualify(call.func)
            if name is None or not name.startswith(_MODULES) or call in static:
                continue
            last = name.rpartition(".")[2]
            if last in NAMED:  # a cast, which Warp takes as its own
                continue
            own = {"round": "rint"}.get(last, last) if name.startswith("numpy.") else last
            fix = None
            if is_builtin(own):
                fix = self.mend(f"call wp.{own}", Replace(Place.of(call.func), f"wp.{own}"))
                effect = f"Warp calls its own '{last}' instead"
            else:
                effect = f"Warp has no '{last}'"
            yield self.at(function, call, f"'{ast.unparse(call.func)}' is not called in a kernel: {effect}", fix=fix)
