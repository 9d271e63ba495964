"""Diagnostics of arguments: masked arrays, and arrays that are too large to allocate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

from polyloop.errors import Diagnostic

__all__ = ["masked_problem", "too_large"]


def masked_problem(name: str, value: object) -> Diagnostic | None:
    """Return ``wrong-type`` for a masked array, even if no element is masked; None for other values."""
    masked = sys.modules.get("numpy.ma")  # whoever passes a masked array has imported it
    if masked is None or not isinstance(value, masked.MaskedArray):
        return None
    return Diagnostic(
        "wrong-type",
        f"'{name}' is a masked array",
        ("a kernel computes with all elements, and knows no mask",),
        (f"pass {name}.filled(0), or {name}.data where the mask does not matter; a mask can be an array of its own",),
    )


def too_large(name: str, shape: Sequence[int], itemsize: int, reason: Exception) -> Diagnostic:
    """Return ``too-large`` for an output array that NumPy cannot allocate."""
    return Diagnostic(
        "too-large",
        f"'{name}' of shape {tuple(shape)} cannot be allocated",
        (f"it would take {prod(shape) * itemsize} bytes", f"{type(reason).__name__}: {reason}"),
        ("choose smaller sizes, or work on a part at a time",),
    )
