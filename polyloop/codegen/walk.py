"""The walker: loop tree to C tree.

The invariant that makes everything safe: the context only ever receives rows that emitted code enforces, and each
statement tests every row of its exact domain that the context does not imply.  Bounds and hoisted conditions may be
larger than the domain; that costs a test further inside, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from polyloop.codegen.assignments import Assignments
from polyloop.codegen.device.async_copy import group_text
from polyloop.codegen.device.box_text import box_block
from polyloop.codegen.device.cluster import cluster_call
from polyloop.codegen.device.entries import Roles, Threads
from polyloop.codegen.device.matrix import group_of_products, matrix_block, publication
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import condition_text, union_text
from polyloop.codegen.loops.bounds import Bounds, minimal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.lanes import LaneLoops, merged
from polyloop.codegen.loops.loops import Loops
from polyloop.codegen.loops.rows import Piece, hull
from polyloop.codegen.loops.tiles import Tile
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.branches import Guarded, branches
from polyloop.codegen.tree.c_ast import Block, Comment, If, Node, Sync
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import array_name, targets_of
from polyloop.kernel.tags import Unroll, Vectorize
from polyloop.kernel.tree import Barrier, Group, Loop, Run, Tree, has_barrier, runs
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_grid_axis
from polyloop.schedule import plan
from polyloop.schedule.copy_engine import EngineStep
from polyloop.schedule.plan import Schedule, Statement

__all__ = ["Walker"]

_NONE: Final = frozenset[str]()
_WHY_TWICE: Final = "Full blocks, without tests; full_blocks=False of the target leaves this copy out."


def _counts(nodes: Tree) -> bool:
    """Return True if *nodes* have a commit or wait of asynchronous operations, which all threads must execute."""
    return any(isinstance(node, Barrier) and node.group is not None for node in nodes)


class Walker:
    """Walk over the loop tree of one function, which makes its body.

    Parameters
    ----------
    axes
        Axes whose values are known from the start; empty if axes are loops.
    extents
        Threads along each local axis, and values of each digit of the thread number.
    block
        Threads of a block along ``l.0``, ``l.1``, ..

    Attributes
    ----------
    ahead
        The first copies of the next block that the same threads execute.
    role
        Threads of the role that executes what is walked over; 0 if all threads of the block do.
    """

    def __init__(
        self, scope: Scope, schedule: Schedule, axes: Sequence[str], extents: Mapping[str, int], block: Sequence[int]
    ) -> None:
        self.scope = scope
        self.schedule = schedule
        self.statements = schedule.statements
        self.axes = frozenset(axes)
        self.expressions = Expressions(scope)
        self.assignments = Assignments(self.expressions, block)
        self.loops = Loops(scope, schedule, axes, extents, self)
        self.lane_loops = LaneLoops(self.loops, self.assignments)
        self.hulls: dict[tuple[tuple[str, ...], frozenset[str]], Piece] = {}
        self.ahead: Block = ()
        self.role = 0

    def lanes(self, node: Loop, bounds: Bounds, context: Context, inside: Context, inner: frozenset[str]) -> Block:
        """Return a loop over the lanes of a vector."""
        return self.lane_loops.loop(node, bounds, context, inside, inner)

    def run(self, tree: Tree, context: Context) -> Block:
        """Return the code of *tree*, with separate code for full blocks if that pays."""
        opened = self.loops.open(self.axes, self.axes)
        body = self._blocks(tree, context)
        return (*self.loops.named(opened, context), *body)

    def _blocks(self, tree: Tree, context: Context) -> Block:
        """Return the code of *tree*, versioned for full and partial blocks if that removes comparisons.

        ::

            if (32 * blockIdx.x + 32 <= n) { .. }   // no bounds checks
            else { .. }                             // the same with bounds checks
        """
        return self._versions(tree, self.axes, context, self.axes)

    def _versions(self, tree: Tree, axes: frozenset[str], context: Context, known: frozenset[str]) -> Block:
        groups = frozenset(axis for axis in axes if is_grid_axis(axis))
        if groups and self.scope.language.loops.full_blocks and self.schedule.phantoms.isdisjoint(runs(tree)):
            lanes = frozenset(x for x, tag in self.loops.forms.tags.items() if isinstance(tag, Vectorize))
            tile = Tile(groups, groups, has_barrier(tree), lanes)
            full = self.loops.full(tile, self.lane_loops.without(tree), context)
            if full:
                clean = self.block(tree, context.add(full), known)
                guard = [] if _counts(tree) else self.guard(tree, context, known)
                if all(map(context.add(guard).implies, full)):
                    return self._guarded(full, clean, context)  # partial blocks have no instances
                self.loops.may_peel = False
                partial = self.block(tree, context, known)
                self.loops.may_peel = True
                if len(partial) == 1 and isinstance(last := partial[0], If) and last.body == clean and not last.orelse:
                    return partial  # separate code for full blocks would save one comparison only
                said = () if not partial else (Comment(_WHY_TWICE),)
                return (If(condition_text(full, self.scope, context), (*said, *clean), partial),)
        return self.block(tree, context, known)

    def body(self, node: Loop, context: Context, known: frozenset[str]) -> Block:
        """Return the body of a loop; of one over blocks on threads, with a text for full ones, if that saves tests."""
        if not (self.loops.may_peel and self.scope.language.loops.blocks and self._is_cut_in_lanes(node)):
            return self.block(node.body, context, known)
        return self._versions(node.body, frozenset(filter(is_grid_axis, known)), context, known)

    def _is_cut_in_lanes(self, node: Loop) -> bool:
        """Return whether edges of blocks cut what is written out or in vectors, with no tile loop that is divided."""
        forms = self.loops.forms
        if not is_grid_axis(node.iname) or any(isinstance(n, Loop) and is_grid_axis(n.iname) for n in node.body):
            return False
        lanes = {iname for iname, tag in forms.tags.items() if isinstance(tag, Unroll | Vectorize)}
        tiles = forms.tiles.difference(lanes)
        rows = [
            frozenset(Affine(terms, 0).names())
            for name in runs(node.body)
            for piece in self.loops.pieces(name, frozenset(self.statements[name].dims))
            for terms in piece
        ]  # fmt: skip
        return any(node.iname in row and row & lanes and not row & tiles for row in rows)

    def block(self, nodes: Tree, context: Context, known: frozenset[str]) -> Block:
        """Return the code of *nodes*; *known* are the variables with a value here."""
        counts = _counts(nodes)
        guard = [] if counts else self.guard(nodes, context, known)
        inside = context.add(guard)
        live = [node for node in nodes if not isinstance(node, Barrier)]
        if len(live) <= 1 and not counts:
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
            guard = [] if isinstance(node, Barrier) else self.guard((node,), context, known)
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
                body: Block = (self.assignments.once(statement, context),)
                writes = frozenset(map(array_name, targets_of(statement.lhs)))
                entries.append(Guarded(statement.predicates, body, writes))
            else:
                entries.append(Guarded((), self._leaf(statement, context), frozenset()))
        return branches(entries, lambda condition: self.expressions.value(condition, context))

    def _guarded(self, rows: Sequence[Affine], body: Block, context: Context) -> Block:
        body = merged(body)
        if not rows or not body:
            return body
        condition = condition_text(rows, self.scope, context)
        if len(body) == 1 and isinstance(body[0], If) and not body[0].orelse:
            inner = body[0]
            return (If(c.conjunction([condition, inner.condition]), inner.body),)
        return (If(condition, body),)

    def _assigned(self, node: Loop | Run | Barrier) -> frozenset[str]:
        """Return the bound variables that are set after *node*.

        After a loop, these are the variables that the C target keeps once per thread.
        """
        memory = self.scope.memory
        if isinstance(node, Barrier) or not memory.bounds:
            return _NONE
        written = memory.bounds.intersection(
            array_name(target) for name in runs((node,)) for target in targets_of(self.statements[name].lhs)
        )
        return written if isinstance(node, Run) else written & memory.expanded.keys()

    def guard(self, nodes: Tree, context: Context, known: frozenset[str]) -> list[Affine]:
        """Return the rows that all statements of *nodes* need and *context* does not imply."""
        names = tuple(runs(nodes))
        if not names or self._is_tested_inside(nodes):
            return []
        keep = self.loops.visible(nodes, known)
        common = self.hulls.get((names, keep))
        if common is None:
            pieces = chain.from_iterable(self.loops.pieces(name, keep) for name in names)
            common = self.hulls[names, keep] = hull(pieces)
        have = context.rows
        rows = [
            row for terms, const in common.items()
            if have.get(terms, const + 1) > const and not context.implies(row := Affine(terms, const))
        ]  # fmt: skip
        if rows and all(isinstance(node, Loop) for node in nodes):
            rows = [row for row in rows if not self._enforced(row, nodes, context, known)]
        return minimal(rows, context)

    def _is_tested_inside(self, nodes: Tree) -> bool:
        """Return True if *nodes* are an unrolled loop whose iterations should be tested one by one.

        Such a loop loads into registers that are initialized with zeros; a test around a single load needs no branch.
        """
        if len(nodes) != 1 or not isinstance(nodes[0], Loop):
            return False
        if not isinstance(self.loops.forms.tags.get(nodes[0].iname), Unroll):
            return False
        written = (array_name(target) for name in runs(nodes) for target in targets_of(self.statements[name].lhs))
        storages = map(self.scope.memory.storage.get, written)
        return all(storage is not None and storage.cleared for storage in storages)

    def _enforced(self, row: Affine, nodes: Tree, context: Context, known: frozenset[str]) -> bool:
        """Return True if the bounds of the loops *nodes* imply *row*."""
        for node in nodes:
            if not isinstance(node, Loop) or isinstance(self.loops.forms.tags.get(node.iname), Unroll):
                return False
            bounds = self.loops.find_bounds(node, context, known)
            if bounds is None:
                return False
            inside = context.add(bounds.facts)
            if inside.implies(row):
                continue
            if not self._enforced(row, node.body, inside, known | {node.iname}):
                return False
        return bool(nodes)

    def _node(self, node: Loop | Run | Barrier, context: Context, known: frozenset[str]) -> Block:
        match node:
            case Loop():
                return self.loops.loop(node, context, known)
            case Run(name):
                return self._leaf(self.statements[name], context)
            case Barrier(group=Group(products=True) as group):
                return (group_of_products(self.scope, group),)
            case Barrier(group=Group() as group):
                return (Sync(group_text(self.scope, group)),)
            case Barrier(scope=BarrierScope.THREAD):
                return (publication(self.scope),)
            case Barrier(why=why):
                wait = Sync(self._barrier(node), why)
                waits: Block = (publication(self.scope), wait) if node.publishes else (wait,)
                return (*waits, *self.ahead) if node.starts else waits

    def _barrier(self, node: Barrier) -> str:
        """Return the statement by which threads wait for each other."""
        if node.scope is BarrierScope.CLUSTER:
            return cluster_call(self.scope, "wait" if node.opens else "barrier")
        threads = self.scope.language.need(Threads)
        if self.role and node.scope is BarrierScope.BLOCK:
            return self.scope.language.need(Roles).barrier.format(threads=self.role)
        return threads.warp_barrier if node.scope is BarrierScope.WARP else threads.block_barrier

    def _leaf(self, statement: Statement, context: Context) -> Block:
        """Return a statement, guarded by the conditions that *context* does not imply."""
        cases = self._unknown_rows(statement, context)
        if not cases:  # it has no instances
            return ()
        if isinstance(statement.action, plan.Tensor):
            block = matrix_block(self.expressions, statement, context)
            return (If(union_text(cases, self.scope, context), block),) if all(cases) else block
        if isinstance(statement.action, EngineStep):
            block = box_block(self.expressions, statement, context.add(cases[0]) if len(cases) == 1 else context)
            return (If(union_text(cases, self.scope, context), block),) if all(cases) else block
        if statement.collective is not None and all(cases):
            self._refuse_divergence(statement, cases)
        self.scope.fast = statement.fast
        inside = context.add(cases[0]) if len(cases) == 1 else context
        conditions = []
        if all(cases):
            conditions.append(union_text(cases, self.scope, context))
        conditions += [self.expressions.value(part, inside) for part in statement.predicates]
        assign = self.assignments.once if statement.copied is None else self.assignments.filled
        body = (assign(statement, inside),)
        if not conditions:
            return body
        return (If(c.conjunction(conditions), body),)

    def _refuse_divergence(self, statement: Statement, cases: Iterable[Iterable[Affine]]) -> None:
        """Raise an error if conditions on data may keep some threads from a collective statement."""
        data = sorted(self.loops.reads(chain.from_iterable(cases)))
        if data:
            raise self.scope.error(
                Diagnostic(
                    "divergent-reduction",
                    f"the threads combine their terms in '{statement.instruction}', "
                    "and whether they do depends on data",
                    (f"its domain uses {', '.join(repr(d) for d in data)}, which may differ from thread to thread",),
                    ("keep the loops of this reduction sequential, or bound the loops around it by parameters",),
                )
            )

    def _unknown_rows(self, statement: Statement, context: Context) -> list[list[Affine]]:
        """Return, for each piece of the domain of *statement*, the rows that *context* does not imply."""
        return [
            [row for terms, const in piece.items() if not context.implies(row := Affine(terms, const))]
            for piece in self.loops.pieces(statement.name, frozenset(statement.dims))
        ]
