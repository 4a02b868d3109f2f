"""Line programs of cubins: DWARF 2 with NVIDIA's extensions for inlined calls.

The format is DWARF 2's (section 6.2). Two extended opcodes are NVIDIA's own, as `nvdisasm
-gi` reads them: 0x90 states for the rows that follow the row of the call that they are
inlined at (counted from 1 in its sequence) and the function's name as an offset into
``.debug_str``; 0x91 states a name alone. Where several rows have one pc, the last is the innermost frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_INLINE_DEPTH = 256

_SET_ADDRESS = 2
_END_SEQUENCE = 1
_DEFINE_FILE = 3
_INLINED_CALL = 0x90
_FUNCTION_NAME = 0x91


class LineError(ValueError):
    """A line program does not hold together."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: from ``pc`` on, the code comes from this file and line, inlined at ``context``."""

    pc: int
    file: int
    line: int
    context: int  # number of the row of the call site, from 1; 0: not inlined
    name: int  # offset of the inlined function's name; -1: none


@dataclass(slots=True)
class Sequence:
    """The rows of one function: the section it describes is known by relocation."""

    address_at: int  # offset in the section of the address operand, for the relocation
    address: int
    rows: list[int] = field(default_factory=list)  # row numbers, from 1
    end: int = 0


@dataclass(slots=True)
class LineProgram:
    """A decoded program: file table, all rows, and which belong to which sequence."""

    files: list[str] = field(default_factory=list)  # file 1 is the first
    rows: list[Row] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)


def decode(data: bytes) -> list[LineProgram]:
    """All programs of a ``.debug_line`` or ``.nv_debug_line_sass`` section.

    Raises:
        LineError: the section is truncated or inconsistent.
    """
    programs: list[LineProgram] = []
    at = 0
    try:
        while at + 4 <= len(data):
            length = int.from_bytes(data[at : at + 4], "little")
            end = at + 4 + length
            if length < 10 or end > len(data):
                raise LineError(f"a line program of {length} bytes does not fit its section")
            programs.append(_Decoder(data, at, end).program)
            at = end
    except IndexError:
        raise LineError("a line program ends in the middle of an entry") from None
    return programs


class _Decoder:
    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data = data
        self.end = end
        version = int.from_bytes(data[start + 4 : start + 6], "little")
        if version not in (2, 3):
            raise LineError(f"line program of DWARF version {version}")
        header = start + 10 + int.from_bytes(data[start + 6 : start + 10], "little")
        self.step, _, base, self.range, self.first = data[start + 10 : start + 15]
        self.base = base - 256 if base > 127 else base
        if not self.range or not self.first or header > end:
            raise LineError("a line program's header makes no sense")
        self.lengths = data[start + 15 : start + 14 + self.first]
        self.program = LineProgram()
        self.tables(start + 14 + self.first, header)
        self.run(header)

    def tables(self, at: int, end: int) -> None:
        folders = [""]
        while self.data[at]:
            text, at = self.string(at, end)
            folders.append(text)
        at += 1
        while self.data[at]:
            text, at = self.string(at, end)
            folder, at = self.uleb(at)
            _, at = self.uleb(at)
            _, at = self.uleb(at)
            self.add_file(text, folder, folders)

    def add_file(self, text: str, folder: int, folders: list[str]) -> None:
        if folder and folder < len(folders) and not text.startswith("/"):
            text = f"{folders[folder]}/{text}"
        self.program.files.append(text)

    def string(self, at: int, end: int) -> tuple[str, int]:
        stop = self.data.find(0, at, end)
        if stop < 0:
            raise LineError("a file name is not closed")
        return self.data[at:stop].decode(errors="replace"), stop + 1

    def uleb(self, at: int) -> tuple[int, int]:
        data = self.data
        byte = data[at]
        if byte < 128:
            return byte, at + 1
        result, shift = byte & 127, 7
        for at in range(at + 1, at + 10):
            byte = data[at]
            result |= (byte & 127) << shift
            if byte < 128:
                return result, at + 1
            shift += 7
        raise LineError("a number is longer than ten bytes")

    def sleb(self, at: int) -> tuple[int, int]:
        value, after = self.uleb(at)
        bits = 7 * (after - at)
        return (value - (1 << bits) if value >> (bits - 1) & 1 else value), after

    def run(self, at: int) -> None:
        data, end, first, span, base, step = self.data, self.end, self.first, self.range, self.base, self.step
        rows, sequences = self.program.rows, self.program.sequences
        uleb = self.uleb
        pc, file, line, context, name = 0, 1, 1, 0, -1
        sequence: Sequence | None = None
        numbers: list[int] = []
        while at < end:
            op = data[at]
            at += 1
            if op >= first:
                op -= first
                pc += op // span * step
                line += base + op % span
                rows.append(Row(pc, file, line, context, name))
                numbers.append(len(rows))
            elif op == 1:
                rows.append(Row(pc, file, line, context, name))
                numbers.append(len(rows))
            elif op == 2:
                value, at = uleb(at)
                pc += value * step
            elif op == 3:
                value, at = self.sleb(at)
                line += value
            elif op == 4:
                file, at = uleb(at)
            elif op == 8:
                pc += (255 - first) // span * step
            elif op == 9:
                pc += data[at] | data[at + 1] << 8
                at += 2
            elif op == 0:
                length, at = uleb(at)
                stop = at + length
                if not length or stop > end:
                    raise LineError("an extended opcode does not fit its program")
                sub = data[at]
                if sub == _INLINED_CALL:
                    context, after = uleb(at + 1)
                    name = uleb(after)[0] if after < stop else -1
                    if not context:
                        name = -1
                    elif context > len(numbers):
                        raise LineError("an inlined call names a row that does not exist yet")
                    else:
                        context = numbers[context - 1]
                elif sub == _FUNCTION_NAME:
                    name, _ = uleb(at + 1)
                elif sub == _SET_ADDRESS:
                    address = int.from_bytes(data[at + 1 : stop], "little")
                    sequence = Sequence(at + 1, address)
                    numbers = sequence.rows
                    sequences.append(sequence)
                    pc = 0
                elif sub == _END_SEQUENCE:
                    if sequence is not None:
                        sequence.end = pc
                    pc, file, line, context, name = 0, 1, 1, 0, -1
                    sequence, numbers = None, []
                elif sub == _DEFINE_FILE:
                    text, after = self.string(at + 1, stop)
                    self.add_file(text, 0, [""])
                at = stop
            else:
                if op - 1 >= len(self.lengths):
                    raise LineError(f"unknown standard opcode {op}")
                for _ in range(self.lengths[op - 1]):
                    _, at = uleb(at)


