"""The kernels of a build with their resources: what `compile` lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from warp_audit.debugger.builds import Build
from warp_audit.debugger.index import Code


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A compiled kernel, forward or backward.

    ``shared_bytes`` a block, static and what Warp's tiles ask for at launch; ``local_bytes`` a
    thread, its stack frame; ``spills`` the bytes that its spill stores write, as ``ptxas -v`` states them.
    """

    name: str
    mangled: str
    passed: str
    arch: str
    block_dim: int
    registers: int | None
    shared_bytes: int
    local_bytes: int | None
    spills: int | None
    instructions: int
    ir_ops: int
    files: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """The kernel as the machine format has it."""
        return {
            "name": self.name,
            "mangled": self.mangled,
            "pass": self.passed,
            "arch": self.arch,
            "block_dim": self.block_dim,
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "local_bytes": self.local_bytes,
            "spills": self.spills,
            "instructions": self.instructions,
            "ir_ops": self.ir_ops,
            "files": self.files,
        }


def kernel_facts(build: Build) -> list[KernelFacts]:
    """Every compiled kernel of a build, those asked for if some were."""
    found: list[KernelFacts] = []
    for unit in build.units:
        index = build.index(unit)
        folder = unit.folder
        meta = json.loads((build.root / folder / "unit.json").read_text()).get("meta", {})
        files = {
            "wir": f"{folder}/module.wir", "cu": f"{folder}/module.cu",
            "ptx": f"{folder}/module.ptx", "cubin": f"{folder}/module.cubin",
        }  # fmt: skip
        order = index.entity_lines()
        for code in sorted(index.codes(), key=lambda c: (order.get(c.kernel, (0, 0)), c.passed == "backward", c.name)):
            name = unit.kernels.get(code.kernel) or unit.kernels.get(code.name)
            if name is None or not _asked(name, code, build.only):
                continue
            found.append(
                KernelFacts(
                    name,
                    code.name,
                    code.passed,
                    unit.arch,
                    unit.block_dim,
                    code.registers,
                    code.shared + int(meta.get(f"{code.name}_smem_bytes", 0)),
                    code.local,
                    code.spills,
                    index.instruction_count(code),
                    index.op_count(code),
                    files,
                )  # fmt: skip
            )
    return found


def _asked(name: str, code: Code, only: tuple[str, ...]) -> bool:
    return not only or any(one in (name, name.rpartition(".")[2], code.kernel, code.name) for one in only)
