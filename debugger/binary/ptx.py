"""Reads PTX text as NVRTC writes it: entries, line information, and the text without it.

Directives as the PTX ISA document has them: ``.file`` and ``.loc`` (with ``function_name``
and ``inlined_at``) state where code comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from warp_audit.debugger.binary.lines import MAX_INLINE_DEPTH, Frame
from warp_audit.errors import BadInput

MAX_SIZE = 1 << 30

_VERSION = re.compile(r"^\.version\s+\d+\.\d+", re.MULTILINE)
_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"((?:\\.|[^"\\])*)"')
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([\w$]+)\s*(?:\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_DEBUG_LABEL = re.compile(r"\$L__(?:tmp|func_begin|func_end|sec_end|info_string)\w*:")
_STRING_LABEL = re.compile(r"(\$L__info_string\d+):")
_BYTES = re.compile(r"\.b8\s+([\d,\s]+)")


@dataclass(slots=True)
class Ptx:
    """A PTX text: its lines, where each function's begin, and the place stated for each line."""

    name: str
    lines: list[str]
    target: str
    entries: dict[str, int] = field(default_factory=dict)  # function → line, from 1
    files: dict[int, str] = field(default_factory=dict)
    places: dict[int, tuple[Frame, ...]] = field(default_factory=dict)  # line → frames, innermost first

    @property
    def has_lines(self) -> bool:
        """Whether the text holds line information."""
        return bool(self.files)

    def function_at(self, line: int) -> str | None:
        """The function that a line belongs to."""
        before = [(start, name) for name, start in self.entries.items() if start <= line]
        return max(before)[1] if before else None


def parse_ptx(data: bytes, name: str) -> Ptx:
    """The PTX in ``data``; a NUL at its end is not part of it.

    Raises:
        BadInput: it is not PTX.
    """
    if not data.strip(b"\0 \n"):
        raise BadInput("is empty", where=name)
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise BadInput("is not PTX: its text is not UTF-8", where=name) from None
    target = _TARGET.search(text)
    if "\0" in text or not _VERSION.search(text) or not target:
        raise BadInput("is not PTX: it has no .version and .target", where=name)
    found = Ptx(name, text.split("\n"), target[1])
    for number, line in enumerate(found.lines, 1):
        if match := _FILE.match(line):
            found.files[int(match[1])] = match[2].replace('\\"', '"').replace("\\\\", "\\")
        elif ".entry" in line or ".func" in line:
            if match := _ENTRY.search(line):
                found.entries.setdefault(match[1], number)
    _places(found)
    return found


def read_ptx(path: Path) -> Ptx:
    """The PTX in a file.

    Raises:
        BadInput: the file cannot be read or is not PTX.
    """
    try:
        if path.stat().st_size > MAX_SIZE:
            raise BadInput("larger than any PTX (1 GiB)", where=str(path))
        return parse_ptx(path.read_bytes(), str(path))
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None


def _places(ptx: Ptx) -> None:
    names = _strings(ptx.lines)
    known: dict[tuple[int, int, int], tuple[Frame, ...]] = {}
    current: tuple[Frame, ...] = ()
    for number, line in enumerate(ptx.lines, 1):
        if ".loc" in line and (match := _LOC.match(line)):
            file, row, column = int(match[1]), int(match[2]), int(match[3])
            outer: tuple[Frame, ...] = ()
            function = None
            if match[4]:
                outer = known.get((int(match[5]), int(match[6]), int(match[7])), ())
                function = names.get(match[4])
            frames = (Frame(ptx.files.get(file, f"file {file}"), row, function), *outer)[:MAX_INLINE_DEPTH]
            known[file, row, column] = frames
            if row:
                current = frames
        elif line.startswith("}"):
            current = ()
        elif current and line.strip():
            ptx.places[number] = current


def _strings(lines: list[str]) -> dict[str, str]:
    """The function names of the ``.debug_str`` section, by label."""
    found: dict[str, str] = {}
    label = ""
    for line in lines:
        if match := _STRING_LABEL.match(line.strip()):
            label = match[1]
            found[label] = ""
        elif label and (data := _BYTES.match(line.strip())):
            codes = [int(part) for part in re.findall(r"\d+", data[1])]
            found[label] += "".join(chr(code) for code in codes if 0 < code < 128)
        elif line.strip() == "}":
            label = ""
    return found


def without_debug(lines: list[str]) -> list[tuple[int, str]]:
    """The lines that matter, with their numbers: no line information, debug sections or blank lines.

    Two texts compiled from the same code with and without line information are equal
    in this form.
    """
    kept: list[tuple[int, str]] = []
    skipping = False
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(".section") and "debug" in text:
            skipping = True
        if skipping:
            skipping = text != "}"
            continue
        if text and not text.startswith((".loc", ".file")) and not _DEBUG_LABEL.match(text):
            kept.append((number, line.rstrip()))
    return kept
