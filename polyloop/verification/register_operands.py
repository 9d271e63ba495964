"""First operands of matrix instructions that are in registers: those of the lanes that computed the elements.

To the analysis such a temporary is an array of the threads of a block, like one that is exchanged by shuffles.  Each of
its elements has one thread that writes it, and that is the lane which holds the element for the instruction, by the
layout of its first operand.  So each lane multiplies what it has in its own registers, and no thread waits for another.

::

    m64nNk16: columns 16*q .. 16*q + 15 of the results, in the registers where one product leaves them
              =  terms 16*q .. 16*q + 15 of the first operand, in the registers where the next one wants them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import islpy as isl

from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.intrinsic import Matrix, Part
from polyloop.mapping.array_contraction import one_element_axes
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.axes import digit_parts
from polyloop.poly.sets import map_from_forms, universe
from polyloop.program.ir import Access, Assign, Update

__all__ = ["held_arrays", "held_axes", "held_problem"]

_SET = isl.dim_type.set


@memoised
def held_arrays(placement: Placement) -> Mapping[str, Placed]:
    """Return the temporaries that are operands in registers, each with a statement that multiplies it."""
    found: dict[str, Placed] = {}
    for placed in placement.statements.values():
        for access in placed.lowered.reads:
            if _is_operand(placed, access):
                found[access.array] = placed
    return found


def held_axes(placement: Placement, name: str) -> frozenset[int]:
    """Return the axes of such a temporary along which each thread has one element."""
    uses = [(s, write) for s in placement.statements.values() for write in s.lowered.writes_to(name)]
    return one_element_axes(uses, placement.axes, placement.program.kernel.parameters) if uses else frozenset()


def held_problem(placement: Placement, update: Placed, access: Access, matrix: Matrix) -> _Problem | None:
    """Return a problem, and a hint, if the lanes do not have the elements of the first operand; None if they have.

    *access* is the read of the operand by *update*.
    """
    if access is not _operand(update, matrix):
        return f"'{access.array}' depends on j", "its operands are a[i, k] and b[k, j]"
    dtype, wanted = placement.program.kernel.arrays()[access.array].dtype, matrix.intrinsic.operands
    if dtype != wanted:
        return f"'{access.array}' has elements of {dtype}, and it takes {wanted}", "convert them first"
    layout = matrix.intrinsic.in_registers()
    if not layout:
        return "it takes its first operand from memory alone", "leave out from_registers"
    if _rows(layout) != _rows(matrix.intrinsic.layout("d")):
        return "it wants rows of its first operand on other lanes than rows of results are", "leave out from_registers"
    found = _storage_problem(placement, access.array) or _use_problem(placement, access.array)
    return found or _lane_problem(placement, update, access, matrix)


_Problem = tuple[str, str]
_AGAIN: Final = "compute it by lanes that have rows and columns as the results of a product have them: pl.tensorize"


def _storage_problem(placement: Placement, name: str) -> _Problem | None:
    array = placement.program.kernel.arrays()[name]
    if not isinstance(array, TemporaryVariable) or placement.spaces[name] is not AddressSpace.LOCAL:
        return f"'{name}' is no temporary of the threads of a block", f"compute it in one; {_AGAIN}"
    if array.initializer is not None or array.base_storage is not None:
        return f"'{name}' is a table, or shares its storage", _AGAIN
    if array.swizzle is not None or array.is_shuffled:
        return f"'{name}' is swizzled, or exchanged by shuffles", _AGAIN
    return None


def _use_problem(placement: Placement, name: str) -> _Problem | None:
    for other in placement.statements.values():
        lowered = other.lowered
        for use in (use for use in lowered.accesses if use.array == name):
            if not lowered.is_write(use):
                if not _is_operand(other, use):
                    text = f"'{lowered.instruction.id}' reads '{name}' too, whose elements other threads may have"
                    return text, "compute it twice, or read what it was computed from"
            elif not isinstance(lowered.part, Assign) or lowered.atomic or lowered.instruction.step:
                return f"'{lowered.instruction.id}' writes '{name}' by no plain assignment", _AGAIN
    return None


def _lane_problem(placement: Placement, update: Placed, access: Access, matrix: Matrix) -> _Problem | None:
    """Return a problem unless each element is written by the thread that holds it for the instruction."""
    name, layout = access.array, matrix.intrinsic.in_registers()
    gone = sorted(held_axes(placement, name))
    writer, write = next((s, w) for s in placement.statements.values() for w in s.lowered.writes_to(name))
    owners = [form for axis in gone if (form := writer.indices(write)[axis]) is not None]
    read = [form for form in update.indices(access) if form is not None]
    if len(owners) < len(gone) or len(read) < len(access.indices):
        return f"a subscript of '{name}' is not affine", _AGAIN
    if not _is_injective(placement, owners):
        text = f"several threads may hold an element of '{name}'"
        return text, f"divide its axes where loops are divided (pl.split_array_axis), and {_AGAIN}"
    holds = _holding(placement, update, matrix, layout)
    if holds is None:
        return "a digit of the lane is cut by another one", "use digits that fit those of the instruction"
    lanes = {axis for axis in placement.axes.local if (digit_parts(axis) or (0,))[0] < matrix.intrinsic.lanes}
    left = [axis for axis in range(len(read)) if axis not in gone]
    if mixed := next((axis for axis in left if not lanes.isdisjoint(read[axis].names())), None):
        return f"the lane decides which of its elements along axis {mixed} of '{name}' is multiplied", _AGAIN
    first = _first_lane(matrix, layout)
    forms = [own.substitute(holds).add(read[axis], -1) for axis, own in zip(gone, owners, strict=True)]
    forms += [read[axis].substitute(first).add(read[axis], -1) for axis in left]
    apart = map_from_forms(update.domain_of(access), update.dims, forms).range()
    for position, axis in enumerate((*gone, *left)):
        if not apart.is_subset(isl.Set.universe(apart.get_space()).fix_val(_SET, position, 0)):
            return f"elements of '{name}' along axis {axis} are on other lanes than it wants them", _AGAIN
    return None


def _operand(placed: Placed, matrix: Matrix) -> Access | None:
    """Return the read of the first operand: the one whose subscripts have inames of i, and none of j."""
    rows, columns = ({iname for iname, _ in matrix.of(axis)} for axis in "ij")
    for access in placed.lowered.reads:
        if access.leaf is None:
            continue
        names = frozenset[str]().union(*(form.names() for form in access.indices if form is not None))
        if not rows.isdisjoint(names) and columns.isdisjoint(names):
            return access
    return None


def _is_operand(placed: Placed, access: Access) -> bool:
    matrix = placed.lowered.instruction.matrix
    if matrix is None or not matrix.from_registers or not isinstance(placed.lowered.part, Update):
        return False
    return _operand(placed, matrix) is access


def _rows(layout: tuple[Part, ...]) -> list[tuple[int, int, int]]:
    """Return the parts of the row that are digits of the lane: stride, extent and place."""
    return [(part.stride, part.extent, part.place) for part in layout if part.axis == "i" and part.in_lane]


def _is_injective(placement: Placement, forms: list[Affine]) -> bool:
    """Return True if no two threads of a block have the same values of *forms*."""
    local = {axis: size for axis, size in placement.axes.local.items() if size is not None}
    if len(local) < len(placement.axes.local):
        return False
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0)
    names = tuple(local)
    threads = universe(isl.Set.universe(space), names)
    for position, size in enumerate(local.values()):
        threads = threads.lower_bound_val(_SET, position, 0).upper_bound_val(_SET, position, size - 1)
    if any(not form.names() <= {*names} for form in forms):
        return False
    return bool(map_from_forms(threads, names, forms).is_injective())


def _holding(
    placement: Placement, update: Placed, matrix: Matrix, layout: tuple[Part, ...]
) -> Mapping[str, Affine] | None:
    """Return the thread that holds the first operand of an instance: a form for each digit of the lane that is of k.

    None if such a digit is no sum of thread axes.
    """
    term = Affine((), 0)
    for iname, coefficient in matrix.of("k"):
        term = term.add(update.forms.get(iname) or Affine.variable(iname), coefficient)
    found: dict[str, Affine] = {}
    for part in (part for part in layout if part.in_lane and part.axis == "k"):
        low, high = part.place, part.place * part.extent
        for axis in placement.axes.local:
            own = digit_parts(axis)
            if own is None or own[0] * own[1] <= low or own[0] >= high:
                continue
            if own[0] < low or own[0] * own[1] > high:
                return None
            stride = part.stride * (own[0] // low)
            found[axis] = term.floordiv(stride).add(term.floordiv(stride * own[1]), -own[1])
    return found


def _first_lane(matrix: Matrix, layout: tuple[Part, ...]) -> Mapping[str, Affine]:
    """Return the term of the first lane that has its other digits, for the term of an instance: a form of its iname."""
    ((iname, _),) = matrix.of("k")
    term = own = Affine.variable(iname)
    for part in layout:
        if part.in_lane and part.axis == "k":
            own = own.add(term.floordiv(part.stride), -part.stride)
            own = own.add(term.floordiv(part.stride * part.extent), part.stride * part.extent)
    return {iname: own}
