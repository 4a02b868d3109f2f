"""The linter as a language server: diagnostics as one types, a rule's page on hover, fixes as quick fixes.

A document is linted in a thread of its own after it has been quiet for a moment; an answer for a version that the
editor has left behind is dropped. A rule that fails is named in the editor's log and never ends the server.
"""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from warp_audit import __version__
from warp_audit.audit.lint.config import Configuration
from warp_audit.audit.lint.edits import from_json
from warp_audit.audit.lint.report import Found
from warp_audit.audit.lint.run import Linter, Options
from warp_audit.diagnostic import Severity
from warp_audit.errors import WarpAuditError
from warp_audit.reports.findings._help import help_of

QUIET = 0.25
"""Seconds without a change after which a document is linted."""
_SEVERITIES = {
    Severity.ERROR.value: lsp.DiagnosticSeverity.Error,
    Severity.WARNING.value: lsp.DiagnosticSeverity.Warning,
    Severity.INFO.value: lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """Documents with what was found in them."""

    def __init__(self) -> None:
        super().__init__("warp-audit", __version__)
        self.found: dict[str, tuple[int | None, list[Found]]] = {}
        """By URI: the version that was linted, and its findings."""
        self._timers: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()

    def soon(self, uri: str, delay: float = QUIET) -> None:
        """Lint a document when it has been quiet for a moment."""
        old = self._timers.pop(uri, None)
        if old is not None:
            old.cancel()
        timer = self._timers[uri] = threading.Timer(delay, self.lint, [uri])
        timer.daemon = True
        timer.start()

    def forget(self, uri: str) -> None:
        """Drop a document that was closed."""
        timer = self._timers.pop(uri, None)
        if timer is not None:
            timer.cancel()
        self.found.pop(uri, None)
        self.publish(uri, None, [])

    def lint(self, uri: str) -> None:
        """Lint a document and publish what is found, unless it has changed meanwhile."""
        document = self.workspace.get_text_document(uri)
        version, text = document.version, document.source
        try:
            with self._lock:
                result = linter().check_data(path_of(uri), text.encode("utf-8", "surrogatepass"))
        except WarpAuditError as wrong:
            self.log(str(wrong), lsp.MessageType.Error)
            return
        except Exception:
            self.log(f"our bug, please report it:\n{traceback.format_exc()}", lsp.MessageType.Error)
            return
        for failure in result.failures:
            self.log(f"our bug, please report it: {failure}", lsp.MessageType.Error)
        if self.workspace.get_text_document(uri).version != version:
            return
        found = [one for one in result.weighed.found if one.diagnostic.span.file == path_of(uri)]
        self.found[uri] = version, found
        lines = text.splitlines()
        self.publish(uri, version, [self.diagnostic(one, lines) for one in found])

    def publish(self, uri: str, version: int | None, diagnostics: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    def log(self, message: str, kind: lsp.MessageType) -> None:
        self.window_log_message(lsp.LogMessageParams(type=kind, message=message))

    def diagnostic(self, found: Found, lines: list[str]) -> lsp.Diagnostic:
        """A finding as the protocol has it."""
        one = found.diagnostic
        message = "\n".join([one.message, *one.notes])
        return lsp.Diagnostic(
            range=self.range_of(found, lines),
            message=message,
            severity=_SEVERITIES[one.severity.value],
            code=one.rule,
            source="warp-audit",
            data={"code": one.code, "fingerprint": one.fingerprint},
        )

    def range_of(self, found: Found, lines: list[str]) -> lsp.Range:
        span = found.diagnostic.span
        return lsp.Range(
            start=self.position(lines, span.line, span.column), end=self.position(lines, span.end_line, span.end_column)
        )

    def position(self, lines: list[str], line: int, column: int) -> lsp.Position:
        """A place that counts from 1 in characters as the client counts: from 0 in its units."""
        text = lines[line - 1] if line <= len(lines) else ""
        place = lsp.Position(line=line - 1, character=column - 1)
        return self.workspace.position_codec.position_to_client_units([*[""] * (line - 1), text], place)


def linter() -> Linter:
    """A linter with the settings as they stand on disk now."""
    return Linter(Configuration(), Options(cache=False))


def path_of(uri: str) -> str:
    """The path of a document; of one that has none yet, a name of its own."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return str(Path(unquote(parsed.path)))
    return str(Path.cwd() / f"{Path(unquote(parsed.path)).name or 'untitled'}")


def make_server() -> Server:
    """The server with its answers."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.soon(params.text_document.uri, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        # What was saved may be imported by others that are open.
        for uri in list(server.found):
            server.soon(uri, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        lines = server.workspace.get_text_document(uri).source.splitlines()
        for found in server.found.get(uri, (None, []))[1]:
            extent = server.range_of(found, lines)
            if extent.start <= params.position <= extent.end:
                return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, page(found)), extent)
        return None

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll]),
    )
    def code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        return actions(server, params)

    return server


