"""Matrix instructions of groups of four warps, which read their operands from shared memory (``wgmma``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CodegenError
from polyloop.kernel.intrinsic import INTRINSICS, parts_of
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

Golden = Callable[[str, str], None]
BF16 = ml_dtypes.bfloat16
KINDS = {BF16: "bf16", np.float16: "f16", np.float32: "tf32"}
TARGET = pl.CudaTarget("sm_90a")


@cache  # many tests begin with the same kernels, and what is proven and generated of a kernel is kept with it
def product(
    n: int = 64, *, text: str = "c[i, j] = sum(k, a[i, k]*b[j, k])", groups: int = 1, dtype: Any = BF16,
    assume: str = "", a_shape: str = "m, p", b_shape: str = "n, p", tag: str = "l/128", lag: int = 0,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product in blocks of 64 by n a group of warps, with the instruction and without its tiles."""
    row, depth = 128 // np.dtype(dtype).itemsize, 32 // np.dtype(dtype).itemsize
    whole = f"m >= 1 and n >= 1 and p >= 1 and m mod {64 * groups} = 0 and n mod {n} = 0 and p mod {row} = 0"
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}", text,
        [pl.GlobalArg("a", dtype, shape=a_shape), pl.GlobalArg("b", dtype, shape=b_shape),
         pl.GlobalArg("c", np.float32, shape="m, n"), ...],
        name="product", assumptions=assume or whole,
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 64 * groups, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wg", inner_iname="ii", outer_tag=tag)
    knl = pl.split_iname(knl, "j", n, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    knl = pl.split_iname(knl, "k", row, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", depth, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk")
    return pl.tensorize(knl, "writes:c", f"wgmma_m64n{n}k{depth}_{KINDS[dtype]}", lag=lag)


def inames(knl: pl.LoopKernel, start: str) -> str:
    return ", ".join(x for x in knl.inames if x.startswith(start))


@cache
def tiled(
    knl: pl.LoopKernel, stages: int = 1, *, panels: bool = False, vec: int = 8, via: str = "cp.async"
) -> pl.LoopKernel:
    """Return *knl* with swizzled tiles, of panels of 64 columns if rows of ``b`` are longer."""
    knl = pl.add_prefetch(knl, "a", f"wg, {inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", vec=vec)
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'jj')}, kk, ki", temporary_name="b_tile", vec=vec)
    if panels:
        knl = pl.tag_array_axes(pl.split_array_axis(knl, "b_tile", 1, 64), "b_tile", "N1,N2,N0")
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=2 if knl.temporaries[name].dtype == np.float32 else 3, shift=3)
    return knl if stages == 1 else pl.pipeline(knl, "ko", stages=stages, via=via)


def check(knl: pl.LoopKernel, m: int, n: int, p: int, *, turned: str = "", dtype: Any = BF16) -> str:
    """Compare a product on fibres with NumPy's; *turned* are the operands that are stored the other way round."""
    rng = np.random.default_rng(m + n + p)
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (p, n))
    expected = (a @ b).astype(np.float32)
    given = {
        "a": np.ascontiguousarray(a.T if "a" in turned else a).astype(dtype),
        "b": np.ascontiguousarray(b if "b" in turned else b.T).astype(dtype),
        "c": np.full((m, n), 77, np.float32),
    }
    program = pl.generate_code(knl, target=TARGET)
    for order, outputs in run_on_fibres(program, given).items():
        np.testing.assert_array_equal(outputs["c"], expected, err_msg=order)
    return program.device_code


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [8, 24, 64, 192, 256])
def test_numbers_at_several_widths(n: int) -> None:
    text = check(tiled(product(n)), 128, 2 * n, 128)
    assert f"wgmma_m64n{n}k16_bf16_kk(" in text


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_numbers_of_two_groups_with_copies_ahead(dtype: Any, stages: int) -> None:
    check(tiled(product(64, groups=2, dtype=dtype), stages), 256, 64, 320, dtype=dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [64, 128, 256])
