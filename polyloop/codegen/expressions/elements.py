"""Variables and elements of arrays: their places in storage, and their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.device.cluster import placed
from polyloop.codegen.device.entries import Loads, Shuffles
from polyloop.codegen.expressions.addresses import address, index_text
from polyloop.codegen.expressions.conversions import cast, widened
from polyloop.codegen.expressions.literals import literal
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.spans import span
from polyloop.codegen.expressions.types import WORD
from polyloop.codegen.program import SplitArray
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType, is_inexact, is_narrow
from polyloop.expr.nodes import Expression, Lookup, array_name, element_of, field_path
from polyloop.expr.printer import show
from polyloop.expr.promotion import Weak
from polyloop.expr.records import field_dtype
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.swizzle import Swizzle
from polyloop.poly.axes import CLUSTER_AXIS, THREAD_AXES, is_axis, thread_axis
from polyloop.schedule.storage import Packed, Storage, Strided

__all__ = ["ELEMENTS", "element", "is_read_once", "target", "unswizzled"]

# {{{ storage


def target(r: Renderer, lhs: Expression) -> tuple[Code, str, DType]:
    """Return code, name and type of the left-hand side of an assignment."""
    name, whole, path = array_name(lhs), element_of(lhs), field_path(lhs)
    code = r.made or _place(r, name, () if isinstance(whole, p.Variable) else whole.index_tuple)
    dtype = r.scope.types.of_names.get(name)
    assert dtype is not None, f"'{name}' has no type"
    for field in path:
        dtype = field_dtype(dtype, field)
        code = c.Member(code, r.scope.definitions.spelling_of.field(field))
    return code, name, dtype


def element(r: Renderer, expr: p.Variable | p.Subscript) -> Code:
    """Return a variable or an element as it is stored, or the variable that holds it."""
    name = array_name(expr)
    indices = () if isinstance(expr, p.Variable) else expr.index_tuple
    held = r.held.get((name, indices)) if r.held else None
    return _place(r, name, indices) if held is None else held


def unswizzled(r: Renderer, expr: p.Subscript) -> Code:
    """Return the place in shared memory that an element would have if its array were not swizzled."""
    name = array_name(expr)
    storage = r.scope.memory.storage[name]
    assert isinstance(storage.layout, Packed), f"'{name}' has strides"
    plain = replace(storage, layout=replace(storage.layout, swizzle=None))
    return _of_temporary(r, c.Name(name, name), expr.index_tuple, plain)


def _place(r: Renderer, name: str, indices: Sequence[Expression]) -> Code:
    """Return an element in its storage, or a scalar temporary."""
    memory = r.scope.memory
    array = memory.arrays.get(name)
    if array is None:
        known, pool = memory.table_names.get(name, name), memory.pools.get(name)
        storage = memory.storage.get(name)
        variable = c.Name(pool or known, "" if storage is None else name)
        own = r.scope.of_thread(variable if pool is None else c.Member(variable, known), name)
        if storage is not None and storage.lane is not None:
            return _of_lane(r, own, indices[storage.lane.subscript], storage.lane.block)
        return _of_temporary(r, own, indices, storage)
    assert array.strides is not None, f"'{name}' has no strides"
    if name in memory.split:
        return _of_part(r, name, indices)
    number = address(r, indices, array.strides, array.offset, array.shape or (), partial(span, array))
    return c.Subscript(c.Name(name), number)


def _of_temporary(r: Renderer, own: Code, indices: Sequence[Expression], storage: Storage | None) -> Code:
    """Return an element of a temporary, whose variable is *own*."""
    if storage is None:
        return c.element(own, *(index_text(r, part, part) for part in indices))
    if storage.spread:
        return _of_block(r, own, indices, storage)
    if isinstance(storage.layout, Strided):
        return c.Subscript(own, address(r, indices, storage.layout.strides, 0, storage.shape))
    if storage.layout.nesting is not None:
        indices = [indices[axis] for axis in storage.layout.nesting]
    if storage.layout.swizzle is not None:
        return c.element(own, *_swizzled(r, storage.dims, storage.layout.swizzle, indices))
    parts = zip(indices, storage.dims, strict=True)
    return c.element(own, *(index_text(r, part, extent) for part, extent in parts))


def _of_block(r: Renderer, own: Code, indices: Sequence[Expression], storage: Storage) -> Code:
    """Return an element in the shared memory of a block of the cluster, of which the first subscript is the position.

    The block itself needs no address of another one.
    """
    block, *others = indices
    with r.scope.indices.hidden():
        is_own = index_text(r, block) == index_text(r, p.Variable(CLUSTER_AXIS))
    if not is_own:
        base = own if others else c.Unary(c.ADDRESS, own)
        there = c.Cast(f"{r.scope.ctype(storage.dtype)} *", c.Apply(placed(r.scope), (base, index_text(r, block))))
        if not others:
            return c.Unary(c.TARGET, there)
        place = address(r, others, storage.distances[1:], 0, storage.shape[1:])
        return c.Subscript(c.Parentheses(there), place)
    if isinstance(storage.layout, Strided):
        return c.Subscript(own, address(r, others, storage.layout.strides[1:], 0, storage.shape[1:]))
    kept = [axis - 1 for axis in storage.layout.nesting or range(len(indices)) if axis]
    parts = zip(kept, storage.dims, strict=True)
    return c.element(own, *(index_text(r, others[axis], extent) for axis, extent in parts))


def _of_lane(r: Renderer, variable: Code, lane: Expression, block: Sequence[int]) -> Code:
    """Return a shuffle that reads *variable* of a *lane*, or the variable if it is the thread's own lane."""
    with r.scope.indices.hidden():
        read = index_text(r, lane)
        own = index_text(r, p.Variable(THREAD_AXES[0]))
    if read == own:
        return variable
    width = (c.integer(block[0]),) if block[0] < r.scope.language.warp_size else ()
    shuffles = r.scope.language.need(Shuffles)
    mask = (_mask(r, block),) if shuffles.has_masks else ()
    return c.Apply(shuffles.read, (*mask, variable, read, *width))


