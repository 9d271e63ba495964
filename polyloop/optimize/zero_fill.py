"""Zero-filled copies of whole tiles, for over-execution: a copy stores zeros at positions without an element.

At the edge of an array, and behind the last term of a sum, a tile has positions outside of the array.  A copy that runs
for these too, and stores zeros there, needs no condition.  The readers of the tile may then run for all of it: results
beyond those of the program have no readers (:mod:`polyloop.optimize.over_execution`), and to the others products of
zeros are added, which changes nothing.

The statements with over-executed instances (*phantoms*) are copies from global memory, which store zeros, copies of the
copied values, or conversions of them, and sums of products.  Three facts are proven of the program with all phantoms:
its own instances read values that its own instances copied, as before; both factors of a product that a phantom adds to
a result of the program are zeros, by conversions of which 0 is 0; asynchronous copies are started and waited for as
:mod:`polyloop.sync.async_copy` demands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.dataflow.pass_through import definitions
from polyloop.dataflow.value_flow import is_exact, known_flow, readers_of, writers_of
from polyloop.expr.dtypes import is_number
from polyloop.expr.nodes import Expression, TypeCast
from polyloop.expr.rewrite import children
from polyloop.kernel.arrays import AddressSpace, ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.tags import Box, GroupAxis
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, place_statement, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import Row, add_rows, constant_bounds, map_from_forms, project_onto
from polyloop.program.conditions import may_fail
from polyloop.program.ir import Access, Assign, Init, Lowered, Update
from polyloop.sync.async_copy import copy_link, copy_pairs, copy_violations

__all__ = ["Whole", "extended_to", "is_box", "is_inside", "passed_on", "unawaited", "whole_copies", "whole_products"]

_IN: Final = isl.dim_type.in_
_OUT: Final = isl.dim_type.out
_SET: Final = isl.dim_type.set
_PARAM: Final = isl.dim_type.param


def extended_to(placement: Placement, placed: Placed, wide: isl.Set, inside: Iterable[Access]) -> Placed | None:
    """Return *placed* with all instances of *wide*, None if some access of *inside* would leave its array."""
    lowered = replace(placed.lowered, domain=wide, exact=wide)
    if not is_inside(placement, lowered, inside):
        return None
    return place_statement(placement.program.kernel, lowered, placement.axes, placement.spaces[lowered.write.array])


def is_inside(placement: Placement, lowered: Lowered, accesses: Iterable[Access]) -> bool:
    """Return whether all *accesses* stay inside their arrays, which have constant extents."""
    for access in accesses:
        temporary = placement.program.kernel.temporaries.get(access.array)
        shape = placement.program.accumulators[access.array].shape if temporary is None else temporary.shape or ()
        forms = [form for form in access.indices if form is not None]
        touched = map_from_forms(lowered.domain, lowered.inames, forms).range()
        for axis, extent in enumerate(shape):
            if type(extent) is not int:
                return False
            least, most = touched.dim_min_val(axis), touched.dim_max_val(axis)
            if not (least.is_int() and most.is_int()) or least.to_python() < 0 or most.to_python() >= extent:
                return False
    return True


# {{{ more instances


def whole_copies(placement: Placement, *, beyond: bool) -> dict[str, Placed]:
    """Return copies from global memory for all elements of their tiles, by name.

    With *beyond*, they run until the end of the loop, though the last ones are dead; there are none where a box would
    be started without an arrival.  Those that are not asynchronous are looked at only where matrix instructions read
    what they copy.
    """
    found: dict[str, Placed] = {}
    for arrival, starts in copy_pairs(placement):
        array = arrival.lowered.write.array
        if len(starts) == 1 and len(writers_of(placement, array)) == 2:
            if beyond and is_box(placement, starts[0]) and _runs_longer(placement, starts[0], arrival):
                return {}
            found.update(_whole_copy(placement, [starts[0], arrival], arrival, beyond=beyond))
    wanted = {read.array for s in placement.statements.values() if _is_on_matrices(s) for read in _operands(s)}
    for placed in placement.statements.values():
        lowered = placed.lowered
        is_fetch = lowered.instruction.step is None and len(lowered.writes) == 1 and _is_copy(placement, placed)
        if is_fetch and placement.spaces[lowered.reads[0].array] is AddressSpace.GLOBAL and wanted:
            readers = [reader for reader, _ in readers_of(placement, lowered.write.array)]
            is_used = any(x.lowered.write.array in wanted or _is_on_matrices(x) for x in readers)
            if is_used and len(readers) == 1 and len(writers_of(placement, lowered.write.array)) == 1:
                found.update(_whole_copy(placement, [placed], readers[0], beyond=beyond))
    return found


def passed_on(placement: Placement, copies: Mapping[str, Placed]) -> dict[str, Placed]:
    """Return the statements, extended to whole tiles, that pass copied elements on to a place, or convert them."""
    found: dict[str, Placed] = {}
    known = _origins(copies, {})
    others = [s for s in placement.statements.values() if s.name not in copies]
    left = [s for s in others if _is_copy(placement, s) or _is_conversion(placement, s)]
    while step := [s for s in left if all(read.array in known for read in s.lowered.reads)]:
        left = [s for s in left if s not in step]
        for placed in step:
            array, sources = placed.lowered.write.array, [known[read.array] for read in placed.lowered.reads]
            if len(writers_of(placement, array)) == 1 and array in placement.program.kernel.temporaries:
                wide = _whole(placement, placed, _loops_around(placement, sources, placed))
                if wide is not None:
                    found[placed.name] = wide
                    known[array] = sources[0]
    return found


def _loops_around(placement: Placement, sources: Sequence[Placed], placed: Placed) -> list[str]:
    """Return the loops that a statement has in common with all of *sources*."""
    first, *others = [common_loops(placement, source, placed)[0] for source in sources]
    return [loop for loop in first if all(loop in loops for loops in others)]


def _origins(copies: Mapping[str, Placed], passing: Mapping[str, Placed]) -> dict[str, Placed]:
    """Return the copy from global memory that filled an array, through any number of others, by array."""
    found = {placed.lowered.write.array: placed for placed in copies.values() if not _is_start(placed)}
    for placed in passing.values():
        found[placed.lowered.write.array] = found[placed.lowered.reads[0].array]
    return found


def _whole_copy(
    placement: Placement, steps: Sequence[Placed], reader: Placed, *, beyond: bool
) -> dict[str, Placed]:
    """Return the steps of a copy extended to whole tiles, empty if impossible; *reader* waits for the first step."""
    reaches = _reaches(placement, steps, reader, beyond=beyond)
    if reaches is None:
        return {}
    outer, reach = reaches
    found: dict[str, Placed] = {}
    for placed, own in zip(steps, reach, strict=True):
        wide = _filling(placement, placed.lowered, outer, own)
        extended = extended_to(placement, placed, wide, [placed.lowered.write])
        if extended is None:
            return {}
        found[placed.name] = extended
    return found


def _reaches(
    placement: Placement, steps: Sequence[Placed], reader: Placed, *, beyond: bool
) -> tuple[Sequence[str], Sequence[isl.Set]] | None:
    """Return the loops around the tiles of a copy, and for each step the iterations of these for which it runs."""
    if not all(_is_copy(placement, placed) for placed in steps):
        return None
    loops, _ = common_loops(placement, reader, steps[0])
    outer = [_outer(placement, placed, loops) for placed in steps]
    if any(own != outer[0] for own in outer) or not set(outer[0]) <= set(reader.lowered.inames):
        return None
    reach = [_reach(placement, placed, outer[0]) for placed in steps]
    if beyond and len(loops) == 1:
        reach[0] = _between(reach[0].union(_reach(placement, reader, outer[0])), outer[0].index(loops[0]))
    elif beyond:
        return None
    return outer[0], reach


def _runs_longer(placement: Placement, start: Placed, arrival: Placed) -> bool:
    """Return whether copies of whole tiles that run until the end of their loop are started more often."""
    more, usual = (_reaches(placement, [start, arrival], arrival, beyond=beyond) for beyond in (True, False))
    if more is None or usual is None or more[1][0].is_subset(usual[1][0]):
        return False
    return start.name in _whole_copy(placement, [start, arrival], arrival, beyond=True)


def is_box(placement: Placement, placed: Placed) -> bool:
    """Return whether a statement copies a box."""
    return any(isinstance(placement.program.kernel.tag(x), Box) for x in placed.lowered.inames)


def _is_copy(placement: Placement, placed: Placed) -> bool:
    """Return whether a statement copies numbers to a temporary, and no condition on data decides whether it does.

    Where it converts them, too, nothing is different: a tile is filled with the zero of its own type.
    """
    lowered = placed.lowered
    return isinstance(lowered.rhs, p.Subscript) and len(lowered.reads) == 1 and _is_of_numbers(placement, placed)


def _is_conversion(placement: Placement, placed: Placed) -> bool:
    """Return whether a statement sets an element of a temporary to a function of others, which is always defined."""
    kernel, lowered = placement.program.kernel, placed.lowered
    if lowered.rhs is None or not _is_of_numbers(placement, placed):
        return False
    return _is_arithmetic(lowered.rhs) and not may_fail(kernel, lowered.rhs)


def _is_arithmetic(term: Expression) -> bool:
    """Return whether *term* is made of elements by sums, products, casts, and operations on bits."""
    match term:
        case p.Subscript() | p.Variable() | int() | float() | np.generic():
            return True
        case p.Sum() | p.Product() | p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor() | p.LeftShift() | p.RightShift():
            return all(map(_is_arithmetic, children(term)))
        case p.Remainder(value, int()) | p.FloorDiv(value, int()) | TypeCast(_, value):
            return _is_arithmetic(value)
        case _:
            return False


def _is_of_numbers(placement: Placement, placed: Placed) -> bool:
    """Return whether a statement sets a number in a temporary, reads others, and no data decides whether it does."""
    lowered = placed.lowered
    if not isinstance(lowered.part, Assign) or len(lowered.writes) != 1 or not lowered.reads:
        return False
    if not all(lowered.is_unconditional(a) and not a.fields for a in lowered.accesses):
        return False
    kernel = placement.program.kernel
    temporary = kernel.temporaries.get(lowered.write.array)
    if temporary is None or placement.spaces[temporary.name] is AddressSpace.GLOBAL:
        return False
    arrays: list[ArrayArg | TemporaryVariable] = [temporary]
    for source in dict.fromkeys([read.array for read in lowered.reads]):
        array = kernel.arrays().get(source)
        if array is None:  # what a reduction has collected is no array
            return False
        if placement.spaces[source] is AddressSpace.GLOBAL and not _is_set_before(placement, placed, source):
            return False
        arrays.append(array)
    is_plain = temporary.initializer is None and not temporary.is_shuffled
    if not is_plain or not all(array.dtype is not None and is_number(array.dtype) for array in arrays):
        return False
    return is_exact(placement, temporary.name)


def _is_set_before(placement: Placement, placed: Placed, array: str) -> bool:
    """Return whether nothing writes *array* but in nests of their own in front of a statement."""
    return all(
        common_loops(placement, writer, placed) == ((), True) for writer in writers_of(placement, array)
    )


def whole_products(
    placement: Placement, copies: Mapping[str, Placed], passing: Mapping[str, Placed]
) -> dict[str, Placed]:
    """Return the sums of products of elements that were copied, and their beginnings, for whole tiles, by name."""
    found: dict[str, Placed] = {}
    sources = _origins(copies, passing)
    for update in placement.statements.values():
        reads = _operands(update)
        if not _is_sum(update) or not reads or not all(read.array in sources for read in reads):
            continue
        starts = _beginnings(placement, update)
        if len(starts) != 1 or starts[0].lowered.rhs is not None or starts[0].lowered.bounds:
            continue  # which is refused elsewhere, if it is carried out by matrix instructions
        around = _loops_around(placement, [sources[read.array] for read in reads], update)
        wide = [
            _whole(placement, update, around),
            _whole(placement, starts[0], common_loops(placement, starts[0], update)[0]),
        ]
        if None not in wide:
            found.update((placed.name, placed) for placed in wide if placed is not None)
    return found


def _is_sum(update: Placed) -> bool:
    """Return whether a statement adds up products, nothing of which can differ from 0 where all elements read are 0."""
    lowered, part = update.lowered, update.lowered.part
    if not isinstance(part, Update) or part.fixed:
        return False
    reduction, operation = part.reduction, part.reduction.operation
    if operation.name != "sum" or operation.combine or operation.of_states:
        return False
    if reduction.along or reduction.partial_of is not None:
        return False
    if not all(lowered.is_unconditional(a) and not a.fields for a in lowered.accesses):
        return False
    return _is_zero(lowered.rhs)


def _is_zero(term: Expression) -> bool:
    """Return whether *term* is 0 if all elements in it are."""
    match term:
        case p.Subscript():
            return True
        case p.Product(children):
            return any(map(_is_zero, children)) and all(_is_zero(x) or _is_finite(x) for x in children)
        case p.Sum(children):
            return all(map(_is_zero, children))
        case TypeCast():
            return _is_zero(term.child)
        case _:
            return False


def _is_finite(term: Expression) -> bool:
    return isinstance(term, int | float | np.floating) and bool(np.isfinite(term))


def _at_zero(term: Expression) -> int | None:
    """Return the value of *term* if all elements in it are 0: an integer that every type has, or None."""
    match term:
        case p.Subscript():
            return 0
        case int() | np.integer():
            return int(term) if abs(int(term)) <= _SMALL else None
        case TypeCast():
            return _at_zero(term.child)
        case p.LeftShift(value, _) | p.RightShift(value, _):
            return 0 if _at_zero(value) == 0 else None
        case p.Sum() | p.BitwiseAnd() | p.BitwiseOr() | p.BitwiseXor():
            found = [_at_zero(x) for x in children(term)]
            known = [x for x in found if x is not None]
            if isinstance(term, p.BitwiseAnd) and 0 in known:
                return 0
            result = reduce(_OPERATIONS[type(term)], known) if len(known) == len(found) else _SMALL + 1
            return result if abs(result) <= _SMALL else None
        case _:
            return 0 if _is_zero(term) else None


_SMALL: Final = 127
_OPERATIONS: Final[Mapping[type, Callable[[int, int], int]]] = {
    p.Sum: operator.add, p.BitwiseAnd: operator.and_, p.BitwiseOr: operator.or_, p.BitwiseXor: operator.xor,
}  # fmt: skip


def _is_on_matrices(update: Placed) -> bool:
    return update.lowered.instruction.matrix is not None and isinstance(update.lowered.part, Update)


def _whole(placement: Placement, placed: Placed, loops: Sequence[str]) -> Placed | None:
    lowered, outer = placed.lowered, _outer(placement, placed, loops)
    wide = _filling(placement, lowered, outer, _reach(placement, placed, outer))
    return extended_to(placement, placed, wide, lowered.accesses)


def _is_start(placed: Placed) -> bool:
    return placed.lowered.instruction.step is CopyStep.START


def _operands(update: Placed) -> list[Access]:
    return [read for read in update.lowered.reads if read.leaf is not None]


def _beginnings(placement: Placement, update: Placed) -> list[Placed]:
    """Return the statements that set the sums of *update* to zero."""
    array = update.lowered.write.array
    return [s for s in writers_of(placement, array) if isinstance(s.lowered.part, Init)]


def _outer(placement: Placement, placed: Placed, loops: Sequence[str]) -> list[str]:
    """Return the inames of a statement that identify its tile: those of blocks, and loops."""
    kernel = placement.program.kernel
    return [x for x in placed.lowered.inames if x in loops or isinstance(kernel.tag(x), GroupAxis)]


def _reach(placement: Placement, placed: Placed, outer: Sequence[str]) -> isl.Set:
    """Return the tiles of which a statement has any instance, over *outer*."""
    domain = placed.lowered.domain.intersect_params(placement.program.kernel.assumptions)
    return project_onto(domain, placed.lowered.inames, outer)


def _between(domain: isl.Set, position: int) -> isl.Set:
    """Return *domain* with everything between two of its elements that differ in one dimension alone."""
    relation = isl.Map.universe(domain.get_space().map_from_set())
    for other in range(domain.dim(_SET)):
        if other != position:
            relation = relation.equate(_IN, other, _OUT, other)
    up = relation.order_le(_IN, position, _OUT, position)
    down = relation.order_ge(_IN, position, _OUT, position)
    return domain.apply(up).intersect(domain.apply(down)).coalesce()


def _filling(placement: Placement, lowered: Lowered, outer: Sequence[str], reach: isl.Set) -> isl.Set:
    """Return the iterations of a statement for whole tiles *reach*, without its other bounds."""
    domain, inames = lowered.domain.intersect_params(placement.program.kernel.assumptions), lowered.inames
    rows: list[Row] = []
    for position, iname in enumerate(inames):
        low, high = constant_bounds(domain, position) if iname not in outer else (None, None)
        rows += [] if low is None else [Row(Affine(((iname, 1),), -low))]
        rows += [] if high is None else [Row(Affine(((iname, -1),), high))]
    box = domain.drop_constraints_involving_dims(_PARAM, 0, domain.dim(_PARAM))
    for iname in outer:
        box = box.drop_constraints_involving_dims(_SET, inames.index(iname), 1)
    to_outer = map_from_forms(isl.Set.universe(domain.get_space()), inames, [Affine.variable(x) for x in outer])
    return add_rows(box, inames, rows).intersect(to_outer.intersect_range(reach).domain()).coalesce()


# }}}
# {{{ that nothing changes


@dataclass(frozen=True, eq=False)
class Whole:
    """The extended statements: copies from global memory, copies of copies, and sums of products."""

    copies: Mapping[str, Placed]
    passing: Mapping[str, Placed]
    products: Mapping[str, Placed]

    def changes_nothing(self, given: Placement, found: Placement) -> bool:
        """Return whether all reads of *given* see the same values in *found*, and extra terms of results are 0."""
        if not all(_is_confined(given, found, placed) for placed in self.products.values()):
            return False
        if not all(self._is_awaited(found, arrival, starts) for arrival, starts in copy_pairs(found)):
            return False
        arrays = {placed.lowered.write.array for placed in (*self.copies.values(), *self.passing.values())}
        for array in sorted(arrays):
            for reader, access in known_flow(found, array).reads:
                if not self._sees(given, found, reader, access, given.statements[reader.name].domain):
                    return False
        return all(
            self._is_zero(given, found, placed, access, _added(given, found, placed))
            for placed in self.products.values()
            for access in _operands(placed)
        )

    def _is_awaited(self, found: Placement, arrival: Placed, starts: Sequence[Placed]) -> bool:
        if arrival.name not in self.copies:
            return True
        (start,) = starts
        return not any(True for _ in copy_violations(found, arrival, starts)) and not _is_started_again(
            found, start, arrival
        )

    def _sees(self, given: Placement, found: Placement, reader: Placed, access: Access, instances: isl.Set) -> bool:
        """Return whether reads of *instances* see only values written by instances of the program."""
        writes, unwritten = definitions(found, reader, access, isl.Map.from_range(instances), lambda _: False)
        return unwritten.is_empty() and all(
            seen.is_empty() if _is_start(source) else seen.range().is_subset(given.statements[source.name].domain)
            for source, seen in writes
        )

    def _is_zero(self, given: Placement, found: Placement, reader: Placed, access: Access, instances: isl.Set) -> bool:
        """Return whether *instances* read zeros, through copies that pass them on."""
        places = isl.Map.from_range(instances)
        writes, unwritten = definitions(found, reader, access, places, self._passes_zeros)
        return unwritten.is_empty() and all(
            seen.is_empty() or self._is_fill(given, source, seen.range()) for source, seen in writes
        )

    def _passes_zeros(self, source: Placed) -> bool:
        """Return whether a statement sets zeros where it reads them."""
        rhs = source.lowered.rhs
        is_of_one = len(source.lowered.reads) == 1  # whose element is followed
        return source.name in self.passing and is_of_one and rhs is not None and _at_zero(rhs) == 0

    def _is_fill(self, given: Placement, source: Placed, instances: isl.Set) -> bool:
        """Return whether *instances* of a copy store zeros: they are none of the program's."""
        is_copy = source.name in self.copies and not _is_start(source)
        return is_copy and bool(instances.is_disjoint(given.statements[source.name].domain))


