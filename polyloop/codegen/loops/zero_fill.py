"""Copies with zero fill: the conditions under which the source element exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyloop.codegen.loops.bounds import minimal
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import pieces_of, tightened
from polyloop.codegen.scope import Scope
from polyloop.mapping.contiguity import Lanes
from polyloop.poly.affine import Affine, Floor
from polyloop.schedule.plan import Assign, Statement

__all__ = ["copied_rows", "copied_rows_of_lanes"]

Cases = list[list[Affine]]
"""A disjunction of conjunctions of rows, the condition under which an instance copies; an empty entry if always."""


def copied_rows(scope: Scope, statement: Statement, context: Context) -> Cases:
    """Return the condition under which *statement* copies, without rows that *context* implies."""
    assert statement.copied is not None, f"'{statement.name}' copies wherever it runs"
    copying = replace(statement, domain=statement.copied, action=Assign())
    pieces = pieces_of(copying, frozenset(statement.dims), scope.divisibility)
    found = [
        [row for terms, const in piece.items() if not context.implies(row := Affine(terms, const))]
        for piece in pieces
    ]
    return [minimal(rows, context) for rows in found]


def copied_rows_of_lanes(scope: Scope, statement: Statement, lanes: Lanes, context: Context) -> Cases | None:
    """Return the condition under which all *lanes* copy; None if some of them may copy while others do not."""
    name, ends = lanes.iname, (lanes.low, lanes.low + lanes.count - 1)
    box = [Affine(((name, 1),), -ends[0]), Affine(((name, -1),), ends[1])]
    found = [[_of_lanes(row, name, ends) for row in rows] for rows in copied_rows(scope, statement, context.add(box))]
    known = [[row for row in rows if row is not None] for rows in found]
    return known if all(len(a) == len(b) for a, b in zip(known, found, strict=True)) else None


def _of_lanes(row: Affine, name: str, ends: Sequence[int]) -> Affine | None:
    if any(isinstance(var, Floor) and name in Affine(var.terms, 0).names() for var, _ in row.terms):
        return None
    first, last = (tightened(row.substitute({name: Affine((), value)})) for value in ends)
    return first if first == last else None
