"""Declares the rule ``unknown-builtin``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.builtins import is_builtin, names
from warp_audit.audit.source.refusals import inside_static
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class UnknownBuiltin(Rule):
    """A kernel calls a function that Warp does not have for kernels.

    What it finds: a call of ``wp.NAME`` in a kernel or func where Warp has no builtin of that name: a misspelt one,
    one that other libraries have under this name, or one that only Python code can call, such as ``wp.launch``.

    Why it matters: Python does not look the name up until the kernel is built, at the first launch.

    Instead: call the builtin that does it; the note names those with a similar name.
    """

    code = "WPA610"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        from warp import launch

        @wp.kernel
        def move(x: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            x[i] = wp.normalise(x[i])  # error: WPA610
            x[i] = wp.lenght(x[i]) * x[i]  # error: WPA610
            launch(move, dim=1, inputs=[x])  # error: WPA610
            wp.synchronize()  # error: WPA610
            x[i][0] = wp.clip(x[i][0], 0.0, 1.0)  # error: WPA610
        """,
    )
    GOOD = (
        """
        import warp.fem as fem

        @wp.struct
        class Ray:
            start: wp.vec3

        @wp.kernel
        def move(x: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            ray = Ray()
            ray.start = wp.normalize(x[i])
            m = wp.types.matrix(shape=(2, 2), dtype=float)()
            x[i] = wp.static(wp.length(wp.vec3(1.0, 0.0, 0.0))) * ray.start
            s = fem.utils.something(x[i])

        def run(x):
            wp.launch(move, dim=x.shape, inputs=[x])
            wp.synchronize()
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        for call, _ in function.calls():
            name = function.qualify(call.func)
            if name is None or not name.startswith("warp.") or "." in name[5:]:
                continue
            short = name[5:]
            if (
                (is_builtin(short) and short not in _ELSEWHERE)
                or short in _SPECIAL
                or short[:1].isupper()
                or call in inside_static(function)
            ):
                continue
            if short in _HOST:
                yield self.at(function, call, f"'{ast.unparse(call.func)}' is for Python code, not for kernels")
                continue
            near = [_ELSEWHERE[short]] if short in _ELSEWHERE else get_close_matches(short, names(), 3, 0.8)
            if near:  # names that are like none may be of a newer Warp
                note = "similar: " + ", ".join(f"wp.{one}" for one in near)
                fix = self._fix(call, near)
                yield self.at(function, call, f"Warp has no '{short}' for kernels", note, fix=fix)

    def _fix(self, call: ast.Call, near: list[str]) -> Fix | None:
        if len(near) != 1 or not isinstance(call.func, ast.Attribute):
            return None
        text = f"{ast.unparse(call.func.value)}.{near[0]}"
        return self.mend(f"call '{near[0]}'", Replace(Place.of(call.func), text))


_SPECIAL = {
    "static",
    "constant",
    "vector",
    "matrix",
    "quaternion",
    "transformation",
    "array",
    "func",
    "kernel",
    "map",
    "grad",
}
"""Names that Warp resolves by other ways than its table of builtins."""
_HOST = {
    "launch", "launch_tiled", "clone", "synchronize", "synchronize_device", "synchronize_stream", "zeros_like",
    "ones_like", "empty_like", "full_like", "full", "ones", "empty", "from_numpy", "to_torch", "from_torch",
    "to_jax", "from_jax",
    "get_device", "set_device", "get_stream", "capture_begin", "capture_end", "capture_launch", "capture_if",
    "capture_while",
    "load_module", "force_load", "init", "overload", "record_event", "wait_event",
}  # fmt: skip
"""Functions of Warp's for Python code."""
_ELSEWHERE = {
    "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "fabs": "abs", "absolute": "abs", "clip": "clamp",
    "power": "pow", "norm": "length", "arctan2": "atan2", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "mix": "lerp",
    "inv": "inverse", "det": "determinant", "eye": "identity", "deg2rad": "radians", "rad2deg": "degrees",
    "fmod": "mod",
    "select": "where", "transform_inv": "transform_inverse", "quat_inv": "quat_inverse", "rand": "randf",
}  # fmt: skip
"""What other libraries, and older Warps, call builtins."""
