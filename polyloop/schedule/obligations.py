"""Proof obligations of a kernel before code generation, as one list, discharged in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import prod

from polyloop.creation.divided_loops import divided_violations
from polyloop.errors import Diagnostic, VerificationError
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.tags import axis_name
from polyloop.kernel.tree import Scope
from polyloop.mapping.thread_mapping import Placement
from polyloop.optimize.over_execution import at_edges, edge_obligations
from polyloop.poly.axes import number_of
from polyloop.proof.obligation import Claim, Obligation, Proof, is_waived, prove
from polyloop.schedule.plan import Wait
from polyloop.schedule.shapes import shape_violations
from polyloop.schedule.storage import Storage, shared_bytes
from polyloop.sync.async_copy import copy_obligations
from polyloop.sync.async_product import product_obligations, under_way
from polyloop.sync.block_waits import block_obligations
from polyloop.sync.host_loops import obstructed_barriers
from polyloop.sync.lookback_progress import passing_obligations
from polyloop.sync.races import race_obligations
from polyloop.sync.roles import role_obligations
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.sync.warp_shuffle import exchange_obligations
from polyloop.verification.addresses import AddressMap, address_obligations
from polyloop.verification.bounds import bounds_obligations
from polyloop.verification.correspondence import comparison_of
from polyloop.verification.matrix_instructions import matrix_obligations
from polyloop.verification.order import order_obligations
from polyloop.verification.provenance import expression_obligations
from polyloop.verification.values import value_obligations

__all__ = ["discharge", "obligations", "storage_obligations", "wait_obligations"]

def discharge(kernel: LoopKernel, stages: Iterable[Iterable[Obligation]]) -> Iterator[Proof]:
    """Yield the proofs of the obligations of *kernel*, stage by stage.

    Raises
    ------
    VerificationError
        All diagnostics of the first stage that has any.
    """
    for stage in stages:
        proofs = [prove(kernel, obligation) for obligation in stage]
        problems = [finding for proof in proofs for finding in proof.found if not _is_waived(kernel, proof, finding)]
        if problems:
            raise VerificationError("schedule", kernel.name, problems)
        yield from proofs


def _is_waived(kernel: LoopKernel, proof: Proof, finding: Diagnostic) -> bool:
    passes = is_waived(kernel, proof.claim, proof.subject, is_strict=proof.is_strict)
    return passes and finding.code != "bad-storage"


def obligations(placement: Placement, limits: DeviceLimits) -> Iterator[Iterable[Obligation]]:
    """Yield the obligations of a kernel on its threads, in stages: each assumes that the stages before it hold."""
    kernel = placement.program.kernel
    comparison = comparison_of(kernel)
    yield _device_obligations(placement, limits)
    yield expression_obligations(comparison)
    yield value_obligations(comparison)
    yield order_obligations(comparison)
    yield pool_obligations(placement)
    yield bounds_obligations(kernel)
    yield copy_obligations(placement)
    yield edge_obligations(placement)
    edges = at_edges(placement).placement
    yield product_obligations(edges)
    yield race_obligations(under_way(edges).placement)
    yield role_obligations(placement)
    yield block_obligations(placement)
    yield exchange_obligations(placement)
    yield matrix_obligations(placement)
    yield _barrier_obligations(placement)
    yield passing_obligations(placement)


def _device_obligations(placement: Placement, limits: DeviceLimits) -> Iterator[Obligation]:
    if placement.axes.all:
        says = f"a block has a thread for each instance, and at most the {limits.max_threads_per_block} of the device"
        find = partial(_limit_violations, placement, limits)
        yield Obligation(Claim.DEVICE, "threads", says, "extents of the axes", find, limits)
    if any(placed.lowered.bounds for placed in placement.statements.values()):
        says = "each thread knows the bounds of its loops"
        yield Obligation(Claim.DEVICE, "bounds", says, "address spaces", partial(_shared_bounds, placement))


def _barrier_obligations(placement: Placement) -> Iterator[Obligation]:
    if any(barrier.divides for barrier in placement.program.kernel.barriers):
        says = "loops that a written barrier divides run in parallel, if their iterations hand on values"
        find = partial(divided_violations, placement.program.kernel)
        yield Obligation(Claim.BARRIERS, "divided loops", says, "axes that make up their inames", find)
    if placement.axes.all and any(b.scope is Scope.GRID for b in placement.program.kernel.barriers):
        says = "all blocks reach each global barrier"
        yield Obligation(Claim.BARRIERS, "global", says, "loops around them", partial(_in_loops, placement))


def storage_obligations(storages: Iterable[Storage], limits: DeviceLimits) -> Iterator[Obligation]:
    """Yield the obligations of the memory of a block, and of the layouts of arrays."""
    kept = tuple(storages)
    laid_out = [storage for storage in kept if not storage.is_plain]
    yield from address_obligations(
        AddressMap(s.name, s.shape[s.spread :], s.distances[s.spread :], prod(s.dims), s.swizzle) for s in laid_out
    )
    if any(storage.address_space is AddressSpace.LOCAL for storage in kept):
        says = f"a block has at most {limits.shared_bytes} bytes of shared memory, which is what the device has"
        by = f"{shared_bytes(kept)} bytes are declared"
        find = partial(_shared_memory, kept, limits)
        yield Obligation(Claim.DEVICE, "shared memory", says, by, find, limits)
    if (needed := sum(_private_arrays(kept).values())) > limits.local_bytes:
        says = f"a thread has at most {limits.local_bytes} bytes of private arrays"
        find = partial(_private_memory, kept, limits)
        yield Obligation(Claim.DEVICE, "private arrays", says, f"{needed} bytes are declared", find, limits)


def wait_obligations(found: Sequence[Wait], limits: DeviceLimits) -> Iterator[Obligation]:
    """Yield the obligation, for each array, that each pair of conflicting instructions has a barrier between."""
    arrays: dict[str, list[Wait]] = {}
    for wait in found:
        arrays.setdefault(wait.array, []).append(wait)
    for array, listed in arrays.items():
        count = f"{len(listed)} pairs" if len(listed) > 1 else "the pair"
        says = f"a barrier or the end of a launch stands between {count} of instructions that share '{array}'"
        by = "positions in the loops of the schedule"
        yield Obligation(Claim.BARRIERS, f"'{array}'", says, by, partial(_missing, listed), limits)


def _missing(listed: Iterable[Wait]) -> Iterator[Diagnostic]:
    for wait in listed:
        if not wait.by:
            yield Diagnostic(
                "race",
                f"there is no barrier between '{wait.first}' and '{wait.second}', which use '{wait.array}' on "
                "different threads",
                hints=("this is a fault of polyloop: please report it with the kernel",),
            )


def _limit_violations(placement: Placement, limits: DeviceLimits) -> Iterator[Diagnostic]:
    kernel, axes = placement.program.kernel, placement.axes
    for axis, extent in axes.extents.items():
        iname = next((x for x in kernel.inames if axis_name(kernel.tag(x)) == axis), axis)
        if extent is None:
            yield Diagnostic(
                "local-size-not-constant",
                f"iname '{iname}' is tagged '{axis}', and its extent is not a constant",
                hints=(f'split it and tag the inner iname: pl.split_iname(knl, "{iname}", 128, inner_tag="{axis}")',),
            )
            return
        most = limits.max_block_dims[number_of(axis)]
        if extent > most:
            yield Diagnostic(
                "block-too-large",
                f"axis '{axis}' has {extent} threads; the device allows {most}",
                hints=(f"split '{iname}' by a smaller factor",),
            )
            return
    yield from shape_violations(_least_shapes(placement), limits)
    yield from _without_thread(placement)


def _least_shapes(placement: Placement) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of blocks that there are at least: those of single statements, or of all with digits."""
    axes = placement.axes
    whole = tuple(extent or 1 for extent in axes.extents.values())
    if axes.has_digits or not axes.group:
        yield whole
        return
    for placed in placement.statements.values():
        if not placed.domain.is_empty():
            highs = (0 if axis in placed.repeated else placed.interval(axis)[1] for axis in axes.local)
            yield tuple(1 + (high or 0) for high in highs)


