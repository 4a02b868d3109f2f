"""Configuration files: ``[tool.warp-audit]`` of ``pyproject.toml``, or ``warp-audit.toml``; the nearest one counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

from warp_audit.audit.lint.known import near_miss
from warp_audit.audit.lint.settings import Overrides, Settings, parse_version
from warp_audit.errors import BadInput

OWN_FILE = "warp-audit.toml"
PROJECT_FILE = "pyproject.toml"
_T = TypeVar("_T")


class Configuration:
    """The settings of each folder, found once.

    Args:
        overrides: what the command line says.
        isolated: whether no file is read, neither for settings nor for the project's bound of Warp.
        file: the one configuration file that counts, instead of the nearest.
        working: the working folder, which stands in for a project without a configuration.
    """

    def __init__(
        self, overrides: Overrides | None = None, isolated: bool = False, file: str | None = None,
        working: str | None = None,
    ) -> None:  # fmt: skip
        self._overrides = overrides or Overrides()
        self._isolated = isolated
        self._working = working or os.getcwd()
        self._by_folder: dict[str, Settings | None] = {}
        self._bounds: dict[str, tuple[tuple[int, int], str] | None] = {}
        self._complete: dict[str, Settings] = {}
        self._only: Settings | None = None
        if file is not None:
            path = os.path.abspath(file)
            table = _table(path, required=True)
            self._only = read_table(table or {}, path)
        elif isolated:
            self._only = Settings(self._working)

    def of(self, folder: str) -> Settings:
        """The settings that hold for the files of a folder.

        Raises:
            BadInput: the configuration has a fault.
        """
        known = self._complete.get(folder)
        if known is None:
            found = self._only or self._nearest(folder) or Settings(self._working)
            if found.min_warp is None and not self._isolated and self._overrides.min_warp is None:
                bound = self._bound(folder)
                if bound is not None:
                    found = replace(found, min_warp=bound[0], min_warp_from=bound[1])
            known = self._complete[folder] = self._overrides.on(found)
        return known

    def _nearest(self, folder: str) -> Settings | None:
        return _climb(folder, self._by_folder, _settings_in, lambda _: False)

    def _bound(self, folder: str) -> tuple[tuple[int, int], str] | None:
        from warp_audit.audit.lint.bound import bound_in, is_top

        return _climb(folder, self._bounds, bound_in, is_top)


def _climb(
    folder: str, known: dict[str, _T | None], look: Callable[[str], _T | None], is_top: Callable[[str], bool]
) -> _T | None:
    """What ``look`` finds in the nearest folder upwards, remembered for all folders on the way."""
    passed = []
    found: _T | None = None
    while True:
        if folder in known:
            found = known[folder]
            break
        passed.append(folder)
        found = look(folder)
        above = os.path.dirname(folder)
        if found is not None or above == folder or is_top(folder):
            break
        folder = above
    for one in passed:
        known[one] = found
    return found


def _settings_in(folder: str) -> Settings | None:
    for name in (OWN_FILE, PROJECT_FILE):
        path = os.path.join(folder, name)
        table = _table(path, required=False)
        if table is not None:
            return read_table(table, path)
    return None


def _table(path: str, required: bool) -> dict[str, Any] | None:
    """The table of a file that holds our settings, or ``None`` if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as wrong:
        if required:
            raise BadInput("there is no such configuration file", where=path) from wrong
        return None
    except OSError as wrong:
        raise BadInput(f"cannot be read: {wrong.strerror}", where=path) from wrong
    whole = os.path.basename(path) != PROJECT_FILE
    if not whole and b"warp-audit" not in data:
        return None
    table = parse_toml(data, path)
    if whole and "tool" not in table:
        return table
    tool = table.get("tool")
    found = tool.get("warp-audit") if isinstance(tool, dict) else None
    if found is not None and not isinstance(found, dict):
        raise BadInput("tool.warp-audit is not a table", where=path)
    return found


def parse_toml(data: bytes, path: str) -> dict[str, Any]:
    """A TOML file.

    Raises:
        BadInput: it is none.
    """
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: dict[str, Any] = toml.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
        return table
    except UnicodeDecodeError:
        raise BadInput("is not UTF-8", where=path) from None
    except toml.TOMLDecodeError as wrong:
        raise BadInput(f"is not TOML: {wrong}", where=path) from None
    except RecursionError:
        raise BadInput("is nested too deeply", where=path) from None


_LISTS = (
    "select", "ignore", "extend-select", "extend-ignore", "exclude", "extend-exclude", "fixable", "unfixable",
)  # fmt: skip
KEYS = (*_LISTS, "per-file-ignores", "min-warp", "all-rules", "baseline")
"""The keys of ``[tool.warp-audit]``."""


def read_table(table: dict[str, Any], path: str) -> Settings:
    """The settings that a configuration file states.

    Raises:
        BadInput: an unknown key, or a value of the wrong kind.
    """
    root = os.path.dirname(path)
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}: {key}"
        if key in _LISTS:
            values[key.replace("-", "_")] = _strings(value, where)
        elif key == "per-file-ignores":
            if not isinstance(value, dict):
                raise BadInput("is not a table of patterns", where=where)
            values["per_file_ignores"] = tuple(
                (pattern, _strings(names, f"{where}: {pattern}")) for pattern, names in value.items()
            )
        elif key == "min-warp":
            if not isinstance(value, str):
                raise BadInput("is not a string", where=where, hint='for example min-warp = "1.12"')
            values["min_warp"], values["min_warp_from"] = parse_version(value, where), path
        elif key == "all-rules":
            if not isinstance(value, bool):
                raise BadInput("is neither true nor false", where=where)
            values["all_rules"] = value
        elif key == "baseline":
            if not isinstance(value, str):
                raise BadInput("is not the name of a file", where=where)
            values["baseline"] = os.path.join(root, value)
        else:
            near = near_miss(key, KEYS)
            raise BadInput(
                f"there is no setting {key!r}",
                where=path,
                hint=f"did you mean {near}?" if near else f"there are {', '.join(KEYS)}",
            )
    return Settings(root, path, **values)


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadInput("is not a list of strings", where=where)
    return tuple(value)
