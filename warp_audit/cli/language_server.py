"""The linter as a language server: diagnostics as one types, a rule's page on hover, fixes as quick fixes.

A document is linted in a worker's thread when it has been quiet for a moment; what comes of a version that the editor
has left behind is dropped. Everything else happens on the event loop, so that messages are never mixed up. A rule that
fails is named in the editor's log and never ends the server.

Documents come whole with each change: what is sent by ranges is counted in lines that also end at form feeds and other
characters that end no line for Python.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from warp_audit import __version__
from warp_audit.audit.lint.config import Configuration
from warp_audit.audit.lint.edits import from_json
from warp_audit.audit.lint.known import OWN, UNUSED
from warp_audit.audit.lint.report import Found
from warp_audit.audit.lint.run import Linter, Options
from warp_audit.audit.source.text import Text
from warp_audit.diagnostic import Severity
from warp_audit.errors import WarpAuditError
from warp_audit.reports.findings._help import help_of

QUIET = 0.25
"""Seconds without a change after which a document is linted."""
FIX_ALL = "source.fixAll.warpAudit"
"""The kind of the action that makes all safe fixes."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_SEVERITIES = {
    Severity.ERROR.value: lsp.DiagnosticSeverity.Error,
    Severity.WARNING.value: lsp.DiagnosticSeverity.Warning,
    Severity.INFO.value: lsp.DiagnosticSeverity.Information,
}
_OWN_CODES = frozenset(rule.code for rule in OWN)


@dataclass
class Linted:
    """What one version of a document holds.

    Args:
        uri: the document.
        version: which version of it.
        path: its file.
        text: its text.
        found: the findings in it.
        fixable: those whose fixes the settings allow.
        failures: what went wrong, a sentence each.
    """

    uri: str
    version: int | None
    path: str
    text: str
    found: list[Found] = field(default_factory=list)
    fixable: list[Found] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    edited: dict[str, str | None] = field(default_factory=dict)
    """Texts that actions lead to, by what the action is: editors ask at every move of the cursor."""

    @property
    def lines(self) -> list[str]:
        """Its lines with their ends, as Python counts them."""
        return _LINE.findall(self.text)

    @property
    def as_file(self) -> Text:
        """The text as a file's."""
        return Text(self.text)


