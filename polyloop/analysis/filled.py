"""Asynchronous copies of whole tiles, with zeros where there is nothing to copy.

At the edge of an array, and behind the last term of a sum, a tile has elements that no element of the array belongs to.
A copy that runs for them too, and stores zeros, is under no condition; and what reads the tile may run for all of it:
what comes of elements that lie beyond the results of the program is seen by nobody (:mod:`polyloop.analysis.edges`),
and a matrix instruction adds products of zeros to the others.

So copies have *phantoms*, and so have the sums that matrix instructions carry out.  That nothing else changes is looked
for in the program with all phantoms: what the program reads of a tile was copied by an arrival of the program, as
before; both factors of each product that is a phantom of a result of the program are zeros, stored by the phantom of an
arrival; and copies are started and waited for as :mod:`polyloop.analysis.copies` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.analysis.copies import copy_link, copy_pairs, copy_violations
from polyloop.analysis.dataflow import is_exact, known_flow, writers_of
from polyloop.analysis.lowering import Access, Lowered
from polyloop.analysis.placement import Placed, Placement, common_loops, place_statement, storage_map
from polyloop.expr.dtypes import is_number
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.tags import GroupAxis
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import Row, add_rows, constant_bounds, map_from_forms, project_onto

__all__ = ["extended_to", "is_filled", "is_inside", "unawaited", "whole_copies", "whole_products"]

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
    """Return whether all that *accesses* touch lies in their arrays, whose extents are constant."""
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
    """Return the starts and arrivals of asynchronous copies, for all elements of their tiles, by name.

    With *beyond*, copies are started until the end of the loop, though nobody waits for the last ones.
    """
    found: dict[str, Placed] = {}
    for arrival, starts in copy_pairs(placement):
        array = arrival.lowered.write.array
        if len(starts) == 1 and len(writers_of(placement, array)) == 2 and is_exact(placement, array):
            both = _whole_copy(placement, starts[0], arrival, beyond=beyond)
            found.update((placed.name, placed) for placed in both)
    return found


def _whole_copy(placement: Placement, start: Placed, arrival: Placed, *, beyond: bool) -> Sequence[Placed]:
    loops, _ = common_loops(placement, arrival, start)
    outer = [_outer(placement, placed, loops) for placed in (start, arrival)]
    if not all(_is_copy(placement, placed) for placed in (start, arrival)) or outer[0] != outer[1]:
        return ()
    reach = [_reach(placement, placed, outer[0]) for placed in (start, arrival)]
    if beyond:
        if len(loops) != 1:
            return ()
        reach[0] = _between(reach[0].union(reach[1]), outer[0].index(loops[0]))
    wide = [
        extended_to(placement, placed, _filling(placement, placed.lowered, outer[0], own), [placed.lowered.write])
        for placed, own in zip((start, arrival), reach, strict=True)
    ]
    return [placed for placed in wide if placed is not None] if None not in wide else ()


def _is_copy(placement: Placement, placed: Placed) -> bool:
    """Return whether a statement copies numbers, and no condition on data decides whether it does."""
    lowered = placed.lowered
    if lowered.role != "plain" or lowered.is_conditional or lowered.bounds or lowered.fixed or lowered.across:
        return False
    if len(lowered.writes) != 1 or len(lowered.reads) != 1 or not isinstance(lowered.rhs, p.Subscript):
        return False
    if not all(a.is_affine() and a.domain is None and not a.fields and not a.is_bound for a in lowered.accesses):
        return False
    if writers_of(placement, lowered.reads[0].array):
        return False
    temporary = placement.program.kernel.temporaries[lowered.write.array]
    has_own = temporary.base_storage is None and temporary.initializer is None
    return has_own and temporary.dtype is not None and is_number(temporary.dtype)


def whole_products(placement: Placement, copies: Mapping[str, Placed]) -> dict[str, Placed]:
    """Return the sums of matrix instructions on tiles of *copies*, and their beginnings, for whole tiles, by name."""
    found: dict[str, Placed] = {}
    arrivals = {placed.lowered.write.array: placed for placed in copies.values() if _is_arrival(placed)}
    for update in placement.statements.values():
        if update.lowered.instruction.matrix is None or update.lowered.role != "update":
            continue
        reads = _operands(update)
        if not all(read.array in arrivals for read in reads):
            continue
        if [s.lowered.role for s in _of_instruction(placement, update)].count("update") != 1:
            continue  # which is refused elsewhere
        start = _beginning(placement, update)
        around = [common_loops(placement, arrivals[read.array], update)[0] for read in reads]
        wide = [
            _whole(placement, update, [x for x in around[0] if all(x in loops for loops in around)]),
            _whole(placement, start, common_loops(placement, start, update)[0]),
        ]
        if None not in wide:
            found.update((placed.name, placed) for placed in wide if placed is not None)
    return found


def _whole(placement: Placement, placed: Placed, loops: Sequence[str]) -> Placed | None:
    lowered, outer = placed.lowered, _outer(placement, placed, loops)
    wide = _filling(placement, lowered, outer, _reach(placement, placed, outer))
    return extended_to(placement, placed, wide, lowered.accesses)


def _is_arrival(placed: Placed) -> bool:
    return placed.lowered.instruction.step is CopyStep.ARRIVAL


def _operands(update: Placed) -> list[Access]:
    return [read for read in update.lowered.reads if read.leaf is not None]


def _beginning(placement: Placement, update: Placed) -> Placed:
    """Return the statement that sets the sums of *update* to zero."""
    (start,) = (placed for placed in _of_instruction(placement, update) if placed.lowered.role == "init")
    return start


def _of_instruction(placement: Placement, update: Placed) -> list[Placed]:
    return [s for s in placement.statements.values() if s.lowered.instruction is update.lowered.instruction]


def _outer(placement: Placement, placed: Placed, loops: Sequence[str]) -> list[str]:
    """Return the inames of a statement that say which tile it is: those of blocks, and loops."""
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
    """Return all elements of the tiles *reach*, which *outer* number: what else bounds a statement is left out."""
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


def is_filled(given: Placement, found: Placement, copies: Mapping[str, Placed], products: Mapping[str, Placed]) -> bool:
    """Return whether, in *found*, all reads of *given* see what they saw, and what phantoms add to its results is 0."""
    if not all(_is_confined(given, found, placed) for placed in products.values()):
        return False
    for arrival, starts in copy_pairs(found):
        if arrival.name not in copies:
            continue
        (start,) = starts
        if any(True for _ in copy_violations(found, arrival, starts)) or _is_started_again(found, start, arrival):
            return False
        flow = known_flow(found, arrival.lowered.write.array)
        copied = given.statements[arrival.name].domain
        for reader, access in flow.reads:
            sources, initial = flow.of(reader, access)
            if not _sees(given.statements[reader.name].domain, sources, initial, arrival, copied):
                return False
            if reader.name in products:
                added = _added(given, found, reader)
                if not _sees(added, sources, initial, arrival, arrival.domain.subtract(copied)):
                    return False
    return True


def _sees(
    instances: isl.Set,
    sources: Sequence[tuple[Placed, isl.Map]],
    initial: isl.Set,
    arrival: Placed,
    wanted: isl.Set,
) -> bool:
    """Return whether *instances* of a read see what the instances *wanted* of *arrival* wrote, and nothing else."""
    if not initial.is_disjoint(instances):
        return False
    for source, link in sources:
        looking_at(source, arrival)
        seen = link.intersect_domain(instances).range()
        if not (seen.is_subset(wanted) if source is arrival else seen.is_empty()):
            return False
    return True


def _added(given: Placement, found: Placement, update: Placed) -> isl.Set:
    """Return the phantoms of a sum that add to results of the program."""
    return _of_results(given, found, update).subtract(given.statements[update.name].domain)


def _of_results(given: Placement, found: Placement, placed: Placed) -> isl.Set:
    """Return the instances of a sum, or of its beginning, that belong to results of the program."""
    start = _beginning(given, given.statements[placed.name])
    forms = [Affine.variable(dim) for dim in start.dims]
    lifted = map_from_forms(found.statements[placed.name].domain, placed.dims, forms)
    return lifted.intersect_range(start.domain).domain()


def _is_confined(given: Placement, found: Placement, placed: Placed) -> bool:
    """Return whether phantoms of other results than those of the program write no element that the program touches."""
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
    """Return the starts of copies that nobody waits for."""
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
