"""Traffic between ranks: bytes for each link and exchange, and the time that a simple model gives for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from polyloop.display import Shown
from polyloop.distributed.inspector import is_selected
from polyloop.distributed.local import Names
from polyloop.distributed.modelled import computing
from polyloop.distributed.plan import Combine, Exchange, Node, Plan, Repeat, Run
from polyloop.distributed.regions import Coordinates, box_size
from polyloop.kernel.devices import Device
from polyloop.kernel.kernel import LoopKernel

__all__ = ["ExchangeFacts", "Link", "Traffic", "traffic_of"]


@dataclass(frozen=True)
class Link(Shown):
    """A model of what carries messages: a message of ``b`` bytes takes ``latency + b/bandwidth``.

    Parameters
    ----------
    latency
        Time of an empty message [s].
    bandwidth
        Bytes that a rank sends, or receives, in a second [B/s].
    """

    latency: float = 1e-5
    bandwidth: float = 2e11


@dataclass(frozen=True)
class ExchangeFacts:
    """Messages of one exchange, in all of its iterations together.

    Attributes
    ----------
    array
        Array of the program.
    phase
        Number of the phase that reads what comes.
    times
        Number of iterations of the loops of the host around.
    messages
        Number of messages.
    packed
        Number of messages whose elements do not lie behind each other where they come from.
    bytes
        Bytes of all messages.
    most
        Bytes and messages of the rank that receives most in one iteration.
    is_bound
        Whether data decides how many of these elements are sent: an inspector finds them in each call.
    is_hidden
        Whether the phase computes its inner part at the same time, or the iteration before.
    """

    array: str
    phase: int
    times: int
    messages: int
    packed: int
    bytes: int
    most: tuple[int, int]
    is_hidden: bool
    is_bound: bool = False


@dataclass(frozen=True, eq=False)
class Traffic(Shown):
    """Messages between the ranks of a program in one call.

    Attributes
    ----------
    links
        ``(source, target)`` -> bytes of all messages.
    exchanges
        What each exchange sends.
    reductions
        ``(array, bytes of a share, number of ranks, times)`` of each reduction over the mesh.
    seconds
        Time of the exchanges and reductions of the rank with the most [s].
    hidden
        The part of it that passes beside computation, if that takes as long [s].
    computing
        Least time of the kernels of the rank with the most, where a device was named [s].
    scattered
        Arrays of ``reductions`` of which each rank gets its block alone.
    """

    links: Mapping[tuple[int, int], int]
    exchanges: tuple[ExchangeFacts, ...]
    reductions: tuple[tuple[str, int, int, int], ...] = ()
    seconds: float = 0.0
    hidden: float = 0.0
    computing: float = 0.0
    scattered: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        """Bytes of all messages; those of reductions are the engine's affair."""
        return sum(self.links.values())

    @property
    def total(self) -> float:
        """Time of a call by the model: what is hidden takes time where it is longer than the computation [s]."""
        return self.seconds - self.hidden + max(self.hidden, self.computing)

    def __str__(self) -> str:
        lines = [f"{sum(entry.messages for entry in self.exchanges)} messages, {self.bytes} bytes, "
                 f"{self.seconds*1e6:.1f} us, of which {self.hidden*1e6:.1f} us beside computation"]
        if self.computing:
            lines.append(f"    computation: {self.computing*1e6:.1f} us; in all {self.total*1e6:.1f} us")
        for entry in self.exchanges:
            beside = ", beside computation" if entry.is_hidden else ""
            most = "at most " if entry.is_bound else ""
            lines.append(f"    '{entry.array}' for phase {entry.phase}: {entry.messages} messages "
                         f"({entry.packed} packed), {most}{entry.bytes} bytes in {entry.times} turns{beside}")
        lines += [f"    '{array}' combined{' and scattered' if array in self.scattered else ''}: "
                  f"{size} bytes by {count} ranks, {times} times"
                  for array, size, count, times in self.reductions]
        lines += [f"    rank {source} to rank {target}: {size} bytes"
                  for (source, target), size in sorted(self.links.items())]
        return "\n".join(lines)


_SAMPLED: Final = 4
"""Turns of a loop that stand for all of them, where some ranks stand for all ranks."""


