"""Where each name's value comes from, and under which conditions each expression runs.

One walk over a function's body in the order of execution gives static single assignment: every read
of a name is tied to one ``Def``; where paths meet, a ``phi`` joins them. Two reads with the same ``Def``
see the same value, which is what makes comparing two index expressions sound. Attributes of names
(``self.x``, a struct's field) are followed as if they were names of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from warp_audit.audit.source.scopes import dotted
from warp_audit.audit.source.walk import children


@dataclass(slots=True, eq=False)
class Guard:
    """A condition that holds: ``test`` was true, or false if not ``positive``."""

    test: ast.expr
    positive: bool
    site: Site
    loop: bool = False
    """It is a ``while`` loop's condition, tested before each pass."""
    early: bool = False
    """It holds because the other branch left: ``if not ok: return``."""


@dataclass(slots=True, eq=False)
class Loop:
    """A loop around a statement."""

    node: ast.For | ast.While
    defs: tuple[Def, ...] = ()
    """What a ``for`` binds."""


@dataclass(slots=True, eq=False)
class Site:
    """Where an expression runs: in which statement, under which conditions, in which loops and ``with`` blocks.

    ``order`` counts statements as the text has them.
    """

    statement: ast.stmt
    order: int
    guards: tuple[Guard, ...]
    loops: tuple[Loop, ...]
    contexts: tuple[ast.withitem, ...]


@dataclass(slots=True, eq=False)
class Def:
    """One value of a name.

    ``kind`` is one of

    - ``parameter``;
    - ``assign``: ``value``, or its element ``index`` when a tuple is unpacked;
    - ``augment``: ``previous`` combined with ``value`` by the statement's operator;
    - ``component``: ``previous`` with one component or field changed to ``value``;
    - ``loop``: what a ``for`` binds, ``value`` is the iterable;
    - ``phi``: one of ``sources``; ``loop_phi`` at the head of a loop, where the last source comes from its end;
    - ``unassigned``: no value on this path;
    - ``free``: from outside the function;
    - ``other``: ``with``, ``except``, ``import``, a nested definition.
    """

    name: str
    kind: str
    node: ast.AST | None = None
    value: ast.expr | None = None
    index: int | None = None
    previous: Def | None = None
    sources: list[Def] = field(default_factory=list)
    site: Site | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} line {getattr(self.node, 'lineno', '?')}>"

    def origins(self) -> list[Def]:
        """The definitions behind the phis."""
        seen: set[int] = set()
        found: list[Def] = []
        stack = [self]
        while stack:
            one = stack.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if one.kind in ("phi", "loop_phi"):
                stack.extend(one.sources)
            else:
                found.append(one)
        return found


