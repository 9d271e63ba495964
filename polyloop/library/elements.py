"""The types of elements that ready kernels take."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype

__all__ = ["FLOATS", "element_type"]

FLOATS: Final = ("float32", "float64", "bfloat16", "float16")


def element_type(kernel: str, dtype: Any, program: str) -> np.dtype[Any]:
    """Return the type of floating-point elements that *dtype* names, for the ready kernel called *kernel*.

    Parameters
    ----------
    program
        How the program is made for other types, to be scheduled by the user.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``.
    """
    found = to_dtype(dtype, kernel)
    if dtype_name(found) not in FLOATS:
        raise pl.ArgumentError(kernel, None, [pl.Diagnostic(
            "wrong-dtype", f"the library has no {kernel} of {dtype_name(found)}", (),
            (f"pass {', '.join(FLOATS[:-1])} or {FLOATS[-1]}, or schedule the program yourself: {program}",))])
    return found
