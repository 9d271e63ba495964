"""Launch boundaries, loops of the host around launches, and the values that are live across them.

A loop becomes one of the host if it carries a dependence between blocks, or has one in its body, between statements
that share it.  Then all loops around it are loops of the host, too.  Any other loop stays in its launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl

from polyloop.dataflow.value_flow import flow_of, is_exact, may_flow_of
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Node, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.sync.async_copy import copy_link, copy_pairs
from polyloop.sync.host_loops import Block, loop_prefixes, obstacle
from polyloop.sync.races import Need

__all__ = ["Cuts", "Part", "hosts_around", "launch_cuts", "numbers_of", "parts_of", "passages"]

_ROOT: Final[Block] = ()


@dataclass(frozen=True)
class Cuts:
    """Positions at which one launch ends and the next begins.

    Attributes
    ----------
    blocks
        By block whose statements are divided into launches: the outermost one, and the body of each loop of the host.
        Each is the list of positions in the tree without derived barriers; in the body of a loop it begins with 0.
    """

    blocks: Mapping[Block, Sequence[int]]

    @property
    def loops(self) -> tuple[Block, ...]:
        """The bodies of the loops of the host."""
        return tuple(block for block in self.blocks if block)

    @property
    def is_single(self) -> bool:
        """True if everything is one launch."""
        return not any(self.blocks.values())

    def at(self, block: Block) -> Sequence[int]:
        """Return the positions in *block*."""
        return self.blocks.get(block, ())


@dataclass(frozen=True, eq=False)
class Part:
    """The statements of one launch: neighbouring nodes of a block that a host runs."""

    block: Block
    nodes: Tree


def launch_cuts(placement: Placement, found: Iterable[Need]) -> Cuts:
    """Return the positions in the tree where one launch has to end and the next begin.

    In each block they are as few as possible.  Where there is a choice, as few private and shared variables as possible
    are in use on both sides of each, then as few others that the program writes, and after that it is the latest.
    """
    places = placement.program.places
    spans: dict[Block, list[tuple[int, int]]] = {}
    for need in found:
        if need.scope is not Scope.GRID:
            continue
        first, second, loop = places[need.conflict.first.name], places[need.conflict.second.name], need.conflict.loop
        same = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
        depth = next(same) if loop is None else first.index(loop) + 1
        between = spans.setdefault(first[:depth], [])
        if loop is None:
            between.append((_position(first, depth), _position(second, depth)))
    written = _written_cuts(placement)
    hosts = {_ROOT}.union(*(loop_prefixes(block) for block in (*spans, *written)))
    return Cuts({
        block: _cuts_in(placement, block, spans.get(block, ()), written.get(block, ()), hosts)
        for block in sorted(hosts, key=lambda block: [_position(block, n) for n in range(0, len(block), 2)])
    })  # fmt: skip


def _position(path: Block, depth: int) -> int:
    position = path[depth]
    assert isinstance(position, int), "a path alternates positions and loops"
    return position


def _cuts_in(
    placement: Placement, block: Block, spans: Iterable[tuple[int, int]], written: Iterable[int], hosts: Iterable[Block]
) -> list[int]:
    """Return the positions in *block* where a launch ends, around loops of the host among others."""
    nodes = _nodes(placement.program.tree, block)
    inner = [_position(host, len(block)) for host in hosts if host[: len(block)] == block and len(host) > len(block)]
    ends = {position + side for position in inner for side in (0, 1)} - {0, len(nodes)}
    cuts = sorted({*written, *ends, *([0] if block else [])})
    free: dict[int, int] = {}
    for first, second in sorted(spans, key=lambda span: span[1]):
        if any(first < cut <= second for cut in cuts):
            continue
        cut = next((cut for cut in free if first < cut <= second), second)
        free[cut] = max(free.get(cut, 0), first + 1)
    if free:
        own, passed = (_homes(placement, block, in_memory=in_memory) for in_memory in (False, True))
        lives = _lives(placement, block, {name for name, home in own.items()
                                          if any(home[0] < cut and low <= home[1] for cut, low in free.items())})
        others = {name: {home} for name, home in passed.items()}
        cuts += [min(range(low, cut + 1), key=lambda at: (_living(lives, at), _living(others, at), -at))
                 for cut, low in free.items()]  # fmt: skip
    return sorted(set(cuts))


def _nodes(tree: Tree, block: Block) -> Tree:
    """Return the nodes of a block."""
    for entry in block[::2]:
        assert isinstance(entry, int), "a path alternates positions and loops"
        node = tree[entry]
        assert isinstance(node, Loop), "a path leads through loops"
        tree = node.body
    return tree


def _homes(placement: Placement, block: Block, *, in_memory: bool) -> dict[str, tuple[int, int]]:
    """Return the first and the last position in *block* where each variable is used: of private and shared ones.

    With *in_memory*: of those in global memory that something in *block* writes.
    """
    written = {write.array for placed in placement.statements.values() for write in placed.lowered.writes}
    found: dict[str, tuple[int, int]] = {}
    for placed in placement.statements.values():
        path = placement.program.places[placed.name]
        if path[: len(block)] != block:
            continue
        position = _position(path, len(block))
        for access in placed.lowered.accesses:
            is_global = placement.spaces[access.array] is AddressSpace.GLOBAL
            if is_global == in_memory and (not in_memory or access.array in written):
                low, high = found.get(access.array, (position, position))
                found[access.array] = min(low, position), max(high, position)
    return found


def _lives(placement: Placement, block: Block, names: Iterable[str]) -> dict[str, set[tuple[int, int]]]:
    """Return the positions in *block* of each write of a variable with those of the reads that see it.

    A name that is set anew has several lives, and between them nothing is lost.
    """
    places = placement.program.places
    found: dict[str, set[tuple[int, int]]] = {}
    for name in sorted(names):
        for source, reader, link in _links(placement, name):
            ends = places[source.name], places[reader.name]
            if all(path[: len(block)] == block for path in ends) and not link.is_empty():
                first, last = (_position(path, len(block)) for path in ends)
                found.setdefault(name, set()).add((first, last))
    return found


def _living(spans: Mapping[str, set[tuple[int, int]]], position: int) -> int:
    """Return the number of variables that are in use on both sides of *position*."""
    return sum(any(low < position <= high for low, high in found) for found in spans.values())


def _written_cuts(placement: Placement) -> dict[Block, list[int]]:
    """Return the positions of the user's global barriers that divide something, by block that a host can run."""
    found: dict[Block, list[int]] = {}
    if not placement.axes.all:
        return found
    for block, nodes in _blocks(placement.program.tree, _ROOT):
        if not any(isinstance(node, Barrier) and node.scope is Scope.GRID for node in nodes):
            continue
        if any(obstacle(placement, prefix) for prefix in loop_prefixes(block)):
            continue
        begin = 0
        for position, node in enumerate(nodes):
            if isinstance(node, Barrier) and node.scope is Scope.GRID and _divides(nodes, begin, position, block):
                found.setdefault(block, []).append(position)
                begin = position
    return found


