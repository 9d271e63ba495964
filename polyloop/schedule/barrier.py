"""Barriers: derived from exact conflicts, placed at the fewest positions.

A conflict between threads requires a barrier in an interval of positions of one block of the loop tree.  For a
loop-independent conflict, it is the interval between the two statements.  For a loop-carried one, it is all positions
after the first or before the second.  The positions of a loop's body form a circle, so intervals are arcs.  The fewest
positions that stab all arcs are found exactly; of several solutions the latest is taken.  A conflict within a warp
needs a barrier of the warp or of the block.  Barriers of the user and ends of launches count as present from the start.
So do barriers in inner loops, if they are behind the first statement in its iteration, or before the second in its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from polyloop.errors import Diagnostic
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree
from polyloop.mapping.thread_mapping import Placement
from polyloop.sync.host_loops import Block
from polyloop.sync.races import Need, needs, shared_arrays
from polyloop.sync.storage_aliasing import pool_needs
from polyloop.verification.register_operands import held_arrays

__all__ = [
    "NO_MEETINGS",
    "Meeting",
    "Requirement",
    "arrays_in_registers",
    "fewest_positions",
    "idle_barriers",
    "needs_of",
    "place_barriers",
    "requirements",
    "shuffled_arrays",
]

NO_CUTS: Final[Mapping[Block, Sequence[int]]] = {}


@dataclass(frozen=True)
class Meeting:
    """Barrier inside of a statement, which separates what is before it from what is behind.

    Attributes
    ----------
    scope
        The threads that meet.
    passed
        Statements of the same block with their places: each iteration that executes one of them passes the barrier.
    """

    scope: Scope
    passed: Mapping[str, Block]


NO_MEETINGS: Final[Mapping[str, Meeting]] = {}


def shuffled_arrays(placement: Placement, limits: DeviceLimits) -> frozenset[str]:
    """Return the temporaries that lanes of a warp exchange by shuffles, where the device has these."""
    temporaries = placement.program.kernel.temporaries.values()
    return frozenset(t.name for t in temporaries if t.is_shuffled and limits.has_shuffles)


def arrays_in_registers(placement: Placement, limits: DeviceLimits) -> frozenset[str]:
    """Return the temporaries of which lanes hold operands of matrix instructions, where the device has these."""
    return frozenset(held_arrays(placement) if limits.has_shuffles else ())


def needs_of(placement: Placement, limits: DeviceLimits) -> list[Need]:
    """Return the conflicts between threads over memory, each of which needs synchronization."""
    shuffled = shuffled_arrays(placement, limits) | arrays_in_registers(placement, limits)
    shared = (array for array in shared_arrays(placement) if array not in shuffled)
    found = [need for array in shared for need in needs(placement, array, limits.warp_size)]
    return [*found, *pool_needs(placement, limits.warp_size)]


@dataclass(frozen=True)
class Requirement:
    """Requirement of a barrier of ``scope`` in ``block``, after child ``first`` and before child ``second``.

    If ``wraps``, the second statement runs in a later iteration, and the barrier must be after ``first`` or before
    ``second``.  If it is then not ``adjacent``, there are whole iterations in between, and any position will do.
    ``before`` and ``behind`` are the places of the two statements.
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
        """Return the requirement of a conflict between statements at two places, carried by *loop* or by no loop."""
        if loop is None:
            depth = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
        else:
            depth = first.index(loop) + 1
        a, b = first[depth], second[depth]
        assert isinstance(a, int), "a path alternates positions and loops"
        assert isinstance(b, int), "a path alternates positions and loops"
        return Requirement(first[:depth], a, b, loop is not None, adjacent, scope, first, second)

    def met_by(self, position: int) -> bool:
        """Return True if a barrier just before child *position* of the block meets the requirement."""
        if not self.wraps:
            return self.first < position <= self.second
        return not self.adjacent or position > self.first or position <= self.second

    def met_within(self, child: int, meeting: Meeting) -> bool:
        """Return True if the barrier inside of statement *child* of the block meets the requirement."""
        if not _is_wide(meeting.scope, self):
            return False
        places = meeting.passed.values()
        after_first = child > self.first and self.before in places
        before_second = child < self.second and self.behind in places
        if not self.wraps:
            return self.first < child < self.second and (after_first or before_second)
        return after_first or before_second  # iterations in between need not execute it

    def met_inside(self, block: Block, position: int) -> bool:
        """Return True if a barrier in *block*, an inner loop of a child, meets the requirement.

        All threads must pass it behind the first statement in the same iteration, or before the second one in its
        iteration.
        """
        depth = len(block)
        if depth <= len(self.block):
            return False
        after_first = self.before[:depth] == block and position > int(self.before[depth])
        return after_first or (self.behind[:depth] == block and position <= int(self.behind[depth]))


