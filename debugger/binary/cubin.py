"""Reads a cubin: functions with their code, resources, line tables and PTX."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from warp_audit.debugger.binary.lines import (
    Frame,
    LineError,
    LineProgram,
    Stacks,
    by_section,
    decode,
    innermost,
)
from warp_audit.errors import BadInput

INSTRUCTION = 16  # bytes of one SASS instruction, sm_70 and later
MAX_SECTIONS = 1 << 20
MAX_SIZE = 1 << 30

_R_CUDA_64 = 2
# Attributes of .nv.info, by the names that nvdisasm prints for them.
_FRAME_SIZE, _MIN_STACK_SIZE, _KPARAM_INFO, _MAX_THREADS, _REGCOUNT = 0x11, 0x12, 0x17, 0x05, 0x2F
_NO_VALUE, _BYTE_VALUE, _HALF_VALUE, _SIZED_VALUE = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A kernel parameter: its position, and offset and size in bytes in the parameter bank."""

    ordinal: int
    offset: int
    size: int


@dataclass(slots=True)
class Code:
    """A function's code in a cubin.

    ``registers`` a thread; ``shared`` bytes a block, static; ``local`` bytes a thread (the
    stack frame); sizes that the cubin does not state are None.
    """

    name: str
    offset: int  # in the file
    size: int
    registers: int | None = None
    shared: int = 0
    local: int | None = None
    max_threads: int | None = None
    parameters: list[KernelParameter] = field(default_factory=list)

    @property
    def instructions(self) -> int:
        """The number of SASS instructions, padding included."""
        return self.size // INSTRUCTION


