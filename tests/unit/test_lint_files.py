"""Which files are linted, and files that nobody would want to."""

import json
import os
import stat
import time

import pytest

from warp_audit.audit.lint.files import Exclusion, glob, may_use_warp


def touch(folder, *names, text="import warp\nbad()\n"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def shown(lint, tmp_path):
    """The files that would be linted."""

    def run(*arguments):
        return [os.path.relpath(line, tmp_path) for line in lint("--show-files", *arguments).out.splitlines()]

    return run


def test_passes_over_what_nobody_wrote(shown, tmp_path):
    touch(tmp_path, "b.py", "a.py", "n.ipynb", "stub.pyi", "notes.txt", "sub/c.py")
    touch(tmp_path, ".git/x.py", ".venv/x.py", ".venv-3.12/x.py", "build/x.py", "sub/__pycache__/x.py", "dist/x.py")
    touch(tmp_path, "other/pyvenv.cfg", "other/lib/x.py", "lib/site-packages/x.py", "node_modules/x.py")
    assert shown() == ["a.py", "b.py", "n.ipynb", "sub/c.py"]
    assert shown("build", "lib/site-packages/x.py", "other") == [
        "build/x.py",
        "lib/site-packages/x.py",
        "other/lib/x.py",
    ]
    assert shown("stub.pyi", "notes.txt", "a.py", "./a.py") == ["a.py", "notes.txt"]


def test_patterns(shown, tmp_path):
    touch(tmp_path, "a.py", "gen_a.py", "sub/gen_b.py", "sub/deep/c.py", "build/d.py")
    assert shown("--extend-exclude", "gen_*.py") == ["a.py", "sub/deep/c.py"]
    assert shown("--extend-exclude", "sub/*.py") == ["a.py", "gen_a.py", "sub/deep/c.py"]
    assert shown("--extend-exclude", "sub/**/c.py,./gen_a.py") == ["a.py", "sub/gen_b.py"]
    assert shown("--extend-exclude", "sub/") == ["a.py", "gen_a.py"]
    assert shown("--exclude", "nothing") == ["a.py", "build/d.py", "gen_a.py", "sub/deep/c.py", "sub/gen_b.py"]
    assert shown("build/d.py", "sub/deep/c.py", "--extend-exclude", "deep") == ["build/d.py", "sub/deep/c.py"]
    assert shown("build/d.py", "sub/deep/c.py", "a.py", "--force-exclude", "--extend-exclude", "deep") == ["a.py"]


def test_globs():
    import re

    for pattern, path, fits in (
        ("*.py", "a.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**", "a/b/c.py", True),
        ("[ab].py", "a.py", True),
        ("[!ab].py", "a.py", False),
        ("a?.py", "ab.py", True),
        ("a.py", "axpy", False),
        ("[", "[", True),
    ):
        assert bool(re.fullmatch(glob(pattern), path)) is fits, pattern
    assert Exclusion("/r", ("a/b",)).passes_over("/r/a/b", "b")
    assert not Exclusion("/r", ("a/b",)).passes_over("/r/c/a/b", "b")


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (b"import warp as wp", True),
        (b"from .common import wp\n@wp.kernel\ndef f(): ...", True),
        (b"ctx.launch(k, dim=3)", True),
        (b"import numpy\nx.function(1)", False),
        (b"", False),
    ],
)
def test_most_files_need_no_look(data, may):
    assert may_use_warp(data) is may


def test_what_is_not_there(lint, tmp_path):
    touch(tmp_path, "a.py")
    ran = lint("gone.py", "a.py", "--format", "concise")
    assert ran.code == 2
    assert ran.out == "a.py:2:1: WPA190[tiny-call] bad is called\n"
    assert ran.err == "error: gone.py: cannot be read: No such file or directory\n"


def test_loops_of_links_end(shown, lint, tmp_path):
    touch(tmp_path, "sub/a.py")
    (tmp_path / "sub" / "again").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "linked.py").symlink_to("sub/a.py")
    assert shown() == ["linked.py", "sub/a.py"]
    assert shown("sub/again/sub") == ["sub/again/sub/a.py"]
    assert "symbolic links" in lint("self").err


