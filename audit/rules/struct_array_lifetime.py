"""Declares the rule ``struct-array-lifetime``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.annotations import annotation_type
from warp_audit.audit.source.lifetime import escapes, is_kept
from warp_audit.audit.source.types import Array, StructType
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.module import Struct


class StructArrayLifetime(Rule):
    """Structs that hold arrays are packed into an array and dropped.

    What it finds: ``wp.array(items, dtype=S)`` where the struct ``S`` has array fields, the result leaves the
    function, and the structs are kept nowhere.

    Why it matters: the packed data holds only pointers. When the structs go, so do their arrays, and kernels read freed
    memory.

    Instead: keep the list of structs, or of their arrays, as long as the packed array.
    """

    code = "WPA123"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("NVIDIA/warp#668",)
    calls = frozenset(("array",))
    BAD = (
        """
        @wp.struct
        class Rope:
            points: wp.array(dtype=wp.vec3)

        class Scene:
            def __init__(self, n):
                ropes = []
                for _ in range(n):
                    r = Rope()
                    r.points = wp.zeros(8, dtype=wp.vec3)
                    ropes.append(r)
                self.ropes = wp.array(ropes, dtype=Rope)  # error: WPA123
        """,
    )
    GOOD = (
        """
        @wp.struct
        class Rope:
            points: wp.array(dtype=wp.vec3)

        @wp.struct
        class Bead:
            mass: float

        class Scene:
            def __init__(self, n, made):
                ropes = [Rope() for _ in range(n)]
                self.keep = ropes
                self.ropes = wp.array(ropes, dtype=Rope)
                self.others = wp.array(made, dtype=Rope)
                beads = [Bead() for _ in range(n)]
                self.beads = wp.array(beads, dtype=Bead)
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        for call in function.calls:
            if call.name != "warp.array" or not call.node.args or not isinstance(call.node.args[0], ast.Name):
                continue
            dtype = annotation_type(call.argument("dtype", 1), function.scope)
            if not isinstance(dtype, StructType) or dtype.declared is None or not _holds_arrays(dtype.declared):
                continue
            definition = function.flow.uses.get(call.node.args[0])
            origins = definition.origins() if definition is not None else []
            if not origins or any(origin.kind != "assign" or origin.value is None for origin in origins):
                continue
            if any(not isinstance(origin.value, (ast.List, ast.ListComp, ast.Call)) for origin in origins):
                continue
            if escapes(function, call.node) and not any(is_kept(function, origin) for origin in origins):
                name = call.node.args[0].id
                yield self.at(
                    function, call.node, f"the arrays that the structs of '{name}' hold are freed when "
                    f"'{function.name}' ends",
                    f"keep '{name}' beside the packed array",
                )  # fmt: skip


def _holds_arrays(struct: Struct) -> bool:
    return any(isinstance(struct.type_of(name), Array) for name in struct.fields)
