"""Elements that have come and are not in their places yet: the next call of the kernel that reads them unpacks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from polyloop.distributed.fields import Storage
from polyloop.distributed.local import Local
from polyloop.distributed.plan import Exchange, Message, Plan
from polyloop.distributed.regions import Box, Coordinates

__all__ = ["Arrivals"]

_Array: TypeAlias = Any


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
