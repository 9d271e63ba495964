"""Coverage of instances, and values of temporaries that transforms made.

Every instance of the reference program must run, terms of reductions exactly once.  A read through a temporary must see
the value that the original read sees: nothing uninitialised, no other element, no other write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, product

import islpy as isl

from polyloop.dataflow.value_flow import is_exact, writers_of
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.kernel.instruction import Copy, CopyStep, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, free_inames, reference_map
from polyloop.memo import Same
from polyloop.poly.budget import looking_at
from polyloop.poly.radix import separates
from polyloop.poly.relations import image_of, is_injective, left_of
from polyloop.poly.sets import IN, map_from_forms
from polyloop.program.ir import Access, Init, Update
from polyloop.proof.obligation import Claim, Obligation, findings
from polyloop.proof.postponed import waits
from polyloop.proof.witness import element, instance, pair, point_set, sizes, witness
from polyloop.verification.accumulators import outermost
from polyloop.verification.buffers import buffer_obligations
from polyloop.verification.correspondence import Comparison, comparison_of, copies, reference_flow
from polyloop.verification.failing import failure_obligations
from polyloop.verification.order import compare
from polyloop.verification.origins import Use
from polyloop.verification.provenance import Element, Entry, Number, Terms, texts
from polyloop.verification.reduction_terms import (
    ahead_violations,
    reduction_obligations,
    reduction_of,
    reductions_in_parts,
    unknown_terms,
)

__all__ = ["value_obligations", "value_violations"]


def value_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield diagnostics for instances that are lost, and for values in temporaries that are not the program's."""
    if not waits(value_violations):
        yield from findings(kernel, value_obligations(comparison_of(kernel)))


