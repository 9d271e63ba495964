"""Counts of operations, accesses, barriers, launches and footprints of a kernel, as functions of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import islpy as isl

from polyloop.cost.instance_counts import Census, block_size, grid_of
from polyloop.cost.operations import operations
from polyloop.cost.tally import CountGranularity, MemAccess, Op, Sync, ToCountMap
from polyloop.cost.traffic import (
    Footprint,
    Traffic,
    address_of,
    axis_stride,
    footprints,
    thread_strides,
    traffic,
    varying_axes,
)
from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.dtypes import DType
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.text.match import matches, parse_match
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree, runs
from polyloop.mapping.collective_shape import Meeting, meeting_of
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.axes import number_of, thread_axis
from polyloop.poly.counting import UncountableError, count_points
from polyloop.poly.polynomial import PiecewisePolynomial
from polyloop.poly.sets import project_onto
from polyloop.program.ir import Combine
from polyloop.proof.obligation import in_time, within_budget
from polyloop.schedule.build import build_verified, prepared
from polyloop.schedule.collective import blocks_across
from polyloop.schedule.plan import Launch
from polyloop.sync.lookback_progress import is_over_blocks

__all__ = [
    "census_of",
    "combinations",
    "gather_access_footprint_bytes",
    "gather_access_footprints",
    "get_mem_access_map",
    "get_op_map",
    "get_synchronization_map",
    "sync_counts",
]

_LARGEST: Final = DeviceLimits(shared_bytes=227 * 1024)
"""The greatest limits of any device, as counts are for no particular one."""


@in_time
def get_op_map(
    kernel: LoopKernel,
    count_redundant_work: bool = False,
    count_within_subscripts: bool = True,
    subgroup_size: int | str | None = None,
    *,
    within: str | None = None,
    reference: bool = False,
) -> ToCountMap[Op]:
    """Return the number of operations of each kind and type in *kernel*, as polynomials in its parameters.

    ::

        ops = pl.get_op_map(knl)
        print(ops)                                               # float32 mul : n**3, ..
        ops.filter_by(dtype=[np.float32]).eval_and_sum({"n": 1024})

    Each term of a reduction counts as one update.  Dead instances, whose results have no use, are entries of their own
    (``is_phantom``).  Operations of an instruction whose condition depends on data are counted as if the condition
    always held; a loop whose bounds depend on data leaves the names of the bounds in the count.  Negations, comparisons
    and conversions are not counted.

    Parameters
    ----------
    count_redundant_work
        If true, work that several threads repeat (each for a private variable of its own) counts once for each thread.
        That takes a schedule, and so a kernel that is legal.
    count_within_subscripts
        If true, index arithmetic that is written in the instructions counts.
    subgroup_size
        Threads of a warp, by default (and for ``"guess"``) 32.  Counts of operations do not depend on it.
    within
        Match expression: only instructions that it selects are counted, as in ``"writes:c"``.
    reference
        If true, the reference program is counted, as if no transform had been applied.

    Raises
    ------
    VerificationError
        ``uncountable``, ``unknown-dtype``.

    Notes
    -----
    Points of a domain are counted by summation (Faulhaber).  Where that fails, Barvinok's algorithm (Verdoolaege et
    al., Algorithmica 48(1), 2007) counts them, if the extra ``count`` is installed.
    """
    census = census_of(kernel, redundant=count_redundant_work, reference=reference, subgroup_size=subgroup_size)
    wanted = None if within is None else parse_match(within, "get_op_map")

    def found() -> Iterator[tuple[Op, PiecewisePolynomial]]:
        for placed in census.placement.statements.values():
            if wanted is not None and not matches(wanted, placed.lowered.instruction):
                continue
            for entry in operations(census.kernel, placed.lowered, within_subscripts=count_within_subscripts):
                for unused, count in _by_use(census, placed, census.under(placed, entry.guards)):
                    key = Op(entry.dtype, entry.name, CountGranularity.WORKITEM, census.kernel.name, unused)
                    yield key, count * (entry.times * combinations(census, placed))

    return ToCountMap(found())


@in_time
def get_mem_access_map(
    kernel: LoopKernel,
    count_redundant_work: bool = False,
    subgroup_size: int | str | None = None,
    *,
    within: str | None = None,
    reference: bool = False,
) -> ToCountMap[MemAccess]:
    """Return the number of accesses of *kernel* to global and shared memory, by array, direction, type and strides.

    ::

        print(pl.get_mem_access_map(knl))
        # global load of a float32 {l.0: 1, l.1: n} {g.0: 0, g.1: 16*n} : n**3/16, ..

    Each access in the text of a statement counts, even if it is of an element that was accessed before.  If all threads
    of a warp access one element, ``count_granularity`` is ``SUBGROUP``, and warps are counted.

    Parameters
    ----------
    count_redundant_work, subgroup_size, within, reference
        As for :func:`get_op_map`.

    Raises
    ------
    VerificationError
        ``uncountable``, ``unknown-dtype``.
    """
    census = census_of(kernel, redundant=count_redundant_work, reference=reference, subgroup_size=subgroup_size)
    wanted = None if within is None else parse_match(within, "get_mem_access_map")

    def found() -> Iterator[tuple[MemAccess, PiecewisePolynomial]]:
        for entry in traffic(census.placement):
            if wanted is None or matches(wanted, entry.placed.lowered.instruction):
                key = _mem_access(census, entry)
                assert key.count_granularity is not None, "each access has a granularity"
                domain = census.of_access(entry.placed, entry.access)
                if key.count_granularity is not CountGranularity.WORKITEM:
                    yield key, census.count(entry.placed, domain, key.count_granularity)
                    continue
                for unused, count in _by_use(census, entry.placed, domain):
                    yield replace(key, is_phantom=unused), count

    return ToCountMap(found())


_MOST_PIECES: Final = 16


def _by_use(census: Census, placed: Placed, domain: isl.Set) -> list[tuple[bool | None, PiecewisePolynomial]]:
    """Return the counts of live and dead instances, or one count of all if there are too many cases."""
    found = census.by_use(placed, domain)
    if any(len(count.pieces) > _MOST_PIECES for _, count in found):
        return [(None, census.count(placed, domain))]
    return found


def _mem_access(census: Census, entry: Traffic) -> MemAccess:
    axes = census.placement.axes
    address = address_of(census.kernel, entry)
    local = {axis: axis_stride(address, axis) for axis in axes.local}
    group = {axis: axis_stride(address, axis) for axis in axes.group}
    varying = varying_axes(axes.local, census.warp_size)
    by_thread = varying and all(axis in entry.placed.own | entry.placed.repeated for axis in varying)
    is_uniform = by_thread and block_size(axes.local) is not None and all(local[axis] == 0 for axis in varying)
    granularity = CountGranularity.SUBGROUP if is_uniform else CountGranularity.WORKITEM
    return MemAccess(
        entry.space,
        entry.dtype,
        tuple(thread_strides(address, axes).items()),
        tuple((number_of(axis), stride) for axis, stride in group.items()),
        entry.direction,
        entry.access.array,
        granularity,
        census.kernel.name,
    )


def census_of(
    kernel: LoopKernel,
    *,
    redundant: bool,
    reference: bool = False,
    subgroup_size: int | str | None = None,
    limits: DeviceLimits | None = None,
) -> Census:
    """Return the census of *kernel*, which counts instances; see :func:`get_op_map` for the parameters."""
    if reference and kernel.reference is not None:
        kernel = replace(kernel.reference.kernel, reference=kernel.reference)
    warp_size = subgroup_size if isinstance(subgroup_size, int) else (limits or DeviceLimits()).warp_size
    if not redundant:
        return Census(place(prepared(kernel)), None, warp_size)
    verified = build_verified(kernel, limits or _LARGEST)
    grids: dict[str, Mapping[str, isl.Set]] = {}
    for launch in verified.schedule.launches:
        names = _executed(verified.placement, launch.tree)
        grids.update(dict.fromkeys(names, grid_of(verified.placement, names)))
    return Census(verified.placement, grids, warp_size)


def _executed(placement: Placement, tree: Tree) -> tuple[str, ...]:
    """Return the statements of the program in *tree*: places where a product is complete execute nothing."""
    return tuple(name for name in runs(tree) if name in placement.statements)


# {{{ threads that combine values


def combinations(census: Census, placed: Placed) -> int:
    """Return the number of applications of the operation in one instance: 1, except in a combine across threads.

    There, each thread applies it once for each shuffle, and once for each part that it reads from shared memory, or for
    each other block of a cluster.
    Without redundant work, the number is the number of threads minus one.
    """
    if not isinstance(placed.lowered.part, Combine):
        return 1
    if is_over_blocks(placed):
        return 1  # each block adds its own total to that of the blocks before it
    if census.grids is None:
        return prod(census.placement.axes.extent(axis) or 1 for axis in placed.lowered.across) - 1
    meeting = _meeting_of(census.placement.axes.extents, placed)
    between = blocks_across(census.placement, placed.lowered.across) - 1
    within = meeting.parts - 1 if meeting.parts <= _FEW_PARTS else meeting.parts.bit_length() - 1
    return between + len(meeting.bits) + within


def _meeting_of(local: Mapping[str, int | None], placed: Placed) -> Meeting:
    sizes = [local.get(thread_axis(number)) or 1 for number in range(1 + max(map(number_of, local), default=0))]
    return meeting_of(sizes, placed.lowered.across, DeviceLimits().warp_size)


_FEW_PARTS: Final = 8
"""Limit on the parts that every thread combines by itself; more are combined in a tree of steps."""


# }}}
# {{{ barriers


@in_time
def get_synchronization_map(kernel: LoopKernel, subgroup_size: int | str | None = None) -> ToCountMap[Sync]:
    """Return the number of barriers that a thread of *kernel* executes, by kind, and the number of launches.

    ::

        print(pl.get_synchronization_map(knl))
        # barrier_local : 2*floor((n + 15)/16), kernel_launch : 1

    A launch in a loop of the host counts once for each iteration in which it has instances.
    If the blocks of a launch execute different numbers of barriers, the greatest is returned.  Waits of a scan over
    blocks for other blocks are not counted, nor the launch that clears the totals before it.

    Raises
    ------
    VerificationError
        What :func:`polyloop.verify` finds; ``uncountable``.
    """
    del subgroup_size
    verified = build_verified(kernel, _LARGEST)
    counts = [entry for launch in verified.schedule.launches for entry in sync_counts(verified.placement, launch)]
    return ToCountMap((Sync(kind, verified.schedule.name), count) for kind, count in counts)


@dataclass(frozen=True)
class _Wait:
    barrier: Barrier
    loops: tuple[str, ...]
    inside: tuple[str, ...]


def sync_counts(placement: Placement, launch: Launch) -> Iterator[tuple[str, PiecewisePolynomial]]:
    """Yield the kinds of synchronization of one launch with their counts, over all iterations of loops of the host."""
    names = _executed(placement, launch.tree)
    yield "kernel_launch", _passes(placement, _Wait(Barrier(Scope.GRID), launch.hosts, names))
    kinds = {Scope.BLOCK: "barrier_local", Scope.WARP: "barrier_warp", Scope.CLUSTER: "barrier_cluster"}
    for meeting in _waits(placement, launch, launch.tree, launch.hosts, names):
        if meeting.barrier.scope in kinds:
            yield kinds[meeting.barrier.scope], _passes(placement, meeting)


def _waits(
    placement: Placement, launch: Launch, tree: Tree, loops: tuple[str, ...], inside: tuple[str, ...]
) -> Iterator[_Wait]:
    """Yield the barriers of a tree of a launch, also those inside of combines through shared memory."""
    local = {thread_axis(number): size for number, size in enumerate(launch.local_size)}
    node: Node
    for node in tree:
        match node:
            case Barrier():
                yield _Wait(node, loops, inside)
            case Loop():
                yield from _waits(placement, launch, node.body, (*loops, node.iname), _executed(placement, (node,)))
            case Run() if node.name in placement.statements:
                placed = placement.statements[node.name]
                together = isinstance(placed.lowered.part, Combine)
                if together and (is_over_blocks(placed) or _meeting_of(local, placed).parts > 1):
                    yield _Wait(Barrier(Scope.BLOCK), loops, (node.name,))
                if together and blocks_across(placement, placed.lowered.across) > 1:
                    yield _Wait(Barrier(Scope.CLUSTER), loops, (node.name,))


def _passes(placement: Placement, meeting: _Wait) -> PiecewisePolynomial:
    """Return the execution count of a barrier: the iterations of the loops around it, over all blocks."""
    if not meeting.loops:
        return PiecewisePolynomial.of(1)
    whole: isl.Set | None = None
    placed: Placed | None = None
    for name in meeting.inside:
        placed = placement.statements[name]
        own = project_onto(placed.exact, placed.dims, meeting.loops).coalesce()
        whole = own if whole is None else whole.union(own).coalesce()
    assert whole is not None, "a loop has statements inside"
    assert placed is not None, "a loop has statements inside"
    return Census(placement).points(whole, placed)


# }}}
# {{{ footprints


@in_time
def gather_access_footprints(
    kernel: LoopKernel, ignore_uncountable: bool = False, *, reference: bool = False
) -> dict[tuple[str, str], isl.Set]:
    """Return the elements of each array in global memory that are read and written.

    ::

        pl.gather_access_footprints(knl)[("a", "read")]          # [n] -> { a[i0, i1] : 0 <= i0 < n and .. }

    Parameters
    ----------
    ignore_uncountable
        If true, arrays whose accessed elements depend on data are left out; otherwise they are refused.
    reference
        If true, the footprints are those of the reference program.

    Returns
    -------
    dict
        By name and ``"read"`` or ``"write"``, a set of subscripts.

    Raises
    ------
    VerificationError
        ``uncountable``.
    """
    kernel = prepared(kernel.reference.kernel if reference and kernel.reference is not None else kernel)
    found = _footprints(place(kernel))
    inexact = [f"'{name}' ({direction})" for (name, direction), entry in found.items() if not entry.is_exact]
    if inexact and not ignore_uncountable:
        problem = Diagnostic(
            "uncountable",
            f"the accessed elements depend on data: {', '.join(inexact)}",
            hints=("leave them out: ignore_uncountable=True",),
        )
        raise VerificationError("gather_access_footprints", kernel.name, [problem])
    return {key: entry.elements for key, entry in found.items() if entry.is_exact}


def _footprints(placement: Placement) -> dict[tuple[str, str], Footprint]:
    with within_budget(placement.program.kernel, "which elements of arrays are touched"):
        return footprints(placement)


@in_time
def gather_access_footprint_bytes(
    kernel: LoopKernel, ignore_uncountable: bool = False, *, reference: bool = False
) -> dict[tuple[str, str], PiecewisePolynomial]:
    """Return the number of bytes of each array in global memory that are read and written, each counted once.

    It is a lower bound on the traffic between memory and chip of a launch with empty caches.

    Parameters
    ----------
    ignore_uncountable, reference
        As for :func:`gather_access_footprints`.

    Raises
    ------
    VerificationError
        ``uncountable``.
    """
    found = gather_access_footprints(kernel, ignore_uncountable, reference=reference)
    kernel = prepared(kernel)
    return {
        key: footprint_size(kernel, key[0], elements) * _dtype(kernel, key[0]).itemsize
        for key, elements in found.items()
    }


def footprint_size(kernel: LoopKernel, name: str, elements: isl.Set) -> PiecewisePolynomial:
    """Return the number of *elements* of the array *name*."""
    try:
        with within_budget(kernel, f"how many elements of '{name}' are touched"):
            return count_points(elements, kernel.assumptions)
    except UncountableError as error:
        message = f"the elements of '{name}' that are touched are not counted: the set of them has no polynomial here"
        hints = ("install Barvinok's algorithm: pip install 'polyloop[count]'",)
        problem = Diagnostic("uncountable", message, (error.reason,), hints)
        raise VerificationError("count", kernel.name, [problem]) from error


def _dtype(kernel: LoopKernel, name: str) -> DType:
    dtype = kernel.arrays()[name].dtype
    assert dtype is not None, f"{name} has no type"
    return dtype


# }}}
