"""Tiles that copies fill with zeros where their matrices end."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F, H, INT = np.float32, np.float16, np.int32


def _layer_case(n: int, rng: np.random.Generator) -> Case:
    samples, outputs, features = n, 2 * n + 1, 2 * n
    x, w = (rng.integers(-3, 4, shape).astype(H) for shape in ((samples, features), (outputs, features)))
    bias = rng.integers(-3, 4, outputs).astype(F)
    y = np.maximum(x.astype(F) @ w.astype(F).T + bias, 0)
    return {"x": x, "w": w, "bias": bias}, {"y": y}


@example(_layer_case, sizes=(1, 9, 16, 35))
def layer_on_tensor_cores() -> pl.LoopKernel:
    """Weights by rows of outputs: both operands are contiguous along the terms, of which there is an even number."""
    data = [
        pl.GlobalArg("x", H, shape="samples, features"),
        pl.GlobalArg("w", H, shape="outputs, features"),
        pl.GlobalArg("bias", F, shape="outputs"),
        pl.GlobalArg("y", F, shape="samples, outputs"),
        ...,
    ]
    knl = pl.make_kernel(
        "{[s, o, f]: 0 <= s < samples and 0 <= o < outputs and 0 <= f < features}",
        "y[s, o] = max(sum(f, x[s, f]*w[o, f]) + bias[o], 0)",
        data,
        name="layer_on_tensor_cores",
        assumptions="samples >= 1 and outputs >= 1 and features >= 1 and features mod 2 = 0",
    )
    knl = pl.split_iname(knl, "s", 32, outer_iname="bs", inner_iname="st", outer_tag="g.1")
    knl = pl.split_iname(knl, "st", 16, outer_iname="ws", inner_iname="ss", outer_tag="l/32%2")
    knl = pl.split_iname(knl, "o", 32, outer_iname="bo", inner_iname="ot", outer_tag="g.0")
    knl = pl.split_iname(knl, "ot", 8, outer_iname="to", inner_iname="oo", outer_tag="unr")
    knl = pl.split_iname(knl, "f", 32, outer_iname="bf", inner_iname="ft")
    knl = pl.split_iname(knl, "ft", 16, outer_iname="tf", inner_iname="ff", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "bf, tf, to")
    knl = pl.tensorize(knl, "writes:y", "mma_m16n8k16_f16")
    knl = pl.add_prefetch(knl, "x", "ws, ss_lane, ss_reg, tf, ff", temporary_name="x_tile", pad=8, vec=2)
    knl = pl.add_prefetch(knl, "w", "to, oo_lane, oo_reg, tf, ff", temporary_name="w_tile", pad=8, vec=2)
    knl = pl.pipeline(knl, "bf", stages=3, via="cp.async")
    return pl.tag_inames(knl, "oo_reg:unr", force=True)  # rows of results have any length


def _weighted_case(n: int, rng: np.random.Generator) -> Case:
    a, b, w = (rng.integers(-9, 10, shape).astype(INT) for shape in ((n, n + 3), (n + 3, n), n + 3))
    return {"a": a, "b": b, "w": w}, {"c": (a * w) @ b}


@example(_weighted_case, sizes=(1, 13, 16, 33))
def weighted_product_of_integers() -> pl.LoopKernel:
    """Three factors, each with a tile on its way; one of them is a row that all results of a block use."""
    data = [
        pl.GlobalArg("a", INT, shape="n, n + 3"),
        pl.GlobalArg("b", INT, shape="n + 3, n"),
        pl.GlobalArg("w", INT, shape="n + 3"),
        pl.GlobalArg("c", INT, shape="n, n"),
        ...,
    ]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j < n and 0 <= k < n + 3}",
        "c[i, j] = sum(k, a[i, k]*w[k]*b[k, j])",
        data,
        name="weighted_product_of_integers",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 16, outer_iname="bi", inner_iname="ti", outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_iname="bj", inner_iname="tj", outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16, outer_iname="bk", inner_iname="tk")
    knl = pl.add_prefetch(knl, "a", "ti, tk")
    knl = pl.add_prefetch(knl, "b", "tk, tj")
    knl = pl.add_prefetch(knl, "w", "tk")
    return pl.pipeline(knl, "bk", stages=2, via="cp.async")
