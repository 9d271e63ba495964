"""Equivalence classes of the requests of an access, so that one request of each class is enumerated.

Two requests are in one class if the same threads of a block take part and their addresses have the same offset in a
sector.  The size of a class is counted, so that only the threads of one block are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Any, Final

import islpy as isl
import numpy as np

from polyloop.cost.traffic import Address
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.budget import NoAnswer, limited, with_budget
from polyloop.poly.counting import UncountableError, count_points
from polyloop.poly.sets import Row, add_rows, insert_dims, project_onto, reorder, sample_set

__all__ = ["PassClass", "evaluated", "pass_classes"]

_SET: Final = isl.dim_type.set
_PARAM: Final = isl.dim_type.param
_MOST_CLASSES: Final = 40
_BUDGET: Final = 5_000_000

PassClass = tuple[int, Mapping[str, int], int]
"""Number of passes; the dimensions other than thread axes of one; where addresses begin, modulo the period."""


def pass_classes(
    domain: isl.Set,
    dims: Sequence[str],
    threads: Sequence[str],
    address: Address,
    sizes: Mapping[str, int],
    period: int,
) -> tuple[list[PassClass], Affine] | None:
    """Return the classes of an access, and the part of its address that depends on the thread.

    Parameters
    ----------
    domain
        The instances that make the access, over *dims*, for given sizes.
    period
        Shift of all addresses that leaves the accesses of a warp equivalent [elements].

    Returns
    -------
    tuple or None
        None where the address is no sum of a part for the thread and one for the rest, or there are too many classes.
    """
    whole = _linear(address, sizes)
    split = _split(whole, frozenset(threads))
    if split is None:
        return None
    own, rest = split
    try:
        with with_budget(_BUDGET), limited():
            found = list(_Classes(domain, dims, threads).all(rest, period))
    except (NoAnswer, UncountableError, _TooManyError):
        return None
    return found, own


class _TooManyError(Exception):
    """There are too many classes."""


def _linear(address: Address, sizes: Mapping[str, int]) -> Affine:
    """Return the address [elements] as one form of dimensions."""
    known = {name: Affine((), size) for name, size in sizes.items()}
    total = Affine((), 0)
    for form, step in address.parts:
        total = total.add(form.substitute(known), int(step.evaluate(sizes)))
    return total


def _split(form: Affine, threads: frozenset[str]) -> tuple[Affine, Affine] | None:
    """Return the terms with thread axes, and the others; None if a quotient mixes them."""
    own: list[tuple[Var, int]] = []
    rest: list[tuple[Var, int]] = []
    for var, factor in form.terms:
        names = Affine.variable(var).names()
        if isinstance(var, Floor) and names & threads and not names <= threads:
            return None
        (own if names & threads else rest).append((var, factor))
    return Affine(tuple(own)), Affine(tuple(rest), form.const)


class _Classes:
    """The search for classes of one access."""

    def __init__(self, domain: isl.Set, dims: Sequence[str], threads: Sequence[str]) -> None:
        self.domain = domain.project_out(_PARAM, 0, domain.dim(_PARAM))
        self.dims = dims
        self.threads = threads
        self.others = [name for name in dims if name not in threads]

    def all(self, rest: Affine, period: int) -> Iterator[PassClass]:
        left = project_onto(self.domain, self.dims, self.others).coalesce()
        number = 0
        while not left.is_empty():
            number += 1
            if number > _MOST_CLASSES:
                raise _TooManyError
            values = sample_set(left, self.others)
            assert values is not None, "what is not empty has a point"
            alike = self.alike(left, values)
            for count, start in _residues(alike, self.others, rest, period):
                yield count, values, start
            left = left.subtract(alike).coalesce()

    def alike(self, left: isl.Set, values: Mapping[str, int]) -> isl.Set:
        """Return the points of *left* at which the same threads take part as at *values*."""
        here = [Row(Affine(((name, 1),), -values[name]), True) for name in self.others]
        active = project_onto(add_rows(self.domain, self.dims, here), self.dims, self.threads)
        active = self.lifted(active, self.threads, self.others)
        around = self.lifted(left, self.others, self.threads)
        missing = around.intersect(active).subtract(self.domain)
        extra = around.intersect(self.domain).subtract(active)
        different = project_onto(missing.union(extra), self.dims, self.others)
        return left.subtract(different).coalesce()

    def lifted(self, part: isl.Set, own: Sequence[str], added: Sequence[str]) -> isl.Set:
        return reorder(insert_dims(part, len(own), added), [*own, *added], self.dims)


def _residues(points: isl.Set, dims: Sequence[str], rest: Affine, period: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of a count and a residue: the number of *points* with this value of *rest*, modulo *period*."""
    step = gcd(period, *(factor for _, factor in rest.terms))
    if step == period:
        yield count_points(points).value_at({}), rest.const % period
        return
    small = Affine(tuple((var, factor % period) for var, factor in rest.terms if factor % period), rest.const)
    for start in range(rest.const % step, period, step):
        offset = Affine(small.terms, small.const - start)
        row = Row(offset.add(offset.floordiv(period), -period), True)
        count = count_points(add_rows(points, dims, [row])).value_at({})
        if count:
            yield count, start


def evaluated(form: Affine, values: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return *form* at many points."""
    total: Any = np.int64(form.const)
    for var, factor in form.terms:
        if isinstance(var, Floor):
            total = total + factor * (evaluated(Affine(var.terms, var.const), values) // var.den)
        else:
            total = total + factor * values[var]
    return np.asarray(total)
