"""Terms of a reduction: each result has the terms of the program, each once, and in order.

A *term* is an instance of the update of the reference program.  A read of an accumulator sees updates
(:mod:`.accumulators`), and each adds its own term, or the terms of a value that is made of terms itself: a partial
result, a running total, the sum of a thread.  So ``{ read -> update }`` and ``{ update -> term }`` are composed until
only terms are left, and a result is right if

* the image is the terms that it has in the program: none is lost, and none belongs to another result,
* ``{ update -> (read, term) }`` is injective: each term is combined once,
* time is monotone in the terms: they are combined in their order, where that matters.

All three are proven for scans, and for reductions whose parts instructions store (``Partial``).  For any other
reduction the first two follow from simpler claims: its updates execute each term once (coverage), its accumulator
collects the updates of one instance, and each partial result is combined once.  Values that a transform computes ahead,
among them partial results, are followed operand by operand (:mod:`.values`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, assert_never

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.conflicts import conflicts, equal_on
from polyloop.dataflow.times import time_forms
from polyloop.dataflow.value_flow import is_exact, readers_of, writers_of
from polyloop.errors import Diagnostic, WitnessKind
from polyloop.expr.nodes import array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.instruction import Copy, Partial
from polyloop.kernel.kernel import memoised
from polyloop.mapping.thread_mapping import Placed, free_inames, reference_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import lex_relation, map_from_forms, project_onto, sample_pair
from polyloop.program.ir import Access, Assign, Combine, Init, Other, Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.proof.witness import element, instance, pair, witness
from polyloop.verification.accumulators import accumulator_obligations, collected, identity, result_of
from polyloop.verification.correspondence import Comparison, copies, operation_of, reference_flow
from polyloop.verification.origins import Use, known_inames

__all__ = [
    "ahead_violations",
    "reduction_obligations",
    "reduction_of",
    "reductions_in_parts",
    "term_order_obligations",
    "unknown_terms",
]

_IDEMPOTENT: Final = frozenset({"max", "min", "any", "all"})


def reduction_of(statement: Placed) -> tuple[str, int]:
    """Return the key of the reduction of a reference statement: its instruction, and its number there."""
    number = statement.lowered.number
    assert number is not None, f"{statement.name} belongs to no reduction"
    return statement.lowered.instruction.id, number


@memoised
def reductions_in_parts(comparison: Comparison) -> frozenset[tuple[str, int]]:
    """Return the keys of the reference reductions that the transformed program computes as scans or in parts."""
    found: set[tuple[str, int]] = set()
    for statement in comparison.new.statements.values():
        lowered = statement.lowered
        match lowered.instruction.origin:
            case Partial() as origin:
                found.add((origin.instruction, origin.number))
            case Copy() if lowered.along or any(read.kind is Other.START for read in lowered.reads):
                found.add(reduction_of(comparison.counterpart(statement)))
            case _:
                pass
    return frozenset(found)


def reduction_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations that the results of each reduction combine their own terms, each once."""
    yield from accumulator_obligations(comparison)
    for statement in comparison.new.statements.values():
        if _combines_partials(comparison, statement):
            name = statement.lowered.write.array
            says = f"the reduction of '{statement.lowered.instruction.id}' in '{name}' combines each partial result"
            by = "instances that combine, against those that begin a partial result"
            find = partial(_other_partials, comparison, statement)
            yield Obligation(Claim.REDUCTION, f"partial results of '{name}'", says + " exactly once", by, find)
    for reference in _updates_in_parts(comparison):
        says = f"each result of '{reference.lowered.instruction.id}' combines each of its terms once"
        if operation_of(reference).ordered:
            says += ", in their order"
        by = "terms that reach a result, through running totals and parts"
        yield Obligation(Claim.REDUCTION, f"'{reference.name}'", says, by, partial(_other_terms, comparison, reference))


def _updates_in_parts(comparison: Comparison) -> Iterator[Placed]:
    in_parts = reductions_in_parts(comparison)
    for reference in comparison.old.statements.values():
        if isinstance(reference.lowered.part, Update) and reduction_of(reference) in in_parts:
            yield reference


# {{{ partial results