def _without_thread(placement: Placement) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a statement with instances on threads that a block does not have."""
    for placed in placement.statements.values():
        for axis, extent in placement.axes.local.items():
            low, high = placed.interval(axis)
            is_inside = low is not None and low >= 0 and high is not None and extent is not None and high < extent
            if not is_inside and extent is not None and not placed.domain.is_empty():
                ends = " to ".join("?" if end is None else str(end) for end in (low, high))
                yield Diagnostic(
                    "instance-lost",
                    f"instances of '{placed.lowered.instruction.id}' would not be executed",
                    (f"they are on threads {ends} of axis '{axis}', of which there are {extent}",),
                    sites=(placed.lowered.instruction.site(),),
                )
                return


def _shared_bounds(placement: Placement) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a bound variable that is not private: threads would have to share loop bounds."""
    for placed in placement.statements.values():
        for name in placed.lowered.bounds:
            if placement.spaces[name] is not AddressSpace.PRIVATE:
                yield Diagnostic(
                    "bad-bound",
                    f"'{name}' bounds a loop and is {placement.spaces[name]}",
                    ("each thread has to know the bounds of its loops by itself",),
                    (f'let each thread compute it: pl.set_temporary_address_space(knl, "{name}", "private")',),
                    sites=(placed.lowered.instruction.site(),),
                )
                return


