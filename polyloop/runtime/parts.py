"""Array arguments passed in parts: one argument for each index of a ``sep`` axis, vectors for a ``vec`` axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polyloop.codegen.program import SplitArray
from polyloop.errors import Diagnostic
from polyloop.expr.records import VECTORS, component, record_name
from polyloop.runtime.views import call_error, wrong_type

__all__ = ["assembled", "split_values", "whole_of"]


def split_values(kernel: str, split: SplitArray, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any library's array
    """Return the arguments for an array stored in parts, or for a list with one array a part: views, no copies.

    Raises
    ------
    ArgumentError
        ``wrong-shape``, ``wrong-strides``.
    """
    count = len(split.parts)
    if isinstance(value, list | tuple):
        if split.separate is None or len(value) != count:
            raise _wrong_shape(kernel, split, f"it is a {type(value).__name__} of {len(value)}")
        return {name: _as_vectors(kernel, split, part) for name, part in zip(split.parts, value, strict=True)}
    if split.separate is None:
        return {split.parts[0]: _as_vectors(kernel, split, value)}
    if not hasattr(value, "shape"):
        raise wrong_type(kernel, split.name, value, f"pass np.asarray({split.name})")
    axis, shape = split.separate, tuple(value.shape)
    rank = len(split.array.shape or ())
    is_vectors = split.vector is not None and len(shape) == rank - 1
    if not (len(shape) == rank or is_vectors) or shape[axis] != count:
        raise _wrong_shape(kernel, split, f"its shape is {shape}")
    before = (slice(None),) * axis
    return {
        name: _as_vectors(kernel, split, value[(*before, number)]) for number, name in enumerate(split.parts)
    }


def _as_vectors(kernel: str, split: SplitArray, value: Any) -> Any:  # noqa: ANN401
    """Return a NumPy array of numbers as one of vectors; arrays of other libraries stay as they are."""
    if split.vector is None or not isinstance(value, np.ndarray) or value.dtype.names is not None:
        return value
    dtype = split.array.dtype
    count = (split.array.shape or ())[split.vector]
    rank = len(split.array.shape or ()) - (split.separate is not None)
    if value.dtype != dtype:
        raise call_error(kernel, Diagnostic(
            "wrong-dtype", f"'{split.name}' has dtype {value.dtype}, expected {dtype}", (),
            (f"pass {split.name}.astype(np.{dtype})",)))
    vector = next(v for v in VECTORS.values() if component(v) == dtype and len(v.names or ()) == count)
    if value.ndim != rank or value.shape[-1] != count:
        raise _wrong_shape(kernel, split, f"its shape is {value.shape}")
    if value.size == 0:
        return np.empty(value.shape[:-1], vector)
    if value.strides[-1] != value.itemsize:
        raise call_error(kernel, Diagnostic(
            "wrong-strides", f"the last axis of '{split.name}' is not contiguous",
            (f"its {count} elements are the components of one {record_name(vector)}",),
            (f"pass np.ascontiguousarray({split.name})",)))
    return value.view(vector)[..., 0]


def _wrong_shape(kernel: str, split: SplitArray, what: str) -> Exception:
    parts = "" if split.separate is None else f", or its parts, {', '.join(f'{name}=' for name in split.parts)}"
    shape = ", ".join(map(str, split.array.shape or ()))
    return call_error(kernel, Diagnostic(
        "wrong-shape", f"'{split.name}' cannot be taken apart", (what, f"the kernel has the shape ({shape})"),
        (f"pass an array of that shape{parts}",)))


def whole_of(split: SplitArray, stacked: Any) -> Any:  # noqa: ANN401
    """Return the array in the kernel's shape, from one whose first axis numbers the parts."""
    if split.separate is None:
        return _components(split, stacked)
    value, axis = _components(split, stacked), split.separate
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(value.shape)))
    if axis == 0:
        return value
    return value.permute(order) if hasattr(value, "permute") else value.transpose(order)


def _components(split: SplitArray, value: Any) -> Any:  # noqa: ANN401
    if split.vector is None or not isinstance(value, np.ndarray) or value.dtype.names is None:
        return value
    return value[..., None].view(split.array.dtype)


def assembled(splits: Sequence[SplitArray], parts: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Return copies of the arrays that were taken in parts, made of their parts."""
    found = {}
    for split in splits:
        if split.array.is_output:
            arrays = [parts[name] for name in split.parts]
            found[split.name] = whole_of(split, arrays[0] if split.separate is None else np.stack(arrays))
    return found
