"""Performance bounds of a kernel, as data and as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from polyloop.display import Shown, brief
from polyloop.serial.value import Value

__all__ = ["AccessFacts", "Bound", "Explanation", "LaunchFacts", "byte_text", "short", "time_text"]

_SHOWN = 4
_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class Bound:
    """The least time that one resource needs.

    Attributes
    ----------
    resource
        ``"DRAM"``, ``"L1 and shared memory"``, or a type; of a processor ``"memory"``, ``"L1 cache"``, .., or a type.
    amount, unit, rate
        How much is asked of it, and how much it does in a second.
    source
        Where the rate is published.
    """

    resource: str
    amount: float
    unit: str
    rate: float
    source: str

    __repr__ = brief

    @property
    def seconds(self) -> float:
        """The least time."""
        return self.amount / self.rate


@dataclass(frozen=True)
class AccessFacts:
    """One access of an instruction to global or shared memory.

    Attributes
    ----------
    requests
        Accesses of warps, without repeated reads of values that the compiler keeps in a register.
    turns
        Turns of the first-level cache (128 bytes each), or of shared memory, that one takes at least.
    least_turns
        Turns that would be enough.
    sectors, least_sectors
        In global memory, sectors of 32 bytes that one touches, and that would be enough; 0 for shared memory.
    used_bytes
        In global memory, the elements that the threads of one request access, each once [bytes].
    inames
        What warps run along, what walks along neighbours in memory, and what is on another thread axis and not used, as
        far as there is such an iname.
    is_known
        False where data decides which elements are touched: then nothing is said of sectors and turns.
    """

    launch: str
    instruction: str
    text: str
    array: str
    space: str
    direction: str
    requests: int
    turns: float = 1.0
    least_turns: float = 1.0
    sectors: float = 0.0
    least_sectors: float = 0.0
    used_bytes: float = 0.0
    inames: tuple[str, str, str] = ("", "", "")
    is_exact: bool = True
    is_known: bool = True

    __repr__ = brief

    @property
    def nbytes(self) -> float:
        """Bytes that are asked of the second-level cache, if the first has nothing."""
        return 32 * self.sectors * self.requests

    @property
    def excess(self) -> float:
        """Ratio of traffic to the fewest possible: sectors of global memory, wavefronts of shared memory."""
        if self.space == "global":
            return self.sectors / self.least_sectors if self.least_sectors else 1.0
        return self.turns / self.least_turns


@dataclass(frozen=True)
class LaunchFacts:
    """One launch.

    Attributes
    ----------
    registers
        Of a thread; None where the kernel was not compiled.
    resident
        Blocks that a multiprocessor holds at a time.
    turns
        Blocks of the grid that a block of the launch executes at most, one after the other.
    cluster
        Blocks of a cluster, which run at the same time; 1 if each runs by itself.
    roles
        Roles of the threads of a block, in words; none if all do the same.
    joins
        The blocks that execute those of this launch, in words; empty if a host starts it.

    Notes
    -----
    On a processor a thread executes whole blocks: ``threads`` is 0, ``resident`` is the number of cores that have
    blocks, ``occupancy`` is its part of all cores, and ``shared_bytes`` are those of each thread's own buffers.
    """

    name: str
    blocks: int
    threads: int
    shared_bytes: int
    registers: int | None
    local_bytes: int
    resident: int
    occupancy: float
    limited_by: str
    barriers: int
    warp_barriers: int
    turns: int = 1
    cluster: int = 1
    cluster_barriers: int = 0
    roles: tuple[str, ...] = ()
    joins: str = ""

    __repr__ = brief


@dataclass(frozen=True, eq=False)
class Explanation(Value, Shown):
    """Performance bounds of a kernel for given sizes on one device; ``print`` it, or take :meth:`to_dict`.

    Attributes
    ----------
    operations
        How many of each kind, by type: ``{"float32": {"add": .., "mul": ..}}``; index arithmetic is not among them.
    flops
        Floating-point operations by type.
    footprints
        Bytes of each array in global memory that are read and written, each counted once.
    bounds
        The least times by resource, the longest first.
    accesses
        Accesses of each instruction to global and shared memory.
    suggestions, notes
        Possible improvements, and open questions.
    is_estimate
        True if accesses depend on data, so that figures of memory are no lower bounds.
    """

    kernel: str
    device: str
    sizes: Mapping[str, int]
    operations: Mapping[str, Mapping[str, int]]
    flops: Mapping[str, int]
    footprints: Mapping[str, int]
    bounds: tuple[Bound, ...]
    accesses: tuple[AccessFacts, ...]
    launches: tuple[LaunchFacts, ...]
    multiprocessors: int
    suggestions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_estimate: bool = False

    @property
    def bound(self) -> Bound | None:
        """The resource that needs the longest."""
        return self.bounds[0] if self.bounds and self.bounds[0].amount else None

    @property
    def seconds(self) -> float:
        """The least time that the kernel can take."""
        return 0.0 if self.bound is None else self.bound.seconds

    @property
    def dram_bytes(self) -> int:
        """The least that is moved from and to memory, if caches hold nothing at the start."""
        return sum(self.footprints.values())

    @property
    def requested_bytes(self) -> float:
        """Bytes requested from the caches behind the first: 32 for each sector."""
        return sum(access.nbytes for access in self.accesses)

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte that has to be moved."""
        return sum(self.flops.values()) / self.dram_bytes if self.dram_bytes else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dictionaries."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        for bound, entry in zip(self.bounds, found["bounds"], strict=True):
            entry["seconds"] = bound.seconds
        found.update(
            seconds=self.seconds, dram_bytes=self.dram_bytes, requested_bytes=self.requested_bytes,
            intensity=self.intensity, bound=None if self.bound is None else self.bound.resource,
        )  # fmt: skip
        return found

    def __repr__(self) -> str:
        return f"<Explanation of '{self.kernel}' on {self.device}: {self._verdict()}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        yield f"{self.kernel} on {self.device}{f', {sizes}' if sizes else ''}"
        yield self._verdict()
        yield from _table([_bound_row(bound) for bound in self.bounds])
        yield from self._memory()
        yield from self._too_much("global", "sectors of 32 bytes a warp")
        yield from self._too_much("local", "turns a warp")
        for launch in self.launches:
            yield from _launch_lines(launch, self.multiprocessors, is_only=len(self.launches) == 1)
        for note in self.notes:
            yield f"Note: {note}"
        for suggestion in self.suggestions:
            yield f"Try: {suggestion}"

    def _verdict(self) -> str:
        if self.bound is None:
            return "nothing to do"
        about = self.is_estimate and self.bound.resource == "DRAM"
        verdict = f"bound by {self.bound.resource}: {'about' if about else 'at least'} {time_text(self.seconds)}"
        second = self.bounds[1] if len(self.bounds) > 1 else self.bound
        if second is self.bound or not second.amount:
            return verdict
        return f"{verdict}, {self.seconds / second.seconds:.3g} times as long as {second.resource}"

    def _memory(self) -> Iterator[str]:
        if not self.dram_bytes:
            return
        yield f"intensity: {self.intensity:.3g} floating-point operations for each byte that has to be moved"
        if self.requested_bytes:
            ratio = self.requested_bytes / self.dram_bytes
            again = ", each element once" if ratio < 1.005 else f", {short(ratio)} times what has to be moved"
            is_known = all(access.is_known for access in self.accesses)
            start = "asked of the caches: " + ("" if is_known else "at least ")
            yield f"{start}{byte_text(self.requested_bytes)}{again if is_known or ratio > 1 else ''}"

    def _too_much(self, space: str, unit: str) -> Iterator[str]:
        found = [access for access in self.accesses if access.space == space and access.excess > 1.02]
        cost = _sector_cost if space == "global" else _turn_cost
        for access in sorted(found, key=cost, reverse=True)[:_SHOWN]:
            now, least = access.turns, access.least_turns
            if space == "global":
                now, least = access.sectors, access.least_sectors
            does = f"{access.instruction} {_VERBS[access.direction]} {access.text}"
            yield f"{does}: {'' if access.is_exact else 'about '}{now:.3g} {unit}, {least:.3g} would do"


