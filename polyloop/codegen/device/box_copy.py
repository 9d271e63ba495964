"""Copies of boxes by a copy engine: one thread starts the copy of a whole tile, and all threads wait for its bytes.

::

    for x in box: start tile[slot, x] = a[o + x]; ..; for x in box: arrive tile[slot, x]
    ->
    open ring; ..; if (thread == 0) {expect bytes; copy box}; ..; wait for ring[slot]

A *ring* has a barrier for each slot of a tile, which counts the bytes that have arrived.  Its phases alternate: the
proof of asynchronous copies says that each start has one arrival, and that the next start follows it.  So a thread
needs one bit for each slot, to know the phase that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.box_test import OTHERWISE, PIECE_BYTES, TILE_BYTES, BoxTest, box_of
from polyloop.codegen.device.entries import Boxes
from polyloop.codegen.device.shared_operands import GROUP_BYTES
from polyloop.codegen.expressions.expressions import Expressions
from polyloop.codegen.expressions.linear import form_text
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Context, known_of
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_ast import Block, Call, Node
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import Expression, array_name
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, runs
from polyloop.kernel.tree import Node as TreeNode
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.sets import project_onto
from polyloop.schedule.plan import (
    AwaitBox,
    Launch,
    OpenRings,
    Schedule,
    StartBox,
    StartCopy,
    Statement,
    TensorMap,
)
from polyloop.schedule.storage import Storage

__all__ = ["box_block", "with_boxes"]

_SET: Final = isl.dim_type.set
_RING: Final = np.dtype(np.uint64)
_PHASES: Final = np.dtype(np.uint32)


# {{{ statements


def with_boxes(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with copies of boxes as single statements, on devices; for hosts as it is.

    Raises
    ------
    CodegenError
        ``not-a-box``, ``box-unaligned``, ``box-edge``; ``unsupported-device-function``.
    """
    if not language.has_axes or not any(box_of(statement) for statement in schedule.statements.values()):
        return schedule
    language.need(Boxes)
    rewriting = _Rewriting(schedule)
    launches = tuple(map(rewriting.launch, schedule.launches))
    return replace(schedule, launches=launches, statements=rewriting.statements)


