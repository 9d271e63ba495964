"""Barriers: derived from exact conflicts, placed at the fewest positions.

A conflict between threads asks for a barrier in an interval of positions of one block of the loop tree:
between the two statements if the text orders them, anywhere after the first or before the second
if a loop around them does.  Intervals in a line are stabbed greedily from the left, which is optimal;
those that wrap around a loop take a position that is already there if one fits.  Barriers that the user wrote are
positions that are there from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from polyloop.analysis.placement import Placement
from polyloop.analysis.race import Need
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree

__all__ = ["Requirement", "place_barriers", "requirements"]

Block = tuple[int | str, ...]


@dataclass(frozen=True)
class Requirement:
    """A barrier is needed in *block*, after child ``first`` and before child ``second``.

    Where ``wraps``, the second follows in a later iteration: after ``first`` or before ``second``; where it is
    also not ``adjacent``, any position will do.
    """

    block: Block
    first: int
    second: int
    wraps: bool
    adjacent: bool = True

    def met_by(self, position: int) -> bool:
        """Return whether a barrier just before child *position* fulfils this."""
        if not self.wraps:
            return self.first < position <= self.second
        return not self.adjacent or position > self.first or position <= self.second


def requirements(placement: Placement, needs: Iterable[Need]) -> list[Requirement]:
    """Return where the block-wide *needs* ask for barriers."""
    places = placement.program.places
    found: dict[Requirement, None] = {}
    for need in needs:
        if need.scope is not Scope.BLOCK:
            continue
        first, second = places[need.conflict.first.name], places[need.conflict.second.name]
        if need.conflict.loop is None:
            depth = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
        else:
            depth = first.index(need.conflict.loop) + 1
        a, b = first[depth], second[depth]
        assert isinstance(a, int), "a path alternates positions and loops"
        assert isinstance(b, int), "a path alternates positions and loops"
        wraps = need.conflict.loop is not None
        found.setdefault(Requirement(first[:depth], a, b, wraps, need.conflict.adjacent))
    return list(found)


def _positions(wanted: Sequence[Requirement], length: int, present: Sequence[int]) -> list[int]:
    """Return the fewest positions (before child p, or at the end) that fulfil *wanted*, all in one block.

    At the positions *present* there is a barrier already; they are not returned.
    """
    chosen = list(present)
    for requirement in sorted((r for r in wanted if not r.wraps), key=lambda r: r.second):
        if not any(requirement.met_by(position) for position in chosen):
            chosen.append(requirement.second)
    open_ones = [r for r in wanted if r.wraps and not any(r.met_by(position) for position in chosen)]
    while open_ones:
        candidates = [*range(length, -1, -1)]
        best = max(candidates, key=lambda position: sum(r.met_by(position) for r in open_ones))
        chosen.append(best)
        open_ones = [r for r in open_ones if not r.met_by(best)]
    return sorted(set(chosen).difference(present))


def place_barriers(tree: Tree, wanted: Sequence[Requirement]) -> Tree:
    """Return *tree* with the barriers that *wanted* asks for, where none of the user's does."""
    blocks: dict[Block, list[Requirement]] = {}
    for requirement in wanted:
        blocks.setdefault(requirement.block, []).append(requirement)
    return _filled(tree, (), blocks)


def _filled(nodes: Tree, prefix: Block, blocks: Mapping[Block, Sequence[Requirement]]) -> Tree:
    present = [number for number, node in enumerate(nodes) if isinstance(node, Barrier)]
    positions = _positions(blocks.get(prefix, ()), len(nodes), present)
    result: list[Node] = []
    for number, node in enumerate(nodes):
        if number in positions:
            result.append(Barrier(Scope.BLOCK))
        if isinstance(node, Loop):
            body = _filled(node.body, (*prefix, number, node.iname), blocks)
            result.append(Loop(node.iname, body))
        else:
            assert isinstance(node, Run) or node.name is not None, "barriers are placed once"
            result.append(node)
    if len(nodes) in positions:
        result.append(Barrier(Scope.BLOCK))
    return tuple(result)
