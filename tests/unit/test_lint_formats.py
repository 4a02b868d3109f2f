"""Findings in each format, compared whole."""

import json
import xml.etree.ElementTree as ET

import pytest

from warp_audit.audit.lint.report import Found
from warp_audit.diagnostic import Confidence, Diagnostic, Evidence, Severity, Span
from warp_audit.reports.findings import format_names, text

SOURCE = """\
import warp
def bad_thing(a): return ugly
\tx = 1
if 1:
\tx = "漢字", bad(1,
\t  2)
"""


@pytest.fixture
def shown(lint, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "a b.py").write_text(SOURCE.replace("\tx = 1\n", "", 1))
    return lambda name: lint("--all-rules", "--format", name, "--no-cache").out


def test_formats_are_found():
    assert format_names() == ["concise", "github", "gitlab", "json", "junit", "sarif", "text"]


def test_text(shown):
    assert (
        shown("text")
        == """\
pack/a b.py:2:5: warning WPA490[tiny-def]: 'bad_thing' is no name
  2 | def bad_thing(a): return ugly
    |     ^^^^^^^^^

pack/a b.py:2:26: warning WPA290[tiny-name]: an ugly name
  2 | def bad_thing(a): return ugly
    |                          ^^^^
    = note: fair would do
    = fix: call it fair (unsafe)

pack/a b.py:4:12: error WPA190[tiny-call]: bad is called
  4 | x = "漢字", bad(1,
    |             ^^^^^^
    = fix: call good instead

Found 3 faults (1 error, 2 warnings) in 1 file. 1 can be fixed with --fix, 1 more with --unsafe-fixes.
"""
    )


def test_concise(shown):
    assert (
        shown("concise")
        == """\
pack/a b.py:2:5: WPA490[tiny-def] 'bad_thing' is no name
pack/a b.py:2:26: WPA290[tiny-name] an ugly name
pack/a b.py:4:12: WPA190[tiny-call] bad is called
"""
    )


def test_json(shown):
    data = json.loads(shown("json"))
    assert [sorted(one) for one in data] == [
        sorted([
            "code", "rule", "severity", "confidence", "evidence", "message", "file", "line", "column", "end_line",
            "end_column", "notes", "fix", "fingerprint",
        ])
    ] * 3  # fmt: skip
    last = data[2]
    assert len(last.pop("fingerprint")) == 16
    assert last == {
        "code": "WPA190",
        "rule": "tiny-call",
        "severity": "error",
        "confidence": "high",
        "evidence": "source",
        "message": "bad is called",
        "file": "pack/a b.py",
        "line": 4,
        "column": 12,
        "end_line": 5,
        "end_column": 6,
        "notes": [],
        "fix": {
            "title": "call good instead",
            "safety": "safe",
            "edits": [
                {"kind": "replace", "line": 4, "column": 12, "end_line": 4, "end_column": 15, "code": "good"},
            ],
        },
    }


def test_github(shown):
    assert shown("github") == (
        "::warning title=warp-audit WPA490[tiny-def],file=pack/a b.py,line=2,endLine=2,col=5,endColumn=14"
        "::WPA490[tiny-def] 'bad_thing' is no name\n"
        "::warning title=warp-audit WPA290[tiny-name],file=pack/a b.py,line=2,endLine=2,col=26,endColumn=30"
        "::WPA290[tiny-name] an ugly name%0Afair would do\n"
        "::error title=warp-audit WPA190[tiny-call],file=pack/a b.py,line=4,endLine=5"
        "::WPA190[tiny-call] bad is called\n"
    )


def test_gitlab(shown):
    data = json.loads(shown("gitlab"))
    assert len({one.pop("fingerprint") for one in data}) == 3
    assert data[1] == {
        "description": "WPA290[tiny-name] an ugly name",
        "check_name": "tiny-name",
        "severity": "major",
        "location": {
            "path": "pack/a b.py",
            "positions": {"begin": {"line": 2, "column": 26}, "end": {"line": 2, "column": 30}},
        },
        "content": {"body": "fair would do"},
    }


def test_junit(shown):
    assert (
        shown("junit")
        == """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="warp-audit" tests="3" failures="3" errors="0">
  <testsuite name="pack/a b.py" tests="3" failures="3" errors="0" skipped="0">
    <testcase name="WPA490[tiny-def]:2:5" classname="pack/a b.py" file="pack/a b.py" line="2">
      <failure type="warning" message="'bad_thing' is no name">pack/a b.py:2:5: 'bad_thing' is no name</failure>
    </testcase>
    <testcase name="WPA290[tiny-name]:2:26" classname="pack/a b.py" file="pack/a b.py" line="2">
      <failure type="warning" message="an ugly name">pack/a b.py:2:26: an ugly name
fair would do</failure>
    </testcase>
    <testcase name="WPA190[tiny-call]:4:12" classname="pack/a b.py" file="pack/a b.py" line="4">
      <failure type="error" message="bad is called">pack/a b.py:4:12: bad is called</failure>
    </testcase>
  </testsuite>
</testsuites>
"""
    )


def test_nothing_found(lint):
    assert {name: lint("--format", name).out for name in format_names() if name != "sarif"} == {
        "concise": "",
        "github": "",
        "gitlab": "[]\n",
        "json": "[]\n",
        "junit": '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<testsuites name="warp-audit" tests="1" failures="0" errors="0">\n'
        '  <testsuite name="warp-audit" tests="1" failures="0" errors="0" skipped="0">\n'
        '    <testcase name="no faults found" classname="warp-audit"/>\n  </testsuite>\n</testsuites>\n',
        "text": "No faults found in 0 files.\n",
    }


