"""The kernels of a conjugate gradient solver for sparse matrices in CSR form."""

from __future__ import annotations

import numpy as np

import polyloop as pl

F = np.float64
CSR = [pl.GlobalArg("starts", np.int32, shape="n + 1"), pl.GlobalArg("columns", np.int32, shape="entries"),
       pl.GlobalArg("values", F, shape="entries")]  # fmt: skip


def product() -> pl.LoopKernel:
    """Return ``y = A x``."""
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: begin <= k < stop}"],
        """
        for i
            <> begin = starts[i]
            <> stop = starts[i + 1]
            y[i] = sum(k, values[k]*x[columns[k]])
        end
        """,
        [*CSR, pl.GlobalArg("x, y", F, shape="n"), ...], name="csr_product",
    )  # fmt: skip


def product_and_dot() -> pl.LoopKernel:
    """Return ``q = A p`` and ``p.q``, in one pass over the rows."""
    return pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: begin <= k < stop}"],
        """
        <> total = 0.0
        for i
            <> begin = starts[i]
            <> stop = starts[i + 1]
            <> row = sum(k, values[k]*p[columns[k]])
            q[i] = row
            total = total + p[i]*row
        end
        pq[0] = total
        """,
        [*CSR, pl.GlobalArg("p, q", F, shape="n"), pl.GlobalArg("pq", F, shape="1"), ...], name="csr_product_and_dot",
    )  # fmt: skip


def update_and_norm() -> pl.LoopKernel:
    """Return ``x += alpha p``, ``r -= alpha q`` and ``r.r``, in one pass."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        <> total = 0.0
        for i
            x[i] = x[i] + alpha*p[i]
            <> left = r[i] - alpha*q[i]
            r[i] = left
            total = total + left*left
        end
        rr[0] = total
        """,
        [pl.GlobalArg("p, q, x, r", F, shape="n"), pl.GlobalArg("rr", F, shape="1"), pl.ValueArg("alpha", F), ...],
        name="update_and_norm",
    )  # fmt: skip


def direction() -> pl.LoopKernel:
    """Return ``p = r + beta p``."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "p[i] = r[i] + beta*p[i]",
        [pl.GlobalArg("p, r", F, shape="n"), pl.ValueArg("beta", F), ...], name="direction",
    )  # fmt: skip
