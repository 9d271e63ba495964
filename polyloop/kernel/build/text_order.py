"""Construction of the loop tree from a list of statements: text order, nests, sharing (design, section 3).

The same rules build the reference program and, with hardware axes left out of the nests, the
sequential part of every schedule.  There is no search: each statement joins the latest loop
that may take it, or opens a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from polyloop.frozen import quick
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree

__all__ = ["Item", "LoopPriority", "build_tree", "nest_order", "priority_chains", "stable_order"]

LoopPriority: TypeAlias = str | Iterable[str | Sequence[str]]
"""Orders of loops as users write them: ``("i, j", "k, l")``, ``"i, j"`` for one, or Loopy's ``{("i", "j")}``."""


def priority_chains(given: LoopPriority) -> tuple[tuple[str, ...], ...]:
    """Return each order as a tuple of inames, the outermost first."""
    chains = (given,) if isinstance(given, str) else given
    found = (chain.split(",") if isinstance(chain, str) else chain for chain in chains)
    return tuple(tuple(iname.strip() for iname in chain if iname.strip()) for chain in found)


@quick
@dataclass(frozen=True)
class Item:
    """A statement as far as order is concerned.

    ``nest`` lists its loops from the outside in, ``blocks`` the written ``for`` block of each loop
    that has one, ``after`` the statements that it must follow.  ``group`` is the instruction that the
    statement is a part of, as one item: it decides about the outermost ``common`` loops, so that no part strays.
    ``toward`` is the loop of a reduction at the level where the nest of what begins its sum leaves it: the two may
    join others in front of such a loop and in it.
    """

    name: str
    nest: tuple[str, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    after: frozenset[str] = frozenset()
    blocks: Mapping[str, int | None] | None = None
    barrier: Scope | None = None
    """Scope of a barrier, which stays behind everything before it and before everything behind it."""
    group: Item | None = None
    common: int = 0
    toward: tuple[int, str] | None = None



def stable_order(
    names: Sequence[str],
    before: Mapping[str, Iterable[str]],
    priority: Mapping[str, int] | None = None,
    keeps_order: Callable[[str, str], bool] | None = None,
) -> list[str] | tuple[str, ...]:
    """Return *names* topologically sorted, earliest ready name first; a tuple is a cycle.

    Parameters
    ----------
    before
        ``before[x]`` are the predecessors of ``x``.
    priority
        A ready name with a higher number goes first, but never past a name for which
        ``keeps_order(earlier, later)`` holds.
    """
    done: set[str] = set()
    order: list[str] = []
    waiting = list(names)
    while waiting:
        ready = next((x for x in waiting if all(y in done for y in before.get(x, ()))), None)
        if ready is None:
            return _cycle(waiting, before)
        if priority:
            assert keeps_order is not None, "priorities need to know what must keep its order"
            ready = _preferred(ready, waiting, [x for x in waiting if done.issuperset(before.get(x, ()))], priority,
                               keeps_order)  # fmt: skip
        waiting.remove(ready)
        done.add(ready)
        order.append(ready)
    return order


def _preferred(
    first: str,
    waiting: Sequence[str],
    ready: Iterable[str],
    priority: Mapping[str, int],
    keeps_order: Callable[[str, str], bool],
) -> str:
    """Return the name of highest priority that may go now, *first* if there is nothing better."""
    chosen = first
    for name in ready:
        passed = waiting[: waiting.index(name)]
        if priority.get(name, 0) > priority.get(chosen, 0) and not any(keeps_order(x, name) for x in passed):
            chosen = name
    return chosen


def _cycle(waiting: Sequence[str], before: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    inside = set(waiting)
    path = [waiting[0]]
    while True:
        following = next(y for y in before[path[-1]] if y in inside)
        if following in path:
            return tuple(reversed([*path[path.index(following) :], following]))
        path.append(following)


def nest_order(
    inames: Iterable[str],
    written: Sequence[str],
    priority: Sequence[Sequence[str]],
    uses: Mapping[str, int],
    position: Mapping[str, int],
    outside: Mapping[str, frozenset[str]],
) -> tuple[str, ...]:
    """Return the nest of one instruction (rule 2 of the reference program).

    Parameters
    ----------
    inames
        The inames of the instruction, in any order.
    written
        Inames of the ``for`` blocks around it, outermost first.
    priority
        Chains of inames, outer before inner.
    uses
        Number of instructions that use each iname: the iname with more uses is outside.
    position
        Place of each iname in the text of the domains: settles ties.
    outside
        ``outside[x]``: inames whose value the bounds of ``x`` use.
    """
    left = set(inames)
    chains = [[x for x in chain if x in left] for chain in (written, *priority)]
    order: list[str] = []
    while left:
        outermost = [x for x in left if outside.get(x, frozenset()).isdisjoint(left - {x})]
        nested = [x for x in outermost if x not in chains[0] or chains[0][0] == x]
        free = [x for x in nested if all(x not in chain or chain[0] == x for chain in chains)]
        free = free or nested or outermost or list(left)
        chosen = min(free, key=lambda x: (-uses.get(x, 0), position.get(x, 0)))
        order.append(chosen)
        left.remove(chosen)
        chains = [[x for x in chain if x != chosen] for chain in chains]
    return tuple(order)


class _OpenLoop:
    """A loop that later statements may still join, with the accesses of its statements."""

    __slots__ = ("after", "barrier", "block", "children", "iname", "names", "reads", "writers")

    def __init__(self, iname: str, block: int | None) -> None:
        self.iname = iname
        self.block = block
        self.children: list[_OpenLoop | Item] = []
        self.names: set[str] = set()
        self.after: set[str] = set()
        self.reads: set[str] = set()
        self.barrier: Scope | None = None
        self.writers: dict[str, list[Item]] = {}

    @property
    def writes(self) -> Collection[str]:
        return self.writers.keys()

    def note(self, item: Item) -> None:
        """Add the accesses of *item*, which is somewhere inside, to those of the loop."""
        self.names.add(item.name)
        self.barrier = self.barrier or item.barrier
        self.after |= item.after
        self.reads |= item.reads
        for name in item.writes:
            self.writers.setdefault(name, []).append(item)


def _follows(later: _OpenLoop | Item, earlier: _OpenLoop | Item) -> bool:
    """Return whether *later* depends on *earlier*, by a barrier, an explicit dependency or a common variable."""
    if later.barrier or earlier.barrier:
        return True
    names: Collection[str] = (earlier.name,) if isinstance(earlier, Item) else earlier.names
    return not (
        later.after.isdisjoint(names)
        and later.reads.isdisjoint(earlier.writes)
        and earlier.reads.isdisjoint(later.writes)
        and frozenset(later.writes).isdisjoint(earlier.writes)
    )


def build_tree(
    items: Sequence[Item], may_share: Callable[[Item, Sequence[Item], Sequence[str]], bool] | None = None
) -> Tree:
    """Return the loop tree of *items*, given in text order (rule 3 of the semantics).

    Parameters
    ----------
    may_share
        ``may_share(item, writers, loops)`` is False where the item must not join a loop; *writers* are the statements
        in that loop that write something the item reads, *loops* the inames around, the loop itself last.  None:
        always may.
    """
    root: list[_OpenLoop | Item] = []
    for item in items:
        _insert(root, item, item.nest, (), may_share)
    return _freeze(root)


def _freeze(nodes: Sequence[_OpenLoop | Item]) -> Tree:
    return tuple(_frozen(node) for node in nodes)


def _frozen(node: _OpenLoop | Item) -> Node:
    if isinstance(node, _OpenLoop):
        return Loop(node.iname, _freeze(node.children))
    return Barrier(node.barrier, node.name) if node.barrier else Run(node.name)


def _insert(
    nodes: list[_OpenLoop | Item],
    item: Item,
    nest: tuple[str, ...],
    around: tuple[str, ...],
    may_share: Callable[[Item, Sequence[Item], Sequence[str]], bool] | None,
) -> None:
    if not nest:
        nodes.append(item)
        return
    iname = nest[0]
    block = (item.blocks or {}).get(iname)
    inside = (*around, iname)
    index = _latest(nodes, iname, block, _end(nodes, item, len(around)))
    if index is not None:
        loop = nodes[index]
        assert isinstance(loop, _OpenLoop)
        asked = item.group if item.group is not None and len(around) < item.common else item
        stays = _between(nodes, index, asked)
        if item.barrier:
            may_share = None
        asks = may_share if block is None else None
        if stays is not None and (asks is None or asks(item, _writers_for(asked, loop), inside)):
            between = nodes[index + 1 :]
            moved = [node for node in between if node not in stays]
            nodes[index:] = [*moved, loop, *stays]
            loop.note(item)
            _insert(loop.children, item, nest[1:], inside, may_share)
            return
    fresh = _OpenLoop(iname, block)
    fresh.note(item)
    nodes.append(fresh)
    _insert(fresh.children, item, nest[1:], inside, may_share)


def _latest(nodes: Sequence[_OpenLoop | Item], iname: str, block: int | None, end: int) -> int | None:
    """Return the place of the latest loop over *iname* before *end*, of the same written block."""
    for index in range(end - 1, -1, -1):
        node = nodes[index]
        if isinstance(node, _OpenLoop) and node.iname == iname and node.block == block:
            return index
    return None


def _end(nodes: Sequence[_OpenLoop | Item], item: Item, depth: int) -> int:
    """Return the place before which *item* looks for a loop to join: in front of the loop that its sum joins."""
    if item.toward is None or item.toward[0] != depth or item.group is None:
        return len(nodes)
    own, term = item.nest[depth], item.toward[1]
    index = _latest(nodes, term, (item.group.blocks or {}).get(term), len(nodes))
    if index is None or _between(nodes, index, item.group) is None:
        return len(nodes)
    return len(nodes) if _latest(nodes, own, (item.blocks or {}).get(own), index) is None else index


def _writers_for(item: Item, loop: _OpenLoop) -> list[Item]:
    """Return the statements in *loop* that write a variable that *item* reads."""
    found: dict[str, Item] = {}
    for name in sorted(item.reads & loop.writers.keys()):
        found.update((writer.name, writer) for writer in loop.writers[name])
    return list(found.values())


def _between(nodes: Sequence[_OpenLoop | Item], index: int, item: Item) -> list[_OpenLoop | Item] | None:
    """Return the nodes that must stay after the loop at *index* if *item* joins it, or None if it cannot join."""
    stays: list[_OpenLoop | Item] = []
    for node in nodes[index + 1 :]:
        if _follows(node, nodes[index]) or any(_follows(node, other) for other in stays):
            stays.append(node)
    if any(_follows(item, node) for node in stays):
        return None
    return stays
