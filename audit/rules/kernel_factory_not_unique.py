"""Declares the rule ``kernel-factory-not-unique``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.edits import Fix, Place, Replace, SetKeyword
from warp_audit.audit.rule import Finding, Rule, Safety
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction


class KernelFactoryNotUnique(Rule):
    """A factory makes several kernels of one name in the same module.

    What it finds: a kernel without ``module="unique"`` that reads a parameter or local of the function in which it is
    defined.

    Why it matters: before Warp 1.2.1 the hashes of such kernels collided, and the code of one was used for all.

    Instead: write ``@wp.kernel(module="unique")``, or require a newer Warp.
    """

    code = "WPA735"
    severity = Severity.INFO
    confidence = Confidence.HIGH
    references = ("https://github.com/NVlabs/curobo/commit/14b554b",)
    # The last affected release is 1.2.0.
    below = "1.3"
    fix_safety = Safety.SAFE
    BAD = (
        """
        def make(dof, weights):
            half = dof // 2

            @wp.kernel(enable_backward=False)  # error: WPA735
            def limit(q: wp.array2d(dtype=float), bound: float):
                env = wp.tid()
                for j in range(half):
                    q[env, j] = wp.min(q[env, j], bound)

            return limit
        """,
    )
    GOOD = (
        """
        def make(dof):
            @wp.kernel(module="unique")
            def limit(q: wp.array2d(dtype=float), bound: float):
                env = wp.tid()
                for j in range(dof):
                    q[env, j] = wp.min(q[env, j], bound)

            @wp.kernel
            def clear(q: wp.array2d(dtype=float)):
                env, j = wp.tid()
                q[env, j] = 0.0

            return limit, clear
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if kernel.scope.kind != "function" or "module" in kernel.options or kernel.decorator is None:
            return
        for node in kernel.flow.of(ast.Name):
            definition = kernel.flow.uses.get(node)
            if definition is None or definition.kind != "free":
                continue
            found = kernel.scope.lookup(definition.name)
            if found is None or found[0].kind != "function":
                continue
            if found[1][-1].kind in ("parameter", "assign", "loop"):
                yield self.at(
                    kernel, kernel.decorator, f"'{kernel.name}' depends on '{definition.name}', but all kernels of the "
                    "factory have one name in one module", 'write module="unique"', fix=self._fix(kernel.decorator),
                )  # fmt: skip
                return

    def _fix(self, decorator: ast.expr) -> Fix:
        if isinstance(decorator, ast.Call):
            edit: SetKeyword | Replace = SetKeyword(Place.of(decorator), "module", '"unique"')
        else:
            edit = Replace(Place.of(decorator), f'{ast.unparse(decorator)}(module="unique")')
        return self.mend("Give each kernel a module of its own", edit)
