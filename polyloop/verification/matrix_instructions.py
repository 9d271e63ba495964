"""Reductions on matrix instructions (tensor cores): proof that the instruction computes the sums of the program.

The analysis keeps such a reduction as it is: each thread collects the terms of its own results, as the register layout
of the results assigns them.  The instruction computes the same sums, but the lanes of a warp load the operands for each
other.  So any lane of a warp may read the elements that one of them reads in the program (:func:`by_whole_warps`, for
the derivation of barriers).  Whole warps must execute the instruction, and each term must be the product of two loads.
A load gives 0 for an element that is an operand of no term.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import is_integer
from polyloop.expr.nodes import Expression, TypeCast, array_name
from polyloop.expr.rewrite import children
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.intrinsic import Matrix, MatrixIntrinsic, Part
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Sequential, ThreadDigit, Unroll, Vectorize, axis_name
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.memo import memoised
from polyloop.poly.affine import Affine, Floor
from polyloop.poly.sets import Row, add_rows, map_from_forms
from polyloop.program.infer_types import accumulator_dtypes
from polyloop.program.ir import Access, Init, Lowered, Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.verification.register_operands import held_problem

__all__ = [
    "by_whole_warps",
    "factor",
    "is_swapped",
    "lane_axes",
    "matrix_obligations",
    "matrix_problems",
    "operands",
]

_SET = isl.dim_type.set


def factor(expr: Expression, intrinsic: MatrixIntrinsic) -> Expression:
    """Return a factor without a cast to the type of the results, in which matrix instructions multiply."""
    return expr.child if isinstance(expr, TypeCast) and np.dtype(expr.dtype) == intrinsic.results else expr


def operands(lowered: Lowered) -> tuple[p.Subscript, p.Subscript] | None:
    """Return the two elements whose product is the term of a statement, None if it is no such product."""
    term, matrix = lowered.rhs, lowered.instruction.matrix
    if matrix is not None and isinstance(term, p.Product) and len(term.children) == 2:
        left, right = (factor(part, matrix.intrinsic) for part in term.children)
        if isinstance(left, p.Subscript) and isinstance(right, p.Subscript):
            return left, right
    return None


def is_swapped(lowered: Lowered, matrix: Matrix) -> bool:
    """Return True if the first factor of a term is ``b``: its subscripts have inames of j, and none of i."""
    found = _accesses(lowered)
    i, j = ({iname for iname, _ in matrix.of(axis)} for axis in "ij")
    return found is not None and i.isdisjoint(_names(found[0])) and not j.isdisjoint(_names(found[0]))


def _accesses(lowered: Lowered) -> tuple[Access, Access] | None:
    reads = [access for access in lowered.reads if access.leaf is not None]
    factors = operands(lowered)
    if factors is None or len(reads) < 2 or [r.array for r in reads[-2:]] != [array_name(x) for x in factors]:
        return None
    return (reads[0], reads[1]) if len(reads) == 2 else None


def _names(access: Access) -> frozenset[str]:
    return frozenset[str]().union(*(form.names() for form in access.indices if form is not None))


def lane_axes(placement: Placement, placed: Placed) -> dict[str, int]:
    """Return the thread axes along which the lanes of a matrix instruction lie, with their extents."""
    axes, matrix = placement.axes, placed.lowered.instruction.matrix
    if not axes.is_elementary or matrix is None:
        return {}
    lanes = matrix.intrinsic.lanes
    return {axis: size for axis, size in axes.local.items() if size is not None and int(axis.split(".")[1]) < lanes}


def by_whole_warps(placement: Placement, placed: Placed, access: Access) -> isl.Map | None:
    """Return ``{ instance -> instances on the lanes of its warp }`` where any of them may make *access* for it.

    None if each thread makes its own.
    """
    lowered = placed.lowered
    if lowered.instruction.matrix is None or not isinstance(lowered.part, Update) or lowered.is_write(access):
        return None
    return _to_lanes(placed.domain, placed.dims, tuple(lane_axes(placement, placed).items()))


@memoised
def _to_lanes(domain: isl.Set, dims: tuple[str, ...], lanes: tuple[tuple[str, int], ...]) -> isl.Map:
    forms = [None if dim in dict(lanes) else Affine.variable(dim) for dim in dims]
    whole = isl.Set.universe(domain.get_space())
    relation = map_from_forms(whole, dims, forms)
    rows = [row for axis, size in lanes
            for row in (Row(Affine.variable(axis)), Row(Affine(((axis, -1),), size - 1)))]  # fmt: skip
    return relation.intersect_range(add_rows(whole, dims, rows))


def matrix_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield the obligations of reductions on matrix instructions."""
    for instruction in placement.program.kernel.instructions:
        if instruction.matrix is not None:
            says = f"'{instruction.id}' has the sums of {instruction.matrix.intrinsic.name}, computed by whole warps"
            by = "subscripts, types, and the terms of the products of its loads"
            find = partial(matrix_problems, placement, instruction)
            yield Obligation(Claim.VALUES, f"matrices of '{instruction.id}'", says, by, find, is_strict=True)


