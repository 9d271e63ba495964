"""Loops whose iterations run side by side: ``ilp`` and ``vec``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _product_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((2, n, n), dtype=F)
    return {"a": a, "b": b}, {"c": a @ b}


@example(_product_case, sizes=(5, 32, 70))
def interleaved_product() -> pl.LoopKernel:
    """A matrix product with 4 x 2 results for each thread; the lanes need no loop priority."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 8, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 8, outer_tag="ilp", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


def _series_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random(n) * 2 - 1
    y = np.zeros(n)
    for k in range(12, -1, -1):
        y = y * x + 1 / (k + 1)
    return {"x": x, "c": 1 / np.arange(1.0, 14)}, {"y": y}


@example(_series_case, rtol=1e-12)
def interleaved_horner() -> pl.LoopKernel:
    """A chain of dependent steps, for four elements at a time so that their latencies overlap."""
    text = """
        for i
            <> s = 0*x[i]
            for k
                s = s*x[i] + c[12 - k]   {id=step}
            end
            y[i] = s
        end
        """
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), pl.GlobalArg("c", np.float64, shape="13"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 13}", text, data, name="horner")
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.0")
    return pl.split_iname(knl, "i_inner", 32, outer_tag="ilp", inner_tag="l.0")


def _rows_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 2 * n + 1), dtype=F)
    top = a.max(1, keepdims=True)
    return {"a": a}, {"b": a / top}


@example(_rows_case)
def rows_side_by_side() -> pl.LoopKernel:
    """Each thread takes two rows at a time; the greatest element of each is kept in a register of its own."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j, k < m}",
        "<> top = max(k, a[i, k])\nb[i, j] = a[i, j]/top",
        [pl.GlobalArg("a, b", F, shape="n, m"), ...],
        name="rows",
        assumptions="m >= 1",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="ilp")
    return pl.split_iname(knl, "i_outer", 16, outer_tag="g.0", inner_tag="l.0")


def _gelu_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.standard_normal((n, 8 * n), dtype=F)
    b = rng.standard_normal(8 * n, dtype=F)
    h = x + b
    return {"x": x, "b": b}, {"y": 0.5 * h * (1 + np.tanh(F(0.7978845608) * (h + F(0.044715) * h**3)))}


@example(_gelu_case, sizes=(1, 5, 40))
def bias_and_gelu() -> pl.LoopKernel:
    """A bias and an activation over rows that are a multiple of four elements long."""
    data = [pl.GlobalArg("x, y", F, shape="n, m"), pl.GlobalArg("b", F, shape="m"), ...]
    text = """
        <> h = x[i, j] + b[j]
        y[i, j] = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h)))
        """
    domain = "{[i, j]: 0 <= i < n and 0 <= j < m}"
    knl = pl.make_kernel(domain, text, data, name="bias_gelu", assumptions="m mod 4 = 0 and m >= 4")
    knl = pl.split_iname(knl, "j", 4, inner_tag="vec")
    knl = pl.split_iname(knl, "j_outer", 64, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.1")


def _scaled_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-8, 9, 37 * n).astype(np.float16)
    return {"x": x}, {"y": x * np.float16(0.5)}


@example(_scaled_case)
def eight_halves_at_once() -> pl.LoopKernel:
    """16 bytes for each thread, and a remainder of up to seven elements."""
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 0.5*x[i]", [pl.GlobalArg("x, y", np.float16, shape="n"), ...])
    knl = pl.split_iname(knl, "i", 8, inner_tag="vec")
    return pl.split_iname(knl, "i_outer", 128, outer_tag="g.0", inner_tag="l.0")


def _blocked_case(n: int, rng: np.random.Generator) -> Case:
    return _product_case(32 * n, rng)


@example(_blocked_case, sizes=(1, 2, 3))
def product_with_vectors() -> pl.LoopKernel:
    """A matrix product whose tiles are filled, read and written four elements at a time."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product",
        assumptions="n mod 32 = 0 and n >= 32",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 8, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(
        knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"], dim_arg_names=["ar", "ac"], default_tag=None
    )
    knl = pl.add_prefetch(
        knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"], dim_arg_names=["br", "bc"], default_tag=None
    )
    knl = pl.split_iname(knl, "bc", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.tag_inames(knl, "br:l.1")
    knl = pl.split_iname(knl, "ar", 8, inner_tag="l.1", outer_tag="ilp")
    return pl.tag_inames(knl, "ac:l.0")


def _sums_case(columns: int) -> Callable[[int, np.random.Generator], Case]:
    def case(n: int, rng: np.random.Generator) -> Case:
        a = rng.random((n, columns), dtype=F)
        return {"a": a}, {"y": a.sum(1, dtype=np.float64).astype(F)}

    return case


def _row_sums(columns: int, name: str) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape=f"m, {columns}"), pl.GlobalArg("y", F, shape="m"), ...]
    domain = f"{{[i, j]: 0 <= i < m and 0 <= j < {columns}}}"
    return pl.make_kernel(domain, "y[i] = sum(j, a[i, j])", data, name=name, assumptions="m >= 1")


@example(_sums_case(32), sizes=(1, 31, 127, 128, 130), rtol=1e-5)
def sums_of_short_rows() -> pl.LoopKernel:
    """Eight threads a row, each with one vector of it; four rows at a time, so that loads are in flight together."""
    knl = pl.split_iname(_row_sums(32, "short_rows"), "j", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.0")
    return pl.split_iname(knl, "i_inner", 32, inner_tag="l.1", outer_tag="ilp")


@example(_sums_case(1024), sizes=(1, 7, 8, 9), rtol=1e-5)
def sums_of_rows_by_warps() -> pl.LoopKernel:
    """A warp a row: each thread has eight vectors of it in flight, with a sum for each, before they are combined."""
    knl = pl.split_iname(_row_sums(1024, "warp_rows"), "j", 128, outer_tag="ilp")
    knl = pl.split_iname(knl, "j_inner", 4, outer_tag="l.0", inner_tag="vec")
    return pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.1")
