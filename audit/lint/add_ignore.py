"""Comments written into files, so that what is found today is silent and what comes tomorrow is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from warp_audit.audit.lint.fixing import Rewritten
from warp_audit.audit.lint.known import OWN
from warp_audit.audit.lint.report import Found
from warp_audit.audit.source.text import Text

_LINES = re.compile(r"\r\n|\r|\n")
_IGNORE = re.compile(r"(#\s*warp-audit:\s*ignore[ \t]*\[)([^\]#]*)\]")
_OWN_CODES = {rule.code for rule in OWN}


def add_ignores(path: str, text: Text, found: Sequence[Found], reason: str) -> tuple[Rewritten, list[Found]]:
    """A file with a comment for each finding, and the findings that no comment can be written for.

    The comment stands at the end of a line that counts for the finding and that a comment can follow: not within
    a string, not after a backslash. One that is there gets the rule added.
    """
    parts = _LINES.split(text.raw)
    ends = [*_LINES.findall(text.raw), ""]
    taken = _no_comment_after(text.normal)
    wanted: dict[int, list[str]] = {}
    left = []
    for one in found:
        diagnostic = one.diagnostic
        span = diagnostic.span
        places = dict.fromkeys([span.line, span.end_line, *one.anchors])
        free = [
            line for line in places
            if line not in taken and line <= len(parts) and not parts[line - 1].rstrip().endswith("\\")
        ]  # fmt: skip
        if diagnostic.code in _OWN_CODES or not free:
            left.append(one)
        else:
            names = wanted.setdefault(free[0], [])
            if diagnostic.rule not in names:
                names.append(diagnostic.rule)
    for line, names in wanted.items():
        parts[line - 1] = _with(parts[line - 1], names, reason)
    after = "".join(part + end for part, end in zip(parts, ends, strict=True))
    return Rewritten(path, text, after, sum(map(len, wanted.values()))), left


def _with(line: str, names: list[str], reason: str) -> str:
    there = _IGNORE.search(line)
    if there:
        old = [name.strip() for name in there[2].split(",") if name.strip()]
        both = ", ".join(dict.fromkeys([*old, *names]))
        return f"{line[: there.start()]}{there[1]}{both}]{line[there.end() :]}"
    return f"{line.rstrip()}  # warp-audit: ignore[{', '.join(names)}]" + (f" {reason}" if reason else "")


def _no_comment_after(text: str) -> set[int]:
    """The lines that end within a string."""
    taken: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno and node.end_lineno > node.lineno:
            taken.update(range(node.lineno, node.end_lineno))
    return taken
