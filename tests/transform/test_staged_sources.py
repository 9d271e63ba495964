"""Asynchronous copies from global temporaries: a launch in front has set them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.test_tma import F4, PLAIN, same

FILLS = "for i\n    u[i] = 2*x[i]\nend\n"
SUMS = "for b, l\n    y[64*b + l] = sum(t, u[64*t + l])*w[b]\nend"


def program(fills: str = FILLS, sums: str = SUMS) -> pl.LoopKernel:
    return pl.make_kernel(
        ["{[i, j]: 0 <= i, j < 64*n}", "{[b, l, t]: 0 <= b < 3 and 0 <= l < 64 and 0 <= t < n}"],
        fills + sums,
        [pl.GlobalArg("x", F4, shape="64*n"), pl.GlobalArg("y", F4, shape="192"), pl.GlobalArg("w", F4, shape="3"),
         pl.TemporaryVariable("u", F4, shape="64*n", address_space="global"), ...],
        assumptions="n >= 1",
    )  # fmt: skip


def fetched(knl: pl.LoopKernel, via: str) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.tag_inames(knl, "b:g.0, l:l.0")
    knl = pl.add_prefetch(knl, "u", "l", temporary_name="tile", temporary_address_space="local")
    return pl.pipeline(knl, "t", stages=3, via=via)


@pytest.mark.few(2)
@pytest.mark.parametrize("via", ["tma", "cp.async"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_launch_in_front_sets_them(via: str, n: int) -> None:
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"x": rng.integers(-9, 9, 64 * n).astype(F4), "w": np.arange(3).astype(F4), "n": n}
    text = same(fetched(program(), via), **given, y=np.zeros(192, F4))
    assert text.count("__global__") == 2
    assert ("&u_map" in text) == (via == "tma")


def in_one_launch(via: str) -> pl.LoopKernel:
    knl = pl.tag_inames(pl.split_iname(program(sums="for l\n    y[l] = sum(t, u[64*t + l])\nend"), "i", 64), "l:l.0")
    knl = pl.add_prefetch(pl.tag_inames(knl, "i_inner:l.0"), "u", "l", temporary_name="tile",
                          temporary_address_space="local")  # fmt: skip
    return pl.pipeline(knl, "t", stages=3, via=via)


def test_the_engine_reads_nothing_that_its_own_launch_sets() -> None:
    x = np.arange(128).astype(F4)
    text = same(in_one_launch("cp.async"), x=x, y=np.zeros(192, F4), n=2)
    assert text.count("__global__") == 1
    with pytest.raises(pl.CodegenError, match="'u' is written in the same launch") as refused:
        pl.generate_code(in_one_launch("tma"), target=PLAIN)
    assert refused.value.codes == ("not-a-box",)
