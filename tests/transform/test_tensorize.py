"""Matrix instructions: numbers at sizes that no tile divides, barriers, layouts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from examples import matmul_mma
from polyloop.errors import CodegenError
from polyloop.kernel.intrinsic import INTRINSICS, parts_of
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import flat
from tests.transform.checking import cuda, refused, same_after_replay

Golden = Callable[[str, str], None]
BF16 = ml_dtypes.bfloat16
NAMES = {BF16: "mma_m16n8k16_bf16", np.float16: "mma_m16n8k16_f16", np.float32: "mma_m16n8k8_tf32"}
DEPTH = {BF16: 16, np.float16: 16, np.float32: 8}
ANY = "m >= 1 and n >= 1 and p >= 1"
EVEN = f"{ANY} and n mod 8 = 0 and p mod 8 = 0"
PRODUCT = "c[i, j] = sum(k, a[i, k]*b[k, j])"
BOX = "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}"


def program(
    dtype: Any = BF16, assumptions: str = EVEN, text: str = PRODUCT, domain: str = BOX, result: Any = np.float32,
    b_shape: str = "p, n",
) -> pl.LoopKernel:  # fmt: skip
    return pl.make_kernel(
        domain, text,
        [pl.GlobalArg("a", dtype, shape="m, p"), pl.GlobalArg("b", dtype, shape=b_shape),
         pl.GlobalArg("c", result, shape="m, n"), ...],
        name="product", assumptions=assumptions,
    )  # fmt: skip


def tiles(dtype: Any = BF16, **given: Any) -> pl.LoopKernel:
    """Return a product in blocks of 32 by 32, warps of 32 by 16, and the tiles of an instruction."""
    knl = program(dtype, **given)
    knl = pl.split_iname(knl, "i", 32, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", 16, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    knl = pl.split_iname(knl, "j", 32, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_block", 16, outer_iname="w", inner_iname="j_warp", outer_tag="l/32")
    knl = pl.split_iname(knl, "j_warp", 8, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", 32, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", DEPTH[dtype], outer_iname="kk", inner_iname="ki", outer_tag="unr")
    return pl.prioritize_loops(knl, "ko, kk, mi, ni")


def product(dtype: Any = BF16, stages: int = 1, *, ahead: bool = False, **given: Any) -> pl.LoopKernel:
    knl = pl.tensorize(tiles(dtype, **given), "writes:c", NAMES[dtype], ahead=ahead)
    vec = 16 // np.dtype(dtype).itemsize
    knl = pl.add_prefetch(knl, "a", "mi, ii_lane, ii_reg, kk, ki", temporary_name="a_tile", pad=vec, vec=vec)
    knl = pl.add_prefetch(knl, "b", "w, ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", pad=8, vec=vec)
    return pl.pipeline(knl, "ko", stages=stages, via="cp.async") if stages > 1 else knl


def arguments(dtype: Any, m: int, n: int, p: int, *, turned: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return matrices of small integers, whose products and sums are exact in any order and type."""
    rng = np.random.default_rng(m + n + p)
    a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((m, p), (p, n)))
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return {"a": a, "b": np.ascontiguousarray(b.T) if turned else b}, {"c": wanted}


SIZES = [(1, 8, 8), (33, 24, 40)]


