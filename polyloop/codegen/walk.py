"""The walker: loop tree to C tree.

The invariant that makes everything safe: the context only ever receives rows that emitted code enforces, and each
statement tests every row of its exact domain that the context does not imply.  Bounds and hoisted conditions may be
larger than the domain; that costs a test further inside, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import islpy as isl
import numpy as np

from polyloop.codegen.atomics import atomic_update
from polyloop.codegen.bounds import Bound, Bounds, bounds_of, limit_value, minimal, stride_of
from polyloop.codegen.branches import Guarded, branches
from polyloop.codegen.c_ast import Assign, Block, Call, Declare, For, If, Node, Sync, Verbatim
from polyloop.codegen.combine import updated
from polyloop.codegen.context import Context
from polyloop.codegen.expressions import Expressions
from polyloop.codegen.linear import condition_text, form_text
from polyloop.codegen.parts import constant_names
from polyloop.codegen.rows import Piece, hull, negated, pieces_of, tightened
from polyloop.codegen.scope import Scope, Text
from polyloop.codegen.tiles import Tile, full_tile, places
from polyloop.codegen.verbatim import verbatim
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import CText, Expression, array_name, targets_of
from polyloop.kernel.tags import Unroll, UnrollHint
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, has_barrier, runs
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.affine import Affine
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.plan import Schedule, Statement

__all__ = ["Walker"]

_NONE: Final = frozenset[str]()
class Walker:
    """Generates the body of one function.

    Parameters
    ----------
    axes
        Axes whose values are known from the start; empty where axes are loops.
    extents
        Threads along each local axis.
    """

    def __init__(
        self, scope: Scope, schedule: Schedule, axes: Sequence[str], extents: Mapping[str, int]
    ) -> None:
        self.scope = scope
        self.schedule = schedule
        self.statements = schedule.statements
        self.extents = extents
        self.axes = frozenset(axes)
        self.threads = frozenset(axis for axis in axes if axis[0] == "l")
        self.bounds = scope.bounds
        self.parameters = frozenset(schedule.parameters)
        self.expressions = Expressions(scope)
        self.may_peel = True
        self.constants = constant_names(self.statements.values(), scope.split)
        self.assignments: dict[tuple[str | int | None, ...], Assign | Call | Verbatim] = {}

    def run(self, tree: Tree, context: Context) -> Block:
        """Return the code of *tree*, with full blocks apart from partial ones where that pays."""
        groups = frozenset(axis for axis in self.axes if axis[0] == "g")
        if groups:
            tile = Tile(groups, groups, has_barrier(tree))
            full = self._full(tile, tree, context)
            if full:
                clean = self.block(tree, context.add(full), self.axes)
                self.may_peel = False
                partial = self.block(tree, context, self.axes)
                self.may_peel = True
                return (If(condition_text(full, self.scope, context).text, clean, partial),)
        return self.block(tree, context, self.axes)

    def _full(self, tile: Tile, tree: Tree, context: Context) -> list[Affine]:
        return full_tile(
            tile, tuple(places(tree, self.statements)), context, self.parameters, self.scope.divisibility
        )

    # {{{ sequences and conditions

    def block(self, nodes: Tree, context: Context, known: frozenset[str]) -> Block:
        """Return the code of *nodes*; *known* are the variables with a value here."""
        guard = self._guard(nodes, context, known)
        inside = context.add(guard)
        live = [node for node in nodes if not isinstance(node, Barrier)]
        if len(live) <= 1:
            body = tuple(chain.from_iterable(self._node(node, inside, known) for node in nodes))
        else:
            body = self._sequence(nodes, inside, known)
        return self._guarded(guard, body, context)

    def _sequence(self, nodes: Tree, context: Context, known: frozenset[str]) -> Block:
        """Return the code of several nodes; neighbours under the same condition share it."""
        out: list[Node] = []
        shared: list[Affine] = []
        pending: list[Node] = []
        leaves: list[Statement] = []
        for node in nodes:
            guard = [] if isinstance(node, Barrier) else self._guard((node,), context, known)
            if guard != shared:
                pending += self._leaves(leaves, context.add(shared))
                out += self._guarded(shared, tuple(pending), context)
                shared, pending, leaves = guard, [], []
            if isinstance(node, Run):
                leaves.append(self.statements[node.name])
            else:
                pending += self._leaves(leaves, context.add(guard))
                pending += self._node(node, context.add(guard), known)
                leaves = []
            known |= self._assigned(node)
        pending += self._leaves(leaves, context.add(shared))
        out += self._guarded(shared, tuple(pending), context)
        return tuple(out)

    def _leaves(self, statements: Sequence[Statement], context: Context) -> Block:
        """Return neighbouring statements; those under the same data-dependent condition share it."""
        entries: list[Guarded] = []
        for statement in statements:
            rows = self._unknown_rows(statement, context)
            if statement.predicates and len(rows) == 1 and not rows[0]:
                body: Block = (self._assign(statement, context),)
                writes = frozenset(map(array_name, targets_of(statement.lhs)))
                entries.append(Guarded(statement.predicates, body, writes))
            else:
                entries.append(Guarded((), self._leaf(statement, context), frozenset()))
        return branches(entries, lambda condition: self._condition(condition, context))

    def _condition(self, condition: Expression, context: Context) -> tuple[Text, frozenset[str]]:
        self.expressions.reads = set()
        text = self.expressions.value(condition, context)
        return text, frozenset(self.expressions.reads)

    def _guarded(self, rows: Sequence[Affine], body: Block, context: Context) -> Block:
        if not rows or not body:
            return body
        condition = condition_text(rows, self.scope, context).text
        reads = self._reads(rows)
        if len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
            inner = body[0]
            own = f"({inner.condition})" if " || " in inner.condition or " ? " in inner.condition else inner.condition
            return (If(f"{condition} && {own}", inner.body, (), inner.reads | reads),)
        return (If(condition, body, (), reads),)

    def _reads(self, rows: Iterable[Affine]) -> frozenset[str]:
        """Return the bound variables in *rows*."""
        return self.bounds.intersection(chain.from_iterable(row.names() for row in rows)) if self.bounds else _NONE

    def _assigned(self, node: Loop | Run | Barrier) -> frozenset[str]:
        """Return the bound variables that have their values after *node*.

        After a loop over threads those that are kept once per thread do.
        """
        if isinstance(node, Barrier) or not self.bounds:
            return _NONE
        written = self.bounds.intersection(
            array_name(target) for name in runs((node,)) for target in targets_of(self.statements[name].lhs)
        )
        return written if isinstance(node, Run) else written & self.scope.expanded.keys()

    def _guard(self, nodes: Tree, context: Context, known: frozenset[str]) -> list[Affine]:
        """Return what all statements of *nodes* need and *context* does not imply."""
        names = tuple(runs(nodes))
        if not names:
            return []
        keep = self._visible(nodes, known)
        common = hull(chain.from_iterable(self._pieces(name, keep) for name in names))
        rows = [row for terms, const in common.items() if not context.implies(row := Affine(terms, const))]
        if rows and all(isinstance(node, Loop) for node in nodes):
            rows = [row for row in rows if not self._enforced(row, nodes, context, known)]
        return minimal(rows, context)

    def _enforced(self, row: Affine, nodes: Tree, context: Context, known: frozenset[str]) -> bool:
        """Return whether the bounds of the loops *nodes* imply *row* anyway."""
        for node in nodes:
            if not isinstance(node, Loop) or isinstance(self.schedule.loop_tags.get(node.iname), Unroll):
                return False
            bounds = self._find_bounds(node, context, known)
            if bounds is None:
                return False
            inside = context.add(bounds.facts)
            if inside.implies(row):
                continue
            if not self._enforced(row, node.body, inside, known | {node.iname}):
                return False
        return bool(nodes)

    def _visible(self, nodes: Tree, known: frozenset[str]) -> frozenset[str]:
        """Return the variables that conditions around *nodes* may depend on.

        Around a barrier these are neither threads nor bound variables, which may differ from thread to thread.
        """
        if has_barrier(nodes):
            return known - self.threads - self.bounds
        expanded = self.scope.expanded
        return known - {name for name in known & expanded.keys() if not known.issuperset(expanded[name])}

    def _pieces(self, name: str, keep: frozenset[str]) -> tuple[Piece, ...]:
        return pieces_of(self.statements[name], keep, self.scope.divisibility)

    def _node(self, node: Loop | Run | Barrier, context: Context, known: frozenset[str]) -> Block:
        match node:
            case Loop():
                return self._loop(node, context, known)
            case Run(name):
                return self._leaf(self.statements[name], context)
            case Barrier(scope):
                language = self.scope.language
                text = language.warp_barrier if scope is BarrierScope.WARP else language.block_barrier
                return (Sync(text),)

    def _leaf(self, statement: Statement, context: Context) -> Block:
        """Return a statement under every condition that is not known to hold."""
        cases = self._unknown_rows(statement, context)
        self.scope.fast = statement.fast
        self.expressions.reads = set()
        inside = context.add(cases[0]) if len(cases) == 1 else context
        conditions = []
        if all(cases):
            conditions.append(self._union_text(cases, context))
        conditions += [self.expressions.value(part, inside) for part in statement.predicates]
        reads = frozenset(self.expressions.reads).union(self._reads(chain.from_iterable(cases)))
        assign = self._assign(statement, inside)
        if not conditions:
            return (assign,)
        return (If(_conjunction(conditions), (assign,), (), reads),)

    def _unknown_rows(self, statement: Statement, context: Context) -> list[list[Affine]]:
        """Return, for each piece of the domain of *statement*, the rows that *context* does not imply."""
        return [
            [row for terms, const in piece.items() if not context.implies(row := Affine(terms, const))]
            for piece in self._pieces(statement.name, frozenset(statement.dims))
        ]

    def _union_text(self, cases: Sequence[Sequence[Affine]], context: Context) -> Text:
        """Return that at least one of *cases* holds."""
        common = [row for row in cases[0] if all(row in case for case in cases)]
        texts = [condition_text(common, self.scope, context)] if common else []
        rests = [[row for row in case if row not in common] for case in cases]
        if all(rests):
            inside = context.add(common)
            parts = [condition_text(rest, self.scope, inside) for rest in rests]
            if len(parts) == 1:
                texts.append(parts[0])
            else:
                texts.append(Text(" || ".join(part.within(4) for part in parts), 2))
        return texts[0] if len(texts) == 1 else Text(_conjunction(texts), 3)

    def _assign(self, statement: Statement, context: Context) -> Assign | Call | Verbatim:
        """Return the assignment of a statement; the copies of one in full and partial tiles are often the same."""
        values = self.scope.values
        key = (statement.name, *(values.get(dim) for dim in statement.dims))
        found = self.assignments.get(key)
        if found is None:
            self.expressions.used_context = False
            found = self._new_assign(statement, context)
            if not self.expressions.used_context:
                self.assignments[key] = found
        return found

    def _new_assign(self, statement: Statement, context: Context) -> Assign | Call | Verbatim:
        if statement.atomic is not None:
            return atomic_update(self.expressions, statement, context)
        if isinstance(statement.rhs, CText):
            return verbatim(self.expressions, statement, context)
        self.expressions.reads = set()
        target, name, dtype = self.expressions.target(statement.lhs, context)
        update = statement.update
        if update is None:
            operator, value = "=", self.expressions.stored(statement.rhs, context, dtype).text
        else:
            operator, value = updated(self.expressions, update, (target, dtype), statement.rhs, context)
            if name in self.scope.storage:
                self.expressions.reads.add(name)
        writes = name if name in self.scope.storage else None
        reads = frozenset(self.expressions.reads)
        is_constant = update is None and isinstance(statement.rhs, int | float | np.generic)
        return Assign(target, operator, value, statement.instruction, writes, reads, "", is_constant)

    # }}}
    # {{{ loops

    def _bounds(self, node: Loop, context: Context, known: frozenset[str]) -> Bounds:
        """Return the bounds of a loop over all statements that it numbers."""
        bounds = self._find_bounds(node, context, known)
        if bounds is None:
            raise self.scope.error(self._no_bounds(node))
        return bounds

    def _no_bounds(self, node: Loop) -> Diagnostic:
        name = node.iname
        statements = [self.statements[s] for s in runs(node.body)]
        notes = tuple(f"domain of '{s.name}': {s.domain}" for s in statements)
        data = sorted({bound for s in statements if name in s.dims for bound in s.bounds})
        if data and has_barrier(node.body):
            return Diagnostic(
                "unbounded-loop",
                f"loop '{name}' holds a barrier, and data decides how long it is",
                (f"its bounds use {', '.join(repr(d) for d in data)}, which may differ from thread to thread", *notes),
                ("take what other threads need out of the loop, or bound it by a parameter as well",),
            )
        hint = f"bound '{name}' from below and above in the domain of the kernel"
        return Diagnostic("unbounded-loop", f"loop '{name}' has no bounds", notes, (hint,))

    def _find_bounds(self, node: Loop, context: Context, known: frozenset[str]) -> Bounds | None:
        name = node.iname
        keep = self._visible(node.body, known | {name})
        names = tuple(runs(node.body))
        pieces: list[Piece] = []
        for statement in names:
            if name in self.statements[statement].dims:
                pieces += self._pieces(statement, keep)
            elif name in self.extents:
                pieces.append({((name, 1),): 0, ((name, -1),): self.extents[name] - 1})
        assert pieces, f"no statement in loop '{name}' runs over it"
        stride = stride_of(name, (self.statements[s] for s in names), pieces, keep, self.scope.divisibility)
        return bounds_of(name, pieces, context, stride)

    def _loop(self, node: Loop, context: Context, known: frozenset[str]) -> Block:
        name = node.iname
        bounds = self._bounds(node, context, known)
        inside = context.add(bounds.facts)
        if bounds.stride is not None:
            inside = inside.add([bounds.stride.row(name)])
        inner = known | {name}
        constants = bounds.constants()
        if constants is not None and constants[1] - constants[0] <= 1:
            return self._single(node, constants[0], context, inner) if constants[1] > constants[0] else ()
        self._name(name, bounds, inside)
        tag = self.schedule.loop_tags.get(name)
        if isinstance(tag, Unroll):
            return self._unrolled(node, bounds, context, inside, inner)
        front, back = self.schedule.slabs.get(name, (0, 0))
        if (front or back) and bounds.stride is None:
            return self._slabs(node, bounds, (front, back), context, inner)
        reads = self._reads(bounds.forms())
        if name in self.schedule.tile_inames and self.may_peel and bounds.stride is None and not reads:
            full = self._full_iterations(node, inside, known)
            if full:
                return self._peeled(node, bounds, full, context, inner)
        pragma = self.scope.language.unroll_hint if isinstance(tag, UnrollHint) else ""
        step = 1 if bounds.stride is None else bounds.stride.step
        start, test = self._lower_text(bounds.lower, context), self._test(name, bounds.upper, context)
        return self._for(node, start, test, inside, inner, pragma, step, reads)

    def _name(self, iname: str, bounds: Bounds, inside: Context) -> None:
        """Choose the C name of a loop variable, and note how large it can become."""
        if iname not in self.scope.values:
            self.scope.values[iname] = self.scope.names.fresh(iname)
        _, high = inside.interval(iname)
        upper = bounds.upper if high is None else ((Affine((), high + 1),),)
        self.scope.magnitudes.define(iname, (*upper, *bounds.lower))

    def _single(self, node: Loop, value: int, context: Context, inner: frozenset[str]) -> Block:
        """Return the body of a loop that runs once: its variable becomes a constant."""
        name = node.iname
        saved = self.scope.values.get(name)
        self.scope.values[name] = value
        self.scope.magnitudes.define(name, ((Affine((), value),),))
        rows = [Affine(((name, 1),), -value), Affine(((name, -1),), value)]
        body = self.block(node.body, context.add(rows), inner)
        if saved is None:
            del self.scope.values[name]
        else:
            self.scope.values[name] = saved
        return body

    def _for(
        self, node: Loop, start: str, test: str, inside: Context, inner: frozenset[str], pragma: str = "",
        step: int = 1, reads: frozenset[str] = _NONE,
    ) -> Block:  # fmt: skip
        body = self.block(node.body, inside, inner)
        if not body:
            return ()
        var = str(self.scope.values[node.iname])
        axis = node.iname[0] if node.iname[1:2] == "." else ""
        return (For(self.scope.index_type, var, start, test, body, step, pragma, axis, reads),)

    def _unrolled(
        self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]
    ) -> Block:
        """Return a loop with a constant trip count; what the constants do not say becomes conditions inside."""
        name = node.iname
        low, high = inside.interval(name)
        if low is None or high is None:
            low, high = self._static_box(node)
        if low is None or high is None:
            lower, upper = self._lower_text(bounds.lower, context), self._upper_text(bounds.upper, context)
            raise self.scope.error(
                Diagnostic(
                    "unroll-not-constant",
                    f"loop '{name}' cannot be unrolled: its trip count is not constant",
                    notes=(f"it runs from {lower} to below {upper}",),
                    hints=("split it by a constant and unroll the inner loop, or tag it 'unr_hint'",),
                )
            )
        if high < low:
            return ()
        if name in self.constants:
            values = range(low, high + 1)
            return tuple(chain.from_iterable(self._instance(node, value, context, inner) for value in values))
        step = 1
        rows = [Affine(((name, 1),), -low), Affine(((name, -1),), high)]
        if bounds.stride is not None and not bounds.stride.offset.terms:
            step = bounds.stride.step
            low += (bounds.stride.offset.const - low) % step
            rows.append(bounds.stride.row(name))
        count = (high - low) // step + 1
        pragma = self.scope.language.unroll.format(count=count)
        return self._for(node, str(low), self._below(name, high + 1), context.add(rows), inner, pragma, step)

    def _instance(self, node: Loop, value: int, context: Context, inner: frozenset[str]) -> Block:
        """Return the body of a loop for one value of its variable, without statements that have no such instance."""
        dropped = {
            name for name in runs(node.body)
            if node.iname in (dims := self.statements[name].dims)
            and self.statements[name].domain.fix_val(isl.dim_type.set, dims.index(node.iname), value).is_empty()
        }  # fmt: skip
        body = _without(node.body, dropped)
        return self._single(Loop(node.iname, body), value, context, inner) if body else ()

    def _static_box(self, node: Loop) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of a loop's iname over all its statements and parameters."""
        low: int | None = None
        high: int | None = None
        for name in runs(node.body):
            statement = self.statements[name]
            if node.iname in statement.dims:
                least, most = constant_bounds(statement.domain, statement.dims.index(node.iname))
                if least is None or most is None:
                    return None, None
                low, high = min(least, least if low is None else low), max(most, most if high is None else high)
        return low, high

    def _slabs(
        self, node: Loop, bounds: Bounds, counts: tuple[int, int], context: Context, inner: frozenset[str]
    ) -> Block:
        """Return a loop with iterations split off at its ends."""
        name = node.iname
        front, back = counts
        start, limit = self._lower_text(bounds.lower, context), self._upper_text(bounds.upper, context)
        first = self._shifted(bounds.lower, front, context, self._lower_text)
        last = self._shifted(bounds.upper, -back, context, self._upper_text)
        middle = [_strengthened(row, name, front) for row in bounds.lower_rows]
        middle += [_strengthened(row, name, back) for row in bounds.upper_rows]
        reads = self._reads(bounds.forms())
        out = self._for(node, first, self._below(name, last), context.add(middle), inner, reads=reads)
        saved, self.may_peel = self.may_peel, False
        outside = context.add(bounds.facts)
        if front:
            end = self.scope.index_extreme("min", (first, limit))
            out = self._for(node, start, self._below(name, end), outside, inner, reads=reads) + out
        if back:
            begin = self.scope.index_extreme("max", (first, last))
            out += self._for(node, begin, self._below(name, limit), outside, inner, reads=reads)
        self.may_peel = saved
        return out

    def _shifted(
        self, bound: Bound, distance: int, context: Context, show: Callable[[Bound, Context], str]
    ) -> str:
        return show(tuple(tuple(form.add(Affine((), distance)) for form in forms) for forms in bound), context)

    def _full_iterations(self, node: Loop, inside: Context, known: frozenset[str]) -> list[Affine]:
        """Return upper bounds on a tile loop below which every tile is full; empty if that does not pay."""
        name = node.iname
        decided = (known | {name}) - self.threads - self.bounds
        tile = Tile(frozenset({name}), decided, has_barrier(node.body))
        rows = self._full(tile, (node,), inside)
        return [row for row in rows if row.coefficient(name) < 0]

    def _peeled(
        self, node: Loop, bounds: Bounds, full: Sequence[Affine], context: Context, inner: frozenset[str]
    ) -> Block:
        """Return a tile loop as full tiles, then the others."""
        name = node.iname
        start, limit = self._lower_text(bounds.lower, context), self._upper_text(bounds.upper, context)
        clean = context.add(bounds.facts).add(full)
        within = context.add(bounds.lower_rows).add(full)
        bound = [limit_value(row, name) for row in full]
        bound += [limit_value(row, name) for row in bounds.upper_rows if not within.implies(row)]
        if not bounds.upper_rows:
            middle = self.scope.index_extreme("min", (self._upper_text((tuple(bound),), context), limit))
        else:
            middle = self._upper_text((tuple(bound),), context)
        var = str(self.scope.values[name])
        split = self.scope.names.fresh(f"{var}_full")
        first = Declare(f"const {self.scope.index_type}", split, (), middle)
        fast = self._for(node, start, self._below(name, split), clean, inner)
        saved, self.may_peel = self.may_peel, False
        rest_rows = [negated(full[0])] if len(bound) == 1 else []
        lower_forms = bounds.lower[0] if len(bounds.lower) == 1 else ()
        before = [full[0].substitute({name: form.add(Affine((), -1))}) for form in lower_forms]
        is_ordered = bool(before) and all(context.implies(tightened(row)) for row in before)
        begin = split if is_ordered and len(bound) == 1 else self.scope.index_extreme("max", (start, split))
        test = self._test(name, bounds.upper, context)
        rest = self._for(node, begin, test, context.add(bounds.facts).add(rest_rows), inner)
        self.may_peel = saved
        return (first, *fast, *rest)

    def _below(self, iname: str, limit: str | int) -> str:
        """Return the condition that a loop has not reached *limit*."""
        return f"{self.scope.values[iname]} < {limit}"

    def _test(self, iname: str, limit: Bound, context: Context) -> str:
        """Return the condition of a loop, as ``j <= i`` rather than ``j < i + 1``; *context* is that of the loop."""
        form = limit[0][0]
        plain = form.const == 1 and form.terms and all(type(v) is str and v not in self.bounds for v, _ in form.terms)
        if plain and len(limit) == 1 and len(limit[0]) == 1:
            most = form_text(form.add(Affine((), -1)), self.scope, context).text
            return f"{self.scope.values[iname]} <= {most}"
        return self._below(iname, self._upper_text(limit, context))

    def _lower_text(self, bound: Bound, context: Context) -> str:
        return self._bound_text(bound, context, "min", "max")

    def _upper_text(self, bound: Bound, context: Context) -> str:
        return self._bound_text(bound, context, "max", "min")

    def _bound_text(self, bound: Bound, context: Context, outer: str, inner: str) -> str:
        extreme = self.scope.index_extreme
        return extreme(
            outer,
            [extreme(inner, [form_text(form, self.scope, context).text for form in forms]) for forms in bound],
        )

    # }}}


def _conjunction(parts: Sequence[Text]) -> str:
    """Return all of several conditions."""
    if len(parts) == 1:
        return parts[0].text
    return " && ".join(part.within(3) for part in parts)


def _without(tree: Tree, dropped: Collection[str]) -> Tree:
    """Return *tree* without some statements, and without loops that then have none."""
    out: list[Loop | Run | Barrier] = []
    for node in tree:
        if isinstance(node, Loop):
            body = _without(node.body, dropped)
            out += [Loop(node.iname, body)] if any(True for _ in runs(body)) else []
        elif not isinstance(node, Run) or node.name not in dropped:
            out.append(node)
    return tuple(out)


def _strengthened(row: Affine, name: str, distance: int) -> Affine:
    """Return *row* as it reads *distance* iterations further out."""
    return Affine(row.terms, row.const - abs(row.coefficient(name)) * distance)
