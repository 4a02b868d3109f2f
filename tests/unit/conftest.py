"""A few tiny rules, and the lint command over a folder of its own with only those."""

import ast
from dataclasses import dataclass

import pytest

from warp_audit.audit.edits import Place, Replace
from warp_audit.audit.rule import Rule, Safety
from warp_audit.diagnostic import Confidence, Severity


class TinyCall(Rule):
    """The function ``bad`` is called.

    What it finds: calls of ``bad``.

    Why it matters: the tests look for them.

    Instead: call ``good``.
    """

    __module__ = "rules.tiny_call"
    code, severity, confidence = "WPA190", Severity.ERROR, Confidence.HIGH
    fix_safety = Safety.SAFE
    GOOD = ("good()",)
    BAD = ("bad()  # error: WPA190",)

    def module(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bad":
                fix = self.mend("call good instead", Replace(Place.of(node.func), "good"))
                yield self.at(module, node, "bad is called", fix=fix)


class TinyName(Rule):
    """The name ``ugly`` is used.

    What it finds: the name ``ugly``.

    Why it matters: it is a matter of taste.

    Instead: call it ``fair``.
    """

    __module__ = "rules.tiny_name"
    code, severity, confidence = "WPA290", Severity.WARNING, Confidence.MEDIUM
    aliases = ("old-name",)
    opt_in = True
    fix_safety = Safety.UNSAFE
    GOOD = ("fair = 1",)
    BAD = ("ugly = 1  # error: WPA290",)

    def module(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Name) and node.id == "ugly":
                fix = self.mend("call it fair", Replace(Place.of(node), "fair"))
                yield self.at(module, node, "an ugly name", "fair would do", fix=fix)


class TinyOld(Rule):
    """The name ``ancient`` is used.

    What it finds: the name ``ancient``.

    Why it matters: Warp before 1.14 minds it.

    Instead: ask for Warp 1.14.
    """

    __module__ = "rules.tiny_old"
    code, severity, confidence = "WPA390", Severity.INFO, Confidence.LOW
    below = "1.14"
    GOOD = ("modern = 1",)
    BAD = ("ancient = 1  # error: WPA390",)

    def module(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Name) and node.id == "ancient":
                yield self.at(module, node, "an ancient name")


class TinyDef(Rule):
    """A function has a name that starts with ``bad_``.

    What it finds: such functions.

    Why it matters: the whole extent of a definition would be a poor excerpt.

    Instead: another name.
    """

    __module__ = "rules.tiny_def"
    code, severity, confidence = "WPA490", Severity.WARNING, Confidence.HIGH
    GOOD = ("def good_thing(): ...",)
    BAD = ("def bad_thing(): ...  # error: WPA490",)

    def module(self, module):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("bad_"):
                if node.name == "bad_rule":
                    raise LookupError("this rule has a bug")
                yield self.at(module, node, f"'{node.name}' is no name")


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def tiny_rules(monkeypatch):
    """Only the tiny rules."""
    rules = (TinyCall, TinyName, TinyOld, TinyDef)
    monkeypatch.setattr("warp_audit.audit.catalogue.all_rules", lambda: rules)
    return rules


@pytest.fixture
def lint(tiny_rules, tmp_path, monkeypatch, capsys):
    """Runs ``warp-audit lint`` in ``tmp_path`` with the tiny rules."""
    from warp_audit.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments):
        code = main(["lint", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run