def test_a_pipe_is_not_waited_for(lint, tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    assert lint().out == "No faults found in 0 files.\n"
    ran = lint("pipe.py")
    assert (ran.code, ran.err) == (2, "error: pipe.py: neither a file nor a folder\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(lint, tmp_path):
    touch(tmp_path, "a.py", "shut/b.py", "c.py")
    (tmp_path / "shut").chmod(0)
    (tmp_path / "c.py").chmod(0)
    ran = lint("--format", "concise")
    (tmp_path / "shut").chmod(stat.S_IRWXU)
    assert ran.code == 2
    assert ran.out == "a.py:2:1: WPA190[tiny-call] bad is called\n"
    assert ran.err == (
        f"error: {tmp_path}/shut: cannot be read: Permission denied\n"
        f"error: {tmp_path}/c.py: cannot be read: Permission denied\n"
    )


ODD = {
    "bom": b"\xef\xbb\xbfimport warp\nbad()\n",
    "crlf": b"import warp\r\nbad()\r\n",
    "cr": b"import warp\rbad()\r",
    "feed": b"import warp\n\x0c\nbad()\n",
    "latin": b"# coding: latin-1\nimport warp; '\xe9'; bad()\n",
    "long": b"import warp\n" + b"x = 1\n" * 50_000 + b"bad()\n",
    "tab": b"import warp\nif 1:\n\tbad()\n",
    "separator": "import warp; '\u2028\x85'\nbad()\n".encode(),
}
BROKEN = {
    "bytes": (b"import warp\n'\xff'\n", 2, "the byte 0xff is not utf-8"),
    "nul": (b"import warp\n\x00", 2, "the file has a NUL character"),
    "cookie": (b"# coding: nope\nimport warp", 1, "the encoding 'nope' is unknown"),
    "python2": (b"import warp\nprint 'x'\n", 2, None),
    "syntax": (b"import warp\ndef f(:\n", 2, "Python cannot read this: invalid syntax"),
    "indent": (b"import warp\nif 1:\nx\n", 3, None),
    "parentheses": (b"import warp\nx = " + b"(" * 2000 + b")" * 2000, 2, None),
    "open": (b"import warp\nx = '''", 2, None),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files(lint, tmp_path, name):
    (tmp_path / "a.py").write_bytes(ODD[name])
    (one,) = json.loads(lint("--format", "json").out)
    lines = ODD[name].decode("latin-1").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert one["code"] == "WPA190"
    assert "bad()" in lines[one["line"] - 1]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(lint, tmp_path, name):
    data, line, message = BROKEN[name]
    (tmp_path / "a.py").write_bytes(data)
    (tmp_path / "b.py").write_text("import warp\nbad()\n")
    ran = lint("--format", "json")
    first, second = json.loads(ran.out)
    assert (ran.code, ran.err) == (1, "")
    assert (first["code"], first["rule"], first["line"]) == ("WPA900", "unreadable-source", line)
    assert first["message"] == (message or first["message"])
    assert (second["file"], second["code"]) == ("b.py", "WPA190")


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["1"] * 5000),
        "-" * 5000 + "1",
        "f" + "()" * 5000,
        "not " * 3000 + "x",
        "x" + ".y" * 20_000,
        "[" * 150 + "]" * 150,
    ],
    ids=["sum", "minus", "calls", "not", "attributes", "lists"],
)
def test_deep_nesting(lint, tmp_path, expression):
    (tmp_path / "a.py").write_text(f"import warp\nx = {expression}\nbad()\n")
    ran = lint("--format", "json")
    assert ran.err == ""
    assert [one["code"] for one in json.loads(ran.out)] in (["WPA190"], ["WPA900"])


def test_broken_files_without_warp_are_not_ours(lint, tmp_path):
    (tmp_path / "a.py").write_text("print 'x'\n")
    (tmp_path / "b.py").write_bytes(os.urandom(1000).replace(b"warp", b""))
    assert lint().code == 0


