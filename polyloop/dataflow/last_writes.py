"""Last writes: for each read, the write whose value it sees, computed by ISL and then proven.

ISL computes last writes as lexicographic maxima.  With quotients among redundant bounds, it was seen to return another
write than the last one, depending on the order of the bounds.  With may-writes, it was seen to leave one out.  So its
result is used only after a proof, by tests for empty sets:

* a write in the result is of the element, is before the read, and no must-write comes in between;
* each read has such a must-write, or is said to have none;
* each may-write before a read is in the result, or a later must-write kills it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

__all__ = ["Accesses", "LastWrites", "last_writes"]


@dataclass(frozen=True)
class LastWrites:
    """Reads with the writes that they see, and the reads that may see none; reads of may-writes can be in both."""

    found: isl.UnionMap
    unwritten: isl.UnionSet


@dataclass(frozen=True)
class Accesses:
    """Reads and writes of one array, as maps from instances to elements, and the time of each instance.

    Attributes
    ----------
    sure, possible
        Must-writes, which kill earlier writes, and may-writes.
    """

    reads: isl.UnionMap
    sure: isl.UnionMap
    possible: isl.UnionMap
    times: isl.UnionMap

    @cached_property
    def earlier(self) -> isl.UnionMap:
        """``{ instance -> earlier instance }``."""
        return self.times.lex_gt_union_map(self.times)

    @cached_property
    def sure_pairs(self) -> isl.UnionMap:
        """``{ read -> earlier must-write of its element }``."""
        return self._pairs(self.sure)

    @cached_property
    def pairs(self) -> isl.UnionMap:
        """``{ read -> earlier write of its element }``."""
        return self.sure_pairs.union(self._pairs(self.possible))

    def _pairs(self, writes: isl.UnionMap) -> isl.UnionMap:
        return self.reads.apply_range(writes.reverse()).intersect(self.earlier)

    @cached_property
    def hidden(self) -> isl.UnionMap:
        """``{ read -> instance that runs before a must-write of its element, itself before the read }``."""
        return self.sure_pairs.apply_range(self.earlier)

    def computed(self) -> LastWrites:
        """Return the result of ISL."""
        info = isl.UnionAccessInfo.from_sink(self.reads)
        if not self.sure.is_empty():
            info = info.set_must_source(self.sure)
        if not self.possible.is_empty():
            info = info.set_may_source(self.possible)
        flow = info.set_schedule_map(self.times).compute_flow()
        return LastWrites(flow.get_may_dependence().reverse(), flow.get_may_no_source().domain())

    def simplified(self) -> Accesses:
        """Return the same relations with implicit equalities made explicit, and without redundant bounds."""
        parts = (self.reads, self.sure, self.possible, self.times)
        return Accesses(*(part.detect_equalities().remove_redundancies() for part in parts))

    def differences(self) -> LastWrites:
        """Return the last writes as differences of relations: always right, but slow."""
        return LastWrites(self.pairs.subtract(self.hidden), self.reads.domain().subtract(self.sure_pairs.domain()))

    def faults(self, result: LastWrites) -> Iterator[str]:
        """Yield the errors in *result*."""
        found, unwritten = result.found, result.unwritten
        if not found.is_subset(self.pairs):
            yield "a write that is found is not one of the element before the read"
        if not found.reverse().apply_range(self.sure_pairs).intersect(self.earlier.reverse()).is_empty():
            yield "a sure write comes between one that is found and its read"
        if not unwritten.intersect(self.sure_pairs.domain()).is_empty():
            yield "a read with a sure write before it is said to have none"
        ends = found.intersect_range(self.sure.domain()).domain()
        if not self.reads.domain().is_subset(unwritten.union(ends)):
            yield "a read has no sure write, and is not said to have none"
        if not self.possible.is_empty() and not self.pairs.is_subset(found.union(self.hidden)):
            yield "a possible write is missing"


def last_writes(accesses: Accesses) -> LastWrites:
    """Return the writes that each read sees, after a proof that they are right."""
    if accesses.reads.is_single_valued():
        return _proven(accesses)
    reads = accesses.reads.domain_map()  # ``[read -> element] -> read``: which writes are killed depends on the element
    times = accesses.times.union(reads.apply_range(accesses.times))
    result = _proven(Accesses(accesses.reads.range_map(), accesses.sure, accesses.possible, times))
    return LastWrites(result.found.apply_domain(reads), result.unwritten.apply(reads))


def _proven(accesses: Accesses) -> LastWrites:
    for form in (Accesses.computed, _simply_computed):
        try:
            result = form(accesses)
        except isl.Error:  # "affine expression involves some of the domain dimensions"
            continue
        if not any(accesses.faults(result)):
            return result
    return accesses.differences()


def _simply_computed(accesses: Accesses) -> LastWrites:
    return accesses.simplified().computed()
