"""The ELF container of a cubin: sections, symbols, relocations."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from warp_audit.errors import BadInput

# Far above real cubins; they bound what a damaged file can cost.
MAX_SIZE = 1 << 27  # bytes
MAX_SECTIONS = 1 << 16
MAX_SYMBOLS = 1 << 20
MAX_RELOCATIONS = 1 << 18  # of a section of line programs: one a function
MAX_NAME = 1 << 15  # bytes of a name
MAX_NAMES = 1 << 26  # bytes of all names of a table

_HEADER, _SECTION_HEADER, _SYMBOL, _REL, _RELA = 64, 64, 24, 16, 24  # bytes, in 64-bit ELF
_SYMBOL_FORM = "<IBBHQQ"
_STT_FUNC = 2
_R_CUDA_64 = 2
_STO_CUDA_ENTRY = 0x10
_SHT_CUDA_INFO = 0x70000000
_WITH_BYTES = ("SHT_PROGBITS", "SHT_SYMTAB", "SHT_STRTAB", "SHT_REL", "SHT_RELA", "SHT_NOTE", _SHT_CUDA_INFO)
_KINDS = ("none", "object", "function", "section", "file")


class Strings:
    """A string table; each name is read once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._known: dict[int, str] = {}
        self._room = MAX_NAMES

    def at(self, offset: int) -> str | None:
        """The name at an offset; None outside the table, or where the names never end."""
        known = self._known.get(offset)
        if known is not None:
            return known
        if not 0 <= offset < len(self._data):
            return "" if offset == 0 else None
        stop = self._data.find(0, offset, offset + MAX_NAME)
        self._room -= stop - offset
        if stop < 0 or self._room < 0:
            return None
        name = self._known[offset] = self._data[offset:stop].decode(errors="replace")
        return name


class Section(NamedTuple):
    """A section: ``size`` bytes at ``offset`` of the file, or of memory alone if not ``in_file``."""

    name: str
    offset: int
    size: int
    info: int
    in_file: bool


class Symbol(NamedTuple):
    """A symbol; ``section`` is empty where it is not defined in one."""

    name: str
    kind: str  # none, object, function, section, file or other
    section: str
    value: int
    size: int
    is_entry: bool  # a kernel


