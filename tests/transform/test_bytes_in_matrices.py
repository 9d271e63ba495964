"""Matrix instructions for elements of 8 bits: fp8 and integers, by warps and by groups of four warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import CodegenError
from polyloop.kernel.intrinsic import INTRINSICS, parts_of
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import flat
from tests.transform.checking import refused

Golden = Callable[[str, str], None]
Array = np.ndarray[Any, Any]
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
KINDS: dict[Any, str] = {E4M3: "e4m3", E5M2: "e5m2", np.int8: "s8", np.uint8: "u8"}
ALL = pytest.mark.parametrize("dtype", KINDS, ids=lambda dtype: KINDS[dtype])
HOPPER, ADA = pl.CudaTarget("sm_90a"), pl.CudaTarget("sm_89")
BOX = "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}"


def is_whole(dtype: Any) -> bool:
    return np.dtype(dtype).kind in "iu"


def program(dtype: Any, assumptions: str, text: str = "", b_shape: str = "n, p", result: Any = None) -> pl.LoopKernel:
    """Return a product of matrices that are both stored by rows of k, unless *text* says otherwise."""
    factor = "cast(int32, a[i, k])" if is_whole(dtype) else "a[i, k]"
    return pl.make_kernel(
        BOX, text or f"c[i, j] = sum(k, {factor}*b[j, k])",
        [pl.GlobalArg("a", dtype, shape="m, p"), pl.GlobalArg("b", dtype, shape=b_shape),
         pl.GlobalArg("c", result or (np.int32 if is_whole(dtype) else np.float32), shape="m, n"), ...],
        name="product", assumptions=f"m >= 1 and n >= 1 and p >= 1 and {assumptions}",
    )  # fmt: skip


def numbers(dtype: Any, m: int, n: int, p: int) -> tuple[dict[str, Array], Array]:
    """Return matrices whose products and sums are exact, and their product; of integers the extremes too."""
    rng = np.random.default_rng(m + n + p)
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if is_whole(dtype) else (-8, 8)
    a, b = (rng.integers(low, high, shape, endpoint=True) for shape in ((m, p), (n, p)))
    kind = np.int32 if is_whole(dtype) else np.float32
    return {"a": a.astype(dtype), "b": b.astype(dtype)}, (a @ b.T).astype(kind)


# {{{ groups of four warps


def by_groups(
    dtype: Any, n: int = 64, groups: int = 1, *, whole: bool = True, lag: int = 0, name: str = "", **given: Any
) -> pl.LoopKernel:
    """Return a product in blocks of 64 by n a group of warps, with the instruction and without its tiles."""
    tiles = f"m mod {64 * groups} = 0 and n mod {n} = 0 and p mod 128 = 0"
    assumptions = tiles if whole else "n mod 8 = 0 and p mod 16 = 0"
    knl = program(dtype, assumptions, **given)
    knl = pl.split_iname(knl, "i", 64 * groups, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    knl = pl.split_iname(knl, "j", n, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    knl = pl.split_iname(knl, "k", 128, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 32, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk")
    return pl.tensorize(knl, "writes:c", name or f"wgmma_m64n{n}k32_{KINDS[dtype]}", lag=lag)


def inames(knl: pl.LoopKernel, start: str) -> str:
    return ", ".join(x for x in knl.inames if x.startswith(start))


def tiled(knl: pl.LoopKernel, stages: int = 1, *, via: str = "cp.async") -> pl.LoopKernel:
    """Return *knl* with tiles of rows of 128 bytes, swizzled."""
    knl = pl.add_prefetch(knl, "a", f"wg, {inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", vec=16)
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'jj')}, kk, ki", temporary_name="b_tile", vec=16)
    for tile in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, tile, bits=3, base=4, shift=3)
    return knl if stages == 1 else pl.pipeline(knl, "ko", stages=stages, via=via)


def check(knl: pl.LoopKernel, dtype: Any, m: int, n: int, p: int, target: Any = HOPPER) -> str:
    """Compare a product on fibres with NumPy's in every bit."""
    given, expected = numbers(dtype, m, n, p)
    code = pl.generate_code(knl, target=target)
    empty = {"c": np.full((m, n), 77, expected.dtype)}
    for order, outputs in run_on_fibres(code, {**given, **empty}).items():
        np.testing.assert_array_equal(outputs["c"], expected, err_msg=order)
    return code.device_code


