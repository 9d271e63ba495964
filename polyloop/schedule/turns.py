"""Blocks of the grid that the threads of one block execute in turn: barriers between turns, and copies ahead.

Blocks have no order in the program, and any two of them may follow one another.  So an access in one turn conflicts
with each access in the next to the same shared storage, if one of them writes: another block of the grid may use
any element.  The turns are iterations of a loop around the tree of a launch, and the conflict is carried by it.

A barrier at the outermost level of the tree separates ``first`` from ``second`` of the next turn if it is behind
``first`` or before ``second``: it is executed once in each turn, by all threads.  If none of them does, one is added at
the end.

::

    copies of the first iterations; loop; rest
    ->
    copies of the first iterations; for each turn: {loop; barrier; copies for the next turn; rest}

The first copies of the next turn are *ahead* of its other statements: behind a barrier that follows the last access to
the places that they fill.  Nothing else may use these places before their loop: it would come after the copies then.
What shares storage with a ring lies at its end, out of the way of the slots that these copies fill.

Boxes that the copy engine stores behind that barrier are *late*: the thread that stores them does not wait until they
have been read, but goes on to the next turn.  There it waits before it starts the next copies into their place, and
before the barrier behind which threads may write there.  The barrier in front of the stores has kept everything that
wrote their place apart from them, so between turns no other barrier is needed for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Run, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Placement
from polyloop.poly.affine import affine_of
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Assign, AwaitCopy, Launch, StartCopy, Statement, Wait
from polyloop.schedule.storage import Storage, pool_spans

__all__ = ["TURN", "first_iterations", "in_turns"]

TURN: Final = "blocks"
"""Name of the loop over turns in reports."""


def in_turns(
    placement: Placement, launches: tuple[Launch, ...], statements: Mapping[str, Statement],
    collectives: Mapping[str, Collective],
) -> tuple[tuple[Launch, ...], tuple[Wait, ...]]:  # fmt: skip
    """Return *launches* with barriers between turns, and the waits of one turn for the one before.

    Raises
    ------
    VerificationError
        ``not-ahead``.
    """
    kernel = placement.program.kernel
    if not kernel.blocks.persists:
        return launches, ()
    staying = [launch for launch in launches if not kernel.blocks.ahead or _has_copies(launch, statements)]
    found = {launch.name: _Turns(launch, placement, statements, collectives) for launch in staying}
    if kernel.blocks.ahead and not any(turns.started for turns in found.values()):
        note = "no loop at the outermost level of a launch has copies of boxes that are started ahead"
        hint = 'fetch tiles by pl.pipeline(knl, .., via="tma"), or leave out ahead=True'
        problem = Diagnostic("not-ahead", "there are no copies to start before the next turn", (note,), (hint,))
        raise VerificationError("schedule", kernel.name, [problem])
    if problems := [problem for turns in found.values() for problem in turns.problems()]:
        raise VerificationError("schedule", kernel.name, problems)
    made = tuple(found[one.name].launch() if one.name in found else _without_turns(one) for one in launches)
    return made, tuple(wait for turns in found.values() for wait in turns.waits())


def _has_copies(launch: Launch, statements: Mapping[str, Statement]) -> bool:
    """Return True if the blocks of a launch start copies that arrive later."""
    return any(isinstance(statements[name].action, StartCopy) for name in runs(launch.tree))


def _without_turns(launch: Launch) -> Launch:
    """Return a launch each of whose blocks is one of the grid: it has no copies that would come sooner."""
    order = replace(launch.turns.order, most=0, ahead=False)
    return replace(launch, turns=replace(launch.turns, order=order))


@dataclass(frozen=True)
class _Use:
    """A use of shared storage by the statement *name*: its position in the tree, whether it writes, and which bytes."""

    position: int
    name: str
    instruction: str
    array: str
    writes: bool
    span: tuple[int, int]


def _subscripts(value: Expression) -> frozenset[str]:
    """Return the names in the subscripts of an element."""
    indices = value.index_tuple if isinstance(value, p.Subscript) else ()
    return frozenset[str]().union(*map(variables, indices))


class _Turns:
    """Turns of a launch: the uses of shared storage in its tree."""

    def __init__(
        self, launch: Launch, placement: Placement, statements: Mapping[str, Statement],
        collectives: Mapping[str, Collective],
    ) -> None:  # fmt: skip
        self.original, self.placement, self.statements = launch, placement, statements
        shared = [t for t in launch.temporaries if t.address_space is AddressSpace.LOCAL and t.lane is None]
        self.places = {t.name: t.pool or t.name for t in shared} if prod(launch.local_size) > 1 else {}
        self.ahead = placement.program.kernel.blocks.ahead
        self.loop = self._first_loop() if self.ahead else None
        self.started = self._starts(self.loop)
        self.filled = self._filled()
        self.temporaries = self._out_of_the_way()
        self.spans = pool_spans(self.temporaries)
        self.tree = launch.tree
        self.uses = self._uses(collectives)
        self.late = frozenset[str]()
        if self.started:
            self.tree = self._with_copies_ahead()
            self.uses = self._uses(collectives)
            self.late = self._late_stores()

    def launch(self) -> Launch:
        """Return the launch with its barriers."""
        turns = self.original.turns
        order = turns.order if self.started else replace(turns.order, ahead=False)
        turns = replace(turns, order=order, late=self.late)
        return replace(self.original, tree=self._separated(), temporaries=self.temporaries, turns=turns)

    def waits(self) -> Iterator[Wait]:
        """Yield the waits of a turn for the one before."""
        tree = self._separated()
        found: dict[tuple[str, str, str, str], None] = {}
        for place, first, second in self._conflicts():
            at = next((at for at in _barriers(tree) if _is_between(at, first, second)), None)
            by = "" if at is None else _description(tree, at)
            if at is None and self._is_waited_for(first, second):
                by = "the thread that stores boxes, before it starts copies into their place"
            found[place, first.instruction, second.instruction, by] = None
        yield from (Wait(array, first, second, TURN, Scope.BLOCK, by) for array, first, second, by in found)

    def problems(self) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each use of the places that copies ahead fill, if they would then come too early."""
        for array in self.filled:
            for use in self._overlapping(array):
                if self.loop is not None and use.position < self.loop:
                    yield Diagnostic(
                        "not-ahead",
                        f"copies to '{array}' cannot start before the next turn",
                        (f"'{use.instruction}' uses its place in front of the loop that they are ahead of",),
                        ("let the two have places of their own, or leave out ahead=True",),
                    )
                    return
        for name in self.started:
            statement = self.statements[name]
            scalars = _subscripts(statement.rhs) & self.placement.program.kernel.temporaries.keys()
            if statement.predicates or statement.bounds or scalars:
                which = f"which elements '{statement.instruction}' copies, by {', '.join(sorted(scalars))}"
                decides = which if scalars else f"whether '{statement.instruction}' copies"
                yield Diagnostic(
                    "not-ahead",
                    f"copies to '{array_name(statement.lhs)}' cannot start before the next turn",
                    (f"data decides {decides}",),
                    ("leave out ahead=True",),
                )
                return

    # {{{ uses

    def _uses(self, collectives: Mapping[str, Collective]) -> dict[str, list[_Use]]:
        """Return the uses of each place in shared memory."""
        found: dict[str, list[_Use]] = {}
        for position, node in enumerate(self.tree):
            for name in runs((node,)):
                lowered = self.placement.statements[name].lowered
                id_ = lowered.instruction.id
                for writes, accesses in ((True, lowered.writes), (False, lowered.reads)):
                    for array in {access.array for access in accesses} & self.places.keys():
                        use = _Use(position, name, id_, array, writes, self.spans[array])
                        found.setdefault(self.places[array], []).append(use)
                collective = collectives.get(name)
                if collective is not None and collective.scratch in self.places:
                    use = _Use(position, name, id_, collective.scratch, True, self.spans[collective.scratch])
                    found.setdefault(self.places[collective.scratch], []).append(use)
        return found

    def _conflicts(self) -> Iterator[tuple[str, _Use, _Use]]:
        """Yield the pairs of uses of one place in different turns, one of them a write."""
        for place, uses in self.uses.items():
            for first in uses:
                for second in uses:
                    if (first.writes or second.writes) and _overlap(first.span, second.span):
                        yield place, first, second

    def _separated(self) -> Tree:
        """Return the tree with a barrier at its end, if no other one separates all conflicts."""
        conflicts = ((first, second) for _, first, second in self._conflicts())
        if all(self._is_separated(first, second) or self._is_waited_for(first, second) for first, second in conflicts):
            return self.tree
        return (*self.tree, Barrier(why="the next block uses the same memory"))

    def _is_separated(self, first: _Use, second: _Use) -> bool:
        return any(_is_between(at, first, second) for at in _barriers(self.tree))

    def _is_waited_for(self, first: _Use, second: _Use) -> bool:
        """Return whether copies by which all values of *second* come are started behind a wait for a late store.

        That store is *first*, or a barrier is between the two.
        """
        if second.position != self.loop or not self._is_copied_ahead(second.array):
            return False
        stores = [use for uses in self.uses.values() for use in uses if use.name in self.late]
        return any(
            store.name == first.name or any(first.position < at < store.position for at in _barriers(self.tree))
            for store in stores
            if _overlap(store.span, first.span) and self.places[store.array] == self.places[first.array]
        )

    def _is_copied_ahead(self, array: str) -> bool:
        """Return whether copies ahead fill *array*, and nothing but copies of boxes writes it."""
        writes = {use.name for use in self.uses[self.places[array]] if use.array == array and use.writes}
        return array in self.filled and all(
            isinstance(self.statements[name].action, AwaitCopy) for name in writes.difference(self.started)
        )

    def _late_stores(self) -> frozenset[str]:
        """Return the statements that store boxes behind the barrier of the starts, and may be waited for later.

        What else writes their places are copies in the loop, started by the thread that waits, and statements between
        that barrier and the store.
        """
        at = next(at for at in _barriers(self.tree) if self._starts_at(at))
        found = set[str]()
        for uses in self.uses.values():
            for own in uses:
                if own.position > at and self._stores_box(own):
                    writes = (use for use in uses if use.writes and _overlap(use.span, own.span))
                    others = (use for use in writes if not self._is_copied_ahead(use.array))
                    if all(at < use.position < own.position for use in others):
                        found.add(own.name)
        return frozenset(found)

    def _stores_box(self, use: _Use) -> bool:
        action = self.statements[use.name].action if use.name in self.statements else None
        return isinstance(action, Assign) and bool(action.box) and not use.writes

    def _starts_at(self, at: int) -> bool:
        node = self.tree[at]
        return isinstance(node, Barrier) and node.starts

    # }}}
    # {{{ copies ahead

    def _first_loop(self) -> int | None:
        """Return the position of the first loop with copies of boxes."""
        loops = (at for at, node in enumerate(self.original.tree) if isinstance(node, Loop))
        return next(filter(self._starts, loops), None)

    def _starts(self, position: int | None) -> list[str]:
        """Return the statements in the node at *position* that start copies of boxes."""
        names = () if position is None else runs((self.original.tree[position],))
        actions = {name: self.statements[name].action for name in names if name in self.statements}
        return [name for name, action in actions.items() if isinstance(action, StartCopy) and action.box]

    def _filled(self) -> dict[str, tuple[int, int]]:
        """Return the arrays that copies ahead fill, each with the bytes that they fill of its place."""
        found = dict[str, tuple[int, int]]()
        for name in self.started:
            array = array_name(self.statements[name].lhs)
            if array in self.places:
                slots = self._slots_ahead(name)
                storage = next(t for t in self.original.temporaries if t.name == array)
                bytes_of_slot = storage.distances[0] * storage.dtype.itemsize if slots else 0
                whole = bytes_of_slot * storage.shape[0] == storage.nbytes
                found[array] = (0, bytes_of_slot * slots if slots and whole else storage.nbytes)
        return found

    def _slots_ahead(self, name: str) -> int:
        """Return the slots of a ring that copies ahead fill, from its first one on; 0 if that is not known."""
        assert self.loop is not None, "copies are started in a loop"
        node = self.original.tree[self.loop]
        assert isinstance(node, Loop), "copies are started in a loop"
        numbers = first_iterations(node, self.started, self.statements)
        lhs = self.statements[name].lhs
        if numbers is None or not isinstance(lhs, p.Subscript):
            return 0
        slot = affine_of(lhs.index_tuple[0])
        if slot is None or slot.names() != {node.iname}:
            return 0
        values = {slot.evaluate({node.iname: number}) for number in numbers}
        return len(values) if values == set(range(len(values))) else 0

    def _overlapping(self, array: str) -> Iterator[_Use]:
        """Yield the uses of the bytes that copies ahead fill for *array*."""
        span = self.filled[array]
        yield from (use for use in self.uses.get(self.places[array], ()) if _overlap(use.span, span))

    def _out_of_the_way(self) -> tuple[Storage, ...]:
        """Return the temporaries; those that share storage with a ring that is filled ahead lie at its end."""
        pools = {self.places[array] for array in self.filled}
        moved = {t.name for t in self.original.temporaries if t.pool in pools and t.name not in self.filled}
        return tuple(replace(t, at_end=t.name in moved) for t in self.original.temporaries)

    def _with_copies_ahead(self) -> Tree:
        """Return the tree with a barrier behind the last use of places that copies ahead fill, which starts them."""
        tree = self.original.tree
        last = max(use.position for array in self.filled for use in self._overlapping(array))
        after = tree[last + 1 : last + 2]
        known = [node for node in after if isinstance(node, Barrier) and node.scope is Scope.BLOCK]
        barrier = replace(known[0] if known else Barrier(), starts=True)
        return (*tree[: last + 1], barrier, *tree[last + 1 + len(known) :])

    # }}}