class Elf:
    """The container of a cubin in memory, checked: every section lies within the file.

    Raises:
        BadInput: not a whole ELF file for CUDA.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where
        if len(data) > MAX_SIZE:
            raise self.bad(f"is larger than any cubin ({MAX_SIZE >> 20} MiB)")
        if not data:
            raise self.bad("is empty")
        if not data.startswith(b"\x7fELF"):
            hint = "it looks like PTX text" if b".version" in data[:4096] else None
            raise BadInput("is not a cubin: it does not begin as an ELF file", where=where, hint=hint)
        try:
            elf = ELFFile(io.BytesIO(data))
            self.arch = self._check(elf)
            self.sections = self._sections(elf)
        except (ELFError, ValueError, KeyError, TypeError, struct.error) as wrong:
            raise self.bad(f"is truncated or damaged: its ELF headers cannot be read ({wrong})") from None
        self.by_name: dict[str, Section] = {}
        for section in self.sections:
            self.by_name.setdefault(section.name, section)

    def bad(self, message: str) -> BadInput:
        """The error that says so about this file."""
        return BadInput(message, where=self.where)

    def bytes_of(self, name: str) -> bytes:
        """The bytes of a section; none if it is absent or has memory alone."""
        section = self.by_name.get(name)
        if section is None or not section.in_file:
            return b""
        return self.data[section.offset : section.offset + section.size]

    def _check(self, elf: ELFFile) -> str:
        """The architecture, if this is a cubin at all."""
        header = elf.header
        if elf.elfclass != 64 or not elf.little_endian:
            raise self.bad("is not a cubin: those are 64-bit little-endian ELF files")
        if header["e_machine"] not in ("EM_CUDA", 190):
            machine = str(header["e_machine"]).removeprefix("EM_")
            raise self.bad(f"is not a cubin: it is an ELF file for {machine}, not for CUDA")
        if header["e_shentsize"] != _SECTION_HEADER:
            raise self.bad("is damaged: its section headers have an impossible size")
        if header["e_phoff"] + header["e_phnum"] * header["e_phentsize"] > len(self.data):
            raise self.bad("is truncated: its program headers end after the file")
        # LLVM's ELF.h, EF_CUDA_*: the flags were laid out anew with ABI version 8 (CUDA 13)
        flags = int(header["e_flags"])
        if header["e_ident"]["EI_ABIVERSION"] >= 8:
            return f"sm_{flags >> 8 & 0xFF}{'a' if flags & 0x8 else ''}"
        return f"sm_{flags & 0xFF}{'a' if flags & 0x800 else ''}"

    def _sections(self, elf: ELFFile) -> list[Section]:
        start = int(elf.header["e_shoff"])
        room = (len(self.data) - start) // _SECTION_HEADER
        if start < _HEADER or room < 1:
            raise self.bad("is truncated or damaged: it has no table of sections")
        # section 0 holds what does not fit the header (ELF gABI, "Section Header Table")
        null = struct_parse(elf.structs.Elf_Shdr, elf.stream, start)
        count = int(elf.header["e_shnum"] or null["sh_size"])
        named = int(null["sh_link"] if elf.header["e_shstrndx"] == 0xFFFF else elf.header["e_shstrndx"])
        if not 0 < count <= room:
            raise self.bad(f"is truncated: its table of {count} sections ends after the file")
        if named >= count:
            raise self.bad("is damaged: the section of its section names does not exist")
        if count > MAX_SECTIONS:
            raise self.bad("has more sections than any cubin")
        headers = [
            struct_parse(elf.structs.Elf_Shdr, elf.stream, start + number * _SECTION_HEADER) for number in range(count)
        ]
        names_at, names_size = int(headers[named]["sh_offset"]), int(headers[named]["sh_size"])
        names = Strings(self.data[names_at : names_at + names_size])
        sections: list[Section] = []
        ranges: set[tuple[int, int]] = set()  # the .nv.merc sections of sm_100 share others' bytes
        for header in headers:
            name = names.at(int(header["sh_name"]))
            if name is None:
                raise self.bad("is damaged: a section has no name")
            offset, size = int(header["sh_offset"]), int(header["sh_size"])
            in_file = header["sh_type"] in _WITH_BYTES
            if in_file:
                if offset + size > len(self.data):
                    raise self.bad(f"is truncated or damaged: section {name or '(unnamed)'} ends after the file")
                ranges.add((offset, size))
            sections.append(Section(name, offset, size, int(header["sh_info"]), in_file))
        if sum(size for _, size in ranges) > len(self.data):
            raise self.bad("is damaged: its sections overlap")
        return sections

    @cached_property
    def _symbol_names(self) -> Strings:
        return Strings(self.bytes_of(".strtab"))

    def entries(self) -> set[str]:
        """The sections that hold kernels."""
        table = self._symbol_table
        whole = table[: len(table) - len(table) % _SYMBOL]
        return {
            self.sections[index].name
            for _, info, other, index, _, _ in struct.iter_unpack(_SYMBOL_FORM, whole)
            if info & 15 == _STT_FUNC and other & _STO_CUDA_ENTRY and index < len(self.sections)
        }

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, in the order of the file.

        Raises:
            BadInput: the table is damaged.
        """
        count = len(self._symbol_table) // _SYMBOL
        if count > MAX_SYMBOLS:
            raise self.bad("has more symbols than any cubin")
        return tuple(self.symbol(number) for number in range(count))

    @cached_property
    def _symbol_table(self) -> bytes:
        return self.bytes_of(".symtab")

    def symbol(self, number: int) -> Symbol:
        """The symbol of that number, which relocations and attributes count by.

        Raises:
            BadInput: there is none, or it has no name.
        """
        if (number + 1) * _SYMBOL > len(self._symbol_table):
            raise self.bad(f"is damaged: it refers to symbol {number}, which does not exist")
        at, info, other, index, value, size = struct.unpack_from(_SYMBOL_FORM, self._symbol_table, number * _SYMBOL)
        name = self._symbol_names.at(at)
        if name is None:
            raise self.bad(f"is damaged: symbol {number} has no name")
        kind = _KINDS[info & 15] if info & 15 < len(_KINDS) else "other"
        section = self.sections[index].name if 0 < index < len(self.sections) else ""
        return Symbol(name, kind, section, value, size, kind == "function" and bool(other & _STO_CUDA_ENTRY))

    def relocated(self, name: str, places: Mapping[int, int]) -> dict[int, tuple[str, int]]:
        """The section that each relocated 64-bit address in section ``name`` points to, and the offset in it.

        Args:
            places: the addresses wanted: their offset in the section, and the address that stands there.
        """
        found: dict[int, tuple[str, int]] = {}
        for prefix, form, size in ((".rel", "<QQ", _REL), (".rela", "<QQq", _RELA)):
            data = self.bytes_of(prefix + name)
            if len(data) > MAX_RELOCATIONS * size:
                raise self.bad(f"is damaged: {prefix}{name} has more entries than there can be functions")
            for place, info, *addend in struct.iter_unpack(form, data[: len(data) - len(data) % size]):
                if place in places and info & 0xFFFFFFFF == _R_CUDA_64:
                    symbol = self.symbol(info >> 32)
                    found[place] = (symbol.section, symbol.value + (addend[0] if addend else places[place]))
        return found
