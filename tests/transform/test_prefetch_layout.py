"""Where and how the copies of ``add_prefetch`` lie: layouts, padding, vectors, registers, places in the nest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import resources
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, blur, check_blur, check_matmul, matmul, spread

Golden = Callable[[str, str], None]


def product() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [*(pl.GlobalArg(name, F, shape=shape) for name, shape in (("a", "m, p"), ("b", "p, n"), ("c", "m, n"))), ...],
        name="product", assumptions="m >= 1 and n >= 1 and p >= 1 and n mod 4 = 0 and p mod 4 = 0",
    )  # fmt: skip


def tiled(base: pl.LoopKernel | None = None) -> pl.LoopKernel:
    """Return a product by blocks of 16 x 16 elements and 16 threads, each with 2 x 2 pieces of 2 x 2."""
    knl = product() if base is None else base
    for iname, block, axis in (("i", "by", "l.1"), ("j", "bx", "l.0")):
        knl = pl.split_iname(knl, iname, 16, outer_iname=block, inner_iname="rest",
                             outer_tag="g.1" if iname == "i" else "g.0")  # fmt: skip
        knl = pl.split_iname(knl, "rest", 8, outer_iname=f"{iname}_hi", inner_iname="rest_0", outer_tag="unr")
        knl = pl.split_iname(knl, "rest_0", 2, outer_iname=f"t{iname}", inner_iname=f"{iname}_lo", outer_tag=axis,
                             inner_tag="unr")  # fmt: skip
    knl = pl.split_iname(knl, "k", 4, outer_iname="ko", inner_iname="ki", inner_tag="unr")
    return pl.prioritize_loops(knl, "ko, ki, i_hi, i_lo, j_hi, j_lo")


def check_product(knl: pl.LoopKernel, sizes: tuple[tuple[int, int, int], ...]) -> None:
    for m, n, p in sizes:
        rng = np.random.default_rng(m)
        a, b = rng.integers(-3, 4, (m, p)).astype(F), rng.integers(-3, 4, (p, n)).astype(F)
        check(knl, {"a": a, "b": b}, {"c": a @ b})


def with_tiles() -> pl.LoopKernel:
    knl = pl.add_prefetch(tiled(), "a", "i_hi, ti, i_lo, ki", temporary_name="a_tile", dim_tags="N0,N1", pad=4, vec=4)
    return pl.add_prefetch(knl, "b", "j_hi, tj, j_lo, ki", temporary_name="b_tile", vec=4)


def in_registers() -> pl.LoopKernel:
    knl = with_tiles()
    for tile, part, axes in (("a_tile", "a_part", "i_hi, i_lo"), ("b_tile", "b_part", "j_hi, j_lo")):
        knl = pl.add_prefetch(knl, tile, compute_at="ki", storage_axes=axes, temporary_name=part,
                              temporary_address_space="private", vec=2)  # fmt: skip
    return knl


def test_a_transposed_tile_and_vectors(golden: Golden) -> None:
    knl = with_tiles()
    text = cuda(knl)
    assert "a_tile[4][20]" in text
    assert "*(float4 *)&b_tile" in text
    check_product(knl, ((1, 4, 4), (16, 16, 8), (17, 20, 12)))
    golden("golden/prefetch_vectors.cu", text)
    assert not pl.generate_code(knl, target=pl.CudaTarget()).notes


def test_parts_of_tiles_in_registers(golden: Golden) -> None:
    knl = in_registers()
    check_product(knl, ((1, 4, 4), (15, 12, 8), (16, 16, 4), (17, 20, 12)))
    text = cuda(knl)
    golden("golden/prefetch_registers.cu", text)
    assert "const float2 *" in text
    same_after_replay(product(), knl)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_keeps_them_in_registers(arch: str) -> None:
    used = resources(compile_cuda(cuda(in_registers()), arch=arch).cubin)
    assert used["product"].local_bytes == 0


def test_a_second_copy_needs_no_names() -> None:
    knl = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}", "b[i] = a[i-1] {id=x}\nc[i] = a[i+1] {id=y}",
        [pl.GlobalArg("a, b, c", F, shape="n"), ...], name="twice", assumptions="n >= 3",
    )  # fmt: skip
    knl = pl.add_prefetch(spread(knl), "a", "i_inner", within="id:x")
    knl = pl.add_prefetch(knl, "a", "i_inner", within="id:y")
    assert sorted(knl.temporaries) == ["a_fetch", "a_fetch_0"]
    assert {"fetch_a", "fetch_a_0"} <= {instruction.id for instruction in knl.instructions}
    for n in (3, 18, 40):
        a, b, c = vectors(n, 3)
        want_b, want_c = b.copy(), c.copy()
        want_b[1:-1], want_c[1:-1] = a[:-2], a[2:]
        check(knl, {"a": a, "b": b, "c": c}, {"b": want_b, "c": want_c})


@pytest.mark.parametrize("box", [None, True, False])
def test_the_box_or_the_elements_alone(box: bool | None) -> None:
    """The corners of the box around a star are fetched, or not."""
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}", "out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1]",
        [pl.GlobalArg("a, out", F, shape="n, n"), ...], name="star", assumptions="n >= 3",
    )  # fmt: skip
    for iname, axis in (("i", 1), ("j", 0)):
        knl = pl.split_iname(knl, iname, 8, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    knl = pl.add_prefetch(knl, "a", "i_inner, j_inner", fetch_bounding_box=box)
    for n in (3, 10, 19):
        a, out = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(F)
        want = out.copy()
        want[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
        check(knl, {"a": a, "out": out}, {"out": want})
    assert "a_fetch[10][10]" in cuda(knl)


def test_a_footprint_that_is_given() -> None:
    """The middle of the tile is fetched; the read beyond it stays."""
    subscripts, space = "i_outer*16 + i_inner", "local"
    knl = pl.add_prefetch(
        spread(blur()), "a", "i_inner", footprint_subscripts=subscripts, temporary_address_space=space
    )
    assert "a_fetch[16]" in cuda(knl)
    check_blur(knl)
    text = refused(spread(blur()), lambda k: pl.add_prefetch(k, "a", "i_inner", footprint_subscripts="0"), "not-used")
    assert "no use of 'a' inside the swept loops stays in the footprint that was given" in text


def test_a_footprint_serves_reads_by_other_inames() -> None:
    """Rows of a tile are swept by j in one statement, and by k in the other: neither has all inames of the sweep."""
    knl = pl.make_kernel(
        "{[t, j, k, i]: 0 <= t < n and 0 <= j, k < 8 and 0 <= i < 4}",
        "b[t, i] = sum(j, a[8*t + j]) + i  {id=b}\nc[t, i] = sum(k, a[8*t + k]*a[8*t + k]) + i  {id=c}",
        [pl.GlobalArg("a", np.float32, shape="8*n"), pl.GlobalArg("b, c", np.float32, shape="n, 4"), ...],
    )  # fmt: skip
    tiled = pl.tag_inames(knl, "t:g.0, i:l.0")
    tile = pl.add_prefetch(tiled, "a", "i", fetch_outer_inames="t", footprint_subscripts=["8*t + j"])
    text = cuda(tile)
    assert text.count("a_fetch[j]") + text.count("a_fetch[k]") == 3
    pl.check_equivalence(knl, tile, sizes={"n": 3})
    text = refused(tiled, lambda x: pl.add_prefetch(x, "a", "i", fetch_outer_inames="t"), "outer-missing")
    assert "the elements depend on iname" in text


@pytest.mark.parametrize(("at", "size"), [("i_outer", "a_fetch[18]"), ("i_inner", "a_fetch[3]")])
def test_a_place_in_the_nest(at: str, size: str) -> None:
    base = pl.split_iname(blur(), "i", 16)
    knl = pl.add_prefetch(base, "a", compute_at=at)
    assert size in cuda(knl)
    check_blur(knl, (3, 18, 19))


def test_a_place_outside_of_all_loops() -> None:
    knl = pl.add_prefetch(pl.fix_parameters(matmul(), n=8), "b", compute_at="root", temporary_address_space="private")
    assert "float b_fetch[8][8];" in cuda(knl)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2, 8, 8)).astype(F)
    check(knl, {"a": a, "b": b}, {"c": a @ b})


def test_several_sums_are_looked_at_by_the_call() -> None:
    text = "y[i] = sum(k, a[k]*b[i, k]) + sum(l, a[l]*c[i, l])"
    data: list[Any] = [pl.GlobalArg("a, y", F, shape="n"), pl.GlobalArg("b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, k, l]: 0 <= i, k, l < n}", text, data, name="sums", assumptions="n >= 1")
    knl = pl.split_iname(pl.split_iname(spread(knl, "i", 8), "k", 8), "l", 8)
    for iname in ("k_inner", "l_inner"):
        staged = pl.add_prefetch(knl, "a", iname)
        for n in (1, 8, 17):
            b, c = np.random.default_rng(n).integers(-3, 4, (2, n, n)).astype(F)
            (a,) = vectors(n, 1)
            check(staged, {"a": a, "b": b, "c": c}, {"y": b @ a + c @ a})


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "layout_rank": (tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, ti, i_lo, ki", dim_tags="N0"), "bad-layout"),
    "layout_strides": (
        tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, ti, i_lo, ki", dim_tags="stride:9,N0"), "bad-layout"),
    "pad": (tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, ti, i_lo, ki", pad=-1), "bad-value"),
    "vec_length": (tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, ti, i_lo, ki", vec=3), "bad-lanes"),
    "vec_extent": (lambda: spread(blur()), lambda knl: pl.add_prefetch(knl, "a", "i_inner", vec=4), "bad-lanes"),
    "storage_not_swept": (
        tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, i_lo", storage_axes="i_hi, ki"), "sweep-unused"),
    "storage_missing": (
        tiled, lambda knl: pl.add_prefetch(knl, "a", "i_hi, i_lo", storage_axes="i_hi"), "outer-missing"),
    "storage_differs": (
        lambda: spread(blur()), lambda knl: pl.add_prefetch(knl, "a", "i_inner", storage_axes="i_inner"),
        "uses-differ"),
    "place_unknown": (tiled, lambda knl: pl.add_prefetch(knl, "a", compute_at="kk"), "unknown-iname"),
    "place_elsewhere": (
        lambda: pl.add_prefetch(spread(blur()), "a", "i_inner"),
        lambda knl: pl.add_prefetch(knl, "a_fetch", compute_at="a_dim_0_inner"), "sweep-unused"),
    "place_twice": (tiled, lambda knl: pl.add_prefetch(knl, "a", "ki", compute_at="ko"), "bad-value"),
    "within_nothing": (tiled, lambda knl: pl.add_prefetch(knl, "a", "ki", within="id:none"), "unknown-instruction"),
    "rule_name": (tiled, lambda knl: pl.add_prefetch(knl, "a", "ki", rule_name="b"), "name-taken"),
    "footprint_text": (
        tiled, lambda knl: pl.add_prefetch(knl, "a", "ki", footprint_subscripts="ki"), "bad-value"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/prefetch_{case}.txt", refused(make(), call, code))


def test_a_matrix_product_by_a_place() -> None:
    knl = pl.split_iname(matmul(), "i", 8, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.add_prefetch(pl.add_prefetch(knl, "a", compute_at="k_outer"), "b", compute_at="k_outer")
    assert cuda(knl).count("__shared__") == 2
    check_matmul(knl, (1, 8, 17))


def points() -> pl.LoopKernel:
    """Return a sum of neighbours that are vectors of 4 numbers."""
    data = [pl.GlobalArg("x, y", F, shape="n, 4"), ...]
    domain = "{[i, c]: 1 <= i < n - 1 and 0 <= c < 4}"
    knl = pl.make_kernel(domain, "y[i, c] = x[i-1, c] + x[i+1, c]", data, name="points", assumptions="n >= 3")
    return spread(pl.tag_inames(pl.tag_array_axes(knl, "x, y", "N0,vec"), "c:unr"))


@pytest.mark.parametrize("tag", ["l.auto", None])
def test_an_array_of_vectors(tag: str | None) -> None:
    """The components of a vector have no index: the loop over them is unrolled."""
    knl = pl.add_prefetch(points(), "x", "i_inner, c", default_tag=tag)
    assert "x[x_offset - 1].w" in cuda(knl) or tag is None
    for n in (3, 18, 19):
        x, y = np.random.default_rng(n).integers(-3, 4, (2, n, 4)).astype(F)
        want = y.copy()
        want[1:-1] = x[:-2] + x[2:]
        check(knl, {"x": x, "y": y}, {"y": want})


def test_a_swizzled_tile_of_vectors() -> None:
    """What one copy moves stays together; the columns of the tile lie in different banks."""
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[j, i] = a[i, j]",
                         [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("b", F, shape="m, n"), ...],
                         name="turned", assumptions="n >= 1 and m >= 1 and m mod 4 = 0")  # fmt: skip
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "j_inner", 4, inner_tag="l.1")
    knl = pl.add_prefetch(knl, "a", compute_at="j_outer", vec=4)
    before = [entry.turns for entry in pl.get_bank_conflicts(knl)]
    knl = pl.swizzle(knl, "a_fetch")
    after = [entry.turns for entry in pl.get_bank_conflicts(knl)]
    assert (before, after) == ([1, 32], [1, 4])
    assert "*(float4 *)&a_fetch[" in cuda(knl)
    for n, m in ((1, 4), (32, 32), (33, 36)):
        a = np.arange(n * m, dtype=F).reshape(n, m)
        check(knl, {"a": a}, {"b": np.ascontiguousarray(a.T)})


@pytest.mark.few(1)
@pytest.mark.parametrize("via", ["registers", "cp.async"])
def test_such_tiles_can_be_fetched_ahead(via: str) -> None:
    """The transposed tile is stored element by element, also by asynchronous copies."""
    knl = pl.pipeline(in_registers(), "ko", via=via)
    check_product(knl, ((1, 4, 4), (16, 16, 8), (17, 20, 12)))
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert not program.notes
    assert ("cp_async_4_zfill(&a_tile" in program.device_code) is (via == "cp.async")
