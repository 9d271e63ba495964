"""Reductions whose results are combined of parts: running totals, partial sums, scans over threads.

For each result the terms are found that reach it, through every accumulator and temporary in between. They must be its
terms in the reference program, each once, and, where the operation is not commutative, in their order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.conflicts import conflicts
from polyloop.dataflow.value_flow import flow_of, is_exact, time_forms, writers_of
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import variables
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy, Partial
from polyloop.kernel.kernel import memoised
from polyloop.mapping.thread_mapping import Placed, common_loops, free_inames, reference_map, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looked_at, looking_at
from polyloop.poly.sets import lex_relation, map_from_forms, sample_pair
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair
from polyloop.verification.correspondence import Comparison, reference_flow

__all__ = ["reduction_of", "reductions_in_parts", "scan_obligations"]

_IDEMPOTENT = frozenset({"max", "min", "any", "all"})


def reduction_of(statement: Placed) -> tuple[str, int]:
    """Return what names the reduction of the reference program that *statement* belongs to."""
    number = statement.lowered.number
    assert number is not None, f"{statement.name} belongs to no reduction"
    return statement.lowered.instruction.id, number


@memoised
def reductions_in_parts(comparison: Comparison) -> frozenset[tuple[str, int]]:
    """Return the reductions of the reference program whose results are combined of parts."""
    found: set[tuple[str, int]] = set()
    for statement in comparison.new.statements.values():
        lowered = statement.lowered
        match lowered.instruction.origin:
            case Partial() as origin:
                found.add((origin.instruction, origin.number))
            case Copy() if lowered.along or any(read.is_start for read in lowered.reads):
                found.add(reduction_of(comparison.counterpart(statement)))
            case _:
                pass
    return frozenset(found)


def scan_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the reductions whose results are combined of parts."""
    in_parts = reductions_in_parts(comparison)
    for reference in comparison.old.statements.values():
        if reference.lowered.role == "update" and reduction_of(reference) in in_parts:
            says = f"each result of '{reference.lowered.instruction.id}' combines each of its terms once"
            if _is_ordered(reference):
                says += ", in their order"
            by = "terms that reach a result, through running totals and parts"
            find = partial(_problems, comparison, reference)
            yield Obligation(Claim.REDUCTION, f"'{reference.name}'", says, by, find)


def _is_ordered(reference: Placed) -> bool:
    operation = reference.lowered.operation
    assert operation is not None, "an update has an operation"
    return operation.ordered


def _problems(comparison: Comparison, reference: Placed) -> Iterator[Diagnostic]:
    if found := next(_invariance(comparison, reference, _free(comparison, reference)), None):
        yield found
        return
    users = list(_results(comparison, reference))
    if not users:
        yield _not_shown(reference, "no instruction is seen to use its results")
    terms = _Terms(comparison, reference)
    for user, access in users:
        looking_at(user, access, reference)
        try:
            yield from _compared(comparison, reference, terms.named, user, terms.of(user, access))
        except _NotShown as error:
            yield error.found
            return


def _results(comparison: Comparison, reference: Placed) -> Iterator[tuple[Placed, Access]]:
    """Yield the reads of the results of a reduction by the copies of its instruction."""
    new = comparison.new
    for name in new.program.accumulators:
        own = [s for s in new.statements.values() if s.lowered.writes_to(name) and s.lowered.role != "init"]
        origin = own[0].lowered.instruction.origin
        if isinstance(origin, Copy) and comparison.counterpart(own[0]) is reference:
            for statement in new.statements.values():
                lowered = statement.lowered
                if lowered.instruction is own[0].lowered.instruction and lowered.role == "plain":
                    yield from ((statement, access) for access in lowered.reads if access.array == name)


def _not_shown(reference: Placed, why: str) -> Diagnostic:
    return Diagnostic(
        "not-proven",
        f"not proven: each result of '{reference.lowered.instruction.id}' combines each of its terms once",
        (why,),
        ("realize the scan as the last step, when its loops are split and tagged",),
        sites=(reference.lowered.instruction.site(),),
    )


