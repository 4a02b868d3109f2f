"""The lines of the table of signatures: made into one where they differ little, and merged with other versions'."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

HEADER = "# Warp's builtins, one overload a line, those of one name in the order in which Warp tries them. Warp "


@dataclass
class Overload:
    """One line of the table, with the versions of Warp that it holds for."""

    text: str
    group: str
    flags: tuple[str, ...]
    versions: set[str] = field(default_factory=set)


def folded(lines: list[Overload]) -> list[Overload]:
    """The lines, with neighbours that differ in the type of one parameter only made into one."""
    kept: list[Overload] = []
    for line in lines:
        last = kept[-1] if kept else None
        if last is not None and (last.group, last.flags) == (line.group, line.flags):
            one, two = _split(last.text), _split(line.text)
            differ = [i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b]
            if len(one) == len(two) and len(differ) == 1 and 0 < differ[0] < len(one) - 1:
                i = differ[0]
                name, _, types = one[i].partition(": ")
                other, _, type_ = two[i].partition(": ")
                if name == other and " = " not in types + type_:
                    one[i] = f"{name}: {_union(types, type_)}"
                    last.text = f"{one[0]}({', '.join(one[1:-1])}) -> {one[-1]}"
                    continue
        kept.append(line)
    return kept


def _union(types: str, more: str) -> str:
    from warp._src import types as warp_types

    kinds = {"Scalar": warp_types.scalar_types, "Int": warp_types.int_types}
    members = {kind: {type_.__name__ for type_ in among} for kind, among in kinds.items()}
    parts: list[str] = []
    for part in (*types.split("/"), more):
        parts += sorted(members.get(part, {part}))
    for kind, names in members.items():
        if names <= set(parts):
            parts = [kind, *(part for part in parts if part not in names)]
    return "/".join(dict.fromkeys(parts))


def _split(text: str) -> list[str]:
    """A signature's name, its parameters and its result."""
    name, _, rest = text.partition("(")
    inside, _, returns = rest.rpartition(") -> ")
    parameters, depth, start = [], 0, 0
    for i, character in enumerate(inside + ","):
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parameters.append(inside[start:i].strip())
            start = i + 1
    return [name, *parameters, returns]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _read(path: Path) -> tuple[list[str], dict[str, list[Overload]]]:
    """The versions and the lines of a table."""
    versions: list[str] = []
    table: dict[str, list[Overload]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith(HEADER):
            versions = line.removeprefix(HEADER).rstrip(".").split(", ")
        elif line and not line.startswith("#"):
            text, group, *more = line.split(" | ")
            words = more[0].split(", ") if more else []
            first, last = versions[0], versions[-1]
            flags = []
            for word in words:
                if word.startswith("since "):
                    first = word.removeprefix("since ")
                elif word.startswith("until "):
                    last = word.removeprefix("until ")
                else:
                    flags.append(word)
            held = {v for v in versions if _number(first) <= _number(v) <= _number(last)}
            table.setdefault(text.partition("(")[0], []).append(Overload(text, group, tuple(flags), held))
    return versions, table


def merge(path: Path, version: str, table: dict[str, list[Overload]]) -> str:
    """The text of the table at ``path`` with one more version in it, or that version anew."""
    versions, known = _read(path)
    newest = all(_number(version) >= _number(other) for other in versions)
    versions = sorted({*versions, version}, key=_number)
    lines = [f"{HEADER}{', '.join(versions)}."]
    for key in sorted({*known, *table}):
        now, then = table.get(key, []), known.get(key, [])
        for old in then:
            old.versions.discard(version)
        for new in now:
            new.versions.add(version)
            for old in then:
                if old.text == new.text:
                    new.versions |= old.versions
                    if not newest:
                        new.group, new.flags = old.group, old.flags
        texts = {new.text for new in now}
        rest = [old for old in then if old.text not in texts and old.versions]
        # The newest version's order is what counts; what it no longer has comes last.
        merged = now + rest if newest else _in_order(then, now)
        merged = [line for line in merged if line.versions]
        merged.sort(key=lambda line: versions[-1] not in line.versions)
        for line in merged:
            first, last = min(line.versions, key=_number), max(line.versions, key=_number)
            words = [*line.flags]
            words += [f"since {first}"] if first != versions[0] else []
            words += [f"until {last}"] if last != versions[-1] else []
            lines.append(" | ".join([line.text, line.group, *([", ".join(words)] if words else [])]))
    return "\n".join(lines) + "\n"


def _in_order(then: list[Overload], now: list[Overload]) -> list[Overload]:
    found = {new.text: new for new in now}
    return [found.pop(old.text, old) for old in then] + list(found.values())
