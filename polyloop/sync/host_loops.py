"""Sequential loops that a host can run around launches: each iteration's launches end before the next ones begin.

The host knows parameters and the inames of outer host loops, and nothing that is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import islpy as isl

from polyloop.kernel.tags import is_lane
from polyloop.kernel.tree import Barrier, Loop, Scope, Tree
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops
from polyloop.memo import memoised
from polyloop.poly.sets import project_onto

__all__ = ["Block", "host_loops", "is_ordered_by_launches", "loop_prefixes", "obstacle", "obstructed_barriers"]

_SET: Final = isl.dim_type.set

Block: TypeAlias = tuple[int | str, ...]
"""The path to the body of a loop: positions and loops from the root; empty for the outermost block."""


def loop_prefixes(path: Block) -> list[Block]:
    """Return the paths to the bodies of all loops on *path*, outermost first."""
    return [path[: depth + 1] for depth in range(1, len(path), 2) if isinstance(path[depth], str)]


@memoised
def obstacle(placement: Placement, block: Block) -> str:
    """Return the reason why a host cannot run the loop with the body *block*, empty if it can."""
    iname = str(block[-1])
    if is_lane(placement.program.kernel.tag(iname)):
        return f"its iterations are lanes of a vector, tagged '{placement.program.kernel.tag(iname)}'"
    around = [str(entry) for entry in block[1::2]]
    for name, path in placement.program.places.items():
        if path[: len(block)] != block:
            continue
        placed = placement.statements.get(name)
        if placed is not None and (found := _problem(placed, iname, around)):
            return found
    return ""


def _problem(placed: Placed, iname: str, around: list[str]) -> str:
    """Return the reason why a host does not know the bounds of *iname*, as one statement in its loop has them."""
    if iname not in placed.dims:
        return f"'{placed.lowered.instruction.id}' is in it and does not run over it"
    known = [x for x in placed.dims if x in around]
    domain = project_onto(placed.domain, placed.dims, known)
    if domain.dim_is_bounded(_SET, known.index(iname)):
        return ""
    data = ", ".join(f"'{name}'" for name in placed.lowered.bounds)
    return f"its bounds are read from memory ({data})" if data else "its bounds are not known"


def obstructed_barriers(placement: Placement) -> Iterator[tuple[str, str, str]]:
    """Yield the user's global barriers in loops that a host cannot run: id, innermost loop, and reason."""
    yield from _obstructed(placement, placement.program.tree, (), "")


def _obstructed(placement: Placement, nodes: Tree, block: Block, why: str) -> Iterator[tuple[str, str, str]]:
    for position, node in enumerate(nodes):
        if isinstance(node, Loop):
            inside = (*block, position, node.iname)
            found = why or obstacle(placement, inside)
            yield from _obstructed(placement, node.body, inside, found and (why or f"'{node.iname}': {found}"))
        elif isinstance(node, Barrier) and node.scope is Scope.GRID and node.name is not None and why:
            yield node.name, str(block[-1]), why


def host_loops(placement: Placement, first: Placed, second: Placed) -> tuple[str, ...]:
    """Return the loops that two statements share, from the outermost up to the first that a host cannot run."""
    loops, _ = common_loops(placement, first, second)
    found: list[str] = []
    for block in loop_prefixes(placement.program.places[first.name])[: len(loops)]:
        if obstacle(placement, block):
            break
        found.append(str(block[-1]))
    return tuple(found)


def is_ordered_by_launches(placement: Placement, first: Placed, second: Placed, loop: str | None) -> bool:
    """Return True if ends of launches can order a conflict that *loop* carries, or, if it is None, the text."""
    hosts = host_loops(placement, first, second)
    return loop in hosts if loop is not None else hosts == common_loops(placement, first, second)[0]
