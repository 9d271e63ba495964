"""Inames that are digits of the thread number: ``l%8``, ``l/8%4``, ``l/32``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.mapping.mixed_radix import Digit, digit_form, gaps
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, check_matmul, matmul

Golden = Callable[[str, str], None]


@pytest.mark.parametrize("sizes", [(16, 16), (256,), (18, 14), (4, 8, 8), (32, 3)])
@pytest.mark.parametrize("digit", [(1, 8), (8, 32), (16, 16), (32, 4), (64, 4), (3, 5), (18, 14), (2, 4)])
def test_digits_are_parts_of_the_thread_number(sizes: tuple[int, ...], digit: tuple[int, int]) -> None:
    named = {f"l.{n}": size for n, size in enumerate(sizes)}
    stride, extent = digit
    form = digit_form(Digit(stride, extent), named)
    for number, place in enumerate(np.ndindex(*sizes[::-1])):
        values = dict(zip(named, map(int, place[::-1]), strict=True))
        assert form.evaluate(values) == number // stride % extent


def test_what_is_missing_between_digits() -> None:
    assert gaps([Digit(8, 4)], 256) == [Digit(1, 8), Digit(32, 8)]
    assert gaps([Digit(1, 18), Digit(18, 14)], 256) == [Digit(252, 2)]
    assert gaps([Digit(1, 16), Digit(16, 16)], 256) == []


def turned() -> pl.LoopKernel:
    """Return a transposition by 128 threads, of which rows are read in pieces of 32 and written in pieces of 16."""
    knl = pl.split_iname(transposed_base(), "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l%16")
    return pl.split_iname(knl, "i_inner", 8, inner_tag="l/16%8")


def check_turned(knl: pl.LoopKernel, sizes: tuple[int, ...] = (1, 16, 33)) -> None:
    for n in sizes:
        a = np.random.default_rng(n).integers(-9, 9, (n, n)).astype(F)
        check(knl, {"a": a}, {"b": np.ascontiguousarray(a.T)})


def test_the_copy_of_a_tile_has_another_shape_than_the_block(golden: Golden) -> None:
    knl = pl.add_prefetch(turned(), "a", "i_inner_outer, i_inner_inner, j_inner")
    assert "a_dim_0_inner on l/32, a_dim_1 on l%32" in str(knl.trace)
    check_turned(knl)
    golden("golden/thread_digits.cu", cuda(knl))
    same_after_replay(transposed_base(), knl)


def transposed_base() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]", data, name="turned", assumptions="n >= 1")


def test_copies_take_all_threads_of_a_block_of_two_axes() -> None:
    knl = pl.split_iname(matmul(), "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 8, inner_tag="l.1", outer_tag="unr")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 8, inner_tag="l.0", outer_tag="unr")
    knl = pl.split_iname(knl, "k", 4)
    knl = pl.prioritize_loops(knl, "k_outer, k_inner, i_inner_outer, j_inner_outer")
    knl = pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner, k_inner")
    knl = pl.add_prefetch(knl, "b", "k_inner, j_inner_outer, j_inner_inner")
    assert "a_dim_0_inner on l/4, a_dim_1 on l%4" in str(knl.trace)
    check_matmul(knl, (1, 31, 33))


def test_threads_without_a_part_repeat_what_is_private_and_leave_out_what_is_not() -> None:
    """Of 32 threads 8 write each element; a private value is computed by all of them."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 4 and 0 <= j < 32}", "<> t[i] = 2*x[i]\ny[j] = x[j] + t[3] {dep=*}",
        [pl.GlobalArg("x, y", F, shape="32"), ...], name="parts",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "j:l.0, i:l/2%4")
    x = np.arange(32, dtype=F)
    check(knl, {"x": x}, {"y": x + 6})
    assert knl.parameters == ()
    assert "__shared__" in cuda(knl)


def test_an_axis_is_a_digit_beside_digits() -> None:
    data = [pl.GlobalArg("x", F, shape="2, 3, 4"), pl.GlobalArg("y", F, shape="4, 3, 2"),
            pl.GlobalArg("z", F, shape="4, 8"), ...]  # fmt: skip
    domain = "{[i, j, k, s, t]: 0 <= i, s < 4 and 0 <= j < 3 and 0 <= k < 2 and 0 <= t < 8}"
    knl = pl.make_kernel(domain, "y[i, j, k] = x[k, j, i]\nz[s, t] = 1", data)
    knl = pl.tag_inames(knl, "s:l.0, t:l.1, i:l.0, j:l/4%3")
    x = np.arange(24, dtype=F).reshape(2, 3, 4)
    for again in (knl, pl.tag_inames(knl, "k:l/12")):
        check(again, {"x": x}, {"y": np.ascontiguousarray(x.T)})


def overlapping() -> pl.LoopKernel:
    return pl.tag_inames(turned_pairs(), "i:l%4")


def turned_pairs() -> pl.LoopKernel:
    return pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 8}", "y[i, j] = x[j, i]",
                          [pl.GlobalArg("x", F, shape="8, 4"), pl.GlobalArg("y", F, shape="4, 8"), ...],
                          name="pairs")  # fmt: skip


