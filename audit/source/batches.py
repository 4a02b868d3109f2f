"""Tables that environments share, and those that have a row for each, as the kernels of a file treat them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from warp_audit.audit.source.symbolic import Form

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Def
    from warp_audit.audit.source.module import Module


def wrapped_tables(module: Module) -> dict[str, int]:
    """Arrays that a kernel or func indexes by a coordinate modulo their own length, and where it does so first."""
    found: dict[str, int] | None = module.__dict__.get("_wrapped_tables")
    if found is None:
        found = module.__dict__["_wrapped_tables"] = {}
        if "%" in module.text:
            for function in module.device_functions:
                for access in function.accesses:
                    if (
                        len(access.root) > 2
                        and access.indices
                        and _wraps(function.symbols.form(access.indices[0]), access.root)
                    ):
                        found.setdefault(access.root, access.node.lineno)
    return found


def written_tables(module: Module) -> dict[str, int]:
    """Arrays that a kernel writes or adds to at a bare thread coordinate, and where it does so first."""
    found: dict[str, int] | None = module.__dict__.get("_written_tables")
    if found is None:
        found = module.__dict__["_written_tables"] = {}
        for kernel in module.kernels:
            for access in kernel.accesses:
                if (access.writes or access.atomic) and access.indices:
                    atom = kernel.symbols.form(access.indices[0]).single()
                    if atom is not None and atom[0] == "tid":
                        found.setdefault(access.root, access.node.lineno)
    return found


def own_wraps(function: DeviceFunction) -> list[tuple[Def, Form]]:
    """Local variables that are a value modulo the length of an array: ``row = env % table.shape[0]``."""
    found = []
    for definition in function.flow.defs:
        if definition.kind == "assign" and definition.index is None and definition.value is not None:
            if _is_wrap(function, definition.value):
                form = function.symbols.of_def(definition)
                atom = form.single()
                inner = atom[2].single() if atom is not None and atom[0] == "mod" else None
                if inner is not None and inner[0] == "shape" and inner[2] == 0:
                    found.append((definition, form))
    return found


def _is_wrap(function: DeviceFunction, value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return function.builtin(value) in ("mod", "int", "int32")
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod)


def _wraps(form: Form, root: str) -> bool:
    atom = form.single()
    return (
        atom is not None
        and atom[0] == "mod"
        and atom[2] == Form.of(("shape", root, 0))
        and atom[1].single() is not None
    )