def _sector_cost(access: AccessFacts) -> float:
    return (access.sectors - access.least_sectors) * access.requests


def _turn_cost(access: AccessFacts) -> float:
    return (access.turns - access.least_turns) * access.requests


def _bound_row(bound: Bound) -> tuple[str, str, str]:
    amount = byte_text(bound.amount) if bound.unit == "bytes" else f"{short(bound.amount)} {bound.unit}"
    rate = f"{byte_text(bound.rate)}/s" if bound.unit == "bytes" else f"{short(bound.rate)}/s"
    return bound.resource, time_text(bound.seconds), f"{amount} at {rate}"


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    first, second = (max((len(row[k]) for row in rows), default=0) for k in (0, 1))
    for row in rows:
        yield f"  {row[0]:<{first}}  {row[1]:>{second}}  {row[2]}"


def _launch_lines(launch: LaunchFacts, multiprocessors: int, *, is_only: bool) -> Iterator[str]:
    start = "" if is_only else f"{launch.name}: "
    if not launch.threads:
        own = f", with {byte_text(launch.shared_bytes)} of buffers each" if launch.shared_bytes else ""
        blocks = _plural(launch.blocks, "block") if launch.blocks else "blocks"
        yield f"{start}{blocks} on {launch.resident} of {_plural(multiprocessors, 'core')}{own}"
        return
    if launch.joins:
        yield f"{start}{_plural(launch.blocks, 'block')}, each executed by {launch.joins}"
        return
    registers = "" if launch.registers is None else f", {launch.registers} registers a thread"
    stack = f", {launch.local_bytes} bytes of stack" if launch.local_bytes else ""
    clusters = f" in clusters of {launch.cluster}" if launch.cluster > 1 else ""
    yield (
        f"{start}{_plural(launch.blocks, 'block')} of {_plural(launch.threads, 'thread')}{clusters}{registers}{stack}, "
        f"{launch.shared_bytes} bytes of shared memory"
    )
    yield from (f"{start}{role}" for role in launch.roles)
    rounds = launch.blocks / (launch.resident * multiprocessors) if launch.resident else 0.0
    held = f"{_plural(launch.resident, 'block')} on a multiprocessor at a time ({launch.occupancy:.0%} of its warps)"
    yield f"{start}{held}, limited by {launch.limited_by}; {multiprocessors} multiprocessors"
    if launch.turns > 1:
        yield f"{start}each executes up to {launch.turns} blocks of the grid, one after the other"
    if rounds > 1:
        yield f"{start}{rounds:.3g} rounds of blocks"
    if launch.barriers or launch.warp_barriers or launch.cluster_barriers:
        clusters = f"{_plural(launch.cluster_barriers, 'barrier')} of its cluster" if launch.cluster_barriers else ""
        warps = f"{_plural(launch.warp_barriers, 'barrier')} of its warp" if launch.warp_barriers else ""
        blocks = f"{_plural(launch.barriers, 'barrier')} of its block" if launch.barriers else ""
        yield f"{start}a thread meets {' and '.join(part for part in (clusters, blocks, warps) if part)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """Return a number with three digits and a letter for the thousands."""
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def byte_text(value: float) -> str:
    """Return a number of bytes with three digits and its unit."""
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / size:.3g} {prefix}B"
    return f"{value:.3g} bytes"


def time_text(seconds: float) -> str:
    """Return a time with three digits and its unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
