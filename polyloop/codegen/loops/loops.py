"""Loops: bounds, unrolling, peeling (slabs), and the separation of full tiles from partial ones.

A loop adds only the rows that its bounds enforce to the context of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Final, Protocol

import islpy as isl

from polyloop.codegen.device.async_copy import waited_for, without_barriers, without_runs
from polyloop.codegen.expressions.linear import bound_text, form_text
from polyloop.codegen.loops.bounds import Bound, Bounds, bounds_of, limit_value, stride_of
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.edges import first_tiles, first_value, is_reached, limit_on, strengthened
from polyloop.codegen.loops.rows import Piece, between_constants, mentions, negated, pieces_of, tightened
from polyloop.codegen.loops.tiles import Tile, full_tile, places
from polyloop.codegen.parts import constant_names
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.branches import unswitched
from polyloop.codegen.tree.c_ast import Block, Comment, Declare, For, Group, Strided
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.indices import Mark
from polyloop.errors import Diagnostic
from polyloop.frozen import replace
from polyloop.kernel.tags import Unroll, UnrollHint, Vectorize
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, has_barrier, runs
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.affine import Affine, Floor
from polyloop.poly.axes import CLUSTER_AXIS, is_thread_axis, level_of
from polyloop.poly.sets import constant_bounds, set_text
from polyloop.schedule.plan import Schedule

__all__ = ["Loops"]

_NONE: Final = frozenset[str]()
_WRITTEN_OUT: Final = 32  # limit on peeled first iterations that are written out; more of them get a loop
_LEAST_STEP: Final = 2
_INT_MAX: Final = 2**31 - 1


class Inside(Protocol):
    """Generator of loop bodies."""

    def block(self, nodes: Tree, context: Context, known: frozenset[str]) -> Block:
        """Return the code of *nodes*; *known* are the variables with a value here."""

    def body(self, node: Loop, context: Context, known: frozenset[str]) -> Block:
        """Return the body of a loop, whose variable is known."""

    def lanes(self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]) -> Block:
        """Return a loop over the lanes of a vector."""


class Loops:
    """Loops of one function.

    Parameters
    ----------
    axes, extents
        Axes that have values from the start; threads along each local axis.
    inside
        Generator of the bodies.
    """

    def __init__(
        self, scope: Scope, schedule: Schedule, axes: Iterable[str], extents: Mapping[str, int], inside: Inside
    ) -> None:
        self.scope = scope
        self.schedule = schedule
        self.forms = schedule.loops
        self.statements = schedule.statements
        self.extents = extents
        self.inside = inside
        self.threads = frozenset(axis for axis in axes if is_thread_axis(axis) or axis == CLUSTER_AXIS)
        self.bounds = scope.memory.bounds
        self.parameters = frozenset(schedule.contract.parameters)
        self.may_peel = True
        self.constants = constant_names(self.statements.values(), scope.memory.split)
        self.constant_bounds: dict[tuple[str, tuple[str, ...], frozenset[str]], Bounds] = {}
        self._scope_numbers = count(1)
        self.scopes = [0]  # numbers of the function and of the C loops around; a loop that is written out has none

    def full(self, tile: Tile, tree: Tree, context: Context) -> list[Affine]:
        """Return the rows under which a tile is full, empty if a separation does not pay."""
        return full_tile(
            tile, tuple(places(tree, self.statements)), context, self.parameters, self.scope.divisibility
        )

    def reads(self, rows: Iterable[Affine]) -> frozenset[str]:
        """Return the bound variables in *rows*."""
        return self.bounds.intersection(chain.from_iterable(row.names() for row in rows)) if self.bounds else _NONE

    def visible(self, nodes: Tree, known: frozenset[str]) -> frozenset[str]:
        """Return the variables that conditions around *nodes* may use.

        Around a barrier, these are uniform variables only: no thread axes, around one of a cluster not its axis, and no
        bound variables that may differ among the threads that synchronize.
        """
        expanded = self.scope.memory.expanded
        if has_barrier(nodes):
            same = self.schedule.apart(nodes)
            same |= frozenset() if self._holds_cluster(nodes) else {CLUSTER_AXIS}
            varying = (name for name in self.bounds if not self.schedule.uniformity.varying[name] <= same)
            known -= (self.threads - same).union(varying)
        return known - {name for name in known & expanded.keys() if not known.issuperset(expanded[name])}

    def _holds_cluster(self, nodes: Tree) -> bool:
        """Return True if *nodes* have a barrier of all blocks of a cluster."""
        for node in nodes:
            match node:
                case Barrier(scope):
                    found = scope is BarrierScope.CLUSTER
                case Run(name):
                    together = self.statements[name].collective
                    found = together is not None and together.blocks > 1
                case Loop():
                    found = self._holds_cluster(node.body)
            if found:
                return True
        return False

    def pieces(self, name: str, keep: frozenset[str]) -> tuple[Piece, ...]:
        """Return the pieces of a statement's domain, as rows in the variables *keep*."""
        return pieces_of(self.statements[name], keep, self.scope.divisibility)

    def sure_bounds(self, node: Loop, context: Context, known: frozenset[str]) -> Bounds:
        """Return the bounds of a loop over all of its statements, or raise ``unbounded-loop``."""
        bounds = self.find_bounds(node, context, known)
        if bounds is None:
            raise self.scope.error(self._no_bounds(node))
        return bounds

    def _no_bounds(self, node: Loop) -> Diagnostic:
        name = node.iname
        statements = [self.statements[s] for s in runs(node.body)]
        notes = tuple(f"domain of '{s.name}': {set_text(s.domain)}" for s in statements)
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

    def find_bounds(self, node: Loop, context: Context, known: frozenset[str]) -> Bounds | None:
        """Return the bounds of a loop over all of its statements, None if it is unbounded."""
        name = node.iname
        keep = self.visible(node.body, known | {name})
        names = tuple(runs(node.body))
        key = (name, names, keep)
        if key in self.constant_bounds:
            return self.constant_bounds[key]
        pieces: list[Piece] = []
        box: Piece = {((name, 1),): 0, ((name, -1),): self.extents[name] - 1} if name in self.extents else {}
        for statement in names:
            if name in self.statements[statement].dims:  # projected rows may be weaker than the box: add it
                found = self.pieces(statement, keep)
                pieces += [{**piece, **{k: min(v, piece.get(k, v)) for k, v in box.items()}} for piece in found]
            elif box:
                pieces.append(box)
        assert pieces, f"no statement in loop '{name}' runs over it"
        stride = stride_of(name, (self.statements[s] for s in names), pieces, keep, self.scope.divisibility)
        bounds = bounds_of(name, pieces, context, stride)
        if bounds is not None and all(between_constants(name, piece) for piece in pieces):
            self.constant_bounds[key] = bounds  # the same in every context
        return bounds

    def loop(self, node: Loop, context: Context, known: frozenset[str]) -> Block:
        """Return the code of a loop."""
        name = node.iname
        bounds = self.sure_bounds(node, context, known)
        inside = self.within(name, bounds, context)
        inner = known | {name}
        constants = bounds.constants()
        if constants is not None and constants[1] - constants[0] <= 1:
            return self._single(node, constants[0], context, inner) if constants[1] > constants[0] else ()
        self.define(name, bounds, inside)
        tag = self.forms.tags.get(name)
        if isinstance(tag, Vectorize) and self.scope.language.syntax.aligned:
            return self.inside.lanes(node, bounds, context, inside, inner)
        if isinstance(tag, Unroll) or (isinstance(tag, Vectorize) and name in self.constants):
            return self.unrolled(node, bounds, context, inside, inner)
        front, back = self.forms.slabs.get(name, (0, 0)) if bounds.stride is None else (0, 0)
        start = first_value(bounds)
        ends = self.forms.fronts.get(name)
        if front and start is not None and ends is not None:
            front = max(0, ends.end - start)
        if not front or start is None or front > _WRITTEN_OUT:
            return self._rest(node, bounds, (front, back), context, inner)
        quiet = Loop(name, without_barriers(node.body)) if ends is not None and ends.is_quiet else node
        first = [self._instance(quiet, start + number, context, inner) for number in range(front)]
        start += front
        rows = (Affine(((name, 1),), -start),)
        rest = replace(bounds, lower=((Affine((), start),),), lower_rows=rows)
        return (*chain.from_iterable(first), *self._rest(node, rest, (0, back), context, inner))

    def _rest(
        self, node: Loop, bounds: Bounds, counts: tuple[int, int], context: Context, inner: frozenset[str]
    ) -> Block:
        """Return a loop with *counts* iterations peeled at its ends."""
        name = node.iname
        if any(counts):
            return self._slabs(node, bounds, counts, context, inner)
        inside = self.within(name, bounds, context)
        if name in self.forms.tiles and self.may_peel and bounds.stride is None:
            apart = not self.reads(bounds.forms()) and not self._only_bounds_registers(node)
            rows = self._full_iterations(node, inside, inner - {name}) if apart else []
            front = 0 if name in self.forms.fronts else first_tiles(name, rows, first_value(bounds))
            if front and (self.scope.language.loops.blocks or self._is_tested(node)):
                return self._begun(node, bounds, front, context, inner)
            if full := [row for row in rows if row.coefficient(name) < 0]:
                return self._peeled(node, bounds, full, context, inner)
        return self.plain(node, bounds, context, inside, inner, self._hint(name))

    def _only_bounds_registers(self, node: Loop) -> bool:
        """Return True if full tiles of a loop of a processor would only have constant bounds around register tiles.

        Those of the loops inside then have a text without tests for all of its iterations.
        """
        if self.scope.language.has_axes:
            return False
        names = [*runs(node.body)]
        written_out = {iname for iname, tag in self.forms.tags.items() if isinstance(tag, Unroll | Vectorize)}
        if not any(self._is_in_lanes(name) for name in names):
            return False
        rows = (
            Affine(terms, 0).names()
            for name in names if self._is_in_lanes(name)
            for piece in self.pieces(name, frozenset(self.statements[name].dims))
            for terms in piece
        )  # fmt: skip
        return not any(node.iname in row and row & written_out for row in rows)

    def _is_in_lanes(self, name: str) -> bool:
        return any(isinstance(self.forms.tags.get(iname), Vectorize) for iname in self.statements[name].dims)

    def _hint(self, iname: str) -> str:
        """Return the unroll pragma of a loop with the tag ``unr_hint``, else empty."""
        tag, language = self.forms.tags.get(iname), self.scope.language
        if not isinstance(tag, UnrollHint):
            return ""
        return language.loops.unroll_hint if tag.count is None else language.loops.unroll_by.format(count=tag.count)

    def plain(
        self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str], pragma: str = ""
    ) -> Block:
        """Return a plain loop, neither unrolled nor peeled."""
        start, test, step = self.head(node.iname, bounds, context)
        strides = None if pragma or step > 1 else (bounds, context)
        return self._for(node, start, test, inside, inner, pragma, step, strides)

    def _strided(self, iname: str, opened: Sequence[Mark], bounds: Bounds, context: Context) -> Strided | None:
        """Return the head of a loop by an index ``K * iname + rest``, where threads divide what it runs over.

        *iname* begins at a number and each upper bound says ``K * iname + rest < limit``, where *limit* has neither
        *iname* nor what is in *rest*: so the index runs from what it is at first, in steps of K, to below all limits.
        """
        start = first_value(bounds)
        if start is None or not bounds.upper_rows or len(bounds.upper) != 1:
            return None
        for mark in opened:
            step = mark.form.coefficient(iname)
            if step < _LEAST_STEP or self.threads.isdisjoint(mark.form.names()):
                continue
            if any(mentions(var, iname) for var, _ in mark.form.terms if type(var) is not str):
                continue
            first = mark.form.substitute({iname: Affine((), start)})
            found = [limit_on(row, iname, mark.form, context) for row in bounds.upper_rows]
            limits = [limit for limit in found if limit is not None]
            if len(limits) < len(found) or not any(limit.terms for limit in limits):
                continue
            for limit in limits:
                self.scope.findings.magnitudes.record(limit.add(Affine((), step - 1)))  # behind the last iteration
            is_inclusive = len(limits) == 1 and limits[0].const == 1
            shown = [form_text(limit.add(Affine((), -is_inclusive)), self.scope, context) for limit in limits]
            operator = c.OPERATORS["<=" if is_inclusive else "<"]
            test = c.binary(operator, c.Name(mark.text), self.scope.index_extreme("min", shown))
            return Strided(mark.text, form_text(first, self.scope, context), test, step)
        return None

    def head(self, iname: str, bounds: Bounds, context: Context) -> tuple[Code, Code, int]:
        """Return the first value, the condition and the step of a loop; *context* is that of the loop."""
        step = 1 if bounds.stride is None else bounds.stride.step
        return self._lower_text(bounds.lower, context), self._test(iname, bounds.upper, context), step

    def within(self, iname: str, bounds: Bounds, context: Context) -> Context:
        """Return *context* with the rows that hold inside of a loop."""
        inside = context.add(bounds.facts)
        return inside if bounds.stride is None else inside.add([bounds.stride.row(iname)])

    def define(self, iname: str, bounds: Bounds, inside: Context) -> None:
        """Choose the C name of a loop variable, and record its greatest values."""
        if iname not in self.scope.values:
            self.scope.values[iname] = self.scope.names.fresh(iname)
        low, high = inside.interval(iname)
        step = 1 if bounds.stride is None else bounds.stride.step
        is_small = high is not None and high + step <= _INT_MAX
        upper = ((Affine((), high + 1),),) if high is not None and is_small else bounds.upper
        self.scope.findings.magnitudes.define(iname, (*upper, *bounds.lower), low)
        for form in chain.from_iterable(upper):  # the value after the last increment
            if step > 1 or form.const or len(form.terms) > 1:
                self.scope.findings.magnitudes.record(form.add(Affine((), step - 1)))

    def _single(self, node: Loop, value: int, context: Context, inner: frozenset[str]) -> Block:
        """Return the body of a loop that runs once: its variable becomes a constant."""
        name = node.iname
        saved = self.scope.values.get(name)
        self.scope.values[name] = value
        rows = [Affine(((name, 1),), -value), Affine(((name, -1),), value)]
        with self.scope.findings.magnitudes.fixed(name, value):
            body = self.inside.block(node.body, context.add(rows), inner)
        if saved is None:
            del self.scope.values[name]
        else:
            self.scope.values[name] = saved
        return body

    def _for(
        self, node: Loop, start: Code, test: Code, inside: Context, inner: frozenset[str], pragma: str = "",
        step: int = 1, strides: tuple[Bounds, Context] | None = None,
    ) -> Block:  # fmt: skip
        opened, body = self._body(node, inside, inner)
        if not body:
            return ()
        strided = None if strides is None else self._strided(node.iname, opened, *strides)
        var = str(self.scope.values[node.iname])
        level = level_of(node.iname)
        axis = self._lanes(node.iname) if level is None else level.value
        loop = For(self.scope.index_type, var, start, test, body, step, pragma, axis, strided=strided)
        return unswitched(loop)

    def _lanes(self, iname: str) -> str:
        """Return the letter of a loop over lanes, if the language has vectors for such loops."""
        if isinstance(self.forms.tags.get(iname), Vectorize):
            return "v"
        return "i" if iname in self.forms.side_by_side and self.scope.language.loops.lanes else ""

    def _body(self, node: Loop, inside: Context, inner: frozenset[str]) -> tuple[tuple[Mark, ...], Block]:
        """Return the indices that have names in the body of a loop, and the body, which defines them."""
        opened = self.open(inner, [node.iname])
        self.scopes.append(next(self._scope_numbers))
        body = self.inside.body(node, inside, inner)
        self.scopes.pop()
        names = self.named(opened, inside)
        return opened, (*names, *body) if body else ()

    def open(self, known: frozenset[str], new: Iterable[str]) -> tuple[Mark, ...]:
        """Return marks for the named indices whose last inames, *new* ones, got values."""
        opened = self.scope.indices.open(known, new, self.scope.values)
        for mark in opened:
            self.scope.findings.magnitudes.define_sum(mark.text, mark.form)
        return opened

    def named(self, opened: Sequence[Mark], context: Context) -> Block:
        """Return the definitions of named indices that were used."""
        return self.scope.indices.close(
            opened, self.scope.index_type, lambda form: form_text(form, self.scope, context)
        )

    def unrolled(
        self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]
    ) -> Block:
        """Return an unrolled loop over constant bounds; the rows that these do not enforce become conditions inside."""
        name = node.iname
        low, high = inside.interval(name)
        if low is None or high is None:
            low, high = self.static_box(node)
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
        for end in (low, high + 1):
            self.scope.findings.magnitudes.record(Affine((), end))
        count = (high - low) // step + 1
        pragma = self.scope.language.loops.unroll.format(count=count)
        test = self._below(name, c.integer(high + 1))
        return self._for(node, c.integer(low), test, context.add(rows), inner, pragma, step)

    def _instance(self, node: Loop, value: int, context: Context, inner: frozenset[str]) -> Block:
        """Return the body of a loop for one value of its variable, without statements that have no instance there."""
        dropped = {
            name for name in (*runs(node.body), *waited_for(node.body))
            if node.iname in (dims := self.statements[name].dims)
            and self.statements[name].domain.fix_val(isl.dim_type.set, dims.index(node.iname), value).is_empty()
        }  # fmt: skip
        body = without_runs(node.body, dropped)
        return self._single(Loop(node.iname, body), value, context, inner) if body else ()

    def static_box(self, node: Loop) -> tuple[int | None, int | None]:
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
        """Return a loop with iterations peeled at its ends."""
        name = node.iname
        front, back = counts
        start, limit = self._lower_text(bounds.lower, context), self._upper_text(bounds.upper, context)
        first = self._shifted(bounds.lower, front, context, self._lower_text)
        last = self._shifted(bounds.upper, -back, context, self._upper_text)
        middle = [strengthened(row, name, front) for row in bounds.lower_rows]
        middle += [strengthened(row, name, back) for row in bounds.upper_rows]
        out = self._between(node, first, last, context.add(middle), inner, self._hint(name))
        saved, self.may_peel = self.may_peel, False
        outside = context.add(bounds.facts)
        if front:
            end = self.scope.index_extreme("min", (first, limit))
            lower = bounds.lower[0] if len(bounds.lower) == 1 else ()
            rows = [lower[0].add(Affine(((name, -1),), front - 1))] if len(lower) == 1 else []
            early = self._possible(node, inner - self.threads, outside.add(rows))
            out = self._between(early, start, end, outside.add(rows), inner) + out
        if back and len(bounds.upper_rows) == 1 and bounds.upper_rows[0].coefficient(name) == -1:
            (left,) = bounds.upper_rows  # iterations that are left, 0 in the last one
            for number in reversed(range(back)):
                value = left.add(Affine(((name, 1),), -number))  # of the loop in that iteration
                rows = [left.add(Affine((), -number)), left.scale(-1).add(Affine((), number))]
                one = self._possible(node, inner - self.threads, outside.add(rows))
                if is_reached(bounds, value.add(Affine((), -front)), context):
                    out += self._once(one, value, context, outside.add(rows), inner)
                    continue
                begin = self.scope.index_extreme("max", (
                    first, self._shifted(bounds.upper, -number - 1, context, self._upper_text)))
                end = self._shifted(bounds.upper, -number, context, self._upper_text)
                out += self._between(one, begin, end, outside.add(rows), inner)
        elif back:
            out += self._between(node, self.scope.index_extreme("max", (first, last)), limit, outside, inner)
        self.may_peel = saved
        return out

    def _once(self, node: Loop, value: Affine, context: Context, inside: Context, inner: frozenset[str]) -> Block:
        """Return the body of a loop that runs once, for *value*: assemblers see no way around it, and none back."""
        if not value.terms:
            return self._single(node, value.const, inside, inner)
        _, body = self._body(node, inside, inner)
        var, shown = str(self.scope.values[node.iname]), form_text(value, self.scope, context)
        return (Group((Declare(f"const {self.scope.index_type}", var, value=shown), *body)),) if body else ()

    def _between(
        self, node: Loop, begin: Code, end: Code, inside: Context, inner: frozenset[str], pragma: str = ""
    ) -> Block:
        """Return a loop from *begin* to below *end*, or just its body or nothing if it runs once or never."""
        first, limit = c.integer_of(begin), c.integer_of(end)
        if first is None or limit is None or limit - first > 1:
            return self._for(node, begin, self._below(node.iname, end), inside, inner, pragma)
        return self._single(node, first, inside, inner) if first < limit else ()

    def _shifted(
        self, bound: Bound, distance: int, context: Context, show: Callable[[Bound, Context], Code]
    ) -> Code:
        return show(tuple(tuple(form.add(Affine((), distance)) for form in forms) for forms in bound), context)

    def _full_iterations(self, node: Loop, inside: Context, known: frozenset[str]) -> list[Affine]:
        """Return bounds on a tile loop between which every tile is full; empty if a separation does not pay.

        A row that has the loop's iname inside of a floor, too, is no bound on it.
        """
        name = node.iname
        decided = (known | {name}) - self.threads - self.bounds
        tile = Tile(frozenset({name}), decided, has_barrier(node.body))
        rows = self.full(tile, (node,), inside)
        return [row for row in rows if row.coefficient(name) and not any(mentions(v, name) for v, _ in row.terms)]

    def _is_tested(self, node: Loop) -> bool:
        """Return True if bounds become conditions in a loop: on threads, on lanes, or where loops are unrolled."""
        tags = self.forms.tags
        inside = {x for name in runs(node.body) for x in self.statements[name].dims}
        return any(x in self.threads or isinstance(tags.get(x), Unroll | Vectorize) for x in inside)

    def _begun(
        self, node: Loop, bounds: Bounds, front: int, context: Context, inner: frozenset[str]
    ) -> Block:
        """Return a tile loop whose first tiles, which are not full, stand in front of it.

        ::

            for (t = 0; t < n; ++t) tested   ->   tested for t = 0; for (t = 1; t < n; ++t) as ever
        """
        name, start = node.iname, first_value(bounds)
        assert start is not None, "tiles in front are counted from a number"
        end, begin = Affine((), start + front), self._lower_text(bounds.lower, context)
        limit = self._upper_text(bounds.upper, context)
        outside = context.add(bounds.facts).add([Affine(((name, -1),), start + front - 1)])
        early = self._possible(node, inner - self.threads, outside)
        saved, self.may_peel = self.may_peel, False
        last = self.scope.index_extreme("min", (self._upper_text(((end,),), context), limit))
        first = self._between(early, begin, last, outside, inner)
        self.may_peel = saved
        rest = replace(bounds, lower=((end,),), lower_rows=(Affine(((name, 1),), -start - front),))
        return (*first, *self._rest(node, rest, (0, 0), context, inner))

    def _peeled(
        self, node: Loop, bounds: Bounds, full: Sequence[Affine], context: Context, inner: frozenset[str]
    ) -> Block:
        """Return a tile loop in two parts: full tiles, then the others.

        ::

            for (t = 0; t < n; ++t) tested   ->   for (t = 0; t < full; ++t) fast; for (t = full; t < n; ++t) tested
        """
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
        name_of_split = self.scope.names.fresh(f"{var}_full")
        split = c.Name(name_of_split)
        first = Declare(f"const {self.scope.index_type}", name_of_split, (), middle)
        fast = self._for(node, start, self._below(name, split), clean, inner, self._hint(name))
        saved, self.may_peel = self.may_peel, False
        rest_rows = [negated(full[0])] if len(bound) == 1 else []
        lower_forms = bounds.lower[0] if len(bounds.lower) == 1 else ()
        before = [full[0].substitute({name: form.add(Affine((), -1))}) for form in lower_forms]
        is_ordered = bool(before) and all(context.implies(tightened(row)) for row in before)
        begin = split if is_ordered and len(bound) == 1 else self.scope.index_extreme("max", (start, split))
        test = self._test(name, bounds.upper, context)
        outside = context.add(bounds.facts).add(rest_rows)
        rest = self._for(self._possible(node, inner - self.threads, outside), begin, test, outside, inner)
        self.may_peel = saved
        said = Comment(f"Full tiles, without tests; the others begin at {name_of_split}.")
        return (said, first, *fast, *rest)

    def _possible(self, node: Loop, known: frozenset[str], context: Context) -> Loop:
        """Return a loop without the statements that *context* excludes."""
        names = (*runs(node.body), *waited_for(node.body))
        dropped = {name for name in names if not self._may_run(name, known, context)}
        return Loop(node.iname, without_runs(node.body, dropped)) if dropped else node

    def _may_run(self, name: str, known: frozenset[str], context: Context) -> bool:
        """Return True unless *context* excludes all instances of a statement, by its rows on *known* variables."""
        rows = ([Affine(terms, const) for terms, const in piece.items()] for piece in self.pieces(name, known))
        return not all(any(context.implies(negated(row)) for row in piece) for piece in rows)

    def _below(self, iname: str, limit: Code, operator: str = "<") -> Code:
        """Return the condition that a loop has not reached *limit*."""
        return c.binary(c.OPERATORS[operator], c.value_of(self.scope.values[iname]), limit)

    def _test(self, iname: str, limit: Bound, context: Context) -> Code:
        """Return the condition of a loop, as ``j <= i`` rather than ``j < i + 1``; *context* is that of the loop.

        The sign of a bound in memory is not known, and C's division is no floor division: the condition avoids it.
        """
        form = limit[0][0]
        plain = form.const == 1 and form.terms and all(type(v) is str and v not in self.bounds for v, _ in form.terms)
        if plain and len(limit) == 1 and len(limit[0]) == 1:
            return self._below(iname, form_text(form.add(Affine((), -1)), self.scope, context), "<=")
        if len(limit) == 1 and len(limit[0]) == 1 and self.reads([form]) and len(form.terms) == 1 and not form.const:
            (quotient, factor), *_ = form.terms
            if isinstance(quotient, Floor) and factor == 1:  # without a division: j < floor(a/b) where b*j < a - b + 1
                self.scope.findings.magnitudes.record(Affine(((iname, quotient.den),), 0))
                rest = Affine(quotient.terms, quotient.const - quotient.den + 1)
                multiple = c.binary(c.TIMES, c.integer(quotient.den), c.value_of(self.scope.values[iname]))
                return c.binary(c.OPERATORS["<"], multiple, form_text(rest, self.scope, context))
        return self._below(iname, self._upper_text(limit, context))

    def _lower_text(self, bound: Bound, context: Context) -> Code:
        return bound_text(bound, self.scope, context, "min", "max")

    def _upper_text(self, bound: Bound, context: Context) -> Code:
        return bound_text(bound, self.scope, context, "max", "min")
