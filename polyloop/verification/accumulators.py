"""Accumulators of reductions: each collects the terms of one instance, on all threads that have some, before a read.

Where the terms are spread over threads, each thread has a partial result of its own, and they are combined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import islpy as isl

from polyloop.dataflow.uniformity import divergent_reductions
from polyloop.dataflow.value_flow import flow_of, readers_of, writers_of
from polyloop.errors import Diagnostic
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.budget import looking_at
from polyloop.proof.obligation import Claim, Obligation
from polyloop.verification.correspondence import Comparison

__all__ = ["PARTIAL_RESULTS", "accumulator_obligations", "same_instance"]

PARTIAL_RESULTS: Final = (
    "let each block have a partial result with stage_reduction or reduce_atomically, or keep the loop sequential"
)
"""Hint for terms that are not added to one accumulator."""

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


def accumulator_obligations(comparison: Comparison) -> Iterator[Obligation]:
    """Yield, for each reduction, that its accumulator collects the terms of one instance; scans are proven apart."""
    for name, accumulator in comparison.new.program.accumulators.items():
        if any(s.lowered.along for s in writers_of(comparison.new, name)):
            continue
        says = f"the reduction of '{accumulator.instruction}' in '{name}' collects the terms of one instance"
        across = _across(comparison.new, name)
        if across:
            says += f", partial results of the threads along {', '.join(across)}, and all of these combine them once"
        by = "loops that initialization, terms and readers share, or their dataflow"
        yield Obligation(Claim.REDUCTION, f"'{name}'", says, by, partial(_accumulator, comparison, name))


def same_instance(outer: Placed, inner: Placed) -> isl.Map:
    """Return ``{ instance of outer -> instances of inner }`` that agree on the dimensions they share."""
    space = outer.domain.get_space().map_from_domain_and_range(inner.domain.get_space())
    whole = isl.Map.universe(space).intersect_domain(outer.domain).intersect_range(inner.domain)
    for position, name in enumerate(outer.dims):
        if name in inner.dims:
            whole = whole.equate(_IN, position, _OUT, inner.dims.index(name))
    return whole


def _accumulator(comparison: Comparison, name: str) -> Iterator[Diagnostic]:
    """Yield that a reduction would not collect its own terms.

    No other instance may reset the accumulator in between.
    """
    new = comparison.new
    group = [s for s in new.statements.values() if s.lowered.writes_to(name)]
    init = next(s for s in group if s.lowered.role == "init")
    users = readers_of(new, name)
    if apart := _axes_apart(init, group):
        yield _not_combined(comparison, name, init, apart)
        return
    yield from divergent_reductions(new, name)
    if _is_nested(new, init, [s for s, _ in users]):
        return
    if init.lowered.across:
        yield _clobbered(comparison, name, init)
        return
    flow = flow_of(new, name, users, [init])
    for (user, access), sources, initial in zip(flow.reads, flow.sources, flow.initial, strict=True):
        looking_at(user, access)
        bad = not initial.is_empty()
        for source, link in sources:
            same = same_instance(user, source)
            bad = bad or not link.is_subset(same)
        if bad or not _precedes(new, group, user):
            yield _clobbered(comparison, name, user)
            return


def _across(placement: Placement, name: str) -> tuple[str, ...]:
    """Return the thread axes over which the partial results of the accumulator *name* lie."""
    return next((s.lowered.across for s in writers_of(placement, name) if s.lowered.role == "init"), ())


def _axes_apart(init: Placed, group: Sequence[Placed]) -> frozenset[str]:
    """Return the axes along which terms are in accumulators that are not combined."""
    return frozenset[str]().union(*map(_axes_of, group)) - _axes_of(init) - {*init.lowered.across}


def _axes_of(statement: Placed) -> frozenset[str]:
    """Return the axes on which the inames of a statement lie; also of one to which all threads come."""
    used = (statement.forms.get(iname) for iname in statement.lowered.inames)
    return frozenset(x for form in used if form is not None for x in form.names() if "." in x)


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
    across = init.lowered.across
    array = init.lowered.write.array
    updates = [s for s in users if s.lowered.role == "update" and (not across or s.lowered.writes_to(array))]
    combines = [s for s in users if s.lowered.role == "combine" and s.lowered.writes_to(array)]
    rest = [s for s in users if s not in (*updates, *combines)]
    stages = [(a, b) for a in updates for b in (*combines, *rest)] + [(a, b) for a in combines for b in rest]
    for update, reader in stages:
        a, b = places[update.name], places[reader.name]
        depth = 0
        while depth < min(len(a), len(b)) and a[depth] == b[depth]:
            depth += 1
        if not a[depth] < b[depth]:  # type: ignore[operator]
            return False
        loops = [x for x in b[depth:] if isinstance(x, str)]
        repeats = across and reader in rest  # that something is read several times does no harm
        if not set(loops) <= indexing and not repeats:
            return False
    return True
