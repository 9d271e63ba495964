"""Contiguity and alignment of the accesses of vector lanes: consecutive elements, the first of which is aligned.

The proof is by linear forms.  The address of an access is a sum of terms, each a number times a loop variable, an axis
or a parameter.  From one lane to the next the address grows by one element, and every term without the lane is a
multiple of the vector length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.axes import is_axis
from polyloop.poly.residues import Divisibility
from polyloop.program.guards import guarded_children

__all__ = ["MOST_BYTES", "Lanes", "Reason", "element_reads", "in_one_piece", "known_factor", "why_not_wide"]

MOST_BYTES: Final = 16
"""Limit on the bytes that one instruction moves for a thread: CUDA C++ Programming Guide, "Device Memory Accesses"."""


@dataclass(frozen=True)
class Lanes:
    """The iname of the lanes, its first value, and the number of lanes."""

    iname: str
    low: int
    count: int


@dataclass(frozen=True)
class Reason:
    """Reason why an access cannot be a vector access, with a hint.

    Attributes
    ----------
    is_spread
        True if the distance of the lanes is the reason, which no alignment of the array would change.
    """

    text: str
    hint: str = ""
    is_spread: bool = False


def element_reads(expr: Expression, *, is_sure: bool = True) -> Iterator[tuple[p.Subscript, bool]]:
    """Yield the elements that *expr* reads, each with True if it is read unconditionally."""
    for child, guards in guarded_children(expr):
        yield from element_reads(child, is_sure=is_sure and not guards)
    if isinstance(expr, p.Subscript):
        yield expr, is_sure


def why_not_wide(
    forms: Sequence[Affine | None],
    strides: Sequence[Expression],
    offset: Expression,
    lanes: Lanes,
    elements: int,
    divisibility: Divisibility,
    shown: Callable[[str], str] = str,
) -> Reason | None:
    """Return the reason why the lanes do not access aligned vectors of *elements*, None if they do.

    Parameters
    ----------
    forms, strides, offset
        Subscripts, strides of the axes, and offset of the array's first element [elements].
    shown
        Function from a variable to its name in messages.
    """
    if any(isinstance(var, Floor) and lanes.iname in _names(var) for form in forms if form for var, _ in form.terms):
        forms, strides = in_one_piece(forms, strides)
    reason = _spread(forms, strides, lanes.iname)
    return reason or _Place(strides, offset, elements, divisibility, shown).misplaced(forms, lanes)


def in_one_piece(
    forms: Sequence[Affine | None], strides: Sequence[Expression]
) -> tuple[Sequence[Affine | None], Sequence[Expression]]:
    """Return subscripts and strides with the same address, those along axes of constant strides as one.

    ``a[f // 9, f % 9]`` of rows of 9 elements is the element at address f, whose quotients cancel.
    """
    total, others = Affine((), 0), list[tuple[Affine | None, Expression]]()
    for form, stride in zip(forms, strides, strict=True):
        if form is not None and isinstance(stride, int):
            total = total.add(form, stride)
        else:
            others.append((form, stride))
    return [*(form for form, _ in others), total], [*(stride for _, stride in others), 1]


def _spread(forms: Sequence[Affine | None], strides: Sequence[Expression], iname: str) -> Reason | None:
    """Return the reason why the lanes do not access consecutive elements, None if they do."""
    total = 0
    for form, stride in zip(forms, strides, strict=True):
        if form is None:
            return Reason("its subscripts are not affine")
        if any(isinstance(var, Floor) and iname in _names(var) for var, _ in form.terms):
            return Reason("a subscript divides the lane by a number")
        step = form.coefficient(iname)
        if step and not isinstance(stride, int):
            return _apart(_times(step, stride), iname)
        total += step * stride if isinstance(stride, int) else 0
    if total == 1:
        return None
    return _apart(str(total), iname)


def _apart(distance: str, iname: str) -> Reason:
    hint = f"let '{iname}' be part of the subscript along the contiguous axis"
    return Reason(f"from one lane to the next it is {distance} elements, not one", hint, is_spread=True)


def _names(var: Floor) -> frozenset[str]:
    """Return the names in a quotient."""
    return Affine(var.terms, 0).names()


def _times(step: int, stride: Expression) -> str:
    return show(stride) if step == 1 else f"{step}*{show(stride)}"


@dataclass(frozen=True)
class _Place:
    """Storage of an array, as far as it is known."""

    strides: Sequence[Expression]
    offset: Expression
    elements: int
    divisibility: Divisibility
    shown: Callable[[str], str]

    def misplaced(self, forms: Sequence[Affine | None], lanes: Lanes) -> Reason | None:
        """Return the reason why the first lane may be misaligned, None if its address is a multiple of ``elements``."""
        const, elements = 0, self.elements
        for given, stride in zip(forms, self.strides, strict=True):
            assert given is not None, "forms were looked at"
            form = given.substitute({lanes.iname: Affine((), lanes.low)})
            factor = known_factor(stride, self.divisibility)
            if isinstance(stride, int):
                const += form.const * stride
            elif form.const * factor % elements:
                return _unknown(_times(form.const, stride), stride, elements)
            for var, coefficient in form.terms:
                if coefficient * factor * known_factor(_expression(var), self.divisibility) % elements:
                    name = "(..)" if isinstance(var, Floor) else self.shown(var)
                    known = stride if not isinstance(stride, int) else _expression(var)
                    return _unknown(_product(coefficient, name, stride), known, elements)
        if isinstance(self.offset, int):
            const += self.offset
        elif known_factor(self.offset, self.divisibility) % elements:
            return _unknown(f"the offset {show(self.offset)}", self.offset, elements)
        if const % elements:
            return Reason(
                f"its first lane is {const % elements} beyond a multiple of {elements} elements",
                "shift or pad the array, so that vectors begin where rows do",
            )
        return None


def known_factor(expr: Expression, divisibility: Divisibility) -> int:
    """Return a known divisor of *expr*; 0 if *expr* is known to be 0."""
    if isinstance(expr, int | np.integer):
        return abs(int(expr))
    if isinstance(expr, p.Variable):
        modulus, residue = divisibility.get(expr.name, (1, 0))
        return gcd(modulus, residue)
    if isinstance(expr, p.Product):
        return prod(known_factor(child, divisibility) for child in expr.children)
    if isinstance(expr, p.Sum):
        return gcd(*(known_factor(child, divisibility) for child in expr.children))
    return 1


def _product(coefficient: int, name: str, stride: Expression) -> str:
    parts = [] if coefficient == 1 else [str(coefficient)]
    parts.append(name)
    if type(stride) is not int or stride != 1:
        parts.append(show(stride) if isinstance(stride, int | p.Variable) else f"({show(stride)})")
    return "*".join(parts)


def _unknown(term: str, factor: Expression, elements: int) -> Reason:
    """Return the reason that *term* is not known to be a multiple of *elements*, because of *factor*."""
    hint = f"split by a multiple of {elements}"
    if isinstance(factor, p.ExpressionNode) and not any(map(is_axis, variables(factor))):
        condition = " and ".join(f"{name} mod {elements} = 0" for name in sorted(variables(factor)))
        hint = f'assume it, or pad the rows: pl.assume(knl, "{condition}")'
    elif isinstance(factor, int) and factor > 1:
        hint = f"pad the rows to a multiple of {elements} elements"
    return Reason(f"{term}, a part of its address, is not known to be a multiple of {elements}", hint)


def _expression(var: Var) -> Expression:
    return 1 if isinstance(var, Floor) else p.Variable(var)
