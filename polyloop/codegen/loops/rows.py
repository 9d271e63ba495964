"""Integer rows ``form >= 0``: constraints of domains, as plain Python values.

A *piece* is a conjunction of rows, kept as ``{terms: constant}`` with the strongest constant; a set is a tuple of
pieces.  A parameter with a known residue, ``n = m * q + r``, is replaced by ``m * q + r`` with ``q`` named ``"n#"``.
Ordinary integer reasoning then removes every guard that the residue makes redundant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd
from typing import Final, TypeAlias

import islpy as isl

from polyloop.memo import memoised
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.order import places_of, row_key
from polyloop.poly.residues import Divisibility
from polyloop.poly.sets import settled
from polyloop.schedule.plan import Statement

__all__ = [
    "Divisibility",
    "Piece",
    "between_constants",
    "hull",
    "in_order",
    "negated",
    "pieces_of",
    "rewrite",
    "rows_of",
    "tightened",
]

Terms: TypeAlias = tuple[tuple[Var, int], ...]
Piece: TypeAlias = dict[Terms, int]

SET: Final = isl.dim_type.set
PARAM: Final = isl.dim_type.param
DIV: Final = isl.dim_type.div
IN: Final = isl.dim_type.in_
CONSTANT: Final = isl.dim_type.cst


def tightened(form: Affine) -> Affine:
    """Return ``form >= 0`` divided by the gcd of its coefficients; the constant is rounded down, which is exact."""
    common = 0
    for _, coefficient in form.terms:
        common = gcd(common, coefficient)
        if common == 1:
            return form
    if common <= 1:
        return form
    return Affine(tuple((v, c // common) for v, c in form.terms), form.const // common)


def negated(row: Affine) -> Affine:
    """Return the row that holds exactly where *row* does not."""
    return Affine(tuple((v, -c) for v, c in row.terms), -row.const - 1)


def put(piece: Piece, row: Affine) -> None:
    """Add a row to a piece."""
    terms, const = tightened(row)
    old = piece.get(terms)
    if not terms and const >= 0:
        return
    if old is None or const < old:
        piece[terms] = const


def hull(pieces: Iterable[Piece]) -> Piece:
    """Return rows that hold on all *pieces*: the rows that all of them have, with the weakest constants."""
    total: Piece | None = None
    for piece in pieces:
        if total is None:
            total = piece
        elif total is not piece:
            total = {terms: max(const, piece[terms]) for terms, const in total.items() if terms in piece}
    return {} if total is None else total


def rewrite(form: Affine, divisibility: Divisibility) -> Affine:
    """Return *form* with each parameter of known residue ``n`` replaced by ``m * n# + r``."""
    if not divisibility:
        return form
    values = {n: Affine((((f"{n}#"), m),), r) for n, (m, r) in divisibility.items()}
    return form.substitute(values)


def _number(value: isl.Val) -> int:
    """Return an integer; ``get_num_si`` is much faster than ``to_python``, but 0 for numbers of more than 64 bits."""
    return 0 if value.is_zero() else value.get_num_si() or value.to_python()


def _parameters(basic: isl.BasicSet) -> list[str]:
    space = basic.get_space()
    return [str(space.get_dim_name(PARAM, position)) for position in range(space.dim(PARAM))]


def rows_of(basic: isl.BasicSet, dims: Sequence[str], divisibility: Divisibility) -> Piece:
    """Return the constraints of a basic set whose divs are all known, in an order that does not depend on ISL."""
    return _in_order(_read(basic, dims, divisibility), dims)


def _in_order(piece: Piece, dims: Sequence[str]) -> Piece:
    if len(piece) < 2:
        return piece
    places = places_of(dims)
    keys = {}
    for terms, const in piece.items():
        opposite = piece.get(tuple((var, -c) for var, c in terms))
        is_equality = opposite is not None and opposite == -const
        keys[terms] = row_key(terms, const, places, is_equality=is_equality)
    return {terms: piece[terms] for terms in sorted(keys, key=keys.__getitem__)}


