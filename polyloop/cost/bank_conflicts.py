"""Bank conflicts of shared-memory accesses: wavefronts per request of a warp, against the fewest possible.

Shared memory has 32 banks of 4-byte words; word ``w`` is in bank ``w mod 32``.  A request takes as many *wavefronts* as
the largest number of different words that its threads address in one bank.  A word that several threads address is
broadcast.  Accesses of 8 bytes are served half a warp at a time, those of 16 bytes a quarter of a warp at a time.
Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later.

Threads are enumerated one by one.  A loop that shifts the addresses of all threads by whole words changes no count, and
is skipped; other loops are enumerated.  Sizes are assumed to give every thread work: tiles are full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl

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
from polyloop.poly.sets import constant_bounds, project_onto
from polyloop.program.lower import Access
from polyloop.proof.obligation import within_budget

__all__ = ["BANKS", "WORD", "BankConflicts", "bank_conflicts", "wide_elements", "worst_requests"]

BANKS: Final = 32
WORD: Final = 4
"""Size of what a bank gives at once [bytes]."""
WARP: Final = 32
_WIDEST: Final = 16
_MOST_POINTS: Final = 1 << 15


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


def _all(placement: Placement, array: str | None) -> Iterator[BankConflicts]:
    temporaries = placement.program.kernel.temporaries
    for placed, access in _shared_accesses(placement, array):
        yield _conflicts(placement, placed, access, temporaries[access.array])


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


def _conflicts(
    placement: Placement, placed: Placed, access: Access, temporary: TemporaryVariable
) -> BankConflicts:
    is_write = placed.lowered.is_write(access)
    forms = access.indices
    text = ", ".join("?" if form is None else show(to_expression(form)) for form in forms)
    size = 0 if temporary.dtype is None else temporary.dtype.itemsize
    elements, lane = wide_elements(placement.program.kernel, placed, access, temporary)
    name = f"{access.array}[{text}]" if forms else access.array
    result = BankConflicts(placed.lowered.instruction.id, access.array, is_write, name, size * elements)
    counted = _counted(placement, placed, access, temporary, lane, size * elements)
    if isinstance(counted, str):
        return BankConflicts(*_start(result), unknown=counted)
    return BankConflicts(*_start(result), *counted)


def _start(result: BankConflicts) -> tuple[str, str, bool, str, int]:
    return result.instruction, result.array, result.is_write, result.access, result.nbytes


def _counted(
    placement: Placement, placed: Placed, access: Access, temporary: TemporaryVariable, lane: str | None, nbytes: int
) -> tuple[int, int, int, int] | str:
    """Return requests, wavefronts, the least wavefronts and the worst bank, or why they are not known."""
    prepared = _prepared(placement, placed, access, temporary, lane)
    return prepared if isinstance(prepared, str) else _turns(*prepared, temporary, nbytes)


def _prepared(
    placement: Placement, placed: Placed, access: Access, temporary: TemporaryVariable, lane: str | None
) -> tuple[list[dict[str, int]], Mapping[str, int], Affine] | str:
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
    points = _points(domain, placed.dims, tuple(extents), matter)
    if isinstance(points, str):
        return points
    known = {axis: extent for axis, extent in extents.items() if extent is not None}
    return points, known, moving.add(Affine((), fixed))


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


def _points(
    domain: isl.Set, dims: Sequence[str], threads: Sequence[str], matter: Iterable[str]
) -> list[dict[str, int]] | str:
    """Return the values of the thread axes, and of the loops that *matter* or decide which threads run."""
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
    for name in bounded:
        if name not in matter:
            others = [x for x in kept if x != name]
            rest = project_onto(left, kept, others)
            alone = project_onto(left, kept, [name])
            position = kept.index(name)
            box = rest.insert_dims(isl.dim_type.set, position, 1).intersect(
                alone.insert_dims(isl.dim_type.set, 1, len(kept) - position - 1).insert_dims(
                    isl.dim_type.set, 0, position
                )
            )
            if left.is_equal(box):
                left, kept = rest, others
    if left.is_empty():
        return []
    if left.count_val().to_python() > _MOST_POINTS:
        return "too many loops decide about it"
    return _enumerated(left, kept)


def _enumerated(domain: isl.Set, dims: Sequence[str]) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []

    def visit(point: isl.Point) -> None:
        found.append(
            {name: point.get_coordinate_val(isl.dim_type.set, n).to_python() for n, name in enumerate(dims)}
        )

    domain.foreach_point(visit)
    return found


def _turns(
    points: Iterable[Mapping[str, int]],
    extents: Mapping[str, int],
    offset: Affine,
    temporary: TemporaryVariable,
    nbytes: int,
) -> tuple[int, int, int, int]:
    """Return requests, wavefronts, the least wavefronts, and the most words of one bank that are wanted at once."""
    together = WARP * WORD // max(WORD, min(nbytes, _WIDEST))
    phases: dict[tuple[tuple[int, ...], int], dict[int, set[int]]] = {}
    requests = set()
    for around, thread, first in _addresses(points, extents, offset, temporary):
        requests.add((around, thread // WARP))
        banks = phases.setdefault((around, thread // together), {})
        for word in range(first // WORD, (first + nbytes - 1) // WORD + 1):
            banks.setdefault(word % BANKS, set()).add(word)
    worst = [max(map(len, banks.values())) for banks in phases.values()]
    return len(requests), sum(worst), len(phases), max(worst, default=0)


def _addresses(
    points: Iterable[Mapping[str, int]], extents: Mapping[str, int], offset: Affine, temporary: TemporaryVariable
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield the loops around each access, the number of the thread, and the first byte that it wants."""
    assert temporary.dtype is not None, "the type was looked at"
    size = temporary.dtype.itemsize
    for values in points:
        thread, step = 0, 1
        for axis, extent in extents.items():
            thread += step * values[axis]
            step *= extent
        around = tuple(value for name, value in values.items() if name not in extents)
        first = offset.evaluate(values)
        yield around, thread, size * (first if temporary.swizzle is None else temporary.swizzle.moved(first))


