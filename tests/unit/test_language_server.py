"""A session with the language server, as an editor holds it: JSON-RPC over standard input and output."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

TEXT = """\
import warp as wp


@wp.kernel
def fade(image: wp.array2d(dtype=float), table: wp.array(dtype=wp.uint32)):
    y, x = wp.tid()  # 🙂 beyond the basic plane
    image[y, x] *= 0.5


@wp.kernel
def bump(image: wp.array(dtype=float)):
    i = wp.tid()
    image[i] = image[i] * 2


def run(image, flat):
    s = "🙂"; wp.launch(fade, dim=len(image), inputs=[image, None])
    wp.launch(bump, dim=len(flat), inputs=[flat])
"""


class Session:
    """The client's side."""

    def __init__(self, folder: Path, before: str = "") -> None:
        program = f"import sys; {before}from warp_audit.cli import main; sys.exit(main())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "lsp", "--stdio"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
        )  # fmt: skip
        self.uri = (folder / "open.py").as_uri()
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while True:
            length = 0
            while (line := self.process.stdout.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                self.messages.put(None)
                return
            self.messages.put(json.loads(self.process.stdout.read(length)))

    def send(self, method: str, params: Any, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | (
            {"id": number} if number is not None else {}
        )
        data = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def ask(self, method: str, params: Any) -> Any:
        self._number += 1
        self.send(method, params, self._number)
        while True:
            message = self.messages.get(timeout=60)
            assert message is not None, self.process.stderr.read() if self.process.stderr else ""
            if message.get("id") == self._number and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def until(self, method: str) -> dict[str, Any]:
        """The parameters of the next message of a kind."""
        while True:
            message = self.messages.get(timeout=60)
            assert message is not None, self.process.stderr.read() if self.process.stderr else ""
            if message.get("method") == method:
                return message["params"]  # type: ignore[no-any-return]

    def diagnostics(self, version: int | None) -> list[dict[str, Any]]:
        while True:
            told = self.until("textDocument/publishDiagnostics")
            if told.get("version") == version:
                return told["diagnostics"]  # type: ignore[no-any-return]

    def start(self, **general: Any) -> None:
        self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {"general": general}})
        self.send("initialized", {})

    def open(self, text: str) -> list[dict[str, Any]]:
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics(1)

    def change(self, version: int, text: str) -> None:
        self.send(
            "textDocument/didChange",
            {"textDocument": {"uri": self.uri, "version": version}, "contentChanges": [{"text": text}]},
        )

    def actions(self, extent: Any, *only: str) -> list[dict[str, Any]]:
        context = {"diagnostics": []} | ({"only": list(only)} if only else {})
        asked = {"textDocument": {"uri": self.uri}, "range": extent, "context": context}
        return self.ask("textDocument/codeAction", asked)  # type: ignore[no-any-return]

    def edited(self, text: str, action: dict[str, Any]) -> str:
        """The text after an action; its lines end in line feeds, and edits start and end at their borders."""
        (edit,) = action["edit"]["changes"][self.uri]
        lines = text.splitlines(keepends=True)
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert (start["character"], end["character"]) == (0, 0)
        return "".join(lines[: start["line"]]) + edit["newText"] + "".join(lines[end["line"] :])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    held = Session(tmp_path)
    yield held
    held.process.kill()


def test_open_change_hover_fix_and_close(session: Session) -> None:
    session.start()
    found = session.open(TEXT)
    assert [(one["code"], one["range"]["start"]["line"]) for one in found] == [
        ("mixed-scalar-types", 12),
        ("launch-dim-rank", 16),
    ]
    launch = found[1]
    # The line holds a character that UTF-16 counts twice.
    assert launch["range"]["start"]["character"] == TEXT.split("\n")[16].index("len(image)") + 1

    at = {"textDocument": {"uri": session.uri}, "position": launch["range"]["start"]}
    assert session.ask("textDocument/hover", at)["contents"]["value"].startswith("# WPA101 launch-dim-rank")
    at["position"] = {"line": 0, "character": 0}
    assert session.ask("textDocument/hover", at) is None

    actions = session.actions(found[0]["range"])
    assert [action["title"] for action in actions] == [
        "write 2.0", "Keep this line: ignore mixed-scalar-types", "Make all safe fixes of warp-audit",
    ]  # fmt: skip
    assert actions[0]["isPreferred"]
    fixed = TEXT.replace("* 2\n", "* 2.0\n")
    assert session.edited(TEXT, actions[0]) == session.edited(TEXT, actions[2]) == fixed
    kept = "* 2  # warp-audit: ignore[mixed-scalar-types]\n"
    assert session.edited(TEXT, actions[1]) == TEXT.replace("* 2\n", kept)
    for only, kinds in (("source.fixAll", ["source.fixAll.warpAudit"]), ("quickfix", ["quickfix"] * 2), ("x", [])):
        assert [action["kind"] for action in session.actions(found[0]["range"], only)] == kinds

    session.change(2, fixed)
    assert session.actions(found[0]["range"]) == []  # what was found belongs to another version
    assert [one["code"] for one in session.diagnostics(2)] == ["launch-dim-rank"]

    session.change(3, "import warp\ndef f(:\n")
    session.change(4, "import warp as wp\n")
    assert session.diagnostics(4) == []
    session.send("textDocument/didClose", {"textDocument": {"uri": session.uri}})
    assert session.diagnostics(None) == []
    session.ask("shutdown", None)
    session.send("exit", None)
    assert session.process.wait(timeout=60) == 0


