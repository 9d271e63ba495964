"""Does a transformed kernel compute what the reference program computes?

Every read of the transformed program must get its value from a copy of the write that the
reference program's read gets it from, and every element must end with the same write.  Findings carry two
concrete instances.  The order looked at is that of the loop tree; that threads do not disturb it is
checked by ``polyloop.analysis.race``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from polyloop.analysis.dataflow import Flow, flow_of, is_exact, readers_of, writers_of
from polyloop.analysis.lowering import Access
from polyloop.analysis.order import Conflict, conflict_pairs, conflicts
from polyloop.analysis.place import place
from polyloop.analysis.placement import Placed, Placement
from polyloop.analysis.witness import element, instance, pair
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms

__all__ = ["order_violations", "value_violations"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class _Leaf:
    """One read of an instruction, found through the temporaries that transforms put in between.

    ``relation`` leads from instances of the reading statement to those of ``statement``,
    which makes the access.
    """

    statement: Placed
    access: Access
    relation: isl.Map


class _Comparison:
    """A transformed program beside its reference program."""

    def __init__(self, kernel: LoopKernel) -> None:
        reference = kernel.reference
        assert reference is not None, "a reference program has no reference"
        self.kernel = kernel
        self.old = place(reference.kernel)
        self.flows: dict[str, Flow] = {}

    @cached_property
    def new(self) -> Placement:
        return place(self.kernel)

    def flow(self, array: str) -> Flow:
        if array not in self.flows:
            self.flows[array] = flow_of(self.new, array)
        return self.flows[array]

    def to_reference(self, statement: Placed, reference: Placed) -> isl.Map:
        """Return ``{ instance -> instance of the reference statement }``."""
        origin = statement.lowered.instruction.origin
        assert isinstance(origin, Copy), "only a copy has a reference instance"
        forms = [origin.forms[iname].substitute(statement.forms) for iname in reference.lowered.inames]
        return map_from_forms(statement.domain, statement.dims, forms)

    def counterpart(self, statement: Placed) -> Placed:
        """Return the reference statement that plays the same part."""
        lowered = statement.lowered
        origin = lowered.instruction.origin
        assert isinstance(origin, Copy), "only a copy has a counterpart"
        same = [
            other
            for other in self.new.statements.values()
            if other.lowered.instruction is lowered.instruction and other.lowered.role == lowered.role
        ]
        candidates = [
            other
            for other in self.old.statements.values()
            if other.lowered.instruction.id == origin.instruction and other.lowered.role == lowered.role
        ]
        return candidates[same.index(statement)]


@memoised
def _reference_flows(placement: Placement) -> dict[str, Flow]:
    return {}


def _reference_flow(placement: Placement, array: str) -> Flow:
    known = _reference_flows(placement)
    if array not in known:
        known[array] = flow_of(placement, array)
    return known[array]


def _named_arrays(kernel: LoopKernel) -> list[str]:
    """Return the written variables that the reference program has too."""
    assert kernel.reference is not None
    written = dict.fromkeys(instruction.writes for instruction in kernel.reference.kernel.instructions)
    return list(written)


def order_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield why the order of *kernel*'s loops is not the reference program's, as far as values can tell.

    What is looked at are the variables of the user's program; temporaries that transforms made are proven by
    :func:`value_violations`.
    """
    comparison = _Comparison(kernel)
    for array in _named_arrays(kernel):
        yield from _array_violations(comparison, array)


