"""Operands of matrix instructions that are loaded ahead, beside loops over sums that are not unrolled around them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda


def product(columns: int, order: str, *, fetch: bool = True, twice: bool = False) -> pl.LoopKernel:
    """Return a product of which the loop ``wj`` over tiles of 8 columns is sequential."""
    shapes = {"a": "m, p", "b": "p, n", "c": "m, n"}
    arrays = [pl.GlobalArg(name, np.float64, shape=shape) for name, shape in shapes.items()]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [*arrays, ...], name="product", assumptions="m >= 1 and n >= 1 and p >= 1")  # fmt: skip
    knl = pl.split_iname(knl, "i", 16, outer_iname="by", inner_iname="ii", outer_tag="g.1")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jb", outer_tag="g.0")
    knl = pl.split_iname(knl, "jb", 8, outer_iname="wj", inner_iname="jw" if twice else "jj")
    if twice:
        knl = pl.split_iname(knl, "jw", 8, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", 16, outer_iname="ko", inner_iname="kb")
    knl = pl.split_iname(knl, "kb", 8, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, order + (", ni" if twice else ""))
    knl = pl.tensorize(knl, "insn", "mma_m16n8k8_f64", ahead=True)
    if fetch:
        inames = ["wj", *(["ni"] if twice else []), "jj_lane", "jj_reg", "kk", "ki"]
        knl = pl.add_prefetch(knl, "b", inames, temporary_name="bt")
    return knl


@pytest.mark.few(2)
@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("fetch", [False, True])
def test_a_loop_of_one_iteration_inside_of_the_loop_over_terms(fetch: bool, twice: bool) -> None:
    program = pl.generate_code(product(8, "ko, kk", fetch=fetch, twice=twice), target=pl.CudaTarget())
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (19, 33)).astype(float), rng.integers(-3, 4, (33, 21)).astype(float)
    for order, result in run_on_fibres(program, {"a": a, "b": b}).items():
        np.testing.assert_array_equal(result.c, a @ b, err_msg=order)


@pytest.mark.nvrtc
def test_nvrtc_takes_a_loop_of_one_iteration() -> None:
    compile_cuda(pl.generate_code(product(8, "ko, kk"), target=pl.CudaTarget("sm_90")).device_code, arch="sm_90")


def test_several_sums_one_after_the_other_are_refused(golden: Callable[[str, str], None]) -> None:
    knl = product(16, "ko, wj, kk", fetch=False)
    with pytest.raises(pl.CodegenError) as refused:
        pl.generate_code(knl, target=pl.CudaTarget())
    golden("messages/tensorize_ahead_of_several_sums.txt", str(refused.value))
    outside = pl.generate_code(product(16, "wj, ko, kk", fetch=False), target=pl.CudaTarget())
    a, b = np.ones((16, 16)), np.arange(16.0 * 16).reshape(16, 16)
    np.testing.assert_array_equal(run_on_fibres(outside, {"a": a, "b": b})["forward"].c, a @ b)
