"""Storage aliasing: live ranges of temporaries that share storage, and the synchronization between them.

Temporaries of one ``base_storage`` begin at one address, so an access to one of them may touch any element of another.
A value must therefore be read before another member is written: a write of another member between a write and a read of
it is a violation, in the order of the loop tree.  An asynchronous copy writes at any time between its start and its
arrival, so what it copies is a value that its arrival reads.  Barriers keep this order between threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import islpy as isl

from polyloop.dataflow.conflicts import Conflict, crossing_conflicts
from polyloop.dataflow.times import earlier
from polyloop.dataflow.value_flow import flow_of, is_exact, may_flow_of, writers_of, writes_of
from polyloop.errors import Diagnostic
from polyloop.kernel.arrays import AddressSpace
from polyloop.mapping.thread_mapping import Placed, Placement, storage_map
from polyloop.poly.budget import looking_at
from polyloop.program.lower import Access
from polyloop.proof.obligation import Claim, Obligation, within_budget
from polyloop.proof.witness import element, instance, pair, threads
from polyloop.sync.async_copy import copy_link, copy_pairs
from polyloop.sync.async_product import under_way
from polyloop.sync.races import Need
from polyloop.sync.warps import NO_WARPS, scope_in_block

__all__ = ["pool_needs", "pool_obligations"]

_LOCAL = AddressSpace.LOCAL


def _pools(placement: Placement) -> dict[str, list[str]]:
    """Return the members of each storage that several temporaries in use share: those in shared memory."""
    found: dict[str, list[str]] = {}
    for name, temporary in placement.program.kernel.temporaries.items():
        is_shared = temporary.base_storage is not None and placement.spaces[name] is _LOCAL
        if is_shared and writers_of(placement, name):
            assert temporary.base_storage is not None, "it is shared"
            found.setdefault(temporary.base_storage, []).append(name)
    return {pool: members for pool, members in found.items() if len(members) > 1}


def _whole(pool: str) -> Access:
    """Return the access to all of a storage."""
    return Access(pool, ())


def pool_obligations(placement: Placement) -> Iterator[Obligation]:
    """Yield, for each shared storage, the obligation that only one of its temporaries is live at a time.

    Products that run on read their operands until they are complete.
    """
    placement = placement if placement.completions else under_way(placement).placement
    for pool, members in _pools(placement).items():
        listed = ", ".join(f"'{name}'" for name in members)
        says = f"of {listed}, which share '{pool}', one at a time holds values that are read later"
        by = "writes between a write and its reads, in the order of the loops and on threads"
        yield Obligation(Claim.STORAGE, f"'{pool}'", says, by, partial(_pool_violations, placement, pool, members))


def _pool_violations(placement: Placement, pool: str, members: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield temporaries that share storage and hold values at the same time."""
    for member in members:
        found = _overwritten(placement, pool, member, [other for other in members if other != member])
        if found is not None:
            yield found
            return
    for a, b, conflict in _conflicts(placement, pool, members):
        if conflict.simultaneous:
            yield _at_once(pool, a, b, conflict)
            return


def pool_needs(placement: Placement, warp_size: int = NO_WARPS) -> Iterator[Need]:
    """Yield the synchronization needs of accesses to different temporaries of one storage."""
    for pool, members in _pools(placement).items():
        with within_budget(placement.program.kernel, f"what threads have to wait for, in the storage '{pool}'"):
            found = [
                Need(pool, a, b, conflict, scope_in_block(placement, conflict, warp_size))
                for a, b, conflict in _conflicts(placement, pool, members)
            ]
        yield from found


def _cells(placement: Placement, statement: Placed, pool: str) -> isl.Map:
    return storage_map(placement, statement, _whole(pool), _LOCAL)


