"""Vectors of neighbouring elements: stencils on them, and what is left over at the ends of rows."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _smoothed_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-8, 9, (3, 4 * n)).astype(F)
    b = 2 * a
    b[:, 1:] += a[:, :-1]
    b[:, :-1] += a[:, 1:]
    return {"a": a}, {"b": b}


@example(_smoothed_case, sizes=(1, 5, 20))
def rows_smoothed_in_vectors() -> pl.LoopKernel:
    """Three points of a row: two of three neighbours come with the vector; outside of the row there is nothing."""
    data = [pl.GlobalArg("a, b", F, shape="m, n"), ...]
    text = "b[i, j] = (a[i, j-1] if j > 0 else 0) + 2*a[i, j] + (a[i, j+1] if j < n - 1 else 0)"
    domain = "{[i, j]: 0 <= i < m and 0 <= j < n}"
    assumptions = "m >= 1 and n >= 4 and n mod 4 = 0"
    knl = pl.make_kernel(domain, text, data, name="rows_smoothed", assumptions=assumptions)
    knl = pl.split_iname(pl.tag_inames(knl, "i:g.1"), "j", 32, outer_tag="g.0")
    return pl.vectorize(knl, "j_inner", 4, outer_tag="l.0")


def _inner_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-8, 9, (6, 4 * n)).astype(F)
    b = np.zeros_like(a)
    b[1:-1, 1:-1] = a[1:-1, :-2] + a[1:-1, 2:] - a[:-2, 1:-1] - a[2:, 1:-1]
    return {"a": a, "b": np.zeros_like(a)}, {"b": b}


@example(_inner_case, sizes=(1, 3, 18))
def inner_points_in_vectors() -> pl.LoopKernel:
    """The first and the last vector of a row are cut; that choice is made once for all rows of a thread."""
    data = [pl.GlobalArg("a, b", F, shape="m, n"), ...]
    text = "b[i, j] = a[i, j-1] + a[i, j+1] - a[i-1, j] - a[i+1, j]"
    domain = "{[i, j]: 1 <= i < m - 1 and 1 <= j < n - 1}"
    assumptions = "m >= 3 and n >= 4 and n mod 4 = 0"
    knl = pl.make_kernel(domain, text, data, name="inner_points", assumptions=assumptions)
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.1", inner_tag="unr")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0")
    return pl.vectorize(knl, "j_inner", 4, outer_tag="l.0")


def _difference_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-50, 50, 19 * n + 1).astype(np.float16)
    return {"x": x}, {"y": x[1:] - x[:-1]}


@example(_difference_case, sizes=(1, 7, 33))
def differences_of_halves() -> pl.LoopKernel:
    """Eight halves at once; the neighbours beyond are read one by one."""
    data = [pl.GlobalArg("x", np.float16, shape="n + 1"), pl.GlobalArg("y", np.float16, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i+1] - x[i]", data, name="differences")
    knl = pl.split_iname(knl, "i", 256, outer_tag="g.0")
    return pl.vectorize(knl, "i_inner", 8, outer_tag="l.0")


def _turned_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-8, 9, (n, 3, 16)).astype(F)
    return {"a": a}, {"b": a[:, :, ::-1] + a}


@example(_turned_case)
def rows_of_half_a_warp_by_shuffles() -> pl.LoopKernel:
    """A block of 48 threads: each row of 16 lanes exchanges values by itself, also one that is alone in its warp."""
    text = """
        for g
            for y, x
                <> t[y, x] = a[g, y, x]
            end
            for y, x
                b[g, y, x] = t[y, 15 - x] + t[y, x]
            end
        end
        """
    domain = "{[g, y, x]: 0 <= g < n and 0 <= y < 3 and 0 <= x < 16}"
    knl = pl.make_kernel(domain, text, [pl.GlobalArg("a, b", F), ...], name="rows_by_shuffles")
    return pl.exchange_by_shuffle(pl.tag_inames(knl, "g:g.0, y:l.1, x:l.0"), "t")