def _combines_partials(comparison: Comparison, statement: Placed) -> bool:
    """Return True if a statement combines partial results of its own instruction, which it reads directly.

    Partial results in temporaries are followed to their terms like any other value, and so are sums of scans.
    """
    lowered, kernel = statement.lowered, comparison.kernel
    if not isinstance(lowered.part, Update) or lowered.along or isinstance(lowered.instruction.origin, Partial):
        return False
    passed_on = isinstance(lowered.rhs, p.Variable | p.Subscript) and array_name(lowered.rhs) in kernel.evaluations
    return operation_of(statement).of_states and not passed_on and comparison.part_of(lowered.rhs) is None


def _other_partials(comparison: Comparison, statement: Placed) -> Iterator[Diagnostic]:
    """Yield a diagnostic unless *statement* combines the partial result of each of its iterations, exactly once."""
    new, lowered, operation = comparison.new, statement.lowered, operation_of(statement)
    name = array_name(lowered.rhs) if isinstance(lowered.rhs, p.Variable | p.Subscript) else ""
    accumulator = new.program.accumulators.get(name)
    site = (lowered.instruction.site(),)
    if accumulator is None or replace(accumulator.reduction.operation, of_states=True) != operation:
        yield Diagnostic(
            "not-proven",
            f"'{show(lowered.rhs)}', which '{operation}' combines, is not known to be a partial result",
            hints=("leave the results of the inner reduction as they are",),
            sites=site,
        )
        return
    inner = next(s for s in writers_of(new, name) if isinstance(s.lowered.part, Update))
    looking_at(statement, inner)
    if not project_onto(inner.exact, inner.dims, statement.dims).is_subset(statement.exact):
        yield Diagnostic(
            "term-twice",
            f"the reduction in '{lowered.instruction.id}' would not count each of its terms once",
            (f"its partial results '{show(lowered.rhs)}' would not be combined once each",),
            sites=site,
        )


# }}}
# {{{ results that are combined of parts


class _NotShown(Exception):  # noqa: N818  # a signal within this module
    def __init__(self, found: Diagnostic) -> None:
        super().__init__(found.message)
        self.found = found


def _not_shown(reference: Placed, why: str) -> Diagnostic:
    return Diagnostic(
        "not-proven",
        f"not proven: each result of '{reference.lowered.instruction.id}' combines each of its terms once",
        (why,),
        ("realize the scan as the last step, when its loops are split and tagged",),
        sites=(reference.lowered.instruction.site(),),
    )


def _other_terms(comparison: Comparison, reference: Placed) -> Iterator[Diagnostic]:
    """Yield a diagnostic unless each result of *reference* combines its own terms, each once and in their order."""
    shared = _free(comparison, reference)
    if found := next(_changing(comparison, reference, shared), None):
        yield found
        return
    users = list(_results(comparison, reference))
    if not users:
        yield _not_shown(reference, "no instruction that uses its results was found")
    terms = _Terms(comparison, reference, _names(comparison, reference, shared))
    for user, access in users:
        looking_at(user, access, reference)
        try:
            yield from terms.differences(user, terms.of(user, access))
        except _NotShown as error:
            yield error.found
            return


def _results(comparison: Comparison, reference: Placed) -> Iterator[tuple[Placed, Access]]:
    """Yield the reads of the results of a reduction by the copies of its instruction."""
    new = comparison.new
    for name in new.program.accumulators:
        own = next(s for s in writers_of(new, name) if not isinstance(s.lowered.part, Init))
        if isinstance(own.lowered.instruction.origin, Copy) and comparison.stands_for(own, reference):
            for statement, access in readers_of(new, name):
                lowered = statement.lowered
                if lowered.instruction is own.lowered.instruction and isinstance(lowered.part, Assign):
                    yield statement, access


