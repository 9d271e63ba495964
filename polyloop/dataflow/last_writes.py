"""Last writes: for each read, the write whose value it sees.

A write before a read shares the first loops around it, as many as their times agree in, and is earlier in the next
entry of these (Feautrier, "Dataflow analysis of array and scalar references", IJPP 20(1), 1991).  So the writes of a
read are looked through by that entry, from the innermost to the outermost, and a read whose element has a must-write is
done: what is further out runs before.  Of the writes that agree in as many loops, those stay that are last in the next
one, and so on.  Most reads need a single relation.

Instances of one statement may have the same time: several threads write one element.  Where all writes are
must-writes, a read sees one, and of these the last one in the order of their dimensions stands for all: that it does
not matter which one is last is for the proof about races.  Beside may-writes, a read may see several, and sees all of
these.

ISL's analysis is not used.  It computes last writes as lexicographic maxima, which takes several times as long.  With
quotients among redundant bounds, it was seen to return another write than the last one.  With may-writes, it was seen
to leave one out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import NamedTuple

import islpy as isl

__all__ = ["Accesses", "LastWrites", "last_writes", "last_writes_by_definition"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True)
class LastWrites:
    """Reads with the writes that they see, and the reads that may see none; reads of may-writes can be in both."""

    found: isl.UnionMap
    unwritten: isl.UnionSet


def _unknown(write: str, positions: Sequence[int]) -> bool:
    del write, positions
    return False


@dataclass(frozen=True)
class Accesses:
    """Reads and writes of one array, as maps from instances to elements, and the time of each instance.

    Attributes
    ----------
    sure, possible
        Must-writes, which kill earlier writes, and may-writes.
    is_determined
        Whether an element, and the entries of the time at some positions, are known to determine the instance of a
        write, which is given by name.  It saves questions, and changes no result.
    """

    reads: isl.UnionMap
    sure: isl.UnionMap
    possible: isl.UnionMap
    times: isl.UnionMap
    is_determined: Callable[[str, Sequence[int]], bool] = _unknown


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return found


class _Entry(NamedTuple):
    """One entry of a time: a dimension of the instances, or a constant where that is None."""

    column: int | None
    value: int = 0

    def behind(self, number: int) -> _Entry:
        """Return the entry behind a number of further dimensions."""
        return self if self.column is None else _Entry(self.column + number)

    @property
    def fixed(self) -> int | None:
        """The constant, None for a dimension."""
        return self.value if self.column is None else None


class _Timed:
    """One access in the order of execution.

    Most entries of a time are constants, or loops around the instance and thus dimensions of it.  Others come before
    these dimensions, as dimensions of their own.

    Attributes
    ----------
    place
        ``{ instance -> [other entries, instance] }``.
    cells
        ``{ [other entries, instance] -> element }``.
    entries
        Those of the time and, where one instance is to stand for all of a time, the dimensions that are none of them.
    depth
        Number of entries of the time.
    """

    def __init__(
        self,
        cells: isl.Map,
        time: isl.Map,
        is_determined: Callable[[Sequence[int]], bool],
        *,
        is_sure: bool,
        alone: bool,
    ) -> None:
        known = _plain_entries(time)
        others = [position for position, entry in enumerate(known) if entry is None]
        instances, self.depth = time.get_space().domain(), len(known)
        for position in reversed(range(self.depth)):
            if known[position] is not None:
                time = time.project_out(_OUT, position, 1)
        self.place = time.flat_range_product(isl.Map.identity(instances.map_from_set()))
        self.cells = cells.apply_domain(self.place)
        self.is_sure = is_sure
        self.is_determined = is_determined
        self.entries = [
            _Entry(others.index(position)) if entry is None else entry.behind(len(others))
            for position, entry in enumerate(known)
        ]
        if alone:
            used = {entry.column for entry in self.entries}
            self.entries += [_Entry(n) for n in range(len(others), self.place.dim(_OUT)) if n not in used]
        self._ambiguous: dict[int, list[tuple[int, tuple[int, ...]]]] = {}

    def ambiguous(self, begin: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the entries in which instances differ that write one element and agree in those before.

        With each come the entries before that are no constants.  In entries before *begin* all agree.
        """
        if begin not in self._ambiguous:
            self._ambiguous[begin] = [*self._differing(begin)]
        return self._ambiguous[begin]

    def _differing(self, begin: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        same: isl.Map | None = None
        equal: tuple[int, ...] = ()
        for position, (column, _) in enumerate(self.entries):
            if column is None:
                continue
            if position >= begin:
                if self.is_determined(range(min(position, self.depth))):
                    return
                if same is None:
                    same = self.cells.apply_range(self.cells.reverse())
                    for known in equal:
                        same = self._agreeing(same, known)
                if not same.order_gt(_IN, column, _OUT, column).is_empty():
                    yield position, equal
                same = self._agreeing(same, position)
            equal = (*equal, position)

    def _agreeing(self, pairs: isl.Map, position: int) -> isl.Map:
        column = self.entries[position].column
        assert column is not None, "a constant is no dimension"
        return pairs.equate(_IN, column, _OUT, column)


def _plain_entries(time: isl.Map) -> list[_Entry | None]:
    """Return the entries of a time that are constants, or dimensions of the instances as they are; None for others."""
    times = time.as_pw_multi_aff()
    found = []
    for position in range(time.dim(_OUT)):
        entries = {_plain_entry(value) for _, value in times.get_pw_aff(position).get_pieces()}
        found.append(entries.pop() if len(entries) == 1 else None)
    return found


def _plain_entry(value: isl.Aff) -> _Entry | None:
    if value.is_cst():
        constant = value.get_constant_val()
        return _Entry(None, constant.to_python()) if constant.is_int() else None
    columns = [n for n in range(value.dim(_IN)) if not value.get_coefficient_val(_IN, n).is_zero()]
    if len(columns) != 1 or not value.get_coefficient_val(_IN, columns[0]).is_one():
        return None
    rest = value.set_coefficient_val(_IN, columns[0], 0)
    return _Entry(columns[0]) if rest.plain_is_zero() else None


@dataclass(frozen=True)
class _Link:
    """A write, and ``{ read -> instance of the write }``."""

    write: _Timed
    pairs: isl.Map


def last_writes(accesses: Accesses) -> LastWrites:
    """Return the writes that each read sees."""
    return _of_each_element(accesses, _by_depth)


def last_writes_by_definition(accesses: Accesses) -> LastWrites:
    """Return the same as :func:`last_writes`, slowly: with this it is compared."""
    return _of_each_element(accesses, _differences)


def _of_each_element(accesses: Accesses, find: Callable[[Accesses], LastWrites]) -> LastWrites:
    if accesses.reads.is_single_valued():
        return find(accesses)
    reads = accesses.reads.domain_map()  # ``[read -> element] -> read``: which writes are killed depends on the element
    times = accesses.times.union(reads.apply_range(accesses.times))
    result = find(replace(accesses, reads=accesses.reads.range_map(), times=times))
    return LastWrites(result.found.apply_domain(reads), result.unwritten.apply(reads))


def _differences(accesses: Accesses) -> LastWrites:
    """Return the earlier writes of each read, less those with a must-write behind them."""
    times = accesses.times
    earlier = times.lex_gt_union_map(times)
    later = earlier
    if accesses.possible.is_empty():
        less = [isl.Map.lex_gt(time.get_space().domain()).to_union_map() for time in _maps(times)]
        later = earlier.union(times.apply_range(times.reverse()).intersect(reduce(isl.UnionMap.union, less)))
    sure, possible = (
        accesses.reads.apply_range(writes.reverse()).intersect(earlier)
        for writes in (accesses.sure, accesses.possible)
    )
    hidden = sure.apply_range(later)
    return LastWrites(sure.union(possible).subtract(hidden), accesses.reads.domain().subtract(sure.domain()))


def _by_depth(accesses: Accesses) -> LastWrites:
    times = {_key(time): time for time in _maps(accesses.times)}

    alone = accesses.possible.is_empty()

    def timed(cells: isl.Map, *, is_sure: bool) -> _Timed:
        known = partial(accesses.is_determined, cells.get_tuple_name(_IN) or "")
        return _Timed(cells, times[_key(cells)], known, is_sure=is_sure, alone=alone)

    writes = [timed(cells, is_sure=True) for cells in _maps(accesses.sure)]
    writes += [timed(cells, is_sure=False) for cells in _maps(accesses.possible)]
    found, unwritten = isl.UnionMap.empty(accesses.reads.get_space()), isl.UnionSet.empty(accesses.reads.get_space())
    for cells in _maps(accesses.reads):
        read = timed(cells, is_sure=False)
        links, rest = _seen(read, writes)
        for link in links:
            pairs = read.place.apply_range(link.pairs).apply_range(link.write.place.reverse())
            found = found.union(pairs.to_union_map())
        unwritten = unwritten.union(rest.apply(read.place.reverse()).to_union_set())
    return LastWrites(found, unwritten)


def _key(relation: isl.Map) -> str:
    space = relation.get_space().domain()
    return space.get_tuple_name(isl.dim_type.set) or str(space)  # a pair of a read and an element has no name


def _seen(read: _Timed, writes: Sequence[_Timed]) -> tuple[list[_Link], isl.Set]:
    """Return the writes that a read sees, and the instances that see none for sure."""
    rest = read.cells.domain()
    found: dict[_Timed, _Link] = {}
    pairs: dict[_Timed, isl.Map] = {}
    for position, group in _groups(read, writes):
        links = []
        for write, equal in group:
            if write not in pairs:
                pairs[write] = read.cells.apply_range(write.cells.reverse())
            order = _order(pairs[write].get_space(), read, write, equal, position)
            if not (earlier := pairs[write].intersect(order).intersect_domain(rest)).is_empty():
                links.append(_Link(write, earlier))
        for link in _last(links, position):
            before = found.get(link.write)
            found[link.write] = link if before is None else _Link(link.write, before.pairs.union(link.pairs))
        if sure := [link.pairs.domain() for link in links if link.write.is_sure]:
            written = reduce(isl.Set.union, sure)
            if rest.is_subset(written):
                return [*found.values()], isl.Set.empty(rest.get_space())
            rest = rest.subtract(written)
    return [*found.values()], rest


def _groups(read: _Timed, writes: Sequence[_Timed]) -> Iterator[tuple[int, list[tuple[_Timed, tuple[int, ...]]]]]:
    """Yield writes that may be before the read, from the last ones to the first.

    All of a group are earlier than the read in the entry of the time at one position, and equal in those before.  Where
    these entries are constants, each group has one value.
    """
    groups: dict[tuple[int, int | None], list[tuple[_Timed, tuple[int, ...]]]] = {}
    for write in writes:
        for position, equal in _earlier_at(read, write, 0, read.depth):
            value = write.entries[position].fixed if read.entries[position].column is None else None
            groups.setdefault((position, value), []).append((write, equal))
    for position, value in [*groups]:
        if value is not None and (position, None) in groups:
            groups[position, None] += groups.pop((position, value))
    for position, value in sorted(groups, key=lambda key: (key[0], key[1] or 0), reverse=True):
        yield position, groups[position, value]


def _earlier_at(first: _Timed, second: _Timed, begin: int, end: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the positions at which instances of *second* may be earlier than some of *first*.

    They are equal at positions before; those of them that are no constants are listed.
    """
    equal: list[int] = []
    for position in range(begin, end):
        one, other = (side.entries[position].fixed for side in (first, second))
        if one is None or other is None:
            yield position, tuple(equal)
            equal.append(position)
        elif one != other:
            if one > other:
                yield position, tuple(equal)
            return


def _order(space: isl.Space, first: _Timed, second: _Timed, equal: Sequence[int], position: int) -> isl.Map:
    """Return ``{ x -> y }`` where entries of *first* at x and of *second* at y are equal, and one of y is earlier."""
    found = isl.BasicMap.universe(space)
    local = isl.LocalSpace.from_space(space)
    for number in (*equal, position):
        x, y = first.entries[number], second.entries[number]
        alloc = isl.Constraint.inequality_alloc if number == position else isl.Constraint.equality_alloc
        difference = alloc(local)
        if x.column is not None:
            difference = difference.set_coefficient_val(_IN, x.column, 1)
        if y.column is not None:
            difference = difference.set_coefficient_val(_OUT, y.column, -1)
        found = found.add_constraint(difference.set_constant_val(x.value - y.value - (number == position)))
    return found.to_map()


def _last(links: list[_Link], begin: int) -> list[_Link]:
    """Return the pairs of *links* without those that have a must-write behind them; times agree before *begin*."""
    if len(links) == 1 and not links[0].write.is_sure:
        return links
    links = [_last_of_one(link, begin) if link.write.is_sure else link for link in links]
    found = []
    for link in links:
        pairs = link.pairs
        for other in links:
            if other.write.is_sure and other is not link:
                for position, equal in _earlier_at(other.write, link.write, begin, link.write.depth):
                    pairs = _without(pairs, link.write, other, equal, position)
        if not pairs.is_empty():
            found.append(_Link(link.write, pairs))
    return found


def _last_of_one(link: _Link, begin: int) -> _Link:
    """Return the last instance of a must-write for each read, first by the entry of the time at *begin*."""
    pairs = link.pairs
    for position, equal in link.write.ambiguous(begin):
        pairs = _without(pairs, link.write, _Link(link.write, pairs), equal, position)
    return _Link(link.write, pairs)


def _without(pairs: isl.Map, write: _Timed, other: _Link, equal: Sequence[int], position: int) -> isl.Map:
    """Return *pairs* of a *write* without those that one of *other*, of the same read, is later than in an entry."""
    space = other.pairs.get_space().range().map_from_domain_and_range(pairs.get_space().range())
    order = _order(space, other.write, write, equal, position)
    hidden = other.pairs.apply_range(order).intersect(pairs)
    return pairs if hidden.is_empty() else pairs.subtract(hidden)
