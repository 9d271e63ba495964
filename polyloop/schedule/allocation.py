"""Allocation of temporaries: shared and private arrays of a launch, and arrays that the caller allocates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.nodes import Expression
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg, TemporaryVariable
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import order_tags
from polyloop.kernel.limits import DeviceLimits
from polyloop.kernel.swizzle import swizzle_problem
from polyloop.mapping.array_contraction import contracted_axes
from polyloop.mapping.collective_shape import meeting_of
from polyloop.mapping.thread_mapping import Placement
from polyloop.program.infer_types import accumulator_dtypes
from polyloop.schedule.barrier import arrays_in_registers, shuffled_arrays
from polyloop.schedule.collective import Collective, local_size
from polyloop.schedule.storage import Lane, Packed, Storage, Strided
from polyloop.sync.warp_shuffle import lane_axis
from polyloop.verification.register_operands import held_axes

__all__ = ["axes_left_out", "storages_of", "workspace_of"]


def axes_left_out(placement: Placement, limits: DeviceLimits) -> dict[str, frozenset[int]]:
    """Return the contracted axes of temporaries, along which each thread has one element, by name."""
    shuffled = shuffled_arrays(placement, limits)
    found = {name: gone for name, gone in contracted_axes(placement).items() if name not in shuffled}
    return found | {name: held_axes(placement, name) for name in arrays_in_registers(placement, limits)}


def storages_of(
    placement: Placement,
    axes: Mapping[str, frozenset[int]],
    collectives: Mapping[str, Collective],
    shapes: Mapping[str, Mapping[str, int | None]],
    cleared: Iterable[str],
    limits: DeviceLimits,
) -> dict[str, Storage]:
    """Return the private and shared variables of a schedule, by name.

    Parameters
    ----------
    axes
        Axes of temporaries that are left out, see :func:`axes_left_out`.
    collectives
        Collective operations, which may need shared arrays to exchange values.
    shapes
        Threads of the blocks that execute each statement.
    cleared
        Private temporaries that are initialized with zeros.

    Raises
    ------
    VerificationError
        ``temporary-not-constant``, ``bad-swizzle``.
    """
    found = _declared(placement, axes)
    found.update(_of_lanes(placement, found, shuffled_arrays(placement, limits)))
    for name in arrays_in_registers(placement, limits):
        found[name] = replace(found[name], address_space=AddressSpace.PRIVATE, layout=Packed())
    found.update(_scratch(placement, collectives, shapes, limits))
    found.update((name, replace(found[name], cleared=True)) for name in cleared)
    return found


def _declared(placement: Placement, axes: Mapping[str, frozenset[int]]) -> dict[str, Storage]:
    """Return the storage of accumulators, and of the private and shared temporaries in use, without the given axes."""
    kernel = placement.program.kernel
    found: dict[str, Storage] = {}
    for name, dtype in accumulator_dtypes(kernel).items():
        shape = placement.program.accumulators[name].shape
        found[name] = Storage(name, dtype, shape, AddressSpace.PRIVATE)
    used = {a.array for s in placement.statements.values() for a in s.lowered.accesses}
    for name, temporary in kernel.temporaries.items():
        if name not in used:
            continue
        space = placement.spaces[name]
        gone = axes.get(name, frozenset())
        extents = tuple(extent for k, extent in enumerate(temporary.shape or ()) if k not in gone)
        if space is AddressSpace.GLOBAL:
            continue
        if not all(isinstance(extent, int) for extent in extents):
            raise VerificationError("schedule", kernel.name, [_not_constant(name, extents)])
        assert temporary.dtype is not None, f"{name} has no type"
        layout = _layout(kernel, temporary, space, gone)
        spread = space is AddressSpace.CLUSTER
        if spread and (problem := _spread_problem(placement, temporary)):
            raise VerificationError("schedule", kernel.name, [_not_spread(name, problem)])
        space = AddressSpace.LOCAL if spread else space
        pool = temporary.base_storage if space is AddressSpace.LOCAL else None
        found[name] = Storage(name, temporary.dtype, tuple(extents), space, layout, pool, spread=spread)
    return found


def _spread_problem(placement: Placement, temporary: TemporaryVariable) -> str:
    """Return the reason why the elements of a temporary cannot be divided among the blocks of a cluster, or ""."""
    first, blocks = (temporary.shape or (0,))[0], placement.axes.cluster
    if not isinstance(first, int) or first > blocks or first == 0:
        return f"its first axis has {first} indices, and a cluster has {blocks} {'block' if blocks == 1 else 'blocks'}"
    if temporary.swizzle is not None or temporary.base_storage is not None:
        return "it is swizzled" if temporary.swizzle is not None else "it shares storage with other temporaries"
    return ""


def _not_spread(name: str, problem: str) -> Diagnostic:
    hint = "let the first axis be that of the iname tagged c.0, and its extent the number of blocks of a cluster"
    return Diagnostic("bad-cluster", f"'{name}' cannot be spread over the blocks of a cluster", (problem,), (hint,))


def _layout(
    kernel: LoopKernel, temporary: TemporaryVariable, space: AddressSpace, gone: frozenset[int]
) -> Packed | Strided:
    """Return the layout of a temporary without the axes that are *gone*; only shared memory is swizzled."""
    kept = [k for k in range(len(temporary.shape or ())) if k not in gone]
    nesting, swizzle = temporary.nesting(), temporary.swizzle if space is AddressSpace.LOCAL else None
    if swizzle is not None and (problem := swizzle_problem(swizzle, temporary.row(), nesting)):
        raise VerificationError("schedule", kernel.name, [_not_swizzled(temporary.name, problem)])
    if nesting is None:
        strides = temporary.strides()
        return Strided(tuple(s for k in kept if isinstance(s := strides[k], int)))
    is_nested = nesting != tuple(range(len(nesting)))
    axes = tuple(kept.index(axis) for axis in nesting if axis in kept) if is_nested else None
    return Packed(axes, temporary.padding, swizzle)


def _not_swizzled(name: str, problem: str) -> Diagnostic:
    hints = ("swizzle after the transforms that change the shape or the layout of an array",)
    return Diagnostic("bad-swizzle", f"'{name}' cannot be swizzled", (problem,), hints)


def _of_lanes(
    placement: Placement, storages: Mapping[str, Storage], shuffled: Collection[str]
) -> Iterator[tuple[str, Storage]]:
    """Yield the storage of temporaries that are exchanged by shuffles: each lane has its element in a variable."""
    for name in shuffled:
        if name in storages:
            axis = lane_axis(placement, name)
            block = tuple(extent or 0 for _, extent in sorted(placement.axes.local.items()))
            lane = None if axis is None else Lane(axis, block)
            yield name, Storage(name, storages[name].dtype, (), AddressSpace.PRIVATE, lane=lane)


def _scratch(
    placement: Placement, collectives: Mapping[str, Collective], shapes: Mapping[str, Mapping[str, int | None]],
    limits: DeviceLimits,
) -> Iterator[tuple[str, Storage]]:
    """Yield the shared arrays through which the threads of a block combine their values, by name."""
    dtypes = accumulator_dtypes(placement.program.kernel)
    for name, collective in collectives.items():
        if collective.scratch is not None:
            dtype = dtypes[placement.statements[name].lowered.write.array]
            meeting = meeting_of(local_size(shapes[name]), collective.across, limits.warp_size, collective.blocks)
            size = meeting.scratch(collective.kind, collective.operation) if collective.chain is None else 1
            accumulator = placement.program.accumulators[placement.statements[name].lowered.write.array]
            shape = (*(accumulator.shape if collective.apart else ()), size)
            storage = Storage(collective.scratch, dtype, shape, AddressSpace.LOCAL)
            yield collective.scratch, storage
        if collective.ticket is not None:
            yield collective.ticket, Storage(collective.ticket, np.dtype(np.uint32), (), AddressSpace.LOCAL)


def workspace_of(placement: Placement) -> tuple[ArrayArg, ...]:
    """Return the temporaries in global memory, as arrays that the caller of a launch allocates."""
    used = {a.array for s in placement.statements.values() for a in s.lowered.accesses}
    found = []
    for name, temporary in placement.program.kernel.temporaries.items():
        if name in used and placement.spaces[name] is AddressSpace.GLOBAL and temporary.initializer is None:
            shape = temporary.shape or ()
            tags = temporary.dim_tags or order_tags(len(shape), "C")
            strides = temporary.strides()
            found.append(ArrayArg(name, temporary.dtype, shape, strides, is_input=False, dim_tags=tags))
    return tuple(found)


def _not_constant(name: str, shape: Iterable[Expression]) -> Diagnostic:
    return Diagnostic(
        "temporary-not-constant",
        f"temporary '{name}' has the shape ({', '.join(str(extent) for extent in shape)}), which is not constant",
        ("private and shared memory is sized when the kernel is compiled",),
        (
            f"split a loop so that '{name}' holds one tile, fix the parameter, or give it an axis for each loop on a "
            "thread or block, so that it can live in global memory",
        ),
    )