def _array_violations(comparison: _Comparison, array: str) -> Iterator[Diagnostic]:
    old = comparison.old
    if array not in _ordered_arrays(old):
        return
    new = comparison.new
    if not is_exact(old, array) or not is_exact(new, array):
        yield from _may_violations(comparison, array)
        return
    known = _reference_flow(old, array)
    found = comparison.flow(array)
    for (reader, access), sources, initial in zip(found.reads, found.sources, found.initial, strict=True):
        if not isinstance(reader.lowered.instruction.origin, Copy):
            continue
        if access.leaf is None:
            continue
        reference, original = _original_read(comparison, reader, access)
        wanted, wanted_initial = known.of(reference, original)
        to_reference = comparison.to_reference(reader, reference)
        yield from _compare(comparison, (reader, access), sources, initial, (reference, wanted, wanted_initial), to_reference)
    if new.spaces[array] is AddressSpace.GLOBAL:
        yield from _final_violations(comparison, array)


@memoised
def _ordered_arrays(placement: Placement) -> frozenset[str]:
    """Return the written arrays of a reference program for which the order of accesses can matter."""
    written = {statement.lowered.write.array for statement in placement.statements.values()}
    return frozenset(array for array in written if _needs_order(placement, array))


def _needs_order(placement: Placement, array: str) -> bool:
    """Return whether the order of accesses can matter: there is a read, or two writes of one element."""
    writers = writers_of(placement, array)
    if readers_of(placement, array) or len(writers) > 1:
        return True
    writer = writers[0]
    if not writer.lowered.write.is_affine() or writer.lowered.is_conditional:
        return True
    relation = map_from_forms(writer.domain, writer.dims, writer.indices(writer.lowered.write))
    return not relation.is_injective()


def _original_read(comparison: _Comparison, reader: Placed, access: Access) -> tuple[Placed, Access]:
    """Return the reference program's read for a read that a transform left in its place."""
    instruction = reader.lowered.instruction
    origin = instruction.origin
    assert isinstance(origin, Copy), "only a copy has a reference read"
    number = 0
    for _, candidate in comparison.new.program.leaves(instruction.id):
        if candidate is access:
            break
        number += _leaf_count(comparison, candidate)
    statement, original = comparison.old.program.leaves(origin.instruction)[number]
    return comparison.old.statements[statement.name], original


def _leaf_count(comparison: _Comparison, access: Access) -> int:
    """Return how many reads of the user's text an access stands for."""
    filler = comparison.kernel.evaluations.get(access.array)
    if filler is None:
        return 1
    return sum(_leaf_count(comparison, inner) for _, inner in comparison.new.program.leaves(filler))


def _compare(
    comparison: _Comparison,
    read: tuple[Placed, Access],
    sources: Sequence[tuple[Placed, isl.Map]],
    initial: isl.Set,
    reference: tuple[Placed, Sequence[tuple[Placed, isl.Map]], isl.Set],
    to_reference: isl.Map,
) -> Iterator[Diagnostic]:
    reader, access = read
    original, wanted, wanted_initial = reference
    wrong_initial = to_reference.intersect_domain(initial).intersect_range(
        isl.Set.universe(wanted_initial.get_space()).subtract(wanted_initial)
    )
    if not wrong_initial.is_empty():
        expected = next((entry for entry in wanted), None)
        yield _unwritten(comparison, read, wrong_initial, expected, original)
        return
    for writer, relation in sources:
        counterpart = comparison.counterpart(writer)
        got = relation.apply_range(comparison.to_reference(writer, counterpart))
        allowed = [link for source, link in wanted if source is counterpart]
        expected_map = to_reference.apply_range(allowed[0]) if allowed else None
        wrong = got if expected_map is None else got.subtract(expected_map)
        if not wrong.is_empty():
            bad = relation.intersect_domain(wrong.domain())
            yield _wrong_source(comparison, read, writer, bad, original, wanted, wanted_initial, to_reference)
            return


