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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.nodes import array_name
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Run, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Placement
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Launch, StartCopy, Statement, Wait

__all__ = ["TURN", "in_turns"]

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
    found = [_Turns(launch, placement, statements, collectives) for launch in launches]
    if kernel.blocks.ahead and not any(turns.started for turns in found):
        note = "no loop at the outermost level of a launch has copies of boxes that are started ahead"
        hint = 'fetch tiles by pl.pipeline(knl, .., via="tma"), or leave out ahead=True'
        problem = Diagnostic("not-ahead", "there are no copies to start before the next turn", (note,), (hint,))
        raise VerificationError("schedule", kernel.name, [problem])
    if problems := [problem for turns in found for problem in turns.problems()]:
        raise VerificationError("schedule", kernel.name, problems)
    return tuple(turns.launch() for turns in found), tuple(wait for turns in found for wait in turns.waits())


@dataclass(frozen=True)
class _Use:
    """A use of shared storage by the statement *name*: its position in the tree, and whether it writes."""

    position: int
    name: str
    instruction: str
    writes: bool


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
        self.tree = launch.tree
        self.uses = self._uses(collectives)
        if self.started:
            self.tree = self._with_copies_ahead()
            self.uses = self._uses(collectives)

    def launch(self) -> Launch:
        """Return the launch with its barriers."""
        turns = self.original.turns
        order = turns.order if self.started else replace(turns.order, ahead=False)
        return replace(self.original, tree=self._separated(), turns=replace(turns, order=order))

    def waits(self) -> Iterator[Wait]:
        """Yield the waits of a turn for the one before."""
        tree = self._separated()
        found: dict[tuple[str, str, str, str], None] = {}
        for place, first, second in self._conflicts():
            at = next((at for at in _barriers(tree) if _is_between(at, first, second)), None)
            by = "" if at is None else _description(tree, at)
            found[place, first.instruction, second.instruction, by] = None
        yield from (Wait(array, first, second, TURN, Scope.BLOCK, by) for array, first, second, by in found)

    def problems(self) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each use of the places that copies ahead fill, if they would then come too early."""
        filled = self._filled()
        for place in filled:
            for use in self.uses.get(place, ()):
                if self.loop is not None and use.position < self.loop:
                    yield Diagnostic(
                        "not-ahead",
                        f"copies to '{filled[place]}' cannot start before the next turn",
                        (f"'{use.instruction}' uses its place in front of the loop that they are ahead of",),
                        ("let the two have places of their own, or leave out ahead=True",),
                    )
                    return
        for name in self.started:
            statement = self.statements[name]
            if statement.predicates or statement.bounds:
                yield Diagnostic(
                    "not-ahead",
                    f"copies to '{array_name(statement.lhs)}' cannot start before the next turn",
                    (f"data decides whether '{statement.instruction}' copies",),
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
                        found.setdefault(self.places[array], []).append(_Use(position, name, id_, writes))
                collective = collectives.get(name)
                if collective is not None and collective.scratch in self.places:
                    found.setdefault(self.places[collective.scratch], []).append(_Use(position, name, id_, True))
        return found

    def _conflicts(self) -> Iterator[tuple[str, _Use, _Use]]:
        """Yield the pairs of uses of one place in different turns, one of them a write."""
        for place, uses in self.uses.items():
            for first in uses:
                yield from ((place, first, second) for second in uses if first.writes or second.writes)

    def _separated(self) -> Tree:
        """Return the tree with a barrier at its end, if no other one separates all conflicts."""
        barriers = [*_barriers(self.tree)]
        if all(any(_is_between(at, first, second) for at in barriers) for _, first, second in self._conflicts()):
            return self.tree
        return (*self.tree, Barrier())

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

    def _filled(self) -> dict[str, str]:
        """Return the places that copies ahead fill, each with its array."""
        arrays = [array_name(self.statements[name].lhs) for name in self.started]
        return {self.places[array]: array for array in arrays if array in self.places}

    def _with_copies_ahead(self) -> Tree:
        """Return the tree with a barrier behind the last use of places that copies ahead fill, which starts them."""
        tree = self.original.tree
        last = max(use.position for place in self._filled() for use in self.uses[place])
        after = tree[last + 1 : last + 2]
        known = [node for node in after if isinstance(node, Barrier) and node.scope is Scope.BLOCK]
        barrier = replace(known[0] if known else Barrier(), starts=True)
        return (*tree[: last + 1], barrier, *tree[last + 1 + len(known) :])

    # }}}


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
