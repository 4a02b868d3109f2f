"""A file's bytes as text, whatever bytes they are."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

# PEP 263: a comment on one of the first two lines, the first of which may only be blank or a comment.
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#.*)?$")
_FIRST_LINES = re.compile(rb"\r\n|\r|\n")


class SourceProblem(ValueError):
    """A file that is no Python source text.

    Args:
        message: why, without the place and without a full stop.
        line: where, counted from 1.
    """

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Text:
    """A file's text and how it was written.

    Args:
        raw: the text with its own line ends, without a byte order mark.
        encoding: the codec that reads it.
        bom: whether a UTF-8 byte order mark stood first.
    """

    raw: str
    encoding: str = "utf-8"
    bom: bool = False

    @property
    def normal(self) -> str:
        """The text as Python sees it: every line ends in a line feed."""
        return normalise(self.raw)

    def encode(self, raw: str) -> bytes:
        """Another text in this file's encoding.

        Raises:
            SourceProblem: the encoding has no byte for a character.
        """
        try:
            data = raw.encode(self.encoding)
        except UnicodeEncodeError as wrong:
            line = raw.count("\n", 0, wrong.start) + 1
            raise SourceProblem(f"{self.encoding} cannot write the character {raw[wrong.start]!r}", line) from None
        return codecs.BOM_UTF8 + data if self.bom else data


def normalise(raw: str) -> str:
    """Every line end as a line feed, which is how Python reads source text."""
    return raw.replace("\r\n", "\n").replace("\r", "\n") if "\r" in raw else raw


def decode(data: bytes) -> str:
    """A file's text as Python itself would read it, with every line end as a line feed.

    Raises:
        SourceProblem: a wrong or unknown encoding, or a NUL character.
    """
    return read_text(data).normal


def read_text(data: bytes) -> Text:
    """A file's text with what is needed to write it again.

    Raises:
        SourceProblem: a wrong or unknown encoding, or a NUL character.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data = data[len(codecs.BOM_UTF8) :]
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceProblem("the file is UTF-16, which Python does not read; save it as UTF-8")
    encoding = "utf-8"
    if b"coding" in data[:1000]:
        encoding = _cookie(data, bom) or encoding
    try:
        raw = data.decode(encoding)
    except UnicodeDecodeError as wrong:
        line = _line_of(data, wrong.start)
        raise SourceProblem(f"the byte 0x{data[wrong.start]:02x} is not {encoding}", line) from None
    except UnicodeError:
        raise SourceProblem(f"the file is not {encoding}") from None
    if "\0" in raw:
        raise SourceProblem("the file has a NUL character", normalise(raw[: raw.index("\0")]).count("\n") + 1)
    return Text(raw, encoding, bom)


def _cookie(data: bytes, bom: bool) -> str | None:
    """The encoding that the file declares, by its Python name."""
    for number, line in enumerate(_FIRST_LINES.split(data[:1000], maxsplit=2)[:2], start=1):
        found = _COOKIE.match(line)
        if found:
            name = found[1].decode("ascii", "replace")
            try:
                codec = codecs.lookup(name)
            except (LookupError, ValueError):
                raise SourceProblem(f"the encoding {name!r} is unknown", number) from None
            # Some codecs are between bytes (`hex`) or between texts (`rot13`): Python refuses those.
            if not getattr(codec, "_is_text_encoding", True):
                raise SourceProblem(f"{name!r} is no encoding of text", number)
            if bom and codec.name not in ("utf-8", "utf-8-sig"):
                raise SourceProblem(f"the file declares {name} but starts with a UTF-8 byte order mark", number)
            return "utf-8" if codec.name == "utf-8-sig" else codec.name
        if not _BLANK.match(line):
            return None
    return None


def _line_of(data: bytes, offset: int) -> int:
    before = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return before.count(b"\n") + 1


def characters(line: str, byte_column: int) -> int:
    """The column in characters, from 0, of a column that ``ast`` counts in UTF-8 bytes."""
    if line.isascii():
        return byte_column
    return len(line.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "ignore"))
