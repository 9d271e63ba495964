"""Ranges of some inames of a domain, by its constraints on them alone: their loops run even if others are empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import product

import islpy as isl

from polyloop.poly.affine import Affine
from polyloop.poly.sets import Row, add_rows, parameter_space, rows_of, universe

__all__ = ["alone", "own_range", "own_rows", "related_range", "systems"]

_SET = isl.dim_type.set


def systems(sets: Sequence[isl.Set], dims: Sequence[str]) -> Iterator[list[Row]]:
    """Yield the constraints of the intersection of *sets* as they are: once for each choice of basic sets."""
    parts = [[rows_of(basic, dims) for basic in one.compute_divs().get_basic_sets()] for one in sets]
    for chosen in product(*parts):
        yield list(dict.fromkeys(row for rows in chosen for row in rows))


def own_rows(rows: Iterable[Row], dims: Sequence[str], kept: frozenset[str]) -> tuple[list[Row], frozenset[str]]:
    """Return the rows that bound *kept*, and the inames that these rows use.

    ::

        0 <= i < n and 0 <= k < i,  i kept   ->   0 <= i < n
        0 <= k <= i < n,            i kept   ->   all: that 0 <= i is said by 0 <= k alone

    A constraint counts if it is about *kept* alone; where those leave one of *kept* without a lower or an upper bound,
    the inames that its bounds use count too.  Whether other inames have a value does not matter: a loop around an
    empty loop runs.
    """
    named = [(row, row.form.names() & {*dims}) for row in rows]
    counted = kept
    while True:
        own = [row for row, names in named if names <= counted]
        more = counted.union(*(names for name in counted for names in _bounding(own, name, named)))
        if more == counted:
            return own, counted
        counted = more


def _bounding(own: Sequence[Row], name: str, named: Iterable[tuple[Row, frozenset[str]]]) -> Iterator[frozenset[str]]:
    """Yield the inames of constraints that bound *name* where *own* do not."""
    known = {side for row in own for side in _sides(row, name)}
    for row, names in named:
        if not known.issuperset(_sides(row, name)):
            yield names


def _sides(row: Row, name: str) -> tuple[int, ...]:
    """Return the sides on which *row* bounds *name*: 1 below, -1 above; none if it constrains its residue."""
    inside = any(not isinstance(var, str) and name in Affine(((var, 1),)).names() for var, _ in row.form.terms)
    coefficient = row.form.coefficient(name)
    if inside or not coefficient:
        return ()
    return (1, -1) if row.is_equality else (1 if coefficient > 0 else -1,)


def own_range(
    alternatives: Iterable[Sequence[Row]], parameters: Sequence[str], dims: Sequence[str], kept: frozenset[str]
) -> isl.Set:
    """Return the set of the constraints among *alternatives* that say how far *kept* range; others are free."""
    whole = universe(parameter_space(parameters), dims)
    parts = [add_rows(whole, dims, own_rows(rows, dims, kept)[0]) for rows in alternatives]
    return reduce(isl.Set.union, parts)


def alone(domain: isl.Set, dims: Sequence[str], kept: frozenset[str]) -> isl.Set | None:
    """Return *domain* with the constraints on *kept* alone; None if a constraint involves other dimensions too.

    None is also returned where that takes a longer look, because there are alternatives, quotients or equalities.
    """
    if domain.n_basic_set() != 1:
        return None
    (whole,) = domain.get_basic_sets()
    equalities = whole.equalities_matrix(isl.dim_type.cst, isl.dim_type.param, _SET, isl.dim_type.div)
    if whole.dim(isl.dim_type.div) or equalities.rows():
        return None
    own = others = whole
    for position, name in enumerate(dims):
        if name in kept:
            others = others.drop_constraints_involving_dims(_SET, position, 1)
        else:
            own = own.drop_constraints_involving_dims(_SET, position, 1)
    of_none = own.drop_constraints_involving_dims(_SET, 0, len(dims))
    apart = own.n_constraint() + others.n_constraint() - of_none.n_constraint() == whole.n_constraint()
    return own.to_set() if apart else None


def related_range(domain: isl.Set, dims: Sequence[str], kept: frozenset[str]) -> isl.Set:
    """Return *domain* with the constraints on *kept* and on inames connected to them through constraints."""
    if (own := alone(domain, dims, kept)) is not None:
        return own
    parts = []
    for basic in domain.compute_divs().get_basic_sets():
        rows = [(row, row.form.names() & {*dims}) for row in rows_of(basic, dims)]
        related = kept
        while len(more := related.union(*(names for _, names in rows if not names.isdisjoint(related)))) > len(related):
            related = more
        whole = isl.Set.universe(basic.get_space())
        parts.append(add_rows(whole, dims, [row for row, names in rows if names <= related]))
    return reduce(isl.Set.union, parts) if parts else domain
