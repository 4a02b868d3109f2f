"""Reads PTX text as NVRTC writes it: functions, the places stated for lines, and the text without them.

Directives as the PTX ISA has them ("Debugging Directives"): ``.file`` and ``.loc``, with
``function_name`` and ``inlined_at``, state where code comes from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from warp_audit.debugger.binary.elf import MAX_SIZE
from warp_audit.debugger.binary.lines import MAX_FRAMES, MAX_INLINE_DEPTH, Frame
from warp_audit.errors import BadInput

_VERSION = re.compile(r"^\s*\.version\s+(\d+\.\d+)", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$%]+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:\\.|[^"\\])*)"')
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([\w$]+)\s*(?:\+\s*(\d+)\s*)?,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?\s*(?://.*)?$"
)
_IS_LOC = re.compile(r"\s*\.loc\s")
_DEBUG_SECTION = re.compile(r"\s*\.section\s+\.debug_")
_DEBUG_LABEL = re.compile(r"\s*\$L__(?:tmp|func_begin|func_end|sec_end|info_string)\w*:")
_STRING_LABEL = re.compile(r"\s*([\w$]+):")
_BYTES = re.compile(r"\s*\.b8\s+([\d,\s]+)")


@dataclass(frozen=True, slots=True)
class Place(Frame):
    """A frame that a ``.loc`` states, with its column."""

    column: int = 0


@dataclass(frozen=True, slots=True)
class PtxFunction:
    """A kernel or function with a body, from its first line to the one of its closing brace."""

    name: str
    is_entry: bool
    first: int  # lines, from 1
    last: int


@dataclass(slots=True)
class Ptx:
    """A PTX text: its lines, its functions, and the places stated for each line."""

    name: str
    lines: list[str]
    version: str
    target: str
    functions: tuple[PtxFunction, ...] = ()
    files: dict[int, str] = field(default_factory=dict)
    places: dict[int, tuple[Place, ...]] = field(default_factory=dict)  # line → frames, innermost first

    @property
    def has_lines(self) -> bool:
        """Whether the text holds line information."""
        return bool(self.files)

    @property
    def entries(self) -> dict[str, int]:
        """The first line of each function."""
        return {function.name: function.first for function in self.functions}

    def function_at(self, line: int) -> str | None:
        """The function that a line belongs to."""
        number = bisect_right(self.functions, line, key=attrgetter("first"))
        if not number or line > self.functions[number - 1].last:
            return None
        return self.functions[number - 1].name


def parse_ptx(data: bytes, name: str) -> Ptx:
    """The PTX in ``data``; a NUL at its end is not part of it.

    Raises:
        BadInput: it is not PTX, or its line information cannot be read.
    """
    if len(data) > MAX_SIZE:
        raise BadInput(f"is larger than any PTX ({MAX_SIZE >> 20} MiB)", where=name)
    if not data.strip(b"\0 \n"):
        raise BadInput("is empty", where=name)
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise BadInput("is not PTX: its text is not UTF-8", where=name) from None
    version, target = _VERSION.search(text), _TARGET.search(text)
    if "\0" in text or not version or not target:
        raise BadInput("is not PTX: it has no .version and .target", where=name)
    found = Ptx(name, text.split("\n"), version[1], target[1])
    found.functions = tuple(_functions(found.lines))
    for line in found.lines:
        if ".file" in line and (match := _FILE.match(line)):
            found.files[int(match[1])] = match[2].replace('\\"', '"').replace("\\\\", "\\")
    if found.files:
        _places(found)
    return found


def read_ptx(path: Path) -> Ptx:
    """The PTX in a file.

    Raises:
        BadInput: the file cannot be read or is not PTX.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None
    return parse_ptx(data, str(path))


