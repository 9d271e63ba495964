"""Transforms of data and instructions: vectors in one step, tiles in one step, recipes."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _blend_case(n: int, rng: np.random.Generator) -> Case:
    x, y, w = rng.random((3, n), dtype=F)
    return {"x": x, "y": y, "w": w}, {"z": x + w * (y - x)}


@example(_blend_case, sizes=(5, 1024, 1027))
def blended_vectors() -> pl.LoopKernel:
    """Each thread blends four elements of two vectors; the last ones one by one."""
    data = [pl.GlobalArg("x, y, w, z", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = x[i] + w[i]*(y[i] - x[i])", data, name="blend")
    return pl.vectorize(pl.split_iname(knl, "i", 512, outer_tag="g.0"), "i_inner", outer_tag="l.0")


def _norm_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 8 * n), dtype=F)
    return {"a": a}, {"s": (a.astype(np.float64) ** 2).sum(1)}


@example(_norm_case)
def squared_rows() -> pl.LoopKernel:
    """A sum for each row, whose terms are loaded four at a time."""
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("s", F, shape="n"), ...]
    domain = "{[i, k]: 0 <= i < n and 0 <= k < m}"
    knl = pl.make_kernel(domain, "s[i] = sum(k, a[i, k]**2)", data, name="norms", assumptions="m mod 4 = 0")
    return pl.vectorize(pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0"), "k")


def _pairs_case(n: int, rng: np.random.Generator) -> Case:
    x, y = rng.random((2, n, 2 * n), dtype=F)
    return {"x": x, "y": y}, {"g": x @ y.T}


@example(_pairs_case, sizes=(1, 9, 33))
def recipe_of_another_kernel() -> pl.LoopKernel:
    """The products of all pairs of rows of two matrices, by a recipe that was written for a matrix product."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k]*b[k, j])", data, name="product")
    blocks, threads = {"i": "g.1", "j": "g.0"}, {"i": "l.1", "j": "l.0"}
    knl = pl.tile(knl, {"i": 16, "j": 16}, outer_tags=blocks, inner_tags=threads)
    knl = pl.add_prefetch(pl.split_iname(knl, "k", 16), "a", "i_inner, k_inner")
    recipe = pl.Recipe.of(knl).with_parameters(depth="2.inner_length", size=["1.lengths.i", "1.lengths.j"])
    data = [pl.GlobalArg("x, y", F, shape="n, m"), pl.GlobalArg("g", F, shape="n, n"), ...]
    pairs = pl.make_kernel(
        "{[r, s, t]: 0 <= r, s < n and 0 <= t < m}", "g[r, s] = sum(t, x[r, t]*y[s, t])", data, name="pairs"
    )
    return recipe.apply(pairs, rename={"i": "r", "j": "s", "k": "t", "a": "x"}, size=8, depth=8)


def _pixels_case(n: int, rng: np.random.Generator) -> Case:
    image, gain = rng.random((n, 4), dtype=F), rng.random(4, dtype=F)
    return {"image": image, "gain": gain}, {"out": np.clip(image * gain, 0, F(0.5))}


@example(_pixels_case, sizes=(1, 9, 200))
def pixels_of_four_channels() -> pl.LoopKernel:
    """Pixels are float4, loaded and stored whole; their channels are an axis of the arrays."""
    data = [pl.GlobalArg("image, out", F, shape="n, 4"), pl.GlobalArg("gain", F, shape="4"), ...]
    domain = "{[i, c]: 0 <= i < n and 0 <= c < 4}"
    knl = pl.make_kernel(domain, "out[i, c] = min(image[i, c]*gain[c], 0.5)", data, name="pixels")
    knl = pl.tag_array_axes(knl, "image, out", "N0,vec")
    knl = pl.tag_array_axes(knl, "gain", "vec")
    return pl.vectorize(pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"), "c")


def _batch_case(n: int, rng: np.random.Generator) -> Case:
    a, x, s = rng.random((3, n, n)), rng.random((3, n)), rng.random(3)
    return {"a": a, "x": x, "s": s}, {"y": s[:, None] * np.einsum("bij,bj->bi", a, x)}


@example(_batch_case, rtol=1e-12)
def batch_of_products() -> pl.LoopKernel:
    """Matrix-vector products, written for one and run for many, each with a factor of its own."""
    data = [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("x, y", np.float64, shape="n"),
            pl.ValueArg("s", np.float64), ...]  # fmt: skip
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[i] = s*sum(j, a[i, j]*x[j])", data, name="product")
    knl = pl.split_iname(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), "j", 32)
    knl = pl.add_prefetch(knl, "x", "j_inner")
    return pl.tag_inames(pl.to_batched(knl, "nb", "a, x, y, s"), "ibatch:g.1")
