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


# {{{ for a GPU: the factors stay in its memory, so that no step waits for the host

BLOCK, EACH = 256, 8


def _summed(knl: pl.LoopKernel, iname: str, sums: str) -> pl.LoopKernel:
    """Give the terms of a sum over *iname* to blocks of threads, and the sums of blocks to one block."""
    knl = pl.split_iname(knl, iname, BLOCK * EACH, outer_iname=f"{iname}_block", inner_iname=f"{iname}_in")
    knl = pl.stage_reduction(knl, f"{iname}_block", default_tag="g.0", temporary_name=sums,
                             temporary_address_space="global")  # fmt: skip
    knl = pl.split_iname(knl, f"{iname}_in", BLOCK, inner_tag="l.0")
    return pl.split_iname(knl, f"{iname}_block", BLOCK, inner_tag="l.0")


def product_and_dot_on_threads() -> pl.LoopKernel:
    """Return ``q = A p`` and ``p.q``: a row a thread, then the sum."""
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i, j < n}", "{[k]: begin <= k < stop}"],
        """
        for i
            <> begin = starts[i]
            <> stop = starts[i + 1]
            q[i] = sum(k, values[k]*p[columns[k]]) {id=row}
        end
        pq[0] = sum(j, p[j]*q[j]) {dep=row}
        """,
        [*CSR, pl.GlobalArg("p, q", F, shape="n"), pl.GlobalArg("pq", F, shape="1"), ...], name="csr_product_and_dot",
        assumptions="n >= 1",
    )  # fmt: skip
    return _summed(knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0"), "j", "parts")


def update_and_norm_on_threads() -> pl.LoopKernel:
    """Return ``x += alpha p``, ``r -= alpha q`` and ``rn``, the next ``r.r``, with ``alpha = rr/pq``."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        x[i] = x[i] + (rr[0]/pq[0] if pq[0] > 0 else 0)*p[i]
        r[i] = r[i] - (rr[0]/pq[0] if pq[0] > 0 else 0)*q[i] {id=left}
        rn[0] = sum(j, r[j]*r[j]) {dep=left}
        """,
        [pl.GlobalArg("p, q, x, r", F, shape="n"), pl.GlobalArg("rr, pq, rn", F, shape="1"), ...],
        name="update_and_norm", assumptions="n >= 1",
    )  # fmt: skip
    return _summed(knl.split_iname("i", 128, outer_tag="g.0", inner_tag="l.0"), "j", "parts")


def direction_on_threads() -> pl.LoopKernel:
    """Return ``p = r + beta p``, with ``beta = rn/rr``."""
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", "p[i] = r[i] + (rn[0]/rr[0] if rr[0] > 0 else 0)*p[i]",
        [pl.GlobalArg("p, r", F, shape="n"), pl.GlobalArg("rr, rn", F, shape="1"), ...], name="direction",
        assumptions="n >= 1",
    ).split_iname("i", 128, outer_tag="g.0", inner_tag="l.0")  # fmt: skip

# }}}
