"""Bounds checks of non-affine subscripts of inames and sizes: ``i*i``, ``abs(i - 100)``, ``i*n + j``.

ISL decides the subscripts that consist of affine pieces (:func:`pieces_outside`).  The others are evaluated over boxes
of instances (:class:`Inside`): if the range of the subscript over a box is inside of the array, all its instances are;
otherwise the box is halved, down to single instances.  That needs numbers for the sizes: a few sizes are tried when the
kernel is made, and those of a call are checked when it is launched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice, product
from typing import Any, Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.expr.constants import number_of
from polyloop.expr.dtypes import integer_limits
from polyloop.expr.nodes import Expression, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.frozen import quick
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.intervals import Interval, form_range, value_range
from polyloop.poly.sets import Row, add_rows, form_to_aff, project_onto, rows_of

__all__ = ["Inside", "Outcome", "Unknown", "pieces_outside"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


# {{{ affine pieces


def pieces_outside(domain: isl.Set, dims: Sequence[str], index: Expression, extent: Expression) -> isl.Set | None:
    """Return the instances with *index* outside of 0 <= index < extent, None if either is not piecewise affine."""
    pieces = _Pieces(domain, dims)
    value, limit = pieces.value(index), pieces.value(extent)
    if value is None or limit is None:
        return None
    zero = isl.PwAff.from_aff(isl.Aff.zero_on_domain(pieces.space))
    return domain.intersect(value.lt_set(zero).union(value.ge_set(limit)))


class _Pieces:
    """Expressions as piecewise affine functions of the dimensions *dims* of *domain*."""

    def __init__(self, domain: isl.Set, dims: Sequence[str]) -> None:
        self.domain = domain
        self.dims = dims
        self.space = isl.LocalSpace.from_space(domain.get_space())

    def value(self, expr: Expression) -> isl.PwAff | None:
        form = affine_of(expr)
        if form is not None:
            return isl.PwAff.from_aff(form_to_aff(form, self.space, self.dims))
        kind: Any = type(expr)
        if kind is p.If:
            return self._choice(expr)
        if kind is TypeCast:
            return self._cast(expr)
        if kind in (p.FloorDiv, p.Remainder):
            return self._division(expr)
        if kind is p.Product:
            return self._product(expr)
        if kind is p.Call and expr.function.name == "abs":
            child = self.value(expr.parameters[0])
            return None if child is None else child.max(child.neg())
        if kind not in (p.Sum, p.Min, p.Max):
            return None
        total = None
        for child in expr.children:
            part = self.value(child)
            if part is None:
                return None
            combine = {p.Sum: "add", p.Min: "min", p.Max: "max"}[kind]
            total = part if total is None else getattr(total, combine)(part)
        return total

    def _product(self, expr: p.Product) -> isl.PwAff | None:
        factor, found = 1, None
        for child in expr.children:
            number = number_of(child)
            if number is not None:
                factor *= number
            elif found is None:
                found = self.value(child)
                if found is None:
                    return None
            else:
                return None
        return None if found is None else found.scale_val(isl.Val(str(factor)))

    def _division(self, expr: p.FloorDiv | p.Remainder) -> isl.PwAff | None:
        numerator, divisor = self.value(expr.numerator), number_of(expr.denominator)
        if numerator is None or not divisor:
            return None
        quotient = numerator.scale_down_val(isl.Val(str(divisor))).floor()
        return quotient if type(expr) is p.FloorDiv else numerator.sub(quotient.scale_val(isl.Val(str(divisor))))

    def _cast(self, expr: TypeCast) -> isl.PwAff | None:
        child = self.value(expr.child)
        if child is None:
            return None
        low, high = (
            isl.PwAff.from_aff(isl.Aff.zero_on_domain(self.space).add_constant_val(isl.Val(str(limit))))
            for limit in integer_limits(np.dtype(expr.dtype))
        )
        wraps = self.domain.intersect(child.lt_set(low).union(child.gt_set(high)))
        return child if wraps.is_empty() else None

    def _choice(self, expr: p.If) -> isl.PwAff | None:
        holds, then, orelse = self.where(expr.condition), self.value(expr.then), self.value(expr.else_)
        if holds is None or then is None or orelse is None:
            return None
        return then.intersect_domain(holds).union_add(orelse.intersect_domain(holds.complement()))

    def where(self, expr: Expression) -> isl.Set | None:
        """Return the points where a condition holds, None if it is not piecewise affine."""
        if isinstance(expr, p.LogicalNot):
            inner = self.where(expr.child)
            return None if inner is None else inner.complement()
        if isinstance(expr, p.LogicalAnd | p.LogicalOr):
            total = None
            for child in expr.children:
                part = self.where(child)
                if part is None:
                    return None
                together = isinstance(expr, p.LogicalAnd)
                total = part if total is None else total.intersect(part) if together else total.union(part)
            return total
        if not isinstance(expr, p.Comparison):
            return None
        left, right = self.value(expr.left), self.value(expr.right)
        if left is None or right is None:
            return None
        found: isl.Set = getattr(left, _COMPARE[str(getattr(expr.operator, "value", expr.operator))])(right)
        return found


_COMPARE: Final = {"<": "lt_set", "<=": "le_set", ">": "gt_set", ">=": "ge_set", "==": "eq_set", "!=": "ne_set"}

# }}}
# {{{ boxes


class Unknown(Exception):  # noqa: N818  # a signal to the caller, not an error of the user
    """Signal that a check has no answer: too many boxes, or a subscript without a known range."""


class Outcome(Enum):
    """Outcome of a bounds check when the kernel is made."""

    INSIDE = "inside for all sizes"
    CHECKED = "checked at launch"


_MOST_BOXES: Final = 50_000
_FEW_BOXES: Final = 1_000
_TRIED: Final = (1, 2, 3, 5, 8, 16, 33)
_LARGE: Final = 1 << 100
_MOST_SAMPLES: Final = 400


@quick
@dataclass(frozen=True, eq=False)
class Inside:
    """The condition that all instances of ``domain``, over ``dims``, have ``0 <= index < extent``."""

    index: Expression
    extent: Expression
    dims: tuple[str, ...]
    domain: isl.Set

    @staticmethod
    def of(index: Expression, extent: Expression, dims: Sequence[str], domain: isl.Set) -> Inside:
        """Return the condition for a subscript of the instances of *domain*, over *dims*."""
        used = tuple(name for name in dims if name in variables(index))
        return Inside(index, extent, used, project_onto(domain, dims, used).compute_divs())

    def __str__(self) -> str:
        return f"0 <= {show(self.index)} < {show(self.extent)}"

    @property
    def names(self) -> frozenset[str]:
        """The sizes that the condition depends on."""
        space = self.domain.get_space()
        count = self.domain.dim(_PARAM)
        around = {
            space.get_dim_name(_PARAM, k) or "" for k in range(count) if self.domain.involves_dims(_PARAM, k, 1)
        }
        return frozenset(around) | (variables(self.index) - set(self.dims)) | variables(self.extent)

    def outcome(self, context: isl.Set) -> Outcome | dict[str, int]:
        """Return the outcome for all sizes of *context*, or an instance that violates the condition.

        The condition counts as violated if it fails for all sizes that are tried, or for all large values of a
        parameter of the extent that may be large: a constant extent bounds sizes, which later steps and calls give.

        Parameters
        ----------
        context
            The sizes for which any instance runs.
        """
        if self._is_remainder(context):
            return Outcome.INSIDE
        names = sorted(self.names)
        good: list[dict[str, int]] = []
        bad: list[dict[str, int]] = []
        for sizes in self._samples(context, names):
            try:
                found = self.violation(sizes, _FEW_BOXES if names else _MOST_BOXES)
            except Unknown:
                found = None
                if not names:
                    return Outcome.CHECKED
            if found is None:
                good.append(sizes)
            else:
                bad.append({**sizes, **found})
        if not bad:
            return Outcome.CHECKED if names else Outcome.INSIDE
        for name in sorted(variables(self.extent)):
            most = max(sizes[name] for sizes in (*good, *bad))
            if all(sizes[name] < most for sizes in good) and not _with_sizes(context, {name: _LARGE}).is_empty():
                return next(sizes for sizes in bad if sizes[name] == most)
        return Outcome.CHECKED if good else bad[0]

    def _is_remainder(self, context: isl.Set) -> bool:
        """Return True for the remainder of an affine form by a divisor in [1, extent]: ``u[(i + 1) % n]``."""
        if not isinstance(self.index, p.Remainder) or affine_of(self.index.numerator) is None:
            return False
        divisor, limit = affine_of(self.index.denominator), affine_of(self.extent)
        if divisor is None or limit is None or not divisor.names().isdisjoint(self.dims):
            return False
        outside = (Row(divisor.scale(-1)), Row(divisor.add(limit, -1).add(Affine((), -1))))
        return all(add_rows(context, (), [row]).is_empty() for row in outside)

    def _samples(self, context: isl.Set, names: Sequence[str]) -> Iterator[dict[str, int]]:
        """Yield sizes that *context* allows, also large ones for parameters that bound no loop."""
        space, count = self.domain.get_space(), self.domain.dim(_PARAM)
        around = self.domain.drop_constraints_not_involving_dims(_SET, 0, len(self.dims))
        loops = {space.get_dim_name(_PARAM, k) for k in range(count) if around.involves_dims(_PARAM, k, 1)}
        tried = _TRIED if len(names) < 3 else _TRIED[::2]
        for values in islice(product(*[(*tried, *(() if x in loops else (_LARGE,))) for x in names]), _MOST_SAMPLES):
            sizes = dict(zip(names, values, strict=True))
            if not _with_sizes(context, sizes).is_empty():
                yield sizes

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return True if the condition provably holds for these sizes."""
        try:
            return self.violation(values) is None
        except Unknown:
            return False

    def violation(self, values: Mapping[str, int], most: int = _MOST_BOXES) -> dict[str, int] | None:
        """Return an instance whose subscript is out of bounds for these sizes, None if there is none.

        Raises
        ------
        Unknown
            *most* boxes were examined, or the range of an operation is not known.
        """
        pieces = [piece for piece in self._at(values).get_basic_sets() if not piece.is_empty()]
        if not pieces:
            return None
        sizes = {name: (value, value) for name, value in values.items()}
        extent = value_range(self.extent, sizes)
        if extent is None:
            raise Unknown
        left = most
        for basic in pieces:
            rows = rows_of(basic, self.dims)
            box = self._box(basic)
            pending = [box]
            while pending:
                left -= 1
                if left < 0:
                    raise Unknown
                box = pending.pop()
                if not _meets(rows, box):
                    continue
                found = value_range(self.index, {**sizes, **box})
                if found is not None and found[0] >= 0 and found[1] < extent[0]:
                    continue
                widest = max(box, key=lambda name, box=box: box[name][1] - box[name][0], default=None)  # type: ignore[misc]
                if widest is None or box[widest][0] == box[widest][1]:
                    if found is None:
                        raise Unknown
                    return {name: low for name, (low, _) in box.items()}
                low, high = box[widest]
                middle = (low + high) // 2
                pending += ({**box, widest: (middle + 1, high)}, {**box, widest: (low, middle)})
        return None

    def _at(self, values: Mapping[str, int]) -> isl.Set:
        domain, space = self.domain, self.domain.get_space()
        for position in range(domain.dim(_PARAM)):
            name = space.get_dim_name(_PARAM, position) or ""
            if name in values:
                domain = domain.fix_val(_PARAM, position, isl.Val(str(values[name])))
        return domain.project_out(_PARAM, 0, domain.dim(_PARAM)).compute_divs()

    def _box(self, basic: isl.BasicSet) -> dict[str, Interval]:
        points = isl.Set.from_basic_set(basic)
        found = {}
        for position, name in enumerate(self.dims):
            low, high = points.dim_min_val(position), points.dim_max_val(position)
            if not (low.is_int() and high.is_int()):
                raise Unknown
            found[name] = (low.to_python(), high.to_python())
        return found


def _meets(rows: Sequence[Row], box: Mapping[str, Interval]) -> bool:
    """Return True if *box* may have points that satisfy all *rows*; exact for a box of one point."""
    for form, is_equality in rows:
        low, high = form_range(form, box)
        if high < 0 or (is_equality and low > 0):
            return False
    return True


# }}}


def _with_sizes(context: isl.Set, values: Mapping[str, int]) -> isl.Set:
    rows = [Row(Affine.variable(name).add(Affine((), -value)), True) for name, value in values.items()]
    return add_rows(context, (), rows)


# }}}
