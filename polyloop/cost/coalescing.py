"""Coalescing of global-memory accesses: 32-byte sectors per request of a warp, against the fewest possible.

For given sizes, the addresses of all threads are computed.  A small program is enumerated in every iteration; a large
one in one iteration of each class (:mod:`polyloop.cost.warp_classes`); one with too many classes in samples.  Source:
CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any, Final, TypeAlias

import islpy as isl
import numpy as np

from polyloop.cost.traffic import Address, Traffic, axis_stride
from polyloop.cost.warp_classes import evaluated, pass_classes
from polyloop.display import brief
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.limits import WARP_SIZE
from polyloop.kernel.tags import Interleave, Unroll, UnrollHint, Vectorize
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_axis, is_thread_axis, loops_among
from polyloop.poly.sets import Row, add_rows, constant_bounds, rows_of

__all__ = [
    "SECTOR", "Sectors", "fullest_request", "merged_width", "repeating_loops", "sectors", "vector_lane", "vector_width",
]  # fmt: skip

SECTOR: Final = 32
"""Smallest transaction of global memory [bytes]."""
_SECTORS_A_TURN: Final = 4
_MOST_SAMPLES: Final = 512
_MOST_ADDRESSES: Final = 1 << 16
_SET: Final = isl.dim_type.set
_PARAM: Final = isl.dim_type.param

_Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True)
class Sectors:
    """Sectors that the warps touch with one access.

    Attributes
    ----------
    requests
        Accesses of warps that were counted.
    sectors, least
        Sectors that they touch, and that would be enough for as many different elements.
    turns
        Turns of the first-level cache: one for every four sectors of a request, and at least one.
    nbytes
        Size of the different elements that they want.
    is_exact
        Whether it is so for all iterations of all blocks together, and not only for samples of them.
    """

    requests: int
    sectors: int
    least: int
    turns: int
    nbytes: int
    is_exact: bool

    __repr__ = brief

    @property
    def per_request(self) -> float:
        """Sectors for each access of a warp."""
        return self.sectors / self.requests

    @property
    def excess(self) -> float:
        """Sectors for each one that would be enough."""
        return self.sectors / self.least


def sectors(
    placement: Placement, entry: Traffic, address: Address, domain: isl.Set, sizes: Mapping[str, int], width: int = 1,
    warp_size: int = WARP_SIZE,
) -> Sectors | None:
    """Return the sectors of an access; None where no sample executes it, or the block has no constant size.

    Parameters
    ----------
    domain
        The instances that make the access, over the ``dims`` of its statement.
    sizes
        The value of each parameter.
    width
        Elements that a thread moves at once; only accesses of the first lane are looked at.
    warp_size
        Threads in a row whose accesses are one request.
    """
    prepared = _prepared(placement, entry, domain, sizes, width)
    if prepared is None:
        return None
    fixed, values, is_exact, threads = prepared
    dims, how = entry.placed.dims, (width, warp_size)
    if not is_exact and (found := _by_classes(fixed, dims, address, sizes, entry, values, how)) is not None:
        return found
    runs = _members(fixed, dims, values, (len(values["#"]), threads))
    if not runs.any():
        return None
    first = _bytes(address, values, sizes) * entry.dtype.itemsize + np.zeros(runs.shape, np.int64)
    return _touched(first, runs, entry.dtype.itemsize * width, is_exact, warp_size)


def fullest_request(
    placement: Placement, entry: Traffic, address: Address, domain: isl.Set, sizes: Mapping[str, int], width: int = 1
) -> Mapping[int, int]:
    """Return the first byte of each thread of one warp, of those samples that most threads take part in the first.

    Parameters are those of :func:`sectors`; the mapping is empty where that returns None.
    """
    prepared = _prepared(placement, entry, domain, sizes, width)
    if prepared is None:
        return {}
    fixed, values, _, threads = prepared
    runs = _members(fixed, entry.placed.dims, values, (len(values["#"]), threads))
    first = _bytes(address, values, sizes) * entry.dtype.itemsize + np.zeros(runs.shape, np.int64)
    warps = [(row, begin) for row in range(len(runs)) for begin in range(0, threads, WARP_SIZE)]
    row, begin = max(warps, key=lambda at: int(runs[at[0], at[1] : at[1] + WARP_SIZE].sum()))
    return {
        thread: int(first[row, thread])
        for thread in range(begin, min(begin + WARP_SIZE, threads))
        if runs[row, thread]
    }  # fmt: skip


def _prepared(
    placement: Placement, entry: Traffic, domain: isl.Set, sizes: Mapping[str, int], width: int
) -> tuple[isl.Set, dict[str, _Integers], bool, int] | None:
    """Return the domain at *sizes*, sampled values of the dimensions, whether they are all, and the threads of a block.

    None where no sample executes it, or the block has no constant size.
    """
    local = placement.axes.local
    if any(extent is None for extent in local.values()):
        return None
    dims = entry.placed.dims
    fixed = _with_sizes(domain, sizes)
    if fixed.is_empty():
        return None
    others = [name for name in dims if name not in local]
    lane = vector_lane(placement.program.kernel, entry.placed) if width > 1 else None
    threads = prod(extent or 1 for extent in local.values())
    if lane is not None:
        low = fixed.dim_min_val(dims.index(lane)).to_python()
        fixed = add_rows(fixed, dims, [Row(Affine(((lane, 1),), -low), True)])
    values, is_exact = _samples(fixed, dims, others, max(1, _MOST_ADDRESSES // threads))
    values.update(_thread_values(local, threads))
    values.update({name: np.asarray(size) for name, size in sizes.items()})
    return fixed, values, is_exact, threads


def _by_classes(
    domain: isl.Set,
    dims: Sequence[str],
    address: Address,
    sizes: Mapping[str, int],
    entry: Traffic,
    values: Mapping[str, _Integers],
    how: tuple[int, int],
) -> Sectors | None:
    """Return the sectors of all iterations, from one member of each class of them; *values* are thread indices.

    *how* has the elements that a thread moves at once, and the threads of a request.
    """
    width, warp_size = how
    threads = [name for name in dims if is_thread_axis(name)]
    period = SECTOR // gcd(SECTOR, entry.dtype.itemsize)
    found = pass_classes(domain, dims, threads, address, sizes, period)
    if found is None:
        return None
    classes, own = found
    within = evaluated(own, values)
    count_of_threads = max((values[name].shape[1] for name in threads), default=1)
    requests = touched = least = turns = nbytes = 0
    for count, point, start in classes:
        here = {**values, **{name: np.full((1, 1), value) for name, value in point.items()}}
        runs = _members(domain, dims, here, (1, count_of_threads))
        first = (within + start) * entry.dtype.itemsize + np.zeros(runs.shape, np.int64)
        part = _touched(first, runs, entry.dtype.itemsize * width, True, warp_size)
        requests += count * part.requests
        touched += count * part.sectors
        least += count * part.least
        turns += count * part.turns
        nbytes += count * part.nbytes
    return Sectors(requests, touched, least, turns, nbytes, True)


def _touched(
    first: _Integers, runs: np.ndarray[Any, Any], nbytes: int, is_exact: bool, warp_size: int
) -> Sectors:
    """Return the sectors if threads access *nbytes* from *first* on; rows are iterations, columns threads."""
    count, threads = runs.shape
    warps = -(-threads // warp_size)
    request = np.arange(count)[:, None] * warps + np.arange(threads)[None, :] // warp_size
    request, first = request[runs], first[runs]
    last = first + nbytes - 1
    _, each = np.unique(_elements(request, first), return_counts=True)
    both = np.concatenate([request, request])
    _, touched = np.unique(_elements(both, np.concatenate([first // SECTOR, last // SECTOR])), return_counts=True)
    least = int(np.sum(-(-each * nbytes // SECTOR)))
    turns = int(np.sum(-(-touched // _SECTORS_A_TURN)))
    return Sectors(len(each), int(touched.sum()), least, turns, int(each.sum()) * nbytes, is_exact)


def _elements(request: _Integers, places: _Integers) -> _Integers:
    """Return the request of each different place that one asks for."""
    low, high = int(places.min()), int(places.max())
    span = high - low + 1
    return np.asarray(np.unique(request * span + (places - low)) // span)


def _with_sizes(domain: isl.Set, sizes: Mapping[str, int]) -> isl.Set:
    for position in range(domain.dim(_PARAM)):
        name = domain.get_dim_name(_PARAM, position) or ""
        assert name in sizes, f"no value for '{name}'"
        domain = domain.fix_val(_PARAM, position, sizes[name])
    return domain


def _samples(
    domain: isl.Set, dims: Sequence[str], others: Sequence[str], most: int
) -> tuple[dict[str, _Integers], bool]:
    """Return points of the box of *others*, at most *most*, one row each, and whether they are all points."""
    bounds = {}
    for name in others:
        position = dims.index(name)
        low = domain.dim_min_val(position).to_python()
        high = domain.dim_max_val(position).to_python()
        bounds[name] = (low, high - low + 1)
    total = prod(extent for _, extent in bounds.values())
    most = min(most, _MOST_SAMPLES if total > _MOST_SAMPLES else total)
    is_all = total <= most
    if is_all:
        chosen = np.arange(total)
    else:  # spread evenly, whatever the extents are: multiples of the golden section
        step = int(total * 0.6180339887498949) | 1
        chosen = np.asarray([k * step % total for k in range(most)], dtype=object)
    found: dict[str, _Integers] = {"#": np.zeros((len(chosen), 1), np.int64)}
    for name, (low, extent) in bounds.items():
        found[name] = np.asarray(chosen % extent + low, dtype=np.int64)[:, None]
        chosen = chosen // extent
    return found, is_all


def _thread_values(local: Mapping[str, int | None], threads: int) -> Iterator[tuple[str, _Integers]]:
    number = np.arange(threads)[None, :]
    for axis in sorted(local):
        extent = local[axis] or 1
        yield axis, number % extent
        number = number // extent


def _members(
    domain: isl.Set, dims: Sequence[str], values: Mapping[str, _Integers], shape: tuple[int, int]
) -> np.ndarray[Any, Any]:
    """Return a mask of the points *values* that are in *domain*."""
    found = np.zeros(shape, bool)
    for basic in domain.compute_divs().get_basic_sets():
        inside = np.ones(shape, bool)
        for row in rows_of(basic, dims):
            inside &= _holds(row, values)
        found |= inside
    return found


def _holds(row: Row, values: Mapping[str, _Integers]) -> np.ndarray[Any, Any]:
    value = np.asarray(evaluated(row.form, values))
    return np.asarray(value == 0 if row.is_equality else value >= 0)


def _bytes(address: Address, values: Mapping[str, _Integers], sizes: Mapping[str, int]) -> _Integers:
    """Return the addresses [elements] at the points *values*."""
    total: Any = np.int64(0)
    for form, step in address.parts:
        total = total + evaluated(form, values) * int(step.evaluate(sizes))
    return np.asarray(total)


# {{{ model of the compiler


def vector_lane(kernel: LoopKernel, placed: Placed) -> str | None:
    """Return the iname over the lanes of vectors, if a statement has one."""
    return next((x for x in placed.dims if isinstance(kernel.tag(x), Vectorize)), None)


def repeating_loops(placement: Placement, entry: Traffic) -> frozenset[str]:
    """Return loops over which a loaded element is invariant, so that it stays in a register.

    Those are the innermost loops, and unrolled ones, in which nothing writes the array.
    """
    kernel, placed = placement.program.kernel, entry.placed
    if entry.direction != "load" or not entry.access.is_affine():
        return frozenset()
    used = frozenset[str]().union(*(form.names() for form in placed.indices(entry.access) if form is not None))
    written: set[str] = set()
    for other in placement.statements.values():
        if other.lowered.writes_to(entry.access.array):
            written.update(other.dims)
    found, is_inner = set(), True
    for name in reversed(loops_among(placed.dims)):
        is_unrolled = isinstance(kernel.tag(name), Unroll | UnrollHint | Interleave | Vectorize)
        if name in used or name in written:
            is_inner = False
        elif is_inner or is_unrolled:
            found.add(name)
    return frozenset(found)


def vector_width(placement: Placement, entry: Traffic, address: Address, limit: int = 16) -> int:
    """Return the number of adjacent elements that a thread moves at once: the lanes of a vector, or 1."""
    lane = vector_lane(placement.program.kernel, entry.placed)
    if lane is None or entry.direction == "atomic" or axis_stride(address, lane) != 1:
        return 1
    return min(_extent(entry.placed, lane), max(1, limit // entry.dtype.itemsize))


def merged_width(placement: Placement, entry: Traffic, address: Address, limit: int = 16) -> int:
    """Return the number of adjacent reads, in iterations of a loop, that a compiler may merge into one."""
    if entry.direction != "load":
        return 1
    kernel = placement.program.kernel
    for name in entry.placed.dims:
        is_loop = not is_axis(name) and not isinstance(kernel.tag(name), Vectorize)
        if is_loop and axis_stride(address, name) == 1:
            return min(_extent(entry.placed, name), max(1, limit // entry.dtype.itemsize))
    return 1


def _extent(placed: Placed, name: str) -> int:
    """Return the greatest extent of a loop; a large number if it has no constant bound."""
    low, high = constant_bounds(placed.domain, placed.dims.index(name))
    return _MOST_SAMPLES if low is None or high is None else high - low + 1


# }}}
