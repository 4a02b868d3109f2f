"""Fixes carried out: a file is linted, mended and linted again until nothing changes."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

from warp_audit.audit.lint.edits import from_json
from warp_audit.audit.lint.report import Found
from warp_audit.audit.lint.run import Linter
from warp_audit.audit.source.text import SourceProblem, Text, read_text
from warp_audit.errors import BadInput

_ROUNDS = 10


@dataclass(frozen=True)
class Rewritten:
    """A file before and after.

    Args:
        path: the file.
        before: its text.
        after: its text with the changes, with the same line ends.
        made: how many changes were made.
    """

    path: str
    before: Text
    after: str
    made: int

    @property
    def changed(self) -> bool:
        """Whether the text is another."""
        return self.after != self.before.raw

    def diff(self, name: str) -> str:
        """The change as a unified diff; empty if there is none."""
        old, new = (lines(text) for text in (self.before.normal, Text(self.after).normal))
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        )

    def write(self) -> None:
        """Put the new text in the file, whole or not at all; its mode is kept.

        Raises:
            BadInput: it cannot be written.
        """
        try:
            replace_file(self.path, self.before.encode(self.after))
        except SourceProblem as wrong:
            raise BadInput(wrong.message, where=f"{self.path}:{wrong.line}") from None


def lines(text: str) -> list[str]:
    """The lines of a text with their line feeds; form feeds and the like end no line."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def replace_file(path: str, data: bytes) -> None:
    """Write a file whole or not at all; a link stays a link, and the mode stays.

    Raises:
        BadInput: it cannot be written.
    """
    target = os.path.realpath(path)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".warp-audit-", dir=os.path.dirname(target))
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if os.path.exists(target):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except OSError as wrong:
        raise BadInput(f"cannot be written: {wrong.strerror}", where=path) from wrong
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def read_file(path: str) -> Text | None:
    """The text of a file; ``None`` if it cannot be read, which linting says."""
    try:
        with open(path, "rb") as file:
            return read_text(file.read())
    except (OSError, SourceProblem):
        return None


def mend(linter: Linter, path: str, text: Text, unsafe: bool) -> Rewritten:
    """Carry out the fixes of a file's findings.

    Args:
        linter: what lints and knows the settings.
        path: the file.
        text: what stands in it.
        unsafe: whether fixes that may change what the program means are made too.
    """
    from warp_audit.audit.fixes import apply

    raw, made = text.raw, 0
    for _ in range(_ROUNDS):
        weighed = linter.check_data(path, text.encode(raw)).weighed
        fixes = [
            from_json(one.diagnostic.fix)
            for one in weighed.found
            if one.diagnostic.span.file == path and wanted(linter, one, unsafe)
        ]
        if not fixes:
            break
        applied = apply(raw, fixes, in_bytes=False)
        if not applied.made or applied.text == raw:
            break
        raw, made = applied.text, made + applied.made
    return Rewritten(path, text, raw, made)


def wanted(linter: Linter, found: Found, unsafe: bool) -> bool:
    """Whether a finding's fix is to be made."""
    return linter.may_fix(found) and (unsafe or found.fix_safety == "safe")


def files_to_mend(linter: Linter, found: Iterable[Found], unsafe: bool) -> list[str]:
    """The files with findings whose fixes are to be made."""
    return sorted({one.diagnostic.span.file for one in found if wanted(linter, one, unsafe)})