def _mask(r: Renderer, block: Sequence[int]) -> Code:
    """Return the mask of the lanes with the same indices as the thread along all axes but the first."""
    lanes, *others = block
    warp = r.scope.language.warp_size
    bits = (1 << lanes) - 1
    mask = c.Literal(f"0x{bits:x}u", bits)
    if lanes == warp or prod(others) == 1:
        return mask
    number: list[Expression] = []
    stride = 1
    for axis, extent in enumerate(others, 1):
        coordinate = p.Variable(thread_axis(axis))
        number.append(p.Product((stride, coordinate)) if stride > 1 else coordinate)
        stride *= extent
    part = index_text(r, p.Sum(tuple(reversed(number))) if len(number) > 1 else number[0])
    place = part if stride * lanes <= warp else c.binary(c.MODULO, part, c.integer(warp // lanes))
    return c.binary(c.INDEX_SHIFT["<<"], mask, c.product(c.integer(lanes), place))


def _swizzled(r: Renderer, dims: Sequence[int], swizzle: Swizzle, indices: Sequence[Expression]) -> Iterator[Code]:
    """Yield the subscripts of an element of a swizzled array; the last one depends on the row."""
    *slow, last = indices
    *extents, row = dims
    down = swizzle.base + swizzle.shift - (row.bit_length() - 1)
    number, step = [], 1
    for index, extent in zip(reversed(slow), reversed(extents), strict=True):
        if step < 1 << (down + swizzle.bits):  # slower subscripts have no bits in the mask
            number.append(index if step == 1 else p.Product((step, index)))
        step *= extent
    turned = index_text(r, p.Sum(tuple(reversed(number))) if len(number) > 1 else number[0])
    if down:
        turned = c.binary(c.INDEX_SHIFT[">>"], turned, c.integer(down))
    if step > 1 << (down + swizzle.bits):
        turned = c.binary(c.SHIFTED_AND if down else c.INDEX_AND, turned, c.integer((1 << swizzle.bits) - 1))
    if swizzle.base:
        turned = c.binary(c.INDEX_SHIFT["<<"], turned, c.integer(swizzle.base))
    yield from (index_text(r, part) for part in slow)
    yield c.binary(c.INDEX_XOR, index_text(r, last), turned)


def _of_part(r: Renderer, name: str, indices: Sequence[Expression]) -> Code:
    """Return an element of an array that is passed in parts: ``a_s1[i]``, ``a[i].x``."""
    split, array = r.scope.memory.split[name], r.scope.memory.arrays[name]
    assert array.strides is not None, f"'{name}' has no strides"
    kept = [axis for axis in range(len(indices)) if axis not in (split.separate, split.vector)]
    number, field = (
        None if axis is None else _number(r.scope, split, axis, indices[axis], index_text(r, indices[axis]))
        for axis in (split.separate, split.vector)
    )
    own, strides, shape = ([part[k] for k in kept] for part in (indices, array.strides, array.shape or ()))
    place = address(r, own, strides, split.array.offset, shape)
    found = c.Subscript(c.Name(split.parts[number or 0]), place)
    return found if field is None else c.Member(found, "xyzw"[field])


def _number(scope: Scope, split: SplitArray, axis: int, index: Expression, found: Code) -> int:
    number = c.integer_of(found)
    if number is not None and number >= 0:
        return number
    names = sorted(variables(index))
    if not scope.values.keys() >= set(names):
        allowed = "a constant or the variable of an unrolled loop"
        hint = f"the subscript has to be {allowed}: tag axis {axis} N0, or use if(..)"
    elif any(map(is_axis, names)):
        hint = "let a sequential loop with the tag unr run over it, no threads or blocks"
    else:
        tags = ", ".join(f'"{name}": "unr"' for name in names)
        hint = f"unroll the loops in it: pl.tag_inames(knl, {{{tags}}})"
    what = "an argument of its own" if axis == split.separate else "a component of a vector"
    raise scope.error(
        Diagnostic(
            "subscript-not-constant",
            f"the subscript {show(index)} of '{split.name}' along axis {axis} is not a constant",
            (f"each index along that axis is {what}",),
            (hint,),
        )
    )


# }}}
# {{{ values


def _variable(r: Renderer, expr: p.Variable, want: DType | None) -> Code:
    name = expr.name
    scope = r.scope
    if name in scope.memory.storage or name in scope.memory.arrays:
        return _widened(r, expr, element(r, expr))
    value = scope.variable(name)
    if isinstance(value, int):
        return literal(scope, value, r.types.computed(value, None if want is None or is_inexact(want) else want))
    dtype = r.types.of_name(name)
    is_own = dtype == scope.types.of_names.get(name)
    if dtype is None or is_own or r.types.number is not None or r.types.is_index_name(name):
        return c.Name(value)
    return cast(scope, dtype, c.Name(value))


def _lookup(r: Renderer, expr: Lookup, want: DType | None) -> Code:
    """Return a field of a record."""
    field = r.scope.definitions.spelling_of.field(expr.field)
    return _widened(r, expr, c.Member(r.render(expr.aggregate, None), field))


def _widened(r: Renderer, expr: Expression, text: Code) -> Code:
    dtype = r.types.of(expr)
    return text if isinstance(dtype, Weak) or not is_narrow(dtype) else widened(r.scope, dtype, text)


def is_read_once(scope: Scope, name: str) -> bool:
    """Return True if elements of an array are loaded such that caches need not keep them."""
    array = scope.memory.arrays.get(name)
    if array is None or not array.is_used_once or array.dtype is None or name in scope.memory.split:
        return False
    has_size = array.dtype.kind in "iuf" and array.dtype.itemsize >= WORD
    return has_size and scope.language.find(Loads) is not None


def _subscript(r: Renderer, expr: p.Subscript, want: DType | None) -> Code:
    assert isinstance(expr.aggregate, p.Variable), f"subscript of '{expr.aggregate}'"
    text = element(r, expr)
    if is_read_once(r.scope, expr.aggregate.name) and (expr.aggregate.name, expr.index_tuple) not in r.held:
        text = c.Apply(r.scope.language.need(Loads).once, (c.Unary(c.ADDRESS, text),))
    return _widened(r, expr, text)


ELEMENTS: Final[Mapping[type, Rule]] = {p.Variable: _variable, p.Subscript: _subscript, Lookup: _lookup}

# }}}