def value_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations of coverage, and of values that pass through temporaries, accumulators and buffers."""
    statements: dict[str, list[Placed]] = {}
    for reference in comparison.old.statements.values():
        statements.setdefault(reference.lowered.instruction.id, []).append(reference)
    for name, references in statements.items():
        says = f"each instance of '{name}' runs"
        if any(isinstance(statement.lowered.part, Update) for statement in references):
            says += ", each term of its reductions exactly once"
        by = "instances that run, mapped to the program's"
        yield Obligation(Claim.COVERAGE, f"'{name}'", says, by, partial(_coverage, comparison, references))
    for name in _staged(comparison):
        says = f"each read of '{name}' sees the element, and the write, of the read that it stands for"
        by = "dataflow through the temporary, against the program's reads"
        yield Obligation(Claim.VALUES, f"'{name}'", says, by, partial(_evaluations, comparison, name))
    yield from reduction_obligations(comparison)
    yield from buffer_obligations(comparison)
    yield from failure_obligations(comparison)


def _coverage(comparison: Comparison, references: Sequence[Placed]) -> Iterator[Diagnostic]:
    """Yield diagnostics for reference instances that are not executed, and terms that are executed twice."""
    moved = _moved_reductions(comparison)
    in_parts = reductions_in_parts(comparison)
    for reference in references:
        if reference.lowered.number is not None and reduction_of(reference) in in_parts:
            continue
        instances = list(copies(comparison, reference))
        if not instances and (ahead := [x for write in reference.lowered.writes for x in moved.get(write.array, ())]):
            yield from _uncovered_ahead(comparison, reference, ahead)
            continue
        looking_at(reference)
        runs = tuple(outermost(comparison, s) if isinstance(s.lowered.part, Init) else s for s in instances)
        yield from _uncovered(reference, runs)


def _uncovered(reference: Placed, runs: Sequence[Placed]) -> Iterator[Diagnostic]:
    """Yield diagnostics unless *runs* execute each instance of *reference*: terms, atomic updates and C text once."""
    covered = []
    for statement in runs:
        relation = reference_map(statement, reference, exact=True)
        if statement.repeated:
            positions = [n for n, dim in enumerate(statement.dims) if dim in statement.repeated]
            relation = _drop_repeated(relation, tuple(positions))
        is_c = statement.lowered.instruction.is_c
        once = isinstance(statement.lowered.part, Update) or statement.lowered.atomic is not None or is_c
        if once and not _is_once(statement, reference) and not is_injective(relation):
            what = "an atomic update" if statement.lowered.atomic else "a term of the reduction"
            what = "an instance of the C text" if is_c else what
            yield Diagnostic(
                "term-twice",
                f"{what} in '{reference.lowered.instruction.id}' would be counted twice",
                sites=(statement.lowered.instruction.site(),),
            )
        covered.append(Same(image_of(relation)))
    missing = left_of(reference.exact, tuple(covered))
    if missing is not None:
        yield from _lost(reference, missing)


def _uncovered_ahead(comparison: Comparison, reference: Placed, ahead: Sequence[Terms]) -> Iterator[Diagnostic]:
    """Yield a diagnostic if partial results that are computed *ahead* lack instances of *reference*, an update.

    Whole results that are computed ahead are proven use by use (:func:`ahead_violations`).
    """
    if isinstance(reference.lowered.part, Update) and all(comparison.combines(terms.use.reader) for terms in ahead):
        missing = reference.exact
        for terms in ahead:
            missing = missing if terms.use.left is None else missing.subtract(terms.use.left.range())
        yield from _lost(reference, missing)


def _lost(reference: Placed, missing: isl.Set) -> Iterator[Diagnostic]:
    """Yield ``instance-lost`` if instances of *reference* are *missing*."""
    if not missing.is_empty():
        at, _ = pair(missing.identity(), reference, reference)
        yield Diagnostic(
            "instance-lost",
            f"instances of '{reference.lowered.instruction.id}' would not be executed",
            (f"one of them is {instance(reference, at)}{sizes(reference, at)}",),
            sites=(reference.lowered.instruction.site(),),
            witness=witness(WitnessKind.LOST, (reference, reference.lowered.writes[0], at), (reference, at)),
        )


def _is_once(statement: Placed, reference: Placed) -> bool:
    """Return True if the affine forms prove that distinct instances of a copy are distinct reference instances."""
    origin = statement.lowered.instruction.origin
    if not isinstance(origin, Copy) or free_inames(statement, reference):
        return False
    forms = [origin.forms[iname].substitute(statement.forms) for iname in reference.lowered.inames]
    return separates(forms, (x for x in statement.dims if x not in statement.repeated), statement.extent)


def _is_of_parts(comparison: Comparison, array: str) -> bool:
    """Return True if a temporary holds partial sums, directly or copied, which :mod:`.reduction_terms` follows."""
    filler = comparison.kernel.evaluations.get(array)
    if filler is None:
        return array in comparison.kernel.partials
    return any(_is_of_parts(comparison, inner.array) for _, inner in comparison.new.program.leaves(filler))


@memoised
def _staged(comparison: Comparison) -> dict[str, list[tuple[Placed, Access]]]:
    """Return the reads by copies of each temporary that a transform made to compute values ahead."""
    found: dict[str, list[tuple[Placed, Access]]] = {}
    if not comparison.kernel.evaluations:
        return found
    for instruction in comparison.kernel.instructions:
        if isinstance(instruction.origin, Copy | Partial):
            for lowered, access in comparison.new.program.leaves(instruction.id):
                if access.array in comparison.kernel.evaluations and not _is_of_parts(comparison, access.array):
                    found.setdefault(access.array, []).append((comparison.new.statements[lowered.name], access))
    return found


def _moved_reductions(comparison: Comparison) -> dict[str, list[Terms]]:
    """Return the reductions that are computed ahead, by the accumulators that they have in the reference program."""
    found: dict[str, list[Terms]] = {}
    for _, text in texts(comparison) if _staged(comparison) else ():
        for operand in text.operands:
            if isinstance(operand, Terms):
                found.setdefault(operand.use.old.lowered.write.array, []).append(operand)
    return found


@memoised
def _drop_repeated(relation: isl.Map, positions: tuple[int, ...]) -> isl.Map:
    for position in reversed(positions):
        relation = relation.project_out(IN, position, 1)
    return relation


def _evaluations(comparison: Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield diagnostics for reads through a transform-made temporary that see another element, or another write."""
    reads = _staged(comparison)[array]
    instructions = {statement.lowered.instruction for statement, _ in reads}
    within = [text for statement, text in texts(comparison) if statement.lowered.instruction in instructions]
    if different := next((text.difference for text in within if text.difference is not None), None):
        yield different
        return
    entered = [operand for text in within for operand in text.operands if isinstance(operand, Entry)]
    seen = {(entry.use.new, access.indices) for entry in entered for access in entry.found if access.array == array}
    if lost := next((statement for statement, access in reads if (statement, access.indices) not in seen), None):
        yield _not_proven(f"a read of '{array}' stands for none of the program's", lost)
        return
    operands = [x for text in within for x in text.operands if x.use.through == array]
    ways = [x for x in entered if (x.use.through or x.found[0].array) == array]
    numbers = (finding for x in operands if isinstance(x, Number) for finding in _same_number(x))
    begins = (finding for x in ways for finding in _is_there(comparison, x))
    if first := next(chain(numbers, begins), None):
        yield first
        return
    for operand in operands:
        if isinstance(operand, Terms):
            yield from ahead_violations(comparison, operand.use, operand.result)
        elif isinstance(operand, Element):
            for wanted, found in product(operand.wanted, operand.found):
                yield from _same_value(comparison, operand.use, wanted, found)


