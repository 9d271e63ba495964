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

from polyloop.frozen import once
from polyloop.memo import By, Same, memoised
from polyloop.poly.relations import composed, domain_of, image_of, left_of, meetings, reverse, union, within

__all__ = ["Accesses", "Entry", "LastWrites", "Timed", "last_writes", "last_writes_by_definition", "seen",
           "seen_by_definition"]

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


def _never(positions: Sequence[int]) -> bool:
    del positions
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


class Entry(NamedTuple):
    """One entry of a time: a dimension of the instances, or a constant where that is None."""

    column: int | None
    value: int = 0

    def behind(self, number: int) -> Entry:
        """Return the entry behind a number of further dimensions."""
        return self if self.column is None else Entry(self.column + number)

    @property
    def fixed(self) -> int | None:
        """The constant, None for a dimension."""
        return self.value if self.column is None else None


class _Row(NamedTuple):
    """A constraint between two instances: ``x[column] - y[other] + const``, without a dimension where that is None.

    The sum is 0, or at least 0 if the constraint is no equality.
    """

    column: int | None
    other: int | None
    const: int
    is_equality: bool


@dataclass(frozen=True, eq=False)
class Timed:
    """One access in the order of execution.

    Most entries of a time are constants, or loops around the instance and thus dimensions of it.  Others come before
    these dimensions, as dimensions of their own.

    Attributes
    ----------
    cells
        ``{ instance -> element }``.
    others
        ``{ instance -> [entries that are neither] }``, None where there are none.
    entries
        Those of the time; a dimension is one of ``[others, instance]``.
    is_sure
        Whether a write is a must-write.
    is_determined
        See :class:`Accesses`.
    """

    cells: isl.Map
    others: isl.Map | None
    entries: tuple[Entry, ...]
    is_sure: bool = False
    is_determined: Callable[[Sequence[int]], bool] = _never

    @classmethod
    def at(
        cls, cells: isl.Map, time: isl.Map, is_determined: Callable[[Sequence[int]], bool] = _never, *,
        is_sure: bool = False,
    ) -> Timed:  # fmt: skip
        """Return *cells* at the *time* of each instance, ``{ instance -> time }``."""
        known = _plain_entries(time)
        others = [position for position, entry in enumerate(known) if entry is None]
        entries = [
            Entry(others.index(position)) if entry is None else entry.behind(len(others))
            for position, entry in enumerate(known)
        ]
        for position in reversed(range(len(known))):
            if known[position] is not None:
                time = time.project_out(_OUT, position, 1)
        return cls(cells, time if others else None, tuple(entries), is_sure, is_determined)

    @once
    def place(self) -> isl.Map | None:
        """``{ instance -> [others, instance] }``, None where that is the instance."""
        return None if self.others is None else _beside_itself(self.others)

    @once
    def placed(self) -> isl.Map:
        """``{ [others, instance] -> element }``."""
        return self.cells if self.place is None else composed(reverse(self.place), self.cells)

    @memoised
    def ordered(self, alone: bool) -> _Ordered:
        """Return the access with all that orders its instances.

        With *alone*, one instance is to stand for all of a time: the dimensions that are no entries order them, too.
        """
        if not alone:
            return _Ordered(self, self.entries)
        used = {entry.column for entry in self.entries}
        first = 0 if self.others is None else self.others.dim(_OUT)
        more = [Entry(n) for n in range(first, self.placed.dim(_IN)) if n not in used]
        return _Ordered(self, (*self.entries, *more))