def requirements(placement: Placement, needs: Iterable[Need]) -> list[Requirement]:
    """Return the requirements of the *needs*."""
    places = placement.program.places
    found: dict[Requirement, None] = {}
    for need in needs:
        if need.scope is None:
            continue
        conflict = need.conflict
        first, second = places[conflict.first.name], places[conflict.second.name]
        found.setdefault(Requirement.between(first, second, conflict.loop, conflict.adjacent, need.scope))
    return list(found)


def idle_barriers(placement: Placement, needs: Iterable[Need]) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the user's barriers that no conflict needs: their ids, with a warning."""
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
    """Return the fewest positions (before child p, or at the end) that meet the requirements *wanted* of one block.

    There is a barrier already at the positions *present*, which are not returned.  Of several solutions, one is
    returned that leaves the fewest further positions for *others*, and of these the latest.

    Notes
    -----
    Every solution has a position that meets the first requirement.  With that one fixed, the others are intervals of
    the line that begins behind it, for which the greedy choice is optimal: the last position of the interval that ends
    first.
    """
    left = [r for r in wanted if not any(r.met_by(position) for position in present)]
    if not left:
        return []
    begins = [position for position in range(length + 1) if left[0].met_by(position)]
    choices = [_from(begin, left, length) for begin in begins]
    more = {tuple(chosen): len(fewest_positions(others, length, [*present, *chosen])) for chosen in choices}
    return min(choices, key=lambda chosen: (len(chosen), more[tuple(chosen)], -sum(chosen)))


def _from(begin: int, wanted: Sequence[Requirement], length: int) -> list[int]:
    """Return the fewest positions, *begin* among them, that meet the requirements *wanted*."""
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
    tree: Tree,
    wanted: Sequence[Requirement],
    cuts: Mapping[Block, Sequence[int]] = NO_CUTS,
    meetings: Mapping[str, Meeting] = NO_MEETINGS,
) -> Tree:
    """Return *tree* with barriers for the requirements *wanted* that no other barrier meets.

    Launches end at the positions *cuts* of blocks.  The statements *meetings* have a barrier inside, of the block or of
    the cluster.
    """
    blocks: dict[Block, list[Requirement]] = {}
    for requirement in wanted:
        blocks.setdefault(requirement.block, []).append(requirement)
    return _filled(tree, (), blocks, cuts, meetings)[0]


_Placed: TypeAlias = list[tuple[Block, int, Scope]]
"""Barriers of a tree: block, position in it before any barrier was placed, and scope."""


def _filled(
    nodes: Tree, prefix: Block, blocks: Mapping[Block, Sequence[Requirement]], cuts: Mapping[Block, Sequence[int]],
    meetings: Mapping[str, Meeting],
) -> tuple[Tree, _Placed]:  # fmt: skip
    """Return *nodes* with barriers, placed in inner loops first, and the list of all barriers in them."""
    inside: _Placed = []
    bodies: dict[int, Tree] = {}
    for number, node in enumerate(nodes):
        if isinstance(node, Loop):
            bodies[number], found = _filled(node.body, (*prefix, number, node.iname), blocks, cuts, meetings)
            inside += found
    present = [*cuts.get(prefix, ()), *(number for number, node in enumerate(nodes) if isinstance(node, Barrier))]
    inner = [(n, node.name) for n, node in enumerate(nodes) if isinstance(node, Run)]
    middles = [(n, meetings[name]) for n, name in inner if name in meetings]
    scopes: dict[int, Scope] = {}
    asked = [r for r in blocks.get(prefix, ()) if not any(r.met_within(n, middle) for n, middle in middles)]
    asked = [r for r in asked if not any(_serves(r, *barrier) for barrier in inside)]
    of_warp = [r for r in asked if r.scope is Scope.WARP]
    of_block = [r for r in asked if r.scope is Scope.BLOCK]
    of_cluster = [r for r in asked if r.scope is Scope.CLUSTER]
    ends = cuts.get(prefix, ())  # barriers of the user's are those of a block
    scopes.update(dict.fromkeys(fewest_positions(of_cluster, len(nodes), ends, [*of_block, *of_warp]), Scope.CLUSTER))
    present += scopes
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
    """Return True if a barrier in an inner loop meets *requirement*."""
    return _is_wide(scope, requirement) and requirement.met_inside(block, position)


def _is_wide(scope: Scope, requirement: Requirement) -> bool:
    """Return True if all threads that *requirement* is about meet at a barrier of *scope*."""
    return _WIDTHS.index(scope) >= _WIDTHS.index(requirement.scope)


_WIDTHS: Final = (Scope.WARP, Scope.BLOCK, Scope.CLUSTER, Scope.GRID)
