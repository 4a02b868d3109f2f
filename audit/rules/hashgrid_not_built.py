"""Declares the rule ``hashgrid-not-built``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warp_audit.audit.rule import Finding, Rule
from warp_audit.audit.source import reach
from warp_audit.audit.source.flow import Def
from warp_audit.audit.source.handles import handles
from warp_audit.audit.source.walk import walk
from warp_audit.diagnostic import Confidence, Severity

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import HostFunction
    from warp_audit.audit.source.module import Module
    from warp_audit.audit.source.scopes import Scope


class HashgridNotBuilt(Rule):
    """A kernel queries a hash grid that was never built.

    What it finds: a launch that gets the id of a ``wp.HashGrid`` made in the same function, or kept in an attribute of
    the class, where nothing calls ``build`` on the grid before.

    Why it matters: a new grid is empty. Queries find no neighbour, and Warp says nothing.

    Instead: call ``grid.build(points, radius)`` before the launch, and again whenever the points have moved.
    """

    code = "WPA704"
    severity = Severity.WARNING
    confidence = Confidence.HIGH
    references = ("newton-physics/newton#3467",)
    words = ("HashGrid",)
    BAD = (
        """
        @wp.kernel
        def count(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        def crowd(p, n):
            grid = wp.HashGrid(dim_x=8, dim_y=8, dim_z=8)
            grid.reserve(p.shape[0])
            ident = grid.id
            wp.launch(count, dim=p.shape[0], inputs=[ident, p], outputs=[n])  # error: WPA704
            return n.numpy(), grid

        def too_late(p, n):
            grid = wp.HashGrid(8, 8, 8)
            wp.launch(count, dim=p.shape[0], inputs=[grid.id, p, n])  # error: WPA704
            grid.build(p, 0.1)
            wp.launch(count, dim=p.shape[0], inputs=[grid.id, p, n])
            return n.numpy()
        """,
        """
        @wp.kernel
        def count(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        class Crowd:
            def __init__(self, device):
                self.cells = wp.HashGrid(8, 8, 8, device=device)

            def step(self, p, n):
                wp.launch(count, dim=len(p), inputs=[self.cells.id, p, n])  # error: WPA704
                ident = self.cells.id
                wp.launch(count, dim=len(p), inputs=[ident, p, n])  # error: WPA704
        """,
    )
    GOOD = (
        """
        @wp.kernel
        def count(grid: wp.uint64, p: wp.array(dtype=wp.vec3), n: wp.array(dtype=int)):
            i = wp.tid()
            for _ in wp.hash_grid_query(grid, p[i], 0.1):
                n[i] += 1

        def built(p, n, first):
            grid = wp.HashGrid(8, 8, 8)
            if first:
                grid.build(p, 0.1)
            wp.launch(count, dim=p.shape[0], inputs=[grid.id, p, n])
            return n.numpy()

        def built_by(fill, p, n):
            grid = wp.HashGrid(8, 8, 8)
            fill(grid, p)
            wp.launch(count, dim=p.shape[0], inputs=[grid.id, p, n])
            return n.numpy()

        class Crowd:
            def __init__(self):
                self.cells = wp.HashGrid(8, 8, 8)

            def step(self, p, n):
                cells = self.cells
                cells.build(p, 0.1)
                wp.launch(count, dim=len(p), inputs=[self.cells.id, p, n])

        class Lazy:
            def __init__(self):
                self.grid = wp.HashGrid(8, 8, 8)

        class Reader:
            def step(self, owner, p, n):
                wp.launch(count, dim=len(p), inputs=[owner.grid.id, p, n])
        """,
    )

    def module(self, module: Module) -> Iterator[Finding]:
        if "HashGrid" not in module.text:
            return
        for function in module.host_functions:
            if "HashGrid" in function.called:
                yield from self._local(function)
        for scope in module.scope.walk():
            if scope.kind == "class":
                yield from self._attributes(module, scope)

    def _local(self, function: HostFunction) -> Iterator[Finding]:
        uses = handles(function)
        for handle in uses.found:
            if handle.kind != "hash grid" or handle.definition is None or handle.name in uses.inner:
                continue
            builds = _builds(function, handle.definition, uses.parents)
            if builds is None:
                continue
            for node in handle.ids:
                for launch in uses.launches_with(node):
                    if not any(_may_precede(build, launch.site) for build in builds):
                        yield self.at(
                            function, launch.node, f"the hash grid '{handle.name}' is queried but was not built",
                            f"call {handle.name}.build(points, radius) before the launch",
                        )  # fmt: skip

    def _attributes(self, module: Module, owner: Scope) -> Iterator[Finding]:
        for name, values in reach.attributes_of(owner).items():
            if not values or not all(_is_grid(value, where) for value, where in values):
                continue
            attributes = [node for node in walk(module.tree) if isinstance(node, ast.Attribute)]
            uses = [node for node in attributes if node.attr == name]
            ids = {id(node.value) for node in attributes if node.attr == "id"}
            if any(isinstance(node.ctx, ast.Load) and id(node) not in ids for node in uses):
                continue  # built, handed on or looked at in some other way
            wanted = {id(node) for node in uses}
            for launch in module.launches:
                if launch.function.class_scope is not owner:
                    continue
                given = [launch.function.value_of(one) for one in (*(launch.inputs or []), *(launch.outputs or []))]
                if any(id(part) in wanted for argument in given for part in walk(argument)):
                    yield self.at(
                        module, launch.node, f"the hash grid '{name}' is queried but never built in this file",
                        f"call self.{name}.build(points, radius) before the launch",
                    )  # fmt: skip


def _is_grid(value: ast.expr, where: Scope) -> bool:
    return isinstance(value, ast.Call) and where.module.qualified(value.func, where) == "warp.HashGrid"


def _builds(function: HostFunction, definition: Def, parents: dict[ast.AST, ast.AST]) -> list[Site] | None:
    """Where a local grid is built; ``None`` if it goes where it may be built out of sight."""
    found: list[Site] = []
    for read in function.flow.reads_of(definition):
        parent = parents.get(read)
        if isinstance(parent, ast.Attribute):
            if parent.attr == "build":
                found.append(function.flow.sites[parent])
        elif not isinstance(parent, (ast.Return, ast.Tuple, ast.List, ast.Compare, ast.Delete, ast.Dict)):
            return None
    return found


def _may_precede(build: Site, launch: Site) -> bool:
    return build.order <= launch.order or bool(set(build.loops) & set(launch.loops))
