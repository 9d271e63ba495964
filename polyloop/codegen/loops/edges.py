"""Bounds of a loop at its first tiles, and of an index that its counter is a digit of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from polyloop.codegen.loops.bounds import Bounds
from polyloop.codegen.loops.context import Context
from polyloop.poly.affine import Affine

__all__ = ["first_tiles", "first_value", "is_reached", "limit_on", "strengthened"]

_MOST_IN_FRONT: Final = 1  # tiles before the first full one that are written in front of a loop


def first_tiles(name: str, rows: Sequence[Affine], start: int | None) -> int:
    """Return the number of first tiles below the constant bounds *rows* on full ones, 0 if it is not small."""
    if start is None:
        return 0
    lower = [row for row in rows if row.coefficient(name) > 0 and len(row.terms) == 1]
    count = max([-(row.const // row.coefficient(name)) - start for row in lower], default=0)
    return count if 0 < count <= _MOST_IN_FRONT else 0


def first_value(bounds: Bounds) -> int | None:
    """Return the first value of a loop if it is a number."""
    if len(bounds.lower) == 1 and len(bounds.lower[0]) == 1 and not bounds.lower[0][0].terms:
        return bounds.lower[0][0].const
    return None


def limit_on(row: Affine, iname: str, index: Affine, context: Context) -> Affine | None:
    """Return the exclusive bound on *index* that *row*, an upper bound on *iname*, says; None if it says none.

    ``iname <= c`` says ``K * iname + rest < K * (c + 1)`` where ``0 <= rest < K``.
    """
    step = index.coefficient(iname)
    times, left = divmod(-row.coefficient(iname), step)
    rest = row.add(index, times)
    if not left and index.names().isdisjoint(rest.names()):
        return rest.add(Affine((), times)).floordiv(times)
    digit = index.add(Affine.variable(iname), -step)
    is_digit = context.implies(digit) and context.implies(Affine((), step - 1).add(digit, -1))
    return Affine((), step * (row.const + 1)) if row.terms == ((iname, -1),) and is_digit else None


def is_reached(bounds: Bounds, value: Affine, context: Context) -> bool:
    """Return True if the first value of a loop is known to be at most *value*."""
    return len(bounds.lower) == 1 and all(context.implies(value.add(form, -1)) for form in bounds.lower[0])


def strengthened(row: Affine, name: str, distance: int) -> Affine:
    """Return *row* shifted by *distance* iterations, which makes it stronger."""
    return Affine(row.terms, row.const - abs(row.coefficient(name)) * distance)