def _unwritten(
    comparison: _Comparison,
    read: tuple[Placed, Access],
    wrong: isl.Map,
    expected: tuple[Placed, isl.Map] | None,
    original: Placed,
) -> Diagnostic:
    reader, access = read
    at, _ = pair(wrong, reader, original)
    notes = []
    sites = [reader.lowered.instruction.site()]
    cell = element(reader, access, at)
    if expected is not None:
        writer, link = expected
        chain = wrong.apply_range(link)
        if not chain.is_empty():
            at, source = pair(chain, reader, writer)
            cell = element(reader, access, at)
            notes.append(
                f"instance {instance(writer, source)} writes {cell}; "
                f"instance {instance(reader, at)} reads it and would run first"
            )
            if writer.lowered.instruction.id != reader.lowered.instruction.id:
                sites.insert(0, writer.lowered.instruction.site())
    if not notes:
        notes.append(f"instance {instance(reader, at)} would read {cell} before it is written")
    return Diagnostic("illegal-order", f"'{access.array}' would be read before it is written", tuple(notes), sites=tuple(sites))


def _wrong_source(
    comparison: _Comparison,
    read: tuple[Placed, Access],
    writer: Placed,
    bad: isl.Map,
    original: Placed,
    wanted: Sequence[tuple[Placed, isl.Map]],
    wanted_initial: isl.Set,
    to_reference: isl.Map,
) -> Diagnostic:
    reader, access = read
    at, source = pair(bad, reader, writer)
    cell = element(reader, access, at)
    note = f"instance {instance(reader, at)} would read {cell} as written by instance {instance(writer, source)}"
    expected = "its value before the kernel"
    point = bad.intersect_domain(bad.domain().intersect(_point_set(bad.domain(), reader.dims, at)))
    for other, link in wanted:
        chain = to_reference.intersect_domain(point.domain()).apply_range(link)
        if not chain.is_empty():
            _, right = pair(chain, reader, other)
            expected = f"the value of instance {instance(other, right)}"
    sites = [reader.lowered.instruction.site()]
    if writer.lowered.instruction.id != reader.lowered.instruction.id:
        sites.insert(0, writer.lowered.instruction.site())
    return Diagnostic(
        "illegal-order",
        f"'{access.array}' would be overwritten before it is read",
        (note, f"it should read {expected}"),
        sites=tuple(sites),
    )


def _point_set(domain: isl.Set, dims: Sequence[str], values: Mapping[str, int]) -> isl.Set:
    result = isl.Set.universe(domain.get_space())
    for position in range(domain.dim(isl.dim_type.param)):
        name = domain.get_dim_name(isl.dim_type.param, position)
        result = result.fix_val(isl.dim_type.param, position, values[name])
    for position, name in enumerate(dims):
        result = result.fix_val(isl.dim_type.set, position, values[name])
    return result