class Server(LanguageServer):
    """Documents with what was found in them."""

    def __init__(self) -> None:
        super().__init__("warp-audit", __version__, lsp.TextDocumentSyncKind.Full)
        self.linted: dict[str, Linted] = {}
        """The last version of each open document that was linted."""
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lint")
        self._said: set[str] = set()

    # Linting

    def soon(self, uri: str, delay: float = QUIET) -> None:
        """Lint a document when it has been quiet for a moment."""
        old = self._waiting.pop(uri, None)
        if old is not None:
            old.cancel()
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._lint(uri, delay))

    def all_soon(self) -> None:
        """Lint all open documents: something that they depend on may have changed."""
        for uri in self.workspace.text_documents:
            self.soon(uri)

    def forget(self, uri: str) -> None:
        """Drop a document that was closed."""
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting.cancel()
        self.linted.pop(uri, None)
        self._publish(uri, None, [])

    async def _lint(self, uri: str, delay: float) -> None:
        """Lint a document and publish what is found; a change meanwhile cancels this."""
        await asyncio.sleep(delay)
        document = self.workspace.text_documents.get(uri)
        if document is None:
            return
        asked = Linted(uri, document.version, path_of(uri), document.source)
        linted = await asyncio.get_running_loop().run_in_executor(self._worker, lint, asked)
        self.linted[uri] = linted
        for failure in linted.failures:
            self._log(failure)
        self._publish(uri, linted.version, [self.diagnostic(one, linted.lines) for one in linted.found])

    def current(self, uri: str) -> Linted | None:
        """What was found in a document, unless it has changed since."""
        linted, document = self.linted.get(uri), self.workspace.text_documents.get(uri)
        return linted if linted and document and linted.version == document.version else None

    def _publish(self, uri: str, version: int | None, diagnostics: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    def _log(self, message: str) -> None:
        """Tell the client, once: the next keystroke would say the same again."""
        if message not in self._said:
            self._said.add(message)
            self.window_log_message(lsp.LogMessageParams(type=lsp.MessageType.Error, message=message))

    # What the protocol makes of findings

    def diagnostic(self, found: Found, lines: Sequence[str]) -> lsp.Diagnostic:
        """A finding as the protocol has it."""
        one = found.diagnostic
        return lsp.Diagnostic(
            range=self.range_of(found, lines),
            message="\n".join([one.message, *one.notes]),
            severity=_SEVERITIES[one.severity.value],
            code=one.rule,
            source="warp-audit",
            tags=[lsp.DiagnosticTag.Unnecessary] if one.code == UNUSED.code else None,
            data={"code": one.code, "fingerprint": one.fingerprint},
        )

    def range_of(self, found: Found, lines: Sequence[str]) -> lsp.Range:
        """A finding's extent."""
        span = found.diagnostic.span
        start = self.position(lines, span.line - 1, span.column - 1)
        return lsp.Range(start, self.position(lines, span.end_line - 1, span.end_column - 1))

    def position(self, lines: Sequence[str], line: int, column: int) -> lsp.Position:
        """A place that counts from 0 in characters as the client counts: in its units."""
        text = lines[line].rstrip("\r\n") if line < len(lines) else ""
        return lsp.Position(line, self.workspace.position_codec.client_num_units(text[:column]))

    def change(self, linted: Linted, after: str | None) -> lsp.WorkspaceEdit | None:
        """The change from a document to another text, as one replacement of the lines that differ."""
        if after is None or after == linted.text:
            return None
        old, new = linted.lines, _LINE.findall(after)
        start = 0
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        last = len(old) - end
        if end == 0 and old and not old[-1].endswith(("\r", "\n")):
            stop = self.position(old, last - 1, len(old[-1]))  # there is no line after the last
            start = min(start, last - 1)
        else:
            stop = lsp.Position(last, 0)
        extent = lsp.Range(lsp.Position(start, 0), stop)
        return lsp.WorkspaceEdit(changes={linted.uri: [lsp.TextEdit(extent, "".join(new[start : len(new) - end]))]})

    async def actions(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """What can be done about the findings in a range: each one's fix, a comment that keeps it, all safe fixes."""
        linted = self.current(params.text_document.uri)
        if linted is None:
            return []
        only = [str(getattr(kind, "value", kind)) for kind in params.context.only or ()]
        made: list[lsp.CodeAction | None] = []
        if asked(lsp.CodeActionKind.QuickFix.value, only):
            for one in linted.found:
                extent = self.range_of(one, linted.lines)
                if extent.end < params.range.start or params.range.end < extent.start:
                    continue
                made += [await self._fix(linted, one), await self._ignore(linted, one)]
        if asked(FIX_ALL, only) and any(one.fix_safety == "safe" for one in linted.fixable):
            edit = self.change(linted, await self._edited(linted, "all", fixed_all, linted))
            if edit is not None:
                made.append(lsp.CodeAction(title="Make all safe fixes of warp-audit", kind=FIX_ALL, edit=edit))
        return [action for action in made if action is not None]

    async def _fix(self, linted: Linted, found: Found) -> lsp.CodeAction | None:
        if found.fix_safety is None:
            return None
        edit = self.change(linted, await self._edited(linted, f"fix {id(found)}", fixed, linted, found))
        if edit is None:
            return None
        title, safe = str(found.diagnostic.fix["title"]), found.fix_safety == "safe"  # type: ignore[call-overload,index]
        return lsp.CodeAction(
            title=title if safe else f"{title} (may change what the program does)",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(found, linted.lines)],
            is_preferred=safe,
            edit=edit,
        )

    async def _ignore(self, linted: Linted, found: Found) -> lsp.CodeAction | None:
        if found.diagnostic.code in _OWN_CODES:
            return None
        edit = self.change(linted, await self._edited(linted, f"ignore {id(found)}", ignored, linted, found))
        if edit is None:
            return None
        return lsp.CodeAction(
            title=f"Keep this line: ignore {found.diagnostic.rule}",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(found, linted.lines)],
            edit=edit,
        )

    async def _edited(self, linted: Linted, what: str, make: Any, *given: Any) -> str | None:
        """What an action makes of a document, made once, in the worker's thread."""
        if what not in linted.edited:
            try:
                text = await asyncio.get_running_loop().run_in_executor(self._worker, make, *given)
            except Exception:
                self._log(_our_bug(traceback.format_exc()))
                text = None
            linted.edited[what] = text
        return linted.edited[what]


