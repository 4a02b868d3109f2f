"""The oldest Warp that a project supports, as its own packaging says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

_NAMED = re.compile(rb"warp[-_.]lang", re.IGNORECASE)
_NAME = re.compile(r"\s*warp[-_.]lang(?![\w.-]*\w)", re.IGNORECASE)


def is_top(folder: str) -> bool:
    """Whether what lies above a folder is no part of its project: the top of a checkout."""
    return os.path.exists(os.path.join(folder, ".git"))


def bound_in(folder: str) -> tuple[tuple[int, int], str] | None:
    """The bound that the files of a folder state, and the file that states it.

    A requirement of the project itself counts before those of its extras and groups, and these before requirement
    files; of several of the same kind the lowest counts.
    """
    for name, read in (
        ("pyproject.toml", _pyproject),
        ("setup.cfg", _setup_cfg),
        ("requirements.txt", _requirements),
    ):
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            continue
        if not _NAMED.search(data):
            continue
        for group in read(data, path):
            bounds = [bound for text in group if (bound := lower_bound(text)) is not None]
            if bounds:
                return min(bounds), path
    return None


def lower_bound(requirement: str) -> tuple[int, int] | None:
    """The lowest Warp that a requirement allows; ``None`` if it is about something else or allows any."""
    if not _NAME.match(requirement):
        return None
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version

    try:
        specifiers = Requirement(requirement).specifier
    except InvalidRequirement:
        return None
    found = []
    for specifier in specifiers:
        if specifier.operator in (">=", ">", "==", "~=", "==="):
            try:
                version = Version(specifier.version.removesuffix(".*"))
            except InvalidVersion:
                continue
            found.append((version.major, version.minor))
    return max(found, default=None)


def _pyproject(data: bytes, path: str) -> Iterator[list[str]]:
    from warp_audit.audit.lint.config import parse_toml
    from warp_audit.errors import BadInput

    try:
        table = parse_toml(data, path)
    except BadInput:
        return  # its faults are other tools' to report
    project = _dict(table.get("project"))
    yield _strings(project.get("dependencies"))
    yield _poetry(_dict(_dict(_dict(table.get("tool")).get("poetry")).get("dependencies")))
    extras = [*_dict(project.get("optional-dependencies")).values(), *_dict(table.get("dependency-groups")).values()]
    yield [text for extra in extras for text in _strings(extra)]


def _poetry(dependencies: dict[str, Any]) -> list[str]:
    """Poetry's own form: ``warp-lang = "^1.10"``."""
    found = []
    for name, value in dependencies.items():
        version = value.get("version") if isinstance(value, dict) else value
        if isinstance(version, str):
            text = version.strip().replace("^", ">=").replace("~=", "~").replace("~", "~=")
            found.append(f"{name}{text if text[:1] in '<>=!~' else '==' + text}" if text != "*" else name)
    return found


def _setup_cfg(data: bytes, path: str) -> Iterator[list[str]]:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(data.decode("utf-8", "replace"))
    except configparser.Error:
        return
    yield parser.get("options", "install_requires", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        yield [line for _, value in parser.items("options.extras_require") for line in value.splitlines()]


def _requirements(data: bytes, path: str) -> Iterator[list[str]]:
    yield [line.partition(" #")[0].partition(" --")[0].strip() for line in data.decode("utf-8", "replace").splitlines()]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> list[str]:
    items: Iterable[object] = value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, str)]
