"""The plan: the exchanges, calls and combinations of a divided program, for given sizes and a given mesh.

An exchange brings to each rank the elements that a phase reads and that the rank does not own.  It stands in front of
the phase, outside of the loops in which neither the array is written nor the elements change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import islpy as isl

from polyloop.distributed.division import Axes
from polyloop.distributed.fields import Field, Storage
from polyloop.distributed.local import Local
from polyloop.distributed.phases import HostLoop, Phase, Step, phases_in
from polyloop.distributed.regions import Box, Coordinates, Regions, box_size, boxes_of, hull_of
from polyloop.distributed.scatter import scattered
from polyloop.distributed.separate import Combined
from polyloop.kernel.domains import fixed_set
from polyloop.poly.sets import project_onto

__all__ = [
    "Combine", "Exchange", "Message", "Node", "Plan", "Repeat", "Run", "Send", "is_same_in", "nodes_in", "plan_of",
]  # fmt: skip

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_SET = isl.dim_type.set


@dataclass(frozen=True)
class Message:
    """A box of an array that one rank sends to another one.

    Attributes
    ----------
    source, target
        Numbers of the ranks; equal where a rank copies its own elements into a window.
    array
        Array of the program.
    box
        In indices of the program.
    is_contiguous
        Whether the elements lie behind each other where they come from; else they are packed.
    size
        Number of bytes.
    """

    source: int
    target: int
    array: str
    box: Box
    is_contiguous: bool
    size: int


@dataclass(frozen=True, eq=False)
class Exchange:
    """Elements that ranks receive in front of a phase.

    Attributes
    ----------
    number
        Its place among the exchanges of the plan.
    hosts
        Loops of the host around it.
    needed
        ``{ [rank, hosts] -> element }``: what each rank receives; for a window also its own elements.
    is_fixed
        Whether the elements are the same in all iterations of the loops around.
    is_ahead
        Whether it begins an iteration of the innermost loop early: while the one before computes.
    readers
        Instructions of the phase.
    is_sent
        Whether a :class:`Send` has begun it, in the first iteration of the loop if it is ahead.
    """

    number: int
    field: Field
    phase: int
    hosts: tuple[str, ...]
    needed: isl.Map
    is_fixed: bool
    is_ahead: bool = False
    readers: tuple[str, ...] = ()
    is_sent: bool = False


@dataclass(frozen=True, eq=False)
class Send:
    """The beginning of an exchange in front of the nodes behind which it is received.

    Attributes
    ----------
    loop
        The loop that the exchange runs ahead in: its first iteration is sent for.
    """

    exchange: Exchange
    loop: Repeat | None = None


@dataclass(frozen=True)
class Run:
    """A call of the kernel of a phase; while it computes its inner part, the exchanges ``during`` it are under way."""

    phase: Phase
    during: tuple[Exchange, ...] = ()


@dataclass(frozen=True)
class Combine:
    """A reduction over the mesh: the ranks along some axes combine their shares of an array.

    Attributes
    ----------
    scattered
        For each axis of the array the axis of the mesh over which its blocks go to their ranks, where each rank needs
        its own block alone; else empty, and all ranks get all elements.
    """

    combined: Combined
    hosts: tuple[str, ...]
    scattered: Axes = ()


@dataclass(frozen=True)
class Repeat:
    """A loop of the host."""

    iname: str
    hosts: tuple[str, ...]
    body: tuple[Node, ...]


Node: TypeAlias = "Exchange | Send | Run | Combine | Repeat"


def nodes_in(nodes: Sequence[Node], path: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], Node]]:
    """Yield each node with its place: positions and inames from the root, alternating.

    The exchanges during a run come before it.
    """
    place = 0
    for node in nodes:
        if isinstance(node, Run):
            for exchange in node.during:
                yield (*path, place), exchange
                place += 1
        if isinstance(node, Repeat):
            yield from nodes_in(node.body, (*path, place, node.iname))
        else:
            yield (*path, place), node
        place += 1


@dataclass(frozen=True, eq=False)
class Plan:
    """A divided program for given sizes and a given mesh."""

    regions: Regions
    locals: tuple[Local, ...]
    nodes: tuple[Node, ...]

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All exchanges, in the order of the program."""
        return tuple(node for _, node in nodes_in(self.nodes) if isinstance(node, Exchange))

    def iterations(self, repeat: Repeat, around: Mapping[str, int]) -> range:
        """Return the values of a loop of the host, for values of the loops around."""
        found: isl.Set | None = None
        for _, node in nodes_in(repeat.body):
            if isinstance(node, Run):
                for name in node.phase.instructions:
                    instruction = self.regions.homes.kernel.instruction(name)
                    domain = fixed_set(instruction.domain, self.regions.sizes)
                    domain = domain.project_out(isl.dim_type.param, 0, domain.dim(isl.dim_type.param))
                    own = project_onto(domain, instruction.inames, (*repeat.hosts, repeat.iname)).reset_tuple_id()
                    found = own if found is None else found.union(own)
        assert found is not None, "a loop of the host has phases"
        for place, host in enumerate(repeat.hosts):
            found = found.fix_val(_SET, place, around[host])
        hull = hull_of(found.project_out(_SET, 0, len(repeat.hosts)))
        return range(0) if hull is None else range(*hull[0])

    def active(self, local: Local, position: Coordinates, hosts: Mapping[str, int]) -> Box | None:
        """Return the coordinates that a rank computes in a phase, None if there are none."""
        box = []
        for axis in range(len(position)):
            low, high = self.regions.block(position, axis)
            if low < high:
                below, above = self.regions.reach(local.phase.number, hosts)[axis]
                low, high = low - below, high + above
            if axis in local.active:
                found = fixed_set(local.active[axis], {**self.regions.sizes, **hosts})
                hull = hull_of(found.project_out(isl.dim_type.param, 0, found.dim(isl.dim_type.param)))
                if hull is None:
                    return None
                low, high = max(low, hull[0][0]), min(high, hull[0][1])
                if low >= high:
                    return None
            box.append((low, high))
        return tuple(box)

    def window(self, entry: Field, position: Coordinates, hull: Box | None) -> Box:
        """Return the box of a window on a rank: around its block along some axes, around what is read along others."""
        box = []
        for place, (extent, axis) in enumerate(zip(self.regions.shape(entry.array), entry.axes, strict=True)):
            around = entry.around[place]
            if axis is None:
                box.append((0, extent))
            elif around is not None:
                low, high = self.regions.block(position, axis)
                box.append((low - around[0], high + around[1]))
            else:
                box.append((0, 1) if hull is None else hull[place])
        return tuple(box)

    def received(self, exchange: Exchange, position: Coordinates, hosts: Mapping[str, int]) -> isl.Set:
        """Return the elements that a rank gets by an exchange."""
        found = exchange.needed
        values = (*position, *(hosts[name] for name in exchange.hosts))
        for place, value in enumerate(values):
            found = found.fix_val(_IN, place, value)
        return found.range()

    def messages(self, exchange: Exchange, target: Coordinates, hosts: Mapping[str, int]) -> tuple[Message, ...]:
        """Return the messages to a rank in one exchange, in the order of their sources."""
        regions, array = self.regions, exchange.field.array
        elements = self.received(exchange, target, hosts)
        hull = hull_of(elements)
        if hull is None:
            return ()
        found = []
        for source in self._sources(array, target, hull):
            own = regions.owned(source, array)
            part = elements.intersect(_box_set(own, elements))
            found += [self.message(array, source, target, box) for box in boxes_of(part)]
        return tuple(found)

    def message(self, array: str, source: Coordinates, target: Coordinates, box: Box) -> Message:
        """Return the message of a box."""
        regions = self.regions
        dtype = regions.homes.kernel.arrays()[array].dtype
        assert dtype is not None, "a completed kernel has types"
        is_contiguous = _is_contiguous(box, regions.stored(source, array))
        size = box_size(box) * dtype.itemsize
        return Message(regions.number(source), regions.number(target), array, box, is_contiguous, size)

    def _sources(self, array: str, target: Coordinates, hull: Box) -> Iterator[Coordinates]:
        """Yield the ranks that own elements in a box; of several with the same elements, the one nearest."""
        regions = self.regions
        choices = [[own] for own in target]
        for (low, high), axis in zip(hull, regions.axes(array), strict=True):
            if axis is not None:
                length = regions.blocks[axis]
                choices[axis] = [*range(low // length, min((high - 1) // length, regions.mesh[axis] - 1) + 1)]
        positions: list[Coordinates] = [()]
        for entries in choices:
            positions = [(*before, entry) for before in positions for entry in entries]
        yield from positions


def _box_set(box: Box, like: isl.Set) -> isl.Set:
    result = isl.Set.universe(like.get_space())
    for place, (low, high) in enumerate(box):
        result = result.lower_bound_val(_SET, place, low).upper_bound_val(_SET, place, high - 1)
    return result


def _is_contiguous(box: Box, whole: Box) -> bool:
    """Return whether the elements of *box* lie behind each other in an array that stores *whole* in C order."""
    sizes = [high - low for low, high in box]
    lengths = [high - low for low, high in whole]
    first = next((place for place, size in enumerate(sizes) if size > 1), len(sizes))
    return all(size == length for size, length in zip(sizes[first + 1:], lengths[first + 1:], strict=True))


def plan_of(regions: Regions, locals_: Sequence[Local], steps: Sequence[Step], *, overlap: bool = True) -> Plan:
    """Return the plan of a program; without *overlap* no exchange is under way while a phase computes."""
    by_number = {local.phase.number: local for local in locals_}
    nodes = _Planning(regions, by_number, overlap).sequence(steps, ())
    return Plan(regions, tuple(locals_), nodes)


@dataclass(eq=False)
class _Planning:
    regions: Regions
    locals: Mapping[int, Local]
    overlap: bool
    count: int = 0
    wanted: dict[int, list[tuple[Field, tuple[str, ...], isl.Map]]] = field(default_factory=dict)

    def written(self, steps: Sequence[Step]) -> frozenset[str]:
        """Return the arrays that phases in *steps* write."""
        return frozenset(entry.array for phase in phases_in(steps)
                         for entry in self.locals[phase.number].fields if entry.is_written)

    def deep(self, loop: HostLoop) -> tuple[Node, ...]:
        """Return the body of a loop whose iterations exchange once in a while, and compute redundantly in between."""
        regions, phases = self.regions, [*phases_in(loop.body)]
        assert regions.deep is not None, "the loop has deep halos"
        wanted: dict[str, tuple[Field, int, isl.Map]] = {}
        computed: dict[str, isl.Map] = {}
        for turn in range(regions.deep.every):
            for phase in phases:
                for entry, level, needed in self.needs(phase, (loop,)):
                    if level != (loop.iname,):
                        continue
                    more = regions.chunk(needed, turn)
                    if entry.array in computed:
                        more = more.subtract(computed[entry.array])
                    if not more.is_empty():
                        first, number, known = wanted.get(entry.array, (entry, phase.number, None))
                        wanted[entry.array] = first, number, (more if known is None else known.union(more)).coalesce()
                for array in self.written((phase,)):
                    made = regions.chunk(regions.writes(phase, array), turn)
                    computed[array] = made if array not in computed else computed[array].union(made)
        nodes: list[Node] = []
        for entry, number, needed in wanted.values():
            nodes.append(Exchange(self.count, entry, number, (loop.iname,), needed, is_fixed=False))
            self.count += 1
        return (*nodes, *(Run(phase) for phase in phases))

    def sequence(self, steps: Sequence[Step], around: tuple[HostLoop, ...]) -> tuple[Node, ...]:
        if around and self.regions.deep is not None and around[-1].iname == self.regions.deep.iname:
            return self.deep(around[-1])
        hosts = tuple(loop.iname for loop in around)
        found: list[Node] = []
        valid: dict[str, isl.Map] = {}
        for step in steps:
            exchanges = []
            for phase in phases_in((step,)):
                for entry, level, needed in self.needs(phase, (*around, *_path((step,), phase))):
                    if level == hosts and (made := self.exchange(entry, phase, level, needed, valid)) is not None:
                        is_ahead = (self.overlap and isinstance(step, Phase) and entry.storage is Storage.WINDOW
                                    and bool(around) and entry.array not in self.written(around[-1:]))
                        exchanges.append(replace(made, is_ahead=is_ahead))
            if isinstance(step, Phase):
                found += self.called(step, exchanges)
            else:
                found += [*exchanges, Repeat(step.iname, hosts, self.sequence(step.body, (*around, step)))]
            for array in self.written((step,)):
                valid.pop(array, None)
        return tuple(found)

    def called(self, phase: Phase, exchanges: Sequence[Exchange]) -> Iterator[Node]:
        """Yield the exchanges in front of a phase, its call, and the reductions behind it."""
        is_whole = all(axis in self.locals[phase.number].active for axis in range(len(self.regions.mesh)))
        written = self.written((phase,))
        during = [exchange for exchange in exchanges
                  if self.overlap and phase.is_free and is_whole and exchange.field.storage is Storage.BLOCK
                  and exchange.field.array not in written]
        yield from (exchange for exchange in exchanges if exchange not in during)
        yield Run(phase, tuple(during))
        homes = self.regions.homes
        for name in phase.instructions:
            if name in homes.combined:
                found = homes.combined[name]
                yield Combine(found, phase.hosts, scattered(homes, found))

    def needs(
        self, phase: Phase, around: Sequence[HostLoop]
    ) -> list[tuple[Field, tuple[str, ...], isl.Map]]:
        """Return a phase's reads of other ranks' elements: the field, the loops around its exchange, the elements."""
        if phase.number not in self.wanted:
            self.wanted[phase.number] = [*self._needs(phase, around)]
        return self.wanted[phase.number]

    def _needs(self, phase: Phase, around: Sequence[HostLoop]) -> Iterator[tuple[Field, tuple[str, ...], isl.Map]]:
        for entry in self.locals[phase.number].fields:
            if entry.storage not in (Storage.BLOCK, Storage.WINDOW):
                continue
            needed = self.regions.reads(phase, entry)
            if entry.storage is Storage.BLOCK:
                needed = needed.subtract(self.regions.own(entry.array, len(phase.hosts))).coalesce()
            if needed.is_empty():
                continue
            level = list(phase.hosts)
            while level and entry.array not in self.written((around[len(level) - 1],)) and _is_same(needed):
                needed = needed.project_out(_IN, needed.dim(_IN) - 1, 1)
                level.pop()
            yield entry, tuple(level), needed

    def exchange(
        self, entry: Field, phase: Phase, level: tuple[str, ...], needed: isl.Map, valid: dict[str, isl.Map]
    ) -> Exchange | None:
        """Return the exchange of elements that are not there yet; None where all are."""
        if entry.storage is Storage.BLOCK:
            known = valid.get(entry.array)
            more = needed if known is None else needed.subtract(known).coalesce()
            valid[entry.array] = needed if known is None else known.union(needed)
            if more.is_empty():
                return None
            needed = more
        is_fixed = all(is_same_in(needed, len(self.regions.mesh) + place) for place in range(len(level)))
        made = Exchange(self.count, entry, phase.number, level, needed, is_fixed, readers=phase.instructions)
        self.count += 1
        return made


def _path(steps: Sequence[Step], phase: Phase) -> tuple[HostLoop, ...]:
    """Return the loops in *steps* around a phase."""
    for step in steps:
        if isinstance(step, HostLoop) and any(entry is phase for entry in phases_in(step.body)):
            return (step, *_path(step.body, phase))
    return ()


def _is_same(needed: isl.Map) -> bool:
    """Return whether elements do not depend on the last loop."""
    return is_same_in(needed, needed.dim(_IN) - 1)


def is_same_in(needed: isl.Map, place: int) -> bool:
    """Return whether all iterations of a loop need the same elements."""
    without = needed.project_out(_IN, place, 1).insert_dims(_IN, place, 1)
    values = needed.domain().project_out(_SET, place + 1, needed.dim(_IN) - place - 1).project_out(_SET, 0, place)
    around = isl.Map.universe(needed.get_space()).intersect_domain(
        values.insert_dims(_SET, 0, place).insert_dims(_SET, place + 1, needed.dim(_IN) - place - 1))
    return without.intersect(around).is_equal(needed)