def test_a_rule_with_a_bug_stops_neither_other_rules_nor_other_files(lint, tmp_path):
    (tmp_path / "a.py").write_text("import warp\ndef bad_rule(): bad()\n")
    (tmp_path / "b.py").write_text("import warp\nbad()\n")
    ran = lint("--format", "concise")
    assert ran.code == 4
    assert ran.out == "a.py:2:17: WPA190[tiny-call] bad is called\nb.py:2:1: WPA190[tiny-call] bad is called\n"
    assert f"rule WPA490 tiny-def failed on {tmp_path}/a.py: LookupError: this rule has a bug (conftest.py:" in ran.err
    assert lint().code == 4  # a failure is not cached


def test_processes_make_no_difference(lint, tmp_path):
    for number in range(60):
        touch(tmp_path, f"m{number:02}.py", text=f"import warp\n{'bad()' if number % 3 else 'x = ('}\n")
    one = lint("--jobs", "1", "--no-cache", "--format", "json")
    several = lint("--jobs", "3", "--no-cache", "--format", "json")
    assert one == several
    assert len(json.loads(one.out)) == 60


def test_the_cache_notices_changes(lint, tmp_path):
    touch(tmp_path, "a.py", "b.py")
    old = time.time() - 3600
    os.utime(tmp_path / "a.py", (old, old))
    assert len(json.loads(lint("--format", "json").out)) == 2
    assert len(json.loads(lint("--format", "json").out)) == 2
    (tmp_path / "a.py").write_text("import warp\ngood()\n")
    (tmp_path / "b.py").write_text("import warp\nok()\n#")  # as long as before
    assert lint().code == 0
    (tmp_path / "a.py").unlink()
    assert lint().out == "No faults found in 1 file.\n"
    assert (tmp_path / ".warp-audit" / "cache" / ".gitignore").read_text() == "*\n"


def test_a_damaged_cache_is_made_anew(lint, tmp_path):
    touch(tmp_path, "a.py")
    first = lint()
    (cache,) = (tmp_path / ".warp-audit" / "cache").glob("lint-*.json")
    whole = cache.read_text()
    for damage in (
        "",
        "{",
        "[]",
        whole[: len(whole) // 2],
        whole.replace('"outcomes":{', '"outcomes":['),
        "[" * 100_000,
    ):
        cache.write_text(damage)
        assert lint() == first
    assert cache.read_text() != damage


def test_a_cache_that_cannot_be_written(lint, tmp_path):
    touch(tmp_path, "a.py")
    (tmp_path / ".warp-audit").write_text("a file, not a folder")
    assert lint("--format", "concise").out == "a.py:2:1: WPA190[tiny-call] bad is called\n"
    (tmp_path / "elsewhere").mkdir()
    lint("--cache-dir", "elsewhere")
    assert len(list((tmp_path / "elsewhere").glob("lint-*.json"))) == 1


def test_no_cache(lint, tmp_path):
    touch(tmp_path, "a.py")
    lint("--no-cache")
    assert not (tmp_path / ".warp-audit").exists()


def test_a_file_that_brings_python_down(lint, tiny_rules, tmp_path, monkeypatch):
    look = tiny_rules[0].module

    def module(self, module):
        if "crash" in module.text:
            os._exit(1)
        return look(self, module)

    monkeypatch.setattr(tiny_rules[0], "module", module)
    for number in range(40):
        touch(tmp_path, f"m{number:02}.py", text=f"import warp\n{'crash' if number == 7 else 'bad()'}\n")
    ran = lint("--jobs", "2", "--format", "concise")
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert len(lines) == 40
    assert lines[7] == "m07.py:1:1: WPA900[unreadable-source] Python itself crashes on this file"


def test_names_that_no_terminal_shows(lint, tmp_path):
    try:
        (tmp_path / os.fsdecode(b"\xff\n.py")).write_text("import warp\nbad()\n")
    except OSError:
        pytest.skip("this file system takes no such names")
    for name in ("text", "concise", "json", "github", "gitlab", "junit"):
        ran = lint("--format", name)
        assert (ran.code, ran.err) == (1, "")
        assert "WPA190" in ran.out
