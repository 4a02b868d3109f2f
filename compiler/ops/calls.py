"""Calls: Warp's builtins under their own keys, user functions, constructors, and their adjoints."""

from __future__ import annotations

from warp_audit.compiler.ir.expr import Braces, Call, Embedded, Expr, Name, Primal
from warp_audit.compiler.ir.op import Op
from warp_audit.compiler.ir.statement import Statement
from warp_audit.compiler.ops import builtins
from warp_audit.compiler.ops.kind import Kind, Scope

ADJ = "adj."


def _parts(statement: Statement) -> tuple[Expr | None, str, tuple[Expr, ...]] | None:
    """The place assigned, the name called and its arguments, when the statement is a call."""
    if statement.form == "assign" and statement.text != "=":
        return None
    call = statement.right
    if not isinstance(call, Call) or not isinstance(call.function, Name):
        return None
    return statement.left, call.function.name, call.arguments


def _base(function: str) -> str:
    """The function's name without template arguments."""
    return function.partition("<")[0]


class _CallKind(Kind, base=True):
    """A call whose trailing arguments may be results (``outs`` of them)."""

    def build(
        self, name: str, left: Expr | None, arguments: tuple[Expr, ...], scope: Scope, text: str, **attrs: str
    ) -> Op:
        if left is not None:
            return Op(self, name, (left,), arguments, attrs)
        outs = scope.outputs.get(text)
        if outs is None:
            outs = 0
            while outs < len(arguments):
                last = arguments[len(arguments) - 1 - outs]
                if not isinstance(last, Primal) or last.name in scope.written:
                    break
                outs += 1
            scope.outputs[text] = outs
        if not outs:
            return Op(self, name, (), arguments, attrs)
        split = len(arguments) - outs
        return Op(self, name, arguments[split:], arguments[:split], attrs | {"outs": str(outs)})

    def called(self, op: Op) -> str:
        """The function's name in C++."""
        raise NotImplementedError

    def write(self, op: Op) -> Statement:
        function = Name(self.called(op))
        if "outs" in op.attrs:
            return Statement("call", right=Call(function, op.operands + op.results))
        call = Call(function, op.operands)
        if op.results:
            return Statement("assign", "=", op.results[0], call)
        return Statement("call", right=call)

    def check(self, op: Op) -> str | None:
        outs = op.attrs.get("outs")
        if outs is not None and outs != str(len(op.results)):
            return f"outs is {outs} but the op has {len(op.results)} results"
        if outs is None and len(op.results) > 1:
            return "more than one result without outs"
        return None


class Builtin(_CallKind):
    """A call of a Warp builtin; the op's name is the builtin's key (``add``, ``load``, ``atomic_add``).

    ``fn`` is the native function where it is not the key's usual one (``wp::vec_t<3, wp::float32>``).
    """

    forms = ("assign", "call")
    example = "var_2 = wp::add(var_0, var_1);"
    rank = 40

    def owns(self, name: str) -> bool:
        return builtins.known(name)

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None:
            return None
        left, function, arguments = parts
        if _base(function) in scope.functions:
            return None
        key = builtins.key_of(_base(function))
        if key is None:
            return None
        attrs = {} if builtins.usual_native(key) == function else {"fn": function}
        return self.build(key, left, arguments, scope, statement.cpp(), **attrs)

    def called(self, op: Op) -> str:
        return op.attrs.get("fn") or builtins.usual_native(op.name)

    def affects(self, op: Op) -> frozenset[str]:
        return builtins.effects(op.name)


class AdjointBuiltin(Kind):
    """The adjoint of a builtin (``adj.add``): adds into the gradients of its operands."""

    forms = ("call",)
    effects = frozenset({"adjoint"})
    example = "wp::adj_add(var_0, var_1, adj_0, adj_1, adj_2);"
    rank = 41

    def owns(self, name: str) -> bool:
        return name.startswith(ADJ) and builtins.known(name[len(ADJ) :])

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None:
            return None
        _, function, arguments = parts
        base = _base(function)
        space, _, plain = base.rpartition("::")
        if not plain.startswith("adj_") or plain[4:] in scope.functions:
            return None
        forward = f"{space}::{plain[4:]}" if space else plain[4:]
        key = builtins.key_of(forward)
        if key is None:
            return None
        usual = _adjoint_name(builtins.usual_native(key))
        attrs = {} if usual == function else {"fn": function}
        return Op(self, ADJ + key, (), arguments, attrs)

    def write(self, op: Op) -> Statement:
        function = op.attrs.get("fn") or _adjoint_name(builtins.usual_native(op.name[len(ADJ) :]))
        return Statement("call", right=Call(Name(function), op.operands))

    def affects(self, op: Op) -> frozenset[str]:
        forward = builtins.effects(op.name[len(ADJ) :])
        return self.effects | (forward & {"memory", "block"})


def _adjoint_name(native: str) -> str:
    space, colons, plain = native.rpartition("::")
    return f"{space}{colons}adj_{plain}"


