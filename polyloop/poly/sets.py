"""Building and reading ISL sets and maps by dimension name.

The rest of the library states *which* names it means; the positions, the alignment of parameters
and the traps of the binding are dealt with here.  Sets own an explicit tuple of dimension names,
given by the caller, because ISL's own dimension names are decoration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Final, NamedTuple

import islpy as isl

from polyloop.memo import memoised
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.budget import NoAnswer, aside
from polyloop.poly.order import places_of, row_key

__all__ = [
    "Row",
    "add_rows",
    "apart",
    "bounding_interval",
    "constant_bounds",
    "floor_of",
    "form_to_aff",
    "gcd_normal",
    "hull_along",
    "increasing",
    "insert_dims",
    "is_strided",
    "lex_relation",
    "map_from_forms",
    "parameter_space",
    "parametric_interval",
    "preimage",
    "project_onto",
    "rename_dims",
    "reorder",
    "rows_of",
    "sample_pair",
    "sample_set",
    "set_text",
    "settled",
    "single_values",
    "universe",
    "without_constant_part",
]

SET: Final = isl.dim_type.set
PARAM: Final = isl.dim_type.param
IN: Final = isl.dim_type.in_
OUT: Final = isl.dim_type.out
DIV: Final = isl.dim_type.div


class Row(NamedTuple):
    """The constraint ``form >= 0`` (or ``form == 0``)."""

    form: Affine
    is_equality: bool = False


def parameter_space(parameters: Sequence[str]) -> isl.Set:
    """Return the universe over *parameters* alone, the space that all sets are aligned to."""
    return _parameter_space(tuple(parameters))


@lru_cache(maxsize=64)
def _parameter_space(parameters: tuple[str, ...]) -> isl.Set:
    space = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, len(parameters))
    for position, name in enumerate(parameters):
        space = space.set_dim_name(isl.dim_type.param, position, name)  # not as text, in which some names are words
    return isl.Set.universe(space)


def universe(given: isl.Set, dims: Sequence[str]) -> isl.Set:
    """Return the universe with set dimensions *dims* over the parameters of the set *given*."""
    space = given.get_space().params().set_from_params().add_dims(SET, len(dims))
    for position, name in enumerate(dims):
        space = space.set_dim_name(SET, position, name)
    return isl.Set.universe(space)


def _dim_name(space: isl.Space, kind: isl.dim_type, position: int) -> str:
    name = space.get_dim_name(kind, position)
    assert name is not None, f"dimension {position} of {space} has no name"
    return name


_VALUES: Final = 1024
_values: dict[int, isl.Val] = {}
"""Numbers as ISL has them: to make one takes longer than what it is made for."""


def _val(number: int) -> isl.Val:
    found = _values.get(number)
    if found is None:
        found = isl.Val.int_from_si(isl.DEFAULT_CONTEXT, number) if abs(number) < _LONG else isl.Val(str(number))
        if len(_values) < _VALUES:
            _values[number] = found
    return found


def _number(value: isl.Val) -> int:
    """Return an ISL value as an integer; ``get_num_si`` is 0 for numbers beyond a C long, which go through text."""
    return 0 if value.is_zero() else value.get_num_si() or value.to_python()


_LONG: Final = 1 << 31
"""Bound of the magnitudes that fit into a C long on every platform."""


def _positions(space: isl.Space, dims: Sequence[str]) -> dict[str, tuple[isl.dim_type, int]]:
    """Return the position of each name; a set dimension hides a parameter of the same name."""
    where = {_dim_name(space, PARAM, i): (PARAM, i) for i in range(space.dim(PARAM))}
    for position, name in enumerate(dims):
        where[name] = (IN, position)
    return where


def form_to_aff(form: Affine, local_space: isl.LocalSpace, dims: Sequence[str]) -> isl.Aff:
    """Return *form* as an ``isl.Aff`` over a set with dimensions named *dims*."""
    return _aff(form, local_space, _positions(local_space.get_space(), dims))


def _aff(form: Affine, ls: isl.LocalSpace, where: Mapping[str, tuple[isl.dim_type, int]]) -> isl.Aff:
    aff = isl.Aff.zero_on_domain(ls)
    for var, coefficient in form.terms:
        if isinstance(var, Floor):
            inner = _aff(Affine(var.terms, var.const), ls, where).scale_down_val(_val(var.den)).floor()
            aff = aff.add(inner if coefficient == 1 else inner.scale_val(_val(coefficient)))
        else:
            kind, position = where[var]
            aff = aff.add_coefficient_val(kind, position, _val(coefficient))
    return aff.add_constant_val(_val(form.const)) if form.const else aff


def map_from_forms(
    domain: isl.Set, dims: Sequence[str], forms: Sequence[Affine | None], name: str | None = None
) -> isl.Map:
    """Return ``{ domain[dims] -> name[forms] }``; a None leaves its dimension unconstrained."""
    if name is None:
        return _map_from_forms(domain, (*dims,), (*forms,))
    return _named_map(domain, name, (*dims,), (*forms,))


@memoised
def _named_map(domain: isl.Set, name: str, dims: tuple[str, ...], forms: tuple[Affine | None, ...]) -> isl.Map:
    return _map_from_forms(domain, dims, forms).set_tuple_name(OUT, name)


@memoised
def _map_from_forms(domain: isl.Set, dims: tuple[str, ...], forms: tuple[Affine | None, ...]) -> isl.Map:
    space = domain.get_space()
    where = _positions(space, dims)
    map_space = space.from_domain().add_dims(OUT, len(forms))
    if all(type(var) is str for form in forms if form is not None for var, _ in form.terms):
        result = _linear_map(map_space, where, forms).intersect_domain(domain)
    else:
        ls = isl.LocalSpace.from_space(space)
        affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(forms))
        for form in forms:
            affs = affs.add(_aff(form if form is not None else Affine((), 0), ls, where))
        result = isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(map_space, affs)).intersect_domain(domain)
        for position, form in enumerate(forms):
            if form is None:
                result = result.drop_constraints_involving_dims(OUT, position, 1)
    return result


def _linear_map(
    space: isl.Space, where: Mapping[str, tuple[isl.dim_type, int]], forms: Sequence[Affine | None]
) -> isl.Map:
    """Return ``{ [..] -> [forms] }`` for forms without quotients."""
    ls = isl.LocalSpace.from_space(space)
    result = isl.BasicMap.universe(space)
    for number, form in enumerate(forms):
        if form is None:
            continue
        constraint = isl.Constraint.equality_alloc(ls).set_coefficient_val(OUT, number, _val(-1))
        for var, coefficient in form.terms:
            assert isinstance(var, str)
            kind, position = where[var]
            constraint = constraint.set_coefficient_val(kind, position, _val(coefficient))
        result = result.add_constraint(constraint.set_constant_val(_val(form.const)) if form.const else constraint)
    return result.to_map()


def preimage(domain: isl.Set, names: Sequence[str], forms: Sequence[Affine]) -> isl.Set:
    """Return ``{ [names] : [forms] in domain }``, over the parameters of *domain*."""
    space = universe(domain, names).get_space()
    ls = isl.LocalSpace.from_space(space)
    where = _positions(space, names)
    affs = isl.AffList.alloc(isl.DEFAULT_CONTEXT, len(forms))
    for form in forms:
        affs = affs.add(_aff(form, ls, where))
    target = space.map_from_domain_and_range(domain.get_space())
    found = domain.preimage_multi_aff(isl.MultiAff.from_aff_list(target, affs))
    for position, name in enumerate(names):
        found = found.set_dim_name(SET, position, name)
    return found


def add_rows(domain: isl.Set, dims: Sequence[str], rows: Iterable[Row]) -> isl.Set:
    """Return *domain* with the constraints *rows* over *dims* and parameters."""
    ls = isl.LocalSpace.from_space(domain.get_space())
    where = _positions(domain.get_space(), dims)
    for form, is_equality in rows:
        if not form.terms:
            if form.const < 0 or (is_equality and form.const):
                domain = isl.Set.empty(domain.get_space())
        elif all(type(v) is str for v, _ in form.terms):
            alloc = isl.Constraint.equality_alloc if is_equality else isl.Constraint.inequality_alloc
            constraint = alloc(ls)
            for var, coefficient in form.terms:
                assert isinstance(var, str)
                kind, position = where[var]
                kind = SET if kind == IN else PARAM
                constraint = constraint.set_coefficient_val(kind, position, _val(coefficient))
            domain = domain.add_constraint(constraint.set_constant_val(_val(form.const)) if form.const else constraint)
        else:
            aff = _aff(form, ls, where)
            zero = isl.Aff.zero_on_domain(ls)
            domain = domain.intersect((aff.eq_set if is_equality else aff.ge_set)(zero))
    return domain


def project_onto(domain: isl.Set, dims: Sequence[str], keep: Sequence[str]) -> isl.Set:
    """Return the projection of *domain* (dimensions *dims*) onto *keep*, in the order of *keep*."""
    wanted = set(keep)
    left = list(dims)
    end = len(left)
    while end:
        begin = end
        while begin and left[begin - 1] not in wanted:
            begin -= 1
        if begin < end:
            domain = domain.project_out(SET, begin, end - begin)
            del left[begin:end]
        end = max(begin - 1, 0)
    return reorder(domain, left, keep)


def reorder(domain: isl.Set, dims: Sequence[str], order: Sequence[str]) -> isl.Set:
    """Return *domain* with its dimensions permuted from *dims* to *order*, and named so."""
    return _named(domain, order) if tuple(dims) == tuple(order) else _permuted(domain, (*dims,), (*order,))


@memoised
def _permuted(domain: isl.Set, dims: tuple[str, ...], order: tuple[str, ...]) -> isl.Set:
    forms = tuple([Affine.variable(name) for name in order])
    permuted = _map_from_forms(isl.Set.universe(domain.get_space()), dims, forms).intersect_domain(domain).range()
    return _named(permuted, order)


def _named(domain: isl.Set, order: Sequence[str]) -> isl.Set:
    for position, name in enumerate(order):
        if domain.get_dim_name(SET, position) != name:
            domain = domain.set_dim_name(SET, position, name)
    return domain


def insert_dims(domain: isl.Set, position: int, names: Sequence[str]) -> isl.Set:
    """Return *domain* with unconstrained dimensions *names* inserted before *position*."""
    domain = domain.insert_dims(SET, position, len(names))
    for offset, name in enumerate(names):
        domain = domain.set_dim_name(SET, position + offset, name)
    return domain


def rename_dims(domain: isl.Set, names: Mapping[str, str]) -> isl.Set:
    """Return *domain* with those of its dimensions and parameters that *names* has under their new names."""
    for kind in (SET, PARAM):
        for position in range(domain.dim(kind)):
            old = domain.get_dim_name(kind, position) if domain.has_dim_name(kind, position) else None
            if old is not None and old in names:
                domain = domain.set_dim_name(kind, position, names[old])
    return domain


def is_strided(domain: isl.Set) -> bool:
    """Return whether *domain* has constraints by quotients, of which loops over a projection see a hull alone."""
    return any(basic.dim(DIV) for basic in domain.get_basic_sets())


def settled(domain: isl.Set) -> isl.Set:
    """Return *domain* in a state that no question changes: what is read of it does not depend on who asked before.

    Questions to ISL detect the equalities of a set, drop its redundant rows and sort its quotients in place
    (``isl_map_inline_foreach_basic_map`` in ISL's source), which a set that two share shows to both.
    """
    domain = domain.detect_equalities().remove_redundancies()
    return domain if domain.n_basic_set() <= 1 else domain.coalesce().detect_equalities().remove_redundancies()


def set_text(found: isl.Set | isl.Map) -> str:
    """Return the text of a set or a relation, the same whatever was asked about it before."""
    return str(settled(found) if isinstance(found, isl.Set) else settled(found.wrap()).unwrap())


def lex_relation(space: isl.Space, equal: Sequence[tuple[int, int]], less: tuple[int, int] | None) -> isl.Map:
    """Return ``{ [x] -> [y] : x_i = y_j for (i, j) in equal, x_a < y_b for (a, b) = less }``."""
    ls = isl.LocalSpace.from_space(space)
    basic = isl.BasicMap.universe(space)
    for i, j in equal:
        constraint = isl.Constraint.equality_alloc(ls).set_coefficient_val(IN, i, _val(1))
        basic = basic.add_constraint(constraint.set_coefficient_val(OUT, j, _val(-1)))
    if less is not None:
        constraint = isl.Constraint.inequality_alloc(ls)
        constraint = constraint.set_coefficient_val(IN, less[0], _val(-1)).set_coefficient_val(OUT, less[1], _val(1))
        basic = basic.add_constraint(constraint.set_constant_val(_val(-1)))
    return basic.to_map()


def increasing(space: isl.Space, position: int, least: int) -> isl.Map:
    """Return ``{ x -> y : y_p - x_p >= least, all other dimensions equal }`` over a set space."""
    map_space = space.map_from_set()
    equal = [(i, i) for i in range(space.dim(SET)) if i != position]
    result = lex_relation(map_space, equal, None)
    constraint = isl.Constraint.inequality_alloc(isl.LocalSpace.from_space(map_space))
    constraint = constraint.set_coefficient_val(IN, position, -1).set_coefficient_val(OUT, position, 1)
    ordered = isl.BasicMap.universe(map_space).add_constraint(constraint.set_constant_val(-least))
    return result.intersect(ordered.to_map())


def apart(domain: isl.Set) -> Sequence[isl.BasicSet]:
    """Return disjoint parts of *domain*, all quotients of which are known."""
    domain = domain.compute_divs()
    if domain.n_basic_set() > 1:
        domain = domain.make_disjoint().compute_divs()
    return domain.get_basic_sets()


def gcd_normal(form: Affine) -> Affine:
    """Divide ``form >= 0`` by the gcd of its coefficients, rounding the constant down (exact)."""
    divisor = gcd(*(coefficient for _, coefficient in form.terms))
    if divisor <= 1:
        return form
    return Affine(tuple((v, c // divisor) for v, c in form.terms), form.const // divisor)


def rows_of(basic: isl.BasicSet, dims: Sequence[str]) -> tuple[Row, ...]:
    """Return the constraints of *basic* as rows, in our own order; unknown divs must have been removed before."""
    space = basic.get_space()
    parameters = [_dim_name(space, PARAM, i) for i in range(space.dim(PARAM))]
    divs: list[Var] = []
    for number in range(basic.dim(DIV)):
        divs.append(floor_of(basic.get_div(number), parameters, dims, divs))
    rows = []
    for constraint in basic.get_constraints():
        if divs and constraint.is_div_constraint():
            continue
        terms: dict[Var, int] = {}
        groups: tuple[tuple[isl.dim_type, Sequence[Var]], ...] = ((PARAM, parameters), (SET, dims), (DIV, divs))
        for kind, names in groups:
            for position, name in enumerate(names):
                value = _number(constraint.get_coefficient_val(kind, position))
                if value:
                    terms[name] = terms.get(name, 0) + value
        form = Affine.make(terms, _number(constraint.get_constant_val()))
        rows.append(Row(form, True) if constraint.is_equality() else Row(gcd_normal(form), False))
    places = places_of(dims)
    keys = [row_key(form.terms, form.const, places, is_equality=is_equality) for form, is_equality in rows]
    return tuple(rows[number] for number in sorted(range(len(rows)), key=keys.__getitem__))


def floor_of(aff: isl.Aff, parameters: Sequence[str], dims: Sequence[str], divs: Sequence[Var]) -> Floor:
    """Return *aff*, a quotient rounded down, over names; *divs* are its own quotients."""
    den = aff.get_denominator_val()
    terms: dict[Var, int] = {}
    groups: tuple[tuple[isl.dim_type, Sequence[Var]], ...] = ((PARAM, parameters), (IN, dims), (DIV, divs))
    for kind, names in groups:
        for position, name in enumerate(names):
            value = _number(aff.get_coefficient_val(kind, position).mul(den))
            if value:
                terms[name] = value
    form = Affine.make(terms, _number(aff.get_constant_val().mul(den)))
    return Floor(form.terms, form.const, _number(den))


@memoised
def constant_bounds(domain: isl.Set, position: int) -> tuple[int | None, int | None]:
    """Return the least and greatest value of a dimension over all parameters, None where unbounded."""
    low, high = domain.dim_min_val(position), domain.dim_max_val(position)
    return (
        _number(low) if low.is_int() else None,
        _number(high) if high.is_int() else None,
    )


def hull_along(domain: isl.Set, position: int) -> isl.BasicSet:
    """Return a convex set around *domain* that has the bounds which the dimension at *position* has by itself.

    ISL's simple hull has only rows that some piece is written with: of ``a = j or a = k`` with 0 <= j, k < 4, it is not
    known to have 0 <= a < 4.
    """
    domain = settled(domain)
    pieces = domain.get_basic_sets()
    if len(pieces) == 1:
        return pieces[0]
    behind = domain.dim(SET) - position - 1
    alone = domain.project_out(SET, position + 1, behind).project_out(SET, 0, position).coalesce()
    own = alone.get_basic_sets()
    bounds = own[0] if len(own) == 1 else alone.simple_hull()
    bounds = bounds.insert_dims(SET, 0, position).insert_dims(SET, position + 1, behind)
    return domain.simple_hull().intersect(bounds)


def bounding_interval(domain: isl.Set, position: int, dims: Sequence[str]) -> tuple[Affine, int] | None:
    """Return ``(base, extent)`` such that the dimension lies in ``[base, base + extent)``.

    ``base`` is affine in the other dimensions and the parameters, ``extent`` the smallest
    constant that works among the lower bounds that the hull of *domain* shows.  None if there is none.
    Bounds of a multiple of the dimension, which are quotients, are looked at where no other one works.
    """
    basic = hull_along(domain, position).remove_unknown_divs().detect_equalities()
    rows = tuple(rows_of(basic, dims))
    found = _interval_from(domain, dims, _lower_bounds(rows, dims[position]), dims[position])
    return found or _interval_from(domain, dims, _lower_quotients(rows, dims[position]), dims[position])


def _lower_bounds(rows: Iterable[tuple[Affine, bool]], name: str) -> Iterator[Affine]:
    """Yield forms that the dimension *name* is not below, by constraints in which its coefficient is 1."""
    for form, is_equality in rows:
        coefficient = form.coefficient(name)
        if coefficient == 1 or (coefficient == -1 and is_equality):
            yield Affine(tuple(t for t in form.terms if t[0] != name), form.const).scale(-coefficient)


def _lower_quotients(rows: Iterable[tuple[Affine, bool]], name: str) -> Iterator[Affine]:
    """Yield forms that the dimension *name* is not below, by constraints of a multiple of it."""
    for form, is_equality in rows:
        coefficient = form.coefficient(name)
        if coefficient > 1 or (coefficient < -1 and is_equality):
            rest = Affine(tuple(t for t in form.terms if t[0] != name), form.const)
            rest, by = rest.scale(-1 if coefficient > 0 else 1), abs(coefficient)
            yield rest.add(Affine((), by - 1)).floordiv(by)


def _interval_from(
    domain: isl.Set, dims: Sequence[str], bases: Iterable[Affine], name: str
) -> tuple[Affine, int] | None:
    """Return the base from which the dimension *name* has the smallest constant extent, with this extent."""
    ls = isl.LocalSpace.from_space(domain.get_space())
    best: tuple[Affine, int] | None = None
    for rest in bases:
        if name in rest.names():
            continue
        offset = Affine.variable(name).add(rest, -1)
        top = domain.max_val(form_to_aff(offset, ls, dims))
        if top.is_int() and (best is None or _number(top) + 1 < best[1]):
            best = (rest, _number(top) + 1)
    return best


def without_constant_part(form: Affine, domain: isl.Set, dims: Sequence[str]) -> Affine:
    """Return *form* with a number for its terms in *dims* alone, if quotients are among these and they have one value.

    ``3*floor(k/6) - 3*floor(floor(k/2)/3) + i`` is ``i``.
    """
    own = [term for term in form.terms if Affine((term,), 0).names() <= frozenset(dims)]
    if not any(isinstance(var, Floor) for var, _ in own):
        return form
    part = form_to_aff(Affine(tuple(own), 0), isl.LocalSpace.from_space(domain.get_space()), dims)
    low, high = domain.min_val(part), domain.max_val(part)
    if not low.is_int() or not low.eq(high):
        return form
    return Affine(tuple(term for term in form.terms if term not in own), form.const + _number(low))


def parametric_interval(domain: isl.Set, position: int, dims: Sequence[str]) -> tuple[Affine, Affine] | None:
    """Return ``(base, extent)`` such that the last dimension, at *position*, lies in ``[base, base + extent)``.

    ``base`` is affine in the other dimensions and the parameters, ``extent`` in the parameters alone; of those that the
    hull of *domain* shows, the ones with the fewest terms.  None if there is no such interval.
    """
    basic = hull_along(domain, position).remove_unknown_divs().detect_equalities()
    name = dims[position]
    found: list[tuple[Affine, Affine]] = []
    for form, is_equality in rows_of(basic, dims):
        coefficient = form.coefficient(name)
        if abs(coefficient) != 1 or (coefficient < 0 and not is_equality):
            continue
        base = Affine(tuple(t for t in form.terms if t[0] != name), form.const).scale(-coefficient)
        if name in base.names():
            continue
        offsets = map_from_forms(domain, dims, [Affine.variable(name).add(base, -1)]).range().coalesce()
        found += [(base, limit.add(Affine((), 1))) for limit in _upper_limits(offsets)]
    return min(found, key=lambda pair: (len(pair[1].terms), len(pair[0].terms), pair[1].const), default=None)


def _upper_limits(domain: isl.Set) -> Iterator[Affine]:
    """Yield forms of the parameters that a set of one dimension stays at or below."""
    domain = settled(domain)
    pieces = domain.get_basic_sets()
    basic = (pieces[0] if len(pieces) == 1 else domain.simple_hull()).remove_unknown_divs().detect_equalities()
    for form, is_equality in rows_of(basic, ("x'",)):
        coefficient = form.coefficient("x'")
        if coefficient < 0 or (is_equality and coefficient == 1):
            rest = Affine(tuple(t for t in form.terms if t[0] != "x'"), form.const)
            rest = rest.scale(-1) if coefficient > 0 else rest
            if all(isinstance(name, str) for name, _ in rest.terms):
                yield rest.floordiv(abs(coefficient))


def single_values(
    domain: isl.Set, around: Sequence[str], own: Sequence[str]
) -> tuple[isl.Set, dict[str, Affine]]:
    """Return *domain*, over *around* and *own*, without *own*, and these as forms of *around*.

    Where the equalities of the domain do not show such forms, the domain itself is returned, and nothing.
    """
    dims = (*around, *own)
    pieces = settled(domain).get_basic_sets()
    if len(pieces) != 1:
        return domain, {}
    forms: dict[str, Affine] = {}
    for form, is_equality in rows_of(pieces[0].remove_unknown_divs().detect_equalities(), dims):
        for name in own:
            coefficient = form.coefficient(name)
            rest = Affine(tuple(term for term in form.terms if term[0] != name), form.const).scale(-coefficient)
            if is_equality and abs(coefficient) == 1 and rest.names().isdisjoint(own) and name not in forms:
                forms[name] = rest
    if len(forms) < len(own):
        return domain, {}
    return project_onto(domain, dims, around), forms


def _first_point(domain: isl.Set) -> isl.Point | None:
    """Return a point of *domain*, the first one for some parameters if there is a first; None if it is empty."""
    point = domain.sample_point()
    if point.is_void():
        return None
    space = point.get_space()
    for position in range(space.dim(PARAM)):
        domain = domain.fix_val(PARAM, position, point.get_coordinate_val(PARAM, position))
    try:
        with aside():
            first = domain.lexmin().sample_point()
    except NoAnswer:  # "unbounded optimum", even where each dimension has a bound: quotients may have none
        return point
    # ISL finds no first element of {[i, j]: 0 < i <= 4, i - 1 <= 2j <= i}, both even, for some orders of rows: (4, 2)
    return point if first.is_void() else first


def sample_set(domain: isl.Set, dims: Sequence[str]) -> dict[str, int] | None:
    """Return one point of *domain* as ``{name: value}``, parameters included; None if empty."""
    point = _first_point(domain)
    if point is None:
        return None
    space = point.get_space()
    values = {
        _dim_name(space, PARAM, i): point.get_coordinate_val(PARAM, i).to_python()
        for i in range(space.dim(PARAM))
    }
    for position, name in enumerate(dims):
        values[name] = point.get_coordinate_val(SET, position).to_python()
    return values


def sample_pair(
    relation: isl.Map, sources: Sequence[str], sinks: Sequence[str], *, is_first: bool = True
) -> tuple[dict[str, int], dict[str, int], dict[str, int]] | None:
    """Return ``(parameters, source instance, sink instance)`` of one pair of *relation*.

    It is the first one, for messages.  Without *is_first* it is any: to ask for that takes a fraction of the time.
    """
    point = _first_point(relation.wrap()) if is_first else relation.wrap().sample_point()
    if point is None or point.is_void():
        return None
    space = point.get_space()
    parameters = {
        _dim_name(space, PARAM, i): point.get_coordinate_val(PARAM, i).to_python()
        for i in range(space.dim(PARAM))
    }
    values: Iterator[int] = (
        point.get_coordinate_val(SET, i).to_python() for i in range(len(sources) + len(sinks))
    )
    return parameters, dict(zip(sources, values, strict=False)), dict(zip(sinks, values, strict=False))
