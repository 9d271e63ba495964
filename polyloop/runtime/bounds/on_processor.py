"""``pl.explain`` for a processor: memory and caches, arithmetic in vectors, and the cores that have blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from polyloop.cost.coalescing import repeating_loops
from polyloop.cost.traffic import Traffic, address_of, axis_stride, different, traffic
from polyloop.errors import VerificationError
from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.processors import Processor
from polyloop.kernel.tags import Interleave, Vectorize
from polyloop.poly.axes import loops_among
from polyloop.poly.polynomial import Polynomial
from polyloop.runtime.bounds.counted import Counted, access_text, by_type, checked_sizes, homes_of
from polyloop.runtime.bounds.measured import this_processor
from polyloop.runtime.explanation import AccessFacts, Bound, Explanation, LaunchFacts, byte_text, short, time_text
from polyloop.schedule.build import build_verified
from polyloop.schedule.counts import census_of
from polyloop.schedule.plan import Launch
from polyloop.schedule.storage import shared_bytes
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.source import generate_code

__all__ = ["explain_processor"]

_MOST: Final = 3
_MUCH: Final = 2.0
"""Ratio of what is asked of the caches to what has to be moved, from which on tiles are worth a word."""
_VERBS: Final = {"load": "reads", "store": "writes", "atomic": "updates"}


def explain_processor(
    kernel: LoopKernel, sizes: Mapping[str, int] | None, given: Processor | None
) -> Explanation:
    """Return the bounds of *kernel* on the processor *given*, or on that of this machine.

    Raises
    ------
    ArgumentError, VerificationError, CodegenError, CompilerError
        Those of :func:`polyloop.explain`.
    """
    own = target_of(kernel, None)
    target = own if own is not None and own.name == "c" else CTarget(openmp=True)
    program = generate_code(kernel, target)
    census = census_of(kernel, redundant=True, limits=target.limits)
    known = checked_sizes(census, program, dict(sizes or {}))
    planned = build_verified(kernel, target.limits).schedule.launches
    homes = homes_of(planned, census.placement)
    model = this_processor() if given is None else given
    found = Counted(census, known, homes)
    launches = tuple(_launches(found, planned, model, target))
    accesses = tuple(_accesses(found))
    kinds, flops = found.operations()
    moved = found.footprints()
    if own is not None and own is not target:
        found.notes.append(f"the kernel is for {own!r}: the bounds are those of its text for C")
    bounds = [*_bounds(model, launches, flops, sum(moved.values()), accesses, is_fused=_is_fused(kinds, target))]
    result = Explanation(
        kernel.name, model.name, known, kinds, by_type(flops), moved,
        tuple(sorted(bounds, key=lambda bound: -bound.seconds)), accesses, launches, model.cores, (),
        (*dict.fromkeys(found.notes), *_held(model, launches, sum(moved.values()))), found.is_estimate,
    )  # fmt: skip
    suggestions = [*_shared(result, model, target), *_steps(found), *_work(result, target)]
    return replace(result, suggestions=tuple(dict.fromkeys(suggestions))[:_MOST])


def _is_fused(kinds: Mapping[str, Mapping[str, int]], target: Target) -> bool:
    """Return whether a product and a sum may be one instruction."""
    return target.contract or any("func:fma" in names for names in kinds.values())


# {{{ facts


def _launches(found: Counted, planned: Iterable[Launch], model: Processor, target: Target) -> Iterator[LaunchFacts]:
    """Yield the cores that share the blocks of each launch: one, where there are no blocks or no threads."""
    for launch in planned:
        blocks = _blocks(found, launch.name)
        cores = min(blocks or model.cores, model.cores) if target.openmp else 1
        limited = "cores" if cores == model.cores else "blocks" if target.openmp else "openmp=False"
        yield LaunchFacts(
            launch.name, blocks, 0, shared_bytes(launch.temporaries), None, 0, cores, cores / model.cores, limited, 0, 0
        )


def _blocks(found: Counted, launch: str) -> int:
    """Return the blocks of a launch, 1 where it has no loops over blocks, 0 where loops of the host decide."""
    grids = found.census.grids
    assert grids is not None, "redundant work is counted by blocks"
    name = next((name for name, home in found.homes.items() if home == launch and name in grids), None)
    placed = None if name is None else found.placement.statements[name]
    counts = () if placed is None else (found.census.points(each, placed) for each in grids[placed.name].values())
    total = 1
    for count in counts:
        if not count.names() <= found.sizes.keys():
            return 0
        total *= found.number(count)
    return total


def _accesses(found: Counted) -> Iterator[AccessFacts]:
    """Yield the accesses of each statement to arrays, equal ones of one statement once; ``requests`` are elements.

    A loop over which the element is the same, innermost or unrolled, has it in a register; so have the threads of a
    block that do not differ in it.
    """
    for entry in different(traffic(found.placement)):
        address = address_of(found.kernel, entry)
        dropped = set(repeating_loops(found.placement, entry))
        if address is not None and entry.direction == "load":
            dropped |= {axis for axis in found.placement.axes.local if axis_stride(address, axis) == 0}
        count = _elements(found, entry, dropped)
        part = entry.dtype.itemsize / 32
        yield AccessFacts(
            found.homes[entry.placed.name], entry.placed.lowered.instruction.id, access_text(entry),
            entry.access.array, str(entry.space), entry.direction, count, sectors=part, least_sectors=part,
            used_bytes=float(entry.dtype.itemsize), is_known=address is not None,
        )  # fmt: skip


def _elements(found: Counted, entry: Traffic, dropped: set[str]) -> int:
    """Return the number of elements that an access asks for, each once for all values of *dropped*."""
    domain = found.census.of_access(entry.placed, entry.access)
    try:
        return found.number(found.census.elements(entry.placed, domain, dropped))
    except VerificationError:  # a projection that has no count: each value counts
        return found.number(found.census.count(entry.placed, domain))


def _bounds(
    model: Processor, launches: tuple[LaunchFacts, ...], work: Mapping[tuple[str, str], int], moved: int,
    accesses: tuple[AccessFacts, ...], *, is_fused: bool,
) -> Iterator[Bound]:  # fmt: skip
    """Yield the time of each resource; cores that have no block of a launch do nothing."""
    cores = {launch.name: launch.resident for launch in launches}
    most = max(cores.values(), default=1)
    cache = model.holder(moved, most)
    if cache is None:
        yield Bound("memory", moved, "bytes", min(model.dram.value, most * model.core_dram.value), model.dram.source)
    elif cache.level > 1:
        yield Bound(f"L{cache.level} cache", moved, "bytes", most * cache.bandwidth.value, cache.bandwidth.source)
    asked: dict[str, float] = {}
    for access in accesses:
        asked[access.launch] = asked.get(access.launch, 0.0) + access.nbytes
    first = model.caches[0].bandwidth if model.caches else None
    if first is not None and (total := sum(asked.values())):
        seconds = sum(amount / (first.value * cores[launch]) for launch, amount in asked.items())
        yield Bound(f"L{model.caches[0].level} cache", total, "bytes", total / seconds, first.source)
    amounts: dict[str, dict[str, float]] = {}
    for (launch, kind), count in work.items():
        amounts.setdefault(kind, {})[launch] = count
    for kind, by_launch in amounts.items():
        rate = model.rates.get(f"fused {kind}" if is_fused else kind)
        total = sum(by_launch.values())
        if rate is not None and total:
            parts = (amount / (rate.value * cores[launch] / model.cores) for launch, amount in by_launch.items())
            yield Bound(kind, total, "operations", total / sum(parts), rate.source)


def _held(model: Processor, launches: tuple[LaunchFacts, ...], moved: int) -> Iterator[str]:
    """Yield a note if a cache holds all that is moved, so that the time depends on what was called before."""
    most = max((launch.resident for launch in launches), default=1)
    cache = model.holder(moved, most)
    if cache is not None and moved:
        seconds = moved / min(model.dram.value, most * model.core_dram.value)
        yield (
            f"the L{cache.level} caches hold all {byte_text(moved)} after a first call, which waits for memory: "
            f"{time_text(seconds)} more"
        )


# }}}
# {{{ advice


def _shared(facts: Explanation, model: Processor, target: Target) -> Iterator[str]:
    """Yield advice to have blocks for all cores."""
    for launch in facts.launches:
        if launch.resident == model.cores:
            continue
        if not target.openmp:
            yield f"pl.CTarget(openmp=True): one of {model.cores} cores works"
        elif launch.blocks > 1 or launch.resident > 1:
            idle = model.cores - launch.resident
            yield f"more blocks: {launch.blocks} of them leave {idle} of {model.cores} cores idle"
        else:
            yield f'blocks for {model.cores} cores: pl.split_iname(knl, .., 16, outer_tag="g.0")'


def _steps(found: Counted) -> Iterator[str]:
    """Yield advice on accesses whose lanes or innermost iterations are not neighbours in memory."""
    for entry in traffic(found.placement):
        loops = loops_among(entry.placed.dims)
        lanes = [x for x in loops if isinstance(found.kernel.tag(x), Vectorize | Interleave)]
        lane = next(reversed(lanes or loops), None)
        address = address_of(found.kernel, entry)
        if lane is None or address is None or (found.placement.axes.local and not lanes):
            continue
        step = axis_stride(address, lane)
        value = _value(step, found.sizes)
        if value is not None and abs(value) > 1:
            yield (
                f"{entry.placed.lowered.instruction.id} {_VERBS[entry.direction]} {access_text(entry)} with a step of "
                f"{value} elements along '{lane}', so that no vector is one access: let a loop over neighbours be the "
                "innermost (pl.prioritize_loops), or give it the tag 'vec'"
            )


def _value(step: int | Polynomial | None, sizes: Mapping[str, int]) -> int | None:
    if step is None or isinstance(step, int):
        return step
    return int(step.evaluate(sizes)) if step.names() <= sizes.keys() else None


def _work(facts: Explanation, target: Target) -> Iterator[str]:
    """Yield advice on the resource that takes the longest."""
    if facts.bound is None:
        return
    kind = facts.bound.resource
    names = facts.operations.get(kind, {})
    if not target.contract and names.get("add") and names.get("mul"):
        yield "pl.CTarget(.., contract=True) makes one instruction of a product and a sum, which rounds once"
    if kind == "L1 cache" and facts.flops:
        yield (
            "results in registers: a tile of two loops with the tags 'ilp' and 'vec' uses each loaded element "
            "several times"
        )
    ratio = facts.requested_bytes / facts.dram_bytes if facts.dram_bytes else 1.0
    if kind == "memory" and ratio > _MUCH:
        yield (
            f"the caches are asked for {short(ratio)} times what has to be moved: tiles (pl.split_iname, "
            "pl.add_prefetch) that stay in a cache let memory be read once"
        )
    elif kind == "memory":
        yield "it moves what has to be moved, once: a smaller type, or fusion with its neighbours (pl.fuse_kernels)"


# }}}
