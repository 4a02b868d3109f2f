"""Reads a cubin: functions with their code and resources, line tables and PTX."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from warp_audit.debugger.binary import nvinfo
from warp_audit.debugger.binary.elf import MAX_SIZE, Elf, Section, Strings, Symbol
from warp_audit.debugger.binary.lines import Frame, LineError, LineProgram, PcTable, Run, Stacks, decode, last_rows
from warp_audit.errors import BadInput

INSTRUCTION = 16  # bytes of one SASS instruction, sm_70 and later
MAX_PTX_LINES = 1 << 22

_TEXT = ".text."

T = TypeVar("T")
_Runs = dict[str, list[tuple[LineProgram, Run, int]]]  # by section: a run of rows, and the pc that it starts at


@dataclass(frozen=True, slots=True)
class Code:
    """A function's code in a cubin, a kernel's or one that is called.

    ``registers`` a thread; ``shared`` bytes a block, static; ``local`` bytes a thread, its
    stack frame. What the cubin does not state is None; no cubin states spills.
    """

    name: str
    offset: int  # in the file
    size: int  # bytes
    is_entry: bool = False
    registers: int | None = None
    shared: int = 0
    local: int | None = None
    barriers: int = 0
    max_threads: int | None = None
    parameters: tuple[nvinfo.Parameter, ...] = ()

    @property
    def instructions(self) -> int:
        """The number of SASS instructions, padding included."""
        return self.size // INSTRUCTION


class Cubin:
    """A cubin in memory. Line tables are decoded when first asked for.

    Raises:
        BadInput: the bytes are not a whole cubin; later, that its line tables are damaged.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self._elf = Elf(data, name)
        self.arch = self._elf.arch
        self.functions: dict[str, Code] = self._functions()

    @property
    def sections(self) -> tuple[Section, ...]:
        """All sections, in the order of the file."""
        return tuple(self._elf.sections)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, in the order of the file."""
        return self._elf.symbols

    def section(self, name: str) -> bytes:
        """The bytes of a section; empty when there is none."""
        return self._elf.bytes_of(name)

    def function(self, name: str) -> Code:
        """The function of that name.

        Raises:
            BadInput: there is none.
        """
        found = self.functions.get(name)
        if found is None:
            raise BadInput(f"has no function {name}", where=self.name)
        return found

    def code(self, name: str) -> bytes:
        """The instructions of a function."""
        found = self.function(name)
        return self._elf.data[found.offset : found.offset + found.size]

    def digest(self, name: str) -> str:
        """SHA-256 of a function's instructions, which are the same with and without line information."""
        return hashlib.sha256(self.code(name)).hexdigest()

    @cached_property
    def ptx(self) -> list[str] | None:
        """The lines of the PTX that the cubin was made from; None without line information.

        They keep the numbers of the PTX's lines, but ptxas blanks comments, ``.file`` and
        ``.loc`` lines and what continues a table of bytes, and cuts indentation.
        """
        text = self.section(".nv_debug_ptx_txt")
        if text.count(0) > MAX_PTX_LINES:
            raise BadInput("has more lines of PTX than any cubin", where=self.name)
        return text.decode(errors="replace").removesuffix("\0").split("\0") if text else None

    @property
    def has_lines(self) -> bool:
        """Whether the cubin was compiled with line information."""
        return bool(self.section(".debug_line"))

    def lines(self, name: str) -> PcTable[tuple[Frame, ...]]:
        """The inline stack of each pc of a function, innermost frame first."""
        return self._table(self._source_runs, name, lambda program: self._stacks[id(program)].stack)

    def ptx_lines(self, name: str) -> PcTable[int]:
        """The line of the PTX that each pc of a function comes from."""
        return self._table(self._ptx_runs, name, lambda program: program.line.__getitem__)

    def _table(self, runs: _Runs, name: str, values: Callable[[LineProgram], Callable[[int], T]]) -> PcTable[T]:
        pairs: dict[int, T] = {}
        end = 0
        try:
            for program, run, base in runs.get(_TEXT + self.function(name).name, ()):
                value = values(program)
                for pc, row in last_rows(program, run, base).items():
                    pairs[pc] = value(row)
                end = max(end, base + run.end)
        except LineError as wrong:
            raise self._damaged(wrong) from None
        return PcTable(tuple(sorted(pairs.items(), key=itemgetter(0))), end)

    @cached_property
    def _source_runs(self) -> _Runs:
        return self._runs(".debug_line")

    @cached_property
    def _ptx_runs(self) -> _Runs:
        return self._runs(".nv_debug_line_sass")

    @cached_property
    def _stacks(self) -> dict[int, Stacks]:
        names = Strings(self.section(".debug_str"))
        programs = {id(program): program for runs in self._source_runs.values() for program, _, _ in runs}
        return {key: Stacks(program, names) for key, program in programs.items()}

    def _runs(self, section: str) -> _Runs:
        """The line programs of a section, by the section of code that their runs describe."""
        try:
            programs = decode(self.section(section))
        except LineError as wrong:
            raise self._damaged(wrong) from None
        places = {run.operand: run.address for program in programs for run in program.runs}
        targets = self._elf.relocated(section, places)
        found: _Runs = {}
        for program in programs:
            for run in program.runs:
                if run.operand in targets:
                    target, base = targets[run.operand]
                    found.setdefault(target, []).append((program, run, base))
        return found

    def _damaged(self, wrong: LineError) -> BadInput:
        return BadInput(f"has a damaged line table: {wrong}", where=self.name)

    def _functions(self) -> dict[str, Code]:
        entries = self._elf.entries()
        codes = {
            section.name[len(_TEXT) :]: Code(
                section.name[len(_TEXT) :], section.offset, section.size, is_entry=section.name in entries
            )
            for section in self._elf.sections
            if section.name.startswith(_TEXT) and section.in_file
        }
        stated = self._stated()
        return {name: self._resources(code, stated.get(name, {})) for name, code in codes.items()}

    def _stated(self) -> dict[str, dict[int, int]]:
        """The numbers that ``.nv.info`` states for each function, by attribute."""
        found: dict[str, dict[int, int]] = {}
        for attribute, value in nvinfo.attributes(self.section(".nv.info")):
            if attribute in (nvinfo.REGCOUNT, nvinfo.FRAME_SIZE) and len(value) >= 8:
                symbol, number = struct.unpack_from("<II", value)
                found.setdefault(self._elf.symbol(symbol).name, {})[attribute] = number
        return found

    def _resources(self, code: Code, stated: Mapping[int, int]) -> Code:
        shared = self._elf.by_name.get(f".nv.shared.{code.name}")
        parameters: list[nvinfo.Parameter] = []
        barriers, threads = 0, None
        for attribute, value in nvinfo.attributes(self.section(f".nv.info.{code.name}")):
            if attribute == nvinfo.NUM_BARRIERS:
                barriers = value[0]
            elif attribute in (nvinfo.MAX_THREADS, nvinfo.REQUIRED_THREADS):
                threads = nvinfo.threads(value)
            elif parameter := nvinfo.parameter(attribute, value):
                parameters.append(parameter)
        return replace(
            code,
            registers=stated.get(nvinfo.REGCOUNT),
            local=stated.get(nvinfo.FRAME_SIZE),
            shared=shared.size if shared else 0,
            barriers=barriers,
            max_threads=threads,
            parameters=tuple(sorted(parameters, key=lambda one: one.ordinal)),
        )


def read_cubin(source: Path | str | bytes, name: str = "cubin in memory") -> Cubin:
    """The cubin in a file or in memory.

    Args:
        name: what to call bytes in messages.

    Raises:
        BadInput: the file cannot be read or is not a whole cubin.
    """
    if isinstance(source, bytes):
        return Cubin(source, name)
    path = Path(source)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None
    return Cubin(data, str(path))
