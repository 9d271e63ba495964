"""Bounds of a loop as text: ``k in [0, n)``, from the domain of a statement in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import substitute
from polyloop.poly.affine import Affine, take_modulo, to_expression
from polyloop.poly.maps import form_of_aff
from polyloop.poly.sets import hull_along, rows_of

__all__ = ["interval_text"]

_MOST = 3


def interval_text(
    domain: isl.Set, dims: Sequence[str], position: int, known: isl.Set, names: Mapping[str, Expression]
) -> str:
    """Return the interval of the dimension at *position*; its name alone if no interval is known.

    Parameters
    ----------
    known
        Assumptions on the parameters, which bounds need not repeat.
    names
        Expressions to show for dimensions.
    """
    iname = dims[position]
    inside = domain.project_out(isl.dim_type.set, position + 1, len(dims) - position - 1)
    around = inside.project_out(isl.dim_type.set, position, 1).add_dims(isl.dim_type.set, 1)
    inside = inside.gist(around).gist_params(known)
    forms = [*rows_of(hull_along(inside, position).remove_unknown_divs(), dims[: position + 1])]
    low, high = list[str](), list[str]()
    first: Affine | None = None
    for form, is_equality in forms:
        factor = form.coefficient(iname)
        rest = Affine(tuple(term for term in form.terms if term[0] != iname), form.const)
        if factor == 0 or iname in rest.names():
            continue
        if is_equality and abs(factor) == 1:
            return f"{iname} = {_text(rest.scale(-factor), names)}"
        if factor > 0 or is_equality:
            low.append(_quotient(rest.scale(-1), abs(factor), names, up=True))
            first = rest.scale(-1) if abs(factor) == 1 and len(low) == 1 else None
        if factor < 0 or is_equality:
            high.append(_quotient(rest, abs(factor), names, up=False, more=1))
    if not low or not high or max(len(low), len(high)) > _MOST:
        return iname
    by = _step_text(inside, dims, position, first, names)
    return f"{iname} in [{_one('max', low)}, {_one('min', high)}){by}"


def _step_text(
    inside: isl.Set, dims: Sequence[str], position: int, first: Affine | None, names: Mapping[str, Expression]
) -> str:
    """Return the step of a dimension: `` by 2``, or `` with j % 2 == i % 2`` if it does not count from *first*."""
    info = inside.get_stride_info(position)
    step, offset = info.get_stride().to_python(), form_of_aff(info.get_offset(), dims[: position + 1])
    if step == 1 or offset is None:
        return ""
    apart = None if first is None else first.add(offset, -1)
    if apart is not None and all(coefficient % step == 0 for _, coefficient in apart.terms) and apart.const % step == 0:
        return f" by {step}"
    rest = Affine(tuple((v, c % step) for v, c in offset.terms if c % step), offset.const % step)
    other = show(p.Remainder(substitute(to_expression(rest), names), step)) if rest.terms else str(rest.const)
    return f" with {dims[position]} % {step} == {other}"


def _quotient(form: Affine, divisor: int, names: Mapping[str, Expression], *, up: bool, more: int = 0) -> str:
    """Return ``form / divisor``, rounded down, or *up*, and *more* added."""
    if divisor == 1:
        return _text(form.add(Affine((), more)), names)
    if up:
        form = form.add(Affine((), divisor - 1))
    text = _text(form.add(Affine((), more * divisor)), names)
    return f"{text if text.isidentifier() else f'({text})'} // {divisor}"


def _text(form: Affine, names: Mapping[str, Expression]) -> str:
    rest, floor, factor = take_modulo(form)
    if floor is None:
        return show(substitute(to_expression(form), names))
    remainder = p.Remainder(to_expression(Affine(floor.terms, floor.const)), floor.den)
    scaled = remainder if factor == 1 else p.Product((factor, remainder))
    whole = p.Sum((scaled, to_expression(rest))) if rest != Affine((), 0) else scaled
    return show(substitute(whole, names))


def _one(function: str, entries: Sequence[str]) -> str:
    known = list(_different(entries))
    return known[0] if len(known) == 1 else f"{function}({', '.join(known)})"


def _different(entries: Sequence[str]) -> Iterator[str]:
    yield from dict.fromkeys(entries)