def first_iterations(loop: Loop, starts: Collection[str], statements: Mapping[str, Statement]) -> range | None:
    """Return the first iterations of *loop*, which have the copies *starts* alone; None if they are not known."""
    least = [_least(statements[name], loop.iname) for name in runs(loop.body) if name not in starts]
    begins = [_least(statements[name], loop.iname) for name in starts]
    if not least or any(number is None for number in (*least, *begins)):
        return None
    return range(min(n for n in begins if n is not None), min(n for n in least if n is not None))


def _least(statement: Statement, iname: str) -> int | None:
    return constant_bounds(statement.domain, statement.dims.index(iname))[0] if iname in statement.dims else None


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] < right[1] and right[0] < left[1]


def _barriers(tree: Tree) -> Iterator[int]:
    """Yield the positions of the barriers of the block at the outermost level."""
    return (at for at, node in enumerate(tree) if isinstance(node, Barrier) and node.scope is Scope.BLOCK)


def _is_between(at: int, first: _Use, second: _Use) -> bool:
    """Return True if a barrier is behind the first use, or in front of the second one in the next turn."""
    return first.position < at or at < second.position


def _description(tree: Tree, at: int) -> str:
    """Return the description of the barrier at a position."""
    match tree[at + 1 : at + 2]:
        case (Run(name),):
            return f"the block barrier before '{name}' in loop '{TURN}'"
        case (Loop(iname),):
            return f"the block barrier before loop '{iname}' in loop '{TURN}'"
        case _:
            return f"the block barrier at the end of loop '{TURN}'"
