"""Relations between instances, solved for one side: the instances that read an element, as forms of its subscripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.derivatives.arithmetic import conjunction
from polyloop.expr.nodes import Expression
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.sets import apart, project_onto, rows_of

__all__ = ["Solved", "condition_of", "pairs_of", "solved"]

_SET = isl.dim_type.set


@dataclass(frozen=True, eq=False)
class Solved:
    """One part of a relation between *given* and *unknown* names.

    Attributes
    ----------
    forms
        Unknown names as affine forms of the given ones and of ``rest``.
    rest
        Unknown names that are not determined.
    domain
        The part, over the given names and ``rest``.
    """

    forms: Mapping[str, Affine]
    rest: tuple[str, ...]
    domain: isl.Set


def pairs_of(link: isl.Map, into: Sequence[str], out: Sequence[str]) -> isl.Set:
    """Return the pairs of a map as a set over the names of both sides, which must differ."""
    count = len(into)
    found = link.move_dims(isl.dim_type.in_, count, isl.dim_type.out, 0, len(out)).domain().reset_tuple_id()
    for position, name in enumerate((*into, *out)):
        found = found.set_dim_name(_SET, position, name)
    return found


def solved(pairs: isl.Set, given: Sequence[str], unknown: Sequence[str]) -> list[Solved]:
    """Return disjoint parts of *pairs*, a set over *given* and *unknown*, each solved for the unknown names.

    ::

        e = i + k, 0 <= i < n, 0 <= k < 3    given e, unknown i, k

        i = e - k    for the k with 0 <= k < 3 and 0 <= e - k < n
    """
    dims = (*given, *unknown)
    return [_solved(basic.detect_equalities(), dims, given, unknown) for basic in apart(pairs.coalesce())
            if not basic.is_empty()]


def _solved(basic: isl.BasicSet, dims: Sequence[str], given: Sequence[str], unknown: Sequence[str]) -> Solved:
    equations = [form for form, is_equality in rows_of(basic, dims) if is_equality]
    forms: dict[str, Affine] = {}
    for name in unknown:
        usable = [form for form in equations if form.coefficient(name) and name not in _in_floors(form)]
        if not usable:
            continue
        best = min(usable, key=lambda form: (abs(form.coefficient(name)), len(form.terms)))
        equations.remove(best)
        coefficient = best.coefficient(name)
        rest = Affine(tuple(term for term in best.terms if term[0] != name), best.const)
        value = rest.scale(-1 if coefficient > 0 else 1).floordiv(abs(coefficient))
        equations = [form.substitute({name: value}) for form in equations]
        forms = {other: form.substitute({name: value}) for other, form in forms.items()} | {name: value}
    left = tuple(name for name in unknown if name not in forms)
    domain = project_onto(isl.Set.from_basic_set(basic), dims, (*given, *left))
    return Solved(forms, left, domain.coalesce())


def _in_floors(form: Affine) -> frozenset[str]:
    floors = [var for var, _ in form.terms if not isinstance(var, str)]
    return frozenset[str]().union(*(Affine(floor.terms, floor.const).names() for floor in floors))


def condition_of(domain: isl.Set, within: isl.Set, dims: Sequence[str]) -> Expression | None:
    """Return the condition that a point of *within* lies in *domain*; None if each does."""
    if within.is_subset(domain):
        return None
    pieces = domain.coalesce().gist(within).coalesce().compute_divs().get_basic_sets()
    parts = [_conjunction(piece, dims) for piece in pieces]
    return parts[0] if len(parts) == 1 else p.LogicalOr(tuple(parts))


def _conjunction(basic: isl.BasicSet, dims: Sequence[str]) -> Expression:
    rows = []
    for form, is_equality in rows_of(basic, dims):
        negative = Affine.make([(var, -c) for var, c in form.terms if c < 0], max(-form.const, 0))
        positive = Affine.make([(var, c) for var, c in form.terms if c > 0], max(form.const, 0))
        rows.append(p.Comparison(to_expression(positive), "==" if is_equality else ">=", to_expression(negative)))
    return conjunction(rows)
