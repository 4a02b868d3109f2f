"""Declares the rule ``launch-arg-name-mismatch``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Place, Replace, Safety
from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.reach import attributes_of
from warp_audit.audit.source.scopes import dotted
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import Launch


class LaunchArgNameMismatch(Rule):
    """An attribute is passed for a parameter, while the same object has an attribute of exactly the parameter's name.

    What it finds: ``ctx.size`` passed for a parameter ``bvh_size``, where the parameter's name ends or begins with the
    attribute's and the object's class, or other code of the file, has ``ctx.bvh_size``.

    Why it matters: both are numbers or arrays of one type, so nothing complains.

    Instead: pass the attribute that the parameter asks for.
    """

    code = "WPA107"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("google-deepmind/mujoco_warp#1131",)
    fix_safety = Safety.UNSAFE
    BAD = (
        """
        @wp.kernel
        def shift(world_count: int, x: wp.array(dtype=int)):
            i = wp.tid()
            x[i] = world_count

        class Scene:
            def __init__(self, count, world_count):
                self.count = count
                self.world_count = world_count

            def run(self, x):
                wp.launch(shift, dim=1, inputs=[self.count, x])  # error: WPA107
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def shift(world_count: int, x: wp.array(dtype=int)):
            i = wp.tid()
            x[i] = world_count

        class Scene:
            def __init__(self, count, world_count):
                self.count = count
                self.world_count = world_count

            def run(self, x, other):
                wp.launch(shift, dim=1, inputs=[self.world_count, x])
                wp.launch(shift, dim=1, inputs=[other.total, x])
        """,
    )

    def launch(self, launch: Launch) -> Iterator[Finding]:
        kernel = launch.kernel
        if kernel is None:
            return
        pairs = launch.pairs(kernel)
        given = {argument.attr for _, argument in pairs if isinstance(argument, ast.Attribute)}
        for parameter, argument in pairs:
            if not isinstance(argument, ast.Attribute) or argument.attr == parameter.name or parameter.name in given:
                continue
            wanted, have = parameter.name, argument.attr
            if have == "id":
                continue  # every object has one
            if not (wanted.endswith("_" + have) or wanted.startswith(have + "_")):
                continue
            base = dotted(argument.value)
            if base is not None and _has(launch, base, wanted, have):
                fix = self.mend(f"pass {base}.{wanted}", Replace(Place.of(argument), f"{base}.{wanted}"))
                yield self.at(
                    launch,
                    argument,
                    f"'{base}.{have}' is passed for '{wanted}', but '{base}' has an attribute '{wanted}'",
                    fix=fix,
                )


def _has(launch: Launch, base: str, wanted: str, have: str) -> bool:
    """Whether the object surely has both attributes: by a class of the file, or by other code of it."""
    if f"{base}.{wanted}" in launch.module.text and re.search(rf"\b{re.escape(base)}\.{wanted}\b", launch.module.text):
        return True
    for scope in launch.module.scope.walk():
        if scope.kind == "class":
            attributes = attributes_of(scope)
            if wanted in attributes and have in attributes:
                return True
    return False