def _same_number(number: Number) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a value is computed ahead for other values of inames than its use has."""
    use = number.use
    looking_at(use.new, use.old)
    wrong = number.differing()
    if wrong is None:
        yield unknown_terms(use)
    elif not wrong.is_empty():
        at, other = use.example_pair(wrong, [number.form.substitute(use.new.forms)])
        user, source = use.reader.lowered.instruction, use.new.lowered.instruction
        on = " and ".join(f"'{name}'" for name in sorted(number.form.names())) or "no iname"
        yield Diagnostic(
            "copy-wrong-element",
            f"'{user.id}' would use a value that '{source.id}' computes for another iteration: it depends on {on}",
            (f"instance {instance(use.reader, at)} would have what instance {instance(use.new, other)} computes",),
            ("compute the values ahead inside of all loops that they depend on, or sweep these loops",),
            sites=(user.site(),),
        )


def _is_there(comparison: Comparison, entry: Entry) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a temporary is read before it is set, or during an asynchronous copy into it."""
    statement = entry.use.new
    for access in entry.found:
        looking_at(statement, access)
        sources, initial = comparison.flow(access.array).of(statement, access)
        if not initial.is_empty():
            yield _uninitialised(statement, access, initial)
        for source, link in sources:
            if source.lowered.instruction.step is CopyStep.START and not link.is_empty():
                yield _on_its_way(statement, access, source, link)


def _uninitialised(statement: Placed, access: Access, initial: isl.Set) -> Diagnostic:
    identity = isl.Map.from_domain_and_range(initial, initial)
    at, _ = pair(identity, statement, statement)
    return Diagnostic(
        "copy-incomplete",
        f"'{access.array}' would be read where nothing has been stored",
        (f"instance {instance(statement, at)}{sizes(statement, at)} reads {element(statement, access, at)}",),
        ("sweep more inames, or let the copy run inside the loops that its elements depend on",),
        sites=(statement.lowered.instruction.site(),),
        witness=witness(WitnessKind.UNWRITTEN, (statement, access, at), (statement, at)),
    )


def _on_its_way(statement: Placed, access: Access, start: Placed, link: isl.Map) -> Diagnostic:
    at, before = pair(link, statement, start)
    where = element(statement, access, at)
    return Diagnostic(
        "copy-on-its-way",
        f"'{access.array}' would be read before an asynchronous copy into it has arrived",
        (f"instance {instance(statement, at)} reads {where}, which instance {instance(start, before)} of "
         f"'{start.lowered.instruction.id}' has begun to copy",),
        ("place the arrival of the copy between its start and the reads",),
        sites=(statement.lowered.instruction.site(),),
        witness=witness(WitnessKind.UNWRITTEN, (statement, access, at), (statement, at)),
    )  # fmt: skip


