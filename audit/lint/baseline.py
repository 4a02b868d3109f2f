"""Known findings that are not reported again: by rule, file and fingerprint, never by line."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warp_audit.audit.lint.files import relative
from warp_audit.audit.lint.report import Found
from warp_audit.errors import BadInput

_VERSION = 1


class Key(NamedTuple):
    """What makes two findings the same."""

    file: str
    code: str
    rule: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.file}: {self.code}[{self.rule}]"


class Baseline:
    """The findings of a baseline file.

    Args:
        path: the file; paths in it are relative to its folder.
        counts: how often each finding is known.
    """

    def __init__(self, path: str, counts: Counter[Key] | None = None) -> None:
        self.path = os.path.abspath(path)
        self._root = os.path.dirname(self.path)
        self.counts: Counter[Key] = counts or Counter()

    @staticmethod
    def read(path: str) -> Baseline:
        """The baseline that a file holds.

        Raises:
            BadInput: there is no such file, or it is no baseline.
        """
        try:
            with open(path, "rb") as file:
                data = json.loads(file.read())
        except FileNotFoundError:
            raise BadInput(
                "there is no such baseline", where=path, hint=f"lint --write-baseline {path} makes one"
            ) from None
        except OSError as wrong:
            raise BadInput(f"cannot be read: {wrong.strerror}", where=path) from wrong
        except (ValueError, RecursionError):
            raise BadInput("is not a baseline: not JSON", where=path) from None
        version = data.get("version") if isinstance(data, dict) else None
        if isinstance(version, int) and version > _VERSION:
            raise BadInput(f"is a baseline of version {version}, which a later warp-audit wrote", where=path)
        try:
            counts: Counter[Key] = Counter()
            for one in data["findings"]:
                key = Key(*(str(one[name]) for name in Key._fields))
                counts[key] += int(one.get("count", 1))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise BadInput("is not a baseline", where=path) from None
        return Baseline(path, counts)

    def key(self, found: Found) -> Key:
        """What a finding is known by."""
        diagnostic = found.diagnostic
        return Key(relative(diagnostic.span.file, self._root), diagnostic.code, diagnostic.rule, diagnostic.fingerprint)

    def split(self, found: Iterable[Found]) -> tuple[list[Found], list[Found]]:
        """The findings that are new, and those that are known; of equal ones the first are the known ones."""
        left = self.counts.copy()
        new: list[Found] = []
        known: list[Found] = []
        for one in found:
            key = self.key(one)
            if left[key] > 0:
                left[key] -= 1
                known.append(one)
            else:
                new.append(one)
        return new, known

    def stale(self, found: Iterable[Found], linted: Iterable[str], codes: frozenset[str]) -> Counter[Key]:
        """The entries that no finding matches any more.

        Only entries that this run can judge are: of rules that ran, in files that were linted or are gone.
        """
        left = self.counts.copy()
        left.subtract(self.key(one) for one in found)
        files = {relative(path, self._root) for path in linted}
        return Counter({
            key: count
            for key, count in left.items()
            if count > 0
            and key.code in codes
            and (key.file in files or not os.path.exists(os.path.join(self._root, key.file)))
        })  # fmt: skip

    def without(self, stale: Counter[Key]) -> Baseline:
        """The baseline without some entries."""
        return Baseline(self.path, self.counts - stale)

    @staticmethod
    def of(path: str, found: Sequence[Found]) -> Baseline:
        """The baseline that knows these findings."""
        made = Baseline(path)
        made.counts = Counter(made.key(one) for one in found)
        return made

    def to_text(self) -> str:
        """The file's text: an entry a line, in order, so that a version control system shows what changed."""
        entries = [
            json.dumps({**key._asdict(), "count": count}) for key, count in sorted(self.counts.items()) if count > 0
        ]  # fmt: skip
        body = ",\n".join(f"    {entry}" for entry in entries)
        return f'{{\n  "version": {_VERSION},\n  "findings": [' + (f"\n{body}\n  " if body else "") + "]\n}\n"
