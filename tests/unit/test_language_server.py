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

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from warp_audit.cli import main; sys.exit(main())", "lsp", "--stdio"],
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

    def diagnostics(self, version: int | None) -> list[dict[str, Any]]:
        while True:
            message = self.messages.get(timeout=60)
            assert message is not None
            if message.get("method") == "textDocument/publishDiagnostics":
                if message["params"].get("version") == version:
                    return message["params"]["diagnostics"]  # type: ignore[no-any-return]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    held = Session(tmp_path)
    held.ask("initialize", {"processId": None, "rootUri": tmp_path.as_uri(), "capabilities": {}})
    held.send("initialized", {})
    held.send(
        "textDocument/didOpen", {"textDocument": {"uri": held.uri, "languageId": "python", "version": 1, "text": TEXT}}
    )
    yield held
    held.process.kill()


def test_open_change_hover_fix_and_close(session: Session) -> None:
    found = session.diagnostics(1)
    assert [(one["code"], one["range"]["start"]["line"]) for one in found] == [
        ("mixed-scalar-types", 12),
        ("launch-dim-rank", 16),
    ]
    launch = found[1]
    # The line holds a character that UTF-16 counts twice.
    assert launch["range"]["start"]["character"] == TEXT.split("\n")[16].index("len(image)") + 1

    hover = session.ask(
        "textDocument/hover", {"textDocument": {"uri": session.uri}, "position": launch["range"]["start"]}
    )
    assert hover["contents"]["value"].startswith("# WPA101 launch-dim-rank")

    mixed = found[0]
    actions = session.ask(
        "textDocument/codeAction",
        {"textDocument": {"uri": session.uri}, "range": mixed["range"], "context": {"diagnostics": [mixed]}},
    )
    assert [action["title"] for action in actions] == [
        "write 2.0", "Keep this line: ignore mixed-scalar-types", "Make all safe fixes",
    ]  # fmt: skip
    (edit,) = actions[0]["edit"]["changes"][session.uri]
    assert edit["newText"] == "    image[i] = image[i] * 2.0\n"
    (comment,) = actions[1]["edit"]["changes"][session.uri]
    assert comment["newText"] == "  # warp-audit: ignore[mixed-scalar-types]"

    change = {"range": edit["range"], "text": edit["newText"]}
    session.send(
        "textDocument/didChange", {"textDocument": {"uri": session.uri, "version": 2}, "contentChanges": [change]}
    )
    assert [one["code"] for one in session.diagnostics(2)] == ["launch-dim-rank"]

    broken = {"text": "def f(:\n"}
    session.send(
        "textDocument/didChange", {"textDocument": {"uri": session.uri, "version": 3}, "contentChanges": [broken]}
    )
    session.send(
        "textDocument/didChange",
        {"textDocument": {"uri": session.uri, "version": 4}, "contentChanges": [{"text": "import warp as wp\n"}]},
    )
    assert session.diagnostics(4) == []
    session.ask("shutdown", None)
    session.send("exit", None)
    assert session.process.wait(timeout=60) == 0


def test_a_closed_connection_ends_it(session: Session) -> None:
    session.diagnostics(1)
    assert session.process.stdin is not None
    session.process.stdin.close()
    session.process.wait(timeout=60)
