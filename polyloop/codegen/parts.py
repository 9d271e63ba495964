"""Array arguments that are passed in parts.

An axis tagged ``sep`` becomes separate arguments, ``a_s0``, ``a_s1``, ..; an axis tagged ``vec`` becomes the components
of a vector type.  Subscripts along both must be constants where an access is printed; unrolling makes them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.program import SplitArray
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.expr.records import VECTORS, component
from polyloop.expr.rewrite import children, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import Separate, Vectorized, apart_axes, part_names
from polyloop.schedule.plan import Statement

__all__ = ["constant_names", "is_split", "parts_of"]

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
