"""Array references: addresses as sums of strides, in natural order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.entries import Shuffles
from polyloop.codegen.expressions.linear import form_order, join_terms
from polyloop.codegen.expressions.magnitude import Sum
from polyloop.codegen.expressions.spans import span, spanned
from polyloop.codegen.expressions.wrapping import Wrapping
from polyloop.codegen.loops.rows import rewrite
from polyloop.codegen.parts import part_reference
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.indices import is_mark
from polyloop.expr.constants import number_of
from polyloop.expr.nodes import Expression
from polyloop.kernel.limits import WARP_SIZE
from polyloop.kernel.swizzle import Swizzle
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.axes import THREAD_AXES, thread_axis
from polyloop.schedule.storage import Storage, Strided

__all__ = ["Addresses"]


class Addresses(Wrapping):
    """The part of :class:`polyloop.codegen.expressions.expressions.Expressions` that prints elements and indices.

    ``held`` has the variables that hold elements, by array and subscripts.  ``made`` is the variable that replaces the
    target of an assignment, if there is one.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.held: dict[tuple[str, tuple[Expression, ...]], Code] = {}
        self.made: Code | None = None

    def _reference(self, name: str, indices: Sequence[Expression]) -> Code:
        """Return an element of an array, or a scalar temporary, or the variable that holds it."""
        held = self.held.get((name, tuple(indices))) if self.held else None
        return self._place(name, indices) if held is None else held

    def _place(self, name: str, indices: Sequence[Expression]) -> Code:
        """Return an element in its storage, or a scalar temporary."""
        array = self.scope.arrays.get(name)
        if array is None:
            known, pool = self.scope.table_names.get(name, name), self.scope.pools.get(name)
            storage = self.scope.storage.get(name)
            variable = c.Name(pool or known, "" if storage is None else name)
            own = self.scope.of_thread(variable if pool is None else c.Member(variable, known), name)
            if storage is not None and storage.lane is not None:
                return self._of_lane(own, indices[storage.lane.subscript], storage.lane.block)
            return self._stored(own, indices, storage)
        assert array.strides is not None, f"'{name}' has no strides"
        if name in self.scope.split:
            return part_reference(self.scope, name, indices, self._index, self._address)
        place = self._address(indices, array.strides, array.offset, array.shape or (), partial(span, array))
        return c.Subscript(c.Name(name), place)

    def _stored(self, own: Code, indices: Sequence[Expression], storage: Storage | None) -> Code:
        """Return an element of a temporary, whose variable is *own*."""
        if storage is None:
            return c.element(own, *(self._index(part, part) for part in indices))
        if isinstance(storage.layout, Strided):
            return c.Subscript(own, self._address(indices, storage.layout.strides, 0, storage.shape))
        if storage.layout.nesting is not None:
            indices = [indices[axis] for axis in storage.layout.nesting]
        if storage.layout.swizzle is not None:
            return c.element(own, *self._swizzled(storage.dims, storage.layout.swizzle, indices))
        parts = zip(indices, storage.dims, strict=True)
        return c.element(own, *(self._index(part, extent) for part, extent in parts))

    def _of_lane(self, variable: Code, lane: Expression, block: Sequence[int]) -> Code:
        """Return a shuffle that reads *variable* of a *lane*, or the variable if it is the thread's own lane."""
        with self.scope.indices.hidden():
            read = self._index(lane)
            own = self._index(p.Variable(THREAD_AXES[0]))
        if read == own:
            return variable
        width = (c.integer(block[0]),) if block[0] < WARP_SIZE else ()
        return c.Apply(self.scope.language.need(Shuffles).read, (self._mask(block), variable, read, *width))

    def _mask(self, block: Sequence[int]) -> Code:
        """Return the mask of the lanes with the same indices as the thread along all axes but the first."""
        lanes, *others = block
        bits = (1 << lanes) - 1
        mask = c.Literal(f"0x{bits:x}u", bits)
        if lanes == WARP_SIZE or prod(others) == 1:
            return mask
        number: list[Expression] = []
        stride = 1
        for axis, extent in enumerate(others, 1):
            coordinate = p.Variable(thread_axis(axis))
            number.append(p.Product((stride, coordinate)) if stride > 1 else coordinate)
            stride *= extent
        part = self._index(p.Sum(tuple(reversed(number))) if len(number) > 1 else number[0])
        place = part if stride * lanes <= WARP_SIZE else c.binary(c.MODULO, part, c.integer(WARP_SIZE // lanes))
        return c.binary(c.INDEX_SHIFT["<<"], mask, c.product(c.integer(lanes), place))

    def _swizzled(self, dims: Sequence[int], swizzle: Swizzle, indices: Sequence[Expression]) -> Iterator[Code]:
        """Yield the subscripts of an element of a swizzled array; the last one depends on the row."""
        *slow, last = indices
        *extents, row = dims
        down = swizzle.base + swizzle.shift - (row.bit_length() - 1)
        number, step = [], 1
        for index, extent in zip(reversed(slow), reversed(extents), strict=True):
            if step < 1 << (down + swizzle.bits):  # slower subscripts have no bits in the mask
                number.append(index if step == 1 else p.Product((step, index)))
            step *= extent
        turned = self._index(p.Sum(tuple(reversed(number))) if len(number) > 1 else number[0])
        if down:
            turned = c.binary(c.INDEX_SHIFT[">>"], turned, c.integer(down))
        if step > 1 << (down + swizzle.bits):
            turned = c.binary(c.SHIFTED_AND if down else c.INDEX_AND, turned, c.integer((1 << swizzle.bits) - 1))
        if swizzle.base:
            turned = c.binary(c.INDEX_SHIFT["<<"], turned, c.integer(swizzle.base))
        yield from (self._index(part) for part in slow)
        yield c.binary(c.INDEX_XOR, self._index(last), turned)

    def _address(
        self,
        indices: Sequence[Expression],
        strides: Sequence[Expression],
        offset: Expression,
        shape: Sequence[Expression],
        whole: Callable[[], Expression] | None = None,
    ) -> Code:
        """Return the address of an element [elements]; *whole* returns an upper bound of addresses."""
        whole = whole or partial(spanned, shape, strides, offset)
        zero = c.integer(0)
        first = zero if type(offset) is int and not offset else self._index(offset, offset)
        out: list[Code] = [] if first == zero else [first]
        for index, stride, extent in zip(indices, strides, shape, strict=bool(indices)):
            if type(index) is int and type(stride) is int:
                index, stride = index * stride, 1  # noqa: PLW2901 - a number is written as one
            elif type(index) is int and index == 1:
                index, stride = stride, 1  # noqa: PLW2901 - once a stride is the stride
            text = self._index(index, extent, whole if out and type(stride) is int and stride == 1 else None)
            number = c.integer_of(text)
            if number == 0:
                continue
            if number is not None and number > 0 and type(stride) is int:
                text, stride = c.integer(number * stride), 1  # noqa: PLW2901 - likewise
            elif number == 1:
                text, stride = self._index(stride, stride), 1  # noqa: PLW2901 - likewise
            if type(stride) is not int or stride != 1:
                text = c.product(text, self._index(stride, stride))
            out.append(text)
        return c.total(out) if out else zero

    def _index(
        self, expr: Expression, limit: Expression | None = None, whole: Callable[[], Expression] | None = None
    ) -> Code:
        """Return an integer expression with its linear part in natural order.

        Parameters
        ----------
        limit
            Extent of the axis, if the expression is a subscript of an array.
        whole
            Function that returns the number of elements of the array, if the terms are added one by one to an address.
        """
        opaque: list[tuple[Expression, int]] = []
        linear: dict[str, int] = {}
        const = self._collect(self._with_named(expr), 1, opaque, linear)
        ordered: list[tuple[Expression, int]] = [
            *((node, c) for node, c in opaque if c),
            *sorted(((name, c) for name, c in linear.items() if c), key=form_order),
        ]
        if any(c > 0 for _, c in ordered):
            ordered.sort(key=lambda term: term[1] < 0)
        if len(ordered) + bool(const) > 1 or opaque or (ordered and abs(ordered[0][1]) > 1):
            self.scope.findings.magnitudes.record(Sum(tuple(ordered), const, limit), self.scope.types_of_names)
            if whole is not None and (const < 0 or any(c < 0 for _, c in ordered)):
                item = Sum(tuple(ordered), const, whole(), is_added=True)
                self.scope.findings.magnitudes.record(item, self.scope.types_of_names)
        return join_terms(ordered, const, self._index_atom)

    def _with_named(self, expr: Expression) -> Expression:
        """Return *expr* with sums replaced by named indices."""
        form = affine_of(expr) if self.scope.indices.is_open and type(expr) in (p.Sum, p.Product) else None
        if form is None:
            return expr
        values = {n: Affine((), v) for n in form.names() if isinstance(v := self.scope.values.get(n), int)}
        known = form.substitute(values)
        rest = self.scope.indices.take(known)
        return expr if rest is known else to_expression(rest)

    def _index_atom(self, atom: Expression) -> Code:
        if isinstance(atom, str):
            return self.scope.value(atom)
        outer = self.indexing, self.exact
        self.indexing, self.exact = True, None
        text = self._render(atom, self.scope.index_dtype)
        self.indexing, self.exact = outer
        return text

    def _collect(
        self, expr: Expression, factor: int, opaque: list[tuple[Expression, int]], linear: dict[str, int]
    ) -> int:
        """Add the terms of *factor* times *expr* to *linear* and *opaque* (other nodes); return its constant."""
        known = number_of(expr)
        if known is not None:
            return factor * known
        if type(expr) is p.Sum:
            return sum(self._collect(child, factor, opaque, linear) for child in expr.children)
        if type(expr) is p.Variable and (expr.name in self.scope.values or is_mark(expr.name)):
            value = self.scope.values.get(expr.name)
            if isinstance(value, int):
                return factor * value
            linear[expr.name] = linear.get(expr.name, 0) + factor
            return 0
        if type(expr) is p.Product:
            numbers = [c for c in expr.children if isinstance(c, int | np.integer)]
            others = [c for c in expr.children if not isinstance(c, int | np.integer)]
            if len(others) <= 1:
                for number in numbers:
                    factor *= int(number)
                return self._collect(others[0], factor, opaque, linear) if others else factor
        if isinstance(expr, p.Remainder) and (simpler := self._simpler_remainder(expr)) is not None:
            return self._collect(simpler, factor, opaque, linear)
        opaque.append((expr, factor))
        return 0

    def _simpler_remainder(self, expr: p.Remainder) -> Expression | None:
        """Return a remainder with multiples of its divisor and known variables removed, None if there are none."""
        form, divisor = affine_of(expr.numerator), expr.denominator
        if form is None or type(divisor) is not int or divisor <= 0:
            return None
        values = {n: Affine((), v) for n in form.names() if isinstance(v := self.scope.values.get(n), int)}
        known = form.substitute(values)
        rest = Affine(tuple((v, c) for v, c in known.terms if c % divisor), known.const % divisor)
        if not rest.terms:
            return rest.const
        if rest.names() <= self.scope.values.keys() and self._is_below(rest, divisor):
            return to_expression(rest)
        return p.Remainder(to_expression(rest), divisor) if len(rest.terms) < len(form.terms) else None

    def _is_below(self, form: Affine, divisor: int) -> bool:
        """Return True if *form* is known to be at least 0 and less than *divisor*."""
        self.used_context = True
        rows = (form, Affine((), divisor - 1).add(form, -1))
        return all(self.context.implies(rewrite(row, self.scope.divisibility)) for row in rows)