def _functions(lines: list[str]) -> list[PtxFunction]:
    found: list[PtxFunction] = []
    depth = 0
    heading: tuple[str, bool, int] | None = None
    for number, line in enumerate(lines, 1):
        if not depth and heading is None and (".entry" in line or ".func" in line):
            if match := _FUNCTION.search(line.partition("//")[0]):
                heading = match[2], match[1] == "entry", number
        elif heading is not None and not depth and line.rstrip().endswith(";"):
            heading = None  # declared here, defined elsewhere
        if ("{" in line or "}" in line) and '"' not in line:
            code = line.partition("//")[0]
            depth = max(0, depth + code.count("{") - code.count("}"))
            if heading is not None and not depth and "}" in code:
                found.append(PtxFunction(*heading, number))
                heading = None
    return found


def _places(ptx: Ptx) -> None:
    """Give each line of code the place of the ``.loc`` before it.

    The place that a call was inlined at is stated by an earlier ``.loc`` of the function. A
    ``.loc`` of line 0 marks code that the compiler made up: it keeps the place before.
    """
    names = _Names(ptx.lines)
    room = MAX_FRAMES
    for function in ptx.functions:
        known: dict[tuple[int, int, int], tuple[Place, ...]] = {}
        current: tuple[Place, ...] = ()
        for number in range(function.first, function.last):
            line = ptx.lines[number - 1]
            if ".loc" in line and _IS_LOC.match(line):
                match = _LOC.match(line)
                if match is None:
                    raise BadInput("a .loc that cannot be read", where=f"{ptx.name}:{number}")
                here = int(match[1]), int(match[2]), int(match[3])
                outer: tuple[Place, ...] = ()
                inlined = None
                if match[4]:
                    outer = known.get((int(match[6]), int(match[7]), int(match[8])), ())
                    inlined = names.at(match[4], int(match[5] or 0))
                place = Place(ptx.files.get(here[0], f"file {here[0]}"), here[1], inlined, here[2])
                known[here] = frames = (place, *outer)
                room -= len(frames)
                if room < 0 or len(frames) > MAX_INLINE_DEPTH:
                    raise BadInput("inlined calls go too deep", where=f"{ptx.name}:{number}")
                if here[1]:
                    current = frames
            elif current and line.strip():
                ptx.places[number] = current


class _Names:
    """The names in the ``.debug_str`` section, where labels stand for offsets."""

    def __init__(self, lines: list[str]) -> None:
        self._bytes: dict[str, bytearray] = {}
        inside = False
        label = ""
        for line in lines:
            if _DEBUG_SECTION.match(line):
                inside, label = ".debug_str" in line, ""
            elif inside and line.strip() == "}":
                inside = False
            elif inside and (match := _STRING_LABEL.match(line)):
                label = match[1]
                self._bytes[label] = bytearray()
            elif inside and label and (match := _BYTES.match(line)):
                codes = (int(code[-3:]) for code in match[1].split(",") if code.strip())
                self._bytes[label] += bytes(code for code in codes if code < 256)

    def at(self, label: str, offset: int) -> str | None:
        data = self._bytes.get(label)
        return data[offset:].partition(b"\0")[0].decode(errors="replace") if data else None


def without_debug(lines: list[str]) -> list[tuple[int, str]]:
    """The lines that matter, with their numbers: no line information, debug sections or blank lines.

    Two texts compiled from the same code with and without line information are equal
    in this form.
    """
    kept: list[tuple[int, str]] = []
    skipping = False
    for number, line in enumerate(lines, 1):
        if not skipping:
            skipping = ".section" in line and _DEBUG_SECTION.match(line) is not None
        if skipping:
            skipping = line.strip() != "}"
            continue
        text = line.strip("\0 \t\r")
        if text and not text.startswith((".loc\t", ".loc ", ".file")) and not _DEBUG_LABEL.match(text):
            kept.append((number, line.rstrip("\0 \t\r")))
    return kept


def strip_debug(text: str) -> str:
    """A PTX text without line information, debug sections, blank lines and a NUL at its end."""
    return "".join(f"{line}\n" for _, line in without_debug(text.split("\n")))
