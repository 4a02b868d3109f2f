"""Functions and modules: what one ``.wir`` file holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from warp_audit.compiler.ir.op import Op, Origin, walk
from warp_audit.compiler.ir.types import Type

REGIONS = ("forward", "replay", "reverse")


@dataclass(slots=True, eq=False)
class Value:
    """A local of a function: a variable, or a constant when ``constant`` is its C++ text."""

    name: str
    type: Type
    constant: str | None = None
    origin: Origin | None = None
    node: int = 0


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter of a kernel or function."""

    name: str
    type: Type
    node: int = 0


@dataclass(slots=True, eq=False)
class Function:
    """A kernel or a ``@wp.func`` with its values and regions.

    ``forward`` is the forward pass; ``replay`` and ``reverse`` together are the body of the
    adjoint function, absent where Warp generates none. A native function has no regions:
    its C++ snippet stands in the module's layout.
    """

    kind: str  # kernel, func, native
    key: str  # the name in Python, as Warp registers it
    symbol: str  # unique in the module: the mangled kernel name, the native function name
    origin: Origin | None
    parameters: list[Parameter] = field(default_factory=list)
    returns: tuple[Type, ...] = ()
    values: list[Value] = field(default_factory=list)
    regions: dict[str, list[Op]] = field(default_factory=dict)
    attrs: dict[str, str] = field(default_factory=dict)
    node: int = 0

    @property
    def native(self) -> str:
        """The name in C++; overloads share one, their symbols differ after a ``#``."""
        return self.symbol.partition("#")[0]

    @property
    def grid_stride(self) -> bool:
        """Whether the kernel's body is the body of Warp's grid-stride loop."""
        return self.attrs.get("grid_stride") == "true"

    def ops(self) -> Iterator[tuple[str, Op]]:
        """Every op with the name of its region, in text order."""
        for region in REGIONS:
            for op in walk(self.regions.get(region, [])):
                yield region, op


@dataclass(slots=True, eq=False)
class StructDecl:
    """A ``@wp.struct``: native name, Python name, fields in order."""

    name: str
    key: str
    fields: list[tuple[str, Type]]
    node: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file that ops come from, or a text that Warp generated (``path`` in angle brackets)."""

    path: str
    sha256: str
    text: tuple[str, ...] = ()  # only where there is no file


@dataclass(frozen=True, slots=True)
class Frame:
    """Text of the C++ module around the bodies; ``owner`` gets its ``#line`` marks."""

    lines: tuple[str, ...]
    owner: str = ""  # symbol of the function that the text belongs to


@dataclass(frozen=True, slots=True)
class Body:
    """The place of a function's body in the C++ module: its forward or its reverse."""

    symbol: str
    reverse: bool


@dataclass(slots=True, eq=False)
class Module:
    """What Warp compiles as one: kernels, the functions they call, and the C++ around them."""

    name: str  # the Warp module's name
    identifier: str  # file stem that Warp gives it: wp_<name>_<hash>
    warp: str  # Warp version that generated it
    options: dict[str, str] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    structs: list[StructDecl] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    layout: list[Frame | Body] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)  # device libraries to link (LTO-IR)

    def function(self, symbol: str) -> Function:
        """The function with that unique name.

        Raises:
            KeyError: there is none.
        """
        for found in self.functions:
            if found.symbol == symbol:
                return found
        raise KeyError(symbol)
