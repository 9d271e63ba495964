"""Distance test: a sufficient condition, without ISL's dataflow, for all conflicting accesses to keep their order.

Let each statement that accesses a variable have one copy in the transformed program, which runs no instance twice and
accesses the elements of the reference program's instance.  Let every two conflicting accesses (to one element, one of
them a write) run in the order of the reference program.  Then before each read there are the same writes in the same
order: it sees the same write, and the last write of each element is the same.  A separate claim is that every instance
runs (``Claim.COVERAGE``).

The distance of two instances of the reference program, iname by iname, decides which of them is first; the set of
distances is computed once.  The inames of the reference program are linear forms of those of the transformed program:
so a distance there has finitely many signs, and a question about a small set without parameters shows that none of them
is negative.

Order is transitive.  Let the statements of a body follow one another, over the same instances, and let each write the
element that the others access in the same instance.  Call them a *run*.  Then it is enough that each statement is in
order with the next one, the last one with the first one of a later iteration and with the statements behind the body,
and the first one with the statements before it.  All other pairs of accesses are in order by a chain of these.  So only
the neighbours and the ends of a run are tested.

If blocks or threads have private copies of a variable, only accesses to the same copy conflict.  Then a read must see,
in the reference program, only writes of its own iteration of some loops, and all instances of that iteration must be
executed by the threads that share one copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import islpy as isl

from polyloop.dataflow.conflicts import never_meet
from polyloop.dataflow.times import ranked
from polyloop.dataflow.value_flow import Flow, is_exact, known_flow, known_may_flow, readers_of, writers_of
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import memoised
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, owner_axes, storage_map
from polyloop.poly.affine import Affine
from polyloop.poly.budget import looking_at
from polyloop.poly.sets import Row, add_rows, constant_bounds, map_from_forms, universe
from polyloop.program.ir import Access, Assign, Init, Other, Update

__all__ = ["keeps_order"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@dataclass(frozen=True, eq=False)
class _Distances:
    """Set of the distances from ``first`` to ``second``, over the inames ``names``, where both access one element."""

    first: Placed
    second: Placed
    names: tuple[str, ...]
    found: isl.Set


@memoised
def keeps_order(new: Placement, old: Placement, variable: str) -> bool:
    """Return True if the accesses to *variable* provably run in the order of the reference program.

    False says nothing about the order: the test may not apply.

    Parameters
    ----------
    new
        The transformed program.
    old
        The reference program.
    """
    kernel = new.program.kernel
    if kernel.buffers or variable in kernel.evaluations:
        return False
    users = _users(old, variable)
    if users is None:
        return False
    found = _copies(new, users, variable)
    if found is None:
        return False
    owner = owner_axes(new, new.spaces[variable])
    if owner:
        around = _around(old, variable)
        if around is None or not _together(found, around, owner):
            return False
    if not all(_is_once(one) for one in found.values()):
        return False
    return _has_same_order(new, old, found.values()) or all(
        _in_order(new, found[entry.first], found[entry.second], entry, owner) for entry in _distances(old, variable)
    )


# {{{ the reference program


def _accesses(statement: Placed, variable: str) -> list[Access]:
    return [access for access in statement.lowered.accesses if access.array == variable]


@memoised
def _users(old: Placement, variable: str) -> tuple[Placed, ...] | None:
    """Return the statements of the program that access *variable*, None if the distance test does not apply."""
    statements = tuple(dict.fromkeys((*writers_of(old, variable), *(s for s, _ in readers_of(old, variable)))))
    if old.axes.all or not all(_is_plain(statement, variable) for statement in statements):
        return None
    return statements


@memoised
def _distances(old: Placement, variable: str) -> tuple[_Distances, ...]:
    """Return the distances between the accesses to *variable* in the program."""
    statements = _users(old, variable)
    assert statements is not None, "the test does not apply"
    found = [_distance(old, first, second, variable) for first, second in _links(old, statements, variable)]
    return tuple([entry for entry in found if entry is not None])


def _links(old: Placement, statements: Sequence[Placed], variable: str) -> Iterator[tuple[Placed, Placed]]:
    """Yield pairs of statements such that where these keep their order, all do: neighbours in runs, and ends of runs.

    Let ``a`` be of one run and ``b`` of the same or another one, and let instance ``p`` of ``a`` run before instance
    ``q`` of ``b``.  Each run is one body without other accesses in between, so instance ``p`` of the last of the run of
    ``a`` runs before instance ``q`` of the first of the run of ``b``, unless that is one instance of one run.  All of
    these access the element, and write it if a run has more than one statement.
    """
    places = old.program.places
    runs: list[list[Placed]] = []
    for statement in sorted(statements, key=lambda s: places[s.name]):
        if runs and _is_alike(old, runs[-1][-1], statement, variable):
            runs[-1].append(statement)
        else:
            runs.append([statement])
    for run in runs:
        yield from pairwise(run)
    for first in runs:
        for second in runs:
            yield first[-1], second[0]


def _is_alike(old: Placement, first: Placed, second: Placed, variable: str) -> bool:
    """Return True if two statements of one body have the same instances, and access one same element, which they write.

    The loops around both are all of their dimensions, so each statement of the body runs once for each instance.
    """
    a, b = (old.program.places[s.name] for s in (first, second))
    if a[:-1] != b[:-1] or first.dims != second.dims or {x for x in a if isinstance(x, str)} != {*first.dims}:
        return False
    if not first.domain.is_equal(second.domain):
        return False
    if not all(isinstance(s.lowered.part, Assign) for s in (first, second)):
        return False
    if any(s.lowered.atomic or s.lowered.is_conditional for s in (first, second)):
        return False
    if not all(s.lowered.writes_to(variable) for s in (first, second)):
        return False
    forms = {side.indices(access) for side in (first, second) for access in _accesses(side, variable)}
    return len(forms) == 1 and None not in next(iter(forms))


def _is_plain(statement: Placed, variable: str) -> bool:
    lowered = statement.lowered
    return (
        isinstance(lowered.part, Assign | Init | Update)
        and not (lowered.along or lowered.across or lowered.fixed)
        and not lowered.instruction.is_c
        and not any(access.fields or access.domain is not None for access in _accesses(statement, variable))
    )


def _distance(old: Placement, first: Placed, second: Placed, variable: str) -> _Distances | None:
    """Return the distances from *first* to a later *second* that accesses the same element; None if there are none."""
    loops, earlier = common_loops(old, first, second)
    if not loops and not earlier:
        return None
    sides = (_accesses(first, variable), _accesses(second, variable))
    if all(never_meet(a, b) for a in sides[0] for b in sides[1]):
        return None
    pairs = _pairs(old, first, second, variable)
    if pairs is None:
        return None
    names = tuple(x for x in first.dims if x in second.dims)
    parts = []
    for loop in loops:
        i, j = first.dims.index(loop), second.dims.index(loop)
        parts.append(pairs.order_lt(_IN, i, _OUT, j))
        pairs = pairs.equate(_IN, i, _OUT, j)
    if earlier:
        parts.append(pairs)
    parts = [part for part in parts if not part.is_empty()]
    if not parts:
        return None
    return _Distances(first, second, names, _apart(reduce(isl.Map.union, parts), first, second, names))


def _pairs(old: Placement, first: Placed, second: Placed, variable: str) -> isl.Map | None:
    """Return the pairs of instances that access one element, at least one as a write, and do not commute."""
    space = old.spaces[variable]
    cells = [
        [(storage_map(old, side, access, space), side.lowered.is_write(access)) for access in _accesses(side, variable)]
        for side in (first, second)
    ]
    looking_at(first, _accesses(first, variable)[0], second, _accesses(second, variable)[0])
    free = first.lowered.commutes_with(second.lowered)
    writes = [_union([cell for cell, is_write in side if is_write]) for side in cells]
    reads = [_union([cell for cell, is_write in side if not is_write]) for side in cells]
    found = []
    for a, b, is_free in (
        (writes[0], writes[1], free),
        (writes[0], reads[1], False),
        (reads[0], writes[1], False),
    ):
        if a is not None and b is not None and not is_free:
            found.append(a.apply_range(b.reverse()))
    return _union(found)


def _union(maps: Sequence[isl.Map]) -> isl.Map | None:
    return reduce(isl.Map.union, maps) if maps else None


def _apart(pairs: isl.Map, first: Placed, second: Placed, names: tuple[str, ...]) -> isl.Set:
    """Return the distances of *pairs* along *names*, whatever the parameters."""
    for kind, side in ((_IN, first), (_OUT, second)):
        for position in range(len(side.dims) - 1, -1, -1):
            if side.dims[position] not in names:
                pairs = pairs.project_out(kind, position, 1)
    order = [x for x in second.dims if x in names]
    if tuple(order) != names:
        forms = [Affine.variable(x) for x in names]
        pairs = pairs.apply_range(map_from_forms(isl.Set.universe(pairs.range().get_space()), order, forms))
    found = pairs.reset_tuple_id(_IN).reset_tuple_id(_OUT).deltas()
    return found.project_out(_PARAM, 0, found.dim(_PARAM)).coalesce()


@memoised
def _around(old: Placement, variable: str) -> tuple[str, ...] | None:
    """Return the loops of which each read sees writes of its own iteration only, None if one sees an initial value."""
    exact = is_exact(old, variable)
    flow: Flow = known_flow(old, variable) if exact else known_may_flow(old, variable)
    if not all(initial.is_empty() for initial in flow.initial):
        return None
    links = [
        (reader, writer, link)
        for (reader, _), sources in zip(flow.reads, flow.sources, strict=True)
        for writer, link in sources
    ]
    shared = [x for x in links[0][0].dims if all(x in r.dims and x in w.dims for r, w, _ in links)] if links else []
    return tuple(x for x in shared if all(_within(x, *entry) for entry in links))


def _within(loop: str, reader: Placed, writer: Placed, link: isl.Map) -> bool:
    same = link.equate(_IN, reader.dims.index(loop), _OUT, writer.dims.index(loop))
    return bool(link.is_subset(same))


# }}}
# {{{ the transformed program


@dataclass(frozen=True, eq=False)
class _Copied:
    """A copy and its original; ``forms`` has the inames of the original as affine forms of the copy's dimensions."""

    new: Placed
    reference: Placed
    forms: Mapping[str, Affine]
    bounds: Mapping[str, tuple[int | None, int | None]]
    """The least and greatest value of each dimension, None where there is none."""


