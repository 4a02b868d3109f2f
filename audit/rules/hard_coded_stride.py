"""Declares the rule ``hard-coded-stride``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.bounds import guards_on, indices
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.symbolic import Atom, Form


_SHORTEST = 32
"""Shorter ones are numbers of components, not rows."""


class HardCodedStride(Rule):
    """A flat index is built with a fixed row length, while the launch's rows have another one.

    What it finds: ``out[i * 1920 + j]`` of two thread coordinates, with nothing that compares ``j``, where a launch
    of the file takes the inner extent from somewhere else than that constant.

    Why it matters: this is how CUDA kernels are carried over. With another image size the rows overlap, or the last
    ones are written behind the end of the array, silently.

    Instead: declare the array with two dimensions and write ``out[i, j]``, or pass the row length along.
    """

    code = "WPA221"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    BAD = (
        """
        WIDTH = 1920

        @wp.kernel
        def undistort(image: wp.array2d(dtype=float), output: wp.array(dtype=float)):
            i, j = wp.tid()
            output[i * WIDTH + j] = 0.5 * image[i, j]  # error: WPA221

        def run(image, output):
            wp.launch(undistort, dim=image.shape, inputs=[image], outputs=[output])
        """,
    )
    GOOD = (
        """
        WIDTH = 1920

        @wp.kernel
        def undistort(image: wp.array2d(dtype=float), output: wp.array(dtype=float)):
            i, j = wp.tid()
            output[i * WIDTH + j] = 0.5 * image[i, j]

        @wp.kernel
        def guarded(image: wp.array2d(dtype=float), output: wp.array(dtype=float)):
            i, j = wp.tid()
            if j >= WIDTH:
                return
            output[i * WIDTH + j] = 0.5 * image[i, j]

        @wp.kernel
        def strided(image: wp.array2d(dtype=float), output: wp.array(dtype=float)):
            i, j = wp.tid()
            output[i * image.shape[1] + j] = 0.5 * image[i, j]

        def run(image, output):
            wp.launch(undistort, dim=(image.shape[0], WIDTH), inputs=[image], outputs=[output])
            wp.launch(guarded, dim=image.shape, inputs=[image], outputs=[output])
            wp.launch(strided, dim=image.shape, inputs=[image], outputs=[output])
        """,
    )

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        if (kernel.tid_arity or 0) < 2:
            return
        for access in kernel.accesses:
            for _, index, form in indices(kernel, access):
                row = _row(form)
                if row is None:
                    continue
                stride, inner = row
                if guards_on(kernel, access.site, {inner}) or not _launched_otherwise(kernel, inner[1], stride):
                    continue
                yield self.at(
                    kernel,
                    access.node,
                    f"the index '{ast.unparse(index)}' takes rows to be {stride} long, but the launch does not",
                    "use an array of two dimensions, or pass the row length",
                )
                break


def _row(form: Form) -> tuple[int, Atom] | None:
    """The C and the inner coordinate of ``i * C + j``."""
    scaled = [(atom, c) for atom, c in form.terms if atom[0] == "tid" and isinstance(c, int) and c >= _SHORTEST]
    plain = [atom for atom, c in form.terms if atom[0] == "tid" and c == 1]
    if len(scaled) != 1 or len(plain) != 1 or len(form.terms) != 2:
        return None
    ((outer, stride),) = scaled
    return (stride, plain[0]) if plain[0][1] == outer[1] + 1 else None


def _launched_otherwise(kernel: DeviceFunction, axis: int, stride: int) -> bool:
    """Whether a launch of the file has rows of another or an unknown length."""
    for launch in kernel.module.launches_of(kernel):
        if launch.tiled or launch.rank is None:
            continue
        extents = launch.extents
        if extents is None:
            shape = launch.function.constant(launch.dim)
            known = shape[axis] if isinstance(shape, tuple) and axis < len(shape) else None
        else:
            known = launch.function.constant(extents[axis]) if axis < len(extents) else None
        if not isinstance(known, int) or known > stride:
            return True
    return False