class Cubin:
    """A cubin in memory. Line tables are read when first asked for."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.data = data
        if len(data) > MAX_SIZE:
            raise BadInput("larger than any cubin (1 GiB)", where=name)
        if not data.startswith(b"\x7fELF"):
            what = "is empty" if not data else "is not a cubin: it does not begin as an ELF file"
            raise BadInput(what, where=name)
        with _reading(name):
            self._read()

    def _read(self) -> None:
        elf = ELFFile(io.BytesIO(self.data))
        if elf.header["e_machine"] not in ("EM_CUDA", 190):
            raise BadInput(f"is an ELF file for {elf.header['e_machine']}, not a cubin", where=self.name)
        if elf.num_sections() > MAX_SECTIONS:
            raise BadInput("has more sections than a cubin can have", where=self.name)
        self.arch = _arch(elf)
        self.sections: dict[str, Section] = {}
        listed: list[str] = []
        symbols: list[str] = []
        for section in elf.iter_sections():
            listed.append(section.name)
            self.sections.setdefault(section.name, section)
            if section["sh_type"] not in ("SHT_NOBITS", "SHT_NULL"):
                end = section["sh_offset"] + section["sh_size"]
                if end > len(self.data):
                    raise BadInput(f"is truncated: section {section.name} ends after the file", where=self.name)
        self._symbol_sections: dict[int, str] = {}
        for section in self.sections.values():
            if isinstance(section, SymbolTableSection):
                for number, symbol in enumerate(section.iter_symbols()):
                    index = symbol["st_shndx"]
                    symbols.append(symbol.name)
                    if isinstance(index, int) and index < len(listed):
                        self._symbol_sections[number] = listed[index]
        self.symbols = symbols
        self.functions: dict[str, Code] = {}
        for name, section in self.sections.items():
            if name.startswith(".text."):
                self.functions[name[6:]] = Code(name[6:], section["sh_offset"], section["sh_size"])
        self._resources()

    def section(self, name: str) -> bytes:
        """The bytes of a section; empty when there is none."""
        found = self.sections.get(name)
        if found is None or found["sh_type"] == "SHT_NOBITS":
            return b""
        return self.data[found["sh_offset"] : found["sh_offset"] + found["sh_size"]]

    def _resources(self) -> None:
        for attribute, value in _attributes(self.section(".nv.info")):
            if attribute in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK_SIZE) and len(value) >= 8:
                index, number = struct.unpack_from("<II", value)
                name = self.symbols[index] if index < len(self.symbols) else ""
                code = self.functions.get(name)
                if code is None:
                    continue
                if attribute == _REGCOUNT:
                    code.registers = number
                elif attribute == _FRAME_SIZE:
                    code.local = number
        for name, code in self.functions.items():
            shared = self.sections.get(f".nv.shared.{name}")
            code.shared = int(shared["sh_size"]) if shared is not None else 0
            for attribute, value in _attributes(self.section(f".nv.info.{name}")):
                if attribute == _KPARAM_INFO and len(value) >= 12:
                    _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
                    code.parameters.append(KernelParameter(ordinal, offset, packed >> 18))
                elif attribute == _MAX_THREADS and len(value) >= 12:
                    x, y, z = struct.unpack_from("<III", value)
                    code.max_threads = x * y * z
            code.parameters.sort(key=lambda p: p.ordinal)

    def code(self, name: str) -> bytes:
        """The instructions of a function."""
        found = self.functions[name]
        return self.data[found.offset : found.offset + found.size]

    def digest(self, name: str) -> str:
        """SHA-256 of a function's instructions."""
        return hashlib.sha256(self.code(name)).hexdigest()

    @cached_property
    def ptx(self) -> list[str] | None:
        """The lines of the PTX that the cubin was made from; comments and ``.loc`` lines are empty."""
        text = self.section(".nv_debug_ptx_txt")
        return text.decode(errors="replace").split("\0") if text else None

    @property
    def has_lines(self) -> bool:
        """Whether the cubin was compiled with line information."""
        return bool(self.section(".debug_line"))

    def lines(self, name: str) -> list[tuple[int, tuple[Frame, ...]]]:
        """(pc, inline stack, innermost frame first) pairs of a function, ascending by pc.

        A pair holds from its pc up to the next one's.
        """
        with _reading(self.name):
            pairs: list[tuple[int, tuple[Frame, ...]]] = []
            for program, sequence in self._source_lines.get(f".text.{name}", ()):
                stacks = self._stacks[id(program)]
                pairs.extend((pc, stacks.stack(number)) for pc, number in innermost(program, sequence))
            pairs.sort(key=lambda pair: pair[0])
            return pairs

    def ptx_lines(self, name: str) -> list[tuple[int, int]]:
        """(pc, line of the PTX) pairs of a function, ascending by pc."""
        with _reading(self.name):
            pairs = [
                (pc, program.rows[number - 1].line)
                for program, sequence in self._ptx_lines.get(f".text.{name}", ())
                for pc, number in innermost(program, sequence)
            ]
            return sorted(pairs)

    @cached_property
    def _source_lines(self) -> dict[str, list[tuple[LineProgram, object]]]:
        programs = decode(self.section(".debug_line"))
        names = self.section(".debug_str")
        self._stacks = {id(program): Stacks(program, names) for program in programs}
        return by_section(programs, self._relocations(".debug_line"))  # type: ignore[return-value]

    @cached_property
    def _ptx_lines(self) -> dict[str, list[tuple[LineProgram, object]]]:
        programs = decode(self.section(".nv_debug_line_sass"))
        return by_section(programs, self._relocations(".nv_debug_line_sass"))  # type: ignore[return-value]

    def _relocations(self, section: str) -> dict[int, str]:
        """For each relocated offset of a section, the section that its symbol lies in."""
        found: dict[int, str] = {}
        for prefix, size in ((".rel", 16), (".rela", 24)):
            data = self.section(prefix + section)
            for at in range(0, len(data) - size + 1, size):
                offset, info = struct.unpack_from("<QQ", data, at)
                if info & 0xFFFFFFFF == _R_CUDA_64:
                    name = self._symbol_sections.get(info >> 32)
                    if name is not None:
                        found[offset] = name
        return found


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "little")
        at += 4
        if form == _SIZED_VALUE:
            yield attribute, data[at : at + size]
            at += size
        elif form not in (_NO_VALUE, _BYTE_VALUE, _HALF_VALUE):
            return


def _arch(elf: ELFFile) -> str:
    """The architecture in the header's flags: bits 0-7 until CUDA 12, bits 8-15 since ABI 8."""
    flags = int(elf.header["e_flags"])
    number = flags >> 8 & 0xFF if elf.header["e_ident"]["EI_ABIVERSION"] >= 8 else flags & 0xFF
    return f"sm_{number}"


class _reading:  # noqa: N801 - a context manager, used as a word
    """Turns whatever a damaged file provokes into one sentence."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, wrong: BaseException | None, trace: object) -> None:
        if isinstance(wrong, LineError):
            raise BadInput(f"has a damaged line table: {wrong}", where=self.name) from None
        if isinstance(wrong, BadInput) or not isinstance(wrong, Exception):
            return
        if isinstance(wrong, (ELFError, ValueError, IndexError, KeyError, struct.error, OverflowError, MemoryError)):
            raise BadInput("is damaged: its ELF structure does not hold together", where=self.name) from None
        # pyelftools raises what its parsing library raises, and type errors on nonsense
        raise BadInput(f"is damaged: {type(wrong).__name__} while reading it", where=self.name) from None


def read_cubin(path: Path) -> Cubin:
    """The cubin in a file.

    Raises:
        BadInput: the file cannot be read or is not a whole cubin.
    """
    try:
        if path.stat().st_size > MAX_SIZE:
            raise BadInput("larger than any cubin (1 GiB)", where=str(path))
        data = path.read_bytes()
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None
    return Cubin(data, str(path))
