"""Buffers of messages that kernels fill and empty.

Messages lie ready in a send buffer when an exchange begins, where a kernel packed them as it computed them.  Elements
that have come, and are not in their places yet, are unpacked by the next call of the kernel that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import islpy as isl

from polyloop.distributed.fields import Storage
from polyloop.distributed.local import Local
from polyloop.distributed.packs import Pack
from polyloop.distributed.plan import Exchange, Message, Node, Plan, Repeat, Run, is_same_in, nodes_in
from polyloop.distributed.regions import Box, Coordinates, set_of

__all__ = ["Arrivals", "ready"]

_IN = isl.dim_type.in_

_Array: TypeAlias = Any


def ready(plan: Plan, local: Local, pack: Pack, position: Coordinates) -> tuple[Exchange, Message] | None:
    """Return the exchange whose message to a neighbour a send buffer has, and that message; None without one.

    It has where the message is one box, nothing else writes the array between the kernel and the exchange, and the
    kernel writes all elements of the box on this rank, the same in all iterations.
    """
    regions = plan.regions
    neighbour = tuple(own + (pack.side if axis == pack.axis else 0) for axis, own in enumerate(position))
    exchange = _next(plan, local, pack.array)
    if exchange is None or neighbour not in regions.ranks or not exchange.is_fixed or exchange.is_ahead:
        return None
    hosts = dict.fromkeys(exchange.hosts, 0)
    for name in exchange.hosts:
        hosts[name] = next(iter(_turns(plan, name, hosts)), 0)
    me = regions.number(position)
    found = [message for message in plan.messages(exchange, neighbour, hosts) if message.source == me]
    if len(found) != 1:
        return None
    written = regions.writes(local.phase, pack.array)
    if not all(is_same_in(written, len(position) + place) for place in range(len(local.phase.hosts))):
        return None
    for place, value in enumerate(position):
        written = written.fix_val(_IN, place, value)
    return (exchange, found[0]) if set_of(found[0].box).is_subset(written.range().reset_tuple_id()) else None


def _turns(plan: Plan, iname: str, hosts: Mapping[str, int]) -> range:
    repeat = next(node for node in _loops(plan.nodes) if node.iname == iname)
    return plan.iterations(repeat, hosts)


def _loops(nodes: Sequence[Node]) -> Iterator[Repeat]:
    for node in nodes:
        if isinstance(node, Repeat):
            yield node
            yield from _loops(node.body)


def _next(plan: Plan, local: Local, array: str) -> Exchange | None:
    """Return the first exchange of an array behind a phase, with no other write in between."""
    for body, is_loop in ((plan.nodes, False), *((loop.body, True) for loop in _loops(plan.nodes))):
        steps = [*_steps(body)]
        place = next((place for place, step in enumerate(steps)
                      if isinstance(step, Run) and step.phase is local.phase), None)
        if place is None:
            continue
        for step in (*steps[place + 1 :], *(steps[:place] if is_loop else ())):
            if isinstance(step, Exchange):
                if step.field.array == array:
                    return step if step.field.storage is Storage.BLOCK else None
            elif array in _written(plan, step):
                return None
    return None


def _steps(body: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in the order in which they begin."""
    for node in body:
        if isinstance(node, Run):
            yield from node.during
        yield node


def _written(plan: Plan, node: Node) -> frozenset[str]:
    """Return the arrays that a node writes, or exchanges inside."""
    phases = {entry.phase.number for _, entry in nodes_in((node,)) if isinstance(entry, Run)}
    inside = {entry.field.array for _, entry in nodes_in((node,)) if isinstance(entry, Exchange)}
    if isinstance(node, Run):
        inside = set()
    return frozenset(inside).union(*({entry.array for entry in local.fields if entry.is_written}
                                     for local in plan.locals if local.phase.number in phases))


@dataclass(eq=False)
class Arrivals:
    """Buffers of messages that came to a rank for one call.

    Attributes
    ----------
    entries
        Number of a buffer of the phase -> the box, its elements, and the function that unpacks them without a kernel.
    """

    plan: Plan
    position: Coordinates
    entries: dict[int, tuple[Box, _Array, Callable[[], None]]] = field(default_factory=dict)

    def later(
        self, exchange: Exchange, messages: Sequence[Message], buffer: _Array, unpack: Callable[[], None]
    ) -> Callable[[], None]:
        """Return *unpack*, or where the kernel has a buffer for a message what leaves the unpacking to it."""
        local = next(local for local in self.plan.locals if local.phase.number == exchange.phase)
        is_next = exchange.field.storage is Storage.BLOCK and exchange.hosts == local.phase.hosts
        number = self.number(local, messages[0]) if is_next and len(messages) == 1 else None
        if number is None:
            return unpack

        def come() -> None:
            if self.fits(local, number, messages[0].box):
                self.entries[number] = messages[0].box, buffer, unpack
            else:
                unpack()

        return come

    def fits(self, local: Local, number: int, box: Box) -> bool:
        """Return whether a box has the lengths of the others that have come, where the kernel has one for them all."""
        names = local.packs[number].starts
        return all(own == other for entry, (boxes, _, _) in self.entries.items()
                   for name, known, own, other in zip(names, local.packs[entry].starts, box, boxes, strict=True)
                   if name == known)

    def number(self, local: Local, message: Message) -> int | None:
        """Return the number of the buffer that a message is unpacked from, None without one."""
        regions = self.plan.regions
        stored, halo = regions.stored(self.position, message.array), regions.halos[message.array]
        for number, pack in enumerate(local.packs):
            where = tuple(own + (pack.side if axis == pack.axis else 0) for axis, own in enumerate(self.position))
            if pack.face is None or pack.array != message.array or where != regions.ranks[message.source]:
                continue
            (low, high), (first, last), (below, above) = (box[pack.face] for box in (message.box, stored, halo))
            return number if (high == first + below if pack.side < 0 else low == last - above) else None
        return None

    def values(self, local: Local, empty: Callable[[str, tuple[int, ...]], _Array]) -> Mapping[str, Any]:
        """Return the arguments for the next call of a kernel: what it unpacks, and buffers without elements else."""
        found: dict[str, Any] = {}
        lengths: dict[str, int] = {}
        received = [(number, pack) for number, pack in enumerate(local.packs) if pack.is_received]
        for number, pack in sorted(received, key=lambda entry: entry[0] not in self.entries):
            stored = self.plan.regions.stored(self.position, pack.array)
            if number in self.entries:
                box, buffer, _ = self.entries[number]
                starts = [low - first for (low, _), (first, _) in zip(box, stored, strict=True)]
                shape = [high - low for low, high in box]
            else:
                starts = [*pack.idle([high - low for low, high in stored], self.plan.regions.halos[pack.array])]
                shape = [0 if place == pack.face else lengths.get(name, 0) for place, name in enumerate(pack.extents)]
                buffer = empty(pack.array, tuple(shape))
            found[pack.name] = buffer.reshape(shape)
            for start, extent, first, length in zip(pack.starts, pack.extents, starts, shape, strict=True):
                found.setdefault(start, first)
                lengths.setdefault(extent, length)
        return found

    def unpack(self) -> None:
        """Put the elements into their places that no kernel has unpacked."""
        for _, _, unpack in self.entries.values():
            unpack()
        self.entries.clear()

    def clear(self) -> None:
        """Forget what a kernel has unpacked."""
        self.entries.clear()