def _changing(comparison: Comparison, reference: Placed, free: frozenset[str]) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a term may have different values along the loops *free*, whose results share it."""
    lowered, old = reference.lowered, comparison.old
    if used := free.intersection(variables(lowered.rhs)):
        yield _not_shown(reference, f"its terms depend on {', '.join(sorted(used))}")
        return
    if lowered.bounds or any(a.array in old.program.accumulators for a in lowered.reads[:-1]):
        yield _not_shown(reference, "its terms depend on other reductions, or data decides which they are")
        return
    equal = [(n, n) for n, name in enumerate(reference.dims) if name not in free]
    same = lex_relation(reference.domain.get_space().map_from_set(), equal, None)
    same = same.intersect_domain(reference.domain).intersect_range(reference.domain)
    for read in lowered.reads:
        if read.leaf is None or not writers_of(old, read.array):
            continue
        if not is_exact(old, read.array) or not is_exact(comparison.new, read.array):
            yield _not_shown(reference, f"'{read.array}', which its terms read, is written where data decides")
            return
        for writer, link in reference_flow(old, read.array).of(reference, read)[0]:
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
    free = frozenset[str]()
    for statement in comparison.new.statements.values():
        lowered = statement.lowered
        origin = lowered.instruction.origin
        if not isinstance(origin, Copy | Partial) or origin.instruction != reference.lowered.instruction.id:
            continue
        if not isinstance(lowered.part, Assign | Init) and comparison.stands_for(statement, reference):
            free |= free_inames(statement, reference)
    return free.difference(reference.lowered.own)


def _names(comparison: Comparison, reference: Placed, shared: frozenset[str]) -> tuple[str, ...]:
    """Return the inames that identify a term: without the loops *shared* by results, and those that change no value."""
    for name in reference.dims:
        if name not in reference.lowered.own and not any(_changing(comparison, reference, shared | {name})):
            shared |= {name}
    return tuple(name for name in reference.dims if name not in shared)


@dataclass(frozen=True, eq=False)
class _Part:
    """Contribution of one statement to a value that is read.

    Attributes
    ----------
    relation
        ``{ instance that reads the value -> contributing instance }``.
    terms
        ``{ contributing instance -> term }``.
    time
        ``{ contributing instance -> time }``.  None for the value that the other parts are added to: it has one
        instance for each read, before all others.
    """

    statement: Placed
    relation: isl.Map
    terms: isl.Map
    time: isl.Map | None = None

    @property
    def reached(self) -> isl.Map:
        """``{ instance that reads the value -> term }``."""
        return self.relation.apply_range(self.terms)

    @property
    def owners(self) -> isl.Map:
        """``{ contributing instance -> [read -> term] }``, injective if each term is combined once."""
        return self.relation.reverse().range_product(self.terms)


class _Terms:
    """Terms of one reduction of the reference program in the values of the transformed program.

    A term is identified by the inames ``names`` of the reference update: loops along which results share terms, or
    along which terms keep their values, are projected out.  ``whole`` is ``{ instance of the update -> term }``.
    """

    def __init__(self, comparison: Comparison, reference: Placed, names: tuple[str, ...]) -> None:
        self.comparison = comparison
        self.new = comparison.new
        self.reference = reference
        self.operation = operation_of(reference)
        self.names = names
        self.whole = map_from_forms(reference.domain, reference.dims, [Affine.variable(x) for x in self.names])
        self.depth = max(len(place) for place in self.new.program.places.values())

    def of(self, reader: Placed, access: Access) -> isl.Map:
        """Return ``{ instance of reader -> term }`` for the value that *access* reads."""
        looking_at(reader, access)
        writers = writers_of(self.new, access.array)
        if not is_exact(self.new, access.array) or any(writer.lowered.is_conditional for writer in writers):
            raise self.refused(f"data decides what is in '{access.array}'")
        found, unset = collected(self.new, reader, access)
        if not unset.is_empty():
            raise self.refused(f"'{access.array}' would be read before it is set")
        return self.together(reader, [part for s, link in found.items() for part in self.parts(s, link)])

    def refused(self, why: str) -> _NotShown:
        """Return the exception for terms that cannot be determined."""
        return _NotShown(_not_shown(self.reference, why))

    def parts(self, statement: Placed, link: isl.Map) -> Iterator[_Part]:
        """Yield the contribution of *statement*; *link* leads to it from the reads.  A neutral init has none."""
        lowered = statement.lowered
        read: Access | None
        match lowered.part:
            case Update():
                time = map_from_forms(statement.domain, statement.dims, time_forms(self.new, statement, self.depth))
                yield _Part(statement, link, self.added(statement), time)
                return
            case Combine(across=across):
                read = next(read for read in lowered.reads if read.array == lowered.write.array)
                numbers = [Affine.variable(axis) for axis in reversed(across)]
                time = map_from_forms(statement.domain, statement.dims, numbers)
                yield _Part(statement, link.apply_range(_threads(statement)), self.of(statement, read), time)
                return
            case Init():
                read = next((read for read in lowered.reads if read.kind is Other.START), None)
            case Assign():
                if not isinstance(lowered.rhs, p.Variable | p.Subscript):
                    raise self.refused(f"'{lowered.instruction.id}' does more than to pass on a value")
                read = next(read for read in lowered.reads if read.array == array_name(lowered.rhs))
            case _:
                assert_never(lowered.part)
        if read is not None:
            yield _Part(statement, link, self.of(statement, read))

    def added(self, update: Placed) -> isl.Map:
        """Return ``{ instance -> term }`` of an update, which adds one term or a value made of several."""
        lowered, origin = update.lowered, update.lowered.instruction.origin
        if isinstance(lowered.rhs, p.Variable | p.Subscript) and self.holds_parts(array_name(lowered.rhs)):
            return self.of(update, next(read for read in lowered.reads if read.array == array_name(lowered.rhs)))
        if not isinstance(origin, Copy | Partial) or not self.comparison.stands_for(update, self.reference):
            raise self.refused(f"'{lowered.instruction.id}' combines other terms")
        forms = [form for x in self.names if (form := origin.forms.get(x)) is not None]
        if len(forms) < len(self.names):
            raise self.refused(f"which terms '{lowered.instruction.id}' combines is not seen")
        return map_from_forms(update.domain, update.dims, [form.substitute(update.forms) for form in forms])

    def holds_parts(self, name: str) -> bool:
        """Return True if a variable holds a value made of terms: an accumulator, a partial sum, or a copy of these."""
        kernel = self.comparison.kernel
        if name in kernel.evaluations:
            filler = kernel.instruction(kernel.evaluations[name]).expression
            return isinstance(filler, p.Variable | p.Subscript) and self.holds_parts(array_name(filler))
        return name in kernel.partials or name in self.new.program.accumulators

    def together(self, reader: Placed, parts: Sequence[_Part]) -> isl.Map:
        """Return ``{ instance of reader -> term }`` of all *parts*, which must be disjoint and, if need be, ordered."""
        result = isl.Map.empty(reader.domain.get_space().map_from_domain_and_range(self.whole.range().get_space()))
        once = self.operation.name not in _IDEMPOTENT or self.operation.ordered
        for part in parts:
            reached = part.reached
            if once and part.time is not None and not part.owners.is_injective():
                raise _NotShown(self.counted_twice(reader, part, _repeated(part)))
            if once and not result.is_disjoint(reached):
                raise _NotShown(self.counted_twice(reader, part, result.intersect(reached)))
            result = result.union(reached)
        if self.operation.ordered:
            self.check_order(reader, parts)
        return result.coalesce()

    def check_order(self, reader: Placed, parts: Sequence[_Part]) -> None:
        """Raise an exception if a later term is combined before an earlier one."""
        order = _order(self.comparison, self.reference)
        later = self.whole.reverse().apply_range(order.reverse()).apply_range(self.whole)
        for first in parts:
            for second in parts:
                if second.time is None:
                    continue
                together = first.relation.reverse().apply_range(second.relation)
                if first.time is not None:
                    before = isl.Map.lex_lt(first.time.range().get_space())
                    together = together.intersect(first.time.apply_range(before).apply_range(second.time.reverse()))
                wrong = first.terms.reverse().apply_range(together).apply_range(second.terms).intersect(later)
                if not wrong.is_empty():
                    found = sample_pair(wrong, self.names, self.names)
                    assert found is not None, "terms were found in another order"
                    raise _NotShown(self.disordered(reader, found[1], found[2]))

    def differences(self, user: Placed, found: isl.Map) -> Iterator[Diagnostic]:
        """Yield a diagnostic if the terms *found* of a result that *user* reads are not the reference program's."""
        plain = self.comparison.counterpart(user)
        around = map_from_forms(self.reference.domain, self.reference.dims, [Affine.variable(x) for x in plain.dims])
        wanted = reference_map(user, plain).apply_range(around.reverse().apply_range(self.whole))
        for some, all_of, what in ((wanted, found, "not be"), (found, wanted, "be")):
            if some.is_subset(all_of):
                continue
            values = sample_pair(some.subtract(all_of), user.dims, self.names)
            assert values is not None, "a term was found wrong"
            parameters, at, term = values
            yield Diagnostic(
                "scan-terms",
                f"a result of '{self.reference.lowered.instruction.id}' would not combine just its own terms",
                (f"the term {_shown(term)} would {what} part of instance {instance(user, {**parameters, **at})}",),
                ("keep the loops of the scan in the order of the program",),
                sites=(user.lowered.instruction.site(),),
            )
            return

    def counted_twice(self, reader: Placed, part: _Part, twice: isl.Map) -> Diagnostic:
        """Return the diagnostic for a term that reaches a value more than once."""
        found = sample_pair(twice, reader.dims, self.names)
        assert found is not None, "a term was found twice"
        parameters, at, term = found
        return Diagnostic(
            "term-twice",
            f"a term of the reduction in '{self.reference.lowered.instruction.id}' would be counted twice",
            (f"the term {_shown(term)} reaches instance {instance(reader, {**parameters, **at})} more than once",),
            ("let each loop add its own terms, and no others",),
            sites=(part.statement.lowered.instruction.site(),),
        )

    def disordered(self, reader: Placed, early: dict[str, int], late: dict[str, int]) -> Diagnostic:
        """Return the diagnostic for two terms that are combined in another order."""
        return Diagnostic(
            "illegal-order",
            f"terms of '{self.operation}' would be combined in another order",
            (f"the term {_shown(early)} would be combined before the term {_shown(late)}",),
            ("keep the order of the scan's loops",),
            sites=(reader.lowered.instruction.site(),),
        )


