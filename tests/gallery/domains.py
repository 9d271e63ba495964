"""Domains of every form: bounds that are read from memory, triangles, strides, unions, nothing at all."""

from __future__ import annotations

from itertools import pairwise

import islpy as isl
import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F, INT = np.float32, np.int32


def _csr_case(n: int, rng: np.random.Generator) -> Case:
    rowptr = np.concatenate([[0], np.cumsum(rng.integers(0, 7, n))]).astype(INT)
    nnz, m = int(rowptr[-1]), n + 3
    values, col = rng.random(nnz, dtype=F), rng.integers(0, m, nnz).astype(INT)
    x = rng.random(m, dtype=F)
    y = [(values[a:b] * x[col[a:b]]).sum() for a, b in pairwise(rowptr)]
    return {"rowptr": rowptr, "values": values, "col": col, "x": x}, {"y": np.array(y, F)}


@example(_csr_case, sizes=(1, 127, 128, 129))
def csr_product() -> pl.LoopKernel:
    """A sparse matrix times a vector, one row a thread."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: begin <= j < stop}"],
        """
        for i
            <int32> begin = rowptr[i]
            <int32> stop = rowptr[i + 1]
            y[i] = sum(j, values[j]*x[col[j]])
        end
        """,
        [
            pl.GlobalArg("rowptr", INT, shape="n + 1"),
            pl.GlobalArg("values", F, shape="nnz"),
            pl.GlobalArg("col", INT, shape="nnz"),
            pl.GlobalArg("x", F, shape="m"),
            ...,
        ],
        name="csr_product",
    )
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def _ragged_case(n: int, rng: np.random.Generator) -> Case:
    lengths = rng.integers(0, 6, n).astype(np.int64)
    a = rng.integers(-9, 9, (n, 5)).astype(INT)
    sums = [row[:length].sum() for row, length in zip(a, lengths, strict=True)]
    return {"lengths": lengths, "a": a}, {"s": np.array(sums, INT), "longest": np.array([lengths.max()])}


@example(_ragged_case)
def ragged_sums() -> pl.LoopKernel:
    """Rows of different lengths, which 64-bit integers state; split by two and unrolled."""
    knl = pl.make_kernel(
        ["{[i, r]: 0 <= i, r < n}", "{[j]: 0 <= j < length}"],
        """
        for i
            <> length = lengths[i]
            s[i] = sum(j, a[i, j])
        end
        longest[0] = max(r, lengths[r])
        """,
        [pl.GlobalArg("a", INT, shape="n, 5"), pl.GlobalArg("lengths", np.int64, shape="n"),
         pl.GlobalArg("longest", np.int64, shape="1"), ...],
        name="ragged_sums",
    )  # fmt: skip
    return pl.split_iname(knl, "j", 2, inner_tag="unr")


def _triangle_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, (n, n)).astype(INT)
    t = [sum(a[j, k] for j in range(i + 1) for k in range(j + 1)) for i in range(n)]
    return {"a": a}, {"t": np.array(t, INT)}


@example(_triangle_case, sizes=(1, 7, 20))
def triangle_of_triangles() -> pl.LoopKernel:
    """Three domains in a row, each bounded by the iname of the one before."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}", "{[k]: 0 <= k <= j}"],
        "t[i] = sum((j, k), a[j, k])",
        [pl.GlobalArg("a", INT, shape="n, n"), ...],
        name="triangle_of_triangles",
    )
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")


def _strided_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, n).astype(INT)
    y = np.zeros(n, INT)
    y[1::3] = 2 * a[1::3]
    return {"a": a, "y": np.zeros(n, INT)}, {"y": y}


@example(_strided_case, sizes=(1, 2, 3, 33))
def every_third() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, y", INT, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n and i mod 3 = 1}", "y[i] = 2*a[i]", data, name="every_third")


def _union_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, n).astype(INT)
    y = np.zeros(n, INT)
    y[: n // 3], y[2 * n // 3 :] = a[: n // 3], a[2 * n // 3 :]
    return {"a": a, "y": np.zeros(n, INT)}, {"y": y}


@example(_union_case, sizes=(1, 2, 33))
def two_ranges() -> pl.LoopKernel:
    """The first third and the last, on threads."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < floor(n/3) or floor(2*n/3) <= i < n}",
        "y[i] = a[i]",
        [pl.GlobalArg("a, y", INT, shape="n"), ...],
        name="two_ranges",
    )
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")


def _parity_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, (n, n)).astype(INT)
    board = np.indices((n, n)).sum(0) % 2 == 0
    return {"a": a}, {"black": np.array([a[board].sum()], INT)}


@example(_parity_case, sizes=(1, 2, 9))
def black_squares() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n and exists h: i + j = 2*h}",
        "black[0] = sum((i, j), a[i, j])",
        [pl.GlobalArg("black", INT, shape="1"), pl.GlobalArg("a", INT, shape="n, n"), ...],
        name="black_squares",
    )


def _empty_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-5, 6, n).astype(INT)
    return {"a": a, "y": a.copy()}, {"y": a, "z": np.array([7], INT), "s": np.array([0], INT)}


@example(_empty_case)
def nothing_runs() -> pl.LoopKernel:
    """An instruction without instances, a sum of nothing, and one without inames."""
    return pl.make_kernel(
        ["{[i]: 0 <= i < n and i < -1}", isl.BasicSet("{[k]: k = 2}"), isl.Set("{[j]: 1 = 0}"), "{:}"],
        "y[i] = a[i]\nz[0] = 5 + k {inames=k}\ns[0] = sum(j, a[j])",
        [pl.GlobalArg("a, y", INT, shape="n"), pl.GlobalArg("z, s", INT, shape="1"), ...],
        name="nothing_runs",
    )


def _banded_case(n: int, rng: np.random.Generator) -> Case:
    band, x = rng.random((n, 5), dtype=F), rng.random(n, dtype=F)
    y = np.zeros(n, F)
    for i in range(n):
        for j in range(max(0, i - 2), min(n, i + 3)):
            y[i] += band[i, j - i + 2] * x[j]
    return {"band": band, "x": x}, {"y": y}


@example(_banded_case, sizes=(1, 3, 33))
def banded_product() -> pl.LoopKernel:
    """A matrix with two diagonals on either side of the main one, stored by rows."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n and i - 2 <= j <= i + 2}",
        "y[i] = sum(j, band[i, j - i + 2]*x[j])",
        [pl.GlobalArg("band", F, shape="n, 5"), pl.GlobalArg("x", F, shape="n"), ...],
        name="banded_product",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
