"""Comments that silence findings: by line, by range, by file; each names its rules.

====================================================  ====================================================
``# noqa: WPA101``                                    this line
``# warp-audit: ignore[slug, WPA101] reason``         this line; alone on a line, the statement after it
``# warp-audit: fixme[slug] reason``                  the same, counted as debt
``# warp-audit: off[slug]`` … ``# warp-audit: on``    the lines between; without ``on``, the rest of the file
``# warp-audit: ignore-file[slug] reason``            the whole file
====================================================  ====================================================

A line counts for a finding if the finding or the statement that it stands in starts or ends there; of a
compound statement only the header counts.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from warp_audit.audit.lint.known import Known, chosen, near_miss, nearest

_OURS = re.compile(r"#\s*warp-audit:\s*([\w-]+)[ \t]*(?:\[([^\]#]*)(\])?)?")
_NOQA = re.compile(r"#\s*noqa\s*:\s*([A-Za-z]+[0-9]+(?:\s*,\s*[A-Za-z]+[0-9]+|\s+[A-Z]+[0-9]+)*)", re.IGNORECASE)
_OUR_CODE = re.compile(r"WPA\d{3}", re.IGNORECASE)
_BARE_NOQA = re.compile(r"#\s*noqa\b(?!\s*:\s*[A-Za-z]+[0-9])", re.IGNORECASE)
_WORDS = ("ignore", "fixme", "off", "on", "ignore-file")
_LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


@dataclass(frozen=True)
class Suppression:
    """One comment that silences findings.

    Args:
        scope: ``line``, ``range`` or ``file``.
        names: the rules as the comment names them, and the codes that each name means.
        first: the first line that it covers.
        last: the last one.
        place: line, column and end column of the comment, from 1.
        debt: whether it says that the finding is right and waits to be mended.
    """

    scope: str
    names: tuple[tuple[str, tuple[str, ...]], ...]
    first: int
    last: int
    place: tuple[int, int, int]
    debt: bool = False

    def covers(self, code: str, line: int, anchors: Sequence[int]) -> bool:
        """Whether it silences a rule's finding that starts on a line and has these anchors."""
        if not any(code in codes for _, codes in self.names):
            return False
        if self.scope == "line":
            return any(self.first <= anchor <= self.last for anchor in (line, *anchors))
        return self.scope == "file" or self.first <= line <= self.last

    def to_plain(self) -> list[Any]:
        """Plain data, for the cache."""
        names = [[name, list(codes)] for name, codes in self.names]
        return [self.scope, names, self.first, self.last, list(self.place), self.debt]

    @staticmethod
    def from_plain(plain: list[Any]) -> Suppression:
        """The inverse of ``to_plain``."""
        scope, names, first, last, place, debt = plain
        return Suppression(
            scope, tuple((name, tuple(codes)) for name, codes in names), first, last, tuple(place), debt
        )  # fmt: skip


@dataclass(frozen=True)
class Remark:
    """What is wrong with a comment: its place and a sentence."""

    place: tuple[int, int, int]
    message: str


@dataclass(frozen=True)
class Comments:
    """What the comments of a file say to the linter."""

    suppressions: tuple[Suppression, ...] = ()
    remarks: tuple[Remark, ...] = ()


def read(text: str, rules: Sequence[Known]) -> Comments:
    """The comments of a file that ``ast`` can read, with line feeds as line ends."""
    if "warp-audit:" not in text and not ("WPA" in text.upper() and "noqa" in text.lower()):
        return Comments()
    reader = _Reader(rules, text.count("\n") + 1)
    try:
        for comment in _comments(text):
            reader.comment(comment)
    except (tokenize.TokenError, SyntaxError):
        pass  # the tokenizer is stricter than `ast` in some corners: what was read until there counts
    return reader.result()


def is_bare_noqa(line: str) -> bool:
    """Whether a line has a ``noqa`` that names no rule, which other linters honour and this one does not."""
    return "noqa" in line.lower() and _BARE_NOQA.search(line) is not None


@dataclass(frozen=True)
class _Comment:
    text: str
    line: int
    column: int
    covers: int
    """The line that it speaks of: its own, or the next one with code if it stands alone."""


