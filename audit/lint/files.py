"""Which files are linted."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from warp_audit.errors import BadInput

DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox", ".pants.d", ".pyenv",
    ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv*", ".vscode", ".warp-audit", "__pycache__",
    "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip
"""Names of folders that are passed over unless they are given."""

SUFFIXES = (".py", ".ipynb")
_MAY_USE_WARP = re.compile(rb"warp|@\s*\w+\s*\.\s*(?:kernel|func|struct)|\blaunch|\.\s*(?:kernel|func)\s*\(")


def may_use_warp(data: bytes) -> bool:
    """Whether a file's bytes can have to do with Warp at all; most files need no further look."""
    return _MAY_USE_WARP.search(data) is not None


@dataclass
class Files:
    """The files found, by path, and what could not be looked at."""

    paths: list[str] = field(default_factory=list)
    problems: list[BadInput] = field(default_factory=list)


@dataclass(frozen=True)
class Exclusion:
    """Patterns that pass files over, relative to the folder whose settings they come from.

    A pattern without ``/`` fits the name of a file or folder at any depth; one with ``/`` fits a path from
    ``root`` on, or what lies below it.
    """

    root: str
    patterns: tuple[str, ...]

    def passes_over(self, path: str, name: str) -> bool:
        """Whether a file or folder is left out by its own name or its path."""
        names, paths = _compiled(self.patterns)
        if names.match(name):
            return True
        return bool(paths.pattern) and paths.match(relative(path, self.root)) is not None

    def passes_over_given(self, path: str) -> bool:
        """Whether a file that was given is left out, by itself or by a folder that it lies in."""
        inside = relative(path, self.root)
        parts = inside.split("/")
        return any(
            self.passes_over(os.path.join(self.root, *parts[: count + 1]), part)
            for count, part in enumerate(parts)
            if part not in ("", "..")
        )


def relative(path: str, root: str) -> str:
    """A path from a folder on, with ``/``."""
    prefix = root if root.endswith(os.sep) else root + os.sep
    inside = path[len(prefix) :] if path.startswith(prefix) else os.path.relpath(path, root)
    return inside.replace(os.sep, "/")


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    names = [glob(pattern) for pattern in patterns if "/" not in pattern.rstrip("/")]
    paths = [
        glob(pattern.removeprefix("./").strip("/")) + "(?:/.*)?" for pattern in patterns if "/" in pattern.rstrip("/")
    ]
    nothing = r"(?!)"
    return (
        re.compile("|".join(f"(?:{one})\\Z" for one in names) or nothing, re.DOTALL),
        re.compile("|".join(f"(?:{one})\\Z" for one in paths), re.DOTALL),
    )


def glob(pattern: str) -> str:
    """A pattern as a regular expression: ``*`` stays within a folder, ``**`` does not."""
    import fnmatch

    pattern = pattern.rstrip("/")
    out, at = [], 0
    for found in re.finditer(r"\*\*/?|\*|\?|\[[^\]]+\]", pattern):
        out.append(re.escape(pattern[at : found.start()]))
        at = found.end()
        token = found[0]
        if token == "**/":
            out.append("(?:.*/)?")
        elif token == "**":
            out.append(".*")
        elif token == "*":
            out.append("[^/]*")
        elif token == "?":
            out.append("[^/]")
        else:
            out.append(fnmatch.translate(token).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z"))
    out.append(re.escape(pattern[at:]))
    return "".join(out)


def find(paths: Iterable[str], exclusion_of: Callable[[str], Exclusion], force_exclude: bool = False) -> Files:
    """The Python files and notebooks that are given or lie in the folders given, each once, sorted.

    A file that is given is linted whatever its name, unless ``force_exclude`` and a pattern leaves it out. Links
    to folders are followed only if they are given, so a loop of links ends.
    """
    files = Files()
    seen: set[str] = set()
    for given in paths:
        path = os.path.abspath(given)
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as wrong:
            files.problems.append(_problem(given, wrong))
            continue
        if force_exclude and exclusion_of(os.path.dirname(path)).passes_over_given(path):
            continue
        if stat.S_ISDIR(mode):
            _walk(path, exclusion_of, files, seen)
        elif not stat.S_ISREG(mode):
            files.problems.append(BadInput("neither a file nor a folder", where=given))
        elif not path.endswith(".pyi"):
            seen.add(path)
    files.paths = sorted(seen)
    return files


def _walk(top: str, exclusion_of: Callable[[str], Exclusion], files: Files, seen: set[str]) -> None:
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as wrong:
            files.problems.append(_problem(folder, wrong))
            continue
        if folder != top and any(entry.name == "pyvenv.cfg" for entry in found):
            continue  # a virtual environment, whatever its name
        exclusion = exclusion_of(folder)
        for entry in found:
            name = entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not exclusion.passes_over(entry.path, name):
                        waiting.append(entry.path)
                elif name.endswith(SUFFIXES) and entry.is_file() and not exclusion.passes_over(entry.path, name):
                    seen.add(entry.path)
            except OSError as wrong:
                files.problems.append(_problem(entry.path, wrong))


def _problem(path: str, wrong: OSError | ValueError) -> BadInput:
    reason = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else str(wrong)
    return BadInput(f"cannot be read: {reason}", where=path)