def agrees(knl: pl.LoopKernel, given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Compare C, and CUDA C on fibres, with what is wanted, in every bit."""
    for result in (
        pl.compile(knl, target=pl.CTarget())(poison=True, **given),
        *run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given, orders=("reverse", "random")).values(),
    ):
        np.testing.assert_array_equal(result["c"], wanted["c"])


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", NAMES)
def test_numbers_at_the_edges_of_tiles(dtype: Any, stages: int) -> None:
    knl = product(dtype, stages)
    for size in SIZES:
        agrees(knl, *arguments(dtype, *size))


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", NAMES)
def test_numbers_of_operands_that_are_loaded_ahead(dtype: Any, stages: int) -> None:
    knl = product(dtype, stages, ahead=True)
    for size in (*SIZES, (64, 32, 96)):
        agrees(knl, *arguments(dtype, *size))


def test_the_text_of_operands_that_are_loaded_ahead(golden: Golden) -> None:
    whole = "m >= 1 and m mod 32 = 0 and n >= 1 and n mod 32 = 0 and p >= 1 and p mod 32 = 0"
    knl = product(assumptions=whole, ahead=True)
    golden("golden/tensorize_ahead.cu", cuda(knl))
    same_after_replay(program(assumptions=whole), knl)
    assert "loaded ahead" in str(knl)
    agrees(knl, *arguments(BF16, 32, 32, 64))


def spread(dtype: Any = BF16, **given: Any) -> pl.LoopKernel:
    """Return a product of which each step starts its share of the copies."""
    knl = product(dtype, 3, ahead=True, **given)
    return pl.rename_inames(knl, "a_dim_0_outer, b_dim_0_outer", "kk", existing_ok=True)


def test_the_text_of_copies_that_are_started_in_each_step(golden: Golden) -> None:
    whole = "m >= 1 and m mod 32 = 0 and n >= 1 and n mod 32 = 0 and p >= 1 and p mod 32 = 0"
    knl = spread(assumptions=whole)
    golden("golden/tensorize_steps.cu", cuda(knl))
    same_after_replay(program(assumptions=whole), knl)
    for terms in (32, 96, 128):
        agrees(knl, *arguments(BF16, 32, 64, terms))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", NAMES)
def test_numbers_of_copies_that_are_started_in_each_step(dtype: Any) -> None:
    knl = spread(dtype)
    for size in (*SIZES, (33, 40, 72), (64, 32, 96)):
        agrees(knl, *arguments(dtype, *size))


def large(dtype: Any = np.float32, *, turned: bool = False, assumptions: str = "m >= 1") -> pl.LoopKernel:
    """Return the product of the example with everything that large ones ask for."""
    depth, vec, terms = (16, 8, 64) if dtype is BF16 else (8, 4, 32)
    knl = pl.assume(matmul_mma.program(dtype, np.float32, vec), assumptions)
    return matmul_mma.on_tensor_cores(
        knl, NAMES[dtype] + "_pairs" * turned, depth, vec, (64, 64, terms), (32, 32), 3, 2,
        ahead=True, spread=True, swizzled=True, turned=turned,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "turned"), [(BF16, False), (np.float32, False), (np.float32, True)])
def test_numbers_of_the_example_with_everything_that_large_products_ask_for(dtype: Any, turned: bool) -> None:
    knl = large(dtype, turned=turned)
    for size in ((1, 8, 8), (65, 72, 40), (100, 200, 264)):
        agrees(knl, *arguments(dtype, *size))


def test_neighbours_that_a_lane_has_are_one_load() -> None:
    text = flat(cuda(large(turned=True, assumptions="m mod 64 = 0 and n mod 64 = 0 and p mod 32 = 0")))
    pair = "to_tf32_pair(a_frag[kk % 2][ni][0], a_frag[kk % 2][ni][1], &b_tile[ko % 3][8 * kk + ii_lane]"
    assert f"{pair}[32 * wj + 16 * ni + 2 * jj_lane]);" in text
    assert "*(float2 *)&c[" in text
    assert "__uint_as_float(a_frag" not in text


def test_loads_stay_behind_what_is_no_start_of_a_copy() -> None:
    whole = "m >= 1 and m mod 32 = 0 and n >= 1 and n mod 32 = 0 and p >= 1 and p mod 32 = 0"
    knl = product(BF16, 1, ahead=True, assumptions=whole)
    knl = pl.pipeline(knl, "ko", stages=2)
    knl = pl.rename_inames(knl, "a_dim_0_outer, b_dim_0_outer", "kk", existing_ok=True)
    loop = cuda(knl).split("for (int kk = 0;")[2]
    assert loop.index("*)&a[") < loop.index("ldmatrix_x4")
    agrees(knl, *arguments(BF16, 32, 32, 96))


def test_two_products_that_are_loaded_ahead() -> None:
    text = f"{PRODUCT} {{id=one}}\nd[i, j] = c[i, j] + sum(l, a[i, l]*b[l, j]) {{id=two}}"
    knl = pl.make_kernel(
        BOX.replace("i, j, k", "i, j, k, l").replace("k < p", "k, l < p"), text,
        [pl.GlobalArg("a", BF16, shape="m, p"), pl.GlobalArg("b", BF16, shape="p, n"),
         pl.GlobalArg("c, d", np.float32, shape="m, n"), ...],
        name="products", assumptions=ANY,
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0")
    for x in "kl":
        knl = pl.split_iname(knl, x, 32)
        knl = pl.split_iname(knl, f"{x}_inner", 16, outer_tag="unr")
    knl = pl.tensorize(knl, "id:one or id:two", "mma_m16n8k16_bf16", ahead=True)
    given, wanted = arguments(BF16, 17, 10, 70)
    for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values():
        np.testing.assert_array_equal(result["d"], 2 * wanted["c"])


def test_loading_ahead_takes_an_even_number_of_steps() -> None:
    knl = pl.tensorize(pl.split_iname(tiles(), "kk", 1, inner_tag="unr", do_tagged_check=False), "writes:c",
                       "mma_m16n8k16_bf16", ahead=True)  # fmt: skip
    assert "both operands depend on: 'kk_inner' of 1" in refused(knl, cuda, "bad-tensorize", CodegenError)


def test_the_text(golden: Golden) -> None:
    knl = product(assumptions="m >= 1 and m mod 32 = 0 and n >= 1 and n mod 32 = 0 and p >= 1 and p mod 32 = 0")
    golden("golden/tensorize.cu", cuda(knl))
    golden("golden/tensorize.txt", str(knl))
    golden("golden/tensorize_edges.cu", cuda(product()))
    knl = product()
    assert "# 'insn': mma_m16n8k16_bf16(i = ii_lane + 8*ii_reg; j = jj_reg + 2*jj_lane; k = ki)" in str(knl.trace)
    same_after_replay(program(), knl)
    method = tiles().tensorize("writes:c", "mma_m16n8k16_bf16")
    assert cuda(method) == cuda(pl.tensorize(tiles(), "writes:c", "mma_m16n8k16_bf16"))
    assert "computed by whole warps" in str(pl.verify(knl))


def test_a_matrix_stored_the_other_way_round() -> None:
    knl = product(text="c[i, j] = sum(k, b[j, k]*a[i, k])", b_shape="n, p")
    assert "ldmatrix_x4(b_frag" in flat(cuda(knl))
    agrees(knl, *arguments(BF16, *SIZES[1], turned=True))


@pytest.mark.slow
def test_rows_of_any_length_without_shared_memory() -> None:
    knl = pl.tensorize(tiles(assumptions=f"{ANY} and n mod 2 = 0"), "writes:c", "mma_m16n8k16_bf16")
    assert "ldmatrix" not in cuda(knl)
    for size in ((1, 2, 1), (33, 18, 35)):
        agrees(knl, *arguments(BF16, *size))


@pytest.mark.slow
def test_a_swizzled_tile() -> None:
    knl = pl.tensorize(tiles(), "writes:c", "mma_m16n8k16_bf16")
    knl = pl.add_prefetch(knl, "a", "mi, ii_lane, ii_reg, kk, ki", temporary_name="a_tile", vec=8)
    knl = pl.add_prefetch(knl, "b", "w, ni, jj_lane, jj_reg, kk, ki", temporary_name="b_tile", vec=8)
    knl = pl.swizzle(pl.swizzle(knl, "a_tile", 2, 3, 3), "b_tile", 2, 3, 3)
    assert cuda(knl).count(" ^ ") > 2
    assert "ldmatrix_x4_trans(b_frag" in cuda(knl)
    for size in SIZES:
        agrees(knl, *arguments(BF16, *size))


def test_what_follows_reads_the_results_where_they_are() -> None:
    text = "c[i, j] = max(0, 2*sum(k, a[i, k]*b[k, j]) + i - j)"
    knl = product(text=text, result=BF16)
    given, wanted = arguments(BF16, *SIZES[1])
    i, j = np.ogrid[:33, :24]
    agrees(knl, given, {"c": np.maximum(0, 2 * wanted["c"] + i - j).astype(BF16)})


def test_lanes_wait_for_what_others_load() -> None:
    domain = "{[b, i, j, k, q, x]: 0 <= b < n and 0 <= i < 16 and 0 <= j < 8 and 0 <= k, q, x < 16}"
    text = "t[x, q] = a[b, x, q] {id=load}\nc[b, i, j] = sum(k, t[i, k]*e[k, j]) {id=use}"
    knl = pl.make_kernel(
        domain, text,
        [pl.GlobalArg("a", BF16, shape="n, 16, 16"), pl.GlobalArg("e", BF16, shape="16, 8"),
         pl.GlobalArg("c", np.float32, shape="n, 16, 8"),
         pl.TemporaryVariable("t", BF16, shape=(16, 16), address_space=pl.AddressSpace.LOCAL), ...],
        name="own_rows", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "b:g.0")
    knl = pl.split_iname(knl, "q", 4, outer_tag="unr", inner_tag="l%4")
    knl = pl.split_iname(knl, "x", 8, outer_tag="unr", inner_tag="l/4%8")
    knl = pl.tensorize(knl, "id:use", "mma_m16n8k16_bf16")
    assert "__syncwarp();" in cuda(knl)
    rng = np.random.default_rng(0)
    a, e = rng.integers(-4, 5, (3, 16, 16)), rng.integers(-4, 5, (16, 8))
    agrees(knl, {"a": a.astype(BF16), "e": e.astype(BF16)}, {"c": (a @ e).astype(np.float32)})


def test_other_targets_add_up_as_the_kernel_says() -> None:
    text = pl.generate_code(product(np.float32), target=pl.CTarget()).device_code
    assert "mma" not in text.replace("comma", "")
    given, _ = arguments(np.float32, *SIZES[1])
    given = {name: value / np.float32(3) for name, value in given.items()}
    exact = pl.compile(product(np.float32), target=pl.CTarget())(**given).c
    np.testing.assert_allclose(exact, given["a"].astype(float) @ given["b"].astype(float), rtol=1e-5, atol=1e-4)
    rounded = run_on_fibres(pl.generate_code(product(np.float32), target=pl.CudaTarget()), given)["forward"]["c"]
    np.testing.assert_allclose(rounded, exact, rtol=1e-3, atol=1e-2)


def test_terms_below_a_diagonal() -> None:
    knl = tiles(domain="{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p and k <= i}")
    knl = pl.tensorize(knl, "writes:c", "mma_m16n8k16_bf16")
    given, _ = arguments(BF16, 40, 16, 40)
    wanted = np.tril(given["a"].astype(np.float32)) @ given["b"].astype(np.float32)
    agrees(knl, given, {"c": wanted})


REFUSED: dict[str, tuple[Callable[[], pl.LoopKernel], dict[str, Any], str, str]] = {
    "name": (tiles, {"intrinsic": "mma_m16n8k16_bf17"}, "unknown-intrinsic", "did you mean 'mma_m16n8k16_bf16'"),
    "instruction": (tiles, {"insns": "id:other"}, "unknown-instruction", "means no instruction"),
    "types": (tiles, {"intrinsic": "mma_m16n8k16_f16"}, "bad-tensorize", "'a' has elements of bfloat16"),
    "extent": (
        lambda: pl.split_iname(tiles(), "ii", 8), {}, "bad-tensorize",
        "no iname of 16 values, from 0 on and on no axis, by which a, and not b, is subscripted: 'by' of unknown",
    ),
    "terms": (lambda: tiles(text="c[i, j] = max(k, a[i, k]*b[k, j])"), {}, "bad-tensorize", "combined by 'max'"),
    "factors": (lambda: tiles(text="c[i, j] = sum(k, a[i, k])"), {}, "bad-tensorize", "no sum of products"),
    "order": (
        lambda: tiles(text="c[i, j] = reduce(ordered(sum), k, a[i, k]*b[k, j])"), {}, "bad-tensorize", "terms",
    ),
    "subscript": (
        lambda: tiles(text="c[i, j] = sum(k, a[i, k*k % 8]*b[k, j])"), {}, "bad-tensorize",
        "a subscript of 'a' is not affine",
    ),
    "band": (
        lambda: tiles(domain=BOX.replace("k < p", "k < p and i <= k + j")), {}, "bad-tensorize",
        "which terms there are depends on i, j and k together",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    build, given, code, says = REFUSED[case]
    arguments = {"insns": "writes:c", "intrinsic": "mma_m16n8k16_bf16"} | given
    assert says in refused(build(), lambda knl: pl.tensorize(knl, **arguments), code)


def test_what_is_refused_later() -> None:
    private = pl.add_prefetch(
        product(), "a_tile", compute_at="kk", storage_axes="mi, ii_reg, ki", temporary_address_space="private",
        temporary_name="part",
    )  # fmt: skip
    assert "'part' is private" in refused(private, cuda, "bad-tensorize", pl.VerificationError)
    again = pl.split_iname(product(), "ki", 8, do_tagged_check=False)
    assert "no loop over 'ki' any more" in refused(again, cuda, "bad-tensorize", pl.VerificationError)

    def old(knl: pl.LoopKernel) -> object:
        return pl.generate_code(knl, target=pl.CudaTarget("sm_75"))

    assert "it has compute capability 75, and 80 is asked for" in refused(
        product(), old, "unsupported-intrinsic", CodegenError
    )


def test_a_renamed_iname_is_followed() -> None:
    knl = pl.rename_iname(product(), "ki", "inside")
    agrees(knl, *arguments(BF16, *SIZES[1]))


@pytest.mark.parametrize("name", sorted(INTRINSICS))
def test_the_table_holds_what_may_be_declared(name: str) -> None:
    pl.declare_intrinsic(INTRINSICS[name])
    is_whole = INTRINSICS[name].operands.kind in "iu"
    factor = "cast(int32, a[i, k])" if is_whole else "a[i, k]"
    assert f"sum(k, {factor}*b[k, j])" in INTRINSICS[name].meaning()


BF16_MMA = INTRINSICS["mma_m16n8k16_bf16"]
BAD = {
    "shape": (replace(BF16_MMA, name="x", shape=(16, 8, 12)), "is not three powers of two"),
    "types": (replace(BF16_MMA, name="x", operands=np.dtype(np.int32)), "elements of 8, 16, 32 or 64 bits"),
    "taken": (replace(BF16_MMA, shape=(16, 8, 8)), "there is another intrinsic"),
    "none": (replace(BF16_MMA, name="x", d="{ [i] -> [i] }"), "a lane and a register"),
    "syntax": (replace(BF16_MMA, name="x", d="{ [i, j"), "is no layout"),
    "bits": (replace(BF16_MMA, name="x", b="{ [k, j] -> [4*j + floor(k/3), k mod 3] : 0 <= k < 16 and 0 <= j < 8 }"),
             "is no permutation of bits"),
    "lanes": (replace(BF16_MMA, name="x", d="{ [i, j] -> [i, j] : 0 <= i < 16 and 0 <= j < 8 }"), "of their own"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_declared(case: str) -> None:
    intrinsic, says = BAD[case]
    with pytest.raises(pl.KernelError, match="bad-intrinsic") as caught:
        pl.declare_intrinsic(intrinsic)
    assert says in str(caught.value)
    assert "x" not in INTRINSICS


def test_an_intrinsic_of_ones_own() -> None:
    """The smaller instruction of 16-bit operands, m16n8k8, which the table does not have."""
    own = replace(
        BF16_MMA, name="mma_m16n8k8_bf16", shape=(16, 8, 8),
        a="{ [i, k] -> [4*(i mod 8) + floor(k/2), 2*floor(i/8) + k mod 2] : 0 <= i < 16 and 0 <= k < 8 }",
        b="{ [k, j] -> [4*j + floor(k/2), k mod 2] : 0 <= k < 8 and 0 <= j < 8 }",
        instruction="mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
    )  # fmt: skip
    try:
        knl = pl.split_iname(tiles(), "ki", 8, outer_tag="unr", do_tagged_check=False)
        knl = pl.tensorize(knl, "writes:c", own)
        knl = pl.add_prefetch(
            knl, "b", "w, ni, jj_lane, jj_reg, kk, ki_outer, ki_inner", temporary_name="b_tile", pad=8, vec=8
        )
        text = cuda(knl)
        assert "ldmatrix_x2_trans(b_frag" in flat(text)
        for arch in ("sm_80", "sm_90"):
            compile_cuda(text, arch)
        with pytest.raises(CodegenError, match="fibres do not know"):
            run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), arguments(BF16, *SIZES[1])[0])
    finally:
        INTRINSICS.pop(own.name, None)


def test_layouts_are_bits() -> None:
    parts = parts_of("{ [i, k] -> [2*i + floor(k/8), k mod 8] : 0 <= i < 16 and 0 <= k < 16 }", (("i", 16), ("k", 16)))
    assert [(part.axis, part.stride, part.extent, part.in_lane, part.place) for part in parts] == [
        ("i", 1, 16, True, 2), ("k", 1, 8, False, 1), ("k", 8, 2, True, 1),
    ]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", NAMES)
def test_nvrtc_takes_it(dtype: Any, arch: str) -> None:
    for ahead in (False, True):
        compile_cuda(pl.generate_code(product(dtype, 3, ahead=ahead), target=pl.CudaTarget(arch)).device_code, arch)


@pytest.mark.gpu
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("dtype", NAMES)
def test_the_gpu_agrees(dtype: Any, stages: int, ahead: bool) -> None:
    run = pl.compile(product(dtype, stages, ahead=ahead), target=pl.CudaTarget())
    for size in SIZES:
        given, wanted = arguments(dtype, *size)
        np.testing.assert_array_equal(run(**given).c, wanted["c"])
