"""Dependences between blocks of one launch, which neither a launch boundary nor a barrier orders.

The prover reports two blocks that use one element in the same launch as a race.  A user may deny races
(``pl.unchecked``), but that denies only an order that the program leaves open.  Accesses that the program itself
orders, such as those of different iterations of a time loop around the blocks, still have to wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import islpy as isl

from polyloop.dataflow.conflicts import Conflict, conflict_pairs, conflicts, crossing, never_meet
from polyloop.dataflow.nosync import is_known
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy
from polyloop.mapping.thread_mapping import Placed, Placement, reference_map
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation, findings, is_waived
from polyloop.proof.witness import element, instance, pair
from polyloop.sync.host_loops import is_ordered_by_launches
from polyloop.sync.races import accesses_to, shared_arrays
from polyloop.verification.correspondence import Comparison, comparison_of

__all__ = ["block_obligations", "block_violations"]


def block_violations(placement: Placement) -> Iterator[Diagnostic]:
    """Yield dependences between blocks inside of a launch, on arrays whose races are waived."""
    yield from findings(placement.program.kernel, block_obligations(placement))


def block_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield, for each array with waived races, the obligation that a launch ends between dependent blocks."""
    kernel = placement.program.kernel
    if not kernel.waivers or kernel.reference is None or not placement.axes.group:
        return
    for array in shared_arrays(placement):
        if placement.spaces[array] is AddressSpace.GLOBAL and is_waived(kernel, Claim.RACES, f"'{array}'"):
            says = f"where the program orders accesses to '{array}' on different blocks, a launch ends in between"
            by = "pairs of accesses to one element on different blocks, in the order of the program"
            yield Obligation(Claim.BARRIERS, f"'{array}' on blocks", says, by, partial(_waits, placement, array))


def _waits(placement: Placement, array: str) -> Iterator[Diagnostic]:
    comparison = comparison_of(placement.program.kernel)
    for first, a, first_writes in accesses_to(placement, array):
        for second, b, second_writes in accesses_to(placement, array):
            if not (first_writes or second_writes) or never_meet(a, b):
                continue
            if first.lowered.commutes_with(second.lowered) or not is_known(first, a, second, b):
                continue
            for conflict in conflicts(placement, first, second, conflict_pairs(placement, first, a, second, b)):
                if conflict.simultaneous or is_ordered_by_launches(placement, first, second, conflict.loop):
                    continue
                wanted = _as_in_the_program(comparison, conflict)
                across = crossing(wanted, first, second, tuple(placement.axes.group))
                if across is not None:
                    yield _wait(conflict, array, a, b, across)
                    return


def _as_in_the_program(comparison: Comparison, conflict: Conflict) -> isl.Map:
    """Return the pairs of *conflict* that sequential loops of the reference program order.

    All pairs are returned of a statement that has none in that program.
    """
    first, second = conflict.first, conflict.second
    if not all(isinstance(s.lowered.instruction.origin, Copy) and not comparison.combines(s) for s in (first, second)):
        return conflict.relation
    left, right = comparison.counterpart(first), comparison.counterpart(second)
    placement = comparison.new
    over_blocks = {
        name
        for statement in (first, second)
        for name in _inames(statement)
        if not _axes_of(statement, name).isdisjoint(placement.axes.group)
    }
    ordered = _ordered(comparison.old, left, right, frozenset(over_blocks))
    back = reference_map(first, left).apply_range(ordered).apply_range(reference_map(second, right).reverse())
    return conflict.relation.intersect(back)


def _inames(statement: Placed) -> tuple[str, ...]:
    """Return the inames of the reference instruction."""
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy), "a copy has a reference instance"
    return tuple(origin.forms)


def _axes_of(statement: Placed, iname: str) -> frozenset[str]:
    """Return the axes and loops that make up an iname of the reference program."""
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy), "a copy has a reference instance"
    return frozenset(origin.forms[iname].substitute(statement.forms).names())


def _ordered(old: Placement, first: Placed, second: Placed, without: frozenset[str]) -> isl.Map:
    """Return the instances of two statements of the reference program of which the first runs first.

    What the loops *without* carry is left out.
    """
    every = isl.Map.from_domain_and_range(first.domain, second.domain)
    found = isl.Map.empty(every.get_space())
    for conflict in conflicts(old, first, second, every):
        if not conflict.simultaneous and conflict.loop not in without:
            found = found.union(conflict.relation)
    return found


def _wait(conflict: Conflict, array: str, a: Access, b: Access, across: isl.Map) -> Diagnostic:
    first, second = conflict.first, conflict.second
    left, right = pair(across, first, second)
    verbs = ["writes" if s.lowered.is_write(access) else "reads" for s, access in ((first, a), (second, b))]
    where = f"in the loop '{conflict.loop}'" if conflict.loop else "between two instructions of one loop"
    again = f"call the kernel once for each value of '{conflict.loop}'" if conflict.loop else "divide the loop"
    return Diagnostic(
        "blocks-wait",
        f"blocks would have to wait for each other {where}, and cannot",
        (
            f"instance {instance(first, left)} {verbs[0]} {element(first, a, left)}; "
            f"instance {instance(second, right)} {verbs[1]} it later, on another block",
            f"'pl.unchecked' denies races on '{array}', not that the program has an order",
        ),
        (f"{again}, or let one block do it all: tag inames 'l.N' only",),
        sites=tuple(dict.fromkeys((first.lowered.instruction.site(), second.lowered.instruction.site()))),
    )