@pytest.mark.parametrize(("encoding", "more"), [("utf-8", 3), ("utf-16", 1), ("utf-32", 0)])
def test_columns_are_counted_as_negotiated(session: Session, encoding: str, more: int) -> None:
    session.start(positionEncodings=[encoding])
    launch = session.open(TEXT)[1]
    assert launch["range"]["start"]["character"] == TEXT.split("\n")[16].index("len(image)") + more


def test_lines_are_pythons(session: Session) -> None:
    """A form feed and a line separator end no line; a document need not end in one."""
    text = TEXT.replace("\n\n\n", "\n\n\f\n", 1).replace("beyond", "beyond \u2028").replace("\n", "\r\n").rstrip()
    session.start()
    found = session.open(text)
    assert [one["range"]["start"]["line"] for one in found] == [12, 16]
    (edit,) = session.actions(found[0]["range"])[0]["edit"]["changes"][session.uri]
    assert edit["range"] == {"start": {"line": 12, "character": 0}, "end": {"line": 13, "character": 0}}
    assert edit["newText"] == "    image[i] = image[i] * 2.0\r\n"
    session.change(2, text[: text.index("* 2\r\n") + 3])
    (found,) = [one for one in session.diagnostics(2) if one["code"] == "mixed-scalar-types"]
    (edit,) = session.actions(found["range"])[0]["edit"]["changes"][session.uri]
    assert edit["range"] == {"start": {"line": 12, "character": 0}, "end": {"line": 12, "character": 27}}
    assert edit["newText"] == "    image[i] = image[i] * 2.0"


def test_settings_are_the_workspaces(session: Session, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nignore = ["WPA101"]\nunfixable = ["ALL"]\n')
    session.start()
    (found,) = session.open(TEXT)
    assert [action["kind"] for action in session.actions(found["range"])] == ["quickfix", "quickfix"]
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nignores = ["WPA101"]\n')
    session.send("workspace/didChangeConfiguration", {"settings": {}})
    assert "there is no setting 'ignores'" in session.until("window/logMessage")["message"]
    assert session.diagnostics(1) == []
    (tmp_path / "pyproject.toml").write_text('[tool.warp-audit]\nextend-exclude = ["open.py"]\n')
    session.change(2, TEXT)
    assert session.diagnostics(2) == []


def test_a_comment_does_not_go_where_none_can_stand(session: Session) -> None:
    text = TEXT.replace("dim=len(image)", "dim= \\\n        len(image)")
    session.start()
    launch = session.open(text)[1]
    (action,) = session.actions(launch["range"], "quickfix")
    assert session.edited(text, action) == text.replace(
        "image, None])", "image, None])  # warp-audit: ignore[launch-dim-rank]"
    )


def test_a_rule_with_a_bug_ends_nothing(tmp_path: Path) -> None:
    breaks = (
        "from warp_audit.audit.catalogue import all_rules; "
        "broken = next(one for one in all_rules() if one.code == 'WPA101'); "
        "setattr(broken, broken.hooks()[0], lambda self, what: 1 / 0); "
    )
    session = Session(tmp_path, breaks)
    try:
        session.start()
        document = {"uri": session.uri, "languageId": "python", "version": 1, "text": TEXT}
        session.send("textDocument/didOpen", {"textDocument": document})
        said = session.until("window/logMessage")["message"]
        assert "WPA101" in said
        assert "ZeroDivisionError" in said
        assert [one["code"] for one in session.diagnostics(1)] == ["mixed-scalar-types"]
    finally:
        session.process.kill()


def test_a_closed_connection_ends_it(session: Session) -> None:
    session.start()
    session.open(TEXT)
    assert session.process.stdin is not None
    session.process.stdin.close()
    session.process.wait(timeout=60)


def test_without_pygls_it_says_what_to_install(tmp_path: Path) -> None:
    session = Session(tmp_path, "sys.modules['pygls'] = None; ")
    _, said = session.process.communicate(timeout=60)
    assert session.process.returncode == 2
    assert said == b"error: the language server needs pygls\nhint: pip install 'warp-audit[lsp]'\n"
