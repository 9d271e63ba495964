"""A rank's run of a plan: exchanges, calls of compiled kernels, reductions over the mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from polyloop.distributed.engines.engine import Engine
from polyloop.distributed.fields import Field, Storage
from polyloop.distributed.filled import Arrivals, ready
from polyloop.distributed.inspector import Gather, inspector_of, lists_of, moved
from polyloop.distributed.local import Local, Names
from polyloop.distributed.plan import Combine, Exchange, Message, Node, Plan, Repeat, Run, Send
from polyloop.distributed.regions import Box, Coordinates, box_size, hull_of
from polyloop.distributed.strips import Strips, strips_of
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.invoke import CompiledKernel
from polyloop.target.c import CTarget

__all__ = ["Execution", "empty_like", "flat", "neutral", "slices"]

_Array: TypeAlias = Any
_Hosts: TypeAlias = Mapping[str, int]


def empty_like(example: _Array, shape: Sequence[int], dtype: np.dtype[Any]) -> _Array:
    """Return an array of the library and the device of *example*."""
    if example is None or isinstance(example, np.ndarray):
        return np.empty(shape, dtype)
    kind = type(example).__module__.partition(".")[0]
    library = import_module(kind)
    return library.empty(tuple(shape), dtype=getattr(library, dtype.name), device=example.device)


def neutral(operation: str, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a number
    """Return the number that changes nothing when it is combined with another one."""
    if operation in ("sum", "product"):
        return 0 if operation == "sum" else 1
    if np.issubdtype(dtype, np.floating):
        return -np.inf if operation == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if operation == "max" else limits.max


@dataclass(eq=False)
class Execution:
    """The run of a plan on one rank.

    Attributes
    ----------
    arrays
        What the rank stores of each array of the program.
    scalars
        Values of the scalar arguments, sizes included.
    sent
        Number of bytes sent so far in messages; what a rank copies to itself is not counted.
    """

    plan: Plan
    names: Names
    engine: Engine
    position: Coordinates
    compiled: Mapping[int, CompiledKernel]
    arrays: dict[str, _Array]
    scalars: Mapping[str, Any]
    windows: dict[tuple[object, ...], _Array] = field(default_factory=dict)
    known: dict[tuple[object, ...], Any] = field(default_factory=dict)
    sent: int = 0

    def __post_init__(self) -> None:
        self.locals = {local.phase.number: local for local in self.plan.locals}
        self.deciding = {number: local.deciding(self.plan.regions.deep is not None)
                         for number, local in self.locals.items()}
        self.gathers: dict[int, Gather | None] = {}
        self.written = {entry.array for local in self.plan.locals for entry in local.fields if entry.is_written}
        self.begun: dict[int, Callable[[], None]] = {}
        self.arrivals = Arrivals(self.plan, self.position)
        self.filled: dict[tuple[int, int], tuple[Message, _Array]] = {}
        self.current: dict[tuple[int, str], tuple[_Array, tuple[int, ...]]] = {}

    def run(self, nodes: Sequence[Node], hosts: _Hosts) -> None:
        """Run *nodes* in one iteration of the loops around."""
        waits: list[Callable[[], None]] = []
        for node in nodes:
            match node:
                case Exchange():
                    waits += [] if node.is_ahead else [self.receiving(node, hosts)]
                    continue
                case Send():
                    self.send(node, hosts)
                    continue
            for wait in waits:
                wait()
            waits = []
            match node:
                case Run():
                    self.call(node, hosts)
                case Combine():
                    self.combine(node)
                case Repeat():
                    self.repeat(node, hosts)
        for wait in waits:
            wait()

    def send(self, node: Send, hosts: _Hosts) -> None:
        """Begin an exchange that is received later."""
        turns = [hosts] if node.loop is None else [
            {**hosts, node.loop.iname: value} for value in self.iterations(node.loop, hosts)[:1]]
        for turn in turns:
            self.begun[node.exchange.number] = self.started(node.exchange, turn)

    def repeat(self, node: Repeat, hosts: _Hosts) -> None:
        """Run a loop of the host; exchanges that run ahead begin while the iteration before computes."""
        ahead = [entry for entry in node.body if isinstance(entry, Exchange) and entry.is_ahead]
        turns = [{**hosts, node.iname: value} for value in self.iterations(node, hosts)]
        waits = [self.receiving(entry, turn) for entry in ahead for turn in turns[:1]]
        for place, turn in enumerate(turns):
            for wait in waits:
                wait()
            following = turns[place + 1 : place + 2]
            waits = [self.started(entry, later, place % 2 + 1) for entry in ahead for later in following]
            self.run(node.body, turn)

    def iterations(self, node: Repeat, hosts: _Hosts) -> range:
        """Return the values of a loop of the host."""
        key = ("loop", node.iname, *(hosts[name] for name in node.hosts))
        if key not in self.known:
            self.known[key] = self.plan.iterations(node, hosts)
        found: range = self.known[key]
        return found

    # -- exchanges

    def messages(self, exchange: Exchange, target: Coordinates, hosts: _Hosts) -> tuple[Message, ...]:
        """Return the messages to a rank, which are found once for all iterations where they are the same."""
        own = () if exchange.is_fixed else tuple(hosts[name] for name in exchange.hosts)
        key = ("messages", exchange.number, target, *own)
        if key not in self.known:
            self.known[key] = self.plan.messages(exchange, target, hosts)
        found: tuple[Message, ...] = self.known[key]
        return found

    def receiving(self, exchange: Exchange, hosts: _Hosts) -> Callable[[], None]:
        """Return the function that waits for an exchange, which begins now if it was not sent before."""
        return self.begun.pop(exchange.number, None) or self.started(exchange, hosts)

    def started(self, exchange: Exchange, hosts: _Hosts, slot: int = 0) -> Callable[[], None]:
        """Begin an exchange, and return the function that waits for it and puts what came into its place.

        A window is in one of several buffers, the *slot*: one is filled while a kernel reads another one.
        """
        regions, array = self.plan.regions, exchange.field.array
        if regions.is_between(exchange.hosts, hosts):
            return lambda: None
        if (gather := self.gather(exchange, hosts)) is not None:
            return self.gathered(exchange, gather, slot)
        me = regions.number(self.position)
        source, origin = self.arrays[array], _starts(regions.stored(self.position, array))
        view = self.own_view(exchange, hosts)
        place, first = view or self.destination(exchange, hosts, slot)
        incoming: dict[int, list[Message]] = {}
        for message in self.messages(exchange, self.position, hosts) if view is None else ():
            if message.source == me:
                place[slices(message.box, first)] = source[slices(message.box, origin)]
            else:
                incoming.setdefault(message.source, []).append(message)
        sends = [*self.outgoing(exchange, hosts, source, origin)]
        receives, unpacks = [], []
        for peer, messages in incoming.items():
            buffer, unpack = self.landing(place, first, messages)
            receives.append((peer, buffer))
            if unpack is not None:
                unpacks.append(self.arrivals.later(exchange, messages, buffer, unpack))
        wait = self.engine.start(sends, receives)

        kept = [sends, receives]  # buffers live until the messages have gone

        def finish() -> None:
            wait()
            del kept[:]
            for unpack in unpacks:
                unpack()
            if exchange.field.storage is Storage.WINDOW:
                self.current[exchange.phase, exchange.field.name] = place, first

        return finish

    def outgoing(
        self, exchange: Exchange, hosts: _Hosts, source: _Array, origin: Sequence[int]
    ) -> Iterator[tuple[int, _Array]]:
        """Yield the ranks to which this one sends elements, with these."""
        regions = self.plan.regions
        me = regions.number(self.position)
        for target in regions.ranks:
            mine = [message for message in self.messages(exchange, target, hosts) if message.source == me]
            if mine and target != self.position:
                self.sent += sum(message.size for message in mine)
                number = regions.number(target)
                filled = self.filled.get((exchange.number, number))
                if filled is not None and mine == [filled[0]]:
                    yield number, filled[1].reshape(-1)
                else:
                    yield number, self.packed(source, origin, mine)

    def gather(self, exchange: Exchange, hosts: _Hosts) -> Gather | None:
        """Return the elements that ranks read of each other, where data decides it: found once a call, by all ranks."""
        if exchange.number in self.gathers:
            return self.gathers[exchange.number]
        local, key = self.locals[exchange.phase], ("inspector", exchange.number)
        if key not in self.known:
            made = inspector_of(self.plan, local, exchange) if exchange.field.storage is Storage.WINDOW else None
            self.known[key] = None if made is None else (made, compile_kernel(made.kernel, CTarget()))
        found: Gather | None = None
        if self.known[key] is not None:
            inspector, compiled = self.known[key]
            array = exchange.field.array
            marks = np.zeros(self.plan.regions.shape(array)[inspector.place], np.int8)
            box = self.active(local, hosts) if len(hosts) == len(local.phase.hosts) else self.plan.active(
                local, self.position, hosts)
            if box is not None:
                values = self.values(local, box, hosts, is_inspected=True)
                values |= {inspector.mark: marks, inspector.extent: len(marks), inspector.origin: 0}
                names = {entry.name for entry in inspector.kernel.arguments}
                compiled(**{name: _on_host(value) for name, value in values.items() if name in names})
            found = lists_of(self.plan, self.engine, self.position, array,
                             (inspector.place, np.flatnonzero(marks)), self.arrays[array])
            self.sent += found.listed
        self.gathers[exchange.number] = found
        return found

    def gathered(self, exchange: Exchange, gather: Gather, slot: int) -> Callable[[], None]:
        """Begin to bring the elements that were found to be read."""
        array = exchange.field.array
        source, start = self.arrays[array], self.plan.regions.stored(self.position, array)[gather.place][0]
        before = (slice(None),) * gather.place
        shape = [high - low for low, high in self.plan.window(exchange.field, self.position, None)]
        first, shape[gather.place] = gather.hull[0], gather.hull[1] - gather.hull[0]
        window = self.window_array(exchange, slot, tuple(shape))
        window[(*before, moved(gather.own, first))] = source[(*before, moved(gather.own, start))]
        sends = [(peer, flat(source[(*before, index - start)])) for peer, index in gather.sends.items()]
        itemsize = self.dtype(array).itemsize
        self.sent += sum(len(buffer) for _, buffer in sends) * itemsize
        row = box_size(tuple((0, extent) for place, extent in enumerate(shape) if place != gather.place))
        receives = [(peer, self.buffer(window, len(index) * row)) for peer, index in gather.receives.items()]
        wait = self.engine.start(sends, receives)
        starts = [0] * len(shape)
        starts[gather.place] = first

        def finish() -> None:
            wait()
            for peer, buffer in receives:
                index = gather.receives[peer]
                window[(*before, index - first)] = buffer.reshape(
                    [*shape[: gather.place], len(index), *shape[gather.place + 1 :]])
            self.current[exchange.phase, exchange.field.name] = window, tuple(starts)

        return finish

    def packed(self, source: _Array, origin: Sequence[int], messages: Sequence[Message]) -> _Array:
        """Return the elements that go to one rank: a view of elements that lie behind each other, or a buffer."""
        if len(messages) == 1:
            return flat(source[slices(messages[0].box, origin)])
        buffer = self.buffer(source, sum(box_size(message.box) for message in messages))
        at = 0
        for message in messages:
            size = box_size(message.box)
            buffer[at : at + size] = source[slices(message.box, origin)].reshape(-1)
            at += size
        return buffer

    def landing(
        self, place: _Array, first: Sequence[int], messages: Sequence[Message]
    ) -> tuple[_Array, Callable[[], None] | None]:
        """Return the buffer for the elements from one rank, and the function that puts them into their places."""
        if len(messages) == 1 and _is_dense(view := place[slices(messages[0].box, first)]):
            return view.reshape(-1), None
        buffer = self.buffer(place, sum(box_size(message.box) for message in messages))

        def unpack() -> None:
            at = 0
            for message in messages:
                size = box_size(message.box)
                shape = [high - low for low, high in message.box]
                place[slices(message.box, first)] = buffer[at : at + size].reshape(shape)
                at += size

        return buffer, unpack

    def buffer(self, example: _Array, size: int) -> _Array:
        """Return a new buffer for elements like those of *example*."""
        return np.empty(size, example.dtype) if isinstance(example, np.ndarray) else example.new_empty(size)

    def destination(self, exchange: Exchange, hosts: _Hosts, slot: int) -> tuple[_Array, tuple[int, ...]]:
        """Return the array that an exchange fills, and the index in the program of its first element."""
        entry, regions = exchange.field, self.plan.regions
        if entry.storage is Storage.BLOCK:
            return self.arrays[entry.array], _starts(regions.stored(self.position, entry.array))
        box = self.window(exchange, hosts)
        return self.window_array(exchange, slot, tuple(high - low for low, high in box)), _starts(box)

    def own_view(self, exchange: Exchange, hosts: _Hosts) -> tuple[_Array, tuple[int, ...]] | None:
        """Return the view of a window all of which is the rank's own, of an array that nothing writes; else None."""
        regions, array = self.plan.regions, exchange.field.array
        if exchange.field.storage is not Storage.WINDOW or array in self.written:
            return None
        box, stored = self.window(exchange, hosts), regions.stored(self.position, array)
        if any(low < first or high > last for (low, high), (first, last) in zip(box, stored, strict=True)):
            return None
        me = regions.number(self.position)
        messages = self.messages(exchange, self.position, hosts)
        view = self.arrays[array][slices(box, stored)]
        is_own = bool(messages) and all(message.source == me for message in messages)
        return (view, _starts(box)) if is_own and _is_dense(view) else None

    def window_array(self, exchange: Exchange, slot: int, shape: tuple[int, ...]) -> _Array:
        """Return the memory of a window, the same for all exchanges of one shape."""
        key = (exchange.number, slot, *shape)
        if key not in self.windows:
            array = exchange.field.array
            self.windows[key] = empty_like(self.arrays[array], shape, self.dtype(array))
        return self.windows[key]

    def dtype(self, array: str) -> np.dtype[Any]:
        """Return the type of the elements of an array."""
        dtype = self.plan.regions.homes.kernel.arrays()[array].dtype
        assert dtype is not None, "a completed kernel has types"
        return dtype

    def window(self, exchange: Exchange, hosts: _Hosts) -> Box:
        """Return the box of a window, found once for all iterations where it is the same."""
        own = () if exchange.is_fixed else tuple(hosts[name] for name in exchange.hosts)
        key = ("window", exchange.number, *own)
        if key not in self.known:
            hull = hull_of(self.plan.received(exchange, self.position, hosts))
            self.known[key] = self.plan.window(exchange.field, self.position, hull)
        found: Box = self.known[key]
        return found

    def unread(self, entry: Field) -> tuple[_Array, tuple[int, ...]]:
        """Return a window through which no rank reads anything for these sizes."""
        box = self.plan.window(entry, self.position, None)
        dtype = self.plan.regions.homes.kernel.arrays()[entry.array].dtype
        assert dtype is not None, "a completed kernel has types"
        return empty_like(self.arrays[entry.array], [high - low for low, high in box], dtype), _starts(box)

    # -- calls

    def call(self, node: Run, hosts: _Hosts) -> None:
        """Run the kernel of a phase; its inner part while exchanges are under way."""
        local = self.locals[node.phase.number]
        box = self.active(local, hosts)
        waits = [self.receiving(exchange, hosts) for exchange in node.during]
        if box is None:
            _ = [wait() for wait in waits]
            self.arrivals.unpack()
            return
        written = {entry.array for entry in local.fields if entry.is_written}
        self.filled = {key: found for key, found in self.filled.items() if found[0].array not in written}
        parts = self.strips(node, box, hosts) if node.during else None
        if parts is None:
            _ = [wait() for wait in waits]
            self.launch(local, box, hosts)
        else:
            self.launch(local, parts.inner, hosts)
            for wait in waits:
                wait()
            for strip in parts.outer:
                self.launch(local, strip, hosts)
        self.arrivals.unpack()
        for place, pack in enumerate(local.packs):
            if not pack.is_received and (found := self.ready(local, place)) is not None:
                self.filled[found[0].number, found[1].target] = found[1], self.send_buffer(local, place)

    def ready(self, local: Local, place: int) -> tuple[Exchange, Message] | None:
        """Return the exchange and the message that a send buffer is filled for, None if it stays empty."""
        key = ("ready", local.phase.number, place)
        if key not in self.known:
            self.known[key] = ready(self.plan, local, local.packs[place], self.position)
        found: tuple[Exchange, Message] | None = self.known[key]
        return found

    def send_buffer(self, local: Local, place: int) -> _Array:
        """Return the buffer that the kernel of a phase fills."""
        key, pack = ("send", local.phase.number, place), local.packs[place]
        if key not in self.windows:
            found = self.ready(local, place)
            shape = (0,) * len(pack.starts) if found is None else tuple(high - low for low, high in found[1].box)
            self.windows[key] = empty_like(self.arrays[pack.array], shape, self.dtype(pack.array))
        return self.windows[key]

    def strips(self, node: Run, box: Box, hosts: _Hosts) -> Strips | None:
        """Return the inner part of a box and the strips around it, None where the former would be empty."""
        is_fixed = all(exchange.is_fixed for exchange in node.during)
        own = () if is_fixed else tuple(hosts[name] for name in node.phase.hosts)
        key = ("strips", node.phase.number, box, *own)
        if key not in self.known:
            self.known[key] = strips_of(self.plan.regions, node, self.position, box, hosts)
        found: Strips | None = self.known[key]
        return found

    def active(self, local: Local, hosts: _Hosts) -> Box | None:
        """Return the coordinates that this rank computes in a phase; None if there are none."""
        key = ("active", local.phase.number, *(hosts[name] for name in self.deciding[local.phase.number]))
        if key not in self.known:
            self.known[key] = self.plan.active(local, self.position, hosts)
        found: Box | None = self.known[key]
        return found

    def launch(self, local: Local, box: Box, hosts: _Hosts) -> None:
        """Call the kernel of a phase for the coordinates in a box."""
        if any(low >= high and axis in local.active for axis, (low, high) in enumerate(box)):
            return
        values = self.values(local, box, hosts)
        known = {argument.name for argument in local.kernel.arguments}
        extents = {*local.extents.values(), *(name for pack in local.packs for name in pack.extents)}
        self.compiled[local.phase.number](
            **{name: value for name, value in values.items() if name in known and name not in extents})
        self.arrivals.clear()  # the kernel has unpacked it

    def values(self, local: Local, box: Box, hosts: _Hosts, *, is_inspected: bool = False) -> dict[str, Any]:
        """Return the arguments of a call of the kernel of a phase; windows are not there yet for its inspector."""
        values: dict[str, Any] = {**self.scalars, **hosts}
        for axis, (low, high) in enumerate(box):
            values[self.names.low[axis]] = low
            values[self.names.count[axis]] = high - low
            values[self.names.at[axis]] = low - self.plan.regions.block(self.position, axis)[0]
        if not is_inspected:
            values |= {**self.packing(local), **self.arrivals.values(
                local, lambda array, shape: empty_like(self.arrays[array], shape, self.dtype(array)))}
        for entry in local.fields:
            if entry.storage is Storage.WINDOW and is_inspected:
                continue
            if entry.storage is Storage.WINDOW:
                values[entry.name], first = self.current.get((local.phase.number, entry.name)) or self.unread(entry)
                for place, low in enumerate(first):
                    if (entry.name, place) in local.origins:
                        values[local.origins[entry.name, place]] = low
            elif entry.array in self.arrays:
                values[entry.name] = self.arrays[entry.array]
            updates = [] if is_inspected else [combined for name, combined in self.plan.regions.homes.combined.items()
                     if name in local.phase.instructions and combined.is_update and combined.array == entry.array]
            if updates and entry.storage is Storage.SHARE:
                values[entry.name] = self.share(entry.array, updates[0].operation)
        return values

    def packing(self, local: Local) -> dict[str, Any]:
        """Return the send buffers of a kernel, and where their boxes begin in the rank's parts."""
        values: dict[str, Any] = {}
        for number, pack in enumerate(local.packs):
            if not pack.is_received:
                values[pack.name] = self.send_buffer(local, number)
                found = self.ready(local, number)
                first = _starts(self.plan.regions.stored(self.position, pack.array))
                starts = first if found is None else _starts(found[1].box)
                values |= {name: low - start for name, low, start in zip(pack.starts, starts, first, strict=True)}
        return values

    # -- reductions over the mesh

    def share(self, array: str, operation: str) -> _Array:
        """Return the array in which a rank collects its updates, to begin with neutral elements."""
        key = ("share", array)
        if key not in self.windows:
            dtype = self.plan.regions.homes.kernel.arrays()[array].dtype
            assert dtype is not None, "a completed kernel has types"
            self.windows[key] = empty_like(self.arrays[array], self.plan.regions.shape(array), dtype)
        found = self.windows[key]
        found[...] = neutral(operation, self.plan.regions.homes.kernel.arrays()[array].dtype or np.dtype(float))
        self.known["share", array] = True
        return found

    def combine(self, node: Combine) -> None:
        """Combine the shares of an array of the ranks along some axes of the mesh."""
        combined, regions = node.combined, self.plan.regions
        group = tuple(regions.number(other) for other in regions.ranks
                      if all(axis in combined.axes or own == mine
                             for axis, (own, mine) in enumerate(zip(other, self.position, strict=True))))
        whole = self.arrays[combined.array]
        if not combined.is_update:
            if node.scattered and len(group) > 1:
                self.scatter(node, whole, group)
            else:
                self.reduce(whole, combined.operation, group)
            return
        if not self.known.pop(("share", combined.array), False):
            self.share(combined.array, combined.operation)
            self.known.pop(("share", combined.array))
        part = self.windows["share", combined.array]
        if node.scattered:
            if len(group) > 1:
                self.scatter(node, part, group)
            own = regions.owned(self.position, combined.array)
            whole = whole[slices(own, regions.stored(self.position, combined.array))]
            part = part[slices(own, (0,) * len(own))]
        else:
            self.reduce(part, combined.operation, group)
        match combined.operation:
            case "sum":
                whole[...] = whole + part
            case "product":
                whole[...] = whole * part
            case other:
                larger = part > whole if other == "max" else part < whole
                whole[larger] = part[larger]

    def scatter(self, node: Combine, whole: _Array, group: tuple[int, ...]) -> None:
        """Combine an array over a group of ranks, of which each gets its block alone, in its place."""
        regions, array = self.plan.regions, node.combined.array
        origin = (0,) * len(whole.shape) if node.combined.is_update else _starts(regions.stored(self.position, array))
        boxes = [regions.owned(regions.ranks[rank], array, node.scattered) for rank in group]
        size = max(map(box_size, boxes))  # blocks that are shorter have room behind them
        if size == 0:
            return
        is_dense = all(axis is None for axis in node.scattered[1:]) and size * len(group) == whole.shape[0] * max(
            1, box_size(tuple((0, extent) for extent in whole.shape[1:])))
        buffer = whole.reshape(-1) if is_dense else self.buffer(whole, size * len(group))
        if not is_dense:
            buffer[...] = 0
            for place, box in enumerate(boxes):
                buffer[place * size : place * size + box_size(box)] = whole[slices(box, origin)].reshape(-1)
        box = boxes[group.index(self.engine.rank)]
        mine = self.engine.reduce_scatter(buffer, node.combined.operation, group)[: box_size(box)]
        whole[slices(box, origin)] = mine.reshape([high - low for low, high in box])

    def reduce(self, whole: _Array, operation: str, group: tuple[int, ...]) -> None:
        """Combine an array over a group of ranks, in place."""
        if len(group) > 1:
            self.engine.all_reduce(whole.reshape(-1), operation, group)


def _on_host(value: Any) -> Any:  # noqa: ANN401 - an argument
    """Return an argument for a kernel on the processor."""
    return value.cpu().numpy() if hasattr(value, "cpu") else value


def _starts(box: Box) -> tuple[int, ...]:
    return tuple(low for low, _ in box)


def slices(box: Box, origin: Sequence[int] | Box) -> tuple[slice, ...]:
    """Return the slices of a box in an array that begins at *origin*, or holds that box."""
    starts = [start if isinstance(start, int) else start[0] for start in origin]
    return tuple(slice(low - start, high - start) for (low, high), start in zip(box, starts, strict=True))


def flat(view: _Array) -> _Array:
    """Return the elements behind each other: a view where they are, else a copy."""
    return (np.ascontiguousarray(view) if isinstance(view, np.ndarray) else view.contiguous()).reshape(-1)


def _is_dense(view: _Array) -> bool:
    return bool(view.flags.c_contiguous) if isinstance(view, np.ndarray) else bool(view.is_contiguous())