def _threads(combine: Placed) -> isl.Map:
    """Return ``{ instance of a combine -> instances }`` on the threads whose values it receives."""
    part = combine.lowered.part
    assert isinstance(part, Combine), f"{combine.name} combines nothing"
    space = combine.domain.get_space().map_from_set()
    others = [(n, n) for n, name in enumerate(combine.dims) if name not in part.across]
    if not part.reduction.along:
        whole = lex_relation(space, others, None)
    else:
        (axis,) = part.across
        position = combine.dims.index(axis)
        whole = lex_relation(space, others, (position, position)).reverse()
        if not part.after:
            whole = whole.union(lex_relation(space, [(n, n) for n in range(len(combine.dims))], None))
    return whole.intersect_domain(combine.domain).intersect_range(combine.domain)


def _repeated(part: _Part) -> isl.Map:
    """Return ``{ read -> term }`` of the terms that several instances of a part contribute to one value."""
    owners = part.owners.reverse()
    space = part.statement.domain.get_space().map_from_set()
    same = lex_relation(space, [(n, n) for n in range(len(part.statement.dims))], None)
    other = isl.Map.universe(space).subtract(same)
    return owners.intersect(owners.apply_range(other)).domain().unwrap()


def _shown(values: dict[str, int]) -> str:
    return f"({', '.join(f'{name}={value}' for name, value in values.items())})"