@memoised
def worst_requests(kernel: LoopKernel) -> tuple[tuple[BankConflicts, Mapping[int, int]], ...]:
    """Return the conflicts of each access of shared memory, with the first byte of each thread of one warp.

    It is a warp whose request takes as many turns as any.  The mapping is empty where the conflicts are not known.
    """
    with within_budget(kernel, "the bank conflicts of shared arrays"):
        placement = place(kernel)
        temporaries = kernel.temporaries
        found = []
        for placed, access in _shared_accesses(placement, None):
            conflicts = _conflicts(placement, placed, access, temporaries[access.array])
            worst: Mapping[int, int] = {}
            if not conflicts.unknown:
                worst = _worst(placement, placed, access, temporaries[access.array], conflicts.nbytes)
            found.append((conflicts, worst))
        return tuple(found)


def _worst(
    placement: Placement, placed: Placed, access: Access, temporary: TemporaryVariable, nbytes: int
) -> Mapping[int, int]:
    _, lane = wide_elements(placement.program.kernel, placed, access, temporary)
    prepared = _prepared(placement, placed, access, temporary, lane)
    assert not isinstance(prepared, str), "its conflicts were counted"
    points, extents, offset = prepared
    requests: dict[tuple[tuple[int, ...], int], dict[int, int]] = {}
    for around, thread, first in _addresses(points, extents, offset, temporary):
        requests.setdefault((around, thread // WARP), {})[thread] = first
    together = WARP * WORD // max(WORD, min(nbytes, _WIDEST))
    return max(requests.values(), key=lambda warp: _wavefronts(warp, nbytes, together), default={})


def _wavefronts(warp: Mapping[int, int], nbytes: int, together: int) -> int:
    phases: dict[int, dict[int, set[int]]] = {}
    for thread, first in warp.items():
        banks = phases.setdefault(thread // together, {})
        for word in range(first // WORD, (first + nbytes - 1) // WORD + 1):
            banks.setdefault(word % BANKS, set()).add(word)
    return sum(max(map(len, banks.values())) for banks in phases.values())


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
    count = min(high - low + 1, _WIDEST // temporary.dtype.itemsize)
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


