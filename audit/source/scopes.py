"""Scopes and what names are bound to in them, without regard to order."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warp_audit.audit.source.module import Module

FunctionNode: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"


@dataclass(slots=True, eq=False)
class Binding:
    """One way a name gets its value.

    ``kind`` is ``import`` (``target`` is the qualified name), ``assign`` (``value`` is the expression, ``index`` its
    element when a tuple is unpacked), ``function``, ``class``, ``parameter``, ``loop`` (``value`` is what is
    iterated), ``with`` (``value`` is the context manager), or ``other``.
    """

    kind: str
    node: ast.AST
    value: ast.expr | None = None
    index: int | None = None
    target: str = ""


class Scope:
    """A module, a class body or a function, with the names bound in it."""

    __slots__ = (
        "bindings", "calls", "children", "contexts", "kind", "module", "name", "node", "parent", "returns", "uses_warp",
    )  # fmt: skip

    def __init__(self, kind: str, node: ast.AST, parent: Scope | None, module: Module, name: str) -> None:
        self.kind = kind
        self.node = node
        self.parent = parent
        self.module = module
        self.name = name
        self.bindings: dict[str, list[Binding]] = {}
        self.calls: list[ast.Call] = []
        self.contexts: list[ast.withitem] = []
        self.children: list[Scope] = []
        self.returns: list[ast.expr] = []
        self.uses_warp = False

    @property
    def qualified(self) -> str:
        """The name as Python writes it: ``Class.method``, ``outer.inner``."""
        if self.parent is None or self.parent.kind == "module":
            return self.name
        return f"{self.parent.qualified}.{self.name}"

    def bind(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """Where a name is bound, as Python looks it up: class bodies are skipped from inside."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.bindings.get(name)
            if found is not None and (scope.kind != "class" or scope is self):
                return scope, found
            scope = scope.parent
        return None

    def enclosing(self, kind: str) -> Scope | None:
        """The nearest scope of a kind around this one."""
        scope = self.parent
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope

    def walk(self) -> Iterator[Scope]:
        """This scope and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` of a chain of attributes on a name."""
    if node.__class__ is ast.Name:
        return node.id
    text = ""
    while node.__class__ is ast.Attribute:
        text = f".{node.attr}{text}"
        node = node.value
    return node.id + text if node.__class__ is ast.Name else None


# Places inside Warp that its public names are also reached by; the longest first.
_INSIDE_WARP = (
    "warp._src.context.", "warp._src.types.", "warp._src.codegen.", "warp._src.tape.", "warp._src.utils.",
    "warp._src.torch.", "warp._src.builtins.", "warp.context.", "warp.types.", "warp.codegen.", "warp.tape.",
    "warp.torch.", "warp.builtins.",
)  # fmt: skip


def canonical(name: str) -> str:
    """The public name of something of Warp's: ``warp.context.launch`` is ``warp.launch``."""
    if name.startswith("warp.") and name.count(".") > 1:
        for prefix in _INSIDE_WARP:
            if name.startswith(prefix):
                return "warp." + name[len(prefix) :]
    return name