# }}}
# {{{ results that are computed ahead


def ahead_violations(comparison: Comparison, use: Use, whole: Use) -> Iterator[Diagnostic]:
    """Yield a diagnostic if a reduction that is computed ahead lacks terms of a using instance, or has others.

    The terms of an instance agree with it in all inames that it determines; inside of another reduction, with its term.
    If the reader combines partial results, its instances for one result must have the terms of that result together.
    """
    reader, update, terms = use.reader, use.old.lowered, use.left
    looking_at(use.new, use.old)
    if operation_of(use.old).ordered:
        text = f"the order of the terms of '{operation_of(use.old)}' would change where they are computed ahead"
        yield _not_ahead(text, reader)
        return
    if terms is None:
        yield unknown_terms(use)
        return
    known, result = known_inames(reader, use.old), identity(reader)
    is_part = comparison.combines(reader)
    if is_part:
        known = {name: form for name, form in known.items() if name not in update.own}
        result = result_of(comparison, reader)
    result = result.intersect_domain(whole.place.intersect_domain(whole.right.domain()).range())
    same = map_from_forms(reader.domain, reader.dims, [form.substitute(reader.forms) for form in known.values()])
    outer = map_from_forms(use.old.domain, use.old.dims, [Affine.variable(name) for name in known])
    wanted = result.reverse().apply_range(same).apply_range(outer.reverse())
    part = _Part(use.new, use.place.apply_range(result).reverse(), terms)
    is_known = not is_part or {*update.inames} <= {*known, *update.own}
    if not is_known or not part.reached.is_equal(wanted) or not part.owners.is_injective():
        yield Diagnostic(
            "term-twice",
            f"the reduction in '{update.instruction.id}' would not count each of its terms once",
            ("the reduction that is computed ahead has other terms",),
            sites=(reader.lowered.instruction.site(),),
        )