def lint(asked: Linted) -> Linted:
    """A version of a document with what is found in it. The settings are read as they stand on disk now."""
    try:
        linter = _linter()
        if linter.settings_of(asked.path).exclusion.passes_over_given(asked.path):
            return asked
        result = linter.check_data(asked.path, asked.text.encode("utf-8", "surrogatepass"))
        asked.failures = [_our_bug(failure) for failure in result.failures]
        asked.found = [one for one in result.weighed.found if one.diagnostic.span.file == asked.path]
        asked.fixable = [one for one in asked.found if linter.may_fix(one)]
    except WarpAuditError as wrong:
        asked.failures = [f"{wrong}{f' ({wrong.hint})' if wrong.hint else ''}"]
    except Exception:
        asked.failures = [_our_bug(traceback.format_exc())]
    return asked


def fixed(linted: Linted, found: Found) -> str | None:
    """A document with one finding's fix; ``None`` if it cannot be made."""
    from warp_audit.audit.fixes import apply

    applied = apply(linted.text, [from_json(found.diagnostic.fix)], in_bytes=False)
    return applied.text if applied.made else None


def fixed_all(linted: Linted) -> str:
    """A document with all safe fixes that the settings allow, as ``lint --fix`` makes them."""
    from warp_audit.audit.lint.fixing import mend

    return mend(_linter(), linted.path, linted.as_file, unsafe=False).after


def ignored(linted: Linted, found: Found) -> str:
    """A document with a comment that keeps a line as it is, where one can stand."""
    from warp_audit.audit.lint.add_ignore import add_ignores

    return add_ignores(linted.path, linted.as_file, [found], "")[0].after


def asked(kind: str, only: Sequence[str]) -> bool:
    """Whether the client asks for actions of a kind, by its name or by one that it lies below."""
    return not only or any(kind == one or kind.startswith(f"{one}.") for one in only)


def page(found: Found) -> str:
    """The page of a finding's rule."""
    from warp_audit.audit.lint.known import known_rules

    (known,) = [rule for rule in known_rules() if rule.code == found.diagnostic.code]
    return help_of(known)[1]


def path_of(uri: str) -> str:
    """The path of a document; of one that has none yet, a name of its own."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return str(Path(unquote(parsed.path)))
    return str(Path.cwd() / f"{Path(unquote(parsed.path)).name or 'untitled'}")


def _linter() -> Linter:
    return Linter(Configuration(), Options(cache=False))


def _our_bug(said: str) -> str:
    return f"our bug, please report it: {said}"


def make_server() -> Server:
    """The server with its answers."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.soon(params.text_document.uri, 0.0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        server.all_soon()  # what was saved may be imported by others that are open

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.all_soon()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def settings_changed(params: lsp.DidChangeConfigurationParams) -> None:
        server.all_soon()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        linted = server.current(params.text_document.uri)
        shown: dict[str, lsp.Range] = {}
        for found in linted.found if linted else ():
            extent = server.range_of(found, linted.lines if linted else ())
            if extent.start <= params.position <= extent.end:
                shown.setdefault(page(found), extent)
        if not shown:
            return None
        text = "\n\n---\n\n".join(shown)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), next(iter(shown.values())))

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix, FIX_ALL]),
    )
    async def code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        return await server.actions(params)

    return server


def serve() -> None:
    """Answer on standard input and output until the client goes."""
    make_server().start_io()
