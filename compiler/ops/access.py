"""Which memory each op touches: array, index operands, mode and space.

Places are followed back to the array that they lie in: ``load(%3)`` after
``%3 = address(%x, %0)`` reads ``%x[%0]``; an array taken from a struct's field is named
through the struct (``%state.grid``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from warp_audit.compiler.ir.expr import WIR, Call, Cast, Dual, Expr, Field, Group, Name, Primal, Subscript, Unary
from warp_audit.compiler.ir.op import Access, Op
from warp_audit.compiler.ir.types import Array, FixedArray, Native, Reference, Tile, Type
from warp_audit.compiler.ops.calls import ADJ, Deterministic

_INDEXED_CALLS = frozenset({"address", "index", "view"})
_NATIVE = ("mesh_", "bvh_", "hash_grid_", "volume_", "texture_", "tile_bvh_", "tile_mesh_")


@dataclass(slots=True)
class _Place:
    target: Expr
    index: tuple[Expr, ...] = ()
    space: str = "global"


@dataclass(slots=True)
class Places:
    """What each value of a function is an address or a copy of, learnt op by op."""

    types: dict[str, Type]
    parameters: frozenset[str]
    known: dict[str, _Place] = field(default_factory=dict)

    def learn(self, op: Op) -> None:
        """Remember what the op's result stands for."""
        if len(op.results) != 1 or not isinstance(op.results[0], Primal):
            return
        name = op.results[0].name
        place: _Place | None = None
        if op.name in ("address", "view") and op.operands:
            base = self.place(op.operands[0])
            place = _Place(base.target, base.index + op.operands[1:], base.space)
        elif op.name in ("field_ref", "element_ref", "move"):
            place = self.place(op.operands[0])
        elif op.name in ("load", "copy") and op.operands:
            found = self.place(op.operands[0])
            kind = self.types.get(name)
            if isinstance(kind, Array):
                place = _Place(found.target, found.index, "global")  # the descriptor was read; it points there
            elif isinstance(kind, (FixedArray, Native)):
                place = found
        if place is not None:
            self.known[name] = place

    def place(self, expression: Expr) -> _Place:
        """The array or variable that an expression names, with the index taken of it."""
        match expression:
            case Primal(name):
                if name in self.known:
                    return self.known[name]
                return _Place(expression, (), self.space(name))
            case Dual(name):
                inner = self.place(Primal(name))
                return _Place(_dual(inner.target), inner.index, inner.space)
            case Group(inner) | Unary("&" | "*", inner) | Cast(_, inner):
                return self.place(inner)
            case Field(base, name):
                inner = self.place(base)
                if inner.index:
                    return inner  # a component of an array's element
                space = inner.space
                if isinstance(base, Primal) and isinstance(self.types.get(base.name), Array):
                    space = "param"  # part of the descriptor, not of what it points at
                return _Place(Field(inner.target, name), (), space)
            case Call(Field(base, _), _) | Subscript(base, _):
                return self.place(base)
            case Call(Name(function), (first, *rest)) if function.rpartition("::")[2] in _INDEXED_CALLS:
                inner = self.place(first)
                return _Place(inner.target, inner.index + tuple(rest), inner.space)
        return _Place(expression, (), "local")

    def space(self, name: str) -> str:
        """The state space of what a value holds or points at."""
        kind = self.types.get(name)
        if isinstance(kind, Array):
            return "global"
        if isinstance(kind, Tile):
            return "shared" if kind.storage == "shared" else "local"
        return "param" if name in self.parameters else "local"

    def is_array(self, place: _Place) -> bool:
        """Whether the place lies in array memory and not in a thread's own variables."""
        return bool(place.index) or place.space in ("global", "shared")


def _is_reference(operand: Expr, places: Places) -> bool:
    return isinstance(operand, Primal) and isinstance(places.types.get(operand.name), Reference)


def _dual(target: Expr) -> Expr:
    match target:
        case Primal(name):
            return Dual(name)
        case Field(base, name, arrow):
            return Field(_dual(base), name, arrow)
    return target


