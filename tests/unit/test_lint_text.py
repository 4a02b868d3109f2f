"""Bytes as source text."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warp_audit.audit.source.text import SourceProblem, characters, decode, read_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"x = 1\r\ny = 2\rz = 3\n", "x = 1\ny = 2\nz = 3\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        (b"# -*- coding: latin-1 -*-\ns = '\xe9'\n", "# -*- coding: latin-1 -*-\ns = 'é'\n"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ns = '\x80'\n", None),
        (b"x = 1\n# coding: nonsense, but the first line is code\n", None),
        (b"s = 'coding: nonsense'\n", None),
        (b"\x0cx = 1\n", "\x0cx = 1\n"),
        ("# 漢字\n".encode(), "# 漢字\n"),
        (b"# coding: utf-8-sig\n", None),
    ],
)
def test_reads_as_python_does(data, text):
    decoded = decode(data)
    assert decoded == (text if text is not None else decoded)
    assert ast.dump(ast.parse(decoded)) == ast.dump(ast.parse(data))


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"x = 1\n\ns = '\xff'\n", "the byte 0xff is not utf-8", 3),
        (b"x\r\ny\rz = '\xe9'\n", "the byte 0xe9 is not utf-8", 3),
        (b"#\n# coding: klingon\n", "the encoding 'klingon' is unknown", 2),
        (b"# coding: rot13\n", "'rot13' is no encoding of text", 1),
        (b"\xef\xbb\xbf# coding: latin-1\n", "the file declares latin-1 but starts with a UTF-8 byte order mark", 1),
        ("x = 1".encode("utf-16"), "the file is UTF-16, which Python does not read; save it as UTF-8", 1),
        (b"x = 1\n\x00\n", "the file has a NUL character", 2),
    ],
)
def test_says_what_is_wrong_and_where(data, message, line):
    with pytest.raises(SourceProblem) as caught:
        decode(data)
    assert (caught.value.message, caught.value.line) == (message, line)


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_a_problem(data):
    try:
        text = decode(data)
    except SourceProblem as problem:
        said, line = problem.message, problem.line
    else:
        said, line = "fine", 1
        assert "\r" not in text
        assert "\0" not in text
    assert said
    assert line >= 1


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60), st.booleans())
def test_writes_what_it_read(text, bom):
    data = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    try:
        known = read_text(data)
    except SourceProblem:
        return
    assert known.encode(known.raw) == data


def test_says_what_an_encoding_cannot_write():
    known = read_text(b"# coding: latin-1\n")
    with pytest.raises(SourceProblem, match="iso8859-1 cannot write the character '漢'"):
        known.encode(known.raw + "漢")


def test_columns_count_characters():
    line = "s = '漢字é'; bad()"
    node = ast.parse(line).body[1]
    assert line[characters(line, node.col_offset) :] == "bad()"
