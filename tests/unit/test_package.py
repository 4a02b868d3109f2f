"""The root package: what is installed, how commands are found, what a failure becomes, one shape of finding."""

import ast
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warp_audit
from warp_audit import cli
from warp_audit.diagnostic import Confidence, Diagnostic, Evidence, Severity, Span
from warp_audit.errors import BrokenPromise

TOP = ("audit", "compiler", "debugger", "reports", "tui")
DATA = {".tcss", ".json", ".txt"}


def sources(root):
    """Each file of the package, and the dotted name of the module or folder that it belongs to."""
    for folder in ("warp_audit", *TOP):
        prefix = () if folder == "warp_audit" else ("warp_audit",)
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                parts = (*prefix, *path.relative_to(root).with_suffix("").parts)
                yield path, ".".join(parts).removesuffix(".__init__")


def test_every_module_is_installed(root):
    """Also what only a plain install would miss: a folder with no ``__init__.py`` is left out of it."""
    for path, name in sources(root):
        if path.suffix == ".py":
            spec = importlib.util.find_spec(name)
            assert spec, f"{name} is not installed"
            assert Path(spec.origin).read_bytes() == path.read_bytes(), f"{name} is not what the repository holds"
            assert (path.parent / "__init__.py").is_file(), f"{path.parent} has no __init__.py"


def test_every_data_file_is_of_a_kind_that_is_installed(root):
    strays = [path for path, _ in sources(root) if path.suffix not in DATA | {".py"} and path.name != "py.typed"]
    assert not strays
    declared = (root / "setup.py").read_text()
    assert all(f'"*{suffix}"' in declared for suffix in DATA)
    assert '"py.typed"' in declared


def test_nothing_of_ours_shadows_a_user_module(tmp_path):
    """Only ``warp_audit`` is importable; a user's own ``reports`` stays theirs."""
    code = f"import importlib.util as u; print([n for n in {TOP!r} if u.find_spec(n)])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_say_what_they_are(root):
    bare = [
        path for path, _ in sources(root) if path.suffix == ".py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not bare


def test_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "warp_audit", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith(f"warp-audit {warp_audit.__version__} (Python ")


@pytest.mark.parametrize("missing", ["docstring", "SUMMARY", "register", "run"])
def test_a_command_that_lacks_a_part_is_refused(missing, tmp_path, monkeypatch):
    parts = {
        "docstring": '"""Greet."""',
        "SUMMARY": 'SUMMARY = "greet"',
        "register": "def register(parser): ...",
        "run": "def run(arguments): return 0",
    }
    (tmp_path / f"without_{missing}.py").write_text("\n".join(text for part, text in parts.items() if part != missing))
    monkeypatch.setattr(cli.commands, "__path__", [*cli.commands.__path__, str(tmp_path)])
    assert f"without_{missing}" in cli.command_names()
    with pytest.raises(BrokenPromise, match=f"declares no {missing}"):
        cli._command(f"without_{missing}")


@pytest.fixture
def failing(monkeypatch):
    """Makes ``trace`` fail with an exception, and gives what ``main`` makes of it."""
    import warp_audit.cli.commands.trace as trace

    def fail_with(exception):
        def run(arguments):
            raise exception

        monkeypatch.setattr(trace, "run", run)
        return cli.main(["trace", "k+1"])

    return fail_with


def test_an_interrupt_is_130(failing, capsys):
    assert failing(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_our_bug_is_4_with_its_traceback_too(failing, capsys, monkeypatch):
    monkeypatch.delenv("WARP_AUDIT_TRACEBACK", raising=False)
    assert failing(ZeroDivisionError("x")) == 4
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setenv("WARP_AUDIT_TRACEBACK", "1")
    assert failing(ZeroDivisionError("x")) == 4
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_not_our_bug(tmp_path):
    code = (
        "import sys; from warp_audit import cli; import warp_audit.cli.commands.trace as t\n"
        "t.run = lambda arguments: print('x' * 100000) or 0\nsys.exit(cli.main(['trace', 'k+1']))"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "error: cannot write: No space left on device\n"


def test_standard_output_may_be_closed(tmp_path):
    code = (
        "import sys; sys.stdout = None; from warp_audit import cli; import warp_audit.cli.commands.trace as t\n"
        "t.run = lambda arguments: sys.stdout.write('x') - 1\nsys.exit(cli.main(['trace', 'k+1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_finding_in_the_machine_format(tmp_path):
    found = Diagnostic(
        code="WA000",
        rule="some-rule",
        severity=Severity.ERROR,
        confidence=Confidence.HIGH,
        evidence=Evidence.PROOF,
        message="The index can pass the end.",
        span=Span(str(tmp_path / "sim" / "a.py"), 3, 5, 3, 9),
        fingerprint="f00d",
        notes=("The launch is wider than the array.",),
        witness={"tid": [4]},
    )
    assert json.dumps(found.to_json(tmp_path)) == (
        '{"code": "WA000", "rule": "some-rule", "severity": "error", "confidence": "high", "evidence": "proof", '
        '"message": "The index can pass the end.", "file": "sim/a.py", "line": 3, "column": 5, "end_line": 3, '
        '"end_column": 9, "notes": ["The launch is wider than the array."], "fix": null, "fingerprint": "f00d"}'
    )
    assert found.to_json(tmp_path / "other")["file"] == (tmp_path / "sim" / "a.py").as_posix()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.code = "WA001"


@pytest.mark.parametrize("place", [(0, 1, 1, 1), (2, 1, 1, 9), (1, 5, 1, 4), (1, 1, 2, 0)])
def test_a_span_that_is_none(place):
    with pytest.raises(ValueError, match="no span"):
        Span("a.py", *place)