def _copies(new: Placement, users: Sequence[Placed], variable: str) -> dict[Placed, _Copied] | None:
    """Return the copy of each statement in *users*, None unless each has exactly one and no other accesses exist."""
    originals = {(s.lowered.instruction.id, type(s.lowered.part), s.lowered.number): s for s in users}
    mine = dict.fromkeys((*writers_of(new, variable), *(s for s, _ in readers_of(new, variable))))
    found: dict[Placed, _Copied] = {}
    for statement in mine:
        origin, lowered = statement.lowered.instruction.origin, statement.lowered
        if not isinstance(origin, Copy) or statement.repeated or not _is_plain(statement, variable):
            return None
        reference = originals.get((origin.instruction, type(lowered.part), lowered.number))
        if reference is None or reference in found:
            return None
        one = _copied(statement, reference, origin)
        if one is None or not _same_accesses(one, variable):
            return None
        found[reference] = one
    return found if len(originals) == len(users) == len(found) else None


def _copied(statement: Placed, reference: Placed, origin: Copy) -> _Copied | None:
    forms: dict[str, Affine] = {}
    known = {*statement.dims, *(statement.domain.get_dim_name(_PARAM, n) for n in range(statement.domain.dim(_PARAM)))}
    for iname in reference.lowered.inames:
        form = origin.forms[iname].substitute(statement.forms)
        if not all(isinstance(name, str) and name in known for name, _ in form.terms):
            return None
        forms[iname] = form
    looking_at(statement, reference)
    instances = map_from_forms(statement.domain, statement.dims, [forms[x] for x in reference.dims])
    if not instances.range().is_subset(reference.domain):
        return None
    bounds = {name: constant_bounds(statement.domain, position) for position, name in enumerate(statement.dims)}
    return _Copied(statement, reference, forms, bounds)


