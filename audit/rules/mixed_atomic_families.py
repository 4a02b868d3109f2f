"""Declares the rule ``mixed-atomic-families``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import races
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.races import Touch

_FAMILIES = {"atomic_add": "sum", "atomic_sub": "sum", "atomic_min": "minimum", "atomic_max": "maximum"}


class MixedAtomicFamilies(Rule):
    """A kernel applies different kinds of atomic reduction to one array.

    What it finds: two of sum (``wp.atomic_add``, ``wp.atomic_sub``, ``+=``, ``-=``), ``wp.atomic_min`` and
    ``wp.atomic_max`` on the same array in one kernel.

    Why it matters: on one element the result depends on the order of the threads. On different elements it is
    right, but Warp's deterministic mode takes one kind for each array and refuses to compile the module.

    Instead: use an array for each kind, or a launch for each.
    """

    code = "WPA306"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("google-deepmind/mujoco_warp#1590",)
    BAD = (
        """
        @wp.kernel
        def statistics(force: wp.array2d(dtype=float), stats: wp.array(dtype=float)):
            env, c = wp.tid()
            wp.atomic_max(stats, 2 * env, force[env, c])
            wp.atomic_add(stats, 2 * env + 1, force[env, c])  # error: WPA306
        """,
        """
        @wp.func
        def widen(box: wp.array(dtype=float), x: float):
            wp.atomic_min(box, 0, x)
            wp.atomic_max(box, 1, x)  # error: WPA306

        @wp.kernel
        def extent(x: wp.array(dtype=float), box: wp.array(dtype=float)):
            i = wp.tid()
            widen(box, x[i])
            box[2] += 1.0
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def statistics(force: wp.array2d(dtype=float), peak: wp.array(dtype=float), total: wp.array(dtype=float)):
            env, c = wp.tid()
            wp.atomic_max(peak, env, force[env, c])
            wp.atomic_add(total, env, force[env, c])
            total[env] -= 1.0
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if not any(effect.atomics for effect in kernel.effects.values()):
            return
        first: dict[str, tuple[str, Touch]] = {}
        reported: set[str] = set()
        for touch in races.touches(kernel):
            family = _family(touch) if touch.access.atomic else None
            if family is None or touch.root in reported:
                continue
            known, before = first.setdefault(touch.root, (family, touch))
            if known != family:
                reported.add(touch.root)
                yield self.at(
                    kernel,
                    touch.node,
                    f"'{touch.root}' is reduced by a {known} and by a {family} in one kernel",
                    f"the {known} is taken on line {before.access.node.lineno}",
                )


def _family(touch: Touch) -> str | None:
    access = touch.access
    if access.builtin is not None:
        return _FAMILIES.get(access.builtin)
    operator = getattr(access.site.statement, "op", None)
    return "sum" if isinstance(operator, (ast.Add, ast.Sub)) else None
