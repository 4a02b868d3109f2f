"""Line tables: DWARF line programs with NVIDIA's extensions for inlined calls.

The programs are DWARF 2's (section 6.2 of the standard). CUDA 11.2 added two extended
opcodes and a header word, published by NVIDIA's partners as a patch of elfutils (libdw,
``DW_LNE_NVIDIA_inlined_call`` and ``DW_LNE_NVIDIA_set_function_name``, 2021):

- 0x90 states for the rows that follow the row of the call they are inlined at, counted
  from 1 in the function's own sequence, and the inlined function's name; row 0 ends it;
- 0x91 states a name alone;
- names are offsets into ``.debug_str`` from a base, which is the 4 bytes that a header has
  after its file table.

Where several rows have one pc, the last one holds: the earlier ones are its call sites.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, TypeVar, overload

from warp_audit.debugger.binary.elf import Strings

# Of a section; far above real cubins, they bound what a damaged file can cost.
MAX_ROWS = 1 << 20
MAX_RUNS = 1 << 17
MAX_PROGRAMS = 1 << 15
MAX_FILES = 1 << 15
MAX_PATH = 1 << 12
MAX_INLINE_DEPTH = 256
MAX_FRAMES = 1 << 23

_END_SEQUENCE, _SET_ADDRESS, _DEFINE_FILE, _INLINED_CALL, _FUNCTION_NAME = 0x01, 0x02, 0x03, 0x90, 0x91

T = TypeVar("T")


class LineError(ValueError):
    """A line program does not hold together."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One level of an inline stack: a place, and the function that holds it.

    ``function`` is a mangled name; it is None in the outermost frame, which belongs to the
    kernel itself.
    """

    file: str
    line: int
    function: str | None = None


@dataclass(frozen=True, slots=True)
class PcTable(Sequence[tuple[int, T]], Generic[T]):
    """What each pc of a function maps to: ascending (pc, value) pairs.

    A pair holds from its pc up to the next one's, the last one up to ``end``.
    """

    pairs: tuple[tuple[int, T], ...] = ()
    end: int = 0

    def at(self, pc: int) -> T | None:
        """The value at a pc; None before the first pair and from the end on."""
        number = bisect_right(self.pairs, pc, key=itemgetter(0))
        return self.pairs[number - 1][1] if number and pc < self.end else None

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return iter(self.pairs)

    @overload
    def __getitem__(self, number: int) -> tuple[int, T]: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[tuple[int, T]]: ...
    def __getitem__(self, number: int | slice) -> tuple[int, T] | Sequence[tuple[int, T]]:
        return self.pairs[number]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of rows that starts at one address, which a relocation ties to a section."""

    operand: int  # offset in the section of the address, for its relocation
    address: int
    start: int  # rows start … stop - 1 of the program
    stop: int
    end: int  # the pc after the last instruction


@dataclass(slots=True)
class LineProgram:
    """A decoded program: its file table, and its rows as columns."""

    files: list[str] = field(default_factory=list)  # file 1 is the first
    names_base: int = 0  # of function names, in .debug_str
    pcs: list[int] = field(default_factory=list)
    file: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)  # row of the call site, plus 1; 0: not inlined
    name: list[int] = field(default_factory=list)  # of the inlined function, as an offset from the base
    runs: list[Run] = field(default_factory=list)


def decode(data: bytes) -> list[LineProgram]:
    """All programs of a ``.debug_line`` or ``.nv_debug_line_sass`` section.

    Raises:
        LineError: the section is truncated or inconsistent.
    """
    programs: list[LineProgram] = []
    at, rows, runs, files = 0, 0, 0, 0
    try:
        while at < len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            end = at + 4 + length
            if length < 10 or end > len(data):
                raise LineError(f"a line program of {length} bytes does not fit its section")
            program = _program(data[at:end], at)
            programs.append(program)
            rows += len(program.pcs)
            runs += len(program.runs)
            files += len(program.files)
            if rows > MAX_ROWS or runs > MAX_RUNS or files > MAX_FILES or len(programs) > MAX_PROGRAMS:
                raise LineError("it is larger than any cubin's")
            at = end
    except IndexError:
        raise LineError("a line program ends in the middle of an entry") from None
    return programs


def _program(data: bytes, offset: int) -> LineProgram:
    """The program in ``data``, which lies at ``offset`` of its section."""
    version = int.from_bytes(data[4:6], "little")
    if version not in (2, 3, 4):
        raise LineError(f"a line program is of DWARF version {version}")
    code = 10 + int.from_bytes(data[6:10], "little")
    at = 11 if version < 4 else 12  # version 4 adds the operations of a VLIW instruction
    step = data[10]
    base, span, first = data[at + 1 : at + 4]
    at += 4
    if not span or not first or code > len(data) or at + first - 1 > code:
        raise LineError("a line program's header makes no sense")
    lengths = data[at : at + first - 1]
    program = LineProgram()
    _tables(data, at + first - 1, code, program)
    _rows(data, code, offset, program, (step, base - 256 if base > 127 else base, span, first, lengths))
    return program


def _tables(data: bytes, at: int, end: int, program: LineProgram) -> None:
    """Read the folders and files of a header, and NVIDIA's word after them."""
    folders = [""]
    while data[at]:
        text, at = _string(data, at, end)
        folders.append(text)
    at += 1
    while data[at]:
        text, at = _string(data, at, end)
        folder, at = _uleb(data, at)
        _, at = _uleb(data, at)  # time and size, which NVIDIA fills in or not
        _, at = _uleb(data, at)
        if folder and folder < len(folders) and not text.startswith("/"):
            text = f"{folders[folder]}/{text}"
        program.files.append(text)
    at += 1
    if at + 4 == end:
        program.names_base = int.from_bytes(data[at:end], "little")


