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

import islpy as isl

from polyloop.poly.sets import lex_relation

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


class _Timed:
    """One access in the order of execution: its instances have their times as first dimensions.

    Attributes
    ----------
    place
        ``{ instance -> [time, instance] }``.
    cells
        ``{ [time, instance] -> element }``.
    fixed
        Entries of the time, None where they are no constants.
    size
        Number of dimensions of a time and, where one instance is to stand for all of a time, of an instance.
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
        self.place = time.flat_range_product(isl.Map.identity(time.get_space().domain().map_from_set()))
        self.cells = cells.apply_domain(self.place)
        self.is_sure = is_sure
        self.is_determined = is_determined
        values = [time.plain_get_val_if_fixed(_OUT, position) for position in range(time.dim(_OUT))]
        self.fixed = [value.to_python() if value.is_int() else None for value in values]
        self.size = self.place.dim(_OUT) if alone else len(self.fixed)
        self._ambiguous: dict[int, list[tuple[int, tuple[int, ...]]]] = {}

    def ambiguous(self, begin: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the dimensions in which instances differ that write one element and agree in those before.

        With each come the dimensions before that are no constants.  In dimensions before *begin* all agree.
        """
        if begin not in self._ambiguous:
            self._ambiguous[begin] = [*self._differing(begin)]
        return self._ambiguous[begin]

    def _differing(self, begin: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        same: isl.Map | None = None
        equal: tuple[int, ...] = ()
        for position in range(self.size):
            if position < len(self.fixed) and self.fixed[position] is not None:
                continue
            if position >= begin:
                if self.is_determined(range(min(position, len(self.fixed)))):
                    return
                if same is None:
                    same = self.cells.apply_range(self.cells.reverse())
                    for number in equal:
                        same = same.equate(_IN, number, _OUT, number)
                if not same.order_gt(_IN, position, _OUT, position).is_empty():
                    yield position, equal
                same = same.equate(_IN, position, _OUT, position)
            equal = (*equal, position)


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
            order = _order(pairs[write].get_space(), equal, position)
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
        for position, equal in _earlier_at(read, write, 0, len(read.fixed)):
            value = write.fixed[position] if read.fixed[position] is not None else None
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
        one, other = (side.fixed[position] if position < len(side.fixed) else None for side in (first, second))
        if one is None or other is None:
            yield position, tuple(equal)
            equal.append(position)
        elif one != other:
            if one > other:
                yield position, tuple(equal)
            return


def _order(space: isl.Space, equal: Sequence[int], position: int) -> isl.Map:
    """Return ``{ x -> y : x and y are equal at some positions, and y_p < x_p }``."""
    return lex_relation(space.reverse(), [(n, n) for n in equal], (position, position)).reverse()


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
                for position, equal in _earlier_at(other.write, link.write, begin, len(link.write.fixed)):
                    pairs = _without(pairs, other.pairs, equal, position)
        if not pairs.is_empty():
            found.append(_Link(link.write, pairs))
    return found


def _last_of_one(link: _Link, begin: int) -> _Link:
    """Return the last instance of a must-write for each read, first by the entry of the time at *begin*."""
    pairs = link.pairs
    for position, equal in link.write.ambiguous(begin):
        pairs = _without(pairs, pairs, equal, position)
    return _Link(link.write, pairs)


def _without(pairs: isl.Map, others: isl.Map, equal: Sequence[int], position: int) -> isl.Map:
    """Return *pairs* without those that one of *others*, of the same read, is later than at a position."""
    space = others.get_space().range().map_from_domain_and_range(pairs.get_space().range())
    hidden = others.apply_range(_order(space, equal, position)).intersect(pairs)
    return pairs if hidden.is_empty() else pairs.subtract(hidden)