@pytest.mark.parametrize("stages", [1, 3])
def test_rows_of_k_in_panels_of_64_columns(n: int, stages: int) -> None:
    knl = product(n, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n")
    text = check(tiled(knl, stages, panels=n > 64), 64, 2 * n, 192, turned="b")
    assert f"wgmma_m64n{n}k16_bf16_kj(" in text
    assert "b_v.e" not in text, "a piece of 16 bytes stays whole"


def test_the_first_operand_by_rows_of_k() -> None:
    knl = product(64, text="c[i, j] = sum(k, a[k, i]*b[j, k])", a_shape="p, m")
    assert "wgmma_m64n64k16_bf16_ik(" in check(tiled(knl), 128, 64, 128, turned="a")


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", [(96, 56, 64), (64, 64, 72), (8, 8, 8), (130, 72, 136)])
@pytest.mark.parametrize("stages", [1, 3])
def test_numbers_at_the_edges_of_tiles(shape: tuple[int, int, int], stages: int) -> None:
    knl = product(64, assume="m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0")
    check(tiled(knl, stages), *shape)


def test_a_group_without_rows_has_no_products() -> None:
    sizes = "m >= 1 and n >= 1 and p >= 1 and m mod 64 = 0 and n mod 64 = 0 and p mod 64 = 0"
    knl = product(64, groups=2, assume=sizes)
    for stages in (1, 3):
        check(tiled(knl, stages), 192, 64, 128)


def test_the_text(golden: Golden) -> None:
    text = pl.generate_code(tiled(product(64, groups=2), 3), target=TARGET).device_code
    golden("golden/wgmma.cu", text)


def test_an_older_device_is_refused_before_its_memory_is_counted() -> None:
    knl = tiled(product(64, groups=2), 8)
    assert pl.generate_code(knl, target=TARGET).launches[0].shared_bytes > 100 << 10, "more than sm_89 has"
    with pytest.raises(pl.CodegenError, match="it is an instruction of sm_90a, and the code is for sm_89") as caught:
        pl.generate_code(knl, target=pl.CudaTarget("sm_89"))
    assert caught.value.codes == ("unsupported-intrinsic",)


def test_stores_are_published_before_the_barriers_behind_them_alone() -> None:
    text = pl.generate_code(tiled(product(64)), target=TARGET).device_code
    body = text[text.index('extern "C"') :]
    assert body.count("__syncthreads();") == 2
    assert body.count("publish_stores();\n        __syncthreads();") == body.count("publish_stores()") == 1


def test_a_group_waits_for_what_one_of_its_warps_loads() -> None:
    """Rows that each warp loads for itself are read by the group: a barrier of the block, not of the warp."""
    knl = product(64)
    knl = pl.add_prefetch(knl, "a", f"{inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", default_tag=None)
    first, second = knl.instruction("fetch_a").inames[-2:]
    knl = pl.split_iname(knl, first, 16, outer_tag="l/32", inner_tag="for")
    knl = pl.split_iname(knl, second, 2, outer_tag="l%32")
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'jj')}, kk, ki", temporary_name="b_tile", vec=8)
    for name in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, name, bits=3, base=3, shift=3)
    assert "__syncwarp" not in check(knl, 64, 64, 128)


def test_other_targets_add_up_as_the_kernel_says() -> None:
    knl = tiled(product(64))
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (64, 64)).astype(BF16), rng.integers(-3, 4, (64, 64)).astype(BF16)
    found = pl.compile(knl, target=pl.CTarget())(a=a, b=b)["c"]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32).T)


def no_swizzle() -> pl.LoopKernel:
    knl = product(64)
    knl = pl.add_prefetch(knl, "a", f"wg, {inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", vec=8)
    return pl.add_prefetch(knl, "b", f"{inames(knl, 'jj')}, kk, ki", temporary_name="b_tile", vec=8)


def in_global_memory() -> pl.LoopKernel:
    return pl.swizzle(
        pl.add_prefetch(
            knl := product(64), "a", f"wg, {inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", vec=8
        ), "a_tile", bits=3, base=3, shift=3,
    )  # fmt: skip