@dataclass(frozen=True, slots=True)
class Frame:
    """One level of an inline stack; ``function`` is what was inlined there, mangled, if known."""

    file: str
    line: int
    function: str | None = None


class Stacks:
    """Inline stacks of a program's rows, each built once."""

    def __init__(self, program: LineProgram, names: bytes) -> None:
        self.program = program
        self.names = names
        self._stacks: dict[int, tuple[Frame, ...]] = {}
        self._names: dict[int, str] = {}

    def stack(self, number: int) -> tuple[Frame, ...]:
        """The frames of row ``number`` (from 1), innermost first."""
        known = self._stacks.get(number)
        if known is not None:
            return known
        frames: list[Frame] = []
        at = number
        while at:
            row = self.program.rows[at - 1]
            files = self.program.files
            if not 0 < row.file <= len(files):
                raise LineError(f"row {at} names file {row.file} of {len(files)}")
            frames.append(Frame(files[row.file - 1], row.line, self.name(row.name)))
            if row.context >= at or len(frames) > MAX_INLINE_DEPTH:
                raise LineError("inlined calls form a ring")
            at = row.context
        found = self._stacks[number] = tuple(frames)
        return found

    def name(self, offset: int) -> str | None:
        """The function name at an offset of ``.debug_str``."""
        if offset < 0:
            return None
        known = self._names.get(offset)
        if known is None:
            stop = self.names.find(0, offset)
            known = self._names[offset] = self.names[offset : stop if stop >= 0 else None].decode(errors="replace")
        return known


def innermost(program: LineProgram, sequence: Sequence) -> list[tuple[int, int]]:
    """The (pc, row number) pairs of a sequence: for each pc its last row, ascending."""
    last: dict[int, int] = {}
    for number in sequence.rows:
        last[program.rows[number - 1].pc] = number
    return sorted(last.items())


def by_section(
    programs: list[LineProgram], relocations: Mapping[int, str]
) -> dict[str, list[tuple[LineProgram, Sequence]]]:
    """The sequences of each section; a relocation ties an address operand to a section's name."""
    found: dict[str, list[tuple[LineProgram, Sequence]]] = {}
    for program in programs:
        for sequence in program.sequences:
            name = relocations.get(sequence.address_at)
            if name is not None:
                found.setdefault(name, []).append((program, sequence))
    return found
