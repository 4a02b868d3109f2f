"""What is wanted of a run: the settings of one folder, frozen, and how the command line changes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from warp_audit.audit.lint.files import DEFAULT_EXCLUDE, Exclusion
from warp_audit.errors import BadInput


@dataclass(frozen=True)
class Settings:
    """The settings that hold for the files of a folder.

    Args:
        root: the folder that patterns are relative to: the one with the configuration file.
        source: the configuration file, if there is one.
        select: the rules that run; empty means all that are not opt-in.
        ignore: rules that do not run.
        extend_select: rules that run besides.
        extend_ignore: rules that do not run besides.
        per_file_ignores: for files that fit a pattern, rules that do not run.
        exclude: patterns of what is passed over.
        extend_exclude: more of them.
        min_warp: the oldest Warp that the project supports, if that is known.
        min_warp_from: where that is said.
        all_rules: whether opt-in rules run too.
        baseline: the file of known findings.
        fixable: the rules whose fixes are made; empty means all.
        unfixable: the rules whose fixes are not made.
    """

    root: str
    source: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    extend_ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    min_warp: tuple[int, int] | None = None
    min_warp_from: str | None = None
    all_rules: bool = False
    baseline: str | None = None
    fixable: tuple[str, ...] = ()
    unfixable: tuple[str, ...] = ()

    @property
    def exclusion(self) -> Exclusion:
        """What is passed over."""
        return Exclusion(self.root, self.exclude + self.extend_exclude)

    def names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each key that names rules, with the names."""
        return (
            ("select", self.select),
            ("ignore", self.ignore),
            ("extend-select", self.extend_select),
            ("extend-ignore", self.extend_ignore),
            *((f"per-file-ignores of {pattern}", names) for pattern, names in self.per_file_ignores),
            ("fixable", self.fixable),
            ("unfixable", self.unfixable),
        )

    def to_json(self) -> dict[str, Any]:
        """The settings by the names of their keys."""
        return {
            "root": self.root,
            "source": self.source,
            "select": list(self.select),
            "ignore": list(self.ignore),
            "extend-select": list(self.extend_select),
            "extend-ignore": list(self.extend_ignore),
            "per-file-ignores": {pattern: list(names) for pattern, names in self.per_file_ignores},
            "exclude": list(self.exclude),
            "extend-exclude": list(self.extend_exclude),
            "min-warp": "{}.{}".format(*self.min_warp) if self.min_warp else None,
            "min-warp-from": self.min_warp_from,
            "all-rules": self.all_rules,
            "baseline": self.baseline,
            "fixable": list(self.fixable),
            "unfixable": list(self.unfixable),
        }


@dataclass(frozen=True)
class Overrides:
    """What the command line says; ``None`` leaves a setting as it is.

    ``select`` takes the place of what the configuration selects and ignores; ``ignore``, ``extend_…`` and
    ``per_file_ignores`` come on top.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    extend_ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    min_warp: tuple[int, int] | None = None
    all_rules: bool = False
    baseline: str | None = None

    def on(self, settings: Settings) -> Settings:
        """The settings as the command line changes them."""
        changed = settings
        if self.select is not None:
            changed = replace(changed, select=self.select, ignore=(), extend_select=(), extend_ignore=())
        if self.exclude is not None:
            changed = replace(changed, exclude=self.exclude)
        if self.min_warp is not None:
            changed = replace(changed, min_warp=self.min_warp, min_warp_from="--min-warp")
        return replace(
            changed,
            ignore=changed.ignore + self.ignore,
            extend_select=changed.extend_select + self.extend_select,
            extend_ignore=changed.extend_ignore + self.extend_ignore,
            per_file_ignores=changed.per_file_ignores + self.per_file_ignores,
            extend_exclude=changed.extend_exclude + self.extend_exclude,
            all_rules=changed.all_rules or self.all_rules,
            baseline=self.baseline or changed.baseline,
        )


def parse_version(text: str, where: str) -> tuple[int, int]:
    """``1.12`` or ``1.12.3`` as a pair.

    Raises:
        BadInput: the text is no version.
    """
    parts = text.strip().split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        raise BadInput(f"{text!r} is not a version of Warp", where=where, hint="for example 1.12")
    return int(parts[0]), int(parts[1])
