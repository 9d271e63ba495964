"""Matrix instructions of double precision: numbers at edges, exactness, layouts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CodegenError
from polyloop.kernel.intrinsic import INTRINSICS
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import refused, same_after_replay

Golden = Callable[[str, str], None]
NAMES = {8: "mma_m16n8k8_f64", 4: "mma_m16n8k4_f64", 16: "mma_m16n8k16_f64"}
SM90 = pl.CudaTarget("sm_90")
SIZES = [(1, 2, 2), (33, 18, 38), (32, 16, 32)]


def program(
    dtype: Any = np.float64, result: Any = np.float64, assumptions: str = "m >= 1 and n >= 1 and p >= 1"
) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a", dtype, shape="m, p"), pl.GlobalArg("b", dtype, shape="p, n"),
         pl.GlobalArg("c", result, shape="m, n"), ...],
        name="product", assumptions=f"{assumptions} and n mod 2 = 0 and p mod 2 = 0",
    )  # fmt: skip


def tiles(rows: int = 16, depth: int = 8, group: int = 1, **given: Any) -> pl.LoopKernel:
    """Return a product in blocks of 32 by 16, two warps of 16 by 16, and the tiles of an instruction."""
    knl = pl.split_iname(program(**given), "i", 32, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 16, outer_iname="w", inner_iname="i_warp", outer_tag="l/32")
    knl = pl.split_iname(knl, "i_warp", rows, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    knl = pl.split_iname(knl, "j", 16, outer_iname="bx", inner_iname="j_block", outer_tag="g.0" if group == 1 else None)
    if group > 1:
        knl = pl.split_iname(knl, "bx", group, outer_tag="g.2", inner_tag="g.0")
    knl = pl.split_iname(knl, "j_block", 8, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", 32, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", depth, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    return pl.prioritize_loops(knl, "ko, kk, mi, ni")


def product(rows: int = 16, depth: int = 8, *, ahead: bool = True, stages: int = 2, **given: Any) -> pl.LoopKernel:
    knl = pl.tensorize(tiles(rows, depth, **given), "insn", f"mma_m{rows}n8k{depth}_f64", ahead=ahead)
    own = "ii_lane, ii_reg" if rows == 16 else "ii"
    knl = pl.add_prefetch(knl, "a", f"w, mi, {own}, kk, ki", temporary_name="a_tile", pad=4, vec=2)
    knl = pl.add_prefetch(knl, "b", "ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", pad=4, vec=2)
    return pl.pipeline(knl, "ko", stages=stages, via="cp.async")


def arguments(m: int, n: int, p: int) -> dict[str, Any]:
    rng = np.random.default_rng(m + n + p)
    return {"a": rng.random((m, p)) - 0.5, "b": rng.random((p, n)) - 0.5}


@pytest.mark.few(2)
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_numbers_at_the_edges_of_tiles(rows: int, depth: int, ahead: bool) -> None:
    text = pl.generate_code(product(rows, depth, ahead=ahead), target=SM90)
    for size in SIZES:
        given = arguments(*size)
        for result in run_on_fibres(text, given, orders=("reverse", "random")).values():
            np.testing.assert_allclose(result["c"], given["a"] @ given["b"], rtol=1e-13, atol=1e-15)


def test_other_targets_compute_the_same_sums() -> None:
    given = arguments(*SIZES[1])
    result = pl.compile(product(), target=pl.CTarget())(poison=True, **given)
    np.testing.assert_allclose(result.c, given["a"] @ given["b"], rtol=1e-13, atol=1e-15)


def test_the_text(golden: Golden) -> None:
    whole = "m >= 1 and m mod 32 = 0 and n >= 1 and n mod 16 = 0 and p >= 1 and p mod 32 = 0"
    knl = product(depth=16, assumptions=whole)
    golden("golden/tensorize_float64.cu", pl.generate_code(knl, target=SM90).device_code)
    same_after_replay(program(assumptions=whole), knl)
    bare = pl.generate_code(pl.tensorize(tiles(), "insn", NAMES[8]), target=SM90).device_code
    assert "ldmatrix" not in bare
    assert ": 0.0" in bare


def test_blocks_that_a_group_does_not_fill_do_nothing() -> None:
    """Of a group of 4 columns of blocks, those that there are are full: one text, without conditions on columns."""
    whole = "m >= 1 and m mod 32 = 0 and n >= 1 and n mod 16 = 0 and p >= 1 and p mod 32 = 0"
    program = pl.generate_code(product(group=4, assumptions=whole), target=SM90)
    tests = [line.strip() for line in program.device_code.splitlines() if "< n" in line]
    assert tests == ["if (64 * bz + 16 * bx + 15 < n) {"]
    given = arguments(32, 48, 32)
    for result in run_on_fibres(program, given, orders=("random",)).values():
        np.testing.assert_allclose(result["c"], given["a"] @ given["b"], rtol=1e-13, atol=1e-15)


def test_single_precision_comes_in_at_the_results_alone() -> None:
    knl = tiles(dtype=np.float32)
    says = refused(knl, lambda knl: pl.tensorize(knl, "insn", NAMES[8]), "bad-tensorize")
    assert "'a' has elements of float32, and it takes float64" in says
    text = pl.generate_code(product(result=np.float32), target=SM90)
    given = arguments(*SIZES[1])
    for result in run_on_fibres(text, given).values():
        np.testing.assert_allclose(result["c"], given["a"] @ given["b"], rtol=1e-6)


def test_only_hopper_has_the_larger_ones() -> None:
    def old(knl: pl.LoopKernel) -> object:
        return pl.generate_code(knl, target=pl.CudaTarget("sm_80"))

    says = refused(product(), old, "unsupported-intrinsic", CodegenError)
    assert "it has compute capability 80, and 90 is asked for" in says
    assert old(product(8, 4))


def test_each_lane_has_what_the_manual_says() -> None:
    """Fragments of mma.m16n8k8 of float64: rows of groups of four lanes, a term and the one behind the next three."""
    intrinsic = INTRINSICS[NAMES[8]]
    assert intrinsic.results == np.float64
    assert {x: intrinsic.registers(x) for x in "abd"} == {"a": 4, "b": 2, "d": 4}
    assert [(x.axis, x.stride, x.in_lane, x.place) for x in intrinsic.layout("a")] == [
        ("i", 1, True, 4), ("i", 8, False, 1), ("k", 1, True, 1), ("k", 4, False, 2),
    ]  # fmt: skip
    small = INTRINSICS["mma_m8n8k4_f64"]
    assert {x: small.registers(x) for x in "abd"} == {"a": 1, "b": 1, "d": 2}
    with pytest.raises(pl.KernelError, match="16, 32 or 64 bits"):
        pl.declare_intrinsic(replace(intrinsic, name="x", operands=np.dtype(np.int32)))


@pytest.mark.nvrtc
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_nvrtc_takes_it(rows: int, depth: int, ahead: bool) -> None:
    for arch in ("sm_80", "sm_90")[rows // 16 :]:
        text = pl.generate_code(product(rows, depth, ahead=ahead), target=pl.CudaTarget(arch)).device_code
        compile_cuda(text, arch)


@pytest.mark.gpu
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_the_gpu_agrees(rows: int, depth: int, ahead: bool) -> None:
    run = pl.compile(product(rows, depth, ahead=ahead), target=SM90)
    for size in SIZES:
        given = arguments(*size)
        np.testing.assert_allclose(run(**given).c, given["a"] @ given["b"], rtol=1e-13, atol=1e-15)