def _conflicts(
    placement: Placement, pool: str, members: Sequence[str]
) -> Iterator[tuple[Access, Access, Conflict]]:
    """Yield accesses to two members from different threads of a block, one of them a write."""
    local = tuple(placement.axes.local)
    accesses = [
        (statement, access, statement.lowered.is_write(access))
        for statement in placement.statements.values()
        for access in statement.lowered.accesses
        if access.array in members
    ]
    for first, a, first_writes in accesses:
        for second, b, second_writes in accesses:
            if second.name in placement.completions:
                continue  # what is before it is before its issue, or comes from its own thread
            if a.array != b.array and (first_writes or second_writes):
                looking_at(first, a, second, b)
                pairs = _in_one_block(placement, pool, first, second)
                for conflict in crossing_conflicts(placement, first, second, pairs, local):
                    yield a, b, conflict


def _overwritten(placement: Placement, pool: str, member: str, others: Sequence[str]) -> Diagnostic | None:
    """Return the finding if another member is written between a write and a read of *member*."""
    if not _may_come_between(placement, member, others):
        return None
    flow = flow_of(placement, member) if is_exact(placement, member) else may_flow_of(placement, member)
    writes = [entry for other in others for entry in writes_of(placement, other)]
    ranges = list(zip(flow.reads, flow.sources, strict=True))
    for arrival, starts in copy_pairs(placement):
        if arrival.lowered.write.array == member:
            links = tuple((start, copy_link(placement, start, arrival)[0]) for start in starts)
            ranges.append(((arrival, arrival.lowered.write), links))
    for (reader, read), sources in ranges:
        for source, link in sources:
            for writer, write in writes:
                looking_at(reader, read, writer, write)
                before_read, after_source = earlier(placement, writer, reader), earlier(placement, source, writer)
                if before_read.plain_is_empty() or after_source.plain_is_empty():
                    continue  # by their places in the loop tree
                before_read = before_read.intersect(_in_one_block(placement, pool, writer, reader)).reverse()
                between = link.apply_range(after_source).intersect(before_read)
                if not between.is_empty():
                    at, when = pair(between, reader, writer)
                    note = (
                        f"instance {instance(writer, when)} writes {element(writer, write, when)} before "
                        f"instance {instance(reader, at)} reads {element(reader, read, at)}"
                    )
                    return _together(pool, member, write.array, (note,), writer, reader)
    return None


def _may_come_between(placement: Placement, member: str, others: Sequence[str]) -> bool:
    """Return whether a write of *others* is between two accesses to *member* by their places in the loop tree."""
    own = [s for s in placement.statements.values() if any(access.array == member for access in s.lowered.accesses)]
    writers = [writer for other in others for writer in writers_of(placement, other)]
    return any(
        any(not earlier(placement, first, writer).plain_is_empty() for first in own)
        and any(not earlier(placement, writer, last).plain_is_empty() for last in own)
        for writer in writers
    )


def _in_one_block(placement: Placement, pool: str, first: Placed, second: Placed) -> isl.Map:
    """Return the pairs of instances in one block."""
    return _cells(placement, first, pool).apply_range(_cells(placement, second, pool).reverse())


def _at_once(pool: str, a: Access, b: Access, conflict: Conflict) -> Diagnostic:
    left, right = pair(conflict.relation, conflict.first, conflict.second)
    sides = ((conflict.first, a, left), (conflict.second, b, right))
    notes = tuple(
        f"instance {instance(statement, values)} on thread ({threads(statement, values)}) "
        f"{'writes' if statement.lowered.is_write(access) else 'reads'} {element(statement, access, values)}"
        for statement, access, values in sides
    )
    return _together(pool, a.array, b.array, notes, conflict.first, conflict.second)


def _together(
    pool: str, member: str, other: str, notes: tuple[str, ...], first: Placed, second: Placed
) -> Diagnostic:
    sites = dict.fromkeys((first.lowered.instruction.site(), second.lowered.instruction.site()))
    return Diagnostic(
        "storage-in-use",
        f"'{member}' and '{other}' share the storage '{pool}' and are in use at the same time",
        notes,
        (f"read all of '{member}' before '{other}' is written, or give them storage of their own",),
        sites=tuple(sites),
    )