def in_order(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces of a union in an order that does not depend on ISL."""
    found = list(pieces)
    if len(found) < 2:
        return found
    return sorted(found, key=lambda piece: (len(piece), [(str(terms), -const) for terms, const in piece.items()]))


def _read(basic: isl.BasicSet, dims: Sequence[str], divisibility: Divisibility) -> Piece:
    columns = [rewrite(Affine.variable(name), divisibility) for name in (*_parameters(basic), *dims)]
    skipped = _definitions(basic, columns) if basic.dim(DIV) else ()
    form_of = _sums(columns)
    piece: Piece = {}
    for matrix, is_equality in ((basic.equalities_matrix, True), (basic.inequalities_matrix, False)):
        for row in _vectors(matrix(PARAM, SET, DIV, CONSTANT)):
            if not is_equality and row in skipped:  # an equality is kept: it says that there is no remainder
                continue
            form = form_of(row)
            put(piece, form)
            if is_equality:
                put(piece, form.scale(-1))
    return piece


def _vectors(matrix: isl.Mat) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a matrix."""
    read, columns = matrix.get_element_val, range(matrix.cols())
    for row in range(matrix.rows()):
        yield tuple([0 if (v := read(row, column)).is_zero() else _number(v) for column in columns])


def _definitions(basic: isl.BasicSet, columns: list[Affine]) -> set[tuple[int, ...]]:
    """Append the quotients of *basic* to its columns; return the rows by which ISL defines them."""
    found: set[tuple[int, ...]] = set()
    first, count = len(columns), basic.dim(DIV)
    parameters = basic.dim(PARAM)
    places = [(PARAM, i) if i < parameters else (IN, i - parameters) for i in range(first)]
    places += [(DIV, i) for i in range(count)]
    for number in range(count):
        aff = basic.get_div(number)
        denominator = aff.get_denominator_val()
        den = _number(denominator)
        row = [_number(aff.get_coefficient_val(*place).mul(denominator)) for place in places]
        const = _number(aff.get_constant_val().mul(denominator))
        total = Affine((), const)
        for coefficient, column in zip(row, columns, strict=False):  # quotients use earlier columns only
            total = total.add(column, coefficient)
        columns.append(total.floordiv(den))
        row[first + number] = -den
        found |= {(*row, const), (*(-c for c in row), den - 1 - const)}
    return found


def _sums(columns: Sequence[Affine]) -> Callable[[tuple[int, ...]], Affine]:
    """Return a function from a row of matrix entries (one for each column, then the constant) to its form."""
    last = len(columns)
    atoms = {column.terms[0][0]: i for i, column in enumerate(columns) if len(column.terms) == 1}
    if len(atoms) == last and all(column == Affine.variable(column.terms[0][0]) for column in columns):
        order = [(var, atoms[var]) for var, _ in Affine.make(dict.fromkeys(atoms, 1)).terms]
        return lambda row: Affine(tuple([(var, c) for var, place in order if (c := row[place])]), row[last])

    def total(row: tuple[int, ...]) -> Affine:
        found, const = dict[Var, int](), row[last]
        for coefficient, (terms, own) in zip(row, columns, strict=False):
            if coefficient:
                const += coefficient * own
                for var, c in terms:
                    found[var] = found.get(var, 0) + coefficient * c
        return Affine.make(found, const)

    return total


def pieces_of(statement: Statement, keep: frozenset[str], divisibility: Divisibility) -> tuple[Piece, ...]:
    """Return the projection of a statement's domain onto the dimensions *keep* (and the parameters).

    The result is exact if *keep* has every dimension, otherwise it may be larger.
    """
    return _pieces(statement.domain, statement.dims, keep, tuple(divisibility.items()))


_Divisors: TypeAlias = tuple[tuple[str, tuple[int, int]], ...]


@memoised
def _pieces(domain: isl.Set, dims: tuple[str, ...], keep: frozenset[str], divisibility: _Divisors) -> tuple[Piece, ...]:
    """Return the result of :func:`pieces_of`, which statements on one domain share."""
    return _project(domain, dims, tuple(name for name in dims if name in keep), divisibility)


@memoised
def _project(
    domain: isl.Set, dims: tuple[str, ...], kept: tuple[str, ...], divisibility: _Divisors
) -> tuple[Piece, ...]:
    """Return the rows of the projection of *domain* onto the dimensions *kept*, for each convex piece."""
    domain = settled(domain)
    exact = len(kept) == len(dims)
    if not exact and (without := _without_independent(domain, dims, kept, divisibility)) is not None:
        return without
    domain = _projected(domain, dims, kept)
    basics = domain.get_basic_sets()
    if len(basics) > 1:
        domain = domain.coalesce()
        basics = domain.get_basic_sets()
    if any(basic.dim(DIV) for basic in basics):
        basics = domain.compute_divs().get_basic_sets() if exact else [b.remove_unknown_divs() for b in basics]
    return tuple(in_order(rows_of(basic, kept, dict(divisibility)) for basic in basics))


def _without_independent(
    domain: isl.Set, dims: tuple[str, ...], kept: tuple[str, ...], divisibility: _Divisors
) -> tuple[Piece, ...] | None:
    """Return the projection of a convex domain by dropping the rows of independent dimensions, None if there are none.

    Such dimensions have constant bounds, and occur in no other row.
    """
    whole = _pieces(domain, dims, frozenset(dims), divisibility)
    if len(whole) != 1:
        return None
    free = _independent(whole[0]).difference(kept)
    gone = frozenset(dim for dim in dims if dim in free)
    if not gone:
        return None
    if len(gone) + len(kept) < len(dims):
        whole = _pieces(domain, dims, gone.union(kept), divisibility)
        if len(whole) != 1 or not gone <= _independent(whole[0]):  # the projection may have put them into a floor
            return None
    return ({terms: const for terms, const in whole[0].items() if len(terms) > 1 or terms[0][0] not in gone},)


def _independent(piece: Piece) -> set[str]:
    """Return the names whose only rows are constant bounds, between which there are values."""
    alone: dict[str, int] = {}
    coupled: set[str] = set()
    for terms, const in piece.items():
        if len(terms) == 1 and abs(terms[0][1]) == 1 and type(var := terms[0][0]) is str:
            alone[var] = alone.get(var, 0) + const
        else:
            coupled.update(Affine(terms).names())
    return {var for var, room in alone.items() if var not in coupled and room >= 0}


def projected(statement: Statement, kept: Sequence[str]) -> isl.Set:
    """Return the projection of a statement's domain onto *kept*, a subsequence of its dimensions."""
    return _projected(statement.domain, statement.dims, kept)


def _projected(domain: isl.Set, dims: Sequence[str], kept: Sequence[str]) -> isl.Set:
    end = len(dims)
    while end:
        start = end
        while start and dims[start - 1] not in kept:
            start -= 1
        if start < end:
            domain = domain.project_out(SET, start, end - start)
        end = start - 1 if start else 0
    return domain


def between_constants(name: str, piece: Piece) -> bool:
    """Return True if constant bounds are the only rows of *piece* on *name*."""
    for terms in piece:
        if len(terms) == 1 and terms[0][0] == name:
            continue
        if _is_on(terms, name):
            return False
    return True


def mentions(var: Var, name: str) -> bool:
    """Return True if *var* is a floor with *name* inside."""
    return isinstance(var, Floor) and _is_on(var.terms, name)


def _is_on(terms: Terms, name: str) -> bool:
    """Return True if *name* occurs in *terms*, also inside of floors."""
    return any(var == name or (type(var) is not str and mentions(var, name)) for var, _ in terms)
