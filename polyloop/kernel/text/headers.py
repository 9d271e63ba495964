"""Loops with bounds of their own: ``for i = first, last`` and ``for i = first, last, step``.

Both bounds are included.  A loop that runs downward has an iname that counts from 0, and ``i`` stands for the
difference of *first* and that iname::

    for i = n - 1, 0, -1
        x[i] = x[i + 1]*a[i]
    end
    ->
    {[i_down]: 0 <= i_down < n}
    x[n - i_down - 1] = x[n - i_down]*a[n - i_down - 1]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import map_nodes, rebuild, substitute, variables
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.kernel.text.logical_lines import fail
from polyloop.poly.affine import Affine, affine_of, isl_text, to_expression

__all__ = ["HEADER", "Header", "in_place", "read_header"]

HEADER: Final = re.compile(r"(\w+)\s*=(?!=)", re.ASCII)
_FORM: Final = "write 'for i = first, last' or 'for i = first, last, step'"


@dataclass(frozen=True)
class Header:
    """The bounds of a loop over *iname*, in which *name* stands for *value*."""

    name: str
    iname: str
    domain: str
    value: Expression

    @property
    def is_plain(self) -> bool:
        """True if the name is that of the iname."""
        return isinstance(self.value, p.Variable) and self.value.name == self.name


def read_header(tail: Source, parse: Callable[[Source], Expression], taken: Callable[[str], bool]) -> Header:
    """Return the loop that ``i = first, last, step`` says; *parse* reads an expression where the loop stands.

    Raises
    ------
    KernelError
        ``syntax``, ``bad-bound``.
    """
    match = HEADER.match(tail.text)
    assert match is not None, "no bounds"
    name = match.group(1)
    entries = [part.strip() for part in split_outside_brackets(tail.slice(match.end(), len(tail.text)), ",")]
    if not 2 <= len(entries) <= 3 or not all(entry.text for entry in entries):
        fail("syntax", "a loop has a first and a last value, and at most a step", tail.span(), _FORM)
    first, last = (_bound(entry, parse) for entry in entries[:2])
    step = _step(entries[2], parse) if len(entries) == 3 else 1
    iname = _free(name, step > 0, taken)
    if step > 0:
        bounds, offset = f"{isl_text(first)} <= {iname} <= {isl_text(last)}", f"{iname} - ({isl_text(first)})"
        value: Expression = p.Variable(iname)
    else:
        bounds, offset = f"0 <= {iname} <= {isl_text(first.add(last, -1))}", iname
        value = to_expression(first.add(Affine.variable(iname), -1))
    strides = f" and ({offset}) mod {abs(step)} = 0" if abs(step) > 1 else ""
    return Header(name, iname, f"{{[{iname}]: {bounds}{strides}}}", value)


def _free(name: str, upward: bool, taken: Callable[[str], bool]) -> str:
    """Return the iname of a loop over *name*, with a number where something else is called so."""
    wish, number = name if upward else f"{name}_down", 0
    iname = wish
    while taken(iname):
        number += 1
        iname = f"{wish}_{number}"
    return iname


def _bound(source: Source, parse: Callable[[Source], Expression]) -> Affine:
    expr = parse(source)
    form = None if isinstance(expr, bool) else affine_of(expr)
    if form is None:
        hint = "assign it to a temporary in front of the loop, <int32> last = ..., and write its name"
        fail("bad-bound", f"'{source.text}' is not an affine bound", source.span(), hint)
    return form


def _step(source: Source, parse: Callable[[Source], Expression]) -> int:
    form = affine_of(parse(source))
    if form is None or form.terms or not form.const:
        hint = "write an integer, such as 2 or -1"
        fail("bad-bound", "the step of a loop is a constant other than 0", source.span(), hint)
    return form.const


def in_place(values: Mapping[str, Expression], expr: Expression) -> Expression:
    """Return *expr* with names of loops replaced by their *values*; subscripts with them are affine forms again."""
    used = values.keys() & variables(expr)
    if not used:
        return expr
    inames = frozenset[str]().union(*(variables(values[name]) for name in used))

    def visit(node: Expression) -> Expression:
        if not isinstance(node, p.Subscript):
            return node
        parts = tuple(_plain(part, inames) for part in node.index_tuple)
        return rebuild(node, parts)

    return map_nodes(substitute(expr, values), visit)


def _plain(index: Expression, inames: Collection[str]) -> Expression:
    form = affine_of(index)
    is_whole = form is not None and form.names() == variables(index)
    return to_expression(form) if form is not None and is_whole and variables(index).intersection(inames) else index
