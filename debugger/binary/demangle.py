"""Readable names of C++ functions."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d+)")


def demangle(name: str | None) -> str | None:
    """The qualified name in an Itanium-mangled symbol, without template and parameter types.

    ``_ZN2wp3mulEff`` is ``wp::mul``. A name that is not mangled is returned as it is.
    """
    if name is None or not name.startswith("_Z"):
        return name
    at = 3 if name.startswith("_ZN") else 2
    while at < len(name) and name[at] in "KVr":
        at += 1
    parts: list[str] = []
    while match := _PART.match(name, at):
        length = int(match[1])
        part = name[match.end() : match.end() + length]
        if not part:
            break
        parts.append(part)
        at = match.end() + length
        if not name.startswith("_ZN"):
            break
    named = [p for p in parts if not p.startswith("_INTERNAL_")]
    if not named:
        return name
    if name.startswith(("C1", "C2"), at):
        named.append(named[-1])  # a constructor
    return "::".join(named)
