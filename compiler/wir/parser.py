"""Reads ``.wir`` text. Printing what was read gives the same text again."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from pathlib import Path

from warp_audit.compiler.ir.expr import WIR, Expr, ExprError, Reader
from warp_audit.compiler.ir.module import (
    REGIONS,
    Body,
    Frame,
    Function,
    Module,
    Parameter,
    Source,
    StructDecl,
    Value,
)
from warp_audit.compiler.ir.op import Access, Op, Origin
from warp_audit.compiler.ir.types import TypeTextError, parse_type
from warp_audit.compiler.ops.kind import kind_of
from warp_audit.compiler.wir.printer import VERSION
from warp_audit.errors import BadInput

MAX_BLOB = 256 << 20  # bytes of one unpacked device library
MAX_DEPTH = 400  # nesting of regions: each branch of an `elif` chain lies in the one before

_HEADER = re.compile(r"wir (\d{1,6})\.(\d{1,6}) warp (\S+)")
_MODULE = re.compile(r'module (".*") as (".*")')
_OPTION = re.compile(r'option (\w+) (".*")')
_SOURCE = re.compile(r'source (\d+) sha256:([0-9a-f]*) (".*")')
_STRUCT = re.compile(r'struct (\w+) (".*") \{')
_FIELD = re.compile(r"  field (\w+): (.*)")
_FUNCTION = re.compile(r"(kernel|func|native) ")
_PARAM = re.compile(r"  param %(\w+): (.*)")
_RETURNS = re.compile(r"  returns (.*)")
_VALUE = re.compile(r"  value %(\w+): (.*?)(?: @(\d+:\d+:\d+-\d+:\d+))?(?: := (.*))?")
_BODY = re.compile(r"body (forward|reverse) (\S+)")
_BLOB = re.compile(r"blob (\S+) ([A-Za-z0-9+/=]*)")
_ORIGIN = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})-(\d{1,9}):(\d{1,9})")
_NAME = re.compile(r"([A-Za-z_][\w.]*)\(")
_RESULT = re.compile(r"(.*?) = ([A-Za-z_][\w.]*)\(")
_OF = re.compile(r" <(\d{1,9})")
_ACCESS = re.compile(r" !(read|write|atomic|update) (global|shared|local|param|native) ")
_JSON = json.JSONDecoder()


class _Wrong(Exception):
    """Something is wrong with the current line."""


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.path = path
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.at = 0
        self.ops: dict[int, Op] = {}

    def peek(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def next(self) -> str:
        if self.at >= len(self.lines):
            raise _Wrong("the file ends in the middle of a module")
        line = self.lines[self.at]
        self.at += 1
        return line

    def module(self) -> Module:
        header = _HEADER.fullmatch(self.next()) if self.lines else None
        if not header:
            raise _Wrong("the first line is not a .wir header")
        major, minor = int(header[1]), int(header[2])
        if major != VERSION[0] or minor > VERSION[1]:
            raise _Wrong(
                f"written in IR version {major}.{minor} (with Warp {header[3]}); "
                f"this warp-audit reads {VERSION[0]}.0 to {VERSION[0]}.{VERSION[1]}"
            )
        named = _MODULE.fullmatch(self.next())
        if not named:
            raise _Wrong("expected the module's name")
        module = Module(self.string(named[1]), self.string(named[2]), header[3])
        while self.at < len(self.lines):
            self.item(module)
        self.check_sources(module)
        return module

    def item(self, module: Module) -> None:
        line = self.next()
        word = line.split(" ", 1)[0]
        if word == "option" and (match := _OPTION.fullmatch(line)):
            module.options[match[1]] = self.string(match[2])
        elif word == "source" and (match := _SOURCE.fullmatch(line)):
            if int(match[1]) != len(module.sources):
                raise _Wrong("sources are not numbered in order")
            text = []
            while self.peek().startswith("  | "):
                text.append(self.next()[4:])
            module.sources.append(Source(self.string(match[3]), match[2], tuple(text)))
        elif word == "struct" and (match := _STRUCT.fullmatch(line)):
            module.structs.append(self.struct(match))
        elif _FUNCTION.match(line):
            module.functions.append(self.function(line))
        elif line == "text {":
            module.layout.append(self.frame())
        elif word == "body" and (match := _BODY.fullmatch(line)):
            if not any(function.symbol == match[2] for function in module.functions):
                raise _Wrong(f"no function {match[2]} to take the body of")
            module.layout.append(Body(match[2], match[1] == "reverse"))
        elif word == "blob" and (match := _BLOB.fullmatch(line)):
            module.blobs[match[1]] = self.blob(match[2])
        else:
            raise _Wrong(f"{line[:60]!r} is not part of a module")

    def struct(self, match: re.Match[str]) -> StructDecl:
        found = StructDecl(match[1], self.string(match[2]), [], node=self.at)
        while (line := self.next()) != "}":
            named = _FIELD.fullmatch(line)
            if not named:
                raise _Wrong("expected a field or '}'")
            found.fields.append((named[1], parse_type(named[2])))
        return found

    def frame(self) -> Frame:
        lines = []
        while (line := self.next()) != "}":
            if not line.startswith("  |"):
                raise _Wrong("expected '  | text' or '}'")
            lines.append(line[4:])
        return Frame(tuple(lines))

    def blob(self, text: str) -> bytes:
        try:
            unpack = zlib.decompressobj()
            data = unpack.decompress(base64.b64decode(text, validate=True), MAX_BLOB)
        except (binascii.Error, zlib.error, ValueError):
            raise _Wrong("a device library is damaged") from None
        if not unpack.eof:
            raise _Wrong("a device library is damaged or too large")
        return data

    def function(self, line: str) -> Function:
        head = re.match(r'(kernel|func|native) ("(?:\\.|[^"\\])*") as (\S+)', line)
        if not head or not line.endswith(" {"):
            raise _Wrong('expected: kernel "name" as symbol … {')
        found = Function(head[1], self.string(head[2]), head[3], None, node=self.at)
        reader = Reader(line[:-2], WIR)
        reader.at = head.end()
        found.attrs = self.json(reader)
        found.origin = self.origin(reader)
        self.finished(reader)
        while (line := self.next()) != "}":
            if match := _PARAM.fullmatch(line):
                found.parameters.append(Parameter(match[1], parse_type(match[2]), self.at))
            elif match := _RETURNS.fullmatch(line):
                found.returns += (parse_type(match[1]),)
            elif line.startswith("  value ") and (match := _VALUE.fullmatch(line)):
                origin = self.origin_text(match[3]) if match[3] else None
                found.values.append(Value(match[1], parse_type(match[2]), match[4], origin, self.at))
            elif line.startswith("  ") and line.endswith(" {") and line[2:-2] in REGIONS:
                found.regions[line[2:-2]] = self.region("    ", 0)
            else:
                raise _Wrong(f"{line[:60]!r} is not part of a function")
        return found

    def region(self, indent: str, depth: int) -> list[Op]:
        if depth > MAX_DEPTH:
            raise _Wrong("regions nested too deeply")
        ops: list[Op] = []
        end = indent[:-2] + "}"
        while (line := self.next()) != end:
            if not line.startswith(indent):
                raise _Wrong("expected an op or '}'")
            op = self.op(line[len(indent) :])
            op.node = self.at
            self.ops[op.node] = op
            ops.append(op)
            if op.body is not None:
                op.body = self.region(indent + "  ", depth + 1)
                op.end_node = self.at
        return ops

    def op(self, text: str) -> Op:
        if text.startswith("//"):
            kind = kind_of("note")
            assert kind is not None
            return Op(kind, "note", attrs={"text": text})
        results: tuple[Expr, ...] = ()
        match = _NAME.match(text)
        if not match:
            match = _RESULT.match(text)
            if not match:
                raise _Wrong(f"{text[:60]!r} is not an op")
            reader = Reader(match[1], WIR)
            listed = [reader.expression()]
            while reader.at < len(match[1]):
                reader.take(", ")
                listed.append(reader.expression())
            results = tuple(listed)
        name = match[match.lastindex or 1]
        kind = kind_of(name)
        if kind is None:
            raise _Wrong(f"unknown op {name!r}")
        has_body = text.endswith(" {")
        reader = Reader(text[:-2] if has_body else text, WIR)
        reader.at = match.end() - 1
        op = Op(kind, name, results, reader.items("(", ")"))
        op.access = self.accesses(reader)
        op.attrs = self.json(reader)
        if found := _OF.match(reader.source, reader.at):
            reader.at = found.end()
            op.of = self.ops.get(int(found[1]))
            if op.of is None:
                raise _Wrong(f"no op stands on line {found[1]}")
        op.origin = self.origin(reader)
        self.finished(reader)
        if has_body != (name in ("if", "loop")):
            raise _Wrong(f"{name} {'takes no' if has_body else 'needs a'} body")
        if has_body:
            op.body = []
        if wrong := kind.check(op):
            raise _Wrong(wrong)
        self.writable(op)
        return op

    def writable(self, op: Op) -> None:
        """Refuse an op whose fields its kind cannot print."""
        try:
            op.kind.write(op).cpp()
        except (KeyError, IndexError, AssertionError):
            raise _Wrong(f"{op.name} lacks an operand, result or attribute") from None

    def accesses(self, reader: Reader) -> tuple[Access, ...]:
        found: list[Access] = []
        while match := _ACCESS.match(reader.source, reader.at):
            reader.at = match.end()
            reader.subscripts = False  # what follows in brackets is the access's index
            target = reader.operand()
            index: tuple[Expr, ...] = ()
            if reader.source.startswith("[", reader.at):
                index = reader.items("[", "]")
            found.append(Access(match[1], match[2], target, index))
        return tuple(found)

    def json(self, reader: Reader) -> dict[str, str]:
        if not reader.source.startswith(' {"', reader.at):
            return {}
        try:
            found, reader.at = _JSON.raw_decode(reader.source, reader.at + 1)
        except ValueError:
            raise _Wrong("attributes are not a JSON object") from None
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise _Wrong("attributes are not strings")
        return found

    def origin(self, reader: Reader) -> Origin | None:
        if not reader.source.startswith(" @", reader.at):
            return None
        match = _ORIGIN.match(reader.source, reader.at + 2)
        if not match:
            raise _Wrong("expected source:line:column-line:column")
        reader.at = match.end()
        return Origin(*map(int, match.groups()))

    def origin_text(self, text: str) -> Origin:
        match = _ORIGIN.fullmatch(text)
        if not match:
            raise _Wrong("expected source:line:column-line:column")
        return Origin(*map(int, match.groups()))

    def finished(self, reader: Reader) -> None:
        if reader.at != len(reader.source):
            raise _Wrong(f"{reader.source[reader.at : reader.at + 40]!r} is too much")

    def string(self, text: str) -> str:
        try:
            found = json.loads(text)
        except ValueError:
            raise _Wrong("a string is not closed") from None
        if not isinstance(found, str):
            raise _Wrong("expected a string")
        return found

    def check_sources(self, module: Module) -> None:
        for function in module.functions:
            origins = [function.origin, *(v.origin for v in function.values), *(o.origin for _, o in function.ops())]
            if any(o is not None and o.source >= len(module.sources) for o in origins):
                raise _Wrong(f"function {function.key} names a source that the module does not list")


def parse_module(text: str, path: str = "<text>") -> Module:
    """The module that ``.wir`` text holds.

    Raises:
        BadInput: the text is not a module that this version reads; names the line.
    """
    parser = _Parser(text, path)
    try:
        return parser.module()
    except (_Wrong, ExprError, TypeTextError) as wrong:
        raise BadInput(str(wrong), where=f"{path}:{max(parser.at, 1)}") from None


def load_module(path: Path) -> Module:
    """The module in a ``.wir`` file.

    Raises:
        BadInput: the file cannot be read, is not UTF-8, or is not a module.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadInput("not a .wir file: its text is not UTF-8", where=str(path)) from None
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=str(path)) from None
    return parse_module(text, str(path))
