"""Canonical order of constraints, independent of the order that ISL keeps them in.

ISL rearranges the constraints of a set, and the pieces of a union, in place, as a side effect of questions. An order of
our own makes generated text independent of everything that the process did before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from polyloop.poly.affine import Floor, Var
from polyloop.poly.axes import is_axis, is_block_axis, number_of

__all__ = ["Places", "RowKey", "places_of", "row_key"]

Places: TypeAlias = Mapping[str, tuple[int, int]]
"""The place of each dimension: its kind and its number among them; every other name is a parameter."""

_Place: TypeAlias = tuple[int, int, int, str]
RowKey: TypeAlias = tuple[bool, tuple[_Place, ...], int, tuple[str, ...], str, int]

_PARAMETER: Final = 0
_BLOCK: Final = 1
_LOOP: Final = 2
_THREAD: Final = 3


def places_of(dims: Sequence[str]) -> Places:
    """Return the sort key of each of *dims*: block axes, loops from the outermost one, thread axes; z, y, then x."""
    return {name: _place(name, number) for number, name in enumerate(dims)}


def _place(name: str, number: int) -> tuple[int, int]:
    if is_axis(name):
        return _BLOCK if is_block_axis(name) else _THREAD, -number_of(name)
    return _LOOP, number


def _of_variable(var: Var, places: Places) -> _Place:
    """Return the sort key of a variable; that of a quotient follows its last variable."""
    if isinstance(var, Floor):
        inner = max((_of_variable(v, places) for v, _ in var.terms), default=(_PARAMETER, 0, 0, ""))
        return (inner[0], inner[1], inner[2] + 1, str(var))
    kind, number = places.get(var, (_PARAMETER, 0))
    return (kind, number, 0, var)


def row_key(terms: Sequence[tuple[Var, int]], const: int, places: Places, *, is_equality: bool) -> RowKey:
    """Return the key that sorts constraints ``terms + const >= 0`` (or ``== 0``).

    Equations first, ``y == x``; then by the innermost variable: rows before columns, and lower before upper bounds.
    """
    placed = sorted(((_of_variable(var, places), c) for var, c in terms), reverse=True)
    inner = tuple(place for place, _ in placed if place[0] != _PARAMETER)
    leading = placed[len(inner) - 1 if is_equality else 0][1] if placed else 0
    sign = -1 if leading > 0 else 1
    outer = tuple(place[3] for place, _ in placed if place[0] == _PARAMETER)
    return (not is_equality, inner, sign, outer, str([c for _, c in placed]), const)