def matrix_problems(placement: Placement, instruction: Instruction) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the matrix instruction of *instruction* cannot compute its reduction."""
    matrix = instruction.matrix
    assert matrix is not None, f"'{instruction.id}' has no matrix instruction"
    own = [s for s in placement.statements.values() if s.lowered.instruction is instruction]
    updates = [s for s in own if isinstance(s.lowered.part, Update)]
    found = _iname_problem(placement.program.kernel, instruction, matrix) or _shape_problem(placement, updates, matrix)
    if found is None:
        (update,) = updates
        (start,) = (s for s in own if isinstance(s.lowered.part, Init))
        found = _operand_problem(placement, update, matrix) or _term_problem(update, start, matrix)
    if found is not None:
        message, hint = found
        title = f"'{instruction.id}' cannot be carried out by {matrix.intrinsic.name}"
        yield Diagnostic("bad-tensorize", title, (message,), (hint,), sites=(instruction.site(),))


_Problem = tuple[str, str]


def _iname_problem(kernel: LoopKernel, instruction: Instruction, matrix: Matrix) -> _Problem | None:
    """Return a problem if an iname is gone, or if its tag does not fit the register layout of the results."""
    inames = {x for term in instruction.terms for x in term.inames}
    parts = matrix.intrinsic.layout("d")
    again = "call tensorize after the transforms that split, join or tag these loops"
    for axis in "ijk":
        pairs = matrix.of(axis)
        for iname, _ in pairs:
            if iname not in inames:
                return f"it has no loop over '{iname}' any more", again
        if axis == "k":
            if axis_name(kernel.tag(pairs[0][0])) is not None:
                return f"'{pairs[0][0]}' is tagged '{kernel.tag(pairs[0][0])}'", again
            continue
        for (iname, _), part in zip(pairs, _of(parts, axis), strict=True):
            if not _is_tagged(kernel, iname, part):
                return f"'{iname}' is tagged '{kernel.tag(iname)}', and the results lie otherwise", again
    return None


def _of(parts: Sequence[Part], axis: str) -> list[Part]:
    return [part for part in parts if part.axis == axis]


def _is_tagged(kernel: LoopKernel, iname: str, part: Part) -> bool:
    tag = kernel.tag(iname)
    if part.in_lane:
        return tag == ThreadDigit(part.place, part.extent)
    return isinstance(tag, Sequential | Unroll | Vectorize)


def _shape_problem(placement: Placement, updates: Sequence[Placed], matrix: Matrix) -> _Problem | None:
    """Return a problem unless the reduction is one unconditional sum of products, on blocks of whole warps."""
    if len(updates) != 1 or operands(updates[0].lowered) is None or _accesses(updates[0].lowered) is None:
        return "it is not one sum of products of two elements", "leave one sum(k, a[i, k]*b[k, j]) in the instruction"
    (update,) = updates
    lowered, part = update.lowered, update.lowered.part
    assert isinstance(part, Update), "the terms of a reduction"
    operation = part.reduction.operation
    if operation.name != "sum" or operation.ordered or operation.of_states:
        return f"its terms are combined by '{operation}'", "matrix instructions add up sums, in an order of their own"
    if part.reduction.along or part.reduction.partial_of is not None or lowered.instruction.atomic:
        return "its terms are collected for several results", "only plain sums are added up by matrix instructions"
    if lowered.is_conditional or any(read.is_guarded for read in lowered.reads):
        return "a condition on data decides which terms there are", "let all terms be added, as zeros where need be"
    threads = [size for size in placement.axes.extents.values() if size is not None]
    if not placement.axes.is_elementary:
        text = "digits of the thread number that some inames are do not fit into one another, such as l%24 and l%32"
        return text, "let the tiles that threads fetch have powers of two as extents, or fetch them with other digits"
    lanes = matrix.intrinsic.lanes
    if not threads or prod(threads) % lanes:
        return f"a block has {prod(threads)} threads", f"let all blocks be whole warps of {lanes} threads"
    return None


def _operand_problem(placement: Placement, update: Placed, matrix: Matrix) -> _Problem | None:
    """Return a problem of the operands (type, storage, subscripts), or of the type of the sums."""
    kernel, lowered = placement.program.kernel, update.lowered
    factors = _accesses(lowered)
    assert factors is not None, "a product was found"
    a, b = reversed(factors) if is_swapped(lowered, matrix) else factors
    arrays = kernel.arrays()
    if matrix.from_registers and (found := held_problem(placement, update, a, matrix)) is not None:
        return found
    for access, axes, missing in ((a, "ik", "j"), (b, "kj", "i"))[matrix.from_registers :]:
        array = arrays[access.array]
        if array.dtype != matrix.intrinsic.operands:
            text = f"'{access.array}' has elements of {array.dtype}, and it takes {matrix.intrinsic.operands}"
            return text, "choose the intrinsic for these types, or convert the operands first"
        if placement.spaces[access.array] is AddressSpace.PRIVATE:
            text = f"'{access.array}' is private, and the lanes of a warp load elements for each other"
            return text, "fetch it into shared memory instead: pl.add_prefetch"
        if isinstance(array, TemporaryVariable) and array.is_shuffled:
            return f"'{access.array}' is exchanged by shuffles", "leave it in shared memory"
        for form in access.indices:
            if form is None:
                return f"a subscript of '{access.array}' is not affine", "fetch its elements in order: pl.add_prefetch"
            if not {x for x, _ in matrix.of(missing)}.isdisjoint(form.names()):
                return f"'{access.array}' depends on {missing}", "its operands are a[i, k] and b[k, j]"
            if not matrix.intrinsic.is_shared and not all(_is_of(form, matrix.of(axis)) for axis in axes):
                return f"a subscript of '{access.array}' is no form of whole tiles", "split and fetch by whole tiles"
    return _sum_problem(kernel, lowered, matrix.intrinsic)


def _sum_problem(kernel: LoopKernel, lowered: Lowered, intrinsic: MatrixIntrinsic) -> _Problem | None:
    """Return a problem of the types of products and sums."""
    result = intrinsic.results
    if is_integer(result) and not any(isinstance(part, TypeCast) for part in children(lowered.rhs)):
        text = f"its products are {intrinsic.operands}, and wrap; those of the instruction are {result}"
        return text, f"cast a factor: sum(k, cast({result}, a[i, k])*b[k, j])"
    held = accumulator_dtypes(kernel)[lowered.write.array]
    if held != result:
        return f"its sums are {held}, and those of the instruction {result}", f"let the sum be of {result}"
    return None


def _is_of(form: Affine, pairs: Sequence[tuple[str, int]]) -> bool:
    """Return True if *form* depends on the inames of *pairs* only through the tile subscript that they compose."""
    inames = {iname for iname, _ in pairs}
    for var, _ in form.terms:
        if isinstance(var, Floor) and not inames.isdisjoint(Affine(var.terms, var.const).names()):
            return False
    low, _ = next(pair for pair in pairs if pair[1] == 1)
    return all(form.coefficient(iname) == c * form.coefficient(low) for iname, c in pairs)


def _term_problem(update: Placed, start: Placed, matrix: Matrix) -> _Problem | None:
    """Return a problem if the product of the loaded operands has terms that the program does not have.

    An element of ``a`` is loaded if there is a term with it for some j, one of ``b`` if there is one for some i.
    """
    dims, domain = update.dims, update.domain
    factors = _accesses(update.lowered)
    assert factors is not None, "a product was found"
    a, b = reversed(factors) if is_swapped(update.lowered, matrix) else factors
    loads = []
    for own, other in ((a, b), (b, a)):
        names = [frozenset[str]().union(*(f.names() for f in update.indices(x) if f is not None)) for x in (own, other)]
        reach = domain
        for dim in names[1] - names[0]:
            if dim in dims:
                reach = reach.eliminate(_SET, dims.index(dim), 1)
        loads.append(reach)
    lifted = map_from_forms(isl.Set.universe(domain.get_space()), dims, [Affine.variable(dim) for dim in start.dims])
    wanted = lifted.intersect_range(start.domain).domain()
    extra = loads[0].intersect(loads[1]).intersect(wanted).subtract(domain)
    if extra.is_empty():
        return None
    return (
        "which terms there are depends on i, j and k together",
        "add all products of a tile, with zeros in the operands, or leave this sum to the threads",
    )
