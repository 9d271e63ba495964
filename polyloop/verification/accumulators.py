"""Accumulators of reductions: for each read of one, the updates that it sees.

A read sees the last write that set the accumulator anew, and the updates since then:

    since(read) = last reset(read) . last reset(update)^-1, restricted to updates that run before the read

An accumulator is set (*init*), collects terms (*update*), is combined with those of other threads (*combine*), and is
read.  In most programs the loop tree proves that all of this is in one iteration of the loops around the reduction
(:func:`is_nested`).  Then a read sees the updates that agree with it in these loops.

Where a transform has made two reductions of one, ``sum(k_outer, sum(k_inner, a[..]))``, the outer one combines *partial
results*, and its operation is ``of_states``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from typing import Final

import islpy as isl

from polyloop.dataflow.conflicts import conflicts
from polyloop.dataflow.uniformity import divergent_reductions
from polyloop.dataflow.value_flow import flow_of, readers_of, writers_of
from polyloop.errors import Diagnostic
from polyloop.kernel.instruction import Copy
from polyloop.mapping.thread_mapping import Placed, Placement, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_axis
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import Access, Combine, Init, Lowered, Update
from polyloop.proof.obligation import Claim, Obligation
from polyloop.verification.correspondence import Comparison

__all__ = [
    "PARTIAL_RESULTS",
    "accumulator_obligations",
    "collected",
    "combiner",
    "evaluated",
    "identity",
    "outermost",
    "result_of",
]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out

PARTIAL_RESULTS: Final = (
    "let each block have a partial result with stage_reduction or reduce_atomically, or keep the loop sequential"
)
"""Hint for terms that are not added to one accumulator."""


def identity(statement: Placed) -> isl.Map:
    """Return ``{ instance -> the same instance }``."""
    forms = [Affine.variable(name) for name in statement.dims]
    return map_from_forms(statement.domain, statement.dims, forms)


def same_instance(outer: Placed, inner: Placed) -> isl.Map:
    """Return ``{ instance of outer -> instances of inner }`` that agree on the dimensions they share."""
    space = outer.domain.get_space().map_from_domain_and_range(inner.domain.get_space())
    whole = isl.Map.universe(space).intersect_domain(outer.domain).intersect_range(inner.domain)
    for position, name in enumerate(outer.dims):
        if name in inner.dims:
            whole = whole.equate(_IN, position, _OUT, inner.dims.index(name))
    return whole


def evaluated(whole: Placed, part: Placed) -> isl.Map:
    """Return ``{ instance of whole -> instances of part }`` that contribute to its value, *part* being of a reduction.

    If the reduction is spread over threads, instances on all of them contribute to the value on each.
    """
    inside = {x for x in part.lowered.inames if x not in part.lowered.instruction.inames}
    spread = {name for x in inside if x in part.forms for name in part.forms[x].names()}
    if not spread:
        return same_instance(whole, part)
    common = [name for name in whole.dims if name in part.dims and name not in spread]
    shared = [x for x in whole.lowered.inames if x in whole.forms and not spread.isdisjoint(whole.forms[x].names())]
    left = [*map(Affine.variable, common), *(whole.forms[x] for x in shared)]
    right = [*map(Affine.variable, common), *(part.forms[x] for x in shared)]
    there = map_from_forms(whole.domain, whole.dims, left)
    return there.apply_range(map_from_forms(part.domain, part.dims, right).reverse())


_STAGES: Final = (Init, Update, Combine)
_USE: Final = len(_STAGES)


def is_nested(placement: Placement, accumulator: str) -> bool:
    """Return True if the loop tree proves that each read of an accumulator sees the terms of its own instance.

    In the loops that two of its statements share, the earlier stage (init, update, combine, use) must come first.  The
    init must set each element once, so around it alone there are only loops that index the accumulator.
    """
    places = placement.program.places
    users = dict.fromkeys([*writers_of(placement, accumulator), *(s for s, _ in readers_of(placement, accumulator))])
    stages = [(s, _STAGES.index(type(s.lowered.part)) if s.lowered.writes_to(accumulator) else _USE) for s in users]
    init = next(s for s, stage in stages if stage == 0)
    indexing = {name for form in init.lowered.write.indices if form is not None for name in form.names()}
    for (first, early), (second, late) in product(stages, stages):
        if early < late:
            a, b = places[first.name], places[second.name]
            depth = next(n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
            own = {x for x in a[depth:] if isinstance(x, str)} if first is init else set()
            if not a[depth] < b[depth] or not own <= indexing:  # type: ignore[operator]
                return False
    return True


# {{{ what a read of an accumulator sees


def collected(placement: Placement, reader: Placed, access: Access) -> tuple[dict[Placed, isl.Map], isl.Set]:
    """Return ``{ read -> contributing instances }`` by statement, and the reads that see no value.

    Contributions are the last write that sets the value anew, and the updates since then.
    """
    array = access.array
    writers = writers_of(placement, array)
    if array in placement.program.accumulators and not writers[0].lowered.along and is_nested(placement, array):
        nothing = isl.Set.empty(reader.domain.get_space())
        return {s: same_instance(reader, s) for s in _collected_by(writers, reader)}, nothing
    flow = flow_of(placement, array, [(reader, access)], [s for s in writers if not isinstance(s.lowered.part, Update)])
    links = dict(flow.sources[0])
    for reset, link in flow.sources[0]:
        for update in (s for s in writers if isinstance(s.lowered.part, Update)):
            between = _between(placement, (reset, link), update, (reader, access))
            if not between.is_empty():
                links[update] = links[update].union(between) if update in links else between
    return links, flow.initial[0]


def _collected_by(group: Sequence[Placed], reader: Placed) -> list[Placed]:
    """Return the statements of *group* whose values *reader* sees: the combine if there is one, else all others."""
    before = [s for s in group if s is not reader]
    return [s for s in before if isinstance(s.lowered.part, Combine)] or before


def _between(
    placement: Placement, reset: tuple[Placed, isl.Map], update: Placed, read: tuple[Placed, Access]
) -> isl.Map:
    """Return ``{ read -> update }``: updates after the write to which *reset* leads, and before the read."""
    (base, link), (reader, access) = reset, read
    (write,) = base.lowered.writes_to(access.array)
    space = placement.spaces[access.array]
    cells = storage_map(placement, update, update.lowered.write, space).reverse()
    added = storage_map(placement, base, write, space).apply_range(cells)
    seen = storage_map(placement, reader, access, space).apply_range(cells)
    after, before = _earlier(placement, base, update, added), _earlier(placement, update, reader, seen.reverse())
    return link.apply_range(after).intersect(before.reverse()).coalesce()


def _earlier(placement: Placement, first: Placed, second: Placed, pairs: isl.Map) -> isl.Map:
    """Return those of *pairs*, of two different statements, in which the first instance runs before the second."""
    relations = (conflict.relation for conflict in conflicts(placement, first, second, pairs))
    return reduce(isl.Map.union, relations, isl.Map.empty(pairs.get_space()))


def accumulator_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield the obligation of each accumulator to hold the terms of one instance; for scans see ``reduction_terms``."""
    new = comparison.new
    for name, accumulator in new.program.accumulators.items():
        if any(s.lowered.along for s in writers_of(new, name)):
            continue
        says = f"the reduction of '{accumulator.instruction}' in '{name}' collects the terms of one instance"
        if across := next((s.lowered.across for s in writers_of(new, name) if isinstance(s.lowered.part, Init)), ()):
            says += f", partial results of the threads along {', '.join(across)}, and all of these combine them once"
        by = "loops that initialization, terms and readers share, or their dataflow"
        yield Obligation(Claim.REDUCTION, f"'{name}'", says, by, partial(_of_other_instances, comparison, name))


