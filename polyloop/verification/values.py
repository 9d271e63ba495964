"""Values taken through temporaries that transforms made, and through accumulators of reductions.

Each must be the value that the reference program's read would see: nothing uninitialised, no other element, no
other write; every term of a reduction exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Final

import islpy as isl

from polyloop.dataflow.value_flow import is_exact, writers_of
from polyloop.dataflow.value_paths import Path, known_inames
from polyloop.errors import Diagnostic, Site, WitnessKind
from polyloop.kernel.instruction import Copy, CopyStep, Partial
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.mapping.thread_mapping import Placed, Placement, free_inames, reference_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.radix import separates
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import leaf_count
from polyloop.program.lower import Access, Lowered
from polyloop.proof.obligation import Claim, Obligation, findings
from polyloop.proof.witness import element, instance, pair, point_set, witness
from polyloop.verification.accumulators import (
    bare_reduction,
    bare_updates,
    combiner,
    evaluated,
    identity,
    outermost,
    result_of,
)
from polyloop.verification.buffers import buffer_obligations
from polyloop.verification.correspondence import Comparison, copies, original_leaves, reference_flow
from polyloop.verification.index_operands import number_violations
from polyloop.verification.order import compare
from polyloop.verification.reduction_terms import reduction_obligations, reduction_of, reductions_in_parts

__all__ = ["value_obligations", "value_violations"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class _Leaf:
    """One read of an instruction, found through the temporaries that transforms put in between.

    ``relation`` leads from instances of the reading statement to those of ``statement``,
    which makes the access; ``steps`` are the statements on the way with the relation from each to the next.
    """

    statement: Placed
    access: Access
    relation: isl.Map
    steps: tuple[tuple[Placed, isl.Map], ...] = ()


def value_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield why values taken through transform-made temporaries and accumulators are not the reference program's."""
    yield from findings(kernel, value_obligations(Comparison(kernel)))