class CallFunction(_CallKind):
    """A call of a user function; ``fn`` is its symbol, ``replay`` marks the call of its replay."""

    name = "call"
    forms = ("assign", "call")
    effects = frozenset({"call"})
    example = "var_4 = area_0(var_1, var_2);"
    rank = 39

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None:
            return None
        left, function, arguments = parts
        if function in scope.functions:
            return self.build(self.name, left, arguments, scope, statement.cpp(), fn=function)
        if function.startswith("replay_") and function[7:] in scope.functions:
            text = statement.cpp().replace(function, function[7:], 1)
            return self.build(self.name, left, arguments, scope, text, fn=function[7:], replay="true")
        return None

    def called(self, op: Op) -> str:
        return ("replay_" if "replay" in op.attrs else "") + op.attrs["fn"]

    def check(self, op: Op) -> str | None:
        return super().check(op) if op.attrs.get("fn") else "call without fn"


class AdjointCall(Kind):
    """The adjoint of a call of a user function."""

    name = "adj.call"
    forms = ("call",)
    effects = frozenset({"adjoint", "call"})
    example = "adj_area_0(var_1, var_2, adj_1, adj_2, adj_4);"
    rank = 38

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None or not parts[1].startswith("adj_") or parts[1][4:] not in scope.functions:
            return None
        return Op(self, self.name, (), parts[2], {"fn": parts[1][4:]})

    def write(self, op: Op) -> Statement:
        return Statement("call", right=Call(Name("adj_" + op.attrs["fn"]), op.operands))

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("fn") else "adj.call without fn"


class Construct(Kind):
    """Makes a struct, a tuple or a native value; ``fn`` is the C++ type."""

    name = "construct"
    forms = ("assign",)
    example = "var_7 = Particle_1a2b3c4d(var_1, var_2);"
    rank = 37

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        right = statement.right
        if statement.text != "=" or statement.left is None:
            return None
        if isinstance(right, Braces) and right.ctype:
            return Op(self, self.name, (statement.left,), right.items, {"fn": right.ctype, "braces": "true"})
        parts = _parts(statement)
        if parts is None or not (parts[1] in scope.structs or _base(parts[1]) == "wp::tuple_t"):
            return None
        return Op(self, self.name, (statement.left,), parts[2], {"fn": parts[1]})

    def write(self, op: Op) -> Statement:
        function = op.attrs["fn"]
        made: Expr = Call(Name(function), op.operands)
        if "braces" in op.attrs:
            made = Braces(function, op.operands)
        return Statement("assign", "=", op.results[0], made)

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("fn") and len(op.results) == 1 else "construct needs fn and one result"


class AdjointConstruct(Kind):
    """The adjoint of making a struct or tuple."""

    name = "adj.construct"
    forms = ("call",)
    effects = frozenset({"adjoint"})
    example = "adj_Particle_1a2b3c4d(var_1, var_2, adj_1, adj_2, adj_7);"
    rank = 37

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None:
            return None
        _, function, arguments = parts
        if not (function[4:] in scope.structs or _base(function) == "wp::adj_tuple_t"):
            return None
        return Op(self, self.name, (), arguments, {"fn": function})

    def write(self, op: Op) -> Statement:
        return Statement("call", right=Call(Name(op.attrs["fn"]), op.operands))

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("fn") else "adj.construct without fn"


class ExternalCall(_CallKind):
    """A call of a native function that a library registered with Warp as a builtin of its own."""

    name = "external"
    forms = ("assign", "call")
    effects = frozenset({"call", "memory"})
    example = "var_1 = mylib::trace_ray(var_0);"
    rank = 90

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None:
            return None
        left, function, arguments = parts
        return self.build(self.name, left, arguments, scope, statement.cpp(), fn=function)

    def called(self, op: Op) -> str:
        return op.attrs["fn"]

    def check(self, op: Op) -> str | None:
        return super().check(op) if op.attrs.get("fn") else "external without fn"


_MACROS = {
    "WP_DET_SIDE_EFFECT_IF_ACTIVE": "det.side_effect",
    "WP_DET_SCATTER_OR_FALLBACK": "det.scatter",
    "WP_DET_COUNTER_OR_FALLBACK": "det.counter",
    "WP_DET_SLOT_STORE_IF_ACTIVE": "det.slot_store",
    "WP_DET_STORE_IF_ACTIVE": "det.store",
}
_MACRO_OF = {name: macro for macro, name in _MACROS.items()}


class Deterministic(Kind):
    """A write or atomic under Warp's deterministic mode: recorded and applied in a fixed order.

    The last operand is the statement that runs outside that mode.
    """

    forms = ("call",)
    effects = frozenset({"memory"})
    example = "WP_DET_SIDE_EFFECT_IF_ACTIVE(det_ctx, var_3 = wp::atomic_add(var_n, var_0, var_2););"
    rank = 36

    def owns(self, name: str) -> bool:
        return name in _MACRO_OF

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        parts = _parts(statement)
        if parts is None or parts[1] not in _MACROS:
            return None
        return Op(self, _MACROS[parts[1]], (), parts[2])

    def write(self, op: Op) -> Statement:
        return Statement("call", right=Call(Name(_MACRO_OF[op.name]), op.operands))

    def fallback(self, op: Op) -> Call | None:
        """The plain call that the op replaces, if it is one."""
        last = op.operands[-1] if op.operands else None
        if isinstance(last, Embedded) and isinstance(last.right, Call):
            return last.right
        return None