REFUSALS: dict[str, tuple[Callable[[], pl.LoopKernel], str, str]] = {
    "overlap": (overlapping, "j:l/2%8", "axis-twice"),
    "too_long": (turned_pairs, "j:l%4", "bad-digit"),
    "block_too_small": (lambda: pl.tag_inames(turned_pairs(), "i:l.0"), "j:l/4%8", "bad-digit"),
    "parameters": (matmul, "i:l%8", "bad-digit"),
    "open": (lambda: pl.tag_inames(pl.split_iname(matmul(), "i", 8), "i_outer:l.0"), "i_inner:l%8", "bad-digit"),
    "terms": (lambda: pl.split_iname(matmul(), "k", 8), "k_inner:l/8", "parallel-reduction"),
    "no_tag": (turned_pairs, "i:l/0%4", "bad-tag"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, tags, code = REFUSALS[case]
    golden(f"messages/thread_digit_{case}.txt", refused(make(), lambda knl: pl.tag_inames(knl, tags), code))


def test_a_race_on_digits_is_found() -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.tag_inames(pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 8}", "y[i] = x[j, i]",
                                     [pl.GlobalArg("x", F, shape="8, 4"), pl.GlobalArg("y", F, shape="4"), ...]),
                      "i:l%4, j:l/4")  # fmt: skip
    assert caught.value.codes in (("write-race",), ("illegal-parallel",))


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc(arch: str) -> None:
    compile_cuda(cuda(pl.add_prefetch(turned(), "a", "i_inner_outer, i_inner_inner, j_inner")), arch=arch)




def test_facts_of_a_kernel_on_digits() -> None:
    knl = pl.add_prefetch(turned(), "a", "i_inner_outer, i_inner_inner, j_inner")
    assert "turned on" in str(pl.explain(knl, {"n": 1024}, "h200"))
    strides = {(m.variable, m.direction): dict(m.lid_strides or ()) for m in pl.get_mem_access_map(knl)}
    assert strides["a_fetch", "store"] == {0: 1}
    assert strides["a", "load"] == {0: None}


def running_sums() -> pl.LoopKernel:
    """Return sums along rows of 8, in blocks of 8 by 4 threads, and a copy of a row that lies in shared memory."""
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "[i] -> {[q]: 0 <= q <= i}"],
        """
        c[j, i] = sum(q, a[j, q])
        d[j, i] = w[i]
        """,
        [pl.GlobalArg("a, w", F), pl.GlobalArg("c, d", F)],
        name="running_sums",
    )
    knl = pl.tag_inames(knl, {"i": "l.0", "j": "l.1"})
    return pl.add_prefetch(knl, "w", "i", default_tag=None)


@pytest.mark.parametrize("digit", ["l%8", "l/4%8", "l/4"])
@pytest.mark.parametrize("is_scan_first", [True, False])
def test_digits_beside_a_scan_over_threads_are_refused(digit: str, *, is_scan_first: bool) -> None:
    """Scans are over threads of one axis, and digits take the axes apart: a KeyError came when code was generated."""
    def scan(knl: pl.LoopKernel) -> pl.LoopKernel:
        return pl.realize_scan(knl, sweep_iname="i")

    def tag(knl: pl.LoopKernel) -> pl.LoopKernel:
        return pl.tag_inames(knl, {"w_dim_0": digit})

    first, second = (scan, tag) if is_scan_first else (tag, scan)
    refused(first(running_sums()), second, "bad-digit")


def norms(width: int, threads: int) -> pl.LoopKernel:
    data = [pl.GlobalArg("p", F, shape=f"n, {width}"), pl.GlobalArg("y", F, shape="n"), ...]
    text = f"y[i] = sum(c, (c + 1)*p[i, c]) + p[i, {width - 1}]"
    knl = pl.make_kernel(f"{{[i, c]: 0 <= i < n and 0 <= c < {width}}}", text, data, name="norms", assumptions="n >= 1")
    knl = pl.split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "p", ["i_inner", "c"])


def check_norms(knl: pl.LoopKernel, width: int) -> None:
    for n in (1, 42, 127, 130):
        p = np.random.default_rng(n).integers(-9, 9, (n, width)).astype(F)
        check(knl, {"p": p}, {"y": (p @ np.arange(1, width + 1) + p[:, -1]).astype(F)})


@pytest.mark.parametrize("width", [3, 5, 6])
def test_the_copy_of_a_narrow_tile_is_flat_though_its_width_divides_no_block(width: int) -> None:
    knl = norms(width, 128)
    assert f"p_dim_0_inner on l/{width}, p_dim_1 on l%{width}" in str(knl.trace)
    text = cuda(knl)
    assert f"const int p_dim_1 = tx % {width}, p_dim_0_inner = tx / {width};" in text
    assert f"p_dim_0_inner < {128 // width}" in text  # threads that are left have no element
    check_norms(knl, width)
    facts = pl.explain(knl, {"n": 1 << 20})
    assert facts.bound is not None
    assert facts.bound.resource == "DRAM"
    same_after_replay(pl.make_kernel(
        f"{{[i, c]: 0 <= i < n and 0 <= c < {width}}}", f"y[i] = sum(c, (c + 1)*p[i, c]) + p[i, {width - 1}]",
        [pl.GlobalArg("p", F, shape=f"n, {width}"), pl.GlobalArg("y", F, shape="n"), ...],
        name="norms", assumptions="n >= 1"), knl)  # fmt: skip


def test_a_tile_of_which_most_threads_copy_a_part_anyway_is_divided_by_axes() -> None:
    knl = norms(66, 64)
    assert "l%" not in str(knl.trace)
    check_norms(knl, 66)


@pytest.mark.nvrtc
def test_nvrtc_takes_a_flat_copy() -> None:
    assert compile_cuda(cuda(norms(3, 128)), "sm_90").cubin
