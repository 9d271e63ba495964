"""First operands of matrix instructions that are in registers: those of the lanes that computed the elements.

To the analysis such a temporary is an array of the threads of a block, like one that is exchanged by shuffles.  Each of
its elements has one thread that writes it, and that is the lane which holds the element for the instruction, by the
layout of its first operand.  So each lane multiplies what it has in its own registers, and no thread waits for another.

::

    m64nNk16: columns 16*q .. 16*q + 15 of the results, in the registers where one product leaves them
              =  terms 16*q .. 16*q + 15 of the first operand, in the registers where the next one wants them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
        matrix = placed.lowered.instruction.matrix
        if matrix is not None and matrix.from_registers and isinstance(placed.lowered.part, Update):
            if (access := _operand(placement, placed, matrix)) is not None:
                found[access.array] = placed
    return found


def held_axes(placement: Placement, name: str) -> frozenset[int]:
    """Return the axes of such a temporary along which each thread has one element."""
    uses = [(s, write) for s in placement.statements.values() for write in s.lowered.writes_to(name)]
    return one_element_axes(uses, placement.axes, placement.program.kernel.parameters) if uses else frozenset()


def held_problem(placement: Placement, update: Placed, access: Access, matrix: Matrix) -> tuple[str, str] | None:
    """Return a problem, and a hint, if the lanes do not have the elements of the first operand; None if they have.

    *access* is the read of the operand by *update*.
    """
    name = access.array
    if access is not _operand(placement, update, matrix):
        return f"'{name}' depends on j", "its operands are a[i, k] and b[k, j]"
    array = placement.program.kernel.arrays()[name]
    again = "compute it by lanes that have rows and columns as the results of a product have them: pl.tensorize"
    if not isinstance(array, TemporaryVariable) or placement.spaces[name] is not AddressSpace.LOCAL:
        return f"'{name}' is no temporary of the threads of a block", f"compute it in one; {again}"
    if array.initializer is not None or array.base_storage is not None or array.swizzle is not None or array.is_shuffled:
        return f"'{name}' has storage of another kind: a table, shared with others, swizzled or exchanged", again
    for other in placement.statements.values():
        for use in other.lowered.accesses:
            if use.array != name:
                continue
            if other.lowered.is_write(use):
                if not isinstance(other.lowered.part, Assign) or other.lowered.atomic or other.lowered.instruction.step:
                    return f"'{other.lowered.instruction.id}' writes '{name}' by no plain assignment", again
            elif not _is_operand(placement, other, use):
                text = f"'{other.lowered.instruction.id}' reads '{name}' too, whose elements other threads may have"
                return text, "compute it twice, or read what it was computed from"
    layout, result = matrix.intrinsic.in_registers(), matrix.intrinsic.layout("d")
    if _rows(layout) != _rows(result):
        return "it wants rows of its first operand on other lanes than rows of results are", "leave out from_registers"
    gone = sorted(held_axes(placement, name))
    writer, write = next((s, w) for s in placement.statements.values() for w in s.lowered.writes_to(name))
    owners = [writer.indices(write)[axis] for axis in gone]
    assert None not in owners, "one form of thread indices"
    if not _is_injective(placement, [form for form in owners if form is not None]):
        text = f"several threads may hold an element of '{name}'"
        return text, f"divide its axes where loops are divided (pl.split_array_axis), and {again}"
    holds = _holding(placement, update, matrix, layout)
    if holds is None:
        return "a digit of the lane is cut by another one", "use digits that fit those of the instruction"
    read = update.indices(access)
    forms = []
    for axis, own in zip(gone, owners, strict=True):
        index = read[axis]
        if index is None or own is None:
            return f"a subscript of '{name}' is not affine", again
        forms.append(own.substitute(holds).add(index, -1))
    lanes = {axis for axis in placement.axes.local if (digit_parts(axis) or (0,))[0] < matrix.intrinsic.lanes}
    for axis, index in enumerate(read):
        if axis in gone:
            continue
        if index is None or not lanes.isdisjoint(index.names()):
            return f"the lane decides which of its elements along axis {axis} of '{name}' is multiplied", again
        forms.append(index.substitute(_first_lane(matrix, layout)).add(index, -1))
    apart = map_from_forms(update.domain_of(access), update.dims, forms).range()
    for position, axis in enumerate((*gone, *(axis for axis in range(len(read)) if axis not in gone))):
        if not apart.is_subset(isl.Set.universe(apart.get_space()).fix_val(_SET, position, 0)):
            text = f"elements of '{name}' along axis {axis} are on other lanes than it wants them"
            return text, again
    return None


def _operand(placement: Placement, placed: Placed, matrix: Matrix) -> Access | None:
    """Return the read of the first operand: the one whose subscripts have inames of i, and none of j."""
    rows, columns = ({iname for iname, _ in matrix.of(axis)} for axis in "ij")
    for access in placed.lowered.reads:
        if access.leaf is None:
            continue
        names = frozenset[str]().union(*(form.names() for form in access.indices if form is not None))
        if not rows.isdisjoint(names) and columns.isdisjoint(names):
            return access
    return None


def _is_operand(placement: Placement, placed: Placed, access: Access) -> bool:
    matrix = placed.lowered.instruction.matrix
    is_product = matrix is not None and matrix.from_registers and isinstance(placed.lowered.part, Update)
    return is_product and matrix is not None and _operand(placement, placed, matrix) is access


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
    """Return the thread that holds the first operand of an instance: a form for each digit of the lane that is one of k.

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
