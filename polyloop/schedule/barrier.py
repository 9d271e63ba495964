"""Barriers: derived from exact conflicts, placed at the fewest positions.

A conflict between threads asks for a barrier in an interval of positions of one block of the loop tree:
between the two statements if the text orders them, anywhere after the first or before the second
if a loop around them does.  The positions of a loop's body lie on a circle, so these are arcs, and the fewest
positions that stab all of them are found exactly; of several such choices the latest is taken.
Where the conflict stays within a warp, a barrier of the warp is enough, and those of the block serve as well.
Barriers that the user wrote, and the ends of launches, are positions that are there from the start; so are barriers
further inside, in the iteration of the first statement behind it or in that of the second before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyloop.errors import Diagnostic
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree
from polyloop.mapping.thread_mapping import Placement
from polyloop.sync.races import Need, needs, shared_arrays
from polyloop.sync.storage_aliasing import pool_needs

__all__ = [
    "Requirement",
    "fewest_positions",
    "idle_barriers",
    "needs_of",
    "place_barriers",
    "requirements",
    "shuffled_arrays",
]

Block = tuple[int | str, ...]


def shuffled_arrays(placement: Placement, limits: DeviceLimits) -> frozenset[str]:
    """Return the temporaries that lanes of a warp exchange by shuffles, where the device has these."""
    temporaries = placement.program.kernel.temporaries.values()
    return frozenset(t.name for t in temporaries if t.is_shuffled and limits.has_shuffles)


def needs_of(placement: Placement, limits: DeviceLimits) -> list[Need]:
    """Return the conflicts between threads over memory, each of which something has to settle."""
    shuffled = shuffled_arrays(placement, limits)
    shared = (array for array in shared_arrays(placement) if array not in shuffled)
    found = [need for array in shared for need in needs(placement, array, limits.warp_size)]
    return [*found, *pool_needs(placement, limits.warp_size)]


@dataclass(frozen=True)
class Requirement:
    """A barrier of *scope* is needed in *block*, after child ``first`` and before child ``second``.

    Where ``wraps``, the second follows in a later iteration: after ``first`` or before ``second``; where it is
    also not ``adjacent``, any position will do.  ``before`` and ``behind`` are the places of the two statements.
    """

    block: Block
    first: int
    second: int
    wraps: bool
    adjacent: bool = True
    scope: Scope = Scope.BLOCK
    before: Block = ()
    behind: Block = ()

    @staticmethod
    def between(first: Block, second: Block, loop: str | None, adjacent: bool, scope: Scope) -> Requirement:
        """Return what a conflict asks for between statements at two places, ordered by *loop* or by the text."""
        if scope is Scope.GRID:
            depth = 0
        elif loop is None:
            depth = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
        else:
            depth = first.index(loop) + 1
        a, b = first[depth], second[depth]
        assert isinstance(a, int), "a path alternates positions and loops"
        assert isinstance(b, int), "a path alternates positions and loops"
        return Requirement(first[:depth], a, b, loop is not None, adjacent, scope, first, second)

    def met_by(self, position: int) -> bool:
        """Return whether a barrier just before child *position* of the block fulfils this."""
        if not self.wraps:
            return self.first < position <= self.second
        return not self.adjacent or position > self.first or position <= self.second

    def met_within(self, child: int) -> bool:
        """Return whether a barrier in the middle of child *child* of the block, a statement, fulfils this."""
        if not self.wraps:
            return self.first < child < self.second
        return not self.adjacent or child > self.first or child < self.second

    def met_inside(self, block: Block, position: int) -> bool:
        """Return whether a barrier in *block*, which lies inside a child, fulfils this.

        All threads are at it in the iteration of the first statement, after that, or in the iteration of the second one
        before it.
        """
        depth = len(block)
        if depth <= len(self.block):
            return False
        after_first = self.before[:depth] == block and position > int(self.before[depth])
        return after_first or (self.behind[:depth] == block and position <= int(self.behind[depth]))


def requirements(placement: Placement, needs: Iterable[Need]) -> list[Requirement]:
    """Return the barrier intervals of the *needs*; those of the whole grid stand in the outermost block."""
    places = placement.program.places
    found: dict[Requirement, None] = {}
    for need in needs:
        if need.scope is None:
            continue
        conflict = need.conflict
        first, second = places[conflict.first.name], places[conflict.second.name]
        loop = None if need.scope is Scope.GRID else conflict.loop
        found.setdefault(Requirement.between(first, second, loop, conflict.adjacent, need.scope))
    return list(found)


def idle_barriers(placement: Placement, needs: Iterable[Need]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the user's barriers at which no threads have to meet: their ids, and what to say about them."""
    wanted = requirements(placement, needs)
    for barrier in placement.program.kernel.barriers:
        place = _position_of(placement.program.tree, barrier.id)
        assert place is not None, f"barrier {barrier.id} stands nowhere in the tree"
        block, position = place
        is_grid = barrier.scope is Scope.GRID
        if not (placement.axes.all if is_grid else placement.axes.local):
            continue
        serves = [r for r in wanted if is_grid or r.scope is not Scope.GRID]
        if not any(r.met_by(position) if r.block == block else r.met_inside(block, position) for r in serves):
            yield barrier.id, Diagnostic(
                "idle-barrier",
                f"no threads have to meet at barrier '{barrier.id}'",
                ("no element is accessed by different threads before and behind it, and written by one of them",),
                ("drop it: what barriers the program needs is found without it",),
                sites=(barrier.site(),),
            )