Env: TypeAlias = dict[str, Def]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class _Exits:
    """Environments that leave a loop's body early."""

    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class Flow:
    """The analysis of one body.

    Args:
        body: the statements.
        parameters: names bound at the start, with their nodes.
        composite: whether a component store makes a new value of the name (a vector), rather than
            writing through it (an array).
    """

    def __init__(
        self,
        body: list[ast.stmt],
        parameters: dict[str, ast.AST],
        composite: Callable[[Def], bool] = lambda _: False,
    ) -> None:
        self.uses: dict[ast.AST, Def] = {}
        """Each read of a name, or of a followed attribute, and its value."""
        self.sites: dict[ast.AST, Site] = {}
        """Where each expression node runs."""
        self.steps: dict[ast.stmt, Site] = {}
        """Where each statement runs; those that cannot be reached are not there."""
        self._names: list[ast.AST] = []
        self._attributes: list[ast.AST] = []
        self.nodes: dict[type, list[ast.AST]] = {ast.Name: self._names, ast.Attribute: self._attributes}
        """Expression nodes by their class, in the order of execution."""
        self.defs: list[Def] = []
        self.reads: dict[int, list[ast.AST]] = {}
        """Reads of a definition, by its ``id``; those through a phi are under the phi's."""
        self._composite = composite
        self._paths: set[str] = set()
        self._frees: Env = {}
        self._order = 0
        self._exits: list[_Exits] = []
        self._loops: tuple[Loop, ...] = ()
        self._contexts: tuple[ast.withitem, ...] = ()
        self._env: Env | None = {}
        for name, node in parameters.items():
            self._define(Def(name, "parameter", node))
        self._suite(body, ())
        self.end: Env | None = self._env
        """The values at the end, ``None`` if the end is not reached."""

    # What rules ask

    def of(self, kind: type[ast.AST]) -> list[ast.AST]:
        """The expression nodes of a class."""
        return self.nodes.get(kind, [])

    def reads_of(self, definition: Def) -> list[ast.AST]:
        """Every read that may see a definition, also through phis."""
        wanted = {id(definition)}
        grown = True
        while grown:
            grown = False
            for one in self.defs:
                if one.kind in ("phi", "loop_phi") and id(one) not in wanted:
                    if any(id(source) in wanted for source in one.sources):
                        wanted.add(id(one))
                        grown = True
        return [node for key in wanted for node in self.reads.get(key, [])]

    def uses_of(self, definition: Def) -> set[ast.AST]:
        """Every read that may see a definition, also where a component of it was changed in between."""
        wanted = {id(definition)}
        grown = True
        while grown:
            grown = False
            for one in self.defs:
                if id(one) not in wanted and any(
                    source is not None and id(source) in wanted for source in (one.previous, *one.sources)
                ):
                    wanted.add(id(one))
                    grown = True
        return {node for key in wanted for node in self.reads.get(key, [])}

    # Definitions

    def _define(self, definition: Def) -> None:
        self.defs.append(definition)
        env = self._env
        if env is None:
            return
        name = definition.name
        env[name] = definition
        if "." in name:
            self._paths.add(name)
        if self._paths:
            prefix = name + "."
            for path in self._paths:
                if path.startswith(prefix):
                    env.pop(path, None)

    def _use(self, name: str, node: ast.AST) -> Def:
        env = self._env
        found = env.get(name) if env is not None else None
        if found is None:
            found = self._frees.get(name)
            if found is None:
                found = self._frees[name] = Def(name, "free")
                self.defs.append(found)
        self.uses[node] = found
        reads = self.reads.get(id(found))
        if reads is None:
            self.reads[id(found)] = [node]
        else:
            reads.append(node)
        return found

    def _join(self, envs: list[Env | None], node: ast.AST) -> Env | None:
        reached = [env for env in envs if env is not None]
        if not reached:
            return None
        if len(reached) == 1:
            return dict(reached[0])
        if len(reached) == 2 and reached[0] == reached[1]:
            return dict(reached[0])
        names = set().union(*reached)
        joined: Env = {}
        for name in names:
            values = [env.get(name) for env in reached]
            first = values[0]
            if all(value is first for value in values) and first is not None:
                joined[name] = first
                continue
            if "." in name and None in values:
                continue
            sources: list[Def] = []
            for value in values:
                one = value or Def(name, "unassigned")
                if one not in sources:
                    sources.append(one)
            phi = Def(name, "phi", node, sources=sources)
            self.defs.append(phi)
            joined[name] = phi
        return joined

    # Statements

    def _site(self, node: ast.stmt, guards: tuple[Guard, ...]) -> Site:
        self._order += 1
        site = Site(node, self._order, guards, self._loops, self._contexts)
        self.steps[node] = site
        return site

    def _suite(self, body: list[ast.stmt], guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        """Run statements; give the guards that hold behind them, those of early exits too."""
        for statement in body:
            if self._env is None:
                break
            guards = self._statement(statement, guards)
        return guards

    def _statement(self, node: ast.stmt, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        site = self._site(node, guards)
        kind = node.__class__
        if kind is ast.Assign:
            self._expression(node.value, site)  # type: ignore[attr-defined]
            for target in node.targets:  # type: ignore[attr-defined]
                self._assign(target, node.value, None, site)  # type: ignore[attr-defined]
        elif kind is ast.Expr:
            self._expression(node.value, site)  # type: ignore[attr-defined]
        elif isinstance(node, ast.AugAssign):
            self._augment(node, site)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._expression(node.value, site)
                self._assign(node.target, node.value, None, site)
        elif isinstance(node, ast.If):
            return self._if(node, guards, site)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            return self._for(node, guards, site)  # type: ignore[arg-type]
        elif isinstance(node, ast.While):
            return self._while(node, guards, site)
        elif isinstance(node, ast.Return):
            if node.value is not None:
                self._expression(node.value, site)
            self._env = None
        elif isinstance(node, ast.Raise):
            for part in (node.exc, node.cause):
                if part is not None:
                    self._expression(part, site)
            self._env = None
        elif isinstance(node, (ast.Break, ast.Continue)):
            if self._exits and self._env is not None:
                exits = self._exits[-1]
                (exits.breaks if isinstance(node, ast.Break) else exits.continues).append(self._env)
            self._env = None
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self._expression(item.context_expr, site)
                if item.optional_vars is not None:
                    self._assign(item.optional_vars, item.context_expr, None, site, "other")
            outer = self._contexts
            self._contexts = (*outer, *node.items)
            guards = self._suite(node.body, guards)
            self._contexts = outer
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self._try(node, guards)  # type: ignore[arg-type]
        elif isinstance(node, ast.Match):
            self._expression(node.subject, site)
            before = self._env
            ends: list[Env | None] = [dict(before)] if before is not None else []
            for case in node.cases:
                self._env = dict(before) if before is not None else None
                self._suite(case.body, guards)
                ends.append(self._env)
            self._env = self._join(ends, node)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._define(Def(node.name, "other", node, site=site))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                if self._env is not None:
                    self._env.pop(name, None)  # found in the scope, as free
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._expression(target, site)
                if isinstance(target, ast.Name) and self._env is not None:
                    self._env.pop(target.id, None)
        elif isinstance(node, ast.Assert):
            self._expression(node.test, site)
        else:
            for child in children(node):
                if isinstance(child, ast.expr):
                    self._expression(child, site)
        return guards

    def _if(self, node: ast.If, guards: tuple[Guard, ...], site: Site) -> tuple[Guard, ...]:
        self._expression(node.test, site)
        before = self._env
        assert before is not None
        after_body = self._branch(node.body, before, (*guards, Guard(node.test, True, site)))
        after_else = self._branch(node.orelse, before, (*guards, Guard(node.test, False, site)))
        self._env = self._join([after_body, after_else], node)
        if after_body is None and after_else is not None:
            guards = (*guards, Guard(node.test, False, site, early=True))
        elif after_else is None and after_body is not None:
            guards = (*guards, Guard(node.test, True, site, early=True))
        return guards

    def _branch(self, body: list[ast.stmt], before: Env, guards: tuple[Guard, ...]) -> Env | None:
        """Run statements from given values; give the values at their end."""
        self._env = dict(before)
        self._suite(body, guards)
        return self._env

    def _enter_loop(self, body: list[ast.stmt], node: ast.AST) -> dict[str, Def]:
        """Give a phi to each name that the body may change."""
        phis: dict[str, Def] = {}
        env = self._env
        assert env is not None
        for name in _assigned(body):
            entry = env.get(name)
            if entry is None and "." in name:
                continue
            phi = Def(name, "loop_phi", node, sources=[entry or Def(name, "unassigned")])
            phis[name] = phi
        for name, phi in phis.items():
            self.defs.append(phi)
            env[name] = phi
            if "." in name:
                self._paths.add(name)
        return phis

    def _leave_loop(self, phis: dict[str, Def], exits: _Exits, node: ast.AST) -> None:
        """Feed the values of the body's end back into the phis."""
        back = self._join([self._env, *exits.continues], node)
        if back is not None:
            for name, phi in phis.items():
                end = back.get(name)
                if end is not None and end is not phi:
                    phi.sources.append(end)

    def _for(self, node: ast.For, guards: tuple[Guard, ...], site: Site) -> tuple[Guard, ...]:
        self._expression(node.iter, site)
        assert self._env is not None
        before = dict(self._env)
        phis = self._enter_loop(node.body, node)
        count = len(self.defs)
        self._assign(node.target, node.iter, None, site, "loop")
        outer = self._loops
        self._loops = (*outer, Loop(node, tuple(self.defs[count:])))
        self._exits.append(_Exits())
        self._suite(node.body, guards)
        exits = self._exits.pop()
        self._loops = outer
        self._leave_loop(phis, exits, node)
        finished = self._join([self._env, *exits.continues, before], node)
        self._env = finished
        if finished is not None:
            # Behind the loop, what the body changed is the head's value; the loop variable keeps its last one.
            for name, phi in phis.items():
                finished[name] = phi
        if node.orelse:
            self._suite(node.orelse, guards)
        self._env = self._join([self._env, *exits.breaks], node)
        return guards

    def _while(self, node: ast.While, guards: tuple[Guard, ...], site: Site) -> tuple[Guard, ...]:
        phis = self._enter_loop(node.body, node)
        outer = self._loops
        self._loops = (*outer, Loop(node))
        inside = Site(node, site.order, guards, self._loops, self._contexts)
        self._expression(node.test, inside)
        assert self._env is not None
        head = dict(self._env)
        self._exits.append(_Exits())
        self._suite(node.body, (*guards, Guard(node.test, True, inside, loop=True)))
        exits = self._exits.pop()
        self._loops = outer
        self._leave_loop(phis, exits, node)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self._env = None if endless else head
        if node.orelse and self._env is not None:
            self._suite(node.orelse, guards)
        only_condition = not exits.breaks and not endless
        self._env = self._join([self._env, *exits.breaks], node)
        if only_condition:
            guards = (*guards, Guard(node.test, False, inside, early=True))
        return guards

    def _try(self, node: ast.Try, guards: tuple[Guard, ...]) -> None:
        before = dict(self._env) if self._env is not None else {}
        self._suite(node.body, guards)
        if node.orelse and self._env is not None:
            self._suite(node.orelse, guards)
        ends = [self._env]
        for handler in node.handlers:
            # Any statement of the body may have been the last: join its names as possibly changed.
            self._env = self._join([dict(before), ends[0]], node) or dict(before)
            if handler.name:
                self._define(Def(handler.name, "other", handler))
            self._suite(handler.body, guards)
            ends.append(self._env)
        self._env = self._join(ends, node)
        if node.finalbody:
            dead = self._env is None
            if dead:
                self._env = dict(before)
            self._suite(node.finalbody, guards)
            if dead:
                self._env = None

    # Targets

    def _assign(
        self, target: ast.expr, value: ast.expr | None, index: int | None, site: Site, kind: str = "assign"
    ) -> None:
        if isinstance(target, ast.Name):
            self._define(Def(target.id, kind, target, value, index, site=site))
            self.sites[target] = site
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.sites[target] = site
            for number, item in enumerate(target.elts):
                if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and index is None:
                    self._assign(item, value.elts[number], None, site, kind)
                else:
                    self._assign(item, value, number, site, kind)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None, None, site, "other")
        else:
            self._store(target, value, site)
            path = dotted(target) if isinstance(target, ast.Attribute) else None
            if path is not None:
                self._define(Def(path, kind, target, value, index, site=site))

    def _store(self, target: ast.expr, value: ast.expr | None, site: Site) -> None:
        """A store through a subscript or an attribute; a local composite becomes another value by it."""
        self._note(target, site)
        base: ast.expr = target
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            if isinstance(base, ast.Subscript):
                self._expression(base.slice, site)
            base = base.value
            if not isinstance(base, ast.Name):
                self._note(base, site)
        if not isinstance(base, ast.Name):
            self._expression(base, site)
            return
        self._note(base, site)
        previous = self._use(base.id, base)
        if previous.kind != "free" and self._composite(previous):
            env = self._env
            kept = {k: v for k, v in (env or {}).items() if k.startswith(base.id + ".")}
            self._define(Def(base.id, "component", target, value, previous=previous, site=site))
            if env is not None:
                env.update(kept)

    def _augment(self, node: ast.AugAssign, site: Site) -> None:
        target = node.target
        self._expression(node.value, site)
        if isinstance(target, ast.Name):
            previous = self._use(target.id, target)
            self.sites[target] = site
            self._define(Def(target.id, "augment", node, node.value, previous=previous, site=site))
            return
        path = dotted(target) if isinstance(target, ast.Attribute) else None
        old = self._use(path, target) if path is not None and self._env is not None and path in self._env else None
        self._store(target, node.value, site)
        if path is not None:
            self._define(Def(path, "augment", node, node.value, previous=old, site=site))

    # Expressions

    def _note(self, node: ast.AST, site: Site) -> None:
        self.sites[node] = site
        kind = node.__class__
        found = self.nodes.get(kind)
        if found is None:
            self.nodes[kind] = [node]
        else:
            found.append(node)

    def _expression(self, node: ast.expr, site: Site) -> None:
        kind = node.__class__
        if kind is ast.Constant:
            self.sites[node] = site
            return
        if kind is ast.Name:
            self.sites[node] = site
            self._names.append(node)
            self._use(node.id, node)  # type: ignore[attr-defined]
            return
        if kind is ast.Attribute:
            if self._paths:
                path = dotted(node)
                if path in self._paths and self._env is not None and path in self._env:
                    self._use(path, node)
            value = node.value  # type: ignore[attr-defined]
            if value.__class__ is ast.Name:
                self.sites[value] = site
                self._names.append(value)
                self._use(value.id, value)
            else:
                self._expression(value, site)
            self.sites[node] = site
            self._attributes.append(node)
            return
        if kind is ast.Call:
            self._expression(node.func, site)  # type: ignore[attr-defined]
            for argument in node.args:  # type: ignore[attr-defined]
                self._expression(argument, site)
            for keyword in node.keywords:  # type: ignore[attr-defined]
                self._expression(keyword.value, site)
            self._note(node, site)
            return
        if kind is ast.BinOp:
            self._expression(node.left, site)  # type: ignore[attr-defined]
            self._expression(node.right, site)  # type: ignore[attr-defined]
            self._note(node, site)
            return
        if kind is ast.Subscript:
            self._expression(node.value, site)  # type: ignore[attr-defined]
            self._expression(node.slice, site)  # type: ignore[attr-defined]
            self._note(node, site)
            return
        if kind is ast.BoolOp:
            self._note(node, site)
            positive = isinstance(node.op, ast.And)  # type: ignore[attr-defined]
            for value in node.values:  # type: ignore[attr-defined]
                self._expression(value, site)
                site = _under(site, Guard(value, positive, site))
            return
        if kind is ast.IfExp:
            self._note(node, site)
            self._expression(node.test, site)  # type: ignore[attr-defined]
            self._expression(node.body, _under(site, Guard(node.test, True, site)))  # type: ignore[attr-defined]
            self._expression(node.orelse, _under(site, Guard(node.test, False, site)))  # type: ignore[attr-defined]
            return
        if kind is ast.Lambda:
            self._note(node, site)
            return
        if kind is ast.NamedExpr:
            self._note(node, site)
            self._expression(node.value, site)  # type: ignore[attr-defined]
            self._assign(node.target, node.value, None, site)  # type: ignore[attr-defined]
            return
        if kind in (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp):
            self._comprehension(node, site)
            return
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                for item in value:
                    if isinstance(item, ast.expr):
                        self._expression(item, site)
            elif isinstance(value, ast.expr):
                self._expression(value, site)
        self._note(node, site)

    def _comprehension(self, node: ast.expr, site: Site) -> None:
        env = self._env
        self._env = dict(env) if env is not None else None
        for generator in node.generators:  # type: ignore[attr-defined]
            self._expression(generator.iter, site)
            self._assign(generator.target, generator.iter, None, site, "loop")
            for test in generator.ifs:
                self._expression(test, site)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)  # type: ignore[attr-defined]
        for part in parts:
            self._expression(part, site)
        self._env = env
        self._note(node, site)


def _under(site: Site, guard: Guard) -> Site:
    return Site(site.statement, site.order, (*site.guards, guard), site.loops, site.contexts)


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Names, and attributes of names, that a body may give another value; each once, in order."""
    names: dict[str, None] = {}

    def target(node: ast.expr) -> None:
        if isinstance(node, ast.Name):
            names[node.id] = None
        elif isinstance(node, (ast.Tuple, ast.List)):
            for item in node.elts:
                target(item)
        elif isinstance(node, ast.Starred):
            target(node.value)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            path = dotted(node)
            if path is not None:
                names[path] = None
            base: ast.expr = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                names[base.id] = None

    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Assign):
            for one in node.targets:
                target(one)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.NamedExpr)):
            target(node.target)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            target(node.optional_vars)
        stack.extend(
            child
            for child in reversed(list(children(node)))
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.withitem, ast.match_case, ast.NamedExpr))
        )
    return list(names)