def _same_value(comparison: Comparison, use: Use, wanted: Access, found: Access) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the read *found* sees another element, or another write, than the program's *wanted*."""
    array, left, right = found.array, use.left, use.right
    looking_at(use.reader, found, use.old, wanted)
    if left is None:
        yield _not_proven(f"'{array}' is read in a reduction that is computed ahead inside another one", use.reader)
        return
    left, right = left.intersect_range(use.old.domain_of(wanted)), right.intersect_range(use.new.domain_of(found))
    right = right.intersect_domain(left.domain())  # reads of dead terms have no original: they are free
    if len(found.indices) == len(wanted.indices):  # elements of a temporary with other axes are compared by writes
        wrong = right.apply_range(_elements(use.new, found)).subtract(left.apply_range(_elements(use.old, wanted)))
        if not wrong.is_empty():
            yield _wrong_element(use, wanted, found, wrong)
            return
    if not writers_of(comparison.old, array):
        return
    if not is_exact(comparison.new, array) or not is_exact(comparison.old, array):
        text = f"'{array}' is written and copied ahead of its use, and not all accesses are exact"
        yield _not_proven(text, use.reader)
        return
    sources, initial = comparison.flow(array).of(use.new, found)
    known, known_initial = reference_flow(comparison.old, array).of(use.old, wanted)
    if not use.is_moved:
        through = [(writer, right.apply_range(link)) for writer, link in sources]
        before = right.intersect_range(initial).domain()
        yield from compare(comparison, (use.reader, found), through, before, (use.old, known, known_initial), left)
        return
    early = right.intersect_range(initial).domain()
    late = early.subtract(left.intersect_range(known_initial).domain())
    for writer, link in sources:
        counterpart = comparison.counterpart(writer)
        got = right.apply_range(link).apply_range(reference_map(writer, counterpart))
        for other in (left.apply_range(way) for source, way in known if source is counterpart):
            got = got.subtract(other)
        late = late.union(got.domain())
    if not late.is_empty():
        yield _wrong_write(use, found, right.apply_range(_elements(use.new, found)).intersect_domain(late))


def _wrong_element(use: Use, wanted: Access, found: Access, wrong: isl.Map) -> Diagnostic:
    """Return the diagnostic for a read that sees another element; *wrong* is ``{ place -> element }``."""
    at, inner = use.example_pair(wrong, use.new.indices(found))
    copied = element(use.new, found, inner)
    by = f"instance {instance(use.new, inner)} of '{use.new.lowered.instruction.id}'"
    notes: tuple[str, ...] = (f"{by} copies {copied} for instance {instance(use.reader, at)}",)
    if not use.is_moved:
        here = reference_map(use.reader, use.old)
        _, meant = pair(here.intersect_domain(point_set(here.domain(), use.reader.dims, at)), use.reader, use.old)
        notes = (
            f"instance {instance(use.reader, at)} should read {element(use.old, wanted, meant)}",
            f"{by} copies {copied} for it",
        )
    return Diagnostic(
        "copy-wrong-element",
        f"a read of '{wanted.array}' would see another element",
        notes,
        ("let the copy run inside all the loops that its elements depend on",),
        sites=(use.reader.lowered.instruction.site(),),
        witness=witness(WitnessKind.ELSEWHERE, (use.new, found, inner), (use.reader, at)),
    )


def _wrong_write(use: Use, found: Access, late: isl.Map) -> Diagnostic:
    """Return the diagnostic for a term that is computed ahead and sees another write."""
    at, inner = use.example_pair(late, use.new.indices(found))
    by = f"instance {instance(use.new, inner)} of '{use.new.lowered.instruction.id}'"
    return Diagnostic(
        "illegal-order",
        f"'{found.array}' would be read before it is written, or after it is overwritten",
        (f"{by} reads {element(use.new, found, inner)} ahead, for instance {instance(use.reader, at)}",),
        ("let the terms be computed later, inside the loops around the write: name them as outer inames",),
        sites=(use.reader.lowered.instruction.site(),),
        witness=witness(WitnessKind.ELSEWHERE, (use.new, found, inner), (use.reader, at)),
    )


def _not_proven(message: str, reader: Placed) -> Diagnostic:
    hints, sites = ("leave it out of the prefetch or precomputation",), (reader.lowered.instruction.site(),)
    return Diagnostic("not-proven", message, hints=hints, sites=sites)


def _elements(statement: Placed, access: Access) -> isl.Map:
    return map_from_forms(statement.domain, statement.dims, statement.indices(access))