@pytest.mark.few(4)
@ALL
@pytest.mark.parametrize("n", [8, 24, 96, 256])
def test_numbers_at_several_widths(dtype: Any, n: int) -> None:
    assert f"wgmma_m64n{n}k32_{KINDS[dtype]}_kk(" in check(tiled(by_groups(dtype, n)), dtype, 64, n, 128)


@pytest.mark.slow
@ALL
def test_other_targets_add_up_as_the_kernel_says(dtype: Any) -> None:
    given, expected = numbers(dtype, 64, 64, 128)
    knl = tiled(by_groups(dtype, 64))
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(poison=True, **given)["c"], expected)


@pytest.mark.few(1)
@ALL
@pytest.mark.parametrize("via", ["cp.async", "tma"])
def test_numbers_of_products_that_run_on(dtype: Any, via: str) -> None:
    knl = tiled(by_groups(dtype, 64, groups=2, lag=1), 3, via=via)
    text = check(knl, dtype, 128, 64, 512)
    assert "products_wait_1();" in text
    assert ("box_2d(" if via == "tma" else "cp_async_16(") in text


@pytest.mark.few(1)
@ALL
@pytest.mark.parametrize("via", [pytest.param("cp.async", marks=pytest.mark.slow), "tma"])
def test_numbers_at_the_edges_of_tiles(dtype: Any, via: str) -> None:
    knl = tiled(by_groups(dtype, 64, whole=False), 3, via=via)
    check(knl, dtype, 66, 72, 272)
    check(knl, dtype, 1, 8, 16)


def test_the_text(golden: Golden) -> None:
    knl = tiled(by_groups(E4M3, 64, groups=2), 3)
    golden("golden/wgmma_fp8.cu", pl.generate_code(knl, target=HOPPER).device_code)
    knl = tiled(by_groups(np.int8, 8), 3)
    golden("golden/wgmma_s8.cu", pl.generate_code(knl, target=HOPPER).device_code)


@pytest.mark.parametrize("name", [name for name in INTRINSICS if name.startswith("wgmma_") and "k32_" in name])
def test_the_results_lie_as_those_of_wider_elements(name: str) -> None:
    """PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk32": accumulators are those of m64nNk16."""
    own = INTRINSICS[name]
    wide = INTRINSICS[f"wgmma_m64n{own.shape[1]}k16_bf16"]
    assert own.layout("d") == wide.layout("d")
    assert own.shape == (64, wide.shape[1], 32)


def test_products_of_integers_have_fewer_widths() -> None:
    """PTX ISA, "Matrix Shape" of wgmma: for .s8 and .u8 n is 8, 16, 24, 32, 48, .., 256."""
    for kind in ("s8", "u8"):
        found = sorted(int(name[10:].partition("k")[0]) for name in INTRINSICS
                       if name.startswith("wgmma") and name.endswith(kind))  # fmt: skip
        assert found == [8, 16, 24, *range(32, 257, 16)]


def by_rows_of_n(order: str) -> pl.LoopKernel:
    """Return a product whose second matrix is stored by rows of n, and its tile by rows of n or of k."""
    knl = by_groups(E4M3, 128, text="c[i, j] = sum(k, a[i, k]*b[k, j])", b_shape="p, n")
    knl = pl.add_prefetch(knl, "a", f"wg, {inames(knl, 'ii')}, kk, ki", temporary_name="a_tile", vec=16)
    knl = pl.add_prefetch(knl, "b", f"{inames(knl, 'jj')}, kk, ki", temporary_name="b_tile", vec=16)
    knl = pl.tag_array_axes(knl, "b_tile", order)
    for tile in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, tile, bits=3, base=4, shift=3)
    return knl


def test_tiles_by_rows_of_n_are_refused(golden: Golden) -> None:
    with pytest.raises(CodegenError) as error:
        pl.generate_code(by_rows_of_n("N1,N0"), target=HOPPER)
    assert error.value.codes == ("bad-tensorize",)
    golden("messages/wgmma_bytes_by_rows_of_n.txt", str(error.value))


