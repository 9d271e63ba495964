"""Copies of boxes by a copy engine: one thread starts the copy of a whole tile, and all threads wait for its bytes.

::

    for x in box: start tile[slot, x] = a[o + x]; ..; for x in box: arrive tile[slot, x]
    ->
    open ring; ..; if (thread == 0) {expect bytes; copy box}; ..; wait for ring[slot]

    for x in box: b[o + x] = tile[x]
    ->
    if (thread == 0) {copy box; wait until the tile has been read}

A *ring* has a barrier for each slot of a tile, which counts the bytes that have arrived.  Its phases alternate: the
proof of asynchronous copies says that each start has one arrival, and that the next start follows it.  So a thread
needs one bit for each slot, to know the phase that it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.box_test import OTHERWISE, PLAIN, BoxTest, box_of
from polyloop.codegen.device.entries import Boxes
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import known_of
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.tree import Barrier, Loop, Run, Tree, runs
from polyloop.kernel.tree import Node as TreeNode
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.sets import project_onto
from polyloop.schedule.copy_engine import AwaitBox, OpenRings, StartBox, TensorMap
from polyloop.schedule.plan import Assign, AwaitProducts, Launch, Schedule, StartCopy, Statement
from polyloop.schedule.storage import Storage

__all__ = ["with_boxes"]

_SET: Final = isl.dim_type.set
_RING: Final = np.dtype(np.uint64)
_PHASES: Final = np.dtype(np.uint32)


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
        given = (*schedule.contract.arguments, *schedule.contract.workspace)
        self.arrays = {a.name: a for a in given if isinstance(a, ArrayArg)}
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
        boxes = [self.statements[name] for name in runs(launch.tree) if box_of(self.statements[name])]
        if not boxes:
            return launch
        storages = {t.name: t for t in launch.temporaries}
        maps: dict[tuple[object, ...], TensorMap] = {}
        for statement in boxes:
            if isinstance(statement.action, Assign):
                self.statements[statement.name] = self.stored(launch, statement, storages, maps)
        own = [statement for statement in boxes if not isinstance(statement.action, Assign)]
        tree = _without_loops(launch.tree, frozenset[str]().union(*map(box_of, boxes)))
        if not own:
            return replace(launch, tree=tree, maps=tuple(maps.values()))
        tiles = list(dict.fromkeys(array_name(statement.lhs) for statement in own))
        rings = {tile: self.fresh(f"{tile}_ring") for tile in tiles}
        phases = {tile: self.fresh(f"{tile}_phases") for tile in tiles}
        targets = (target for name in runs(launch.tree) for target in targets_of(self.statements[name].lhs))
        written = set(map(array_name, targets))
        for statement in own:
            tile = array_name(statement.lhs)
            if (source := array_name(statement.rhs)) in written:
                note = f"'{source}' is written in the same launch, and the engine may read it from before"
                raise self.refuse(statement, "not-a-box", "copies no box", note, OTHERWISE)
            if isinstance(statement.action, StartCopy):
                array = self.arrays[array_name(statement.rhs)]
                test = BoxTest(statement, storages[tile], array, self.known, self.refuse)
                rounds = self.is_cut(launch, tile)
                new = test.started(self.described(test, maps, rounds=rounds), rings[tile])
            else:
                new = self.awaited(statement, rings[tile], phases[tile])
            self.statements[statement.name] = new
        tree = tree if launch.turns.crew is not None else self.separated(tree)
        opening = self.opening(own, [(rings[tile], storages[tile].shape[0]) for tile in tiles])
        more = [Storage(rings[tile], _RING, storages[tile].shape[:1], AddressSpace.LOCAL) for tile in tiles]
        more += [Storage(phases[tile], _PHASES, (), AddressSpace.PRIVATE, cleared=True) for tile in tiles]
        once: Tree = (Run(opening), Barrier(BarrierScope.BLOCK, why="counters of bytes are ready"))
        launch = replace(launch, maps=tuple(maps.values()), temporaries=(*launch.temporaries, *more))
        if launch.order.persists or launch.turns.crew is not None:
            return replace(launch, turns=replace(launch.turns, opening=once), tree=tree)
        return replace(launch, tree=(*once, *tree))

    def is_cut(self, launch: Launch, tile: str) -> bool:
        """Return True if only matrix instructions read *tile* that leave out bits of it: the engine rounds them off."""
        readers = [s for s in map(self.statements.__getitem__, runs(launch.tree)) if tile in variables(s.rhs)]
        products = [s.action.product if isinstance(s.action, AwaitProducts) else s.product for s in readers]
        return all(product is not None and product.intrinsic.cuts for product in products)

    def described(
        self, test: BoxTest, maps: dict[tuple[object, ...], TensorMap], *, rounds: bool = False
    ) -> TensorMap:
        """Return the description of the array of a box, and enter it in *maps*, unless an equal one is there."""
        key = test.key(rounds=rounds)
        if key not in maps:
            maps[key] = test.map(self.fresh(f"{test.array.name}_map"), rounds=rounds)
        return maps[key]

    def stored(
        self, launch: Launch, statement: Statement, storages: Mapping[str, Storage],
        maps: dict[tuple[object, ...], TensorMap],
    ) -> Statement:  # fmt: skip
        """Return the store of the box that *statement* copies from shared memory to an array."""
        target = array_name(statement.lhs)
        tile = storages.get(array_name(statement.rhs)) if isinstance(statement.rhs, p.Subscript) else None
        if target not in self.arrays or tile is None or tile.address_space is not AddressSpace.LOCAL:
            note = "it copies no elements from shared memory to an argument"
            hint = "tag the store of a buffer so: pl.buffer_array(.., default_tag='box'); fetch boxes by pl.pipeline"
            raise self.refuse(statement, "not-a-box", "copies no box", note, hint)
        for name in runs(launch.tree):
            other = self.statements[name]
            arrays = {*map(array_name, targets_of(other.lhs)), *variables(other.rhs), *variables(other.lhs)}
            if name != statement.name and target in arrays:
                note = f"'{other.instruction}' accesses '{target}' in the same launch, and the engine may store later"
                raise self.refuse(statement, "not-a-box", "copies no box", note, PLAIN)
        test = BoxTest(statement, tile, self.arrays[target], self.known, self.refuse)
        return test.stored(self.described(test, maps))

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
        wide = (BarrierScope.BLOCK, BarrierScope.CLUSTER)
        found = [(n, node) for n, node in enumerate(tree) if isinstance(node, Barrier)]
        barriers = [n for n, node in found if node.scope in wide and not node.opens]
        actions = [self.statements[node.name].action if isinstance(node, Run) else None for node in tree]
        starts = [n for n, action in enumerate(actions) if isinstance(action, StartBox)]
        for number, (node, action) in enumerate(zip(tree, actions, strict=True)):
            out.append(node)
            is_last = number + 1 == len(tree) or not isinstance(actions[number + 1], AwaitBox)
            if isinstance(action, AwaitBox) and is_last:
                apart = any(n > number or all(n < start for start in starts) for n in barriers)
                out += [] if apart else [Barrier(BarrierScope.BLOCK, why="no thread misses a copy")]
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
