"""Whether values outlive the function that makes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.host import HostFunction


def escapes(function: HostFunction, made: ast.expr) -> bool:
    """Whether the value of an expression leaves the function: it is returned, or kept in an attribute."""
    statement = function.flow.sites[made].statement
    if isinstance(statement, ast.Return):
        return _is_part(made, statement.value)
    if isinstance(statement, ast.Assign):
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets):
            return _is_part(made, statement.value)
        if statement.value is made:
            return any(is_kept(function, one) for one in function.flow.defs if one.value is made)
    return False


def is_kept(function: HostFunction, definition: Def) -> bool:
    """Whether a local value is returned, or stored in an attribute, a container of an object, or a global."""
    reads = set(function.flow.reads_of(definition))
    for statement in function.flow.steps:
        if isinstance(statement, ast.Return) and statement.value is not None:
            if any(_is_part(read, statement.value) for read in reads if isinstance(read, ast.expr)):
                return True
        elif isinstance(statement, ast.Assign):
            outside = any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets)
            if outside and any(_is_part(read, statement.value) for read in reads if isinstance(read, ast.expr)):
                return True
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Attribute) and call.func.attr in (
                "append",
                "extend",
                "add",
                "update",
                "insert",
            ):
                receiver = call.func.value
                kept = isinstance(receiver, ast.Attribute) or _is_outside(function, receiver)
                if kept and any(argument in reads for argument in call.args):
                    return True
    return False


def _is_outside(function: HostFunction, node: ast.expr) -> bool:
    definition = function.flow.uses.get(node)
    return definition is not None and definition.kind in ("free", "parameter")


def _is_part(node: ast.expr, whole: ast.expr | None) -> bool:
    """Whether a value itself, not something computed from it, is the whole or an item of it."""
    if whole is node:
        return True
    if isinstance(whole, (ast.Tuple, ast.List)):
        return any(_is_part(node, item) for item in whole.elts)
    if isinstance(whole, ast.Dict):
        return any(_is_part(node, item) for item in whole.values)
    return False
