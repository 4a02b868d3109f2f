"""Declares the rule ``ad-struct-flag-late``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.types import StructType
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class AdStructFlagLate(Rule):
    """An array gets its gradient flag after it was stored in a struct.

    What it finds: ``x.requires_grad = True`` behind ``struct.field = x``, in one function, where the field is not
    assigned again.

    Why it matters: the struct copies what the array is when it is assigned, the address of its gradient too. The flag
    comes too late: the gradient stays zero, without a message.

    Instead: make the array with ``requires_grad=True``, or set the flag before the array goes into the struct.
    """

    code = "WPA402"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    words = ("grad",)
    BAD = (
        """
        @wp.struct
        class Actuator:
            gain: wp.array(dtype=float)
            limit: float

        def make(n):
            gain = wp.ones(n, dtype=float)
            act = Actuator()
            act.gain = gain
            gain.requires_grad = True  # error: WPA402
            return act

        class Model:
            def build(self, n):
                self.gain = wp.ones(n, dtype=float)
                self.act = Actuator()
                self.act.gain = self.gain
                self.act.limit = 1.0
                self.gain.requires_grad = True  # error: WPA402

        def update(n):
            act = Actuator()
            act.gain = wp.ones(n, dtype=float)
            act.gain.requires_grad = True  # error: WPA402
        """,
    )
    GOOD = (
        """
        @wp.struct
        class Actuator:
            gain: wp.array(dtype=float)
            limit: float

        class Plain:
            pass

        def first(n):
            gain = wp.ones(n, dtype=float)
            gain.requires_grad = True
            act = Actuator()
            act.gain = gain
            other = wp.ones(n, dtype=float)
            other.requires_grad = True
            return act, other

        def again(n):
            gain = wp.ones(n, dtype=float)
            act = Actuator()
            act.gain = gain
            gain.requires_grad = True
            act.gain = gain
            plain = Plain()
            plain.gain = gain
            gain.requires_grad = True
            return act, plain
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if ".requires_grad" not in function.text:
            return
        flags: list[tuple[ast.Attribute, str, int]] = []
        stored: list[tuple[str | None, str, str, int, ast.Attribute]] = []
        for statement, site in function.flow.steps.items():
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Attribute):
                continue
            target = statement.targets[0]
            if target.attr == "requires_grad":
                root = function.root_name(target.value)
                wanted = not (isinstance(statement.value, ast.Constant) and not statement.value.value)
                if root is not None and wanted:
                    flags.append((target, root, site.order))
                continue
            value, owner = function.root_name(statement.value), function.root_name(target.value)
            if owner is not None and _is_struct(function, target.value):
                stored.append((value, owner, target.attr, site.order, target))
        for flag, root, order in flags:
            held = {one[1:3]: one for one in stored if one[3] < order}
            for value, owner, field, when, target in held.values():
                again = any(one[1:3] == (owner, field) and one[3] > order for one in stored)
                before = any(one == root and early < when for _, one, early in flags)
                if root in (value, f"{owner}.{field}") and not again and not before:
                    yield self.at(
                        function,
                        flag,
                        f"'{ast.unparse(target)}' has copied the array before it got its gradient, and does not see it",
                        f"it was assigned on line {target.lineno}",
                    )
                    break


def _is_struct(function: HostFunction, node: ast.expr) -> bool:
    """Whether an object is an instance of a ``@wp.struct``."""
    value = function.value_of(node)
    if isinstance(value, ast.Call):
        return isinstance(annotation_type(value.func, function.scope), StructType)
    definition = function.flow.uses.get(value)
    if definition is not None and definition.kind == "parameter" and isinstance(definition.node, ast.arg):
        return isinstance(annotation_type(definition.node.annotation, function.scope), StructType)
    return any(
        isinstance(given, ast.Call) and isinstance(annotation_type(given.func, where.scope), StructType)
        for given, where in function.attribute_values(value)
    )
