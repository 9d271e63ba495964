"""Value-based dataflow: for each read, the write whose value it sees.

Exact for affine accesses, by ISL's dataflow analysis (Feautrier, IJPP 20(1), 1991; Verdoolaege, "isl: An Integer Set
Library", section on dependence analysis).  The order is that of the loop tree; races between threads are checked
separately (``polyloop.sync.races``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from typing import Final

import islpy as isl

from polyloop.dataflow.direct_links import affine_link, are_forms, extent_in, in_iteration, is_determined
from polyloop.dataflow.last_writes import Entry, Timed, seen
from polyloop.dataflow.must_write import alternatives, dims_of, into, is_within, nests, of_branches, writes_under
from polyloop.dataflow.times import common_depth, end_of_step, forms_of_time, is_between, ranked
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.frozen import quick
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.updates import EXCHANGE
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops, owner_axes, storage_map
from polyloop.memo import By, Same, interned, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.axes import loops_among
from polyloop.poly.budget import NoAnswer, looking_at
from polyloop.poly.radix import separates
from polyloop.poly.relations import descending, equated, meetings
from polyloop.poly.sets import lex_relation, map_from_forms, project_onto
from polyloop.program.lower import Access

__all__ = [
    "Flow",
    "flow_of",
    "hides_others",
    "is_exact",
    "known_flow",
    "known_may_flow",
    "may_flow_of",
    "readers_of",
    "writers_of",
    "writes_of",
]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@quick
@dataclass(frozen=True, eq=False)
class Flow:
    """Sources of the values that the reads of one array see.

    Attributes
    ----------
    reads
        The reads, as (statement, access).
    sources
        For each read: (writer, ``{ read instance -> write instance }``) pairs.
    initial
        For each read: the instances that see the array's value before the program.
    is_direct
        True if each read sees one write, in the same iteration of the loops that both share.
    """

    reads: tuple[tuple[Placed, Access], ...]
    sources: tuple[tuple[tuple[Placed, isl.Map], ...], ...]
    initial: tuple[isl.Set, ...]
    is_direct: bool = False

    def of(self, statement: Placed, access: Access) -> tuple[tuple[tuple[Placed, isl.Map], ...], isl.Set]:
        """Return the sources and the initial part of one read."""
        for number, (other, candidate) in enumerate(self.reads):
            if other is statement and candidate is access:
                return self.sources[number], self.initial[number]
        raise AssertionError(f"{statement.name} has no such read of {access.array}")


def writers_of(placement: Placement, array: str) -> list[Placed]:
    """Return the statements that write *array*."""
    return _by_array(placement)[0].get(array, [])


def writes_of(placement: Placement, array: str) -> list[tuple[Placed, Access]]:
    """Return the writes to *array*."""
    return [(writer, write) for writer in writers_of(placement, array) for write in writer.lowered.writes_to(array)]


def readers_of(placement: Placement, array: str) -> list[tuple[Placed, Access]]:
    """Return the reads of *array*."""
    return _by_array(placement)[1].get(array, [])


@memoised
def _by_array(placement: Placement) -> tuple[dict[str, list[Placed]], dict[str, list[tuple[Placed, Access]]]]:
    """Return the writers and the reads of every array."""
    writers: dict[str, list[Placed]] = {}
    reads: dict[str, list[tuple[Placed, Access]]] = {}
    for statement in placement.statements.values():
        for name in dict.fromkeys([write.array for write in statement.lowered.writes]):
            writers.setdefault(name, []).append(statement)
        for access in statement.lowered.reads:
            reads.setdefault(access.array, []).append((statement, access))
    return writers, reads


@memoised
def is_exact(placement: Placement, array: str) -> bool:
    """Return True if every access to *array* is affine, and no write is atomic or conditional.

    One case of a conditional write counts as exact: the only write, in a loop with bound variables, where all readers
    run only if the write has happened (:func:`_follows`).
    """
    writes, readers = writes_of(placement, array), readers_of(placement, array)
    is_sure = True
    for _, access in (*writes, *readers):
        if not access.is_affine():
            return False
    for writer, _ in writes:
        if writer.lowered.atomic is not None:
            return False
        is_sure = is_sure and not writer.lowered.is_conditional
    if is_sure:
        return True
    return len(writes) == 1 and all(_follows(placement, *writes[0], reader, access) for reader, access in readers)


def _follows(placement: Placement, writer: Placed, write: Access, reader: Placed, access: Access) -> bool:
    """Return True if each instance of *reader* runs after the instance of *writer* whose element it reads.

    The writer's condition consists of bounds alone.  Bound variables have one value for each iteration of the loops
    around their own writer, and both statements are inside of these: so if the reader's bounds imply the writer's,
    the write has happened.
    """
    by_data = writer.lowered.predicates or writer.lowered.instruction.may_keep
    if by_data or placement.spaces[access.array] is not AddressSpace.PRIVATE:
        return False
    loops, earlier = common_loops(placement, writer, reader)
    sequential = loops_among(writer.dims)
    if not earlier or not set(sequential) <= set(loops) or write.indices != access.indices:
        return False
    return bool(project_onto(reader.exact, reader.dims, writer.dims).is_subset(writer.exact))


def flow_of(
    placement: Placement,
    array: str,
    sinks: Sequence[tuple[Placed, Access]] | None = None,
    sources: Sequence[Placed] | None = None,
) -> Flow:
    """Return the dataflow of *array*, whose accesses must be exact (:func:`is_exact`).

    Parameters
    ----------
    sinks, sources
        Reads and writers to consider; by default all of them.

    Raises
    ------
    NoAnswer
        A subscript is not affine: the last write of each element does not determine the write that a read sees.
    """
    reads = tuple(readers_of(placement, array) if sinks is None else sinks)
    writers = writers_of(placement, array) if sources is None else list(sources)
    if not reads or not writers:
        return Flow(reads, ((),) * len(reads), tuple(s.domain_of(a) for s, a in reads))
    written = ((writer, write) for writer in writers for write in writer.lowered.writes_to(array))
    if unknown := [statement for statement, access in (*reads, *written) if not access.is_affine()]:
        raise NoAnswer("cannot tell which element a subscript that is not affine names,", (array, *unknown))
    plain = all(len(writer.lowered.writes_to(array)) == 1 for writer in writers)
    if plain and (sources is None or not any(w.lowered.is_conditional for w in writers)):
        return _mostly_direct(placement, array, reads, writers)
    return _computed(placement, array, reads, writers, frozenset(writer.name for writer in writers))


_FEW: Final = 4
"""Limit on the writers that are tried as the source of a read, and on the writers between a source and the read."""


def _mostly_direct(
    placement: Placement, array: str, reads: tuple[tuple[Placed, Access], ...], writers: Sequence[Placed]
) -> Flow:
    """Return the dataflow from *writers*, each with one write; ISL is asked about reads that are not direct only."""
    direct = [_direct_among(placement, writers, reader, access) for reader, access in reads]
    if None not in direct:
        nothing = tuple([_nothing(reader.domain) for reader, _ in reads])
        return Flow(reads, tuple([(link,) for link in direct if link is not None]), nothing, is_direct=True)
    known: list[tuple[tuple[tuple[Placed, isl.Map], ...], isl.Set] | None] = []
    for (reader, access), link in zip(reads, direct, strict=True):
        if link is not None:
            known.append(((link,), _nothing(reader.domain)))
        else:
            known.append(((), reader.domain_of(access)) if _is_first(placement, writers, reader, access) else None)
    rest = tuple(read for read, entry in zip(reads, known, strict=True) if entry is None)
    if rest:
        computed = _computed(placement, array, rest, writers, frozenset(writer.name for writer in writers))
        others = iter(zip(computed.sources, computed.initial, strict=True))
        known = [next(others) if entry is None else entry for entry in known]
    found = [entry for entry in known if entry is not None]
    return Flow(reads, tuple(sources for sources, _ in found), tuple(initial for _, initial in found))


def _is_first(placement: Placement, writers: Sequence[Placed], reader: Placed, access: Access) -> bool:
    """Return True if a quick test proves that no write of its element runs before a read.

    All writers must be at the read or behind it in the loop tree.  Then an earlier write can only be in an earlier
    iteration of loops that both share.  Writes with equal domains, subscripts and loops are tested once.
    """
    places = placement.program.places
    if any(places[writer.name] < places[reader.name] for writer in writers):
        return False
    forms: dict[Hashable, tuple[Placed, Access, tuple[str, ...]]] = {}
    for writer in writers:
        (write,) = writer.lowered.writes_to(access.array)
        loops, _ = common_loops(placement, writer, reader)
        key = (Same(writer.domain_of(write)), writer.dims, writer.indices(write), loops)
        forms[key] = (writer, write, loops)
        if len(forms) > _FEW:
            return False
    space = placement.spaces[access.array]
    left = storage_map(placement, reader, access, space)
    for writer, write, loops in forms.values():
        looking_at(reader, access, writer, write)
        pairs = meetings(left, storage_map(placement, writer, write, space))
        for loop in loops:
            i, j = reader.dims.index(loop), writer.dims.index(loop)
            if not descending(pairs, i, j).is_empty():
                return False
            pairs = equated(pairs, i, j)
    return True


@memoised
def _nothing(domain: isl.Set) -> isl.Set:
    """Return the empty set in the space of *domain*, one object for all reads."""
    return isl.Set.empty(domain.get_space())


def _direct_among(
    placement: Placement, writers: Sequence[Placed], reader: Placed, access: Access
) -> tuple[Placed, isl.Map] | None:
    """Return the only one of *writers* that a read sees, with the flow, if a quick test finds it, else None.

    It is a writer with a :func:`_direct` flow if no other writer may intervene.  The nearest writers before the read in
    the loop tree are tried, as long as few others are in between.
    """
    places = placement.program.places
    ordered = sorted(writers, key=lambda w: places[w.name])
    order = [places[w.name] for w in ordered]
    here = bisect_left(order, places[reader.name])
    for number in range(here - 1, max(here - _FEW, 0) - 1, -1):
        writer, end = ordered[number], end_of_step(order[number], places[reader.name])
        first = bisect_left(order, end[:-1] + order[number][len(end) - 1 : len(end)])
        between = [*ordered[first:number], *ordered[number + 1 : bisect_left(order, end)]]
        if len(between) > _FEW:
            break
        if any(_may_intervene(placement, writer, other, reader, access) for other in between):
            continue
        loops, _ = common_loops(placement, writer, reader)
        link = _direct(placement, writer, reader, access, loops)
        if link is not None:
            return writer, link
    return None


def _may_intervene(placement: Placement, writer: Placed, other: Placed, reader: Placed, access: Access) -> bool:
    """Return True if *other* may write the element between *writer* and *reader* in one iteration of their loops.

    It is in between in the loop tree (:func:`is_between`).  A reader that writes the element itself does so after the
    read.
    """
    first, last = (placement.program.places[s.name] for s in (writer, reader))
    looking_at(reader, access, other, other.lowered.writes_to(access.array)[0])
    space = placement.spaces[access.array]
    left = storage_map(placement, reader, access, space)
    right = storage_map(placement, other, other.lowered.writes_to(access.array)[0], space)
    loops = [x for x in first[: common_depth(first, last)] if isinstance(x, str)]
    equal = tuple([(reader.dims.index(loop), other.dims.index(loop)) for loop in loops])
    return _meet_in_iteration(left, right, equal, other is reader)


@memoised
def _meet_in_iteration(left: isl.Map, right: isl.Map, equal: tuple[tuple[int, int], ...], is_own: bool) -> bool:
    """Return True if two instances with *equal* dimensions access one element: of one statement, two different ones."""
    pairs = meetings(left, right)
    for i, j in equal:
        pairs = equated(pairs, i, j)
    if is_own:
        dims = pairs.dim(_IN)
        return not pairs.is_subset(lex_relation(pairs.get_space(), [(n, n) for n in range(dims)], None))
    return not pairs.is_empty()


def known_flow(placement: Placement, array: str) -> Flow:
    """Return the memoised dataflow of *array* (:func:`flow_of`)."""
    return _flow(_first_alike(placement), array)


def known_may_flow(placement: Placement, array: str) -> Flow:
    """Return the memoised may-flow of *array* (:func:`may_flow_of`)."""
    return _may_flow(_first_alike(placement), array)


@memoised
def _flow(placement: Placement, array: str) -> Flow:
    """Return the dataflow of *array*, one for all programs in which the same statements access it in one order."""
    writers, reads = writers_of(placement, array), readers_of(placement, array)
    if not writers or not reads:
        return flow_of(placement, array)
    statements = tuple(dict.fromkeys([*writers, *(reader for reader, _ in reads)]))
    places = ranked([placement.program.places[statement.name] for statement in statements])
    inputs = (placement.spaces[array], placement.axes, tuple(map(Same, statements)), *places)
    return _shared_flow(statements[0], By(inputs, placement), array)


@memoised
def _shared_flow(statement: Placed, given: By[Placement], array: str) -> Flow:
    """Return the dataflow of *array*, which *statement* accesses; it is kept there."""
    del statement
    return flow_of(given.value, array)


@memoised
def _may_flow(placement: Placement, array: str) -> Flow:
    return may_flow_of(placement, array)


@memoised
def _first_alike(placement: Placement) -> Placement:
    """Return the first program with the same dataflow, for programs without threads.

    ``make_kernel`` goes through several that differ only in types and directions of arguments.  Their shapes must be
    equal, because a non-affine subscript may reach the whole array.
    """
    if placement.axes.all:
        return placement
    program, kernel = placement.program, placement.program.kernel
    shapes = tuple([(name, array.shape) for name, array in kernel.arrays().items()])
    key = (Same(program.statements), Same(kernel.assumptions), *placement.spaces.items(), shapes)
    return interned(key, lambda: placement)


def may_flow_of(
    placement: Placement, array: str, sinks: Sequence[tuple[Placed, Access]] | None = None
) -> Flow:
    """Return the writes whose values the reads of *array* may see, for accesses of any kind.

    A write that is conditional, non-affine or atomic may or may not reach a read, and kills no earlier write; but of
    branches that are exhaustive one surely writes (:mod:`.must_write`), so behind the last of them a read sees the
    write of one of them, as does a read under their own condition.  ``initial`` has the instances that may see the
    value before the program.  An atomic update counts as a read, too, with the access of its write.

    Parameters
    ----------
    sinks
        Reads to consider; by default all of them.
    """
    writers = writers_of(placement, array)
    updates = [(s, s.lowered.write) for s in writers if s.lowered.atomic not in (None, EXCHANGE)]
    reads = (*readers_of(placement, array), *updates) if sinks is None else tuple(sinks)
    if not reads or not writers:
        return Flow(reads, ((),) * len(reads), tuple(s.domain_of(a) for s, a in reads))
    sure = frozenset(writer.name for writer in writers if hides_others(writer, array))
    branches = alternatives(placement, array, writers)
    known = {number: links for number, (reader, access) in enumerate(reads)
             if (links := _under_conditions(placement, writers, reader, access))}  # fmt: skip
    pairs = nests(placement, array, writers)
    always = sure.union(branches)
    groups: dict[frozenset[str], list[int]] = {}
    for number, (reader, _) in enumerate(reads):
        if number not in known:
            behind = [first.name for first, last in pairs if not is_between(placement, first, reader, last)]
            groups.setdefault(always.union(behind), []).append(number)
    found = {number: (links, _nothing(reads[number][0].domain)) for number, links in known.items()}
    for must, numbers in groups.items():
        flow = _computed(placement, array, tuple([reads[number] for number in numbers]), writers, must)
        for number, links, initial in zip(numbers, flow.sources, flow.initial, strict=True):
            found[number] = (of_branches(links, branches), initial)
    entries = [found[number] for number in range(len(reads))]
    return Flow(reads, tuple([links for links, _ in entries]), tuple([initial for _, initial in entries]))


def _under_conditions(
    placement: Placement, writers: Sequence[Placed], reader: Placed, access: Access
) -> tuple[tuple[Placed, isl.Map], ...]:
    """Return the sources of a read under conditions under which its element is surely written before, in its iteration.

    ::

        if a[i] > 0:
            t = 2*a[i]
            y[i] = t*t        <- sees the t of its own iteration, whatever others there are

    Empty where that is not so: no writes of one iteration are surely done, something between may write the element too,
    or a variable of the conditions.
    """
    given = reader.lowered.predicates
    if not given or not access.is_affine():
        return ()
    for name, members in alternatives(placement, access.array, writers, given, reader.lowered.bounds).items():
        end = next(member for member in members if member.name == name)
        loops, earlier = common_loops(placement, end, reader)
        if not earlier or reader in members or not {*loops_among(end.dims)} <= {*loops}:
            continue
        between = [s for s in placement.statements.values() if is_between(placement, members[0], s, reader)]
        is_once = {*loops_among(reader.dims)} <= {*loops}
        written = {write.array for s in between if s is not reader or not is_once for write in s.lowered.writes}
        conditions = {name for member in members for part in member.lowered.predicates for name in variables(part)}
        if not written.isdisjoint(conditions):
            continue
        others = [s for s in between if s not in members and s in writers and is_between(placement, end, s, reader)]
        affine = all(s.lowered.writes_to(access.array)[0].is_affine() for s in others)
        if not affine or any(_may_intervene(placement, end, s, reader, access) for s in others):
            inner = {*loops_among(reader.dims)} - {*loops}
            stable = frozenset([part for part in given if written.isdisjoint(variables(part))
                                and inner.isdisjoint(dims_of(reader, part))])  # fmt: skip
            if found := _in_iteration(placement, (reader, access), loops, [*members, *others], stable):
                return found
            continue
        link = _direct(placement, end, reader, access, loops)
        if link is not None:
            return tuple((member, into(link, member)) for member in members)
    return ()


def _in_iteration(
    placement: Placement,
    read: tuple[Placed, Access],
    loops: Sequence[str],
    writers: Sequence[Placed],
    given: frozenset[Expression],
) -> tuple[tuple[Placed, isl.Map], ...]:
    """Return the sources of a read in its iteration of *loops*, if one of them surely is there, else nothing.

    ::

        if a[i] > 0:
            t = 0
            for j: t = t + b[j]     <- sees the t of its own iteration of i

    Parameters
    ----------
    writers
        The statements that write the array in such an iteration, from a first one to the read.
    given
        Conditions that hold all along: writes under these alone are must-writes here.
    """
    reader, access = read
    sure = frozenset(s.name for s in writers if writes_under(s, access.array, given))
    flow = _computed(placement, access.array, (read,), writers, sure)
    links, initial = flow.sources[0], flow.initial[0]
    named = {*loops}.union(*(dims_of(reader, part) for part in given))
    return links if initial.is_empty() and all(is_within(reader, *source, named) for source in links) else ()


def hides_others(writer: Placed, array: str) -> bool:
    """Return True if the writes of *writer* to *array* are must-writes, which kill earlier writes of their elements."""
    lowered = writer.lowered
    return lowered.atomic in (None, EXCHANGE) and all(map(lowered.is_certain, lowered.writes_to(array)))


def _computed(
    placement: Placement,
    array: str,
    reads: tuple[tuple[Placed, Access], ...],
    writers: Sequence[Placed],
    sure: frozenset[str],
) -> Flow:
    """Return the dataflow from *writers*, by ISL; only those in *sure* kill earlier writes."""
    looking_at(array, *writers, *(reader for reader, _ in reads))
    space = placement.spaces[array]
    named = tuple(dict.fromkeys([*(s.name for s in writers), *(s.name for s, _ in reads)]))
    places = dict(zip(named, ranked([placement.program.places[name] for name in named]), strict=True))
    depth = max(map(len, places.values()))

    def side(statement: Placed, accesses: Sequence[Access]) -> _Side:
        cells = [Same(storage_map(placement, statement, access, space)) for access in accesses]
        times = tuple(forms_of_time(statement, places[statement.name], depth))
        subscripts = tuple([statement.indices(access) for access in accesses])
        return _Side(Same(statement.domain), statement.dims, times, tuple(cells), subscripts)

    sinks = tuple([side(reader, [access]) for reader, access in reads])
    sources = tuple([side(writer, writer.lowered.writes_to(array)) for writer in writers])
    hiding = tuple([writer.name in sure for writer in writers])
    found, initial = _last_writes(sinks[0].domain.value, sinks, sources, hiding, owner_axes(placement, space))
    return Flow(reads, tuple([tuple([(writers[n], link) for n, link in links]) for links in found]), initial)


@quick
@dataclass(frozen=True)
class _Side:
    """Accesses of one statement to an array.

    Attributes
    ----------
    domain, dims, times
        The instances, the names of their dimensions, and the time of each.
    cells, subscripts
        For each access: ``{ instance -> element }``, and the subscripts as forms.
    """

    domain: Same[isl.Set]
    dims: tuple[str, ...]
    times: tuple[Affine, ...]
    cells: tuple[Same[isl.Map], ...]
    subscripts: tuple[tuple[Affine | None, ...], ...]


@memoised
def _last_writes(
    domain: isl.Set, reads: tuple[_Side, ...], writes: tuple[_Side, ...], sure: tuple[bool, ...], own: tuple[str, ...]
) -> tuple[tuple[tuple[tuple[int, isl.Map], ...], ...], tuple[isl.Set, ...]]:
    """Return for each read its writes, by number, and the instances that see no write.

    It is asked about relations alone, so that programs with the same accesses share the answer; it is kept with the
    *domain* of the first read.
    """
    del domain
    behind = [_timed(side, own, is_sure=is_sure) for side, is_sure in zip(writes, sure, strict=True)]
    numbers = {write: number for number, write in enumerate(behind)}
    found, initial = [], []
    for side in reads:
        links, unwritten = _seen_by(side, own, behind)
        found.append(tuple([(numbers[write], link) for write, link in links]))
        initial.append(unwritten)
    return tuple(found), tuple(initial)


def _seen_by(
    side: _Side, own: tuple[str, ...], writes: Sequence[Timed]
) -> tuple[tuple[tuple[Timed, isl.Map], ...], isl.Set]:
    """Return the writes that a read sees, and the instances that see none."""
    if are_forms(side.subscripts[0]):
        return seen(_timed(side, own), writes)
    cells = side.cells[0].value
    reads = cells.domain_map()  # ``[read -> element] -> read``: which writes are killed depends on the element
    time = map_from_forms(side.domain.value, side.dims, side.times)
    links, unwritten = seen(Timed.at(cells.range_map(), reads.apply_range(time)), writes)
    return tuple([(write, pairs.apply_domain(reads)) for write, pairs in links]), unwritten.apply(reads)


def _timed(side: _Side, own: tuple[str, ...], *, is_sure: bool = False) -> Timed:
    """Return the accesses of a statement in the order of execution."""
    plain = [_entry(form, side.dims) for form in side.times]
    others = [form for form, entry in zip(side.times, plain, strict=True) if entry is None]
    number = count()
    entries = [Entry(next(number)) if entry is None else entry.behind(len(others)) for entry in plain]
    before = map_from_forms(side.domain.value, side.dims, others) if others else None
    cells = reduce(isl.Map.union, [cells.value for cells in side.cells])
    return Timed(cells, before, tuple(entries), is_sure, partial(_is_known_to_determine, side, own))


def _entry(form: Affine, dims: tuple[str, ...]) -> Entry | None:
    """Return an entry of a time that is a constant or a dimension, None for others."""
    if not form.terms:
        return Entry(None, form.const)
    ((name, coefficient), *more) = form.terms
    is_plain = not more and coefficient == 1 and not form.const and name in dims
    return Entry(dims.index(name)) if is_plain and isinstance(name, str) else None


def _is_known_to_determine(side: _Side, own: tuple[str, ...], positions: Sequence[int]) -> bool:
    """Return whether an element, and some entries of its time, are known to determine the instance of a writer."""
    if len(side.subscripts) != 1:
        return False
    entries = tuple([form for n in positions if (form := side.times[n]).terms])
    return _separates(side.domain.value, side.dims, (*map(Affine.variable, own), *entries, *side.subscripts[0]))


@memoised
def _separates(domain: isl.Set, dims: tuple[str, ...], forms: tuple[Affine | None, ...]) -> bool:
    return separates([form for form in forms if form is not None], dims, partial(extent_in, domain, dims))


def _direct(
    placement: Placement, writer: Placed, reader: Placed, access: Access, loops: tuple[str, ...]
) -> isl.Map | None:
    """Return the flow from *writer* to a read if it is direct, as if there were no other writer, else None.

    It is direct if each element read was written in the same iteration of the *loops* that both share, by exactly one
    instance: then no other instance of the writer intervenes.  Inside of the loops the writer comes before the reader.
    """
    write = writer.lowered.writes_to(access.array)[0]
    looking_at(reader, access, writer, write)
    space = placement.spaces[access.array]
    own, at, to = owner_axes(placement, space), reader.domain_of(access), writer.domain_of(write)
    read, written = reader.indices(access), writer.indices(write)
    if are_forms(read) and are_forms(written):
        return affine_link(at, reader.dims, read, to, writer.dims, written, loops, own)
    left, right = storage_map(placement, reader, access, space), storage_map(placement, writer, write, space)
    pairs = [(reader.dims.index(loop), writer.dims.index(loop)) for loop in loops]
    link = in_iteration(left, right, pairs, at)
    return link if link is not None and is_determined(link, to, writer.dims, written, (*loops, *own)) else None
