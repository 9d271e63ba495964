"""Kernels at the edge of what is proven: one that is, by the rows of a buffer, and one that is `unchecked`."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _any_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random(n, dtype=F)
    return {"x": x, "found": np.zeros(1, np.int32)}, {"found": np.array([(x > 0.5).any()], np.int32)}


@example(_any_case)
def any_greater() -> pl.LoopKernel:
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("found", np.int32, shape=1), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "found[0] = 1 {if=x[i] > 0.5}", data, name="any_greater")
    knl = pl.unchecked(knl, "all threads that write write 1")
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def _in_place_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random((2, n), dtype=F)
    return {"x": x.copy(), "front": 1}, {"x": np.stack([x[1] + 1, x[1]])}


@example(_in_place_case)
def other_buffer() -> pl.LoopKernel:
    data = [pl.GlobalArg("x", F, shape="2, n"), pl.ValueArg("front", np.int32), ...]
    text = "x[1 - front, i] = x[front, n-1-i] + x[front, i] - x[front, n-1-i] + 1"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, assumptions="0 <= front <= 1", name="other_buffer")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
