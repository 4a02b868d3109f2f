"""Declares the rule ``handle-id-escapes``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source.handles import handles
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.host import HostFunction


class HandleIdEscapes(Rule):
    """The id of a mesh, BVH, volume or hash grid outlives the object.

    What it finds: a function that makes such an object, returns or stores its ``id``, and lets the object go;
    also ``wp.Mesh(…).id``, whose object is gone at once.

    Why it matters: an id is an address. Warp frees the memory with the Python object and does not check ids, so a
    kernel that uses one later reads freed memory, and the process may crash.

    Instead: keep the object as long as its id is in use: return it too, or store it in an attribute.
    """

    code = "WPA701"
    severity = Severity.ERROR
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3637",)
    words = (".id",)
    BAD = (
        """
        def collider_id(points, indices):
            mesh = wp.Mesh(points=points, indices=indices)
            return mesh.id  # error: WPA701

        def tree(lower, upper):
            bvh = wp.Bvh(lower, upper)
            ident = wp.uint64(bvh.id)  # error: WPA701
            return {"bvh": ident, "count": lower.shape[0]}
        """,
        """
        @wp.struct
        class Scene:
            mesh: wp.uint64
            scale: float

        class World:
            def __init__(self, points, indices):
                shape = wp.Mesh(points, indices)
                self.scene = Scene()
                self.scene.mesh = shape.id  # error: WPA701

        def scene(points, indices):
            made = Scene()
            shape = wp.Mesh(points, indices)
            made.mesh = shape.id  # error: WPA701
            return made
        """,
        """
        def all_ids(parts):
            ids = []
            for points, indices in parts:
                mesh = wp.Mesh(points, indices)
                ids.append(mesh.id)  # error: WPA701
            return wp.array(ids, dtype=wp.uint64)

        def ids_of(parts):
            meshes = [wp.Mesh(p, i) for p, i in parts]
            return wp.array([mesh.id for mesh in meshes], dtype=wp.uint64)  # error: WPA701

        def query(kernel, parts, out):
            ids = wp.array([wp.Mesh(p, i).id for p, i in parts], dtype=wp.uint64)  # error: WPA701
            wp.launch(kernel, dim=out.shape[0], inputs=[ids, out])
        """,
        """
        def build(points, indices):
            return wp.Mesh(points, indices)

        class Ground:
            def __init__(self, points, indices, field):
                self.mesh = build(points, indices).id  # error: WPA701
                volume = wp.Volume.load_from_numpy(field)
                self.ids = (volume.id, 3)  # error: WPA701
        """,
    )
    GOOD = (
        """
        class Owner:
            def __init__(self, points, indices):
                self.mesh = wp.Mesh(points, indices)
                self.mesh_id = self.mesh.id
                grid = wp.HashGrid(8, 8, 8)
                self.grid_id = grid.id
                self.keep = [grid]

        def pair(points, indices):
            mesh = wp.Mesh(points, indices)
            return mesh, mesh.id

        def cached(points, indices, store):
            mesh = wp.Mesh(points, indices)
            store["mesh"] = mesh
            return mesh.id

        def used_here(kernel, points, indices, out):
            mesh = wp.Mesh(points, indices)
            ids = wp.array([mesh.id], dtype=wp.uint64)
            wp.launch(kernel, dim=1, inputs=[ids, out])
            return out.numpy()

        TABLE = wp.Mesh(wp.zeros(3, dtype=wp.vec3), wp.zeros(3, dtype=int))
        TABLE_ID = TABLE.id
        """,
        """
        def closure(points, indices):
            mesh = wp.Mesh(points, indices)

            def ident():
                return mesh.id

            return ident

        def both(parts):
            meshes = [wp.Mesh(p, i) for p, i in parts]
            return meshes, wp.array([mesh.id for mesh in meshes], dtype=wp.uint64)

        def kept(points, indices, owner):
            mesh = wp.Mesh(points, indices)
            owner.mesh = mesh
            owner.mesh_id = mesh.id
        """,
    )

    def host(self, function: HostFunction) -> Iterator[Finding]:
        uses = handles(function)
        for handle in uses.found:
            if handle.held:
                continue
            what = f"the {handle.kind} '{handle.name}'"
            for node in handle.ids:
                if handle.name is None:
                    yield self.at(
                        function, node, f"the {handle.kind} is destroyed as soon as its id is read",
                        "hold the object in a variable or attribute as long as the id is in use",
                    )  # fmt: skip
                elif uses.escapes(node) is not None:
                    yield self.at(
                        function, node, f"the id outlives {what}, which dies with the function",
                        f"return or store '{handle.name}' too: the id alone keeps nothing alive",
                    )  # fmt: skip
                elif (container := uses.outlived(handle, node)) is not None:
                    yield self.at(
                        function, node, f"the next pass of the loop replaces {what}, and its id stays in '{container}'",
                        f"keep the objects in a list of their own as long as '{container}' is in use",
                    )  # fmt: skip
