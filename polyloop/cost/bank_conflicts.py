"""Bank conflicts of shared-memory accesses: wavefronts per request of a warp, against the fewest possible.

Shared memory has 32 banks of 4-byte words; word ``w`` is in bank ``w mod 32``.  A request takes as many *wavefronts* as
the largest number of different words that its threads address in one bank.  A word that several threads address is
broadcast.  Accesses of 8 bytes are served half a warp at a time, those of 16 bytes a quarter of a warp at a time.
Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later.

Threads are enumerated one by one.  A loop that shifts the addresses of all threads by whole words changes no count, and
is skipped; other loops are enumerated.  Sizes are assumed to give every thread work: tiles are full.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import islpy as isl
import numpy as np
import numpy.typing as npt

from polyloop.dataflow.address_spaces import place
from polyloop.display import brief
from polyloop.expr.printer import show
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Vectorize
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import memoised
from polyloop.poly.affine import Affine, Floor, to_expression
from polyloop.poly.axes import is_axis
from polyloop.poly.sets import constant_bounds, project_onto, rows_of
from polyloop.program.lower import Access
from polyloop.proof.obligation import within_budget

__all__ = ["BANKS", "WARP", "WIDEST", "WORD", "BankConflicts", "bank_conflicts", "shared_accesses", "wide_elements",
           "worst_requests"]

BANKS: Final = 32
WORD: Final = 4
"""Size of what a bank gives at once [bytes]."""
WARP: Final = 32
"""Threads of which the banks serve one access at once: a warp, or half a wave of 64 lanes."""
WIDEST: Final = 16
"""Size of what a thread accesses at once, at most [bytes]."""
_MOST_POINTS: Final = 1 << 20
"""Points of a box of threads and loops, in which those of a domain are found."""
_Points: TypeAlias = Mapping[str, npt.NDArray[np.int64]]
"""The coordinates of points by the name of the dimension."""


@dataclass(frozen=True)
class BankConflicts:
    """Wavefronts of one shared-memory access.

    Attributes
    ----------
    nbytes
        Size of one thread's access [bytes].
    requests
        Accesses of whole warps that were counted; 0 where ``unknown`` says why none could be.
    wavefronts
        Turns that shared memory takes for all of them.
    least
        Turns that would be enough without conflicts.
    worst
        Most different words that threads which are served together want of one bank; 1 is without conflict.
    """

    instruction: str
    array: str
    is_write: bool
    access: str
    nbytes: int
    requests: int = 0
    wavefronts: int = 0
    least: int = 0
    worst: int = 0
    unknown: str = ""

    __repr__ = brief

    @property
    def conflicts(self) -> int:
        """Turns more than without conflicts."""
        return self.wavefronts - self.least

    @property
    def turns(self) -> float:
        """Turns for each one that would be enough without conflicts."""
        return self.wavefronts / self.least if self.least else 1.0

    def __str__(self) -> str:
        verb = "writes" if self.is_write else "reads"
        start = f"{self.instruction} {verb} {self.access}, {self.nbytes} bytes a thread: "
        if self.unknown:
            return f"{start}not known, {self.unknown}"
        if not self.conflicts:
            return f"{start}no conflicts"
        return f"{start}{self.turns:.3g} times as long as without conflicts (at worst {self.worst} words of one bank)"


def bank_conflicts(kernel: LoopKernel, array: str | None = None) -> tuple[BankConflicts, ...]:
    """Return the conflicts of each access of shared memory, or of one array there, in the order of the program."""
    with within_budget(kernel, "the bank conflicts of shared arrays"):
        placement = place(kernel)
        return tuple(_all(placement, array))


def shared_accesses(kernel: LoopKernel, array: str) -> tuple[BankConflicts, ...]:
    """Return the accesses of an array in shared memory as :func:`bank_conflicts` does, but not counted."""
    with within_budget(kernel, "the accesses of shared arrays"):
        placement = place(kernel)
        return tuple([_described(placement, *entry)[0] for entry in _shared_accesses(placement, array)])


def _all(placement: Placement, array: str | None) -> Iterator[BankConflicts]:
    for placed, access in _shared_accesses(placement, array):
        yield _counted(*_requests(placement, placed, access))


def _shared_accesses(placement: Placement, array: str | None) -> Iterator[tuple[Placed, Access]]:
    """Yield the accesses of shared memory that are no shuffles, equal ones of a statement once."""
    temporaries = placement.program.kernel.temporaries
    for placed in placement.statements.values():
        seen: set[tuple[str, tuple[Affine | None, ...], bool]] = set()
        for access in placed.lowered.accesses:
            is_write = placed.lowered.is_write(access)
            key = (access.array, access.indices, is_write)
            if array is not None and access.array != array:
                continue
            if placement.spaces.get(access.array) is AddressSpace.LOCAL and key not in seen:
                seen.add(key)
                if temporaries[access.array].is_shuffled:
                    continue
                yield placed, access


def _described(placement: Placement, placed: Placed, access: Access) -> tuple[BankConflicts, str | None]:
    """Return the access, not counted, and the iname of the lanes that a thread accesses at once."""
    temporary = placement.program.kernel.temporaries[access.array]
    is_write = placed.lowered.is_write(access)
    forms = access.indices
    text = ", ".join("?" if form is None else show(to_expression(form)) for form in forms)
    size = 0 if temporary.dtype is None else temporary.dtype.itemsize
    elements, lane = wide_elements(placement.program.kernel, placed, access, temporary)
    name = f"{access.array}[{text}]" if forms else access.array
    return BankConflicts(placed.lowered.instruction.id, access.array, is_write, name, size * elements), lane


def _requests(placement: Placement, placed: Placed, access: Access) -> tuple[BankConflicts, _Requests | str]:
    """Return the access, not counted yet, and its requests or why they are not known."""
    temporary = placement.program.kernel.temporaries[access.array]
    result, lane = _described(placement, placed, access)
    prepared = _prepared(placement, placed, access, temporary, lane)
    if isinstance(prepared, str):
        return result, prepared
    sample, extents, offset = prepared
    return result, _Requests.of(sample, extents, offset, temporary, result.nbytes)


def _counted(result: BankConflicts, requests: _Requests | str) -> BankConflicts:
    if isinstance(requests, str):
        return replace(result, unknown=requests)
    number, wavefronts, least, worst = requests.counts()
    return replace(result, requests=number, wavefronts=wavefronts, least=least, worst=worst)


def _prepared(
    placement: Placement, placed: Placed, access: Access, temporary: TemporaryVariable, lane: str | None
) -> tuple[_Sample, Mapping[str, int], Affine] | str:
    """Return the points of a request, the extents of the thread axes and the offset [elements]; or why there are none.

    The offset lacks terms that move all addresses alike and change no conflict.
    """
    extents = {axis: placement.axes.local[axis] for axis in sorted(placement.axes.local)}
    if any(extent is None for extent in extents.values()) or not extents:
        return "the block has no constant size" if extents else "there are no threads"
    strides = [stride for stride in temporary.strides() if isinstance(stride, int)]
    size = 0 if temporary.dtype is None else temporary.dtype.itemsize
    if not size or len(strides) < len(access.indices):
        return "its layout is not constant"
    offset = Affine((), 0)
    for form, stride in zip(placed.indices(access), strides, strict=True):
        if form is None:
            return "data decides about a subscript"
        offset = offset.add(form, stride)
    moving, fixed = _split(offset, frozenset(extents), _period(temporary, size))
    matter = {name for name in moving.names() if name not in extents}
    domain = placed.domain_of(access)
    if lane is not None:
        low, _ = constant_bounds(domain, placed.dims.index(lane))
        domain = domain.fix_val(isl.dim_type.set, placed.dims.index(lane), low or 0)
    known = {axis: extent for axis, extent in extents.items() if extent is not None}
    sample = _points(domain, placed.dims, tuple(extents), matter, _warp_axes(known).difference(moving.names()))
    if isinstance(sample, str):
        return sample
    return sample, known, moving.add(Affine((), fixed))


def _period(temporary: TemporaryVariable, size: int) -> int:
    """Return a period [elements]: a shift of all addresses by it changes no bank conflict."""
    return max(1, WORD // size) if temporary.swizzle is None else max(BANKS * WORD // size, temporary.swizzle.period)


def _split(offset: Affine, threads: frozenset[str], period: int) -> tuple[Affine, int]:
    """Return the part of *offset* that affects bank conflicts, and its constant.

    Terms without a thread in them move all addresses alike; where they do by a multiple of *period*, they are left out.
    """
    terms = []
    for var, coefficient in offset.terms:
        names = Affine(((var, 1),), 0).names()
        if not names.isdisjoint(threads) or coefficient % period:
            terms.append((var, coefficient))
    return Affine(tuple(terms), 0), offset.const


def _warp_axes(extents: Mapping[str, int]) -> set[str]:
    """Return the thread axes along which warps are whole: all threads of a warp have one index."""
    found, step = set(), 1
    for axis, extent in extents.items():
        if step % WARP == 0:
            found.add(axis)
        step *= extent
    return found


@dataclass(frozen=True)
class _Sample:
    """Accesses of threads, of which each stands for several with the same addresses, in other warps.

    Attributes
    ----------
    points
        The values of the thread axes, and of the loops that matter.
    number
        Accesses that each stands for.
    """

    points: _Points
    number: int = 1


def _points(
    domain: isl.Set, dims: Sequence[str], threads: Sequence[str], matter: Iterable[str], alike: Collection[str]
) -> _Sample | str:
    """Return the values of the thread axes, and of the loops that *matter* or decide which threads run.

    Of the axes along which warps are *alike*, the first index stands for all where the others do not depend on it.
    """
    bounded = []
    for position, name in enumerate(dims):
        if not is_axis(name):
            low, high = constant_bounds(domain, position)
            if low is not None and high is not None:
                bounded.append(name)
    if not set(matter) <= set(bounded):
        return f"it depends on '{min(set(matter) - set(bounded))}'"
    kept = [*threads, *bounded]
    left = project_onto(domain, dims, kept).project_out_all_params().coalesce()
    first: dict[str, int] = {}
    number = 1
    if left.is_empty():
        return _Sample({name: np.empty(0, np.int64) for name in kept})
    for name in (*sorted(alike), *bounded):
        if name not in matter and (parts := _apart(left, kept, name)) is not None:
            left, own = parts
            kept = [x for x in kept if x != name]
            if name in alike:
                low, _ = constant_bounds(own, 0)
                assert low is not None, "axes of the block have constant sizes"
                first[name], number = low, number * own.count_val().to_python()
    points = _enumerated(left, kept)
    if isinstance(points, str):
        return points
    size = len(next(iter(points.values())))
    return _Sample({**{name: np.full(size, low, np.int64) for name, low in first.items()}, **points}, number)


def _apart(domain: isl.Set, dims: Sequence[str], name: str) -> tuple[isl.Set, isl.Set] | None:
    """Return the values of all other dimensions, and those of *name*, if *domain* has all pairs of them."""
    rest, own = project_onto(domain, dims, [x for x in dims if x != name]), project_onto(domain, dims, [name])
    position = dims.index(name)
    around = own.insert_dims(isl.dim_type.set, 1, len(dims) - position - 1).insert_dims(isl.dim_type.set, 0, position)
    box = rest.insert_dims(isl.dim_type.set, position, 1).intersect(around)
    return (rest, own) if domain.is_equal(box) else None


def _enumerated(domain: isl.Set, dims: Sequence[str]) -> _Points | str:
    """Return the points of *domain* in the order of their coordinates."""
    bounds = [constant_bounds(domain, position) for position in range(len(dims))]
    axes = [np.arange(low, high + 1) for low, high in bounds if low is not None and high is not None]
    assert len(axes) == len(dims), "threads and loops that are bounded were kept"
    if math.prod(map(len, axes)) > _MOST_POINTS:
        return "too many loops decide about it"
    box = dict(zip(dims, (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")), strict=True))
    inside = np.zeros(math.prod(map(len, axes)), np.bool_)
    for basic in domain.compute_divs().get_basic_sets():
        piece = np.ones_like(inside)
        for row in rows_of(basic, dims):
            value = _evaluated(row.form, box)
            piece &= value == 0 if row.is_equality else value >= 0
        inside |= piece
    return {name: values[inside] for name, values in box.items()}


def _evaluated(form: Affine, points: _Points) -> npt.NDArray[np.int64]:
    """Return the value of *form* at each point."""
    total = np.full(len(next(iter(points.values()))), form.const, np.int64)
    for var, coefficient in form.terms:
        if isinstance(var, Floor):
            total += coefficient * (_evaluated(Affine(var.terms, var.const), points) // var.den)
        else:
            total += coefficient * points[var]
    return total


@dataclass(frozen=True)
class _Requests:
    """The accesses of threads, each with the number of its request and of the part that is served at once.

    Attributes
    ----------
    thread
        The number of the thread in its block.
    first
        The first byte that it wants.
    request, phase
        Numbers from 0 on.
    words
        For each phase, the most different words that are wanted of one bank.
    number
        Accesses that each of them stands for.
    """

    thread: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    request: npt.NDArray[np.int64]
    phase: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    number: int

    @classmethod
    def of(
        cls, sample: _Sample, extents: Mapping[str, int], offset: Affine, temporary: TemporaryVariable, nbytes: int
    ) -> _Requests:
        """Group the accesses of *sample*, one of the block's threads and of the loops around it each."""
        points = sample.points
        assert temporary.dtype is not None, "the type was looked at"
        element = _evaluated(offset, points)
        first = temporary.dtype.itemsize * (element if temporary.swizzle is None else temporary.swizzle.moved(element))
        thread, around, step = np.zeros_like(first), np.zeros_like(first), 1
        for axis, extent in extents.items():
            thread += step * points[axis]
            step *= extent
        for name, values in points.items():
            if name not in extents:
                around = _numbered(around, values)
        request = _numbered(around, thread // WARP)
        phase = _numbered(around, thread // (WARP * WORD // max(WORD, min(nbytes, WIDEST))))
        last = (first + nbytes - 1) // WORD
        wanted = [
            (phase[reached], word[reached])
            for n in range((nbytes + 2 * WORD - 2) // WORD)
            for word in (first // WORD + n,)
            for reached in (word <= last,)
        ]
        phases, words = (np.concatenate(columns) for columns in zip(*wanted, strict=True))
        different, word = _pairs(phases, words)
        used, counts = np.unique(different * BANKS + word % BANKS, return_counts=True)
        most = np.zeros(phase.max(initial=-1) + 1, np.int64)
        np.maximum.at(most, used // BANKS, counts)
        return cls(thread, first, request, phase, most, sample.number)

    def counts(self) -> tuple[int, int, int, int]:
        """Return requests, wavefronts, the least wavefronts, and the most words of one bank that are wanted at once."""
        requests = int(self.request.max(initial=-1)) + 1
        wavefronts, least = self.number * int(self.words.sum()), self.number * len(self.words)
        return self.number * requests, wavefronts, least, int(self.words.max(initial=0))

    def worst(self) -> Mapping[int, int]:
        """Return the first byte of each thread of the request that takes the most turns; of several, of the largest."""
        if not len(self.thread):
            return {}
        turns = np.zeros(int(self.request.max()) + 1, np.int64)
        phases, example = np.unique(self.phase, return_index=True)
        np.add.at(turns, self.request[example], self.words[phases])
        cost = turns * (WARP + 1) + np.bincount(self.request)
        chosen = self.request == self.request[np.argmax(cost[self.request])]
        return dict(zip(self.thread[chosen].tolist(), self.first[chosen].tolist(), strict=True))


def _pairs(
    first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the different pairs of a value of *first* and one of *second*."""
    if not len(first):
        return first, second
    low = int(second.min())
    size = int(second.max()) - low + 1
    one, other = np.divmod(np.unique(first * size + (second - low)), size)
    return one, other + low


def _numbered(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a number from 0 on for each pair of a value of *first* and one of *second*."""
    if not len(first):
        return first
    low = int(second.min())
    return np.unique_inverse(first * (int(second.max()) - low + 1) + (second - low)).inverse_indices.astype(np.int64)


@memoised
def worst_requests(kernel: LoopKernel) -> tuple[tuple[BankConflicts, Mapping[int, int]], ...]:
    """Return the conflicts of each access of shared memory, with the first byte of each thread of one warp.

    It is a warp whose request takes as many turns as any.  The mapping is empty where the conflicts are not known.
    """
    with within_budget(kernel, "the bank conflicts of shared arrays"):
        placement = place(kernel)
        found = []
        for placed, access in _shared_accesses(placement, None):
            result, requests = _requests(placement, placed, access)
            worst = {} if isinstance(requests, str) else requests.worst()
            found.append((_counted(result, requests), worst))
        return tuple(found)


def wide_elements(
    kernel: LoopKernel, placed: Placed, access: Access, temporary: TemporaryVariable
) -> tuple[int, str | None]:
    """Return the number of elements that a thread accesses at once, and the iname of its lanes if there are several."""
    lanes = [x for x in placed.dims if isinstance(kernel.tag(x), Vectorize)]
    if len(lanes) != 1 or temporary.dtype is None or placed.lowered.atomic is not None:
        return 1, None
    (lane,) = lanes
    low, high = constant_bounds(placed.domain, placed.dims.index(lane))
    if low is None or high is None or temporary.base_storage is not None:
        return 1, None
    count = min(high - low + 1, WIDEST // temporary.dtype.itemsize)
    step, rest = 0, Affine((), 0)
    for form, stride in zip(placed.indices(access), temporary.strides(), strict=True):
        if form is None or not isinstance(stride, int):
            return 1, None
        if any(isinstance(var, Floor) and lane in Affine(((var, 1),), 0).names() for var, _ in form.terms):
            return 1, None
        step += form.coefficient(lane) * stride
        rest = rest.add(form.substitute({lane: Affine((), low)}), stride)
    aligned = not any(coefficient % count for _, coefficient in rest.terms) and rest.const % count == 0
    aligned = aligned and (temporary.swizzle is None or temporary.swizzle.keeps(count))
    return (count, lane) if count > 1 and step == 1 and aligned else (1, None)
