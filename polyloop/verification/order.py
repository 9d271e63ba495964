"""Order of a transformed kernel against its reference program.

Every read of the transformed program must see a copy of the write that the original read sees in the reference program.
The last write of every element of an argument must be the same.  A finding names two concrete instances.  The order is
that of the loop tree; ``polyloop.sync.races`` checks that threads preserve it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import islpy as isl

from polyloop.dataflow.conflicts import Conflict, conflict_pairs, conflicts, never_meet
from polyloop.dataflow.nosync import not_denied
from polyloop.dataflow.value_flow import hides_others, is_exact, known_may_flow, may_flow_of, readers_of, writes_of
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Carry, Copy, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement, reference_map
from polyloop.poly.budget import NoAnswer, looking_at
from polyloop.poly.relations import composed, is_injective, meetings, reverse, within
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import Access, Combine, Other
from polyloop.proof.obligation import Claim, Obligation, findings
from polyloop.proof.postponed import waits
from polyloop.proof.witness import element, instance, pair, point_set, witness
from polyloop.verification.correspondence import Comparison, comparison_of, copies, original_read, reference_flow
from polyloop.verification.distance_test import keeps_order
from polyloop.verification.lockstep import lockstep_obligations
from polyloop.verification.reduction_terms import term_order_obligations

__all__ = ["compare", "order_obligations", "order_violations"]


def _named_arrays(kernel: LoopKernel) -> list[str]:
    """Return the variables that the reference program writes, in the order of their first writes."""
    assert kernel.reference is not None
    written = dict.fromkeys(name for instruction in kernel.reference.kernel.instructions for name in instruction.writes)
    return list(written)


def order_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each variable that the loop order of *kernel* gives other values than the reference order.

    The variables are those of the user's program.  Temporaries that transforms made are proven by
    :func:`value_violations`.
    """
    if not waits(order_violations):
        yield from findings(kernel, order_obligations(comparison_of(kernel)))


def order_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations of the order of a transformed program."""
    yield from lockstep_obligations(comparison)
    for array in _named_arrays(comparison.kernel):
        says = f"each read of '{array}' sees the write that it sees in the program"
        if isinstance(comparison.kernel.arrays().get(array), ArrayArg):
            says += ", and each element ends with the same write"
        by, find = partial(_order_argument, comparison, array), partial(_order_findings, comparison, array)
        yield Obligation(Claim.ORDER, f"'{array}'", says, by, find)
    yield from term_order_obligations(comparison)


def _order_argument(comparison: Comparison, array: str) -> str:
    if array not in _ordered_arrays(comparison.old):
        return "no element is written twice, and nothing reads it"
    new = comparison.new
    if _is_kept(comparison, array):
        return "distances between accesses to one element, none of which leads backwards"
    if is_exact(comparison.old, array) and is_exact(new, array):
        return "value-based dataflow, against the program's"
    return "all pairs that may meet keep their order"


def _order_findings(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    for finding in _array_violations(comparison, array):
        yield replace(finding, notes=(*finding.notes, *_about_c(comparison.kernel, array)))


def _about_c(kernel: LoopKernel, array: str) -> Iterator[str]:
    """Yield a note if C text writes the temporary *array*: the analysis assumes that it may leave elements unset."""
    for instruction in kernel.instructions:
        if instruction.may_keep and array in instruction.writes and array in kernel.temporaries:
            yield (
                f"the C text of '{instruction.id}' may leave '{array}' as it was: if each instance has its own value, "
                "assign one in an instruction before"
            )
            return


def _array_violations(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each read of *array* with another source than its original.

    Arguments also get one for elements with another final value.
    """
    old = comparison.old
    if array not in _ordered_arrays(old):
        return
    new = comparison.new
    is_argument = isinstance(new.program.kernel.arrays().get(array), ArrayArg)
    if _is_kept(comparison, array):
        return
    if not is_exact(old, array) or not is_exact(new, array):
        yield from (_may_violations if is_argument else _may_flow_violations)(comparison, array)
        return
    known = reference_flow(old, array)
    found = comparison.flow(array)
    for (reader, access), sources, initial in zip(found.reads, found.sources, found.initial, strict=True):
        if not isinstance(reader.lowered.instruction.origin, Copy | Partial):
            continue
        if not _is_compared(reader, access):
            continue
        reference, original = original_read(comparison, reader, access)
        wanted, wanted_initial = known.of(reference, original)
        to_reference = _to_reference(reader, reference)
        original_flow = (reference, wanted, wanted_initial)
        yield from compare(comparison, (reader, access), sources, initial, original_flow, to_reference)
    if is_argument:
        yield from _final_violations(comparison, array)


