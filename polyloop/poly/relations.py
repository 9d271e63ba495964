"""Operations on relations whose results are kept with the first operand.

Steps that leave a statement alone leave its relations: the same objects, as they are made by domain and forms
(:func:`polyloop.poly.sets.map_from_forms`).  What is asked of two statements by these operations is asked once for all
kernels that have both, whatever else a step changed.
"""

from __future__ import annotations

from functools import reduce

import islpy as isl

from polyloop.memo import Same, memoised

__all__ = [
    "ascending", "common", "composed", "descending", "difference", "domain_of", "equated", "image_of", "is_injective",
    "left_of", "meetings", "reverse", "union", "within",
]  # fmt: skip


@memoised
def meetings(left: isl.Map, right: isl.Map) -> isl.Map:
    """Return the pairs of instances that two accesses, as relations, lead to one cell."""
    return left.apply_range(right.reverse())


@memoised
def composed(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return ``{ x -> z : first has x -> y and second has y -> z }``."""
    return first.apply_range(second)


@memoised
def reverse(relation: isl.Map) -> isl.Map:
    """Return ``{ y -> x : relation has x -> y }``."""
    return relation.reverse()


@memoised
def common(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return the pairs of both."""
    return first.intersect(second)


@memoised
def union(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return the pairs of one or both."""
    return first.union(second)


@memoised
def difference(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return the pairs of *first* that *second* has not."""
    return first.subtract(second)


@memoised
def equated(relation: isl.Map, i: int, j: int) -> isl.Map:
    """Return the pairs whose dimension *i*, and *j* of the other element, are equal."""
    return relation.equate(isl.dim_type.in_, i, isl.dim_type.out, j)


@memoised
def ascending(relation: isl.Map, i: int, j: int) -> isl.Map:
    """Return the pairs whose dimension *i* is less than *j* of the other element."""
    return relation.order_lt(isl.dim_type.in_, i, isl.dim_type.out, j)


@memoised
def descending(relation: isl.Map, i: int, j: int) -> isl.Map:
    """Return the pairs whose dimension *i* is greater than *j* of the other element."""
    return relation.order_gt(isl.dim_type.in_, i, isl.dim_type.out, j)


@memoised
def within(relation: isl.Map, domain: isl.Set) -> isl.Map:
    """Return the pairs that begin in *domain*."""
    return relation.intersect_domain(domain)


@memoised
def domain_of(relation: isl.Map) -> isl.Set:
    """Return the elements that *relation* relates to something."""
    return relation.domain()


@memoised
def image_of(relation: isl.Map) -> isl.Set:
    """Return the elements that *relation* leads to."""
    return relation.range()


@memoised
def is_injective(relation: isl.Map) -> bool:
    """Return whether no two elements lead to one."""
    return bool(relation.is_injective())


@memoised
def left_of(whole: isl.Set, parts: tuple[Same[isl.Set], ...]) -> isl.Set | None:
    """Return the elements of *whole* that are in none of *parts*, None if there are none."""
    if not parts:
        return None if whole.is_empty() else whole
    joined = reduce(isl.Set.union, [part.value for part in parts])
    return None if whole.is_subset(joined) else whole.subtract(joined)