def _of_other_instances(comparison: Comparison, name: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic if some read of an accumulator sees other terms than those of its own instance."""
    new = comparison.new
    group = writers_of(new, name)
    init = next(s for s in group if isinstance(s.lowered.part, Init))
    if apart := frozenset[str]().union(*map(_axes_of, group)) - _axes_of(init) - {*init.lowered.across}:
        yield _not_combined(comparison, name, init, apart)
        return
    yield from divergent_reductions(new, name)
    if is_nested(new, name):
        return
    for reader, access in readers_of(new, name):
        if isinstance(reader.lowered.part, Update) and reader in group:
            continue
        looking_at(reader, access)
        found, unset = collected(new, reader, access)
        wanted = {s: same_instance(reader, s) for s in _collected_by(group, reader)}
        others = any(s not in wanted or not link.is_equal(wanted[s]) for s, link in found.items())
        if not unset.is_empty() or others or any(s not in found and not wanted[s].is_empty() for s in wanted):
            yield _clobbered(comparison, name, reader)
            return


def _axes_of(statement: Placed) -> frozenset[str]:
    """Return the hardware axes of the inames of a statement, even if all threads execute it."""
    used = (statement.forms.get(iname) for iname in statement.lowered.inames)
    return frozenset(x for form in used if form is not None for x in form.names() if is_axis(x))


def _not_combined(comparison: Comparison, name: str, init: Placed, axes: frozenset[str]) -> Diagnostic:
    expr = comparison.new.program.accumulators[name].reduction
    return Diagnostic(
        "parallel-reduction",
        f"the terms of '{expr.operation}' over {', '.join(expr.inames)} cannot be spread over "
        f"{' and '.join(map(repr, sorted(axes)))}",
        ("each index of the axis has an accumulator of its own, and these are not combined",),
        (PARTIAL_RESULTS,),
        sites=(init.lowered.instruction.site(),),
    )


def _clobbered(comparison: Comparison, name: str, user: Placed) -> Diagnostic:
    return Diagnostic(
        "accumulator-clobbered",
        f"the reduction in '{comparison.new.program.accumulators[name].instruction}' would mix the terms of "
        "several instances",
        (f"its accumulator '{name}' is reset inside its own reduction",),
        ("keep the reduction's loops inside the loops of its instruction",),
        sites=(user.lowered.instruction.site(),),
    )


# }}}
# {{{ reductions of partial results


def combiner(placement: Placement, part: Lowered) -> Lowered:
    """Return the statement with the role of *part* (init, update, combine) in the reduction of its partial results."""
    assert part.reduction is not None, f"{part.name} belongs to no reduction"
    number = part.reduction.partial_of
    same = (s.lowered for s in placement.statements.values() if s.lowered.instruction is part.instruction)
    return next(s for s in same if isinstance(s.part, type(part.part)) and s.number == number)


def _stages(comparison: Comparison, statement: Placed) -> Iterator[Placed]:
    """Yield the statements with the role of *statement* in the reductions of its partial results, from the inside out.

    All are of one instruction.  The sequence ends before a reduction that the reference program has.
    """
    while (part := statement.lowered.reduction) is not None and part.partial_of is not None:
        statement = comparison.new.statements[combiner(comparison.new, statement.lowered).name]
        if isinstance(statement.lowered.instruction.origin, Copy) and not comparison.combines(statement):
            return
        yield statement


def outermost(comparison: Comparison, statement: Placed) -> Placed:
    """Return the statement with the role of *statement* in the outermost stage of its reduction."""
    return [statement, *_stages(comparison, statement)][-1]


def result_of(comparison: Comparison, statement: Placed) -> isl.Map:
    """Return ``{ instance that combines a partial result -> result }``; loops around all stages name the result."""
    own = {name for stage in (statement, *_stages(comparison, statement)) for name in stage.lowered.own}
    return map_from_forms(statement.domain, statement.dims, _forms_besides(statement, own))


def _forms_besides(statement: Placed, inames: Collection[str]) -> list[Affine]:
    """Return forms that identify an instance up to *inames*: its other loops and axes, and other inames on theirs."""
    forms = {x: statement.forms.get(x) or Affine.variable(x) for x in statement.lowered.inames}
    spread = {name for x in inames for name in forms[x].names()}
    keep = [Affine.variable(name) for name in statement.dims if name not in spread]
    return keep + [form for x, form in forms.items() if x not in inames and not spread.isdisjoint(form.names())]


# }}}