def value_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield what has to hold of the instances that run, and of values that go another way than in the program."""
    statements: dict[str, list[Placed]] = {}
    for reference in comparison.old.statements.values():
        statements.setdefault(reference.lowered.instruction.id, []).append(reference)
    for name, references in statements.items():
        says = f"each instance of '{name}' runs"
        if any(statement.lowered.role == "update" for statement in references):
            says += ", each term of its reductions exactly once"
        by = "instances that run, mapped to the program's"
        yield Obligation(Claim.COVERAGE, f"'{name}'", says, by, partial(_coverage, comparison, references))
    staged: dict[str, list[_Staged]] = {}
    for read in _staged_reads(comparison):
        staged.setdefault(read.access.array, []).append(read)
    for name, reads in staged.items():
        says = f"each read of '{name}' sees the element, and the write, of the read that it stands for"
        by = "dataflow through the temporary, against the program's reads"
        yield Obligation(Claim.VALUES, f"'{name}'", says, by, partial(_evaluations, comparison, reads))
    yield from reduction_obligations(comparison)
    yield from buffer_obligations(comparison)


def _coverage(comparison: Comparison, references: Sequence[Placed]) -> Iterator[Diagnostic]:
    """Every reference instance is executed; terms of a reduction exactly once."""
    moved = _moved_reductions(comparison)
    in_parts = reductions_in_parts(comparison)
    for reference in references:
        if reference.lowered.number is not None and reduction_of(reference) in in_parts:
            continue
        instances = list(copies(comparison, reference))
        if not instances and any(write.array in moved for write in reference.lowered.writes):
            continue
        looking_at(reference)
        runs = tuple(outermost(comparison, s) if s.lowered.role == "init" else s for s in instances)
        known = _covering(comparison.old).setdefault(reference, deque(maxlen=_RECENT))
        if any(len(before) == len(runs) and all(map(is_, before, runs)) for before in known):
            continue
        found = tuple(_uncovered(reference, runs))
        if not found:
            known.append(runs)
        yield from found


_RECENT: Final = 4


@memoised
def _covering(old: Placement) -> dict[Placed, deque[tuple[Placed, ...]]]:
    """Return where the statements are kept that were found to execute each instance of a reference statement.

    A kernel shares with those before it the statements that a step left as they were.
    """
    del old
    return {}


def _uncovered(reference: Placed, runs: Sequence[Placed]) -> Iterator[Diagnostic]:
    """Yield why *runs* do not execute each instance of *reference*, or a term of a reduction not once."""
    covered = None
    for statement in runs:
        relation = reference_map(statement, reference, exact=True)
        if statement.repeated:
            relation = _drop_repeated(relation, statement)
        is_c = statement.lowered.instruction.is_c
        once = statement.lowered.role == "update" or statement.lowered.atomic is not None or is_c
        if once and not _is_once(statement, reference) and not relation.is_injective():
            what = "an atomic update" if statement.lowered.atomic else "a term of the reduction"
            what = "an instance of the C text" if is_c else what
            yield Diagnostic(
                "term-twice",
                f"{what} in '{reference.lowered.instruction.id}' would be counted twice",
                sites=(statement.lowered.instruction.site(),),
            )
        image = relation.range()
        covered = image if covered is None else covered.union(image)
    missing = reference.exact if covered is None else reference.exact.subtract(covered)
    if not missing.is_empty():
        at, _ = pair(missing.identity(), reference, reference)
        yield Diagnostic(
            "instance-lost",
            f"instances of '{reference.lowered.instruction.id}' would not be executed",
            (f"one of them is {instance(reference, at)}{_where(reference, at)}",),
            sites=(reference.lowered.instruction.site(),),
            witness=witness(WitnessKind.LOST, (reference, reference.lowered.writes[0], at), (reference, at)),
        )


def _is_once(statement: Placed, reference: Placed) -> bool:
    """Return whether it is plain to see that no two instances of a copy are the same reference instance."""
    origin = statement.lowered.instruction.origin
    if not isinstance(origin, Copy) or free_inames(statement, reference):
        return False
    forms = [origin.forms[iname].substitute(statement.forms) for iname in reference.lowered.inames]
    return separates(forms, (x for x in statement.dims if x not in statement.repeated), statement.extent)


def _where(statement: Placed, values: Mapping[str, int]) -> str:
    """Return `` with n=3``: the parameters of an instance, empty where there are none."""
    others = {name: value for name, value in values.items() if name not in statement.dims}
    return f" with {', '.join(f'{name}={value}' for name, value in others.items())}" if others else ""


@dataclass(frozen=True, eq=False)
class _Staged:
    """A read of a transform-made temporary, and the reads of the reference program that it stands for."""

    statement: Placed
    access: Access
    originals: list[tuple[Lowered, Access]]


def _is_of_parts(comparison: Comparison, array: str) -> bool:
    """Return whether a temporary holds sums that a scan passes on, which :mod:`.reduction_terms` follows."""
    filler = comparison.kernel.evaluations.get(array)
    if filler is None:
        return array in comparison.kernel.partials
    return any(_is_of_parts(comparison, inner.array) for _, inner in comparison.new.program.leaves(filler))


def _staged_reads(comparison: Comparison) -> Iterator[_Staged]:
    """Yield each read of a transform-made temporary, with the reference program's reads that it stands for."""
    if not comparison.kernel.evaluations:
        return
    for instruction in comparison.kernel.instructions:
        if not isinstance(instruction.origin, Copy | Partial):
            continue
        originals = original_leaves(comparison, instruction.origin)
        number = 0
        for lowered, access in comparison.new.program.leaves(instruction.id):
            count = leaf_count(comparison.new.program, comparison.old.program, access)
            if access.array in comparison.kernel.evaluations and not _is_of_parts(comparison, access.array):
                yield _Staged(comparison.new.statements[lowered.name], access, originals[number : number + count])
            number += count


@memoised
def _moved_reductions(comparison: Comparison) -> frozenset[str]:
    """Return the accumulators of reductions that are computed ahead; :func:`_all_terms` proves their terms."""
    moved: set[str] = set()
    for read in _staged_reads(comparison):
        mine = None if comparison.combines(read.statement) else comparison.counterpart(read.statement).lowered
        for original in (o for o, _ in read.originals if o.role == "update"):
            around = original
            while around is not mine:
                moved.add(around.write.array)
                if around.partial_of is None:
                    break
                around = combiner(comparison.old, around)
        if (bare := bare_reduction(comparison, read.statement, read.access)) is not None:
            moved.add(bare.lowered.write.array)
    return frozenset(moved)


def _drop_repeated(relation: isl.Map, statement: Placed) -> isl.Map:
    for position in range(len(statement.dims) - 1, -1, -1):
        if statement.dims[position] in statement.repeated:
            relation = relation.project_out(_IN, position, 1)
    return relation