def unknown_terms(use: Use) -> Diagnostic:
    """Return the diagnostic for a reduction computed ahead whose terms do not follow from its place."""
    text = f"the terms of '{use.old.lowered.instruction.id}' are not found where they are computed"
    return _not_ahead(text, use.reader)


def _not_ahead(message: str, reader: Placed) -> Diagnostic:
    hints, sites = ("leave it out of the prefetch or precomputation",), (reader.lowered.instruction.site(),)
    return Diagnostic("not-proven", message, hints=hints, sites=sites)


# }}}
# {{{ the order of terms


def term_order_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligations of reductions with an ordered operation: terms are combined in the order of the program."""
    in_parts = reductions_in_parts(comparison)
    for reference in comparison.old.statements.values():
        if not isinstance(reference.lowered.part, Update) or not operation_of(reference).ordered:
            continue
        if reduction_of(reference) not in in_parts:
            name = reference.lowered.instruction.id
            says = f"the terms of '{operation_of(reference)}' in '{name}' are combined in their order"
            by = "pairs of terms of one result, against the program's"
            yield Obligation(Claim.TERMS, f"'{reference.name}'", says, by, partial(_reordered, comparison, reference))


def _reordered(comparison: Comparison, reference: Placed) -> tuple[Diagnostic, ...]:
    """Return a diagnostic if two terms of one result are combined in reverse order or at the same time."""
    wanted = _order(comparison, reference)
    new = comparison.new
    statements = list(copies(comparison, reference))
    for first in statements:
        for second in statements:
            back, there = reference_map(first, reference), reference_map(second, reference)
            pairs = back.apply_range(wanted).apply_range(there.reverse())
            pairs = equal_on(pairs, first, second, tuple(first.repeated & second.repeated))
            for backward in conflicts(new, second, first, pairs.reverse()):
                late, early = pair(backward.relation, second, first)
                what = "at the same time" if backward.simultaneous else "in another order"
                before, after = instance(first, early), instance(second, late)
                finding = Diagnostic(
                    "illegal-order",
                    f"terms of '{operation_of(reference)}' would be combined {what}",
                    (f"the term of instance {before} comes before that of instance {after} in the program",),
                    ("keep the order of the reduction's loops, or reduce without 'ordered' if any order will do",),
                    sites=(first.lowered.instruction.site(),),
                    witness=witness(WitnessKind.REORDERED, (first, first.lowered.write, early), (first, early),
                                    (second, late)),
                )
                return (finding,)
    return ()


def _order(comparison: Comparison, reference: Placed) -> isl.Map:
    """Return the pairs of instances whose terms belong to one result, the earlier term first."""
    lowered = reference.lowered
    around = [n for n, name in enumerate(reference.dims) if name not in lowered.own]
    own = [reference.dims.index(name) for name in lowered.own]
    space = reference.domain.get_space().map_from_set()
    together = [(n, n) for n in around]
    result = isl.Map.empty(space)
    if lowered.joined:
        for conflict in conflicts(comparison.old, reference, reference, lex_relation(space, together, None)):
            result = result.union(conflict.relation)
    else:
        for position, dim in enumerate(own):
            equal = [*together, *((n, n) for n in own[:position])]
            result = result.union(lex_relation(space, equal, (dim, dim)))
    return result.intersect_domain(reference.domain).intersect_range(reference.domain)


# }}}