def _is_compared(reader: Placed, access: Access) -> bool:
    """Return True if a read has an original in the reference program: an operand, or the read of a bound variable.

    A combine statement reads the bounds of its init statement, for which they are compared.
    """
    return access.leaf is not None or (access.kind is Other.BOUND and not isinstance(reader.lowered.part, Combine))


def _to_reference(reader: Placed, reference: Placed) -> isl.Map:
    """Return ``{ instance of reader -> reference instance }``; threads that only help to combine have none."""
    relation = reference_map(reader, reference)
    return _into(relation, reference.domain) if reader.lowered.across else relation


@memoised
def _into(relation: isl.Map, domain: isl.Set) -> isl.Map:
    return relation.intersect_range(domain)


def _is_kept(comparison: Comparison, array: str) -> bool:
    """Return True if the distance test proves that all accesses to *array* keep their order.

    The test is skipped where the reference dataflow is direct: comparing dataflow is quicker then.
    """
    old = comparison.old
    if is_exact(old, array) and reference_flow(old, array).is_direct:
        return False
    return keeps_order(comparison.new, old, array)


@memoised
def _ordered_arrays(placement: Placement) -> frozenset[str]:
    """Return the written arrays of a reference program for which the order of accesses can matter."""
    written = {write.array for statement in placement.statements.values() for write in statement.lowered.writes}
    return frozenset(array for array in written if _needs_order(placement, array))


def _needs_order(placement: Placement, array: str) -> bool:
    """Return True if the order of accesses can matter: there is a read, or an element may be written twice."""
    writes = writes_of(placement, array)
    if readers_of(placement, array):
        return True
    if any(not never_meet(a, b) for number, (_, a) in enumerate(writes) for _, b in writes[:number]):
        return True
    return any(not hides_others(writer, array) or _overwrites(writer, write) for writer, write in writes)