def _rows(data: bytes, at: int, offset: int, program: LineProgram, header: tuple[int, int, int, int, bytes]) -> None:
    """Run the program from ``at``. One loop without calls: it is what reading a cubin costs."""
    step, base, span, first, lengths = header
    end = len(data)
    to_pc, to_file, to_line = program.pcs.append, program.file.append, program.line.append
    to_context, to_name = program.context.append, program.name.append
    special = [(op // span * step, base + op % span) for op in range(256 - first)]
    pc, file, line, context, name = 0, 1, 1, 0, -1
    count = start = 0
    operand: int | None = None
    address = 0
    while at < end:
        op = data[at]
        at += 1
        if op >= first or op == 1:  # special opcodes, DW_LNS_copy
            if op >= first:
                ahead, down = special[op - first]
                pc += ahead
                line += down
            if count == MAX_ROWS:
                raise LineError("it is larger than any cubin's")
            count += 1
            to_pc(pc)
            to_file(file)
            to_line(line)
            to_context(context)
            to_name(name)
        elif op == 0:
            length, at = _uleb(data, at)
            stop = at + length
            if not length or stop > end:
                raise LineError("an extended opcode does not fit its program")
            extended = data[at]
            if extended == _INLINED_CALL:
                context, after = _uleb(data, at + 1)
                name = _uleb(data, after)[0] if after < stop else -1
                if context:
                    context += start
                    if context > count:
                        raise LineError("an inlined call names a row that comes later")
            elif extended == _FUNCTION_NAME:
                name, _ = _uleb(data, at + 1)
            elif extended in (_SET_ADDRESS, _END_SEQUENCE):
                if operand is not None:
                    program.runs.append(Run(operand, address, start, count, pc))
                    if len(program.runs) > MAX_RUNS:
                        raise LineError("it is larger than any cubin's")
                operand = None
                if extended == _END_SEQUENCE:
                    file, line, context, name = 1, 1, 0, -1
                else:
                    operand, address = offset + at + 1, int.from_bytes(data[at + 1 : min(stop, at + 9)], "little")
                pc, start = 0, count
            elif extended == _DEFINE_FILE:
                program.files.append(_string(data, at + 1, stop)[0])
            at = stop
        elif op == 2:  # DW_LNS_advance_pc
            value, at = _uleb(data, at)
            pc += value * step
        elif op == 3:  # DW_LNS_advance_line
            value, after = _uleb(data, at)
            bits = 7 * (after - at)
            line += value - (1 << bits) if value >> (bits - 1) & 1 else value
            at = after
        elif op == 4:  # DW_LNS_set_file
            file, at = _uleb(data, at)
        elif op == 8:  # DW_LNS_const_add_pc
            pc += special[-1][0]
        elif op == 9:  # DW_LNS_fixed_advance_pc
            pc += data[at] | data[at + 1] << 8
            at += 2
        else:
            for _ in range(lengths[op - 1]):
                _, at = _uleb(data, at)
    if operand is not None:
        program.runs.append(Run(operand, address, start, count, pc))


def _string(data: bytes, at: int, end: int) -> tuple[str, int]:
    stop = data.find(0, at, end)
    if stop < 0:
        raise LineError("a file name is not closed")
    return data[at:stop].decode(errors="replace"), stop + 1


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """The number in LEB128 at ``at``, and the offset after it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    result, shift = byte & 127, 7
    for number in range(at + 1, at + 10):
        byte = data[number]
        result |= (byte & 127) << shift
        if byte < 128:
            return result, number + 1
        shift += 7
    raise LineError("a number is longer than ten bytes")


class Stacks:
    """The inline stacks of a program's rows, each built once."""

    def __init__(self, program: LineProgram, names: Strings) -> None:
        self.program = program
        self.names = names
        self._room = MAX_FRAMES
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._frames: dict[tuple[int, int, int], Frame] = {}

    def stack(self, row: int) -> tuple[Frame, ...]:
        """The frames of a row, innermost first."""
        known = self._stacks.get(row)
        if known is not None:
            return known
        context = self.program.context
        calls = [row]
        while context[row] and context[row] - 1 not in self._stacks:
            row = context[row] - 1
            calls.append(row)
            if row >= calls[-2] or len(calls) > MAX_INLINE_DEPTH:
                raise LineError("inlined calls form a ring or go too deep")
        stack = self._stacks[context[row] - 1] if context[row] else ()
        for row in reversed(calls):
            stack = (self._frame(row), *stack)
            self._room -= len(stack)
            if self._room < 0 or len(stack) > MAX_INLINE_DEPTH:
                raise LineError("inlined calls go too deep")
            self._stacks[row] = stack
        return stack

    def _frame(self, row: int) -> Frame:
        program = self.program
        name = program.name[row] if program.context[row] else -1
        key = (program.file[row], program.line[row], name)
        frame = self._frames.get(key)
        if frame is None:
            if not 0 < key[0] <= len(program.files):
                raise LineError(f"a row names file {key[0]} of {len(program.files)}")
            frame = self._frames[key] = Frame(program.files[key[0] - 1], key[1], self._name(name))
        return frame

    def _name(self, offset: int) -> str | None:
        if offset < 0:
            return None
        name = self.names.at(self.program.names_base + offset)
        if name is None:
            raise LineError("the name of an inlined function lies outside .debug_str")
        return name


def last_rows(program: LineProgram, run: Run, base: int) -> dict[int, int]:
    """For each pc of a run, counted from ``base``, its last row: the innermost frame."""
    rows = range(run.start, run.stop)
    if not base:
        return dict(zip(program.pcs[run.start : run.stop], rows, strict=True))
    return {base + program.pcs[row]: row for row in rows}
