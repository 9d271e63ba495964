"""Users of the slots of a tile that a role fills: products of groups of four warps alone, or threads too.

::

    wait k; issue products k; wait for them; each warp: free slot k
    ->
    wait k; issue products k; wait for them; one warp of four: free slot k

A product of operands in shared memory is one operation of a group of four warps, in the asynchronous proxy, and so are
the groups of products that it belongs to.  One that a warp has waited for is complete for all four: they have issued
it, and its operands have been read (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").  So where nothing
else uses a tile, what one warp knows of the uses of its slots, all four know.

Phases of a slot are told apart by one bit.  A warp that frees a slot for four does not run ahead of a wait of the
others for its copy if all four have issued products behind that wait: each group has to have such products of each
copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Final

import islpy as isl

from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.kernel.tree import runs
from polyloop.poly.axes import is_thread_axis
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.copy_engine import AwaitBox, StartBox
from polyloop.schedule.plan import Launch, Share, Statement, Tensor
from polyloop.sync.roles import WARPGROUP

__all__ = ["groups_that_free"]

_SET: Final = isl.dim_type.set


def groups_that_free(
    launch: Launch, threads: int, statements: Mapping[str, Statement], mates: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the tiles whose slots one warp frees for a group of four.

    *threads* are those that compute; *mates* are the temporaries that share the storage of each one.
    """
    own = [statements[name] for name in runs((*launch.ahead, *launch.tree))]
    tiles = {array_name(statement.lhs) for statement in own if isinstance(statement.action, StartBox)}
    return frozenset(
        tile for tile in tiles
        if mates[tile] == {tile} and not threads % WARPGROUP
        and _is_of_products(tile, threads // WARPGROUP, [s for s in own if tile in _names(s)])
    )  # fmt: skip


def _is_of_products(tile: str, groups: int, users: Sequence[Statement]) -> bool:
    """Return True if products are all that uses a tile but its copies, and each group has some of each copy."""
    products = [user for user in users if not isinstance(user.action, StartBox | AwaitBox)]
    arrivals = [user for user in users if isinstance(user.action, AwaitBox)]
    if not all(_is_product(user, tile) for user in products) or not arrivals:
        return False
    issues = [user for user in products if isinstance(user.action, Tensor) and user.action.share is Share.ALL]
    return all(_is_used(arrival, issues, groups) for arrival in arrivals)


def _is_product(user: Statement, tile: str) -> bool:
    """Return True if a statement uses *tile* as operands in shared memory alone, and under no condition."""
    if not isinstance(user.action, Tensor) or not user.action.product.intrinsic.is_shared:
        return False
    found = user.action.product
    read = {array_name(found.b)} if found.from_registers else {array_name(found.a), array_name(found.b)}
    held = variables(found.a) if found.from_registers else frozenset()
    targets = set(map(array_name, targets_of(user.lhs)))
    return tile in read and tile not in held | targets and not user.predicates


def _is_used(arrival: Statement, issues: Sequence[Statement], groups: int) -> bool:
    """Return True if each group of warps issues products of each copy that *arrival* waits for."""
    parts = list[dict[tuple[int, ...], isl.Set]]()
    for issue in issues:
        places = [n for n, dim in enumerate(issue.dims) if is_thread_axis(dim)]
        bounds = [constant_bounds(issue.domain, place) for place in places]
        loops = tuple(dim for dim in issue.dims if not is_thread_axis(dim))
        counts = [high - low + 1 for low, high in bounds if low is not None and high is not None]
        if loops != arrival.dims or issue.bounds != arrival.bounds or len(counts) != len(bounds):
            continue
        if prod(counts) == groups:
            ranges = [range(low or 0, (low or 0) + count) for (low, _), count in zip(bounds, counts, strict=True)]
            parts.append({at: _of_group(issue.domain, places, at) for at in product(*ranges)})
    whole = [arrival.domain.is_subset(reduce(isl.Set.union, found)) for found in _by_group(parts)]
    return len(whole) == groups and all(whole)


def _by_group(parts: Sequence[Mapping[tuple[int, ...], isl.Set]]) -> Iterator[list[isl.Set]]:
    """Yield, for each group, its instances of all statements."""
    for at in parts[0] if parts else ():
        yield [part[at] for part in parts if at in part]


def _of_group(domain: isl.Set, places: Sequence[int], values: Sequence[int]) -> isl.Set:
    """Return the instances of one group of warps, without the axes of threads."""
    for place, value in sorted(zip(places, values, strict=True), reverse=True):
        domain = domain.fix_val(_SET, place, value).project_out(_SET, place, 1)
    return domain


def _names(statement: Statement) -> frozenset[str]:
    parts = (*targets_of(statement.lhs), statement.rhs, *statement.predicates)
    return frozenset[str]().union(*(variables(part) for part in parts))