def _same_accesses(one: _Copied, variable: str) -> bool:
    """Return True if a copy accesses the same elements as its original, in the same order."""
    mine, others = _accesses(one.new, variable), _accesses(one.reference, variable)
    if len(mine) != len(others) or one.new.lowered.atomic != one.reference.lowered.atomic:
        return False
    for access, other in zip(mine, others, strict=True):
        wanted = tuple(None if form is None else form.substitute(one.forms) for form in other.indices)
        if one.new.indices(access) != wanted or (access.kind is Other.BOUND) != (other.kind is Other.BOUND):
            return False
        if one.new.lowered.is_write(access) != one.reference.lowered.is_write(other):
            return False
    return True


def _steps(dims: Sequence[str], first: Sequence[_Copied], second: Sequence[_Copied]) -> isl.Set:
    """Return the box of distances along *dims* from an instance of a statement in *first* to one in *second*."""
    rows = []
    for name in dims:
        for ends, begins, sign in ((second, first, -1), (first, second, 1)):
            highs, lows = [one.bounds[name][1] for one in ends], [one.bounds[name][0] for one in begins]
            if None not in highs and None not in lows:
                most = max(high for high in highs if high is not None) - min(low for low in lows if low is not None)
                rows.append(Row(Affine(((name, sign),), most)))
    return add_rows(universe(_NOTHING, dims), dims, rows)