def accesses(op: Op, places: Places) -> tuple[Access, ...]:
    """What the op reads and writes in memory; empty for what stays in a thread's registers."""
    name, operands = op.name, op.operands
    if isinstance(op.kind, Deterministic):
        call = op.kind.fallback(op)
        if call is None or not call.arguments:
            return ()
        place = places.place(call.arguments[0])
        mode = "atomic" if "atomic" in call.function.text(WIR) else "write"
        return (Access(mode, place.space, place.target, place.index or tuple(call.arguments[1:-1])),)
    if name == "set_slot":
        place = places.place(op.results[0])
        return (Access("write", place.space, place.target, place.index),)
    if not operands:
        return ()
    if name.startswith(ADJ):
        return tuple(_adjoint(name[len(ADJ) :], operands, places))
    if name == "load" or (name == "copy" and _is_reference(operands[0], places)):
        place = places.place(operands[0])
        return (Access("read", place.space, place.target, place.index),)
    if name == "store":
        place = places.place(operands[0])
        return (Access("write", place.space, place.target, place.index),)
    if name == "array_store":
        place = places.place(operands[0])
        return (Access("write", place.space, place.target, place.index + operands[1:-1]),)
    if name.startswith("array_") and name.endswith("_slot"):
        place = places.place(operands[0])
        return (Access("atomic", place.space, place.target, place.index + operands[3:]),)
    if name.startswith("atomic_"):
        place = places.place(operands[0])
        values = 2 if name == "atomic_cas" else 1
        return (Access("atomic", place.space, place.target, place.index + operands[1:-values]),)
    return tuple(_collective(name, operands, op, places))


def _collective(name: str, operands: tuple[Expr, ...], op: Op, places: Places) -> Iterable[Access]:
    if name.startswith(_NATIVE):
        mode = "write" if "_store" in name else "read"
        yield Access(mode, "native", places.place(operands[0]).target)
        return
    if not name.startswith("tile_"):
        return
    for operand in operands:
        if not isinstance(operand, Primal):
            continue
        place = places.place(operand)
        kind = places.types.get(operand.name)
        if isinstance(kind, Array) or (place.index and not isinstance(kind, Tile)):
            mode = "atomic" if "atomic" in name else "write" if "_store" in name else "read"
            yield Access(mode, place.space, place.target, place.index)
        elif isinstance(kind, Tile) and kind.storage == "shared":
            yield Access("update" if "inplace" in name else "read", "shared", place.target)
    for result in op.results:
        if isinstance(result, Primal):
            kind = places.types.get(result.name)
            if isinstance(kind, Tile) and kind.storage == "shared" and kind.owner:
                yield Access("write", "shared", result)


def _adjoint(key: str, operands: tuple[Expr, ...], places: Places) -> Iterable[Access]:
    """Adjoints of reads add into the array's gradient; adjoints of writes take it back."""
    duals = [o for o in operands if isinstance(o, Dual)]
    if key == "address" and duals:
        place = places.place(operands[0])
        split = operands.index(duals[0])
        yield Access("atomic", place.space, _dual(place.target), place.index + operands[1:split])
    elif key in ("array_store", "store") or key.startswith("atomic_") or key.endswith("_slot"):
        place = places.place(operands[0])
        if not places.is_array(place):
            return
        split = next((i for i, o in enumerate(operands) if isinstance(o, Dual)), len(operands))
        index = place.index
        if not key.endswith("_slot") and key != "store":
            index += operands[1 : split - (2 if key == "atomic_cas" else 1)]
        mode = "update" if key in ("array_store", "store", "array_store_slot") else "read"
        yield Access(mode, place.space, _dual(place.target), index)
    elif key in ("tile_load", "tile_store", "tile_atomic_add"):
        for operand in operands:
            if isinstance(operand, Primal) and isinstance(places.types.get(operand.name), Array):
                place = places.place(operand)
                yield Access("atomic" if key == "tile_load" else "read", "global", _dual(place.target), place.index)
                break


def annotate(ops: Iterable[Op], places: Places) -> None:
    """Set the access of every op of a function, in text order."""
    for op in ops:
        op.access = accesses(op, places)
        places.learn(op)