def _invariance(comparison: Comparison, reference: Placed, free: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield why one term may have different values along the loops *free*, for different results."""
    lowered = reference.lowered
    if used := free.intersection(variables(lowered.rhs)):
        yield _not_shown(reference, f"its terms depend on {', '.join(sorted(used))}")
        return
    if lowered.bounds or any(a.array in comparison.old.program.accumulators for a in lowered.reads[:-1]):
        yield _not_shown(reference, "its terms depend on other reductions, or data decides which they are")
        return
    equal = [(n, n) for n, name in enumerate(reference.dims) if name not in free]
    same = lex_relation(reference.domain.get_space().map_from_set(), equal, None)
    same = same.intersect_domain(reference.domain).intersect_range(reference.domain)
    for read in lowered.reads:
        if read.leaf is None or not writers_of(comparison.old, read.array):
            continue
        if not is_exact(comparison.old, read.array) or not is_exact(comparison.new, read.array):
            yield _not_shown(reference, f"'{read.array}', which its terms read, is written where data decides")
            return
        sources, _ = reference_flow(comparison.old, read.array).of(reference, read)
        for writer, link in sources:
            changed = same.apply_range(link).subtract(link)
            if not changed.is_empty():
                at, _ = pair(changed, reference, writer)
                yield Diagnostic(
                    "scan-changing-term",
                    f"a term of '{lowered.instruction.id}' changes from result to result",
                    (
                        f"instance {instance(reference, at)} reads {element(reference, read, at)}, which is written "
                        "between that result and another one with the same term",
                    ),
                    ("compute the terms before the scan, in a loop of their own",),
                    sites=(lowered.instruction.site(),),
                )
                return


def _free(comparison: Comparison, reference: Placed) -> frozenset[str]:
    """Return the loops of the reference program along which results share terms."""
    free: set[str] = set()
    for statement in comparison.new.statements.values():
        lowered = statement.lowered
        origin = lowered.instruction.origin
        if not isinstance(origin, Copy | Partial) or origin.instruction != reference.lowered.instruction.id:
            continue
        if lowered.role not in ("plain", "init") and comparison.counterpart(statement) is reference:
            free |= free_inames(statement, reference)
    return frozenset(free.difference(reference.lowered.own))


def _named(comparison: Comparison, reference: Placed) -> tuple[str, ...]:
    """Return the loops of the reference program that tell terms of different values apart."""
    shared = _free(comparison, reference)
    for name in reference.dims:
        if name not in reference.lowered.own and not any(_invariance(comparison, reference, shared | {name})):
            shared |= {name}
    return tuple(name for name in reference.dims if name not in shared)


class _NotShown(Exception):  # noqa: N818  # a signal within this module
    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


@dataclass(frozen=True, eq=False)
class _Part:
    """What contributes to a value: instances of ``statement``, each with the terms ``{ instance -> term }``.

    ``relation`` leads from the instances that read the value.  ``time`` orders the instances; those of a part without
    come before all others.
    """

    statement: Placed
    relation: isl.Map
    terms: isl.Map
    time: isl.Map | None = None

    @property
    def reached(self) -> isl.Map:
        return self.relation.apply_range(self.terms)

    def repeats(self) -> bool:
        """Return whether two of the instances that a reader gets have a term in common.

        They have where an instance does not follow from a reader and a term.  It follows from the reader alone where
        that gets one instance: ISL is quick to see it of what is read, and of sums of several it is not so.
        """
        if self.time is None and self.relation.is_single_valued():
            return False
        return not self.relation.reverse().range_product(self.terms).is_injective()


@dataclass(frozen=True, eq=False)
class _Trail:
    """What was looked at to find what a value consists of.

    Attributes
    ----------
    parts
        The reads behind it, with what they consist of.
    roles
        Whether statements combine terms of the reduction themselves; whether variables, by their names, hold parts.
    """

    parts: list[tuple[Placed, Access, isl.Map]] = field(default_factory=list)
    roles: list[tuple[Placed | str, bool]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Known:
    """What a read value consists of, and what showed it, for programs that have the statements in common."""

    terms: isl.Map
    trail: _Trail
    relations: int


@memoised
def _known_terms(reader: Placed) -> dict[tuple[Hashable, ...], _Known]:
    """Return where it is kept what the values consist of that *reader* reads."""
    del reader
    return {}


class _Terms:
    """The terms of one reduction of the reference program that values of the transformed program are made of.

    A term is known by its instance of the reduction, apart from loops along which it is the same: by ``named``.

    A step changes few statements of a scan: what a value consists of is looked up where the statements that write it
    are the same as in a program before, in the same loops and order, and what they combine consists of the same.
    """

    def __init__(self, comparison: Comparison, reference: Placed) -> None:
        self.comparison = comparison
        self.new = comparison.new
        self.reference = reference
        operation = reference.lowered.operation
        assert operation is not None, "an update has an operation"
        self.operation = operation
        self.named = _named(comparison, reference)
        self.depth = max(len(place) for place in self.new.program.places.values())
        self.trails = [_Trail()]

    def of(self, reader: Placed, access: Access) -> isl.Map:
        """Return ``{ instance of reader -> term }``: what the value read consists of."""
        looking_at(reader, access)
        writers = writers_of(self.new, access.array)
        bases = [writer for writer in writers if writer.lowered.role != "update"]
        updates = [writer for writer in writers if writer.lowered.role == "update"]
        if any(not is_exact(self.new, access.array) or writer.lowered.is_conditional for writer in writers):
            raise self._refused(f"data decides what is in '{access.array}'")
        known, key = _known_terms(reader), self._key(reader, access, writers)
        if key not in known or not self._holds(known[key]):
            count = looked_at()
            self.trails.append(_Trail())
            terms = self._found(reader, access, bases, updates)
            known[key] = _Known(terms, self.trails.pop(), looked_at() - count)
        found = known[key].terms
        self.trails[-1].parts.append((reader, access, found))
        return found

    def _key(self, reader: Placed, access: Access, writers: Sequence[Placed]) -> tuple[Hashable, ...]:
        """Return what decides about a value besides what its parts are: who writes it, in which loops and order."""
        everyone = (reader, *writers)
        order = tuple(common_loops(self.new, one, other) for one in everyone for other in everyone)
        return (id(access), self.reference, self.named, self.new.spaces[access.array], *writers, order)

    def _holds(self, known: _Known) -> bool:
        """Return whether what showed what a value consists of is so here, too."""
        if any(self._role(subject) != found for subject, found in known.trail.roles):
            return False
        count = looked_at()
        self.trails.append(_Trail())
        same = all(self.of(statement, access) is terms for statement, access, terms in known.trail.parts)
        self.trails.pop()
        if same:
            looking_at(number=known.relations - (looked_at() - count))
        return same

    def _role(self, subject: Placed | str) -> bool:
        """Return whether a statement combines terms of the reduction itself, or a variable holds what others have."""
        if isinstance(subject, str):
            found = self._holds_parts(subject)
        else:
            origin = subject.lowered.instruction.origin
            found = isinstance(origin, Copy | Partial) and self.comparison.counterpart(subject) is self.reference
        self.trails[-1].roles.append((subject, found))
        return found

    def _found(
        self, reader: Placed, access: Access, bases: Sequence[Placed], updates: Sequence[Placed]
    ) -> isl.Map:
        flow = flow_of(self.new, access.array, [(reader, access)], bases)
        if not flow.initial[0].is_empty():
            raise self._refused(f"'{access.array}' would be read before it is set")
        parts: list[_Part] = []
        for base, link in flow.sources[0]:
            parts += self._written(base, link)
            for update in updates:
                between = self._between(base, link, update, (reader, access))
                if not between.is_empty():
                    parts.append(_Part(update, between, self._term(update), self._time(update)))
        return self._together(reader, parts)

    def _refused(self, why: str) -> _NotShown:
        return _NotShown(_not_shown(self.reference, why))

    def _time(self, statement: Placed) -> isl.Map:
        return map_from_forms(statement.domain, statement.dims, time_forms(self.new, statement, self.depth))

    def _between(self, base: Placed, link: isl.Map, update: Placed, read: tuple[Placed, Access]) -> isl.Map:
        """Return ``{ read -> update }``: what is added after the value that *link* leads to, and before the read."""
        reader, access = read
        space = self.new.spaces[access.array]
        cells = storage_map(self.new, update, update.lowered.write, space)
        seen = storage_map(self.new, reader, access, space).apply_range(cells.reverse())
        before = isl.Map.empty(seen.get_space().reverse())
        for conflict in conflicts(self.new, update, reader, seen.reverse()):
            before = before if conflict.simultaneous else before.union(conflict.relation)
        (write,) = base.lowered.writes_to(access.array)
        added = storage_map(self.new, base, write, space).apply_range(cells.reverse())
        after = isl.Map.empty(added.get_space())
        for conflict in conflicts(self.new, base, update, added):
            after = after if conflict.simultaneous else after.union(conflict.relation)
        return link.apply_range(after).intersect(before.reverse()).coalesce()

    def _written(self, base: Placed, link: isl.Map) -> Iterator[_Part]:
        """Yield the parts of a value that *base* sets."""
        lowered = base.lowered
        read = next((read for read in lowered.reads if read.is_start), None)
        if lowered.role == "combine":
            own = self.of(base, next(read for read in lowered.reads if read.array == lowered.write.array))
            yield _Part(base, link.apply_range(self._threads(base)), own, self._numbers(base))
            return
        if lowered.role == "plain":
            if not isinstance(lowered.rhs, p.Variable | p.Subscript):
                raise self._refused(f"'{lowered.instruction.id}' does more than to pass on a value")
            name = array_name(lowered.rhs)
            read = next(read for read in lowered.reads if read.array == name)
        if read is not None:
            yield _Part(base, link, self.of(base, read))

    def _threads(self, combine: Placed) -> isl.Map:
        """Return ``{ instance -> instances }``: the threads whose values one of them gets."""
        lowered = combine.lowered
        space = combine.domain.get_space().map_from_set()
        others = [(n, n) for n, name in enumerate(combine.dims) if name not in lowered.across]
        if not lowered.along:
            whole = lex_relation(space, others, None)
        else:
            (axis,) = lowered.across
            position = combine.dims.index(axis)
            whole = lex_relation(space, others, (position, position)).reverse()
            if not lowered.after:
                whole = whole.union(lex_relation(space, [(n, n) for n in range(len(combine.dims))], None))
        return whole.intersect_domain(combine.domain).intersect_range(combine.domain)

    def _numbers(self, combine: Placed) -> isl.Map:
        """Return ``{ instance -> thread }``, in the order in which a scan combines what threads have."""
        forms = [Affine.variable(axis) for axis in reversed(combine.lowered.across)]
        return map_from_forms(combine.domain, combine.dims, forms)

    def _term(self, statement: Placed) -> isl.Map:
        """Return ``{ instance -> term }`` of a statement that combines one term, or one value made of terms."""
        lowered = statement.lowered
        if isinstance(lowered.rhs, p.Variable | p.Subscript):
            name = array_name(lowered.rhs)
            if self._role(name):
                return self.of(statement, next(read for read in lowered.reads if read.array == name))
        origin = lowered.instruction.origin
        if not isinstance(origin, Copy | Partial) or not self._role(statement):
            raise self._refused(f"'{lowered.instruction.id}' combines other terms")
        forms = [origin.forms[iname].substitute(statement.forms) for iname in self.named]
        known = {*statement.dims, *parameters_of(statement.domain)}
        if any(not form.names() <= known for form in forms):
            raise self._refused(f"which terms '{lowered.instruction.id}' combines is not seen")
        return map_from_forms(statement.domain, statement.dims, forms)

    def _holds_parts(self, name: str) -> bool:
        """Return whether a variable holds what other statements have combined."""
        kernel = self.comparison.kernel
        if name in kernel.evaluations:
            filler = kernel.instruction(kernel.evaluations[name]).expression
            return isinstance(filler, p.Variable | p.Subscript) and self._holds_parts(array_name(filler))
        return name in kernel.partials or name in self.new.program.accumulators

    def _together(self, reader: Placed, parts: list[_Part]) -> isl.Map:
        """Return all terms of *parts*, which must be disjoint, and in their order if that matters."""
        space = reader.domain.get_space().map_from_domain_and_range(self._space())
        result = isl.Map.empty(space)
        once = self.operation.name not in _IDEMPOTENT or self.operation.ordered
        for part in parts:
            reached = part.reached
            if once and part.repeats():
                raise _NotShown(self._counted_twice(reader, part, self._twice(part)))
            if once and not result.is_disjoint(reached):
                raise _NotShown(self._counted_twice(reader, part, result.intersect(reached)))
            result = result.union(reached)
        if self.operation.ordered:
            self._check_order(reader, parts)
        return result.coalesce()

    def _space(self) -> isl.Space:
        forms = [Affine.variable(name) for name in self.named]
        return map_from_forms(self.reference.domain, self.reference.dims, forms).range().get_space()

    def _twice(self, part: _Part) -> isl.Map:
        """Return the terms that several instances of a part contribute to one value."""
        owners = part.relation.reverse().range_product(part.terms).reverse()
        space = part.statement.domain.get_space().map_from_set()
        count = len(part.statement.dims)
        other = isl.Map.universe(space).subtract(lex_relation(space, [(n, n) for n in range(count)], None))
        return owners.intersect(owners.apply_range(other)).domain().unwrap()

    def _counted_twice(self, reader: Placed, part: _Part, twice: isl.Map) -> Diagnostic:
        found = sample_pair(twice, reader.dims, self.named)
        assert found is not None, "a term was found twice"
        parameters, at, term = found
        return Diagnostic(
            "term-twice",
            f"a term of the reduction in '{self.reference.lowered.instruction.id}' would be counted twice",
            (f"the term {_shown(term)} reaches instance {instance(reader, {**parameters, **at})} more than once",),
            ("let each loop add its own terms, and no others",),
            sites=(part.statement.lowered.instruction.site(),),
        )

    def _check_order(self, reader: Placed, parts: list[_Part]) -> None:
        """Check that what is combined first are earlier terms."""
        earlier = isl.Map.lex_lt(self._space())
        for first in parts:
            for second in parts:
                if first.time is None and (second.time is None or first is second):
                    continue
                together = first.relation.reverse().apply_range(second.relation)
                if first.time is not None and second.time is not None:
                    before = isl.Map.lex_lt(first.time.range().get_space())
                    together = together.intersect(first.time.apply_range(before).apply_range(second.time.reverse()))
                elif second.time is None:
                    continue
                wrong = first.terms.reverse().apply_range(together).apply_range(second.terms).subtract(earlier)
                if not wrong.is_empty():
                    found = sample_pair(wrong, self.named, self.named)
                    assert found is not None, "terms were found in another order"
                    raise _NotShown(self._disordered(reader, found[1], found[2]))

    def _disordered(self, reader: Placed, early: dict[str, int], late: dict[str, int]) -> Diagnostic:
        return Diagnostic(
            "illegal-order",
            f"terms of '{self.operation}' would be combined in another order",
            (f"the term {_shown(early)} would be combined before the term {_shown(late)}",),
            ("keep the order of the scan's loops",),
            sites=(reader.lowered.instruction.site(),),
        )


def _shown(values: dict[str, int]) -> str:
    return f"({', '.join(f'{name}={value}' for name, value in values.items())})"


def _compared(
    comparison: Comparison, reference: Placed, named: Sequence[str], user: Placed, found: isl.Map
) -> Iterator[Diagnostic]:
    """Yield where the terms *found* are not those of the reference program."""
    plain = comparison.counterpart(user)
    results = map_from_forms(reference.domain, reference.dims, [Affine.variable(name) for name in plain.dims])
    terms = map_from_forms(reference.domain, reference.dims, [Affine.variable(name) for name in named])
    wanted = reference_map(user, plain).apply_range(results.reverse().apply_range(terms))
    for some, all_of, what in ((wanted, found, "not be"), (found, wanted, "be")):
        if some.is_subset(all_of):
            continue
        wrong = some.subtract(all_of)
        values = sample_pair(wrong, user.dims, named)
        assert values is not None, "a term was found wrong"
        parameters, at, term = values
        yield Diagnostic(
            "scan-terms",
            f"a result of '{reference.lowered.instruction.id}' would not combine just its own terms",
            (f"the term {_shown(term)} would {what} part of instance {instance(user, {**parameters, **at})}",),
            ("keep the loops of the scan in the order of the program",),
            sites=(user.lowered.instruction.site(),),
        )
        return
