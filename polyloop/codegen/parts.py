"""Array arguments that are passed in parts.

An axis tagged ``sep`` becomes separate arguments, ``a_s0``, ``a_s1``, ..; an axis tagged ``vec`` becomes the components
of a vector type.  Subscripts along both must be constants where an access is printed; unrolling makes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.program import SplitArray
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.records import VECTORS, component
from polyloop.expr.rewrite import children, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import Separate, Vectorized, apart_axes, part_names
from polyloop.poly.axes import is_axis
from polyloop.schedule.plan import Statement

__all__ = ["constant_names", "is_split", "part_reference", "parts_of"]

DType = np.dtype[np.generic]


def is_split(array: ArrayArg) -> bool:
    """Return True if *array* has an axis of separate arguments or of vector components."""
    return bool(apart_axes(array.dim_tags))


def parts_of(array: ArrayArg) -> tuple[SplitArray, tuple[ArrayArg, ...]] | Diagnostic:
    """Return the parts in which *array* is passed, and their arguments; a diagnostic if there is no vector type."""
    assert isinstance(array.dim_tags, tuple), f"'{array.name}' has no dim_tags"
    assert array.shape is not None, f"'{array.name}' has no shape"
    assert array.strides is not None, f"'{array.name}' has no strides"
    apart = apart_axes(array.dim_tags)
    separate = next((axis for axis in apart if isinstance(array.dim_tags[axis], Separate)), None)
    vector = next((axis for axis in apart if isinstance(array.dim_tags[axis], Vectorized)), None)
    dtype = array.dtype
    if vector is not None:
        count = array.shape[vector]
        dtype = next((v for v in VECTORS.values() if component(v) == dtype and len(v.names or ()) == count), None)
        if dtype is None:
            return Diagnostic(
                "unsupported-dtype",
                f"there is no vector type of {count} components of type {array.dtype} for '{array.name}'",
                hints=("vectors have 2, 3 or 4 real numbers or integers; drop the tag vec, or change the type",),
            )
    kept = [axis for axis in range(len(array.shape)) if axis not in apart]
    part = replace(
        array,
        dtype=dtype,
        shape=tuple(array.shape[axis] for axis in kept),
        strides=tuple(array.strides[axis] for axis in kept),
        dim_tags=tuple(array.dim_tags[axis] for axis in kept),
    )
    names = part_names(array.name, array.dim_tags, array.shape)
    split = SplitArray(array.name, names, separate, vector, array)
    return split, tuple(replace(part, name=name) for name in names)


def constant_names(statements: Iterable[Statement], split: Mapping[str, SplitArray]) -> frozenset[str]:
    """Return the names in subscripts along split axes, which must be constants."""
    found: set[str] = set()
    for statement in statements if split else ():
        for part in (statement.lhs, statement.rhs, *statement.predicates):
            for name, indices in _subscripts(part, split):
                for axis in (split[name].separate, split[name].vector):
                    if axis is not None:
                        found |= variables(indices[axis])
    return frozenset(found)


def _subscripts(
    expr: Expression, split: Mapping[str, SplitArray]
) -> Iterator[tuple[str, tuple[Expression, ...]]]:
    if isinstance(expr, p.Subscript) and isinstance(expr.aggregate, p.Variable) and expr.aggregate.name in split:
        yield expr.aggregate.name, expr.index_tuple
    for child in children(expr):
        yield from _subscripts(child, split)


def part_reference(
    scope: Scope,
    name: str,
    indices: Sequence[Expression],
    index: Callable[[Expression], Code],
    address: Callable[[Sequence[Expression], Sequence[Expression], Expression, Sequence[Expression]], Code],
) -> Code:
    """Return an element of an array that is passed in parts: ``a_s1[i]``, ``a[i].x``.

    Parameters
    ----------
    index, address
        Functions that print a subscript, and an address from subscripts, strides, an offset [elements] and a shape.

    Raises
    ------
    CodegenError
        ``subscript-not-constant``.
    """
    split, array = scope.split[name], scope.arrays[name]
    assert array.strides is not None, f"'{name}' has no strides"
    kept = [axis for axis in range(len(indices)) if axis not in (split.separate, split.vector)]
    number, field = (
        None if axis is None else _number(scope, split, axis, indices[axis], index(indices[axis]))
        for axis in (split.separate, split.vector)
    )
    own, strides, shape = ([part[k] for k in kept] for part in (indices, array.strides, array.shape or ()))
    place = address(own, strides, split.array.offset, shape)
    found = c.Subscript(c.Name(split.parts[number or 0]), place)
    return found if field is None else c.Member(found, "xyzw"[field])


def _number(scope: Scope, split: SplitArray, axis: int, index: Expression, found: Code) -> int:
    number = c.integer_of(found)
    if number is not None and number >= 0:
        return number
    names = sorted(variables(index))
    if not scope.values.keys() >= set(names):
        hint = f"only constants and unrolled loop variables can stand there: tag axis {axis} N0, or use if(..)"
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