class _Ordered:
    """An access, with its time and, where one instance is to stand for all of a time, its other dimensions."""

    def __init__(self, access: Timed, entries: tuple[Entry, ...]) -> None:
        self.access = access
        self.cells = access.placed
        self.is_sure = access.is_sure
        self.entries = entries
        self.depth = len(access.entries)

    def ambiguous(self, begin: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Return the entries in which instances differ that write one element and agree in those before.

        With each come the entries before that are no constants.  In entries before *begin* all agree.
        """
        columns = tuple([entry.column for entry in self.entries])
        return _differing(self.cells, columns, self.depth, begin, By((), self.access.is_determined))


@memoised
def _beside_itself(others: isl.Map) -> isl.Map:
    return others.flat_range_product(isl.Map.identity(others.get_space().domain().map_from_set()))


@memoised
def _differing(
    cells: isl.Map,
    columns: tuple[int | None, ...],
    depth: int,
    begin: int,
    is_determined: By[Callable[[Sequence[int]], bool]],
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the entries of :meth:`_Ordered.ambiguous`, by the relation and the entries that are dimensions."""
    found = []
    same: isl.Map | None = None
    equal: tuple[int, ...] = ()
    for position, column in enumerate(columns):
        if column is None:
            continue
        if position >= begin:
            if is_determined.value(range(min(position, depth))):
                break
            if same is None:
                same = meetings(cells, cells)
                for known in equal:
                    same = _agreeing(same, columns[known])
            if not same.order_gt(_IN, column, _OUT, column).is_empty():
                found.append((position, equal))
            same = _agreeing(same, column)
        equal = (*equal, position)
    return tuple(found)


@memoised
def _may_be_written(reads: isl.Map, rest: isl.Set, writes: tuple[Same[isl.Map], ...]) -> bool:
    """Return True if an instance of *rest* reads an element that one of *writes* writes, at whatever time.

    What no statement writes, such as the ends of a row, is not asked of each statement before the read.
    """
    first, *others = writes
    return not rest.apply(reads).is_disjoint(_elements(first.value, tuple(others)))


@memoised
def _elements(first: isl.Map, others: tuple[Same[isl.Map], ...]) -> isl.Set:
    """Return the elements that some of several relations lead to."""
    found = image_of(first)
    for other in others:
        more = image_of(other.value)
        found = found if more.is_subset(found) else found.union(more).coalesce()
    return found


@memoised
def _nothing(domain: isl.Set) -> isl.Set:
    return isl.Set.empty(domain.get_space())


def _agreeing(pairs: isl.Map, column: int | None) -> isl.Map:
    assert column is not None, "a constant is no dimension"
    return pairs.equate(_IN, column, _OUT, column)


def _plain_entries(time: isl.Map) -> list[Entry | None]:
    """Return the entries of a time that are constants, or dimensions of the instances as they are; None for others."""
    times = time.as_pw_multi_aff()
    found = []
    for position in range(time.dim(_OUT)):
        entries = {_plain_entry(value) for _, value in times.get_pw_aff(position).get_pieces()}
        found.append(entries.pop() if len(entries) == 1 else None)
    return found


def _plain_entry(value: isl.Aff) -> Entry | None:
    if value.is_cst():
        constant = value.get_constant_val()
        return Entry(None, constant.to_python()) if constant.is_int() else None
    columns = [n for n in range(value.dim(_IN)) if not value.get_coefficient_val(_IN, n).is_zero()]
    if len(columns) != 1 or not value.get_coefficient_val(_IN, columns[0]).is_one():
        return None
    rest = value.set_coefficient_val(_IN, columns[0], 0)
    return Entry(columns[0]) if rest.plain_is_zero() else None


@dataclass(frozen=True)
class _Link:
    """A write, and ``{ read -> instance of the write }``."""

    write: _Ordered
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

    def timed(cells: isl.Map, *, is_sure: bool = False) -> Timed:
        known = partial(accesses.is_determined, cells.get_tuple_name(_IN) or "")
        return Timed.at(cells, times[_key(cells)], known, is_sure=is_sure)

    writes = [timed(cells, is_sure=True) for cells in _maps(accesses.sure)]
    writes += [timed(cells) for cells in _maps(accesses.possible)]
    found, unwritten = isl.UnionMap.empty(accesses.reads.get_space()), isl.UnionSet.empty(accesses.reads.get_space())
    for cells in _maps(accesses.reads):
        links, rest = seen(timed(cells), writes)
        for _, pairs in links:
            found = found.union(pairs.to_union_map())
        unwritten = unwritten.union(rest.to_union_set())
    return LastWrites(found, unwritten)


def _key(relation: isl.Map) -> str:
    space = relation.get_space().domain()
    return space.get_tuple_name(isl.dim_type.set) or str(space)  # a pair of a read and an element has no name


def seen(read: Timed, writes: Sequence[Timed]) -> tuple[tuple[tuple[Timed, isl.Map], ...], isl.Set]:
    """Return the writes that a read sees, ``{ read -> write }``, and the instances that see none for sure.

    The read is of one element.  What is found on the way is kept with the relations of the accesses, and with the
    pairs of two accesses: programs that have these in common share it, whatever other accesses they have.
    """
    links, rest = _seen(read, writes)
    back = None if read.place is None else read.place.reverse()
    found = []
    for link in links:
        pairs, place = link.pairs, link.write.access.place
        pairs = pairs if read.place is None else read.place.apply_range(pairs)
        found.append((link.write.access, pairs if place is None else pairs.apply_range(place.reverse())))
    return tuple(found), rest if back is None else rest.apply(back)


def seen_by_definition(
    read: Timed, writes: Sequence[Timed]
) -> tuple[tuple[tuple[Timed, isl.Map], ...], isl.Set]:
    """Return the same as :func:`seen`, slowly: with this it is compared."""
    sides = [read, *writes]
    names = [f"S{number}" for number in range(len(sides))]
    cells = [_named(side.cells, name) for side, name in zip(sides, names, strict=True)]
    times = [_named(_time_of(side), name).to_union_map() for side, name in zip(sides, names, strict=True)]
    nothing = isl.UnionMap.empty(times[0].get_space())
    sure, possible = (
        reduce(isl.UnionMap.union, [part.to_union_map() for part, side in zip(cells[1:], writes, strict=True)
                                    if side.is_sure is wanted], nothing)
        for wanted in (True, False)
    )  # fmt: skip
    result = last_writes_by_definition(
        Accesses(cells[0].to_union_map(), sure, possible, reduce(isl.UnionMap.union, times))
    )
    numbers = {name: number for number, name in enumerate(names[1:])}
    found = tuple(
        (writes[numbers[piece.get_tuple_name(_OUT) or ""]], _plain(piece)) for piece in _maps(result.found)
    )
    rest = isl.Set.empty(read.cells.get_space().domain())
    parts: list[isl.Set] = []
    result.unwritten.foreach_set(parts.append)
    return found, reduce(isl.Set.union, [part.reset_tuple_id() for part in parts], rest)


def _named(relation: isl.Map, name: str) -> isl.Map:
    return relation.set_tuple_name(_IN, name)


def _plain(relation: isl.Map) -> isl.Map:
    return relation.reset_tuple_id(_IN).reset_tuple_id(_OUT)


def _time_of(access: Timed) -> isl.Map:
    """Return ``{ instance -> time }``."""
    space = access.placed.get_space().domain()
    local = isl.LocalSpace.from_space(space)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(access.entries))
    for column, value in access.entries:
        affs = affs.add(isl.Aff.zero_on_domain(local).add_constant_val(value) if column is None
                        else isl.Aff.var_on_domain(local, isl.dim_type.set, column))  # fmt: skip
    target = space.from_domain().add_dims(_OUT, len(access.entries))
    time = isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(target, affs)).intersect_domain(access.placed.domain())
    return time if access.place is None else access.place.apply_range(time)