@dataclass(eq=False)
class _Counting:
    plan: Plan
    link: Link
    positions: Sequence[Coordinates]
    links: Counter[tuple[int, int]] = field(default_factory=Counter)
    exchanges: list[ExchangeFacts] = field(default_factory=list)
    reductions: list[tuple[str, int, int, int]] = field(default_factory=list)
    scattered: set[str] = field(default_factory=set)
    seconds: float = 0.0
    hidden: float = 0.0

    @property
    def is_exact(self) -> bool:
        """True where all ranks are asked, in all turns."""
        return len(self.positions) == len(self.plan.regions.ranks)

    def visit(self, nodes: Sequence[Node], turns: Sequence[Mapping[str, int]]) -> None:
        """Count what *nodes* send in some iterations of the loops around."""
        for node in nodes:
            match node:
                case Exchange():
                    self.exchange(node, turns, is_hidden=node.is_ahead or node.is_sent)
                case Run():
                    for exchange in node.during:
                        self.exchange(exchange, turns, is_hidden=True)
                case Combine():
                    self.combine(node, turns)
                case Repeat():
                    inner = [{**turn, node.iname: value}
                             for turn in turns for value in self.plan.iterations(node, turn)]
                    self.visit(node.body, inner)

    def exchange(self, node: Exchange, turns: Sequence[Mapping[str, int]], *, is_hidden: bool) -> None:
        regions = self.plan.regions
        messages = packed = total = 0
        most = (0, 0)
        step = 1 if self.is_exact else max(1, len(turns) // _SAMPLED)
        different = turns[:1] if node.is_fixed else turns[::step]
        weight = len(turns) / max(1, len(different)) if len(different) < len(turns) else 1
        for turn in different:
            longest = 0.0
            for position in self.positions:
                found = [entry for entry in self.plan.messages(node, position, turn) if entry.source != entry.target]
                for entry in found:
                    self.links[entry.source, entry.target] += round(entry.size * weight)
                messages += round(len(found) * weight)
                packed += round(sum(not entry.is_contiguous for entry in found) * weight)
                size = sum(entry.size for entry in found)
                total += round(size * weight)
                most = max(most, (size, len(found)))
                peers = len({entry.source for entry in found})
                longest = max(longest, peers * self.link.latency + size / self.link.bandwidth)
            self.seconds += longest * weight
            self.hidden += longest * weight if is_hidden else 0.0
        self.exchanges.append(ExchangeFacts(
            node.field.array, node.phase, len(turns), messages, packed, total, most, is_hidden,
            is_selected(regions.homes, node)))

    def combine(self, node: Combine, turns: Sequence[Mapping[str, int]]) -> None:
        regions, combined = self.plan.regions, node.combined
        count = 1
        for axis in combined.axes:
            count *= regions.mesh[axis]
        dtype = regions.homes.kernel.arrays()[combined.array].dtype
        assert dtype is not None, "a completed kernel has types"
        size = max(box_size(regions.stored(position, combined.array)) for position in self.positions) * dtype.itemsize
        self.reductions.append((combined.array, size, count, len(turns)))
        ring = 2 * (count - 1) * (self.link.latency + size / count / self.link.bandwidth)
        tree = 2 * (count - 1).bit_length() * (self.link.latency + size / self.link.bandwidth)
        if node.scattered:
            self.scattered.add(combined.array)
        once = ring / 2 if node.scattered else min(ring, tree)
        self.seconds += once * len(turns)


def traffic_of(
    plan: Plan, link: Link, device: str | Device, names: Names, kernels: Mapping[str, LoopKernel],
    positions: Sequence[Coordinates] | None = None,
) -> Traffic:  # fmt: skip
    """Return the traffic of one call of a plan; with kernels, also their time on a device.

    With some of the *positions*, what these ranks receive in some turns of each loop: times alone are meant then.
    """
    chosen = plan.regions.ranks if positions is None else positions
    work = _Counting(plan, link, chosen)
    work.visit(plan.nodes, [{}])
    links = {pair: size for pair, size in work.links.items() if size}
    return Traffic(links, tuple(work.exchanges), tuple(work.reductions), work.seconds, work.hidden,
                   computing(plan, names, kernels, device, chosen) if kernels else 0.0, frozenset(work.scattered))