def _added(given: Placement, found: Placement, placed: Placed) -> isl.Set:
    """Return the phantoms of a sum that add to results of the program."""
    return _of_results(given, found, placed).subtract(given.statements[placed.name].domain)


def _of_results(given: Placement, found: Placement, placed: Placed) -> isl.Set:
    """Return the instances of a sum, or of its beginning, that belong to results of the program."""
    (start,) = _beginnings(given, given.statements[placed.name])
    forms = [Affine.variable(dim) for dim in start.dims]
    lifted = map_from_forms(found.statements[placed.name].domain, placed.dims, forms)
    return lifted.intersect_range(start.domain).domain()


def _is_confined(given: Placement, found: Placement, placed: Placed) -> bool:
    """Return whether instances added for other results write no element that the program accesses."""
    array, space = placed.lowered.write.array, given.spaces[placed.lowered.write.array]
    others = placed.domain.subtract(_of_results(given, found, placed))
    written = storage_map(found, placed, placed.lowered.write, space).intersect_domain(others).range()
    for other in given.statements.values():
        for access in other.lowered.accesses:
            if access.array == array:
                looking_at(other, access, placed)
                if not written.is_disjoint(storage_map(given, other, access, space).range()):
                    return False
    return True


def unawaited(found: Placement, start: Placed, arrival: Placed) -> isl.Set:
    """Return the starts of copies without a wait."""
    return start.domain.subtract(copy_link(found, start, arrival)[0].range())


def _is_started_again(found: Placement, start: Placed, arrival: Placed) -> bool:
    """Return whether an element to which a copy may still be under way, unawaited, is the target of another one."""
    left = unawaited(found, start, arrival)
    if left.is_empty():
        return False
    cells = storage_map(found, start, start.lowered.write, found.spaces[start.lowered.write.array])
    again = cells.intersect_domain(left).apply_range(cells.reverse())
    again = again.subtract(isl.Map.identity(again.get_space()))
    loops, _ = common_loops(found, arrival, start)
    if len(loops) != 1:
        return True
    position = start.dims.index(loops[0])
    return not again.order_le(_IN, position, _OUT, position).is_empty()


# }}}
