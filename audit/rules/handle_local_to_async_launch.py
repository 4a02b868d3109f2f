"""Declares the rule ``handle-local-to-async-launch``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.captures import capture_of
from warp_audit.audit.source.constants import constant
from warp_audit.audit.source.handles import Handles, handles
from warp_audit.audit.source.waiting import on_host, roots, waits_between
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction, Launch


class HandleLocalToAsyncLaunch(Rule):
    """A mesh, BVH, volume or hash grid dies at the end of a function that only launched a kernel on it.

    What it finds: a launch that gets the id of an object made in the same function, where nothing keeps the object
    and nothing waits for the device before the function ends.

    Why it matters: the launch returns at once and the object is freed while the kernel may still run on a GPU.
    Warp holds the arrays of a launch, but an id is a number to it.

    Instead: keep the object with whoever uses the results, or wait for the device (a readback does) before the end.
    """

    code = "WPA702"
    severity = Severity.WARNING
    confidence = Confidence.MEDIUM
    references = ("newton-physics/newton#1792",)
    words = (".id",)
    BAD = (
        """
        @wp.kernel
        def inside(mesh: wp.uint64, p: wp.array(dtype=wp.vec3), sign: wp.array(dtype=float)):
            i = wp.tid()
            q = wp.mesh_query_point(mesh, p[i], 10.0)
            sign[i] = q.sign

        def classify(points, indices, p, sign):
            mesh = wp.Mesh(points=points, indices=indices)
            ident = mesh.id
            wp.launch(kernel=inside, dim=p.shape[0], inputs=[ident, p], outputs=[sign])  # error: WPA702
            print("done")

        def classify_new(points, indices, p):
            sign = wp.empty(p.shape[0], dtype=float)
            mesh = wp.Mesh(points=points, indices=indices)
            wp.launch(inside, p.shape[0], [mesh.id, p, sign])  # error: WPA702
            return sign
        """,
        """
        @wp.struct
        class Query:
            grid: wp.uint64
            radius: float

        @wp.kernel
        def count(query: Query, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(query.grid, p[i], query.radius):
                n[i] += 1

        class Counter:
            def run(self, p):
                grid = wp.HashGrid(8, 8, 8)
                grid.build(p, 0.1)
                query = Query()
                query.grid = grid.id
                query.radius = 0.1
                wp.launch(count, dim=len(p), inputs=[query, p, self.n])  # error: WPA702
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def inside(mesh: wp.uint64, p: wp.array(dtype=wp.vec3), sign: wp.array(dtype=float)):
            i = wp.tid()
            q = wp.mesh_query_point(mesh, p[i], 10.0)
            sign[i] = q.sign

        def waited(points, indices, p, sign):
            mesh = wp.Mesh(points=points, indices=indices)
            wp.launch(inside, dim=p.shape[0], inputs=[mesh.id, p], outputs=[sign])
            finish()

        def finish():
            wp.synchronize()

        def read_back(points, indices, p, sign):
            mesh = wp.Mesh(points=points, indices=indices)
            wp.launch(inside, dim=p.shape[0], inputs=[mesh.id, p], outputs=[sign])
            return float(sign.numpy().min())

        def handed_on(points, indices, p, sign, keep):
            mesh = wp.Mesh(points=points, indices=indices)
            wp.launch(inside, dim=p.shape[0], inputs=[mesh.id, p], outputs=[sign])
            keep.append(mesh)

        def on_cpu(points, indices, p, sign):
            mesh = wp.Mesh(points=points, indices=indices)
            wp.launch(inside, dim=p.shape[0], inputs=[mesh.id, p], outputs=[sign], device="cpu")

        MESH = wp.Mesh(points=wp.zeros(3, dtype=wp.vec3), indices=wp.zeros(3, dtype=int))

        def global_mesh(p, sign):
            wp.launch(inside, dim=p.shape[0], inputs=[MESH.id, p], outputs=[sign])
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        if not function.launches:
            return
        uses = handles(function)
        for handle in uses.found:
            if handle.held or handle.name is None:
                continue
            for launch in _launches(uses, handle.ids):
                recorded = launch.argument("record_cmd")
                if recorded is not None and constant(recorded, function.scope) is not False:
                    continue
                if capture_of(function, launch.site) is not None or on_host(launch):
                    continue
                if not waits_between(function, launch.site, arrays=roots(launch)):
                    what = f"the {handle.kind} '{handle.name}'"
                    yield self.at(
                        function, launch.node, f"{what} is freed when '{function.name}' ends, while the kernel may "
                        "still run",
                        f"keep '{handle.name}' with the results, or call wp.synchronize_device() before the end",
                    )  # fmt: skip


def _launches(uses: Handles, ids: list[ast.expr]) -> list[Launch]:
    return list(dict.fromkeys(launch for node in ids for launch in uses.launches_with(node)))