def test_copies_may_turn_a_matrix() -> None:
    given, expected = numbers(E4M3, 64, 128, 128)
    given["b"] = np.ascontiguousarray(given["b"].T)
    for outputs in run_on_fibres(pl.generate_code(by_rows_of_n("N0,N1"), target=HOPPER), given).values():
        np.testing.assert_array_equal(outputs["c"], expected)


def test_products_that_wrap_are_refused(golden: Golden) -> None:
    text = "c[i, j] = sum(k, a[i, k]*b[j, k])"
    for build in (by_groups, by_warps):
        with pytest.raises(pl.TransformError) as error:
            build(np.int8, text=text)
        assert error.value.codes == ("bad-tensorize",)
    golden("messages/tensorize_bytes_that_wrap.txt", str(error.value))


@pytest.mark.few(1)
@pytest.mark.nvrtc
@ALL
@pytest.mark.parametrize("n", [64, 256])
def test_nvrtc_takes_it_and_keeps_the_products_apart(dtype: Any, n: int) -> None:
    for via in ("cp.async", "tma"):
        code = pl.generate_code(tiled(by_groups(dtype, n, groups=2, lag=1), 4, via=via), target=HOPPER)
        log = compile_cuda(code.device_code, "sm_90a").log
        assert "serialized" not in log, log


def test_explain_counts_operations_of_tensor_cores() -> None:
    for dtype, name in ((E5M2, "float8_e5m2"), (np.int8, "int8")):
        knl = tiled(by_groups(dtype, 256, groups=2), 3)
        text = str(pl.explain(knl, {"m": 4096, "n": 4096, "p": 4096}, device="H200"))
        assert f"bound by tensor {name}: at least 69.5 us" in text, "137G operations at 1979T/s"


# }}}
# {{{ warps


