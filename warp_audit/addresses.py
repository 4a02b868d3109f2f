"""Typed addresses: what kind of place an address names is part of the value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warp_audit.errors import BadInput


@dataclass(frozen=True, slots=True)
class SassPc:
    """An instruction: a function (or part of its name) and the offset in bytes in its code."""

    function: str
    offset: int

    def __str__(self) -> str:
        return f"{self.function}+{self.offset:#x}"


@dataclass(frozen=True, slots=True)
class PtxLine:
    """A line of the PTX, from 1."""

    line: int

    def __str__(self) -> str:
        return f"ptx:{self.line}"


@dataclass(frozen=True, slots=True)
class CudaLine:
    """A line of the generated CUDA C++, from 1."""

    line: int

    def __str__(self) -> str:
        return f"cu:{self.line}"


@dataclass(frozen=True, slots=True)
class IrNode:
    """An IR node: its line in the module's ``.wir`` file."""

    node: int

    def __str__(self) -> str:
        return f"ir:{self.node}"


@dataclass(frozen=True, slots=True)
class PythonPlace:
    """A line of a Python file, or a column in it; both from 1."""

    file: str
    line: int
    column: int | None = None

    def __str__(self) -> str:
        column = f":{self.column}" if self.column is not None else ""
        return f"{self.file}:{self.line}{column}"


Address = SassPc | PtxLine | CudaLine | IrNode | PythonPlace

_NUMBER = r"(0[xX][0-9a-fA-F]{1,16}|\d{1,18})"
_PLUS = re.compile(rf"(.+)\+{_NUMBER}")
_AT = re.compile(rf"{_NUMBER}@(.+)")
_PREFIXED = re.compile(r"(ptx|ir|cu):(\d{1,9})")
_PYTHON = re.compile(r"(.+?):(\d{1,9})(?::(\d{1,9}))?")

FORMS = "kernel+0x1710, 0x1710@kernel, ptx:LINE, cu:LINE, ir:NODE, or file.py:LINE[:COLUMN]"


def parse_address(text: str) -> Address:
    """The address that ``text`` spells.

    Raises:
        BadInput: it spells none; the message lists the forms.
    """
    stripped = text.strip()
    if match := _PREFIXED.fullmatch(stripped):
        number = int(match[2])
        return PtxLine(number) if match[1] == "ptx" else IrNode(number) if match[1] == "ir" else CudaLine(number)
    if match := _AT.fullmatch(stripped):
        return SassPc(match[2].strip(), int(match[1], 0))
    if match := _PLUS.fullmatch(stripped):
        return SassPc(match[1].strip(), int(match[2], 0) if match[2][:2] in ("0x", "0X") else int(match[2]))
    if match := _PYTHON.fullmatch(stripped):
        return PythonPlace(match[1], int(match[2]), int(match[3]) if match[3] else None)
    raise BadInput(f"{text!r} is not an address", hint=f"write {FORMS}")
