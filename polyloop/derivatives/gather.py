"""Sums of contributions, as their receiver computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import islpy as isl
import pymbolic.primitives as p

from polyloop.derivatives.arithmetic import plus, where
from polyloop.derivatives.emitted import Reductions
from polyloop.derivatives.relations import Solved, condition_of, pairs_of, solved
from polyloop.expr.nodes import Expression, Operation, Reduction
from polyloop.expr.rewrite import substitute
from polyloop.poly.affine import to_expression

__all__ = ["Contribution", "Gathered", "gathered"]

_SUM = Operation("sum", (), (0,))


@dataclass(frozen=True, eq=False)
class Contribution:
    """Value that the instances of a statement add to the adjoints of a receiver.

    Attributes
    ----------
    dims
        Inames of the instances.
    link
        ``{ instance -> receiver }``.
    factor
        The value over ``dims``.
    conditions
        Conditions on data, each with the value that it has where the instance contributes.
    """

    dims: tuple[str, ...]
    link: isl.Map
    factor: Expression
    conditions: tuple[tuple[Expression, bool], ...] = ()


@dataclass(eq=False)
class Gathered:
    """A sum over contributions, with the domains of the reductions in it."""

    value: Expression
    terms: Reductions = field(default_factory=dict)


def gathered(
    dims: Sequence[str], domain: isl.Set, contributions: Iterable[Contribution], fresh: Callable[[str], str]
) -> Gathered:
    """Return the sum that the receiver at each point of *domain* gets: the relations are inverted.

    ::

        for i, k:  y[i] += w[k]*x[i + k]        x_bar[e] += w[k]*y_bar[i] where e = i + k
        ->
        for e:  x_bar[e] = sum(k, w[k]*y_bar[e - k])    over the k with 0 <= k < 3, 0 <= e - k < n

    Parameters
    ----------
    fresh
        Gives a name for an iname of a reduction that may not have its own.
    """
    alone: list[tuple[Solved, Expression]] = []
    summed: list[tuple[Solved, Expression]] = []
    for contribution in contributions:
        apart = {name: f"{name}@" for name in contribution.dims}
        unknown = tuple(apart.values())
        pairs = pairs_of(contribution.link, unknown, dims).intersect(
            domain.insert_dims(isl.dim_type.set, 0, len(unknown)))
        for part in solved(_turned(pairs, unknown, dims), dims, unknown):
            value = _valued(contribution, {name: p.Variable(new) for name, new in apart.items()})
            value = substitute(value, {name: to_expression(form) for name, form in part.forms.items()})
            _add(summed if part.rest else alone, part, value)
    terms: Reductions = {}
    parts: list[Expression] = []
    for part, value in alone:
        condition = condition_of(part.domain, domain, dims)
        parts.append(value if condition is None else p.If(condition, value, 0))
    for part, value in summed:
        names: dict[str, str] = {}
        for name in part.rest:
            plain = name.removesuffix("@")
            taken = {*dims, *names.values()}
            names[name] = plain if plain not in taken else fresh(plain)
        inames = tuple(names.values())
        body = substitute(value, {name: p.Variable(new) for name, new in names.items()})
        while inames in terms:
            inames, body = _other_names(inames, body, fresh)
        terms[inames] = ((*dims, *inames), _renamed(part.domain, (*dims, *inames)))
        parts.append(Reduction(_SUM, inames, body))
    return Gathered(plus(*parts), terms)


def _other_names(
    inames: tuple[str, ...], body: Expression, fresh: Callable[[str], str]
) -> tuple[tuple[str, ...], Expression]:
    new = tuple(fresh(name) for name in inames)
    return new, substitute(body, {name: p.Variable(other) for name, other in zip(inames, new, strict=True)})


def _add(parts: list[tuple[Solved, Expression]], part: Solved, value: Expression) -> None:
    """Add a part, to one of the same instances if there is one."""
    for place, (other, known) in enumerate(parts):
        if other.rest == part.rest and other.domain.is_equal(part.domain):
            parts[place] = (other, plus(known, value))
            return
    parts.append((part, value))


def _valued(contribution: Contribution, names: dict[str, Expression]) -> Expression:
    return substitute(where(contribution.conditions, contribution.factor), names)


def _turned(pairs: isl.Set, first: Sequence[str], second: Sequence[str]) -> isl.Set:
    """Return *pairs* with the names of its second side in front."""
    count = len(first)
    moved = pairs.insert_dims(isl.dim_type.set, 0, len(second))
    for position in range(len(second)):
        moved = moved.equate(isl.dim_type.set, position, isl.dim_type.set, len(second) + count + position)
    return _renamed(moved.project_out(isl.dim_type.set, len(second) + count, len(second)), (*second, *first))


def _renamed(domain: isl.Set, names: Sequence[str]) -> isl.Set:
    for position, name in enumerate(names):
        domain = domain.set_dim_name(isl.dim_type.set, position, name)
    return domain