class _Rewriting:
    """Rewrite of the launches of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.statements = dict(schedule.statements)
        self.arrays = {a.name: a for a in schedule.contract.arguments if isinstance(a, ArrayArg)}
        self.known = known_of(schedule.contract.assumptions).divisibility
        self.taken = {argument.name for argument in schedule.contract.arguments} | {*schedule.file_scope.tables}
        self.taken |= {t.name for launch in schedule.launches for t in launch.temporaries}
        self.taken |= {dim for statement in schedule.statements.values() for dim in statement.dims}

    def fresh(self, wish: str) -> str:
        """Return an unused name."""
        name, number = wish, 0
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name

    def launch(self, launch: Launch) -> Launch:
        """Return *launch* with boxes, rings for them, and descriptions of arrays."""
        own = [self.statements[name] for name in runs(launch.tree) if box_of(self.statements[name])]
        if not own:
            return launch
        storages = {t.name: t for t in launch.temporaries}
        tiles = list(dict.fromkeys(array_name(statement.lhs) for statement in own))
        rings = {tile: self.fresh(f"{tile}_ring") for tile in tiles}
        phases = {tile: self.fresh(f"{tile}_phases") for tile in tiles}
        maps: dict[tuple[object, ...], TensorMap] = {}
        written = {array_name(self.statements[name].lhs) for name in runs(launch.tree)}
        for statement in own:
            tile = array_name(statement.lhs)
            if (source := array_name(statement.rhs)) in written:
                note = f"'{source}' is written in the same launch, and the engine may read it from before"
                raise self.refuse(statement, "not-a-box", "copies no box", note, OTHERWISE)
            if isinstance(statement.action, StartCopy):
                array = self.arrays[array_name(statement.rhs)]
                test = BoxTest(statement, storages[tile], array, self.known, self.refuse)
                key = test.key()
                if key not in maps:
                    maps[key] = test.map(self.fresh(f"{array.name}_map"))
                new = test.started(maps[key], rings[tile])
            else:
                new = self.awaited(statement, rings[tile], phases[tile])
            self.statements[statement.name] = new
        tree = _without_loops(launch.tree, frozenset[str]().union(*map(box_of, own)))
        tree = self.separated(tree)
        opening = self.opening(own, [(rings[tile], storages[tile].shape[0]) for tile in tiles])
        more = [Storage(rings[tile], _RING, storages[tile].shape[:1], AddressSpace.LOCAL) for tile in tiles]
        more += [Storage(phases[tile], _PHASES, (), AddressSpace.PRIVATE, cleared=True) for tile in tiles]
        return replace(
            launch, tree=(Run(opening), Barrier(BarrierScope.BLOCK), *tree), maps=tuple(maps.values()),
            temporaries=(*launch.temporaries, *more),
        )  # fmt: skip

    def awaited(self, statement: Statement, ring: str, phases: str) -> Statement:
        """Return the wait of each thread for the box that *statement* awaits."""
        gone = [x for x in statement.dims if x in box_of(statement) or is_thread_axis(x)]
        exact = statement.domain if statement.copied is None else statement.copied
        dims = tuple(x for x in statement.dims if x not in gone)
        events = project_onto(exact, statement.dims, dims)
        if not project_onto(statement.domain, statement.dims, dims).is_subset(events):
            note = "zeros are stored for iterations that copy nothing"
            raise self.refuse(statement, "box-edge", "copies zeros alone in some iterations", note, OTHERWISE)
        slot = statement.lhs.index_tuple[0]
        return replace(statement, dims=dims, domain=events, action=AwaitBox(ring, slot, phases))

    def opening(self, own: Sequence[Statement], rings: Iterable[tuple[str, int]]) -> str:
        """Add the statement that opens rings, on the thread that starts copies; return its name."""
        start = next(statement for statement in own if isinstance(statement.action, StartCopy))
        dims = tuple(x for x in start.dims if is_thread_axis(x))
        name = f"{start.name} ring"
        domain = project_onto(start.domain, start.dims, dims)
        domain = isl.Set.universe(domain.get_space())
        for number in range(len(dims)):
            domain = domain.fix_val(_SET, number, 0)
        self.statements[name] = replace(start, name=name, dims=dims, domain=domain, action=OpenRings(tuple(rings)))
        return name

    def separated(self, tree: Tree) -> Tree:
        """Return *tree* with a barrier between each wait and the next start, if it has none.

        No thread may miss a phase.
        """
        tree = tuple(Loop(node.iname, self.separated(node.body)) if isinstance(node, Loop) else node for node in tree)
        out: list[TreeNode] = []
        barriers = [n for n, node in enumerate(tree) if isinstance(node, Barrier) and node.scope is BarrierScope.BLOCK]
        actions = [self.statements[node.name].action if isinstance(node, Run) else None for node in tree]
        starts = [n for n, action in enumerate(actions) if isinstance(action, StartBox)]
        for number, (node, action) in enumerate(zip(tree, actions, strict=True)):
            out.append(node)
            is_last = number + 1 == len(tree) or not isinstance(actions[number + 1], AwaitBox)
            if isinstance(action, AwaitBox) and is_last:
                apart = any(n > number or all(n < start for start in starts) for n in barriers)
                out += [] if apart else [Barrier(BarrierScope.BLOCK)]
        return tuple(out)

    def refuse(self, statement: Statement, code: str, message: str, note: str, hint: str) -> CodegenError:
        """Return the error of a statement that copies no box."""
        problem = Diagnostic(code, f"'{statement.instruction}' {message}", (note,), (hint,))
        return CodegenError("generate_code", self.schedule.name, [problem])


def _without_loops(tree: Tree, gone: frozenset[str]) -> Tree:
    """Return *tree* without the loops over *gone*, whose bodies stay."""
    out: list[TreeNode] = []
    for node in tree:
        if isinstance(node, Loop):
            body = _without_loops(node.body, gone)
            out += body if node.iname in gone else (Loop(node.iname, body),)
        else:
            out.append(node)
    return tuple(out)


# }}}
# {{{ text


def box_block(expressions: Expressions, statement: Statement, context: Context) -> Block:
    """Return the calls of a statement that opens rings, starts copies of boxes, or waits for one."""
    return tuple(_calls(expressions, statement, context))


def _calls(expressions: Expressions, statement: Statement, context: Context) -> Iterator[Node]:
    scope = expressions.scope
    functions = scope.language.need(Boxes)

    def call(name: str, lines: Sequence[str], *arguments: c.Code) -> Call:
        return Call(c.Apply(scope.shared_helper(name, name, lambda: _function(scope, lines, name)), arguments), "")

    def place(name: str, *indices: Expression) -> c.Code:
        element = p.Subscript(p.Variable(name), indices)
        return c.Unary(c.ADDRESS, expressions.unswizzled(element, context))

    match statement.action:
        case OpenRings(rings):
            for ring, slots in rings:
                yield call("ring_open", functions.open, place(ring, 0), c.integer(slots))
        case AwaitBox(ring, slot, phases):
            index = expressions.value(slot, context)
            bits = c.Unary(c.ADDRESS, expressions.element(p.Variable(phases), context))
            wait = call("ring_wait", functions.wait, place(ring, 0), index, bits)
            yield replace(wait, instruction=statement.instruction)
        case StartBox(described, ring, slot, count, pieces):
            name, definition = functions.type
            scope.shared_helper(name, name, lambda: definition)
            scope.findings.aligned[described.array] = max(PIECE_BYTES, scope.findings.aligned.get(described.array, 0))
            tile = array_name(statement.lhs)
            unit = TILE_BYTES if not described.swizzle else GROUP_BYTES
            scope.findings.aligned[tile] = max(unit, scope.findings.aligned.get(tile, 0))
            yield call("ring_expect", functions.expect, place(ring, slot), c.integer(count))
            load = f"box_{len(described.box)}d"
            for element, subscripts in pieces:
                assert isinstance(element, p.Subscript), "a tile has subscripts"
                to = place(tile, *element.index_tuple)
                at = [form_text(subscript, scope, context) for subscript in subscripts]
                source = c.Unary(c.ADDRESS, c.Name(described.name))
                made = call(load, functions.load(len(described.box)), to, source, place(ring, slot), *at)
                yield replace(made, instruction=statement.instruction)
        case _:
            raise AssertionError(f"'{statement.name}' is of no copy engine")


def _function(scope: Scope, lines: Sequence[str], name: str) -> str:
    """Return the text of a helper function; *lines* are its result type with parameters, then its body."""
    result, _, parameters = lines[0].partition(" (")
    head = f"{scope.language.syntax.helper} {result} {name}({parameters}"
    return "\n".join([head, "{", *(f"    {line}" for line in lines[1:]), "}"])


# }}}