def _in_loops(placement: Placement) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each global barrier of the user in a loop that the host cannot run around launches."""
    marks = {barrier.id: barrier for barrier in placement.program.kernel.barriers}
    for name, loop, why in obstructed_barriers(placement):
        yield Diagnostic(
            "grid-barrier",
            f"the global barrier '{name}' stands in the sequential loop '{loop}'",
            (
                "all blocks synchronize only where one launch ends and the next begins",
                f"the host cannot run the loop {why}",
            ),
            (f"call the kernel once for each value of '{loop}', or put the barrier outside of the loop",),
            sites=(marks[name].site(),),
        )


def _shared_memory(storages: Iterable[Storage], limits: DeviceLimits) -> Iterator[Diagnostic]:
    kept = tuple(storages)
    sizes = {s.name: s.nbytes for s in kept if s.address_space is AddressSpace.LOCAL}
    total = shared_bytes(kept)
    if total > limits.shared_bytes:
        parts = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield Diagnostic(
            "shared-too-large",
            f"a block needs {total} bytes of shared memory; the device has {limits.shared_bytes}",
            (f"by temporary [bytes]: {parts}",),
            ("use smaller tiles",),
        )


def _private_arrays(storages: Iterable[Storage]) -> dict[str, int]:
    """Return the sizes of the private arrays of a thread [bytes]."""
    return {s.name: s.nbytes for s in storages if s.address_space is AddressSpace.PRIVATE and s.shape}


def _private_memory(storages: Iterable[Storage], limits: DeviceLimits) -> Iterator[Diagnostic]:
    sizes = _private_arrays(storages)
    largest = max(sizes, key=sizes.__getitem__)
    parts = ", ".join(f"{name} {size}" for name, size in sizes.items())
    yield Diagnostic(
        "private-too-large",
        f"a thread needs {sum(sizes.values())} bytes for its private arrays; there are {limits.local_bytes}",
        (f"by temporary [bytes]: {parts}",),
        (f'put it into global memory: pl.set_temporary_address_space(knl, "{largest}", "global")',),
    )
