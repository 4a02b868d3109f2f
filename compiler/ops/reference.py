"""Writes the IR reference from the declarations: ``python -m warp_audit.compiler.ops.reference``."""

from __future__ import annotations

import inspect

from warp_audit.compiler.ir.expr import WIR
from warp_audit.compiler.ops import builtins
from warp_audit.compiler.ops.assemble import read_op
from warp_audit.compiler.ops.kind import Scope, kinds

_HEAD = """\
# IR reference

Made from the declarations in `compiler/ops`; do not edit. A module is one `.wir` file, an op one line:

    results = name(operands) !mode space target[index] {attributes} <forward node @source:line:column-line:column

`%7` is a value, `^7` its adjoint. `!` states the memory that the op touches, `<` the forward op that an op of
the reverse pass belongs to, `@` the Python expression that it comes from. Regions stand in braces: `forward`,
and where there is a backward pass `replay` and `reverse`. Each op is one statement of the code that Warp
generates; the example shows that statement and the op.
"""


def reference() -> str:
    """The reference as Markdown."""
    parts = [_HEAD]
    for kind in sorted(kinds(), key=lambda kind: (not kind.name, kind.name or type(kind).__name__)):
        op = read_op(kind.example, Scope(functions=frozenset({"area_0"}), structs=frozenset({"Particle_1a2b3c4d"})))
        title = f"`{kind.name}`" if kind.name else _title(type(kind).__name__)
        effects = ", ".join(sorted(kind.affects(op))) or "none"
        results = ", ".join(result.text(WIR) for result in op.results)
        operands = ", ".join(operand.text(WIR) for operand in op.operands)
        shown = op.attrs["text"] if op.name == "note" else f"{results + ' = ' if results else ''}{op.name}({operands})"
        parts.append(
            f"## {title}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\nEffects of the example: {effects}.\n\n"
            f"```\n{kind.example}\n{shown}\n```\n"
        )
    parts.append("## Builtins by effect\n")
    groups: dict[str, list[str]] = {}
    for key in builtins.all_keys():
        groups.setdefault(", ".join(sorted(builtins.effects(key))) or "none", []).append(key)
    for effects in sorted(groups):
        parts.append(f"**{effects}**: {', '.join(f'`{key}`' for key in groups[effects])}\n")
    return "\n".join(parts)


def _title(name: str) -> str:
    return "".join(f" {char.lower()}" if char.isupper() else char for char in name).strip().capitalize()


if __name__ == "__main__":
    print(reference(), end="")
