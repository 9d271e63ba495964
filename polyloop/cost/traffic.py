"""The accesses of a program to global and shared memory: addresses, strides along axes, footprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.cost.tally import Stride
from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import apart_axes
from polyloop.mapping.thread_mapping import Axes, Placed, Placement, storage_map
from polyloop.poly.affine import Affine, Floor, affine_of
from polyloop.poly.axes import number_of
from polyloop.poly.polynomial import Polynomial
from polyloop.program.infer_types import dtype_table
from polyloop.program.ir import Access, Kept, Other

__all__ = [
    "Address",
    "Footprint",
    "Traffic",
    "address_of",
    "axis_stride",
    "different",
    "footprints",
    "polynomial_of",
    "thread_strides",
    "traffic",
    "varying_axes",
]

_SET: Final = isl.dim_type.set


@dataclass(frozen=True, eq=False)
class Traffic:
    """One access of one statement to global or shared memory.

    ``direction`` is ``"load"``, ``"store"`` or ``"atomic"``.
    """

    placed: Placed
    access: Access
    space: AddressSpace
    dtype: DType
    direction: str


@dataclass(frozen=True)
class Address:
    """Linear address of an access [elements]: terms over dimensions, quotients and parameters; products of two parts.

    ``parts`` are the subscripts, each with the distance between its neighbours.
    """

    parts: tuple[tuple[Affine, Polynomial], ...]


def traffic(placement: Placement) -> Iterator[Traffic]:
    """Yield the accesses of every statement, in the order of the program; tables and private variables are left out."""
    kernel = placement.program.kernel
    types = dtype_table(kernel)
    tables = {name for name, temporary in kernel.temporaries.items() if temporary.initializer is not None}
    for placed in placement.statements.values():
        lowered = placed.lowered
        if lowered.instruction.step is CopyStep.ARRIVAL:  # the copy is made by the instruction that starts it
            continue
        for access in lowered.accesses:
            space = placement.spaces[access.array]
            if isinstance(access.kind, Kept) or access.kind is Other.BOUND:
                continue
            if space is AddressSpace.PRIVATE or access.array in tables:
                continue
            direction = "load"
            if lowered.is_write(access):
                direction = "store" if lowered.atomic is None else "atomic"
            dtype = types[access.array]
            assert dtype is not None, f"{access.array} has no type"
            yield Traffic(placed, access, space, dtype, direction)


def different(entries: Iterable[Traffic]) -> Iterator[Traffic]:
    """Yield *entries* without equal ones of one statement; subscripts that data decides may differ."""
    seen = set()
    for entry in entries:
        key = (entry.placed.name, entry.access.array, entry.access.indices, entry.direction)
        if key not in seen or not entry.access.is_affine():
            seen.add(key)
            yield entry


def address_of(kernel: LoopKernel, entry: Traffic) -> Address | None:
    """Return the address of an access, None if it depends on data or the array has no single row of elements."""
    array = kernel.arrays()[entry.access.array]
    forms = entry.placed.indices(entry.access)
    strides = array.strides() if callable(array.strides) else array.strides
    if strides is None or len(strides) != len(forms) or apart_axes(array.dim_tags):
        return None
    parts = []
    for form, stride in zip(forms, strides, strict=True):
        step = polynomial_of(stride)
        if form is None or step is None:
            return None
        parts.append((form, step))
    return Address(tuple(parts))


def polynomial_of(expr: Expression) -> Polynomial | None:
    """Return an expression as a polynomial in the parameters, None if it is no polynomial."""
    form = affine_of(expr)
    if form is not None:
        return Polynomial.of_affine(form)
    if not isinstance(expr, p.Sum | p.Product):
        return None
    parts = [polynomial_of(child) for child in expr.children]
    total: Polynomial | None = parts[0]
    for part in parts[1:]:
        if total is None or part is None:
            return None
        total = total + part if isinstance(expr, p.Sum) else total * part
    return total


def axis_stride(address: Address | None, axis: str) -> Stride:
    """Return the elements from one index of *axis* to the next."""
    if address is None:
        return None
    total = Polynomial({})
    for form, step in address.parts:
        if any(isinstance(var, Floor) and axis in Affine.variable(var).names() for var, _ in form.terms):
            return None
        total += step.scale(form.coefficient(axis))
    value = total.value
    return value if isinstance(value, int) else total


def thread_strides(address: Address | None, axes: Axes) -> dict[int, Stride]:
    """Return the elements from one thread to the next along each of ``l.0``, ``l.1`` and ``l.2`` that the block has.

    Where inames are digits of the thread number, the digits that make up an axis must agree.
    """
    if not axes.has_digits:
        return {number_of(axis): axis_stride(address, axis) for axis in axes.local}
    found: dict[int, Stride] = {}
    below = 1
    for axis in sorted(axes.block):
        extent = axes.block[axis] or 1
        parts, step = [], 1
        for digit in sorted(axes.local):
            size = axes.local[digit] or 1
            if below <= step < below * extent:
                parts.append((step // below, axis_stride(address, digit)))
            step *= size
        found[number_of(axis)] = _common(parts)
        below *= extent
    return found


def _common(parts: Sequence[tuple[int, Stride]]) -> Stride:
    """Return the stride of an axis, from place values and strides of its digits; None if they disagree."""
    if not parts:
        return 0
    first = parts[0][1]
    if first is None:
        return None
    for place, stride in parts[1:]:
        expected = first * place
        if stride is None or str(stride) != str(expected):
            return None
    return first


def varying_axes(local: Mapping[str, int | None], warp_size: int) -> tuple[str, ...]:
    """Return the thread axes along which threads of one warp differ."""
    found, inside = [], 1
    for axis in sorted(local):
        extent = local[axis]
        if inside >= warp_size:
            break
        if extent != 1:
            found.append(axis)
        inside *= extent or warp_size
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Footprint:
    """The elements of an array that a program reads, or writes; ``is_exact`` is False where these are the most."""

    elements: isl.Set
    is_exact: bool


def footprints(placement: Placement) -> dict[tuple[str, str], Footprint]:
    """Return the elements of each array in global memory that are touched, by name and ``"read"`` or ``"write"``."""
    found: dict[tuple[str, str], Footprint] = {}
    for entry in traffic(placement):
        if entry.space is not AddressSpace.GLOBAL:
            continue
        lowered = entry.placed.lowered
        relation = storage_map(placement, entry.placed, entry.access, entry.space)
        elements = relation.range().coalesce()
        is_exact = lowered.is_certain(entry.access)
        for direction in ("read", "write") if entry.direction == "atomic" else (_DIRECTIONS[entry.direction],):
            key = (entry.access.array, direction)
            known = found.get(key)
            if known is not None:
                whole = known.elements.union(elements).coalesce()
                found[key] = Footprint(whole, known.is_exact and is_exact)
            else:
                found[key] = Footprint(elements, is_exact)
    return found


_DIRECTIONS: Final = {"load": "read", "store": "write"}
