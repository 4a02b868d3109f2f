"""The kernels of a build as a table, as JSON, and what was refused."""

from __future__ import annotations

from typing import Any

from warp_audit.debugger.builds import Build
from warp_audit.debugger.kernels import KernelFacts, kernel_facts
from warp_audit.reports.style import printable

_HEAD = ("kernel", "pass", "arch", "block", "regs", "shared", "local", "spills", "instr", "IR ops")


def kernels_json(build: Build) -> dict[str, Any]:
    """The machine format of ``warp-audit compile --json``."""
    return {
        "kernels": [facts.to_json() for facts in kernel_facts(build)],
        "refused": build.refused,
        "failed": [{k: v for k, v in one.items() if k != "traceback"} for one in build.failed],
    }


def table(build: Build) -> str:
    """The kernels, a row each; sizes in bytes: shared a block, local and spills a thread."""
    rows = [_row(facts) for facts in kernel_facts(build)]
    if not rows:
        return "no kernels compiled"
    widths = [max(len(row[i]) for row in [_HEAD, *rows]) for i in range(len(_HEAD))]
    lines = []
    for row in [_HEAD, *rows]:
        cells = [cell.ljust(w) if i < 3 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _row(facts: KernelFacts) -> tuple[str, ...]:
    numbers = (
        facts.block_dim, facts.registers, facts.shared_bytes, facts.local_bytes, facts.spills,
        facts.instructions, facts.ir_ops,
    )  # fmt: skip
    return (printable(facts.name), facts.passed, facts.arch, *("?" if n is None else str(n) for n in numbers))


def refusals_text(build: Build) -> str:
    """What could not be built, each with its reason and what to do; empty when all was."""
    lines: list[str] = []
    for one in build.failed:
        lines.append(f"{one['file']}:{one['line']}: {one['target']} failed: {one['message']}")
    for one in build.refused:
        place = f"{one['file']}:{one['line']}: " if one["file"] else ""
        lines.append(f"{place}kernel {one['kernel']} not built: {one['reason']}")
        if one["hint"]:
            lines.append(f"  hint: {one['hint']}")
    return "\n".join(map(printable, lines))