_NOTHING = isl.Set("{ : }")


def _is_once(one: _Copied) -> bool:
    """Return True if distinct instances of a copy have distinct originals."""
    dims = one.new.dims
    same = add_rows(_steps(dims, [one], [one]), dims, [Row(_linear(form, dims), True) for form in one.forms.values()])
    none = add_rows(universe(_NOTHING, dims), dims, [Row(Affine.variable(x), True) for x in dims])
    return bool(same.is_subset(none))


def _linear(form: Affine, dims: Sequence[str]) -> Affine:
    """Return the growth of *form* along a distance: terms without *dims* are equal at both ends and cancel."""
    return Affine(tuple(term for term in form.terms if term[0] in dims), 0)


def _together(found: Mapping[Placed, _Copied], around: Sequence[str], owner: Sequence[str]) -> bool:
    """Return True if all instances of one iteration of the loops *around* access the same copy of the variable."""
    first, *others = found.values()
    if not all(x in one.forms for one in found.values() for x in around):
        return False
    if any(one.forms[x] != first.forms[x] for one in others for x in around):
        return False
    inside = {name for x in around for name, _ in first.forms[x].terms}
    dims = tuple(x for x in first.new.dims if x in inside or x in owner)
    copies = list(found.values())
    if not all({*dims} <= one.bounds.keys() for one in copies):
        return False
    same = add_rows(_steps(dims, copies, copies), dims, [Row(_linear(first.forms[x], dims), True) for x in around])
    equal = add_rows(universe(_NOTHING, dims), dims, [Row(Affine.variable(x), True) for x in owner])
    return bool(same.is_subset(equal))


def _has_same_order(new: Placement, old: Placement, copies: Collection[_Copied]) -> bool:
    """Return True if the copies have the loops and the order of their originals, as where no step has touched them.

    Each loop around several of them has the value of the original's, so two instances are in the order of theirs.
    """
    here = ranked([new.program.places[one.new.name] for one in copies])
    there = ranked([old.program.places[one.reference.name] for one in copies])
    return here == there and all(
        one.forms[x] == Affine.variable(x) for one, place in zip(copies, there, strict=True) for x in place
        if isinstance(x, str)
    )  # fmt: skip


def _in_order(new: Placement, first: _Copied, second: _Copied, far: _Distances, owner: Sequence[str]) -> bool:
    """Return True if *second* runs after *first* at every distance at which it does so in the reference program."""
    loops, earlier = common_loops(new, first.new, second.new)
    dims = tuple(x for x in first.new.dims if x in second.new.dims)
    forms = [first.forms[x] if _is_shared(x, first, second, dims) else None for x in far.names]
    steps = _steps(dims, [first], [second])
    steps = add_rows(steps, dims, [Row(Affine.variable(axis), True) for axis in owner])
    to_old = map_from_forms(steps, dims, [None if form is None else _linear(form, dims) for form in forms])
    rest = to_old.intersect_range(far.found).domain()
    for loop in loops:
        back = Row(Affine(((loop, -1),), -1))
        if not add_rows(rest, dims, [back]).is_empty():
            return False
        rest = add_rows(rest, dims, [Row(Affine.variable(loop), True)])
        if rest.is_empty():
            return True
    return earlier or bool(rest.is_empty())


def _is_shared(iname: str, first: _Copied, second: _Copied, dims: Sequence[str]) -> bool:
    """Return True if *iname* is the same affine form in both statements, over dimensions that both have."""
    form = first.forms[iname]
    names = {name for name, _ in form.terms if name in first.bounds or name in second.bounds}
    return form == second.forms[iname] and names <= {*dims}


# }}}
