"""SASS text by NVIDIA's own disassembler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from warp_audit.errors import ToolFailed

_FUNCTION = re.compile(r"\.text\.(\S+):")
_PREFIX = re.compile(r"nvdisasm \w+\s*: ")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")


def find_nvdisasm() -> Path:
    """The disassembler: of the PyPI package, on the PATH, or of an installed toolkit.

    Raises:
        ToolFailed: there is none.
    """
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    for folder in sys.path:
        for found in sorted(Path(folder).glob(f"nvidia/*/bin/{name}"), reverse=True):
            return found
    if on_path := shutil.which("nvdisasm"):
        return Path(on_path)
    toolkit = Path("/usr/local/cuda/bin/nvdisasm")
    if toolkit.is_file():
        return toolkit
    raise ToolFailed("nvdisasm is not installed", hint="pip install nvidia-cuda-nvdisasm")


def disassemble(cubin: Path, nvdisasm: Path | None = None) -> dict[str, list[tuple[int, str]]]:
    """The instructions of each function of a cubin: (pc, text) pairs, ascending.

    Args:
        nvdisasm: the program to run; found if not given.

    Raises:
        ToolFailed: nvdisasm is absent or fails; with its message.
    """
    command = [str(nvdisasm or find_nvdisasm()), "-c", str(cubin)]
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as wrong:
        raise ToolFailed(f"nvdisasm could not be started: {wrong.strerror}", command=shown) from None
    functions: dict[str, list[tuple[int, str]]] = {}
    current: list[tuple[int, str]] = []
    for line in done.stdout.splitlines():
        if match := _INSTRUCTION.match(line):
            current.append((int(match[1], 16), " ".join(match[2].split())))
        elif match := _FUNCTION.match(line):
            current = functions.setdefault(match[1], [])
    if done.returncode:
        output = done.stderr.strip()
        reason = _PREFIX.sub("", output.partition("\n")[0]) or f"it ended with code {done.returncode}"
        raise ToolFailed(f"nvdisasm could not read {cubin.name}: {reason}", command=shown, output=output)
    return functions