def compare(
    comparison: Comparison,
    read: tuple[Placed, Access],
    sources: Sequence[tuple[Placed, isl.Map]],
    initial: isl.Set,
    reference: tuple[Placed, Sequence[tuple[Placed, isl.Map]], isl.Set],
    to_reference: isl.Map,
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if instances of *read* see another write than the original read, or none where it sees one.

    Parameters
    ----------
    sources, initial
        Writes that the read sees, and the instances that see none.
    reference
        The original statement, with the same of its read.
    to_reference
        ``{ instance of the reader -> instance of the original }``.
    """
    original, wanted, wanted_initial = reference
    looking_at(*read, original)
    wrong_initial = _outside(within(to_reference, initial), wanted_initial)
    if not wrong_initial.is_empty():
        yield _unwritten(read, wrong_initial, wanted, original)
        return
    for writer, relation in sources:
        if isinstance(writer.lowered.instruction.origin, Carry):  # exact dataflow leads to what is saved
            raise NoAnswer("cannot tell which write a read sees where data decides,", (read[1].array, read[0]))
        counterpart = comparison.counterpart(writer)
        looking_at(*read, writer, writer.lowered.writes_to(read[1].array)[0])
        allowed = next((link for source, link in wanted if source is counterpart), None)
        bad = _elsewhere(relation, to_reference, reference_map(writer, counterpart), allowed)
        if bad is not None:
            yield _wrong_source(comparison, read, writer, bad, original, wanted, to_reference)
            return


@memoised
def _outside(relation: isl.Map, wanted: isl.Set) -> isl.Map:
    """Return the pairs of *relation* that do not lead to *wanted*."""
    return relation.intersect_range(isl.Set.universe(wanted.get_space()).subtract(wanted))


@memoised
def _elsewhere(relation: isl.Map, to_reference: isl.Map, meaning: isl.Map, allowed: isl.Map | None) -> isl.Map | None:
    """Return the pairs of the flow *relation* whose write copies no write of *allowed*, None if there are none.

    *to_reference* maps reads, and *meaning* maps writes, to their reference instances.  The result is memoised because
    many reads share all four relations.
    """
    used = relation.intersect_domain(to_reference.domain())  # reads of dead terms have no original: they are free
    got = used.apply_range(meaning)
    wrong = got if allowed is None else got.subtract(to_reference.apply_range(allowed))
    return None if wrong.is_empty() else used.intersect(wrong.apply_range(meaning.reverse()))


def _unwritten(
    read: tuple[Placed, Access], wrong: isl.Map, wanted: Sequence[tuple[Placed, isl.Map]], original: Placed
) -> Diagnostic:
    """Return the diagnostic for a read that sees no write, although its original does.

    Parameters
    ----------
    wrong
        ``{ instance of the read -> original instance }`` of such reads.
    wanted
        Writes that the original sees: ``{ original instance -> write }`` of each statement.
    """
    reader, access = read
    is_copied = access not in reader.lowered.accesses
    at, _ = pair(wrong, reader, original)
    note = f"instance {instance(reader, at)} would read {element(reader, access, at)} before it is written"
    sites = [reader.lowered.instruction.site()]
    shown = witness(WitnessKind.UNWRITTEN, (reader, access, at), (reader, at))
    chains = ((writer, wrong.apply_range(link)) for writer, link in wanted)
    writer, chain = next(((writer, chain) for writer, chain in chains if not chain.is_empty()), (reader, None))
    if chain is not None:
        at, source = pair(chain, reader, writer)
        cell = element(writer, writer.lowered.writes_to(access.array)[0], source)
        if not is_copied and "?" in cell:
            cell = element(reader, access, at)
        how = "through a copy that would be made before" if is_copied else "and would run first"
        note = f"instance {instance(writer, source)} writes {cell}; instance {instance(reader, at)} reads it {how}"
        written = (writer, writer.lowered.writes_to(access.array)[0], source)
        shown = witness(WitnessKind.EARLY, written, (writer, source), (reader, at))
        if writer.lowered.instruction.id != reader.lowered.instruction.id:
            sites.insert(0, writer.lowered.instruction.site())
    message = f"'{access.array}' would be {'copied' if is_copied else 'read'} before it is written"
    hint = "keep the loops of the write around or before those of the read"
    if is_copied:
        hint = "let the copy be made later, inside the loops around both: name them as outer inames"
    return Diagnostic("illegal-order", message, (note,), (hint,), sites=tuple(sites), witness=shown)


def _wrong_source(
    comparison: Comparison,
    read: tuple[Placed, Access],
    writer: Placed,
    bad: isl.Map,
    original: Placed,
    wanted: Sequence[tuple[Placed, isl.Map]],
    to_reference: isl.Map,
) -> Diagnostic:
    """Return the diagnostic for a read that sees another write than its original.

    Parameters
    ----------
    bad
        ``{ instance of the read -> instance of writer }`` of such reads.
    wanted
        Writes that the original sees: ``{ original instance -> write }`` of each statement.
    to_reference
        ``{ instance of the read -> original instance }``.
    """
    reader, access = read
    at, source = pair(bad, reader, writer)
    cell = element(reader, access, at)
    written, expected = f"instance {instance(writer, source)}", "its value before the kernel"
    point = bad.intersect_domain(bad.domain().intersect(point_set(bad.domain(), reader.dims, at)))
    for other, link in wanted:
        chain = to_reference.intersect_domain(point.domain()).apply_range(link)
        if not chain.is_empty():
            _, right = pair(chain, reader, other)
            meant = f"instance {instance(other, right)}"
            if meant == written:  # of two instructions
                written, meant = f"{written} of {_name(writer)}", f"{meant} of {_name(other)}"
            expected = f"the value of {meant}"
    note = f"instance {instance(reader, at)} would read {cell} as written by {written}"
    sites = [reader.lowered.instruction.site()]
    if writer.lowered.instruction.id != reader.lowered.instruction.id:
        sites.insert(0, writer.lowered.instruction.site())
    return Diagnostic(
        "illegal-order",
        f"'{access.array}' would be overwritten before it is read",
        (note, f"it should read {expected}"),
        ("keep the order of the loops, or let a temporary hold the earlier value",),
        sites=tuple(sites),
        witness=witness(WitnessKind.OVERWRITTEN, (reader, access, at), (writer, source), (reader, at)),
    )


def _name(placed: Placed) -> str:
    return f"'{placed.lowered.instruction.id}'"


def _final_violations(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each two statements that write an element of an argument in another order than before.

    If all writes of an element keep their order, the last one is the same.
    """
    new, old = comparison.new, comparison.old
    writes = writes_of(new, array)
    if len(writes) == 1 and not _overwrites(*writes[0]):
        return
    seen: set[tuple[str, str]] = set()
    for first, a in writes_of(old, array):
        for second, b in writes_of(old, array):
            if never_meet(a, b) or (first is second and first.lowered.stores_one_value):
                continue
            pairs = conflict_pairs(old, first, a, second, b)
            for conflict in conflicts(old, first, second, pairs):
                key = (first.name, second.name)
                if key in seen:
                    continue
                violation = _reordered(comparison, array, conflict, a, b)
                if violation is not None:
                    seen.add(key)
                    yield violation


def _overwrites(writer: Placed, write: Access) -> bool:
    return not is_injective(map_from_forms(writer.domain, writer.dims, writer.indices(write)))


def _may_flow_violations(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield diagnostics for reads of a temporary that may see other values, where its accesses depend on data.

    A read sees the last of the writes that may reach it.  So these must be the same as in the reference program, and
    in the same order, unless they commute.
    """
    new, old = comparison.new, comparison.old
    known, found = known_may_flow(old, array), may_flow_of(new, array)
    for (reader, access), sources, initial in zip(found.reads, found.sources, found.initial, strict=True):
        if not isinstance(reader.lowered.instruction.origin, Copy):
            continue
        is_update = reader.lowered.is_write(access)
        if is_update:
            reference = comparison.counterpart(reader)
            original = reference.lowered.write
        elif not _is_compared(reader, access):
            continue
        else:
            reference, original = original_read(comparison, reader, access)
        wanted, wanted_initial = known.of(reference, original)
        candidates = sources
        if is_update:
            candidates = tuple(entry for entry in sources if not entry[0].lowered.commutes_with(reader.lowered))
            wanted = tuple(entry for entry in wanted if not entry[0].lowered.commutes_with(reference.lowered))
        to_reference = _to_reference(reader, reference)
        read = (reader, access)
        yield from compare(comparison, read, candidates, initial, (reference, wanted, wanted_initial), to_reference)
        yield from _missed(comparison, read, candidates, wanted, to_reference)
        yield from _out_of_order(comparison, array, candidates)


def _missed(
    comparison: Comparison,
    read: tuple[Placed, Access],
    sources: Sequence[tuple[Placed, isl.Map]],
    wanted: Sequence[tuple[Placed, isl.Map]],
    to_reference: isl.Map,
) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a write that may reach the read in the reference program cannot reach it here."""
    reader, access = read
    for writer, link in wanted:
        lost = to_reference.apply_range(link)
        for source, relation in sources:
            if comparison.stands_for(source, writer):
                lost = lost.subtract(relation.apply_range(reference_map(source, writer)))
        if not lost.is_empty():
            at, before = pair(lost, reader, writer)
            cell = element(reader, access, at)
            note = f"instance {instance(reader, at)} reads {cell}, which instance {instance(writer, before)} may write"
            yield Diagnostic(
                "illegal-order",
                f"'{access.array}' would be read before it is written, or after it is overwritten",
                (note,),
                ("keep the order of the loops around these accesses",),
                sites=(writer.lowered.instruction.site(), reader.lowered.instruction.site()),
                witness=witness(WitnessKind.EARLY, (reader, access, at), (writer, before), (reader, at)),
            )
            return


def _out_of_order(
    comparison: Comparison, array: str, sources: Sequence[tuple[Placed, isl.Map]]
) -> Iterator[Diagnostic]:
    """Yield a diagnostic for the first two writes that may reach one read and that run in the other order."""
    old = comparison.old
    for first, one in sources:
        for second, other in sources:
            if first.lowered.commutes_with(second.lowered):
                continue
            before, after = comparison.counterpart(first), comparison.counterpart(second)
            together = one.reverse().apply_range(other)
            for a, b in product(before.lowered.writes_to(array), after.lowered.writes_to(array)):
                for conflict in conflicts(old, before, after, conflict_pairs(old, before, a, after, b)):
                    violation = _reordered(comparison, array, conflict, a, b, together)
                    if violation is not None:
                        yield violation
                        return


def _may_violations(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for the first reversed conflict: accesses that are not exact must all keep their order."""
    old = comparison.old
    accesses: list[tuple[Placed, Access, bool]] = [
        (statement, access, True) for statement, access in writes_of(old, array)
    ]
    accesses += [(statement, access, False) for statement, access in readers_of(old, array)]
    for first, a, first_writes in accesses:
        for second, b, second_writes in accesses:
            if not (first_writes or second_writes):
                continue
            if first_writes and second_writes and first.lowered.commutes_with(second.lowered):
                continue
            if never_meet(a, b):
                continue
            pairs = conflict_pairs(old, first, a, second, b)
            for conflict in conflicts(old, first, second, pairs):
                violation = _reordered(comparison, array, conflict, a, b)
                if violation is not None:
                    yield violation
                    return
    yield from _repeated(comparison, array)


def _repeated(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for a statement that may read its own writes and runs twice for one reference instance."""
    for reference in dict.fromkeys(statement for statement, _ in writes_of(comparison.old, array)):
        lowered = reference.lowered
        if lowered.atomic is None and all(read.array != array for read in lowered.reads):
            continue
        statements = list(copies(comparison, reference))
        for first, second in product(statements, statements):
            pairs = meetings(reference_map(first, reference), reference_map(second, reference))
            for conflict in conflicts(comparison.new, first, second, pairs):
                left, _ = pair(conflict.relation, first, second)
                yield Diagnostic(
                    "illegal-order",
                    f"an instance that updates '{array}' would run more than once",
                    (f"instance {instance(first, left)} would run twice, and may read what it wrote itself",),
                    ("let the loops around the instruction be those that it has in the program",),
                    sites=(first.lowered.instruction.site(),),
                )
                return


def _reordered(
    comparison: Comparison, array: str, conflict: Conflict, a: Access, b: Access, among: isl.Map | None = None
) -> Diagnostic | None:
    """Return a diagnostic if the transformed program runs some pair of *conflict* in the other order, else None.

    *among* restricts the pairs: it leads from the copy of the first side to the copy of the second.
    """
    new = comparison.new
    for first in copies(comparison, conflict.first):
        for second in copies(comparison, conflict.second):
            back = reference_map(first, conflict.first)
            there = reference_map(second, conflict.second)
            candidates = meetings(composed(back, conflict.relation), there)
            pairs = not_denied(new, first, a, second, b, candidates)
            if among is not None:
                pairs = pairs.intersect(among)
            if pairs.is_empty():
                continue
            reversed_pairs = reverse(pairs)
            for backward in conflicts(new, second, first, reversed_pairs):
                right, left = pair(backward.relation, second, first)
                together = backward.simultaneous
                what = "run at the same time" if together else "run in the other order"
                sites = [first.lowered.instruction.site()]
                if second.lowered.instruction.id != first.lowered.instruction.id:
                    sites.append(second.lowered.instruction.site())
                touched = (conflict.first, a, _reference_values(comparison, first, left))
                cell = element(*touched)
                return Diagnostic(
                    "illegal-order",
                    f"two accesses to '{array}' would {what}",
                    (
                        f"instance {instance(first, left)} comes before instance {instance(second, right)} in the "
                        f"program, and both may touch {cell}",
                    ),
                    ("keep the loops around these accesses sequential, in the order of the program",),
                    sites=tuple(sites),
                    witness=witness(WitnessKind.REORDERED, touched, (first, left), (second, right)),
                )
    return None


def _reference_values(comparison: Comparison, statement: Placed, values: Mapping[str, int]) -> Mapping[str, int]:
    from_forms = {**values}
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy)
    for iname, form in origin.forms.items():
        placed = form.substitute(statement.forms)
        if placed.names() <= from_forms.keys():
            from_forms[iname] = placed.evaluate(values)
    return from_forms


