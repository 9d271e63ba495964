"""Kernels that are made otherwise than from text: einsums, fused kernels, functions."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _batched_case(n: int, rng: np.random.Generator) -> Case:
    p, q = rng.random((3, n, 5), dtype=F), rng.random((3, 5, n + 1), dtype=F)
    return {"p": p, "q": q}, {"out": np.einsum("bij,bjk->bik", p, q)}


@example(_batched_case, sizes=(1, 15, 33))
def batched_matmul_by_einsum() -> pl.LoopKernel:
    knl = pl.make_einsum("bij,bjk->bik", ("p", "q"), name="batched_matmul_by_einsum")
    knl = pl.add_dtypes(knl, {"p": F, "q": F, "out": F})
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "b:g.2")


def _bilinear_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-3, 4, (n, n)).astype(F)
    x, y = rng.integers(-3, 4, (2, n)).astype(F)
    return {"x": x, "a": a, "y": y}, {"out": x @ a @ y}


@example(_bilinear_case)
def bilinear_form_by_einsum() -> pl.LoopKernel:
    knl = pl.make_einsum("i,ij,j", "x, a, y", name="bilinear_form_by_einsum")
    return pl.add_dtypes(knl, {"x": F, "a": F, "y": F, "out": F})


def _smooth_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-8, 9, n + 2).astype(F)
    scaled = F(3) * a + F(1)
    y = scaled[:-2] + scaled[1:-1] + scaled[2:]
    return {"a": a}, {"scaled": scaled, "y": y, "s": F(0.5) * y}


@example(_smooth_case, sizes=(1, 31, 97))
def scale_smooth_halve_fused() -> pl.LoopKernel:
    """Three kernels in a row; the third shares the loop of the second."""
    scale = pl.make_kernel(
        "{[i]: 0 <= i < n + 2}",
        ["<> t = 3*a[i]", "scaled[i] = t + 1"],
        [pl.GlobalArg("a, scaled", F, shape="n + 2"), ...],
        name="scale",
    )
    smooth = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        ["<> t = x[i] + x[i + 1]", "y[i] = t + x[i + 2]"],
        [pl.GlobalArg("x", F, shape="n + 2"), pl.GlobalArg("y", F, shape="n"), ...],
        name="smooth",
    )
    data = [pl.GlobalArg("y, s", F, shape="n"), ...]
    halve = pl.make_kernel("{[i]: 0 <= i < n}", "s[i] = 0.5*y[i]", data, name="halve")
    knl = pl.fuse_kernels(
        [scale, smooth, halve], data_flow=[("scaled", 0, 1, "x"), ("y", 1, 2)], name="scale_smooth_halve_fused"
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "i_1", 32, outer_tag="g.0", inner_tag="l.0")


def _normalised_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 3), dtype=F) + F(0.5)
    return {"a": a}, {"u": a / np.sqrt((a * a).sum(1, dtype=F))[:, None]}


@example(_normalised_case, sizes=(1, 31, 64))
def normalised_rows_by_functions() -> pl.LoopKernel:
    """A function that calls another one, called for every row."""
    norm = pl.make_function(
        "{[j]: 0 <= j < m}",
        ["<> s = sum(j, x[j]*x[j])", "r = sqrt(s)"],
        [pl.GlobalArg("x", shape="m"), pl.GlobalArg("r", shape=()), ...],
        name="norm",
    )
    unit = pl.make_function(
        "{[j]: 0 <= j < m}",
        ["<> r = norm(x) {id=length}", "y[j] = x[j]/r {dep=length}"],
        [pl.GlobalArg("y, x", shape="m"), ...],
        name="unit",
        functions=[norm],
    )
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "u[i, :] = unit(a[i, :])",
        [pl.GlobalArg("a, u", F, shape="n, 3"), ...],
        name="normalised_rows_by_functions",
        functions=[unit],
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _blur_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-9, 10, (n + 2, n + 2)).astype(F)
    rows = a[:, :-2] + 2 * a[:, 1:-1] + a[:, 2:]
    return {"a": a}, {"rows": rows, "b": rows[:-2] + 2 * rows[1:-1] + rows[2:]}


@example(_blur_case, sizes=(1, 15, 33))
def separable_blur_by_function() -> pl.LoopKernel:
    """One function along the rows, and then along the columns."""
    blur = pl.make_function(
        "{[j]: 0 <= j < m}",
        "y[j] = x[j] + 2*x[j + 1] + x[j + 2]",
        [pl.GlobalArg("y", shape="m"), pl.GlobalArg("x", shape="m + 2"), ...],
        name="blur",
    )
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < n + 2}", "{[c, i]: 0 <= c, i < n}", "{[k]: 0 <= k < n + 2}"],
        """
        rows[r, :] = blur(a[r, :])
        [i]: b[i, c] = blur([k]: rows[k, c])
        """,
        [pl.GlobalArg("a", F, shape="n + 2, n + 2"), pl.GlobalArg("rows", F, shape="n + 2, n"),
         pl.GlobalArg("b", F, shape="n, n"), ...],
        name="separable_blur_by_function",
        functions=[blur],
    )  # fmt: skip
    knl = pl.split_iname(knl, "blur_j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "r", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "c", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.split_iname(knl, "blur_j_1", 16, outer_tag="g.1", inner_tag="l.1")