def _comments(text: str) -> Iterator[_Comment]:
    waiting: list[tuple[str, int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            if "warp-audit:" not in token.string and "noqa" not in token.string.lower():
                continue
            if token.line[:column].strip():
                yield _Comment(token.string, line, column, line)
            else:
                waiting.append((token.string, line, column))
        elif waiting and token.type not in _LAYOUT:
            for string, line, column in waiting:
                yield _Comment(string, line, column, token.start[0])
            waiting = []
    for string, line, column in waiting:
        yield _Comment(string, line, column, line)


class _Reader:
    def __init__(self, rules: Sequence[Known], last_line: int) -> None:
        self.rules = rules
        self.last_line = last_line
        self.found: list[Suppression] = []
        self.remarks: list[Remark] = []
        self.open: list[Suppression] = []

    def comment(self, comment: _Comment) -> None:
        for match in _NOQA.finditer(comment.text):
            names = [name.upper() for name in _OUR_CODE.findall(match[1])]
            place = self.place(comment, match.start(), match.end())
            known = self.known(names, place)
            if known:
                self.found.append(Suppression("line", known, comment.line, comment.line, place))
        for match in _OURS.finditer(comment.text):
            self.ours(comment, match)

    def ours(self, comment: _Comment, match: re.Match[str]) -> None:
        word, listed, closed = match[1].lower(), match[2], match[3]
        place = self.place(comment, match.start(), match.end())
        if word not in _WORDS:
            near = near_miss(word, _WORDS)
            if near or listed is not None:
                self.say(
                    place, f"'{word}' is no word of warp-audit's comments" + (f"; did you mean '{near}'?" * bool(near))
                )
            return
        if listed is not None and not closed:
            self.say(place, f"the bracket after '{word}' is not closed, so the comment has no effect")
            return
        names = [name.strip() for name in (listed or "").split(",") if name.strip()]
        if word == "on":
            self.end(names, place, comment.line)
            return
        if not names:
            self.say(place, f"'{word}' names no rule, so it has no effect; write {word}[RULE]")
            return
        known = self.known(names, place)
        if not known:
            return
        if word == "off":
            self.open.append(Suppression("range", known, comment.line, self.last_line, place))
        elif word == "ignore-file":
            self.found.append(Suppression("file", known, 1, self.last_line, place))
        else:
            first, last = sorted((comment.line, comment.covers))
            self.found.append(Suppression("line", known, first, last, place, debt=word == "fixme"))

    def end(self, names: list[str], place: tuple[int, int, int], line: int) -> None:
        """``on`` ends every open range, ``on[…]`` only what it names of them."""
        codes = {code for _, found in self.known(names, place) for code in found}
        still: list[Suppression] = []
        ended = False
        for one in self.open:
            ending = tuple(each for each in one.names if not names or codes.intersection(each[1]))
            staying = tuple(each for each in one.names if each not in ending)
            if ending:
                ended = True
                self.found.append(Suppression("range", ending, one.first, line, one.place))
            if staying:
                still.append(Suppression("range", staying, one.first, one.last, one.place))
        self.open = still
        if not ended:
            self.say(place, "nothing is switched off here that 'on' could switch on")

    def known(self, names: list[str], place: tuple[int, int, int]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        known = []
        for name in names:
            codes = tuple(rule.code for rule in chosen(name, self.rules)) if name != "ALL" else ()
            if codes:
                known.append((name, codes))
            else:
                near = nearest(name, self.rules)
                self.say(place, f"there is no rule '{name}'" + (f"; did you mean '{near}'?" if near else ""))
        return tuple(known)

    @staticmethod
    def place(comment: _Comment, start: int, end: int) -> tuple[int, int, int]:
        return comment.line, comment.column + start + 1, comment.column + end + 1

    def say(self, place: tuple[int, int, int], message: str) -> None:
        self.remarks.append(Remark(place, message))

    def result(self) -> Comments:
        found = sorted([*self.found, *self.open], key=lambda one: one.place)
        return Comments(tuple(found), tuple(self.remarks))