def _evaluations(comparison: Comparison, reads: Sequence[_Staged]) -> Iterator[Diagnostic]:
    """Each read through a transform-made temporary sees the element, or the write, of the original read."""
    for read in reads:
        statement = read.statement
        if found := tuple(number_violations(comparison, statement, read.access)):
            yield from found
            return
        leaves: list[_Leaf | None] = []
        for leaf in _resolve(comparison, statement, read.access, identity(statement)):
            if isinstance(leaf, Diagnostic):
                yield leaf
                return
            leaves.append(leaf)
        for leaf, (original, wanted) in zip(leaves, read.originals, strict=True):
            before = comparison.old.statements[original.name]
            if leaf is not None:
                yield from _same_value(comparison, statement, leaf, before, wanted)
            elif not before.domain_of(wanted).is_empty():
                site = (statement.lowered.instruction.site(),)
                yield _not_proven(f"a read of '{wanted.array}' is made nowhere any more", site)
        if (bare := bare_reduction(comparison, statement, read.access)) is not None:
            yield from _bare_terms(comparison, statement, read.access, bare)


def _bare_terms(comparison: Comparison, statement: Placed, access: Access, original: Placed) -> Iterator[Diagnostic]:
    """Yield that terms that read no array, and are computed ahead, are not those of *original*, each exactly once."""
    site = (statement.lowered.instruction.site(),)
    sources, initial = comparison.flow(access.array).of(statement, access)
    if not initial.is_empty():
        yield _uninitialised(statement, access, initial)
        return
    (inside,) = bare_updates(comparison, access.array)
    step = None
    for source, link in sources:
        way = link if source is inside else link.apply_range(evaluated(source, inside))
        step = way if step is None else step.union(way)
    leaf = None if step is None else _Leaf(inside, access, step, ((inside, step),))
    reached = None if leaf is None else Path(statement, leaf.steps).reference_instances(original)
    operation, name = original.lowered.operation, original.lowered.instruction.id
    if leaf is None or reached is None or operation is None or operation.ordered:
        yield _not_proven(f"the terms of '{name}' are not found where they are computed", site)
    else:
        yield from _all_terms(comparison, statement, leaf, original, reached)


def _resolve(
    comparison: Comparison,
    statement: Placed,
    access: Access,
    relation: isl.Map,
    steps: tuple[tuple[Placed, isl.Map], ...] = (),
) -> Iterator[_Leaf | Diagnostic | None]:
    """Yield the reads that stand behind a read of a transform-made temporary, through any number of them.

    None stands for a read that no instance makes.
    """
    filler = comparison.kernel.evaluations.get(access.array)
    if filler is None:
        yield _Leaf(statement, access, relation, steps)
        return
    looking_at(statement, access)
    sources, initial = comparison.flow(access.array).of(statement, access)
    if not initial.is_empty():
        yield _uninitialised(statement, access, initial)
        return
    for source, link in sources:
        if source.lowered.instruction.step is CopyStep.START:
            yield _on_its_way(statement, access, source, link)
            return
    if not sources:
        yield from [None] * leaf_count(comparison.new.program, comparison.old.program, access)
    for lowered, inner in comparison.new.program.leaves(filler):
        inside = comparison.new.statements[lowered.name]
        for source, link in sources:
            step = link if source is inside else link.apply_range(evaluated(source, inside))
            through = (*steps, (inside, step))
            yield from _resolve(comparison, inside, inner, relation.apply_range(step), through)


def _uninitialised(statement: Placed, access: Access, initial: isl.Set) -> Diagnostic:
    identity = isl.Map.from_domain_and_range(initial, initial)
    at, _ = pair(identity, statement, statement)
    return Diagnostic(
        "copy-incomplete",
        f"'{access.array}' would be read where nothing has been stored",
        (f"instance {instance(statement, at)} reads {element(statement, access, at)}",),
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
        ("let the arrival of the copy stand between its start and the reads",),
        sites=(statement.lowered.instruction.site(),),
        witness=witness(WitnessKind.UNWRITTEN, (statement, access, at), (statement, at)),
    )  # fmt: skip


