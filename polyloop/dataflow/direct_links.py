"""Flow from a write to a read of one iteration, by its subscripts: each element has one such write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeGuard

import islpy as isl

from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.radix import separates
from polyloop.poly.sets import constant_bounds, lex_relation, map_from_forms, preimage

__all__ = ["affine_link", "are_forms", "extent_in", "in_iteration", "is_determined"]


def are_forms(subscripts: tuple[Affine | None, ...]) -> TypeGuard[tuple[Affine, ...]]:
    """Return whether all subscripts are affine."""
    return None not in subscripts


@memoised
def affine_link(
    reader: isl.Set,
    dims: tuple[str, ...],
    read: tuple[Affine, ...],
    writer: isl.Set,
    inames: tuple[str, ...],
    written: tuple[Affine, ...],
    loops: tuple[str, ...],
    own: tuple[str, ...],
) -> isl.Map | None:
    """Return the direct flow for affine subscripts, or None, *read* over *dims* and *written* over *inames*.

    *own* are the axes that number copies of the array.
    """
    link = _instance_link(reader, dims, read, writer, inames, written, (*loops, *own))
    if link is not None:
        return link
    axes = [Affine.variable(axis) for axis in own]
    left, right = map_from_forms(reader, dims, [*axes, *read]), map_from_forms(writer, inames, [*axes, *written])
    link = in_iteration(left, right, [(dims.index(loop), inames.index(loop)) for loop in loops], reader)
    return link if link is not None and is_determined(link, writer, inames, written, (*loops, *own)) else None


def in_iteration(
    left: isl.Map, right: isl.Map, loops: Sequence[tuple[int, int]], reader: isl.Set
) -> isl.Map | None:
    """Return the pairs of instances that access one element in one iteration of *loops*, which are pairs of positions.

    None if an instance of *reader* is in no pair.
    """
    link = left.apply_range(right.reverse())
    link = link.intersect(lex_relation(link.get_space(), loops, None))
    return link if reader.is_subset(link.domain()) else None


def is_determined(
    link: isl.Map, writer: isl.Set, inames: tuple[str, ...], written: Sequence[Affine | None], same: Sequence[str]
) -> bool:
    """Return True if an element *written*, and the names with the *same* values at both ends, determine the writer."""
    fixed = [*map(Affine.variable, same), *(form for form in written if form is not None)]
    return separates(fixed, inames, partial(extent_in, writer, inames)) or bool(link.is_single_valued())


def extent_in(domain: isl.Set, dims: Sequence[str], iname: str) -> int | None:
    """Return the size of the interval of the values of an iname in a domain over *dims*, None if it varies."""
    low, high = constant_bounds(domain, dims.index(iname))
    return None if low is None or high is None else max(0, high - low + 1)


def _instance_link(
    reader: isl.Set,
    dims: tuple[str, ...],
    read: tuple[Affine, ...],
    writer: isl.Set,
    inames: tuple[str, ...],
    written: tuple[Affine, ...],
    same: tuple[str, ...],
) -> isl.Map | None:
    """Return the flow of a direct link by matching subscripts, without a composition of maps, or None.

    A dimension of the writer is known if it is one of the *same* names (a shared loop, or an axis that numbers copies
    of the variable), or if it is a whole subscript: then it equals the subscript that the read has there.  The result
    is None if a dimension stays unknown, if other subscripts disagree, or if some such instance does not run.
    """
    known = {name: Affine.variable(name) for name in same}
    for form, other in zip(read, written, strict=True):
        if len(other.terms) == 1 and other.terms[0][1] == 1 and not other.const:
            name = other.terms[0][0]
            if isinstance(name, str) and name in inames:
                known.setdefault(name, form)
    for form, other in zip(read, written, strict=True):
        known |= _digits(form, other, known, writer, inames)
    if not known.keys() >= {*inames}:
        return None
    if any(other.substitute(known) != form for form, other in zip(read, written, strict=True)):
        return None
    link = map_from_forms(reader, dims, [known[name] for name in inames])
    if all(isinstance(var, str) for name in inames for var, _ in known[name].terms):
        return link if link.range().is_subset(writer) else None
    return link if reader.is_subset(preimage(writer, dims, [known[name] for name in inames])) else None


def _digits(
    value: Affine, number: Affine, known: Mapping[str, Affine], domain: isl.Set, dims: tuple[str, ...]
) -> dict[str, Affine]:
    """Return the digits of a mixed-radix *number* that equals *value*: ``k // 8`` and ``k % 8`` of ``8*i + j`` = k.

    Digits are *dims* of *domain*; other names in the number are *known*.  None are returned if its digits are not
    determined by its value.
    """
    digits = [(factor, name) for name, factor in number.terms if isinstance(name, str) and name not in known]
    if len(digits) < 2 or not all(name in known or name in dims for name, _ in number.terms):
        return {}
    digits.sort()
    rest = value.add(Affine((), number.const), -1)
    for name, factor in number.terms:
        if isinstance(name, str) and name in known:
            rest = rest.add(known[name], -factor)
    found = {}
    for (factor, name), (above, _) in pairwise(digits):
        low, high = constant_bounds(domain, dims.index(name))
        if low != 0 or high is None or factor < 1 or above % factor or factor * (high + 1) > above:
            return {}
        found[name] = rest.floordiv(factor).add(rest.floordiv(above), -(above // factor))
    factor, name = digits[-1]
    return {**found, name: rest.floordiv(factor)}
