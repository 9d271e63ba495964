"""Threads of a block that have no instance of a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import islpy as isl

from polyloop.mapping.mixed_radix import digits_among
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.sets import project_onto

__all__ = ["idle_notes"]


def idle_notes(placement: Placement, threads_of: Mapping[str, int], sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield a note for each instruction that some threads of every block never execute.

    ::

        'fetch_x' is executed by 126 of the 128 threads of a block: 2 are idle

    Parameters
    ----------
    threads_of
        Statement -> threads of a block of its launch.
    sizes
        Value of each parameter.

    Notes
    -----
    A thread counts if it executes an instance in any block and any iteration.  Statements that a block executes as one,
    or that do not tell all of its threads apart, are left out.
    """
    found: dict[str, tuple[int, int]] = {}
    for name, placed in placement.statements.items():
        threads = threads_of.get(name, 1)
        busy = _busy(placed, placement, threads, sizes) if threads > 1 else None
        if busy is not None:
            instruction = placed.lowered.instruction.id
            found[instruction] = (max(busy, found.get(instruction, (0, 0))[0]), threads)
    for instruction, (busy, threads) in found.items():
        if 0 < busy < threads:
            idle = threads - busy
            rest = f"{idle} {'are' if idle > 1 else 'is'} idle"
            yield f"'{instruction}' is executed by {busy} of the {threads} threads of a block: {rest}"


def _busy(placed: Placed, placement: Placement, threads: int, sizes: Mapping[str, int]) -> int | None:
    """Return the number of threads with an instance; None where its axes do not tell all threads apart."""
    axes = [name for name in placed.dims if is_thread_axis(name)]
    digits = digits_among(axes)
    extents = [digits[name].extent if name in digits else placement.axes.extents.get(name) for name in axes]
    if None in extents or prod(extent or 1 for extent in extents) != threads:
        return None
    domain = project_onto(placed.exact, placed.dims, axes)
    for position in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, position) or ""
        if name not in sizes:
            return None
        domain = domain.fix_val(isl.dim_type.param, position, sizes[name])
    count: int = domain.count_val().to_python()
    return count