def _final_violations(comparison: _Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield elements of an argument that would end with another write than in the reference program."""
    new, old = comparison.new, comparison.old
    writers = writers_of(new, array)
    if len(writers) == 1 and not _overwrites(writers[0]):
        return
    seen: set[tuple[str, str]] = set()
    for first in writers_of(old, array):
        for second in writers_of(old, array):
            pairs = conflict_pairs(old, first, first.lowered.write, second, second.lowered.write)
            for conflict in conflicts(old, first, first.lowered.write, second, second.lowered.write, pairs):
                key = (first.name, second.name)
                if key in seen:
                    continue
                violation = _reordered(comparison, array, conflict, first.lowered.write, second.lowered.write)
                if violation is not None:
                    seen.add(key)
                    yield violation


def _overwrites(writer: Placed) -> bool:
    relation = map_from_forms(writer.domain, writer.dims, writer.indices(writer.lowered.write))
    return not relation.is_injective()


def _may_violations(comparison: _Comparison, array: str) -> Iterator[Diagnostic]:
    """Yield reversed conflicts of an array whose accesses are not known exactly: all of them keep their order."""
    old = comparison.old
    accesses: list[tuple[Placed, Access, bool]] = [
        (statement, statement.lowered.write, True) for statement in writers_of(old, array)
    ]
    accesses += [(statement, access, False) for statement, access in readers_of(old, array)]
    for first, a, first_writes in accesses:
        for second, b, second_writes in accesses:
            if not (first_writes or second_writes):
                continue
            pairs = conflict_pairs(old, first, a, second, b)
            for conflict in conflicts(old, first, a, second, b, pairs):
                violation = _reordered(comparison, array, conflict, a, b)
                if violation is not None:
                    yield violation
                    return


def _reordered(
    comparison: _Comparison, array: str, conflict: Conflict, a: Access, b: Access
) -> Diagnostic | None:
    """Return the finding if the transformed program runs some pair of *conflict* the other way round."""
    new = comparison.new
    for first in _copies(comparison, conflict.first):
        for second in _copies(comparison, conflict.second):
            back = comparison.to_reference(first, conflict.first)
            there = comparison.to_reference(second, conflict.second)
            pairs = back.apply_range(conflict.relation).apply_range(there.reverse())
            if pairs.is_empty():
                continue
            reversed_pairs = pairs.reverse()
            for backward in conflicts(new, second, second.lowered.write, first, first.lowered.write, reversed_pairs):
                right, left = pair(backward.relation, second, first)
                together = backward.simultaneous
                what = "run at the same time" if together else "run in the other order"
                sites = [first.lowered.instruction.site()]
                if second.lowered.instruction.id != first.lowered.instruction.id:
                    sites.append(second.lowered.instruction.site())
                return Diagnostic(
                    "illegal-order",
                    f"two accesses to '{array}' would {what}",
                    (
                        f"instance {instance(first, left)} comes before instance {instance(second, right)} in the "
                        f"program, and both may touch {element(conflict.first, a, _reference_values(comparison, first, left))}",
                    ),
                    sites=tuple(sites),
                )
    return None


def _reference_values(comparison: _Comparison, statement: Placed, values: Mapping[str, int]) -> Mapping[str, int]:
    from_forms = {**values}
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy)
    for iname, form in origin.forms.items():
        placed = form.substitute(statement.forms)
        if placed.names() <= from_forms.keys():
            from_forms[iname] = placed.evaluate(values)
    return from_forms


def _copies(comparison: _Comparison, reference: Placed) -> Iterator[Placed]:
    for statement in comparison.new.statements.values():
        origin = statement.lowered.instruction.origin
        if isinstance(origin, Copy) and origin.instruction == reference.lowered.instruction.id:
            if comparison.counterpart(statement) is reference:
                yield statement


@memoised
def _value_violations(kernel: LoopKernel) -> tuple[Diagnostic, ...]:
    comparison = _Comparison(kernel)
    return tuple(
        finding
        for part in (_coverage(comparison), _evaluations(comparison), _accumulators(comparison))
        for finding in part
    )


def value_violations(kernel: LoopKernel) -> Iterable[Diagnostic]:
    """Return why values taken through transform-made temporaries and accumulators are not the reference program's."""
    return _value_violations(kernel)


def _coverage(comparison: _Comparison) -> Iterator[Diagnostic]:
    """Every reference instance is executed; terms of a reduction exactly once."""
    for reference in comparison.old.statements.values():
        copies = list(_copies(comparison, reference))
        covered = None
        for statement in copies:
            relation = comparison.to_reference(statement, reference)
            if statement.repeated:
                relation = _drop_repeated(relation, statement)
            if statement.lowered.role == "update" and not relation.is_injective():
                yield Diagnostic(
                    "term-twice",
                    f"a term of the reduction in '{reference.lowered.instruction.id}' would be counted twice",
                    sites=(statement.lowered.instruction.site(),),
                )
            image = relation.range()
            covered = image if covered is None else covered.union(image)
        missing = reference.domain if covered is None else reference.domain.subtract(covered)
        if not missing.is_empty():
            yield Diagnostic(
                "instance-lost",
                f"instances of '{reference.lowered.instruction.id}' would not be executed: {missing}",
                sites=(reference.lowered.instruction.site(),),
            )


def _drop_repeated(relation: isl.Map, statement: Placed) -> isl.Map:
    for position in range(len(statement.dims) - 1, -1, -1):
        if statement.dims[position] in statement.repeated:
            relation = relation.project_out(_IN, position, 1)
    return relation


def _evaluations(comparison: _Comparison) -> Iterator[Diagnostic]:
    """Each read through a transform-made temporary sees the element, or the write, of the original read."""
    if not comparison.kernel.evaluations:
        return
    for instruction in comparison.kernel.instructions:
        if not isinstance(instruction.origin, Copy):
            continue
        originals = comparison.old.program.leaves(instruction.origin.instruction)
        number = 0
        for lowered, access in comparison.new.program.leaves(instruction.id):
            count = _leaf_count(comparison, access)
            if access.array in comparison.kernel.evaluations:
                statement = comparison.new.statements[lowered.name]
                identity = _identity(statement)
                found = list(_resolve(comparison, statement, access, identity))
                for finding in found:
                    if isinstance(finding, Diagnostic):
                        yield finding
                        return
                leaves = [leaf for leaf in found if isinstance(leaf, _Leaf)]
                for leaf, (original, wanted) in zip(leaves, originals[number : number + count], strict=True):
                    yield from _same_value(comparison, statement, leaf, comparison.old.statements[original.name], wanted)
            number += count


def _identity(statement: Placed) -> isl.Map:
    forms = [Affine.variable(name) for name in statement.dims]
    return map_from_forms(statement.domain, statement.dims, forms)


def _resolve(
    comparison: _Comparison, statement: Placed, access: Access, relation: isl.Map
) -> Iterator[_Leaf | Diagnostic]:
    """Yield the reads that stand behind a read of a transform-made temporary, through any number of them."""
    filler = comparison.kernel.evaluations.get(access.array)
    if filler is None:
        yield _Leaf(statement, access, relation)
        return
    sources, initial = comparison.flow(access.array).of(statement, access)
    if not initial.is_empty():
        yield _uninitialised(statement, access, initial)
        return
    for lowered, inner in comparison.new.program.leaves(filler):
        inside = comparison.new.statements[lowered.name]
        for source, link in sources:
            step = link if source is inside else link.apply_range(_same_instance(source, inside))
            yield from _resolve(comparison, inside, inner, relation.apply_range(step))


def _same_instance(outer: Placed, inner: Placed) -> isl.Map:
    """Return ``{ instance of outer -> instances of inner }`` that agree on the dimensions they share."""
    space = outer.domain.get_space().map_from_domain_and_range(inner.domain.get_space())
    whole = isl.Map.universe(space).intersect_domain(outer.domain).intersect_range(inner.domain)
    for position, name in enumerate(outer.dims):
        if name in inner.dims:
            whole = whole.equate(_IN, position, _OUT, inner.dims.index(name))
    return whole


def _uninitialised(statement: Placed, access: Access, initial: isl.Set) -> Diagnostic:
    identity = isl.Map.from_domain_and_range(initial, initial)
    at, _ = pair(identity, statement, statement)
    return Diagnostic(
        "copy-incomplete",
        f"'{access.array}' would be read where nothing has been stored",
        (f"instance {instance(statement, at)} reads {element(statement, access, at)}",),
        sites=(statement.lowered.instruction.site(),),
    )


def _same_value(
    comparison: _Comparison, statement: Placed, leaf: _Leaf, original: Placed, wanted: Access
) -> Iterator[Diagnostic]:
    new, old = comparison.new, comparison.old
    array = leaf.access.array
    assert array == wanted.array, f"read {wanted.array} became a read of {array}"
    to_reference = comparison.to_reference(statement, original)
    got = leaf.relation.apply_range(_elements(leaf.statement, leaf.access))
    expected = to_reference.apply_range(_elements(original, wanted))
    wrong = got.subtract(expected)
    if not wrong.is_empty():
        at, _ = pair(leaf.relation.intersect_domain(wrong.domain()), statement, leaf.statement)
        yield Diagnostic(
            "copy-wrong-element",
            f"a read of '{array}' would see another element",
            (f"instance {instance(statement, at)} of '{statement.lowered.instruction.id}'",),
            sites=(statement.lowered.instruction.site(),),
        )
        return
    if not writers_of(old, array):
        return
    if not is_exact(new, array) or not is_exact(old, array):
        yield Diagnostic(
            "not-proven",
            f"'{array}' is written and copied ahead of its use, and its accesses are not known exactly",
            hints=("leave the array out of the prefetch",),
            sites=(statement.lowered.instruction.site(),),
        )
        return
    sources, initial = comparison.flow(array).of(leaf.statement, leaf.access)
    known, known_initial = _reference_flow(old, array).of(original, wanted)
    through = [(writer, leaf.relation.apply_range(link)) for writer, link in sources]
    before = leaf.relation.intersect_range(initial).domain()
    yield from _compare(comparison, (statement, leaf.access), through, before, (original, known, known_initial), to_reference)


def _elements(statement: Placed, access: Access) -> isl.Map:
    return map_from_forms(statement.domain, statement.dims, statement.indices(access))


def _accumulators(comparison: _Comparison) -> Iterator[Diagnostic]:
    """Each reduction collects its own terms: no other instance resets its accumulator in between."""
    new = comparison.new
    for name, accumulator in new.program.accumulators.items():
        group = [s for s in new.statements.values() if s.lowered.write.array == name]
        init = next(s for s in group if s.lowered.role == "init")
        users = [(s, a) for s, a in readers_of(new, name)]
        if _is_nested(new, init, [s for s, _ in users]):
            continue
        flow = flow_of(new, name, users, [init])
        wanted = {iname for iname in init.lowered.inames}
        del wanted
        for (user, access), sources, initial in zip(flow.reads, flow.sources, flow.initial, strict=True):
            bad = not initial.is_empty()
            for source, link in sources:
                same = _same_instance(user, source)
                bad = bad or not link.is_subset(same)
            if bad or not _precedes(new, group, user):
                yield Diagnostic(
                    "accumulator-clobbered",
                    f"the reduction in '{accumulator.instruction}' would mix the terms of several instances",
                    (f"its accumulator '{access.array}' is reset inside its own reduction",),
                    ("keep the reduction's loops inside the loops of its instruction",),
                    sites=(user.lowered.instruction.site(),),
                )
                return


def _precedes(placement: Placement, group: Sequence[Placed], user: Placed) -> bool:
    places = placement.program.places
    return all(places[s.name] <= places[user.name] for s in group if s.lowered.role == "init")


def _is_nested(placement: Placement, init: Placed, users: Sequence[Placed]) -> bool:
    """Return whether *init* and its users share every loop of *init* that does not index the accumulator."""
    places = placement.program.places
    indexing = {name for form in init.lowered.write.indices if form is not None for name in form.names()}
    mine = places[init.name]
    for user in users:
        theirs = places[user.name]
        depth = 0
        while depth < min(len(mine), len(theirs)) and mine[depth] == theirs[depth]:
            depth += 1
        own = [x for x in mine[depth:] if isinstance(x, str)]
        if not set(own) <= indexing or not mine[depth] < theirs[depth]:  # type: ignore[operator]
            return False
    updates = [s for s in users if s.lowered.role == "update"]
    rest = [s for s in users if s.lowered.role != "update"]
    for update in updates:
        for reader in rest:
            a, b = places[update.name], places[reader.name]
            depth = 0
            while depth < min(len(a), len(b)) and a[depth] == b[depth]:
                depth += 1
            if not a[depth] < b[depth]:  # type: ignore[operator]
                return False
            loops = [x for x in b[depth:] if isinstance(x, str)]
            if not set(loops) <= indexing:
                return False
    return True