def by_warps(dtype: Any, assumptions: str = "n mod 2 = 0 and p mod 16 = 0", **given: Any) -> pl.LoopKernel:
    """Return a product in blocks of 32 by 32, warps of 32 by 16, and the instruction."""
    knl = program(dtype, assumptions, **given)
    knl = pl.split_iname(knl, "i", 32, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 16, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    knl = pl.split_iname(knl, "j", 32, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_block", 16, outer_iname="w", inner_iname="j_warp", outer_tag="l/32")
    knl = pl.split_iname(knl, "j_warp", 8, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", 64, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 32, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk, mi, ni")
    return pl.tensorize(knl, "writes:c", f"mma_m16n8k32_{KINDS[dtype]}")


def in_tiles(knl: pl.LoopKernel, stages: int = 1, *, pad: int = 16) -> pl.LoopKernel:
    knl = pl.add_prefetch(knl, "a", "mi, ii_lane, ii_reg, kk, ki", temporary_name="a_tile", pad=pad, vec=16)
    knl = pl.add_prefetch(knl, "b", "w, ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", pad=pad, vec=16)
    return knl if stages == 1 else pl.pipeline(knl, "ko", stages=stages, via="cp.async")


@pytest.mark.few(3)
@ALL
@pytest.mark.parametrize("stages", [1, 3])
def test_numbers_of_warps(dtype: Any, stages: int) -> None:
    knl = in_tiles(by_warps(dtype), stages)
    for shape in ((1, 6, 16), (33, 24, 80)):
        text = flat(check(knl, dtype, *shape, target=ADA))
    assert "ldmatrix_x4(a_frag" in text
    assert "ldmatrix_x4(b_frag" in text


@pytest.mark.slow
@ALL
def test_numbers_of_warps_that_load_by_elements(dtype: Any) -> None:
    text = check(by_warps(dtype, "n mod 2 = 0"), dtype, 33, 24, 70, target=ADA)
    assert "= pack_bytes(" in text
    assert "ldmatrix" not in text


@pytest.mark.few(1)
@ALL
def test_the_second_matrix_by_rows_of_n(dtype: Any) -> None:
    factor = "cast(int32, b[k, j])" if is_whole(dtype) else "b[k, j]"
    knl = by_warps(dtype, text=f"c[i, j] = sum(k, a[i, k]*{factor})", b_shape="p, n")
    given, expected = numbers(dtype, 40, 24, 80)
    given["b"] = np.ascontiguousarray(given["b"].T)
    for outputs in run_on_fibres(pl.generate_code(knl, target=ADA), given).values():
        np.testing.assert_array_equal(outputs["c"], expected)


def test_the_layouts_of_fragments() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k32": the formulas of rows and columns."""
    for kind in KINDS.values():
        intrinsic = INTRINSICS[f"mma_m16n8k32_{kind}"]
        for operand, axes, count in (("a", ("i", "k"), 16), ("b", ("k", "j"), 8), ("d", ("i", "j"), 4)):
            extents = tuple((axis, intrinsic.extents[axis]) for axis in axes)
            parts = parts_of(getattr(intrinsic, operand), extents)
            place = {}
            for first in range(extents[0][1]):
                for second in range(extents[1][1]):
                    value = dict(zip(axes, (first, second), strict=True))
                    at = [0, 0]
                    for part in parts:
                        at[part.in_lane] += value[part.axis] // part.stride % part.extent * part.place
                    place[at[1], at[0]] = (first, second)
            for lane in range(32):
                group, thread = lane // 4, lane % 4
                for r in range(count):
                    if operand == "a":
                        wanted = (group + (0 if r % 8 < 4 else 8), 4 * thread + r % 4 + (0 if r < 8 else 16))
                    elif operand == "b":
                        wanted = (4 * thread + r % 4 + (0 if r < 4 else 16), group)
                    else:
                        wanted = (group + (0 if r < 2 else 8), 2 * thread + r % 2)
                    assert place[lane, r] == wanted, (operand, lane, r)


@pytest.mark.parametrize(("dtype", "arch", "is_there"), [
    (E4M3, "sm_80", False), (E5M2, "sm_86", False), (E4M3, "sm_89", True), (np.int8, "sm_80", True),
    (np.uint8, "sm_75", False), (E5M2, "sm_90", True),
])  # fmt: skip
def test_devices_that_have_it(dtype: Any, arch: str, is_there: bool) -> None:
    knl, target = by_warps(dtype), pl.CudaTarget(arch)
    if is_there:
        assert f"mma_m16n8k32_{KINDS[dtype]}(" in pl.generate_code(knl, target=target).device_code
        return
    with pytest.raises(CodegenError) as error:
        pl.generate_code(knl, target=target)
    assert error.value.codes == ("unsupported-intrinsic",)


@pytest.mark.few(1)
@pytest.mark.nvrtc
@ALL
def test_nvrtc_takes_those_of_warps(dtype: Any) -> None:
    arch = "sm_80" if is_whole(dtype) else "sm_89"
    for knl in (in_tiles(by_warps(dtype), 3), by_warps(dtype)):
        assert compile_cuda(pl.generate_code(knl, target=pl.CudaTarget(arch)).device_code, arch).cubin


# }}}


def test_other_types_are_refused() -> None:
    knl = program(E4M3, "p mod 16 = 0")
    assert "no iname of 64 values" in refused(
        knl, lambda knl: pl.tensorize(knl, "writes:c", "wgmma_m64n64k32_e4m3"), "bad-tensorize"
    )
    with pytest.raises(pl.TransformError, match="'a' has elements of float8_e4m3fn, and it takes float8_e5m2"):
        by_groups(E4M3, name="wgmma_m64n64k32_e5m2")


@pytest.mark.gpu
@ALL
@pytest.mark.parametrize("case", ["whole", "edges", "ahead", "tma"])
def test_the_gpu_agrees_on_groups_of_warps(dtype: Any, case: str) -> None:
    knl = by_groups(dtype, 256 if case != "edges" else 64, groups=2, whole=case != "edges", lag=int(case == "tma"))
    knl = tiled(knl, {"whole": 1, "edges": 3, "ahead": 4, "tma": 4}[case], via="tma" if case == "tma" else "cp.async")
    given, expected = numbers(dtype, *((200, 72, 336) if case == "edges" else (256, 512, 640)))
    found = pl.compile(knl, target=HOPPER)(**given)["c"]
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.gpu
@ALL
@pytest.mark.parametrize("stages", [0, 1, 3])
def test_the_gpu_agrees_on_warps(dtype: Any, stages: int) -> None:
    knl = in_tiles(by_warps(dtype), stages) if stages else by_warps(dtype)
    given, expected = numbers(dtype, 200, 72, 336)
    found = pl.compile(knl, target=pl.CudaTarget("sm_90"))(**given)["c"]
    np.testing.assert_array_equal(np.asarray(found), expected)