def _divides(nodes: Tree, begin: int, position: int, block: Block) -> bool:
    """Return True if a barrier has statements on both sides, in a loop those of another iteration among them."""
    if block:
        return any(runs(nodes))
    return any(runs(nodes[begin:position])) and any(runs(nodes[position:]))


def _blocks(tree: Tree, prefix: Block) -> Iterator[tuple[Block, Tree]]:
    """Yield every block of *tree*, an outer one before those inside."""
    yield prefix, tree
    for position, node in enumerate(tree):
        if isinstance(node, Loop):
            yield from _blocks(node.body, (*prefix, position, node.iname))


def parts_of(tree: Tree, cuts: Cuts, block: Block = _ROOT) -> Iterator[Part]:
    """Yield the launches of *tree* that have statements, in the order of the text.

    Barriers without a name are derived: they count as no positions, and have no effect at a cut.
    """
    segment: list[Node] = []
    position = 0
    for node in tree:
        if isinstance(node, Barrier) and node.name is None:
            if position and position not in cuts.at(block):
                segment.append(node)
            continue
        if position in cuts.at(block) and any(runs(tuple(segment))):
            yield Part(block, tuple(segment))
        if position in cuts.at(block):
            segment = []
        inside = (*block, position, node.iname) if isinstance(node, Loop) else ()
        if isinstance(node, Loop) and inside in cuts.blocks:
            yield from parts_of(node.body, cuts, inside)
        else:
            segment.append(node)
        position += 1
    if any(runs(tuple(segment))):
        yield Part(block, tuple(segment))


def numbers_of(placement: Placement, cuts: Cuts) -> dict[str, int]:
    """Return the number of the launch that executes each statement, by its name."""
    parts = parts_of(placement.program.tree, cuts)
    return {name: number for number, part in enumerate(parts) for name in runs(part.nodes)}


def passages(placement: Placement, cuts: Cuts) -> dict[str, list[tuple[int, int]]]:
    """Return private or shared variable -> pairs of launches (writer, reader) between which it carries values.

    The launches are equal if a loop of the host carries the value to a later iteration.
    """
    homes: dict[str, set[int]] = {}
    known = numbers_of(placement, cuts)
    for placed in placement.statements.values():
        for access in placed.lowered.accesses:
            if placement.spaces[access.array] is not AddressSpace.GLOBAL:
                homes.setdefault(access.array, set()).add(known[placed.name])
    looped = {
        launch for name, launch in known.items()
        if hosts_around(placement, placement.statements[name], cuts)
    }  # fmt: skip
    found = {}
    for name in sorted(name for name, launches in homes.items() if len(launches) > 1 or launches & looped):
        pairs = {
            (known[source.name], known[reader.name])
            for source, reader, link in _links(placement, name)
            if not link.is_empty() and _leaves(placement, cuts, (source, reader), link, known)
        }
        if pairs:
            found[name] = sorted(pairs)
    return found


def hosts_around(placement: Placement, placed: Placed, cuts: Cuts) -> list[str]:
    """Return the loops of the host around a statement."""
    return [str(block[-1]) for block in loop_prefixes(placement.program.places[placed.name]) if block in cuts.blocks]


def _links(placement: Placement, name: str) -> Iterator[tuple[Placed, Placed, isl.Map]]:
    """Yield the writers and readers of a variable, with the relation from instances that read to those that write.

    An asynchronous copy that is on its way is a value that its arrival reads.
    """
    flow = flow_of(placement, name) if is_exact(placement, name) else may_flow_of(placement, name)
    for (reader, _), sources in zip(flow.reads, flow.sources, strict=True):
        for source, link in sources:
            yield source, reader, link
    for arrival, starts in copy_pairs(placement):
        if arrival.lowered.write.array == name:
            for start in starts:
                yield start, arrival, copy_link(placement, start, arrival)[0]


def _leaves(
    placement: Placement, cuts: Cuts, sides: tuple[Placed, Placed], link: isl.Map, known: Mapping[str, int]
) -> bool:
    """Return True if some value passes from one launch to another, or from one iteration of the host to the next."""
    source, reader = sides
    if known[source.name] != known[reader.name]:
        return True
    same = link
    for iname in hosts_around(placement, source, cuts):
        same = same.equate(isl.dim_type.in_, reader.dims.index(iname), isl.dim_type.out, source.dims.index(iname))
    return not link.is_subset(same)
