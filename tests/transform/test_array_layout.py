"""``tag_array_axes``, ``add_padding``, ``find_padding_multiple``, ``split_array_axis``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F

Golden = Callable[[str, str], None]


def transpose() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[j, i] = a[i, j]", data, name="transpose")


def tiled() -> pl.LoopKernel:
    knl = pl.split_iname(transpose(), "i", 8, outer_tag="g.1", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.1")
    return pl.add_prefetch(knl, "a", "i_inner, j_inner")


def check_transpose(knl: pl.LoopKernel) -> None:
    for n in (1, 8, 9):
        a = np.arange(n * n, dtype=F).reshape(n, n)
        check(knl, {"a": a}, {"b": a.T})


def test_a_padded_tile(golden: Golden) -> None:
    knl = pl.add_padding(tiled(), "a_fetch", 0, 36)
    assert "a_fetch[8][9]" in cuda(knl)
    golden("golden/padded_tile.cu", cuda(knl))
    check_transpose(knl)
    same_after_replay(transpose(), knl)
    assert "a_fetch[8][8]" in cuda(pl.add_padding(tiled(), "a_fetch", 0, 32))


def test_a_transposed_tile() -> None:
    knl = pl.tag_array_axes(tiled(), "a_fetch", "N0,N1")
    assert "a_fetch[ty][tx]" in cuda(knl)
    check_transpose(knl)
    same_after_replay(transpose(), knl)
    check_transpose(pl.tag_array_axes(tiled(), ["a_fetch"], ["stride:17", "stride:2"]))
    assert cuda(pl.tag_array_axes(knl, "a_fetch", "C")) == cuda(tiled())


def test_arguments_are_stored_as_they_are_tagged() -> None:
    base = tiled()
    check_transpose(pl.tag_array_axes(base, "b", "F"))
    check_transpose(pl.tag_array_axes(base, "b", "N1,N0(pad=16)"))
    knl = pl.tag_array_axes(base, "a", "N0,N1")
    a = np.arange(81, dtype=F).reshape(9, 9)
    run = pl.compile(knl, target=pl.CTarget())
    np.testing.assert_array_equal(run(a=np.asfortranarray(a)).b, a.T)
    with pytest.raises(pl.ArgumentError) as caught:
        run(a=a)
    assert caught.value.codes == ("wrong-strides",)
    back = pl.tag_array_axes(knl, "a", "N1,N0")
    check_transpose(back)


def test_arguments_are_padded() -> None:
    knl = pl.add_padding(tiled(), "b", 0, 64)
    check_transpose(knl)
    same_after_replay(transpose(), knl)
    assert "16 * ((n + 15) / 16)" in cuda(knl)


def test_elements_that_would_share_an_address_are_refused(golden: Golden) -> None:
    text = refused(tiled(), lambda k: pl.tag_array_axes(k, "a_fetch", "stride:7,stride:1"), "overlapping-elements")
    golden("messages/tag_array_axes_overlapping.txt", text)
    data = [pl.GlobalArg("b", F, shape="4, 4"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 4}", "b[i, j] = i + j", data, name="fixed")
    text = refused(knl, lambda k: pl.tag_array_axes(k, "b", "stride:3,stride:1"), "overlapping-elements")
    golden("messages/tag_array_axes_argument.txt", text)


def copied() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", data, name="copied", assumptions="n >= 1")


def blocks(a: np.ndarray, count: int) -> np.ndarray:
    """Return *a* in rows of *count*, filled up with zeros."""
    padded = np.zeros(-(-len(a) // count) * count, a.dtype)
    padded[: len(a)] = a
    return padded.reshape(-1, count)


@pytest.mark.parametrize("length", [4, 3, 8])
def test_an_axis_is_split(length: int) -> None:
    base = copied()
    knl = pl.split_array_axis(pl.split_iname(base, "i", length, outer_tag="g.0", inner_tag="l.0"), "a", 0, 4)
    for n in (1, 4, 9):
        a = np.arange(n, dtype=F)
        check(knl, {"a": blocks(a, 4), "n": n}, {"b": 2 * a})
    same_after_replay(base, knl)


def test_divisions_disappear_where_the_domain_shows_it() -> None:
    knl = pl.split_array_axis(pl.split_iname(copied(), "i", 4), "a, b", 0, 4)
    assert "b[i_outer, i_inner] = 2*a[i_outer, i_inner]" in str(knl)
    turned = pl.split_array_axis(pl.split_iname(copied(), "i", 4), "a", 0, 4, order="F")
    assert "a[i_inner, i_outer]" in str(turned)
    a = np.arange(8, dtype=F)
    run = pl.compile(turned, target=pl.CTarget())
    np.testing.assert_array_equal(run(a=a.reshape(2, 4).T, n=8).b, 2 * a)


def test_after_a_prefetch_and_a_buffer() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("c", F, shape="n"), ...]
    base = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", "c[i] = c[i] + a[i, k]", data, name="rows")
    knl = pl.split_iname(pl.split_iname(base, "i", 4, outer_tag="g.0", inner_tag="l.0"), "k", 4)
    knl = pl.buffer_array(knl, "c", "k_outer, k_inner")
    knl = pl.add_prefetch(knl, "a", "i_inner, k_inner")
    knl = pl.split_array_axis(pl.split_array_axis(knl, "a", 1, 4), "c", 0, 2)
    for n, m in ((1, 1), (5, 6)):
        a, c = np.arange(n * m, dtype=F).reshape(n, m), np.arange(n, dtype=F)
        wide = np.stack([blocks(row, 4) for row in a])
        want = blocks(c + a.sum(1), 2)
        check(knl, {"a": wide, "c": blocks(c, 2), "n": n, "m": m}, {"c": want})
    same_after_replay(base, knl)


def test_reductions_and_temporaries_are_split() -> None:
    text = "t[j] = 2*a[j] {id=set}\nb[i] = sum(k, t[k]*a[i]) {id=use, dep=set}"
    data = [pl.GlobalArg("a, b", F, shape="12"), pl.TemporaryVariable("t", F, shape=12), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < 12}", text, data, name="sums")
    knl = pl.split_array_axis(pl.split_iname(knl, "k", 4), "t", 0, 4)
    assert "t[k_outer, k_inner]" in str(knl)
    a = np.arange(12, dtype=F)
    check(knl, {"a": a}, {"b": 2 * a.sum() * a})


def test_how_many_rows_to_pad_together() -> None:
    data = [pl.GlobalArg("a, b", F, shape="24, 3"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < 24 and 0 <= j < 3}", "b[i, j] = a[i, j]", data, name="thin")
    assert pl.find_padding_multiple(knl, "a", 0, 64) == 5  # 60 bytes in 64
    assert pl.find_padding_multiple(knl, "a", 0, 64, allowed_waste=0.0) == 16
    knl = pl.split_array_axis(knl, "b", 0, 5)
    knl = pl.add_padding(knl, "b", 0, 64)
    strides = knl.arrays()["b"].strides
    assert strides == (16, 3, 1)
    with pytest.raises(pl.TransformError) as caught:
        pl.find_padding_multiple(transpose(), "a", 0, 64)
    assert caught.value.codes == ("bad-layout",)


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("unknown-array", lambda k: pl.tag_array_axes(k, "x", "C")),
        ("bad-dim-tags", lambda k: pl.tag_array_axes(k, "a", "N7,N0")),
        ("bad-layout", lambda k: pl.tag_array_axes(k, "a", "N2,N1,N0")),
        ("bad-layout", lambda k: pl.tag_array_axes(k, "a_fetch", "sep,N0")),
        ("bad-layout", lambda k: pl.tag_array_axes(pl.add_padding(k, "a_fetch", 0, 36), "a_fetch", "stride:9,N0")),
        ("wrong-rank", lambda k: pl.add_padding(k, "a", 2, 64)),
        ("bad-value", lambda k: pl.add_padding(k, "a", 0, 6)),
        ("bad-layout", lambda k: pl.add_padding(k, "a", 1, 64)),
        ("bad-factor", lambda k: pl.split_array_axis(k, "a", 0, 0)),
        ("bad-order", lambda k: pl.split_array_axis(k, "a", 0, 4, order="A")),
        ("wrong-rank", lambda k: pl.split_array_axis(k, "a", 2, 4)),
        ("bad-layout", lambda k: pl.split_array_axis(pl.add_padding(k, "a_fetch", 0, 36), "a_fetch", 1, 4)),
    ],
)
def test_layouts_that_cannot_be(code: str, call: Callable[[pl.LoopKernel], object]) -> None:
    refused(tiled(), call, code)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc_compiles_them(arch: str) -> None:
    compile_cuda(cuda(pl.add_padding(tiled(), "a_fetch", 0, 36)), arch=arch)
    compile_cuda(cuda(pl.split_array_axis(pl.split_iname(copied(), "i", 8, outer_tag="g.0"), "a", 0, 4)), arch=arch)


def test_a_temporary_that_got_axes_is_padded_and_split() -> None:
    text = "for i\n    t = a[i] {id=set}\n    b[i] = 2*t {id=get}\nend"
    data = [pl.GlobalArg("a, b", F, shape="8"), pl.TemporaryVariable("t", F), ...]
    base = pl.make_kernel("{[i]: 0 <= i < 8}", text, data, name="grown")
    knl = pl.privatize_temporaries_with_inames(pl.split_iname(base, "i", 4), "i_outer, i_inner")
    knl = pl.tag_array_axes(pl.split_array_axis(knl, "t", 1, 2), "t", "N2,N0,N1")
    a = np.arange(8, dtype=F)
    check(pl.add_padding(knl, "t", 0, 20), {"a": a}, {"b": 2 * a})
    same_after_replay(base, knl)


def test_a_row_whose_length_is_a_quotient() -> None:
    """The stride is a quotient, by which an index is multiplied as a whole."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= 8*j < n}",
        "a[i, j] = i + 2*j",
        [pl.GlobalArg("a", np.int32, shape="m, (n + 7)//8"), ...],
        assumptions="m >= 1 and n >= 1",
    )
    assert "i * ((n + 7) / 8) + j" in cuda(knl)
    for m, n in ((5, 3), (4, 17)):
        i, j = np.mgrid[:m, : -(-n // 8)]
        check(knl, {"m": m, "n": n}, {"a": (i + 2 * j).astype(np.int32)})