def _position_of(nodes: Tree, name: str, prefix: Block = ()) -> tuple[Block, int] | None:
    """Return the block of the user's barrier *name*, and its position there."""
    for number, node in enumerate(nodes):
        if isinstance(node, Barrier) and node.name == name:
            return prefix, number
        inside = (*prefix, number, node.iname) if isinstance(node, Loop) else ()
        if isinstance(node, Loop) and (found := _position_of(node.body, name, inside)) is not None:
            return found
    return None


def fewest_positions(
    wanted: Sequence[Requirement], length: int, present: Sequence[int] = (), others: Sequence[Requirement] = ()
) -> list[int]:
    """Return the fewest positions (before child p, or at the end) that fulfil *wanted*, all in one block.

    At the positions *present* there is a barrier already; they are not returned.  Of several choices with as few
    positions it is one that leaves the fewest to ask for because of *others*, and of those the one with the latest.

    Notes
    -----
    Some position of every choice fulfils the first requirement.  With that one fixed, what is left are intervals of
    the line that begins behind it, for which taking the last position of the interval that ends first is optimal.
    """
    left = [r for r in wanted if not any(r.met_by(position) for position in present)]
    if not left:
        return []
    begins = [position for position in range(length + 1) if left[0].met_by(position)]
    choices = [_from(begin, left, length) for begin in begins]
    more = {tuple(chosen): len(fewest_positions(others, length, [*present, *chosen])) for chosen in choices}
    return min(choices, key=lambda chosen: (len(chosen), more[tuple(chosen)], -sum(chosen)))


def _from(begin: int, wanted: Sequence[Requirement], length: int) -> list[int]:
    """Return the fewest positions that fulfil *wanted*, of which one is *begin*."""
    line = [*range(begin + 1, length + 1), *range(begin)]
    arcs = [
        [place for place, position in enumerate(line) if r.met_by(position)] for r in wanted if not r.met_by(begin)
    ]
    chosen = [-1]
    for arc in sorted(arcs, key=lambda arc: arc[-1]):
        if arc[0] > chosen[-1]:
            chosen.append(arc[-1])
    return sorted([begin, *(line[place] for place in chosen[1:])])


def place_barriers(
    tree: Tree, wanted: Sequence[Requirement], cuts: Sequence[int] = (), meetings: Collection[str] = ()
) -> Tree:
    """Return *tree* with the barriers that *wanted* asks for, where none of the user's does.

    At the positions *cuts* of the outermost block a launch ends.  In the middle of the statements *meetings* all
    threads of a block wait for each other.
    """
    blocks: dict[Block, list[Requirement]] = {}
    for requirement in wanted:
        blocks.setdefault(requirement.block, []).append(requirement)
    return _filled(tree, (), blocks, cuts, meetings)[0]


_Placed: TypeAlias = list[tuple[Block, int, Scope]]
"""Barriers that there are: block, position in it as the tree was, and scope."""


def _filled(
    nodes: Tree, prefix: Block, blocks: Mapping[Block, Sequence[Requirement]], cuts: Sequence[int],
    meetings: Collection[str],
) -> tuple[Tree, _Placed]:  # fmt: skip
    """Return *nodes* with their barriers, and all barriers in them; what is further inside comes first."""
    inside: _Placed = []
    bodies: dict[int, Tree] = {}
    for number, node in enumerate(nodes):
        if isinstance(node, Loop):
            bodies[number], found = _filled(node.body, (*prefix, number, node.iname), blocks, (), meetings)
            inside += found
    present = [*cuts, *(number for number, node in enumerate(nodes) if isinstance(node, Barrier))]
    middles = [number for number, node in enumerate(nodes) if isinstance(node, Run) and node.name in meetings]
    scopes: dict[int, Scope] = {}
    asked = [r for r in blocks.get(prefix, ()) if not any(map(r.met_within, middles))]
    asked = [r for r in asked if not any(_serves(r, *barrier) for barrier in inside)]
    of_warp = [r for r in asked if r.scope is Scope.WARP]
    of_block = [r for r in asked if r.scope is Scope.BLOCK]
    scopes.update(dict.fromkeys(fewest_positions(of_block, len(nodes), present, of_warp), Scope.BLOCK))
    scopes.update(dict.fromkeys(fewest_positions(of_warp, len(nodes), [*present, *scopes]), Scope.WARP))
    result: list[Node] = []
    for number, node in enumerate(nodes):
        if number in scopes:
            result.append(Barrier(scopes[number]))
        assert not isinstance(node, Barrier) or node.name is not None, "barriers are placed once"
        result.append(Loop(node.iname, bodies[number]) if isinstance(node, Loop) else node)
    if len(nodes) in scopes:
        result.append(Barrier(scopes[len(nodes)]))
    mine = [(prefix, number, node.scope) for number, node in enumerate(nodes) if isinstance(node, Barrier)]
    return tuple(result), [*inside, *mine, *((prefix, number, scope) for number, scope in scopes.items())]


def _serves(requirement: Requirement, block: Block, position: int, scope: Scope) -> bool:
    """Return whether a barrier further inside is enough for *requirement*."""
    return (scope is not Scope.WARP or requirement.scope is Scope.WARP) and requirement.met_inside(block, position)
