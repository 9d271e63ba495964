"""``vectorize``: a loop as lanes of vectors, in one step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, blur, check_blur

Golden = Callable[[str, str], None]

pytestmark = pytest.mark.filterwarnings("ignore:not-vectorized")


def axpy(dtype: Any = F) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", dtype, shape="n"), pl.ValueArg("a", dtype), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]", data, name="axpy")


def check_axpy(knl: pl.LoopKernel, dtype: Any = F) -> None:
    for n in (1, 3, 4, 5, 9, 40):
        x, y = (vector.astype(dtype) for vector in vectors(n, 2))
        check(knl, {"a": np.dtype(dtype).type(2), "x": x, "y": y}, {"y": 2 * x + y})


def test_a_loop_with_a_remainder(golden: Golden) -> None:
    base = axpy()
    knl = pl.vectorize(base, "i")
    check_axpy(knl)
    golden("golden/vectorize_axpy.cu", cuda(knl))
    assert "# 4 lanes; as vectors: x[4*i_outer + i_inner], y[4*i_outer + i_inner]\n" in str(knl.trace)
    same_after_replay(base, knl)


def test_threads_with_a_remainder(golden: Golden) -> None:
    base = axpy()
    knl = pl.vectorize(pl.split_iname(base, "i", 16, outer_tag="g.0"), "i_inner", outer_tag="l.0")
    check_axpy(knl)
    golden("golden/vectorize_threads.cu", cuda(knl))
    same_after_replay(base, knl)


@pytest.mark.parametrize(("dtype", "length", "word"), [(np.float64, 2, "double2"), (np.int16, 8, "int16x8")])
def test_the_number_of_lanes_fills_one_access(dtype: Any, length: int, word: str) -> None:
    knl = pl.vectorize(axpy(dtype), "i")
    assert f"# {length} lanes" in str(knl.trace)
    assert f"(const {word} *)" in cuda(knl)
    check_axpy(knl, dtype)


@pytest.mark.few(2)
@pytest.mark.parametrize("options", [{"length": 2}, {"length": 8}, {"slabs": (0, 1)}, {"inner_iname": "lane"}])
def test_other_lanes(options: dict[str, Any]) -> None:
    check_axpy(pl.vectorize(axpy(), "i", **options))


def test_a_loop_of_as_many_iterations_is_only_tagged() -> None:
    data = [pl.GlobalArg("x, y", F, shape="n, 4"), ...]
    knl = pl.make_kernel("{[i, c]: 0 <= i < n and 0 <= c < 4}", "y[i, c] = 2*x[i, c]", data, name="pixels")
    knl = pl.vectorize(knl, "c")
    assert str(knl.iname_tags["c"]) == "vec"
    for n in (1, 5):
        x = np.arange(4 * n, dtype=F).reshape(n, 4)
        check(knl, {"x": x}, {"y": 2 * x})


def test_the_terms_of_a_sum_are_loaded_as_vectors() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("y", F, shape="m"), pl.GlobalArg("x", F, shape="n"), ...]
    base = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "x[i] = sum(j, a[i, j]*y[j])", data, name="rows")
    for assumption, wide in (("m mod 4 = 0 and m >= 4", "(const float4 *)&a["), ("m >= 1", "(const float4 *)&y[")):
        knl = pl.split_iname(pl.assume(base, assumption), "i", 4, outer_tag="g.0", inner_tag="l.0")
        knl = pl.vectorize(knl, "j")
        assert wide in cuda(knl)
        for n, m in ((1, 4), (5, 12)):
            a, y = np.arange(n * m, dtype=F).reshape(n, m) % 7, np.arange(m, dtype=F)
            check(knl, {"a": a, "y": y}, {"x": a @ y})


def test_a_loop_that_begins_inside_of_a_vector() -> None:
    check_blur(pl.vectorize(blur(), "i"))


def test_what_is_no_vector(golden: Golden) -> None:
    data = [pl.GlobalArg("x", F, shape="n + m, n + m"), pl.GlobalArg("y", F, shape="n, m"), ...]
    text = "y[i, j] = x[i, j] + x[j, i]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", text, data, name="both_ways")
    golden("messages/vectorize_nothing.txt", refused(knl, partial(pl.vectorize, iname="j"), "not-vectorized"))
    refused(knl, partial(pl.vectorize, iname="j", length=3), "bad-lanes")
    refused(knl, partial(pl.vectorize, iname="k"), "unknown-iname")
    refused(pl.tag_inames(knl, "j:unr"), partial(pl.vectorize, iname="j"), "iname-tagged")
    assumed = pl.assume(knl, "m mod 4 = 0 and n mod 4 = 0")
    assert "lane by lane: x[4*j_outer + j_inner, i]" in str(pl.vectorize(assumed, "j").trace)
    data = [pl.GlobalArg("x", F, shape="n + 1"), ...]
    chain = pl.make_kernel("{[i]: 0 <= i < n}", "x[i + 1] = x[i] + 1", data, name="chain")
    refused(chain, partial(pl.vectorize, iname="i"), "illegal-parallel")


def test_the_components_of_array_axes(golden: Golden) -> None:
    other = [pl.GlobalArg("y", F, shape="n"), pl.GlobalArg("b", F, shape="4")]
    data = [pl.GlobalArg("x, z", F, shape="n, 4"), *other, ...]
    text = "x[i, c] = x[i, c]*y[i] + z[i, 3 - c] + b[c] {if=y[i] > 0}"
    base = pl.make_kernel("{[i, c]: 0 <= i < n and 0 <= c < 4}", text, data, name="pixels")
    knl = pl.tag_array_axes(pl.tag_array_axes(base, "x, z", "N0,vec"), "b", "vec")
    knl = pl.vectorize(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), "c")
    golden("golden/vectorize_components.cu", cuda(knl))
    same_after_replay(base, knl)
    for n in (1, 4, 5):
        x, z = np.arange(8 * n, dtype=F).reshape(2, n, 4)
        y, b = np.arange(n, dtype=F) - 2, np.arange(4, dtype=F)
        want = np.where(y[:, None] > 0, x * y[:, None] + z[:, ::-1] + b, x)
        check(knl, {"x": x, "z": z, "y": y, "b": b}, {"x": want})
    partly = pl.make_kernel("{[i, c]: 0 <= i < n and 0 <= c < 4 and c <= i}", text, data)
    partly = pl.tag_array_axes(partly, "x, z", "N0,vec")
    check(pl.vectorize(partly, "c"), {"x": x, "z": z, "y": y, "b": b}, {"x": np.where(np.tri(n, 4) > 0, want, x)})
