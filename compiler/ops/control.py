"""Control flow: structured regions, loops by labels, returns, and the jumps of the adjoint."""

from __future__ import annotations

from warp_audit.compiler.ir.op import Op
from warp_audit.compiler.ir.statement import Statement
from warp_audit.compiler.ops.kind import Kind, Scope

CONTROL = frozenset({"control"})


class If(Kind):
    """Runs its body when the condition holds. An ``else`` is a second ``if`` on the negation."""

    name = "if"
    forms = ("open",)
    effects = CONTROL
    example = "if (var_3) {"

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        assert statement.right is not None
        return Op(self, self.name, operands=(statement.right,), body=[])

    def write(self, op: Op) -> Statement:
        return Statement("open", right=op.operands[0])


class Loop(Kind):
    """A loop: its body runs until an ``exit_if`` or ``break`` of its label leaves it.

    The label says what it was in Python: ``for_N`` or ``while_N``.
    """

    name = "loop"
    forms = ("label",)
    effects = CONTROL
    example = "start_for_0:;"
    rank = 10

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        if not statement.text.startswith("start_"):
            return None
        return Op(self, self.name, attrs={"label": statement.text[6:]}, body=[])

    def write(self, op: Op) -> Statement:
        return Statement("label", f"start_{op.attrs['label']}")

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("label") else "a loop without a label"


class ExitIf(Kind):
    """Leaves the loop of its label when the condition holds."""

    name = "exit_if"
    forms = ("exit",)
    effects = CONTROL
    example = "if (iter_cmp(var_4) == 0) goto end_for_0;"

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        assert statement.right is not None
        if not statement.text.startswith("end_"):
            return None
        return Op(self, self.name, operands=(statement.right,), attrs={"label": statement.text[4:]})

    def write(self, op: Op) -> Statement:
        return Statement("exit", f"end_{op.attrs['label']}", right=op.operands[0])


class _Jump(Kind, base=True):
    prefix = ""

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        if not statement.text.startswith(self.prefix):
            return None
        return Op(self, self.name, attrs={"label": statement.text[len(self.prefix) :]})

    def write(self, op: Op) -> Statement:
        return Statement(self.forms[0], self.prefix + op.attrs["label"])

    def check(self, op: Op) -> str | None:
        return None if op.attrs.get("label") else f"{self.name} without a label"


class Break(_Jump):
    """Leaves the loop of its label."""

    name = "break"
    forms = ("goto",)
    effects = CONTROL
    example = "goto end_for_0;"
    prefix = "end_"


class Continue(_Jump):
    """Goes on with the next iteration of the loop of its label."""

    name = "continue"
    forms = ("goto",)
    effects = CONTROL
    example = "goto start_for_0;"
    prefix = "start_"


class ReplayReturn(_Jump):
    """Where the forward pass returned early: the replay jumps to that return's adjoint."""

    name = "replay_return"
    forms = ("goto",)
    effects = CONTROL
    example = "goto label0;"
    prefix = "label"


class AdjointEntry(_Jump):
    """Where the reverse pass begins after the early return of its label."""

    name = "adjoint_entry"
    forms = ("label",)
    effects = CONTROL
    example = "label0:;"
    prefix = "label"


class Return(Kind):
    """Ends the function, with a value in a function that has one result.

    In a kernel with a grid-stride loop the generated statement is ``continue;``: the thread
    goes on with its next index.
    """

    name = "return"
    forms = ("return", "continue")
    effects = CONTROL
    example = "return var_2;"

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        return Op(self, self.name, operands=(statement.right,) if statement.right else ())

    def write(self, op: Op) -> Statement:
        return Statement("return", right=op.operands[0] if op.operands else None)


class Assert(Kind):
    """A Python ``assert``; its text is kept. Compiled in debug mode alone."""

    name = "assert"
    forms = ("assert",)
    effects = frozenset({"trap"})
    example = 'assert(((void)"assert x > 0.0",var_2));'

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        assert statement.right is not None
        return Op(self, self.name, operands=(statement.right,), attrs={"text": statement.text})

    def write(self, op: Op) -> Statement:
        return Statement("assert", op.attrs["text"], right=op.operands[0])


class Note(Kind):
    """A comment that Warp writes: the Python line that follows, or a statement left out of a replay."""

    name = "note"
    forms = ("note",)
    example = "// i = wp.tid()       <L 12>"

    def read(self, statement: Statement, scope: Scope) -> Op | None:
        return Op(self, self.name, attrs={"text": statement.text})

    def write(self, op: Op) -> Statement:
        return Statement("note", op.attrs["text"])
