"""``vectorize``: a loop becomes vector lanes, with a remainder loop if their number does not divide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_bool
from polyloop.expr.nodes import array_name
from polyloop.expr.printer import show
from polyloop.expr.records import is_record
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import AddressSpace, ArrayArg, TemporaryVariable
from polyloop.kernel.domains import iname_range
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Auto, Vectorized, apart_axes
from polyloop.kernel.tags import Vectorize as Vector
from polyloop.mapping.contiguity import MOST_BYTES, Lanes, Reason, element_reads, why_not_wide
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.residues import Divisibility, residues
from polyloop.program.expand_lanes import VECTOR_LENGTHS, lane_violations
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.loops.split import SplitIname
from polyloop.transform.loops.tag import TagInames
from polyloop.transform.parameters import Iname, InsnMatch, NewName, TagText

__all__ = ["Vectorize"]


@dataclass(frozen=True)
class _Access:
    """An access of the lanes, with the reason why it is no vector access (None if it is one)."""

    instruction: Instruction
    text: str
    reason: Reason | None


@dataclass(frozen=True)
class Vectorize(Transform):
    """Run the iterations of a loop as lanes of vectors, with wide loads and stores.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", "b[i] = 2*a[i]").add_dtypes({"a, b": np.float32})
    >>> print(body(knl.vectorize("i", 4), "cuda"))
    for (int i_outer = 0; i_outer < 16; ++i_outer) {
        const float4 a_v = *(const float4 *)&a[4 * i_outer];
        float4 b_v;
        b_v.x = 2.0f * a_v.x;
        b_v.y = 2.0f * a_v.y;
        b_v.z = 2.0f * a_v.z;
        b_v.w = 2.0f * a_v.w;
        *(float4 *)&b[4 * i_outer] = b_v;
    }

    Parameters
    ----------
    iname
        The loop. It is tagged ``vec`` if it has as many iterations as lanes, otherwise it is split.
    length
        Number of lanes: 2, 4, 8 or 16; by default 16 bytes over the size of the widest element that the loop accesses.
    outer_iname, inner_iname
        Names of the new inames; by default the old name with ``_outer`` and ``_inner``.
    outer_tag
        How the loop over vectors runs, as in :func:`tag_inames`.
    slabs, within
        As in :func:`split_iname`.

    Raises
    ------
    TransformError
        The errors of :func:`split_iname` and :func:`tag_inames`; ``bad-lanes``; ``not-vectorized`` if no access would
        be a vector access, with a reason for each: its elements are not adjacent, or it may be misaligned.

    Notes
    -----
    Remaining iterations, fewer than a vector, run lane by lane: in a loop after the others, or in a branch of their own
    if the vectors are distributed over threads. Alignment of the arrays is checked at launch. The trace lists the
    vector accesses. Source: Allen and Kennedy, "Automatic translation of Fortran programs to vector form", TOPLAS 9(4),
    1987, https://doi.org/10.1145/29873.29875; CUDA C++ Programming Guide, "Built-in Vector Types".
    """

    iname: Iname
    length: int | None = None
    _: KW_ONLY
    outer_iname: NewName | None = None
    inner_iname: NewName | None = None
    outer_tag: TagText | None = None
    slabs: tuple[int, int] = (0, 0)
    within: InsnMatch | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := [*iname_violations(kernel, self.iname)]:
            yield from found
            return
        length: object = self._length(kernel)
        if length not in VECTOR_LENGTHS:
            known = f"{', '.join(map(str, VECTOR_LENGTHS[:-1]))} or {VECTOR_LENGTHS[-1]}"
            yield Diagnostic("bad-lanes", f"a vector cannot have {length!r} lanes", hints=(f"vectors have {known}",))
            return
        yield from self._step(kernel).violations(kernel)

    def _length(self, kernel: LoopKernel) -> int:
        """Return the number of lanes: as many elements of the widest type as one access moves."""
        if self.length is not None:
            return self.length
        arrays = kernel.arrays()
        sizes = [
            dtype.itemsize
            for instruction in kernel.instructions
            for access, _ in _accesses(kernel, instruction)
            if self.iname in variables(access)
            and (dtype := arrays[array_name(access)].dtype) is not None
            and not is_record(dtype)
        ]
        most = max(2, MOST_BYTES // max(sizes, default=4))
        return min(most, count) if (count := _count(kernel, self.iname)) in VECTOR_LENGTHS else most

    def _step(self, kernel: LoopKernel) -> SplitIname | TagInames:
        """Return the steps: the loop split, or only tagged if it has as many iterations as lanes."""
        length = self._length(kernel)
        if _count(kernel, self.iname) == length and self.within is None and self.outer_tag is None:
            return TagInames(((self.iname, "vec"),))
        return SplitIname(
            self.iname,
            length,
            outer_iname=self.outer_iname,
            inner_iname=self.inner_iname,
            outer_tag=self.outer_tag,
            inner_tag="vec",
            slabs=self.slabs,
            within=self.within,
        )

    def _lanes(self, kernel: LoopKernel) -> str:
        step = self._step(kernel)
        return step.inner if isinstance(step, SplitIname) else self.iname

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return self._step(kernel).rewrite(kernel)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        lanes = self._lanes(before)
        yield from lane_violations(after, [lanes])
        if found := [*self._step(before).consequences(before, after)]:
            yield from found
            return
        accesses = [*_lane_accesses(after, lanes)]
        if any(access.reason is None for access in accesses):
            return
        reasons = dict.fromkeys(access.reason for access in accesses if access.reason is not None)
        notes = [f"'{access.text}': {access.reason.text}" for access in accesses if access.reason is not None]
        hints = dict.fromkeys(reason.hint for reason in reasons if reason.hint)
        yield Diagnostic(
            "not-vectorized",
            f"nothing would be loaded or stored as a vector of '{self.iname}'",
            tuple(dict.fromkeys(notes)) or (f"no array is subscripted by '{self.iname}'",),
            tuple(hints) or ("tag the loop 'ilp' where lane by lane is meant",),
            sites=tuple(dict.fromkeys(access.instruction.site() for access in accesses)),
        )

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        accesses = [*_lane_accesses(after, self._lanes(before))]
        wide = dict.fromkeys(access.text for access in accesses if access.reason is None)
        rest = dict.fromkeys(f"{a.text} ({a.reason.text})" for a in accesses if a.reason and a.text not in wide)
        told = f"{self._length(before)} lanes; as vectors: {', '.join(wide) or 'nothing'}"
        return f"{told}; lane by lane: {', '.join(rest)}" if rest else told


def _count(kernel: LoopKernel, iname: str) -> int | None:
    """Return the number of values of an iname, None if parameters decide."""
    low, high = iname_range(kernel, iname)
    return None if low is None or high is None else high - low + 1


def _accesses(kernel: LoopKernel, instruction: Instruction) -> Iterator[tuple[p.Subscript, bool]]:
    """Yield the elements that an instruction accesses, each with whether no condition decides about it."""
    if instruction.is_c:
        return
    yield from element_reads(expand_rules(instruction.expression, kernel.substitutions))
    if isinstance(instruction.assignee, p.Subscript):
        yield instruction.assignee, True


def _lane_accesses(kernel: LoopKernel, lanes: str) -> Iterator[_Access]:
    """Yield the accesses to memory that differ from lane to lane."""
    if not isinstance(kernel.iname_tags.get(lanes), Vector):
        return
    low, high = iname_range(kernel, lanes)
    if low is None or high is None:
        return
    known = residues(kernel.assumptions)
    arrays = kernel.arrays()
    for instruction in kernel.instructions:
        if not any(lanes in inames for inames in (instruction.inames, *(term.inames for term in instruction.terms))):
            continue
        for access, is_sure in _accesses(kernel, instruction):
            array = arrays[array_name(access)]
            if lanes in variables(access) and _is_memory(array):
                reason = _reason(array, access, Lanes(lanes, low, high - low + 1), known)
                unsure = None if is_sure else Reason("a condition decides whether it is read")
                yield _Access(instruction, show(access), reason or unsure)


def _is_memory(array: ArrayArg | TemporaryVariable) -> bool:
    """Return whether an array is declared in memory; private and automatic temporaries may be registers."""
    return isinstance(array, ArrayArg) or array.address_space in {AddressSpace.LOCAL, AddressSpace.GLOBAL}


def _reason(
    array: ArrayArg | TemporaryVariable, access: p.Subscript, lanes: Lanes, known: Divisibility
) -> Reason | None:
    """Return the reason why an access cannot be a vector access, None if it may be one; axes are not chosen yet."""
    dtype = array.dtype
    if dtype is None:
        return Reason("the type of its elements is not known", "state it: pl.add_dtypes")
    if is_record(dtype) or is_bool(dtype) or not np.issubdtype(dtype, np.number):
        return Reason("vectors have numbers as elements")
    if 2 * dtype.itemsize > MOST_BYTES:
        return Reason(f"an element has {dtype.itemsize} bytes, and no access more than {MOST_BYTES}")
    if isinstance(array, ArrayArg):
        strides, offset = array.strides, array.offset
    else:
        strides, offset = array.strides(), 0
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    if _is_vector_element(array, access, lanes):
        return None
    if strides is None or apart_axes(tags) or isinstance(offset, Auto) or len(strides) != len(access.index_tuple):
        return Reason("its elements do not lie in one piece")
    forms = [affine_of(index) for index in access.index_tuple]
    elements = min(lanes.count, MOST_BYTES // dtype.itemsize)
    return why_not_wide(forms, strides, offset, lanes, elements, known)


def _is_vector_element(array: ArrayArg | TemporaryVariable, access: p.Subscript, lanes: Lanes) -> bool:
    """Return whether the lanes are all components of one element of an array of vectors."""
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    axes = [axis for axis, tag in enumerate(tags) if isinstance(tag, Vectorized)]
    if not axes or lanes.low or (array.shape or ())[axes[0]] != lanes.count:
        return False
    used = [axis for axis, index in enumerate(access.index_tuple) if lanes.iname in variables(index)]
    return used == axes and affine_of(access.index_tuple[axes[0]]) == Affine.variable(lanes.iname)
