"""Tile operations of a kernel, and which of its values differ between the threads of a block."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warp_audit.audit.source.builtins import TILE_OPS
from warp_audit.audit.source.types import Array, Matrix, Quaternion, Scalar, Tile, Transformation, Type, Vector

if TYPE_CHECKING:
    from warp_audit.audit.source.device import DeviceFunction
    from warp_audit.audit.source.flow import Site
    from warp_audit.audit.source.host import Launch
    from warp_audit.audit.source.symbolic import Atom, Form

# Where the shape and the offset of a tile operation stand, for those that have them.
_SHAPE = {
    "tile_load": 1, "tile_load_indexed": 4, "tile_zeros": 0, "tile_ones": 0, "tile_full": 0, "tile_empty": 0,
    "tile_randf": 0, "tile_randi": 0, "tile_broadcast": 1, "tile_reshape": 1, "tile_view": 2, "tile_from_thread": 0,
}  # fmt: skip
_OFFSET = {"tile_load": 2, "tile_store": 2, "tile_atomic_add": 2}


@dataclass(frozen=True, slots=True, eq=False)
class TileCall:
    """A call of a tile builtin."""

    name: str
    node: ast.Call
    site: Site

    def argument(self, word: str, place: int | None = None) -> ast.expr | None:
        for keyword in self.node.keywords:
            if keyword.arg == word:
                return keyword.value
        return self.node.args[place] if place is not None and place < len(self.node.args) else None

    @property
    def shape(self) -> ast.expr | None:
        """The ``shape`` argument, for the builtins that have one."""
        return self.argument("shape", _SHAPE[self.name]) if self.name in _SHAPE else None

    @property
    def offset(self) -> ast.expr | None:
        """The ``offset`` argument, for the builtins that have one."""
        return self.argument("offset", _OFFSET[self.name]) if self.name in _OFFSET else None


def items(function: DeviceFunction, node: ast.expr | None) -> list[ast.expr]:
    """The extents or offsets of an argument that may be a number, a tuple, or a name of one."""
    if node is None:
        return []
    literal = written(function, node)
    return list(literal.elts) if isinstance(literal, (ast.Tuple, ast.List)) else [node]


def written(function: DeviceFunction, node: ast.expr) -> ast.expr:
    """What a local name was given, if that is one expression; else the expression itself."""
    definition = function.flow.uses.get(node)
    if (
        definition is not None
        and definition.kind == "assign"
        and definition.index is None
        and definition.value is not None
    ):
        return definition.value
    return node


def tile_calls(function: DeviceFunction) -> list[TileCall]:
    """The tile builtins that a function calls, in the order of execution."""
    found: list[TileCall] | None = function.__dict__.get("_tile_calls")
    if found is None:
        found = []
        for call, site in function.calls():
            name = function.builtin(call)
            if name is not None and (name.startswith("tile") or name in TILE_OPS):
                found.append(TileCall(name, call, site))
        function.__dict__["_tile_calls"] = found
    return found


def cooperates(function: DeviceFunction, depth: int = 0) -> bool:
    """Whether a function holds an operation that every thread of the block must reach; its funcs count too."""
    found: bool | None = function.__dict__.get("_cooperates")
    if found is None:
        function.__dict__["_cooperates"] = False
        found = any(call.name in TILE_OPS for call in tile_calls(function)) or (
            depth < 8
            and any(
                cooperates(callee, depth + 1)
                for call, _ in function.calls()
                if (callee := function.callee(call)) is not None
            )
        )
        function.__dict__["_cooperates"] = found
    return found


def knows_block(function: DeviceFunction, depth: int = 0) -> bool:
    """Whether a function reckons with the block: a tile builtin or ``block_dim()``, itself or in what it calls.

    A call whose function is not found counts as if it did.
    """
    for call, _ in function.calls():
        name = function.builtin(call)
        if name is not None:
            if name.startswith("tile") or name == "block_dim" or name in TILE_OPS:
                return True
            continue
        callee = function.callee(call)
        if callee is None:
            if not _is_plain(function, call):
                return True
        elif callee.kind == "native" or (depth < 8 and callee is not function and knows_block(callee, depth + 1)):
            return True
    return False


def _is_plain(function: DeviceFunction, call: ast.Call) -> bool:
    """A struct's or type's constructor, or a cast."""
    return function.type_of(call) is not None


def lanes(function: DeviceFunction) -> set[Atom]:
    """The thread coordinates that differ within a block, as far as the file's launches tell.

    ``launch_tiled`` adds the lane behind its extents; a plain launch with a ``block_dim`` lays neighbours along
    its last extent.
    """
    found: set[Atom] | None = function.__dict__.get("_lanes")
    if found is None:
        found = set()
        arity = function.tid_arity
        if arity is not None:
            for launch in function.module.launches_of(function):
                axis = lane_axis(launch, arity)
                if axis is not None:
                    found.add(("tid", axis))
        function.__dict__["_lanes"] = found
    return found


def lane_axis(launch: Launch, arity: int) -> int | None:
    """The coordinate that differs between the threads of a block, if the kernel reads it."""
    if launch.tiled:
        return launch.rank if launch.rank is not None and arity == launch.rank + 1 else None
    if launch.argument("block_dim") is not None and launch.rank == arity:
        return arity - 1
    return None


def differs(form: Form, lane_atoms: set[Atom]) -> bool:
    """Whether a value may differ between the threads of a block."""
    return bool(lane_atoms and form.all_atoms() & lane_atoms)


def extents(function: DeviceFunction, node: ast.expr | None) -> list[int | None]:
    """The extents of a shape argument, each where it is constant."""
    found: list[int | None] = []
    for item in items(function, node):
        value = function.constant(item)
        if isinstance(value, tuple):
            found.extend(n if isinstance(n, int) else None for n in value)
        else:
            found.append(value if isinstance(value, int) and not isinstance(value, bool) else None)
    return found


def size_of(type: Type | None) -> int | None:
    """Bytes of a value, without padding."""
    match type:
        case Scalar():
            return max(type.bits // 8, 1)
        case Vector(length=int(n), scalar=Scalar() as scalar):
            return n * (size_of(scalar) or 0)
        case Matrix(rows=int(r), columns=int(c), scalar=Scalar() as scalar):
            return r * c * (size_of(scalar) or 0)
        case Quaternion(scalar=Scalar() as scalar):
            return 4 * (size_of(scalar) or 0)
        case Transformation(scalar=Scalar() as scalar):
            return 7 * (size_of(scalar) or 0)
    return None


def bytes_of(tile: Tile) -> int | None:
    """Bytes of a tile, if its shape and element are known."""
    element = size_of(tile.dtype)
    if element is None or tile.shape is None:
        return None
    total = element
    for extent in tile.shape:
        if extent is None:
            return None
        total *= extent
    return total


def array_argument(function: DeviceFunction, call: TileCall) -> Array | None:
    """The array that a load or store is of."""
    node = call.argument("a", 0)
    return function.array_type(node) if node is not None else None


_CEILINGS = ("ceil", "cdiv", "ceil_div", "div_up")


def rounds_up(form: Form) -> bool:
    """Whether a count is a division that is rounded up: ``(n + c - 1) // c``, ``-(-n // c)``, ``ceil(n / c)``."""
    for atom, coefficient in form.terms:
        if atom[0] == "floordiv":
            above, below = atom[1], atom[2]
            if coefficient == -1 and any(c < 0 for _, c in above.terms):
                return True
            # n + c - 1 over c: with c a constant only n and c - 1 are left.
            shifted = above.minus(below)
            if above.terms and (shifted.constant == -1 or above.constant == below.constant - 1 > 0):
                return True
        elif atom[0] == "call" and str(atom[1]).rpartition(".")[2] in _CEILINGS:
            return True
    return False
