"""Arguments in every layout: strides, offsets, orders, constants."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _submatrix_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((2 * n, n + 3), dtype=F)
    return {"a": a}, {"b": np.float32(0.5) * (a + a[::-1])}


@example(_submatrix_case)
def any_strides() -> pl.LoopKernel:
    a = pl.GlobalArg("a", F, shape="n, m", strides=pl.auto, offset=pl.auto)
    data = [a, pl.GlobalArg("b", F, shape="n, m"), ...]
    text = "b[i, j] = 0.5*(a[i, j] + a[n - 1 - i, j])"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", text, data, name="any_strides")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, {"i": "g.1"})


def _column_major_case(n: int, rng: np.random.Generator) -> Case:
    a, x = np.asfortranarray(rng.random((n, n + 1), dtype=F)), rng.random(n + 1, dtype=F)
    return {"a": a, "x": x}, {"y": a @ x}


@example(_column_major_case)
def column_major() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.ConstantArg("x", F, shape="m"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i] = sum(j, a[i, j]*x[j])", data,
                         name="column_major", default_order="F", index_dtype=np.int64)  # fmt: skip
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _padded_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 5), dtype=F)
    return {"a": a}, {"t": a.T * F(3)}


@example(_padded_case)
def padded_rows() -> pl.LoopKernel:
    t = pl.GlobalArg("t", F, shape="5, n", dim_tags="N1,N0(pad=32)", alignment=16)
    data = [t, pl.GlobalArg("a", F, shape="n, 5"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 5}", "t[j, i] = 3*a[i, j]", data, name="padded_rows")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _two_phases_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n), dtype=F)
    return {"a": a}, {"b": (a / a.sum(0)).T}


@example(_two_phases_case)
def two_phases() -> pl.LoopKernel:
    text = """
    <> total[j] = sum(i, a[i, j]) {id=total}
    <> t[ii, jj] = a[ii, jj]/total[jj] {id=divide, dep=total}
    b[k, l] = t[l, k] {dep=divide}
    """
    domain = "{[i, j, ii, jj, k, l]: 0 <= i, j, ii, jj, k, l < n}"
    knl = pl.make_kernel(domain, text, [pl.GlobalArg("a, b", F, shape="n, n"), ...], name="two_phases")
    for iname in ("j", "jj", "l"):
        knl = pl.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, {"ii": "g.1", "k": "g.1"})


_WEIGHTS = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], F) / F(16)


def _blur_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n + 2, n + 2), dtype=F)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3))
    return {"a": a}, {"b": (windows * _WEIGHTS).sum((2, 3))}


@example(_blur_case)
def blur() -> pl.LoopKernel:
    table = pl.TemporaryVariable("w", initializer=_WEIGHTS, read_only=True)
    data = [pl.GlobalArg("a", F, shape="n + 2, n + 2"), table, ...]
    text = "b[i, j] = sum([p, q], w[p, q]*a[i + p, j + q])"
    knl = pl.make_kernel("{[i, j, p, q]: 0 <= i, j < n and 0 <= p, q < 3}", text, data, name="blur")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, {"i": "g.1"})
