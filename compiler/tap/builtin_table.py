"""Prints the table of Warp's builtins that ``compiler/ops/builtins.txt`` holds.

Run ``python -m warp_audit.compiler.tap.builtin_table TABLE`` with a new Warp installed: it
merges that version's builtins into the table, so that the table serves all versions.
"""

from __future__ import annotations

import sys
from pathlib import Path

_GENERATED = ("store", "atomic_add", "atomic_sub", "atomic_bit_and", "atomic_bit_or", "atomic_bit_xor")


def current() -> dict[str, list[str]]:
    """Key → native names, of the installed Warp."""
    from warp._src import context

    table: dict[str, list[str]] = {}
    for key, function in context.builtin_functions.items():
        if not function.is_builtin():
            continue  # written in Python on top of the others: an ordinary function
        for overload in getattr(function, "overloads", None) or [function]:
            native = f"{overload.namespace}{overload.native_func}"
            table.setdefault(key, [])
            if native not in table[key]:
                table[key].append(native)
    # Written by the code generator itself, not registered as builtins.
    for name in _GENERATED:
        table.setdefault(f"array_{name}_slot", [f"wp::array_{name}_slot"])
    return table


def main(path: Path) -> None:
    """Merge the installed Warp's builtins into the table at ``path``."""
    table = current()
    if path.exists():
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                key, *natives = line.split()
                known = table.setdefault(key, [])
                known.extend(n for n in natives if n not in known)
    lines = ["# Warp's builtins: key, then its native functions, the usual one first."]
    for key in sorted(table):
        natives = sorted(table[key], key=lambda native: (native != f"wp::{key}", table[key].index(native)))
        lines.append(" ".join([key, *natives]))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