def _same_value(
    comparison: Comparison, statement: Placed, leaf: _Leaf, original: Placed, wanted: Access
) -> Iterator[Diagnostic]:
    """Yield where the read behind *leaf* sees another element, or another write, than the original read."""
    array = leaf.access.array
    assert array == wanted.array, f"read {wanted.array} became a read of {array}"
    looking_at(statement, leaf.access, original, wanted)
    site = (statement.lowered.instruction.site(),)
    moved = not comparison.stands_for(statement, original)
    operation = original.lowered.operation
    if moved and operation is not None and operation.ordered:
        yield _not_proven(f"the order of the terms of '{operation}' is lost where they are computed ahead", site)
        return
    if moved:
        reached = Path(statement, leaf.steps).reference_instances(original)
        if reached is None:
            yield _not_proven(f"'{array}' is read in a reduction that is computed ahead inside another one", site)
            return
        yield from _all_terms(comparison, statement, leaf, original, reached)
        got = Path(statement, leaf.steps).values(leaf.statement.indices(leaf.access))
    else:
        reached = reference_map(statement, original)
        known = leaf.relation.intersect_domain(reached.domain())  # what a scan adds for nobody may be anything
        got = known.apply_range(_elements(leaf.statement, leaf.access))
    wrong = None
    if len(leaf.access.indices) == len(wanted.indices):  # a temporary that got other axes is known by its writes alone
        wrong = got.subtract(reached.apply_range(_elements(original, wanted)))
    if wrong is not None and not wrong.is_empty():
        yield _wrong_element(statement, leaf, original, wanted, (wrong, None if moved else reached))
    elif not moved and not _same_condition(reached, leaf, original, wanted):
        yield Diagnostic(
            "copy-wrong-element",
            f"a condition would let another part of the program read '{array}' than its text says",
            ("the condition is evaluated ahead, where its inames have other values",),
            ("let the copy run inside all the loops that the condition depends on",),
            sites=site,
        )
    elif writers_of(comparison.old, array):
        if moved:
            yield from _same_write_ahead(comparison, statement, leaf, (original, wanted), reached)
        else:
            yield from _same_write(comparison, statement, leaf, original, wanted)


def _wrong_element(
    statement: Placed, leaf: _Leaf, original: Placed, wanted: Access, found: tuple[isl.Map, isl.Map | None]
) -> Diagnostic:
    """Return that a read sees another element: of the instances and elements found, or of the pairs of instances."""
    wrong, to_reference = found
    notes = []
    if to_reference is None:
        pairs = wrong.domain().unwrap()
        pairs = pairs.project_out(_OUT, 0, pairs.dim(_OUT) - len(leaf.statement.dims))
        at, inner = pair(pairs, statement, leaf.statement)
    else:
        elements = _elements(leaf.statement, leaf.access)
        at, inner = pair(leaf.relation.intersect(wrong.apply_range(elements.reverse())), statement, leaf.statement)
        here = to_reference.intersect_domain(point_set(to_reference.domain(), statement.dims, at))
        _, meant = pair(here, statement, original)
        notes.append(f"instance {instance(statement, at)} should read {element(original, wanted, meant)}")
    copied = element(leaf.statement, leaf.access, inner)
    by = f"instance {instance(leaf.statement, inner)} of '{leaf.statement.lowered.instruction.id}'"
    notes.append(f"{by} copies {copied} for {'it' if notes else f'instance {instance(statement, at)}'}")
    return Diagnostic(
        "copy-wrong-element",
        f"a read of '{wanted.array}' would see another element",
        tuple(notes),
        ("let the copy run inside all the loops that its elements depend on",),
        sites=(statement.lowered.instruction.site(),),
        witness=witness(WitnessKind.ELSEWHERE, (leaf.statement, leaf.access, inner), (statement, at)),
    )


def _same_condition(to_reference: isl.Map, leaf: _Leaf, original: Placed, wanted: Access) -> bool:
    """Return whether the read behind *leaf* happens for just those instances for which the original read does."""
    if wanted.domain is None and leaf.access.domain is None:
        return True
    needed = to_reference.intersect_range(original.domain_of(wanted)).domain()
    return bool(leaf.relation.intersect_range(leaf.statement.domain_of(leaf.access)).domain().is_equal(needed))


