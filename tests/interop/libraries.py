"""Libraries that tests need, and kernels that several of them use."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import pytest

import polyloop as pl

F = np.float32
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of a GPU's memory from the others


def required(name: str) -> Any:
    """Return a library; skip the module where it is not installed, unless it has to be."""
    if "POLYLOOP_REQUIRE_INTEROP" in os.environ:
        return importlib.import_module(name)
    return pytest.importorskip(name)


def numba_module(name: str) -> Any:
    """Return a module of Numba; skip the test where Numba is not installed, or refuses the NumPy that is.

    A release of Numba that is older than NumPy 2.5 asks NumPy for functions that are gone, some of them only when it
    compiles: NumPy has those again that were other names.
    """
    for old, new in (("row_stack", "vstack"), ("in1d", "isin"), ("trapz", "trapezoid")):
        if not hasattr(np, old):
            setattr(np, old, getattr(np, new))
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError) as error:
        pytest.skip(f"Numba cannot be imported with NumPy {np.__version__}: {error}")


def matvec(dtype: type = F) -> pl.LoopKernel:
    """Return ``y = s*a@x``."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[i] = s*sum(j, a[i, j]*x[j])",
        [pl.GlobalArg("a", dtype, shape="m, n"), pl.GlobalArg("x, y", dtype), pl.ValueArg("s", dtype), ...],
        name="matvec",
    )  # fmt: skip


def matvec_backward() -> pl.LoopKernel:
    """Return the gradients of ``a`` and ``x``."""
    return pl.make_kernel(
        "{[i, j, k, l]: 0 <= i, l < m and 0 <= j, k < n}",
        """
        grad_a[i, j] = s*grad_y[i]*x[j]
        grad_x[k] = s*sum(l, a[l, k]*grad_y[l])
        """,
        [pl.GlobalArg("a, grad_a", F, shape="m, n"), pl.GlobalArg("x, grad_x", F, shape="n"),
         pl.GlobalArg("grad_y", F, shape="m"), pl.ValueArg("s", F), ...],
        name="matvec_backward",
    )  # fmt: skip


def rounded(dtype: type = F) -> pl.LoopKernel:
    """Return a sum of neighbours, with outputs of other extents than the input, and a number that is a size."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n - 1 and 0 <= j < n}", "y[i] = x[i] + x[i + 1] + z[0]*t\nw[j, 0] = 2*x[j]*t + shift",
        [pl.GlobalArg("x", dtype, shape="n"), pl.GlobalArg("z", dtype, shape="1"),
         pl.GlobalArg("y", dtype, shape="n - 1"), pl.GlobalArg("w", dtype, shape="n, 1"),
         pl.ValueArg("t", dtype), pl.ValueArg("shift", np.int32), ...],
        name="neighbours", assumptions="n >= 2",
    )  # fmt: skip


def added() -> pl.LoopKernel:
    """Return ``u += v``, which changes ``u``."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "u[i] = u[i] + v[i]", [pl.GlobalArg("u, v", F, shape="n"), ...], name="added",
        assumptions="n >= 2",
    )  # fmt: skip


def refused(call: Any) -> str:
    """Return the text of the error that a call ends with."""
    with pytest.raises(pl.PolyloopError) as error:
        call()
    return str(error.value)
