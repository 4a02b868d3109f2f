"""Declares the rule ``ad-component-reassign``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.autodiff import differentiated_functions
from warp_audit.audit.source.gradients import Gradients, is_float, option
from warp_audit.audit.source.types import Matrix, Quaternion, Transformation, Vector
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def

_LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3}


class AdComponentReassign(Rule):
    """A component of a local vector is replaced in a differentiated kernel after it held a differentiated value.

    What it finds: in a kernel that a tape records, or a func that it calls: ``v[0] = ...``, ``v.x = ...`` or
    ``v[0] *= ...`` on a local vector, matrix, quaternion or transformation whose component was made from differentiated
    values before.

    Why it matters: the store does not clear the component's gradient, so that it also goes to the value that was
    replaced. The result is right, the gradient too large, and nothing is said.

    Instead: build the value once from scalars (``wp.vec3(a, b, c)``), accumulate with ``v[0] += ...``, or set the
    module's option ``enable_vector_component_overwrites``.
    """

    code = "WPA410"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#1697",)
    BAD = (
        """
        @wp.kernel
        def shift(steer: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
            i = wp.tid()
            v = wp.vec3(0.0, 0.0, 0.0)
            v[0] = v[0] + steer[i]
            v[0] = v[0] + steer[i]  # error: WPA410
            u = p[i]
            u.y = steer[i]  # error: WPA410
            w = wp.vec3(steer[i], 0.0, 1.0)
            w[0] *= steer[i]  # error: WPA410
            out[i] = v[0] + u[1] + w[0]

        def gradient(steer, p, out):
            with wp.Tape() as tape:
                wp.launch(shift, dim=steer.shape[0], inputs=[steer, p], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
        """
        @wp.func
        def flatten(v: wp.vec3, height: float):
            v[2] = height  # error: WPA410
            return v

        @wp.kernel
        def flat(p: wp.array(dtype=wp.vec3), h: wp.array(dtype=float), out: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            total = wp.vec3(0.0)
            for k in range(3):
                total[k] = h[i]
            for k in range(3):
                total[0] = total[0] + h[k]  # error: WPA410
            out[i] = flatten(p[i], h[i]) + total

        def gradient(p, h, out):
            with wp.Tape() as tape:
                wp.launch(flat, dim=p.shape[0], inputs=[p, h], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )
    GOOD = (
        """
        wp.set_module_options({"enable_vector_component_overwrites": True})

        @wp.kernel
        def lift(p: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.vec3)):
            i = wp.tid()
            v = p[i]
            v[2] = 1.0
            q[i] = v

        def gradient(p, q):
            with wp.Tape() as tape:
                wp.launch(lift, dim=p.shape[0], inputs=[p, q])
            tape.backward(grads={q: wp.ones_like(q)})
        """,
        """
        @wp.kernel
        def compose(steer: wp.array(dtype=float), n: wp.array(dtype=wp.vec3i), out: wp.array(dtype=float)):
            i = wp.tid()
            v = wp.vec3(0.0, steer[i], 0.0)
            v[0] = steer[i]
            v[2] = 3.0 * steer[i]
            v[0] += steer[i]
            v = wp.vec3(1.0)
            v[0] = steer[i]
            k = n[i]
            k[0] = k[0] + 1
            k[0] = k[0] * 2
            out[i] = v[0] + v[1] + v[2]

        def gradient(steer, n, out):
            with wp.Tape() as tape:
                wp.launch(compose, dim=steer.shape[0], inputs=[steer, n], outputs=[out])
            tape.backward(grads={out: wp.ones_like(out)})
        """,
    )

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        if function not in differentiated_functions(function.module):
            return
        if option(function, "enable_vector_component_overwrites", False) is not False:
            return
        for definition in function.flow.defs:
            if definition.kind != "component" or definition.previous is None or definition.site is None:
                continue
            statement = definition.site.statement
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, (ast.Add, ast.Sub)):
                continue
            key = _component(function, definition)
            if key is None or not _is_composite(function, definition.previous):
                continue
            held = _held(function, definition.previous, key, set())
            if held is not None:
                yield self.at(
                    function,
                    definition.node or statement,
                    f"this component of '{definition.name}' held a differentiated value, whose gradient the store does "
                    "not clear",
                    f"it was given on line {held.lineno}",  # type: ignore[attr-defined]
                )


def _is_composite(function: DeviceFunction, definition: Def) -> bool:
    known = function.def_type(definition)
    return isinstance(known, (Vector, Matrix, Quaternion, Transformation)) and is_float(known)


def _component(function: DeviceFunction, definition: Def) -> object:
    """Which component a store is to: a number, numbers, or ``None`` if the text does not tell, or it goes deeper."""
    target = definition.node
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        return _LETTERS.get(target.attr)
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        values = [function.constant(part) for part in parts]
        if any(not isinstance(value, int) for value in values):
            return None
        return values[0] if len(values) == 1 else tuple(values)
    return None


def _held(function: DeviceFunction, definition: Def, key: object, seen: set[int]) -> ast.AST | None:
    """Where a component was given the differentiated value that it holds, if it holds one."""
    if id(definition) in seen:
        return None
    seen.add(id(definition))
    gradients = Gradients.of(function)
    if definition.kind in ("phi", "loop_phi"):
        return next((held for one in definition.sources if (held := _held(function, one, key, seen)) is not None), None)
    if definition.kind == "component" and definition.previous is not None:
        if _component(function, definition) == key and definition.value is not None:
            statement = definition.site.statement if definition.site is not None else None
            if gradients.active(definition.value):
                return definition.node
            if not isinstance(statement, ast.AugAssign):
                return None  # a constant took the place
        return _held(function, definition.previous, key, seen)
    value = definition.value
    if definition.kind == "parameter":
        return definition.node if gradients.active_def(definition) else None
    if definition.kind != "assign" or value is None or definition.index is not None:
        return None
    if isinstance(value, ast.Call) and isinstance(key, int) and len(value.args) > 1:
        name = function.builtin(value)
        if name is not None and name.startswith(("vec", "quat", "vector")) and "_" not in name:
            part = value.args[key] if 0 <= key < len(value.args) else None
            return value if part is not None and gradients.active(part) else None
    return value if gradients.active(value) else None
