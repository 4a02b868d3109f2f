"""Notebooks."""

import ast
import json

import pytest

from warp_audit.audit.lint.notebook import python_of, read_notebook
from warp_audit.audit.source.text import SourceProblem


def notebook(*sources, **more):
    cells = [
        {"cell_type": "markdown" if source.startswith("# ") else "code", "source": source.splitlines(keepends=True)}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})


def test_cells_are_one_module():
    read = read_notebook(notebook("# Title", "import warp as wp\n%matplotlib inline", "x = 1", "", "y = (\n2)\n"))
    assert read.text == "import warp as wp\npass\nx = 1\n\ny = (\n2)\n\n"
    assert [read.place(line) for line in range(1, 8)] == [(2, 1), (2, 2), (3, 1), (4, 1), (5, 1), (5, 2), (5, 3)]


@pytest.mark.parametrize(
    ("code", "python"),
    [
        ("!ls\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls {x}\n", "if x:\n    pass\n"),
        ("files = !ls\n", "files = None\n"),
        ("a, b = %time f()\n", "a, b = None\n"),
        ("%%bash\nls\nrm -rf /", "\n\n"),
        ("%%time\nx = 1", "\nx = 1"),
        ("\n%%timeit -n 3\n%time y\nx = 1", "\n\npass\nx = 1"),
        ("wp.launch?\n", "pass\n"),
        ("?wp.launch\nx = 1", "pass\nx = 1"),
        ("wp.launch??\n%%x", "pass\npass"),
        ("s = '''\n%not magic\n'''", "s = '''\n%not magic\n'''"),
        ("x = 7 \\\n  % 2", "x = 7 \\\n  % 2"),
        ("await f()", "await f()"),
        ("%%", ""),
    ],
)
def test_what_only_ipython_understands_is_blanked(code, python):
    assert python_of(code) == python
    ast.parse(python_of(code))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the notebook is not JSON: "),
        ("", "the notebook is not JSON: "),
        ("[]", "the file is JSON but no notebook"),
        ("{}", "the file is JSON but no notebook"),
        ('{"cells": 3}', "the notebook's cells are no list"),
        ("[" * 100_000, "the notebook's JSON is nested too deeply"),
    ],
)
def test_what_is_no_notebook(text, message):
    with pytest.raises(SourceProblem, match=message):
        read_notebook(text)


@pytest.mark.parametrize(
    "cells",
    [
        [3, None, "x"],
        [{"cell_type": "code"}],
        [{"cell_type": "code", "source": {}}],
        [{"cell_type": "code", "source": [1]}],
    ],
)
def test_odd_cells(cells):
    assert read_notebook(json.dumps({"cells": cells})).text.strip() == ""


def test_older_and_other_notebooks():
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": "x = 1"}]}]}
    assert read_notebook(json.dumps(old)).text == "x = 1\n"
    assert read_notebook(notebook("println(1)", metadata={"language_info": {"name": "julia"}})).text == ""


def test_findings_name_the_cell(lint, tmp_path):
    (tmp_path / "n.ipynb").write_text(notebook("# T", "import warp", "%pip install x\n\nbad()  # why", "def f(:"))
    ran = lint()
    assert (
        ran.out
        == """\
n.ipynb:cell 4:1:7: error WPA900[unreadable-source]: Python cannot read this: invalid syntax
  1 | def f(:
    |       ^
    = note: line 1 of cell 4

Found 1 fault (1 error) in 1 file.
"""
    )
    (tmp_path / "n.ipynb").write_text(notebook("# T", "import warp", "%pip install x\n\nbad()  # why"))
    assert lint("--format", "concise").out == "n.ipynb:cell 3:3:1: WPA190[tiny-call] bad is called\n"
    (one,) = json.loads(lint("--format", "json").out)
    assert (one["file"], one["line"], one["column"], one["notes"]) == ("n.ipynb", 4, 1, ["line 3 of cell 3"])


def test_comments_count_in_notebooks(lint, tmp_path):
    (tmp_path / "n.ipynb").write_text(notebook("import warp", "bad()  # noqa: WPA190\nx = 1  # noqa: WPA490"))
    assert lint("--format", "concise").out == (
        "n.ipynb:cell 2:2:8: WPA901[unused-suppression] WPA490 finds nothing here, so there is nothing to suppress\n"
    )


def test_notebooks_are_not_rewritten(lint, tmp_path):
    path = tmp_path / "n.ipynb"
    path.write_text(notebook("import warp", "bad()"))
    before = path.read_bytes()
    assert lint("--fix").code == 1
    ran = lint("--add-ignore")
    assert ran.code == 1
    assert ran.err == "0 comments written\n"
    assert path.read_bytes() == before
    (tmp_path / "bad.ipynb").write_text("warp, but no JSON")
    assert "bad.ipynb:1:1: WPA900[unreadable-source] the notebook is not JSON" in lint("--format", "concise").out
