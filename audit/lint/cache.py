"""What files were found to hold, kept between runs: one JSON file for each way of running.

JSON, since a cache may come with a checkout from a stranger: reading it runs nothing. A file counts as unchanged if
its size and its time of change are those that were seen, unless it was changed so shortly before the cache was
written that the clock may not tell; otherwise, and for other times of change, its content is hashed. The files that
its findings depend on are looked at in the same way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import time
from typing import Any

from warp_audit import __version__
from warp_audit.audit.lint.known import Known

_FORMAT = 1
_KEPT = 6
"""How many ways of running are remembered."""
# File systems keep times in steps of up to two seconds.
_CLOCK_STEP = 2_000_000_000


def signature() -> str:
    """A hash of everything that findings depend on besides the linted files: our own source, Python's version."""
    digest = hashlib.sha256(f"{_FORMAT} {__version__} {sys.version}".encode())
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            if name.endswith((".py", ".txt", ".json", ".tsv")):
                with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                    digest.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


class Cache:
    """Outcomes by file, for one way of running.

    Args:
        folder: where caches are kept; ``None`` keeps nothing.
        key: what the outcomes depend on besides the files: our signature and the settings.
    """

    def __init__(self, folder: str | None, key: str) -> None:
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:20]
        self._path = os.path.join(folder, f"lint-{name}.json") if folder else None
        self._name = name
        self._outcomes: dict[str, Any] = {}
        self._seen: dict[str, list[Any]] = {}
        self._now: dict[str, str | None] = {}
        self._saved = 0
        self._changed = False
        self.known: tuple[Known, ...] | None = None
        """The rules there are, as the run that wrote the cache saw them."""
        if self._path:
            self._read(self._path)

    def _read(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                data = json.loads(file.read())
            if data["name"] != self._name:
                return
            outcomes, seen, saved = data["outcomes"], data["seen"], data["saved"]
            known = tuple(Known.from_json(one) for one in data["rules"])
            if isinstance(outcomes, dict) and isinstance(seen, dict) and isinstance(saved, int):
                self._outcomes, self._seen, self._saved, self.known = outcomes, seen, saved, known
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # no cache, or a damaged one: it is made anew

    def get(self, path: str) -> dict[str, Any] | None:
        """The outcome of a file, if neither it nor what it depends on has changed."""
        outcome = self._outcomes.get(path)
        if not isinstance(outcome, dict) or outcome.get("sha") != self._digest(path):
            return None
        needs = outcome.get("needs")
        if needs and any(self._digest(needed) != sha for needed, sha in needs.items()):
            return None
        return outcome

    def put(self, path: str, outcome: dict[str, Any], seen: list[Any]) -> None:
        """Keep an outcome.

        Args:
            path: the file.
            outcome: what it holds.
            seen: its time of change, size and hash when it was read.
        """
        self._seen[path] = seen
        self._outcomes[path] = outcome | {"sha": seen[2]}
        self._changed = True

    def _digest(self, path: str) -> str | None:
        """The hash of a file's content now; ``None`` if there is no such file."""
        if path in self._now:
            return self._now[path]
        digest: str | None = None
        try:
            status = os.stat(path)
            seen = self._seen.get(path)
            same = seen is not None and seen[:2] == [status.st_mtime_ns, status.st_size]
            if seen is not None and same and status.st_mtime_ns < self._saved - _CLOCK_STEP:
                digest = seen[2]
            else:
                with open(path, "rb") as file:
                    digest = hashlib.sha256(file.read()).hexdigest()
                # Also when only the clock was not to be trusted and now is: the next run need not hash again.
                self._changed = self._changed or not same or status.st_mtime_ns < time.time_ns() - _CLOCK_STEP
                self._seen[path] = [status.st_mtime_ns, status.st_size, digest]
        except (OSError, ValueError, TypeError, IndexError):
            pass
        self._now[path] = digest
        return digest

    def save(self, known: tuple[Known, ...]) -> None:
        """Write the cache, whole or not at all; a folder that cannot be written to is no error."""
        if not self._path or not self._changed:
            return
        outcomes = {
            path: outcome for path, outcome in self._outcomes.items() if path in self._now or os.path.exists(path)
        }
        wanted = set(outcomes)
        for outcome in outcomes.values():
            wanted.update(outcome.get("needs") or ())
        data = {
            "name": self._name,
            "saved": time.time_ns(),
            "rules": [one.to_json() for one in known],
            "seen": {path: seen for path, seen in self._seen.items() if path in wanted},
            "outcomes": outcomes,
        }
        folder = os.path.dirname(self._path)
        temporary = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(folder, exist_ok=True)
            ignore = os.path.join(folder, ".gitignore")
            if not os.path.exists(ignore):
                with open(ignore, "w", encoding="utf-8") as file:
                    file.write("*\n")
            with open(temporary, "w", encoding="ascii") as file:
                file.write(json.dumps(data, separators=(",", ":")))
            os.replace(temporary, self._path)
            _forget_old(folder)
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _forget_old(folder: str) -> None:
    """Keep the newest few caches."""
    caches = []
    for entry in os.scandir(folder):
        if entry.name.startswith("lint-"):
            with contextlib.suppress(OSError):
                caches.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(caches)[:-_KEPT]:
        with contextlib.suppress(OSError):
            os.unlink(path)