def page(found: Found) -> str:
    """The page of a finding's rule."""
    from warp_audit.audit.lint.known import known_rules

    (known,) = [rule for rule in known_rules() if rule.code == found.diagnostic.code]
    return help_of(known)[1]


def actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """What can be done about the findings in a range: each one's fix, a comment that keeps the line, all safe fixes."""
    uri = params.text_document.uri
    document = server.workspace.get_text_document(uri)
    version, found = server.found.get(uri, (None, []))
    if version != document.version:
        return []
    text, lines = document.source, document.source.splitlines()
    made: list[lsp.CodeAction] = []
    for one in found:
        extent = server.range_of(one, lines)
        if extent.end < params.range.start or params.range.end < extent.start:
            continue
        diagnostic = server.diagnostic(one, lines)
        fix = one.diagnostic.fix
        if isinstance(fix, dict):
            safe = one.fix_safety == "safe"
            title = str(fix["title"]) if safe else f"{fix['title']} (may change what the program does)"
            edit = edit_of(server, uri, text, [one])
            if edit is not None:
                made.append(
                    lsp.CodeAction(
                        title=title,
                        kind=lsp.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic],
                        edit=edit,
                        is_preferred=safe,
                    )
                )
        made.append(
            lsp.CodeAction(
                title=f"Keep this line: ignore {one.diagnostic.rule}",
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=[diagnostic],
                edit=ignored(server, uri, lines, one),
            )
        )
    safe_ones = [one for one in found if one.fix_safety == "safe"]
    edit = edit_of(server, uri, text, safe_ones) if safe_ones else None
    if edit is not None:
        made.append(lsp.CodeAction(title="Make all safe fixes", kind=lsp.CodeActionKind.SourceFixAll, edit=edit))
    return [action for action in made if wanted(action, params.context.only)]


def wanted(action: lsp.CodeAction, only: Any) -> bool:
    """Whether the client asks for actions of this kind."""
    if not only or action.kind is None:
        return True
    kind = getattr(action.kind, "value", action.kind)
    asked = [str(getattr(one, "value", one)) for one in only]
    return any(kind.startswith(one) or one.startswith(kind) for one in asked)


def edit_of(server: Server, uri: str, text: str, found: list[Found]) -> lsp.WorkspaceEdit | None:
    """The change that the fixes of findings make, as one replacement of the lines that differ."""
    from warp_audit.audit.fixes import apply

    applied = apply(text, [from_json(one.diagnostic.fix) for one in found], in_bytes=False)
    if not applied.made:
        return None
    old, new = text.splitlines(keepends=True), applied.text.splitlines(keepends=True)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    extent = lsp.Range(lsp.Position(start, 0), lsp.Position(len(old) - end, 0))
    replacement = "".join(new[start : len(new) - end])
    return lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(extent, replacement)]})


def ignored(server: Server, uri: str, lines: list[str], found: Found) -> lsp.WorkspaceEdit:
    """The comment that keeps a line as it is."""
    line = found.anchors[-1] if found.anchors else found.diagnostic.span.line
    place = server.position(lines, line, len(lines[line - 1]) + 1)
    comment = f"  # warp-audit: ignore[{found.diagnostic.rule}]"
    return lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(lsp.Range(place, place), comment)]})


def serve() -> None:
    """Answer on standard input and output until the client goes."""
    make_server().start_io()
