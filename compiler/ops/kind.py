"""What a kind of op declares, and the registry found by walking this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from warp_audit.compiler.ir.op import Op
from warp_audit.compiler.ir.statement import Statement

EFFECTS = frozenset(
    {
        "control",  # decides what runs next
        "local",  # writes a thread's own variables in place
        "memory",  # reads or writes arrays; `Op.access` says which
        "block",  # a collective of the block: every thread must arrive
        "random",  # advances a generator's state
        "output",  # prints
        "trap",  # may stop the program
        "adjoint",  # adds into gradients
        "call",  # what the called function does
    }
)


@dataclass(slots=True)
class Scope:
    """What a statement may refer to while it is read.

    ``functions`` are the symbols of the module's user functions, ``structs`` the native
    names of its structs, ``outputs`` how many trailing arguments of a call statement are
    results (by the statement's text, learnt in the forward pass), ``written`` the values
    that some earlier op has written.
    """

    functions: frozenset[str] = frozenset()
    structs: frozenset[str] = frozenset()
    outputs: dict[str, int] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


class Kind:
    """One kind of op. The class docstring is its documentation.

    ``forms`` are the statement forms it may read, ``example`` a statement of the generated
    C++ that it stands for. ``rank`` orders kinds that read the same form: lower first.
    """

    name: ClassVar[str] = ""
    forms: ClassVar[tuple[str, ...]] = ()
    effects: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[str] = ""
    rank: ClassVar[int] = 50

    def names(self) -> tuple[str, ...]:
        """The op names that this kind reads from ``.wir`` text."""
        return (self.name,)

    def owns(self, name: str) -> bool:
        """Whether an op of this name is of this kind."""
        return name in self.names()

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        """The op that the statement is, or None when it is of another kind."""
        raise NotImplementedError

    def write(self, op: Op) -> Statement:
        """The statement that the op is."""
        raise NotImplementedError

    def affects(self, op: Op) -> frozenset[str]:
        """What this op does besides giving its results."""
        del op
        return self.effects

    def check(self, op: Op) -> str | None:
        """What is wrong with the op's own fields, or None."""
        del op
        return None

    def __init_subclass__(cls, *, base: bool = False) -> None:
        super().__init_subclass__()
        if base:
            return
        lacking = [part for part in ("forms", "example", "__doc__") if not getattr(cls, part, None)]
        if lacking:
            raise TypeError(f"op kind {cls.__name__} declares no {', '.join(lacking)}")
        if unknown := cls.effects - EFFECTS:
            raise TypeError(f"op kind {cls.__name__} declares unknown effects {sorted(unknown)}")


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds of this package, in the order in which they try to read a statement."""
    package = importlib.import_module("warp_audit.compiler.ops")
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(found.name)
    classes: list[type[Kind]] = []
    pending = list(Kind.__subclasses__())
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if cls.forms:
            classes.append(cls)
    classes.sort(key=lambda cls: (cls.rank, cls.__name__))
    return tuple(cls() for cls in classes)


@cache
def by_form() -> dict[str, tuple[Kind, ...]]:
    """The kinds that may read each statement form."""
    forms: dict[str, list[Kind]] = {}
    for kind in kinds():
        for form in kind.forms:
            forms.setdefault(form, []).append(kind)
    return {form: tuple(found) for form, found in forms.items()}


@cache
def _named() -> tuple[dict[str, Kind], tuple[Kind, ...]]:
    exact: dict[str, Kind] = {}
    open_ended: list[Kind] = []
    for kind in kinds():
        if kind.name:
            exact.setdefault(kind.name, kind)
        else:
            open_ended.append(kind)
    return exact, tuple(open_ended)


@cache
def kind_of(name: str) -> Kind | None:
    """The kind of the ops of that name, or None when the name is unknown."""
    exact, open_ended = _named()
    if name in exact:
        return exact[name]
    return next((kind for kind in open_ended if kind.owns(name)), None)


Reader = Callable[[Statement, Scope], Op | None]