REFUSED: dict[str, Callable[[], pl.LoopKernel]] = {
    "no_swizzle": no_swizzle,
    "in_global_memory": in_global_memory,
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_code_generation_refuses(case: str, golden: Golden) -> None:
    with pytest.raises(CodegenError) as error:
        pl.generate_code(REFUSED[case](), target=TARGET)
    assert error.value.codes == ("bad-tensorize",)
    golden(f"messages/wgmma_{case}.txt", str(error.value))


def test_operands_are_fetched_ahead_by_pipeline_alone(golden: Golden) -> None:
    with pytest.raises(pl.TransformError) as error:
        pl.tensorize(untiled(), "writes:c", "wgmma_m64n64k16_bf16", ahead=True)
    golden("messages/wgmma_ahead.txt", str(error.value))


def untiled() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < 64 and 0 <= j < 64 and 0 <= k < 16}", "c[i, j] = sum(k, a[i, k]*b[j, k])",
        [pl.GlobalArg("a, b", BF16), pl.GlobalArg("c", np.float32)],
    )  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_other_devices_are_refused(arch: str) -> None:
    with pytest.raises(CodegenError) as error:
        pl.generate_code(tiled(product(64)), target=pl.CudaTarget(arch))
    assert error.value.codes == ("unsupported-intrinsic",)
    assert 'CudaTarget("sm_90a")' in str(error.value)


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_layouts_are_digits(n: int) -> None:
    """PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": the layout of the results."""
    intrinsic = INTRINSICS[f"wgmma_m64n{n}k16_bf16"]
    assert intrinsic.lanes == 128
    assert intrinsic.registers("d") == n // 2
    assert intrinsic.result_words == f"{n // 2}"
    parts = parts_of(intrinsic.d, (("i", 64), ("j", n)))
    seen = set()
    for i in range(64):
        for j in range(n):
            at = [0, 0]
            for part in parts:
                value = i if part.axis == "i" else j
                at[part.in_lane] += value // part.stride % part.extent * part.place
            register, lane = at
            assert lane == 32 * (i // 16) + 4 * (i % 8) + j % 8 // 2
            assert register == 4 * (j // 8) + 2 * (i // 8 % 2) + j % 2
            seen.add((lane, register))
    assert len(seen) == 64 * n


HELPERS = ["publish_stores", "tile_descriptor", "products_begin", "products_end_32", "wgmma_m64n64k16_bf16_kk"]


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", HELPERS)
def test_an_array_may_have_the_name_of_a_helper(name: str) -> None:
    text = pl.generate_code(tiled(pl.rename_argument(product(64), "c", name)), target=TARGET).device_code
    assert compile_cuda(text, "sm_90a").cubin


@pytest.mark.few(1)
@pytest.mark.nvrtc
@pytest.mark.parametrize("n", [64, 256])
def test_nvrtc_takes_it_and_keeps_the_products_apart(n: int) -> None:
    program = pl.generate_code(tiled(product(n, groups=2), 3), target=TARGET)
    log = compile_cuda(program.device_code, "sm_90a").log
    assert "serialized" not in log, log


def test_explain_counts_its_operations() -> None:
    text = str(pl.explain(tiled(product(256, groups=2), 3), {"m": 4096, "n": 4096, "p": 4096}, device="H200"))
    assert "bound by tensor bfloat16" in text


def large(case: str, dtype: Any) -> tuple[pl.LoopKernel, str, tuple[int, int, int]]:
    """Return a product, the operands that are stored the other way round, and its sizes."""
    if case == "nn":
        knl = product(256, groups=2, dtype=dtype, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n")
        return knl, "b", (256, 512, 640)
    if case == "tn":
        knl = product(64, dtype=dtype, text="c[i, j] = sum(k, a[k, i]*b[j, k])", a_shape="p, m")
        return knl, "a", (128, 192, 640)
    if case == "edges":
        any_size = "m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0"
        return product(64, groups=2, dtype=dtype, assume=any_size), "", (200, 72, 328)
    return product(256, groups=2, dtype=dtype), "", (256, 512, 640)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("case", ["nt", "nn", "tn", "edges"])
@pytest.mark.parametrize("stages", [1, 4])
def test_the_gpu_agrees(dtype: Any, case: str, stages: int) -> None:
    knl, turned, (m, n, p) = large(case, dtype)
    made = tiled(knl, stages, panels=case == "nn")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (p, n))
    given = {
        "a": np.ascontiguousarray(a.T if "a" in turned else a).astype(dtype),
        "b": np.ascontiguousarray(b if "b" in turned else b.T).astype(dtype),
    }
    found = pl.compile(made, target=TARGET)(**given)["c"]
    np.testing.assert_array_equal(np.asarray(found), (a @ b).astype(np.float32))