def _seen(read: Timed, writes: Sequence[Timed]) -> tuple[list[_Link], isl.Set]:
    """Return the writes that a read sees, and the instances that see none for sure, both with other entries."""
    alone = all(write.is_sure for write in writes)
    here = read.ordered(alone)
    whole = rest = domain_of(here.cells)
    written = tuple(dict.fromkeys([Same(write.placed) for write in writes]))
    found: dict[_Ordered, _Link] = {}
    for position, group in _groups(here, [write.ordered(alone) for write in writes]):
        links = []
        for write, equal in group:
            pairs = _in_order(meetings(here.cells, write.cells), _rows(here, write, equal, position))
            if rest is not whole:
                pairs = within(pairs, rest)
            if not pairs.is_empty():
                links.append(_Link(write, pairs))
        for link in _last(links, position):
            before = found.get(link.write)
            found[link.write] = link if before is None else _Link(link.write, union(before.pairs, link.pairs))
        if sure := [Same(domain_of(link.pairs)) for link in links if link.write.is_sure]:
            left = left_of(rest, tuple(sure))
            if left is None:
                return [*found.values()], _nothing(rest)
            rest = left
            if not _may_be_written(here.cells, rest, written):
                break
    return [*found.values()], rest


def _groups(read: _Ordered, writes: Sequence[_Ordered]) -> Iterator[tuple[int, list[tuple[_Ordered, tuple[int, ...]]]]]:
    """Yield writes that may be before the read, from the last ones to the first.

    All of a group are earlier than the read in the entry of the time at one position, and equal in those before.  Where
    these entries are constants, each group has one value.
    """
    groups: dict[tuple[int, int | None], list[tuple[_Ordered, tuple[int, ...]]]] = {}
    for write in writes:
        for position, equal in _earlier_at(read, write, 0, read.depth):
            value = write.entries[position].fixed if read.entries[position].column is None else None
            groups.setdefault((position, value), []).append((write, equal))
    for position, value in [*groups]:
        if value is not None and (position, None) in groups:
            groups[position, None] += groups.pop((position, value))
    for position, value in sorted(groups, key=lambda key: (key[0], key[1] or 0), reverse=True):
        yield position, groups[position, value]


