"""What a lint rule is. Each file of ``audit.rules`` declares one, and everything else is read from the declaration."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from warp_audit.audit.edits import Edit, Fix, Place, Safety
from warp_audit.diagnostic import Confidence, Severity
from warp_audit.errors import BrokenPromise

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.host import HostFunction, Launch
    from warp_audit.audit.source.module import Module

_CODE = re.compile(r"WPA\d{3}")
_SECTIONS = ("What it finds", "Why it matters", "Instead")


@dataclass(frozen=True)
class Finding:
    """A place where a rule sees its fault; the engine makes a ``Diagnostic`` of it.

    Args:
        rule: whose finding it is.
        module: the file.
        node: the node whose extent is shown; it must have a position.
        message: one sentence, without a full stop, that names what is wrong here.
        notes: what else helps, a sentence each.
        fix: how to mend it, where the right text is plain.
    """

    rule: type[Rule]
    module: Module
    node: ast.AST
    message: str
    notes: tuple[str, ...] = ()
    fix: Fix | None = None


class HasModule(Protocol):
    """A part of a file, or the file."""

    @property
    def module(self) -> Module: ...


class Rule:
    """A fault that can be seen in source text.

    A subclass states the parts below and overrides one or more of the hooks; each hook is called for
    everything of its kind in a file and yields findings. The docstring's first line says in one
    sentence what is wrong; then come the paragraphs ``What it finds:``, ``Why it matters:`` and
    ``Instead:``. ``BAD`` and ``GOOD`` are whole modules (``import warp as wp`` is put before them);
    in ``BAD`` each line to be reported ends in ``# error: CODE``, and the marks must equal the findings.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    confidence: ClassVar[Confidence]
    references: ClassVar[tuple[str, ...]] = ()
    """Public threads where it happened: ``owner/repository#number`` or a URL."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Other names under which people know the fault."""
    opt_in: ClassVar[bool] = False
    """Whether it runs only when asked for: its false alarms are too many, or it is a matter of taste."""
    below: ClassVar[str | None] = None
    """The Warp version that mended it: the rule speaks only if the project supports an older one."""
    fix_safety: ClassVar[Safety | None] = None
    """The tier of its fixes, if it has any."""
    words: ClassVar[tuple[str, ...]] = ()
    """It runs only on files whose text has one of these; on all if empty."""
    calls: ClassVar[frozenset[str]] = frozenset()
    """For ``host``: it runs only for functions that call something whose name ends in one of these; all if empty."""
    GOOD: ClassVar[tuple[str, ...]]
    BAD: ClassVar[tuple[str, ...]]

    slug: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.slug = cls.__module__.rpartition(".")[2].replace("_", "-")
        lack = cls._lacks()
        if lack:
            raise BrokenPromise(f"the rule {cls.slug} {lack}")

    @classmethod
    def _lacks(cls) -> str | None:
        for part in ("code", "severity", "confidence", "GOOD", "BAD"):
            if not hasattr(cls, part):
                return f"states no {part}"
        if not _CODE.fullmatch(cls.code):
            return f"has the code {cls.code!r}, which is not WPA and three digits"
        doc = inspect.cleandoc(cls.__doc__ or "")
        for section in _SECTIONS:
            if f"\n{section}: " not in doc:
                return f"has no paragraph {section!r} in its docstring"
        if not any(f"# error: {cls.code}" in case for case in cls.BAD):
            return f"has no bad case with a line marked '# error: {cls.code}'"
        if not cls.GOOD or any("# error:" in case for case in cls.GOOD):
            return "needs good cases, without marks"
        if not cls.hooks():
            return "overrides no hook"
        return None

    @classmethod
    def hooks(cls) -> tuple[str, ...]:
        """The hooks that the rule overrides."""
        return tuple(name for name in HOOKS if getattr(cls, name) is not getattr(Rule, name))

    @classmethod
    def summary(cls) -> str:
        """The docstring's first line."""
        return inspect.cleandoc(cls.__doc__ or "").splitlines()[0]

    @classmethod
    def section(cls, title: str) -> str:
        """One paragraph of the docstring, without its title."""
        doc = inspect.cleandoc(cls.__doc__ or "")
        after = doc.partition(f"\n{title}: ")[2]
        return re.split(r"\n\n", after)[0].strip()

    def module(self, module: Module) -> Iterator[Finding]:
        """Called for each file that has to do with Warp."""
        yield from ()

    def device(self, function: DeviceFunction) -> Iterator[Finding]:
        """Called for each kernel and each ``@wp.func``."""
        yield from ()

    def kernel(self, kernel: DeviceFunction) -> Iterator[Finding]:
        """Called for each kernel."""
        yield from ()

    def launch(self, launch: Launch) -> Iterator[Finding]:
        """Called for each launch, whether its kernel is known or not."""
        yield from ()

    def host(self, function: HostFunction) -> Iterator[Finding]:
        """Called for each Python function, and for the module's own top level, that uses Warp."""
        yield from ()

    def at(
        self,
        where: HasModule,
        node: ast.AST,
        message: str,
        *notes: str,
        fix: Fix | None = None,
    ) -> Finding:
        """A finding at a node of the file that ``where`` belongs to."""
        return Finding(type(self), where.module, node, message, notes, fix)

    def mend(self, title: str, *edits: Edit) -> Fix:
        """A fix in the rule's tier."""
        if self.fix_safety is None:
            raise BrokenPromise(f"the rule {self.slug} makes a fix but states no tier")
        return Fix(title, edits, self.fix_safety)


HOOKS = ("module", "device", "kernel", "launch", "host")

__all__ = ["HOOKS", "Edit", "Finding", "Fix", "Place", "Rule", "Safety"]