def _all_terms(
    comparison: Comparison, statement: Placed, leaf: _Leaf, original: Placed, to_reference: isl.Map
) -> Iterator[Diagnostic]:
    """Yield that a reduction computed ahead does not have each of its terms exactly once for each reading instance.

    Those are the terms that agree with the instance: inside of another reduction, with its term.  Where *statement*
    combines partial results, they are those of its result, which all of its instances for one result have together.
    """
    known = known_inames(statement, original)
    result = identity(statement)
    whole = comparison.combines(statement)
    if whole:
        known = {name: form for name, form in known.items() if name not in original.lowered.own}
        result = result_of(comparison, statement)
    counted = Path(statement, leaf.steps).pairs.domain_map().apply_range(result)
    reached = counted.reverse().apply_range(to_reference)
    outer = map_from_forms(original.domain, original.dims, [Affine.variable(name) for name in known])
    complete = reached.apply_range(outer).apply_range(outer.reverse())
    lost = whole and not set(original.lowered.inames) <= {*known, *original.lowered.own}
    if lost or not complete.is_subset(reached) or not to_reference.range_product(counted).is_injective():
        yield Diagnostic(
            "term-twice",
            f"the reduction in '{original.lowered.instruction.id}' would not count each of its terms once",
            ("its values are computed ahead over other terms",),
            sites=(statement.lowered.instruction.site(),),
        )


def _not_proven(message: str, sites: tuple[Site, ...]) -> Diagnostic:
    return Diagnostic("not-proven", message, hints=("leave it out of the prefetch or precomputation",), sites=sites)


def _same_write(
    comparison: Comparison, statement: Placed, leaf: _Leaf, original: Placed, wanted: Access
) -> Iterator[Diagnostic]:
    """Yield where the value copied ahead comes from another write than the original read's."""
    new, old, array = comparison.new, comparison.old, leaf.access.array
    site = (statement.lowered.instruction.site(),)
    if not is_exact(new, array) or not is_exact(old, array):
        yield _not_proven(f"'{array}' is written and copied ahead of its use, and not all accesses are exact", site)
        return
    sources, initial = comparison.flow(array).of(leaf.statement, leaf.access)
    known, known_initial = reference_flow(old, array).of(original, wanted)
    through = [(writer, leaf.relation.apply_range(link)) for writer, link in sources]
    before = leaf.relation.intersect_range(initial).domain()
    reference = (original, known, known_initial)
    to_reference = reference_map(statement, original)
    yield from compare(comparison, (statement, leaf.access), through, before, reference, to_reference)


def _same_write_ahead(
    comparison: Comparison, statement: Placed, leaf: _Leaf, read: tuple[Placed, Access], reached: isl.Map
) -> Iterator[Diagnostic]:
    """Yield where a term computed ahead comes from another write than it does in the program.

    *reached* leads from pairs of a reading instance and the instance that has the term to that of the program, which
    makes the *read*.
    """
    new, old, array = comparison.new, comparison.old, leaf.access.array
    site = (statement.lowered.instruction.site(),)
    if not is_exact(new, array) or not is_exact(old, array):
        yield _not_proven(f"'{array}' is written and copied ahead of its use, and not all accesses are exact", site)
        return
    sources, initial = comparison.flow(array).of(leaf.statement, leaf.access)
    known, known_initial = reference_flow(old, array).of(*read)
    to_leaf = leaf.relation.range_map()
    early = reached.intersect_domain(to_leaf.intersect_range(initial).domain())
    wrong = early.subtract(early.intersect_range(known_initial)).domain()
    for writer, link in sources:
        counterpart = comparison.counterpart(writer)
        got = to_leaf.apply_range(link).apply_range(reference_map(writer, counterpart))
        for _, meant in (entry for entry in known if entry[0] is counterpart):
            got = got.subtract(reached.apply_range(meant))
        wrong = wrong.union(got.domain())
    if not wrong.is_empty():
        at, inner = pair(wrong.unwrap(), statement, leaf.statement)
        by = f"instance {instance(leaf.statement, inner)} of '{leaf.statement.lowered.instruction.id}'"
        cell = element(leaf.statement, leaf.access, inner)
        yield Diagnostic(
            "illegal-order",
            f"'{array}' would be read before it is written, or after it is overwritten",
            (f"{by} reads {cell} ahead, for instance {instance(statement, at)}",),
            ("let the terms be computed later, inside the loops around the write: name them as outer inames",),
            sites=site,
            witness=witness(WitnessKind.ELSEWHERE, (leaf.statement, leaf.access, inner), (statement, at)),
        )


def _elements(statement: Placed, access: Access) -> isl.Map:
    return map_from_forms(statement.domain, statement.dims, statement.indices(access))