def _earlier_at(first: _Ordered, second: _Ordered, begin: int, end: int) -> Iterator[tuple[int, tuple[int, ...]]]:
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


def _rows(first: _Ordered, second: _Ordered, equal: Sequence[int], position: int) -> tuple[_Row, ...]:
    """Return that entries of *first* at x and of *second* at y are equal, and one of y is earlier.

    What is said of constants holds (:func:`_earlier_at`), and is left out.
    """
    rows = []
    for number in (*equal, position):
        x, y = first.entries[number], second.entries[number]
        if x.column is not None or y.column is not None:
            is_last = number == position
            rows.append(_Row(x.column, y.column, x.value - y.value - is_last, not is_last))
    return tuple(rows)


@memoised
def _in_order(pairs: isl.Map, rows: tuple[_Row, ...]) -> isl.Map:
    """Return the *pairs* of instances for which *rows* hold."""
    return pairs.intersect(_order(pairs.get_space(), rows)) if rows else pairs


def _order(space: isl.Space, rows: Sequence[_Row]) -> isl.Map:
    """Return ``{ x -> y : rows }``."""
    found = isl.BasicMap.universe(space)
    local = isl.LocalSpace.from_space(space)
    for column, other, const, is_equality in rows:
        row = (isl.Constraint.equality_alloc if is_equality else isl.Constraint.inequality_alloc)(local)
        if column is not None:
            row = row.set_coefficient_val(_IN, column, 1)
        if other is not None:
            row = row.set_coefficient_val(_OUT, other, -1)
        found = found.add_constraint(row.set_constant_val(const))
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


def _without(pairs: isl.Map, write: _Ordered, other: _Link, equal: Sequence[int], position: int) -> isl.Map:
    """Return *pairs* of a *write* without those that one of *other*, of the same read, is later than in an entry."""
    return _not_hidden(pairs, other.pairs, _rows(other.write, write, equal, position))


@memoised
def _not_hidden(pairs: isl.Map, later: isl.Map, rows: tuple[_Row, ...]) -> isl.Map:
    """Return *pairs* without those of whose read there is one in *later*, and the two writes are as *rows* say."""
    space = later.get_space().range().map_from_domain_and_range(pairs.get_space().range())
    hidden = later.apply_range(_order(space, rows)).intersect(pairs)
    return pairs if hidden.is_empty() else pairs.subtract(hidden)
