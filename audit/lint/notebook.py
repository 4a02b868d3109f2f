"""A Jupyter notebook as one module: its Python cells one after the other, IPython's own lines blanked."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from warp_audit.audit.source.text import SourceProblem, normalise

# Cell magics whose body is Python all the same.
_PYTHON_MAGICS = {"capture", "debug", "prun", "python", "python3", "time", "timeit", "memit", "mprun", "lprun"}
_ASSIGNED = re.compile(r"([ \t]*[\w.,\[\]'\" \t*()]+?=[ \t]*)([%!].*)")
_HELP = re.compile(r"[ \t]*(\?{1,2}[\w.*%]+|%{0,2}[\w.*\[\]()'\"]+\?{1,2})[ \t]*;?$")


@dataclass(frozen=True)
class Notebook:
    """A notebook's code.

    Args:
        text: the cells' code; each cell starts on a line of its own.
        starts: the line, from 1, on which each cell starts.
        cells: the number of each of them among all cells of the notebook, from 1.
    """

    text: str
    starts: tuple[int, ...]
    cells: tuple[int, ...]

    def place(self, line: int) -> tuple[int, int] | None:
        """The cell and the line in it, both from 1, of a line of ``text``."""
        index = bisect_right(self.starts, line) - 1
        return (self.cells[index], line - self.starts[index] + 1) if index >= 0 else None


def read_notebook(text: str) -> Notebook:
    """The Python cells of a notebook.

    Raises:
        SourceProblem: the text is no notebook.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise SourceProblem(f"the notebook is not JSON: {wrong.msg}", wrong.lineno) from None
    except RecursionError:
        raise SourceProblem("the notebook's JSON is nested too deeply") from None
    if not isinstance(data, dict):
        raise SourceProblem("the file is JSON but no notebook")
    cells = data.get("cells")
    if cells is None:  # nbformat 3
        sheets = data.get("worksheets")
        cells = [cell for sheet in _list(sheets) if isinstance(sheet, dict) for cell in _list(sheet.get("cells"))]
        if not isinstance(sheets, list):
            raise SourceProblem("the file is JSON but no notebook")
    if not isinstance(cells, list):
        raise SourceProblem("the notebook's cells are no list")
    if not _is_python(data.get("metadata")):
        return Notebook("", (), ())
    parts: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    line = 1
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        code = python_of(_source(cell))
        parts.append(code + "\n")
        starts.append(line)
        numbers.append(number)
        line += code.count("\n") + 1
    return Notebook("".join(parts), tuple(starts), tuple(numbers))


def python_of(code: str) -> str:
    """A cell's code with as many lines, without what only IPython understands."""
    stripped = code.lstrip()
    if stripped.startswith("%%"):
        magic = stripped[2:].split(None, 1)[0] if stripped[2:].split() else ""
        lines = code.split("\n")
        if magic not in _PYTHON_MAGICS:
            return "\n" * (len(lines) - 1)
        first = next(index for index, line in enumerate(lines) if line.strip())
        lines[first] = ""
        code = "\n".join(lines)
    if _parses(code):
        return code
    return "\n".join(_plain_line(line) for line in code.split("\n"))


def _plain_line(line: str) -> str:
    """``pass`` for a magic, a shell command or a question, so that a block keeps a body."""
    bare = line.lstrip(" \t")
    indent = line[: len(line) - len(bare)]
    if bare.startswith(("%", "!", "?")) or _HELP.fullmatch(line):
        return f"{indent}pass"
    assigned = _ASSIGNED.fullmatch(line)
    return f"{assigned[1]}None" if assigned else line


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return normalise(source).replace("\0", "") if isinstance(source, str) else ""


def _is_python(metadata: object) -> bool:
    """A notebook that names no language is Python, as Jupyter has it."""
    metadata = metadata if isinstance(metadata, dict) else {}
    info, kernel = metadata.get("language_info"), metadata.get("kernelspec")
    names = [
        info.get("name") if isinstance(info, dict) else None,
        kernel.get("language") if isinstance(kernel, dict) else None,
    ]
    named = [name.lower() for name in names if isinstance(name, str)]
    return not named or named[0] in ("python", "ipython", "python3")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