def finding(excerpt, column, end_column, message="m", end_line=1):
    span = Span("/f.py", 1, column, end_line, end_column)
    return Found(
        Diagnostic(
            "WPA190", "tiny-call", Severity.ERROR, Confidence.HIGH, Evidence.SOURCE, message, span, "f"
        ),
        excerpt,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("excerpt", "column", "end_column", "shown"),
    [
        ("a = b", 5, 6, ("a = b", "    ^")),
        ("\t\tx\ty", 5, 6, ("x   y", "    ^")),
        ("漢字 = b", 6, 7, ("漢字 = b", "       ^")),
        ("e\u0301 = b", 6, 7, ("e\u0301 = b", "    ^")),
        ("x", 1, 1, ("x", "^")),
        ("x", 9, 12, ("x", " ^")),
        ("\x1b[31m", 1, 6, ("\N{REPLACEMENT CHARACTER}[31m", "^^^^^")),
        ("a" * 300, 200, 203, ("…" + "a" * 141 + "", " " * 41 + "^^^")),
    ],
)
def test_carets_stand_under_what_is_meant(excerpt, column, end_column, shown):
    line, carets = text.excerpt(finding(excerpt, column, end_column))
    assert (line, carets) == shown


def test_control_characters_reach_no_reader(shown, lint, tmp_path):
    from warp_audit.audit.lint.report import Report
    from warp_audit.reports.findings import render
    from warp_audit.reports.style import Style

    report = Report((finding("x", 1, 2, "a\x1b[31m & <b> \x00 \ud800"),))
    ET.fromstring(render("junit", report, Style()))
    for name in ("concise", "text", "junit"):
        assert "\x1b" not in render(name, report, Style())
    for name in format_names():
        if name != "sarif":
            render(name, report, Style()).encode("utf-8")


def test_writes_to_a_file(lint, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    (tmp_path / "a.py").write_text("import warp\nbad()\n")
    assert "\x1b[" in lint().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    ran = lint("-o", "out.txt")
    assert (ran.code, ran.out) == (1, "")
    assert (tmp_path / "out.txt").read_text().startswith("a.py:2:1: error WPA190[tiny-call]: bad is called\n")


SHAPES = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "columnKind", "originalUriBaseIds", "results"}, {"tool"}),
    "driver": ({"name", "version", "semanticVersion", "rules"}, {"name"}),
    "rule": (
        {"id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration", "properties"},
        {"id"},
    ),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints", "properties"},
        {"message"},
    ),
    "region": ({"startLine", "startColumn", "endLine", "endColumn", "snippet"}, set()),
    "place": ({"artifactLocation", "region", "contextRegion"}, set()),
    "text": ({"text", "markdown"}, {"text"}),
}


def has_shape(data, name):
    """The keys that SARIF 2.1.0 allows and demands, as far as they are used here."""
    allowed, demanded = SHAPES[name]
    assert demanded <= set(data) <= allowed, (name, sorted(data))


def test_sarif(shown, tmp_path):
    log = json.loads(shown("sarif"))
    has_shape(log, "log")
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    has_shape(run, "run")
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": f"file://{tmp_path}/"}}
    has_shape(run["tool"]["driver"], "driver")
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["WPA190", "WPA290", "WPA390", "WPA490", "WPA900", "WPA901", "WPA902"]
    assert len({rule["name"] for rule in rules}) == len(rules)
    for rule in rules:
        has_shape(rule, "rule")
        has_shape(rule["help"], "text")
        assert rule["help"]["text"].strip()
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    assert rules[1]["defaultConfiguration"] == {"enabled": False, "level": "warning"}
    assert rules[1]["properties"] == {
        "tags": ["warp", "WPA2xx", "opt-in"],
        "precision": "high",
        "problem.severity": "warning",
        "slug": "tiny-name",
        "aliases": ["old-name"],
    }
    for result in run["results"]:
        has_shape(result, "result")
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        has_shape(place, "place")
        has_shape(place["region"], "region")
        has_shape(place["contextRegion"], "region")
    last = run["results"][2]
    assert len(last.pop("partialFingerprints")["warpAudit/v1"]) == 16
    assert last == {
        "ruleId": "WPA190",
        "level": "error",
        "message": {"text": "bad is called."},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "pack/a%20b.py", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 4, "startColumn": 12, "endLine": 5, "endColumn": 6},
                    "contextRegion": {"startLine": 4, "snippet": {"text": '\tx = "漢字", bad(1,'}},
                }
            }
        ],
        "properties": {"confidence": "high", "evidence": "source"},
        "ruleIndex": 0,
    }


def test_fingerprints_differ_and_stay(lint, tmp_path):
    def marks(text):
        (tmp_path / "a.py").write_text("import warp\n" + text)
        return [one["fingerprint"] for one in json.loads(lint("--format", "json", "--no-cache").out)]

    one, two = marks("bad()\nbad()\n")
    assert two == f"{one}-2"
    assert marks("x = 1\n\nbad( )  # words\n") == [one]
    assert marks("bad(1)\n") != [one]
    assert marks("def f():\n    bad()\n") != [one]
