"""Programs that were wrong once: rules that could capture, wide integers, no terms, barriers, names, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import ORDERS, run_on_fibres

F, D, J, L = np.float32, np.float64, np.int32, np.int64
Case = tuple[pl.LoopKernel, dict[str, Any], dict[str, Any]]


def threads(knl: pl.LoopKernel, iname: str = "i", size: int = 32) -> pl.LoopKernel:
    return pl.split_iname(knl, iname, size, outer_tag="g.0", inner_tag="l.0")


def parameter_like_an_iname() -> Case:
    data = [pl.GlobalArg("a", F, shape="n + 1"), pl.GlobalArg("y", F, shape="n"), ...]
    knl = threads(pl.make_kernel("{[i]: 0 <= i < n}", "f(i) := 2*a[i]\ny[i] = f(i + 1)", data))
    a = np.arange(101, dtype=F)
    return pl.rename_iname(knl, "i_inner", "p"), {"a": a}, {"y": 2 * a[1:]}


def rule_over_another_iname() -> Case:
    data = [pl.GlobalArg("a", L, shape="n, n"), pl.GlobalArg("w", L, shape="n"), ...]
    knl = pl.make_kernel("{[k, q]: 0 <= k, q < n}", "f(p) := sum(q, a[q, p])\nw[k] = f(k)", data)
    a = np.arange(49).reshape(7, 7)
    return threads(pl.rename_iname(knl, "q", "p"), "k"), {"a": a}, {"w": a.sum(0)}


def rule_of_a_callee() -> Case:
    data = [pl.GlobalArg("v, out", shape="m"), ...]
    twice = pl.make_function("{[k]: 0 <= k < m}", "g(i) := 2*v[i]\nout[k] = g(k)", data, name="twice")
    rows = [pl.GlobalArg("a, rows", L, shape="n, n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "for i\n rows[i, :] = twice(a[i, :])\nend", rows, functions=[twice])
    a = np.arange(25).reshape(5, 5)
    return threads(knl), {"a": a}, {"rows": 2 * a}


def numerator_beyond_32_bits() -> Case:
    data = [pl.GlobalArg("x", J, shape="61"), pl.GlobalArg("y", J, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[(7919*i) % 61]", data)
    x, n = np.arange(61, dtype=J), 300_000
    return threads(knl, size=256), {"x": x, "n": n}, {"y": x[(7919 * np.arange(n)) % 61]}


def window_beyond_32_bits() -> Case:
    data = [pl.GlobalArg("y", L, shape="3"), pl.ValueArg("n", L), ...]
    knl = pl.make_kernel("{[i]: n - 3 <= i < n}", "y[i - n + 3] = i", data)
    return knl, {"n": 2**33}, {"y": np.array([2**33 - 3, 2**33 - 2, 2**33 - 1])}


def number_beyond_32_bits() -> Case:
    data = [pl.GlobalArg("x, y", L, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + i*1000000000", data)
    x = np.arange(100)
    return threads(knl), {"x": x}, {"y": x + x * 10**9}


def sums_that_wrap() -> Case:
    data = [pl.GlobalArg("x, y", J, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]*x[i] + 2147483647 - (-x[i])", data)
    x = np.array([2**31 - 1, -(2**31), 65536, -1, 0], J)
    with np.errstate(all="ignore"):
        return threads(knl), {"x": x}, {"y": x * x + J(2147483647) + x}


def complement_beside_unsigned() -> Case:
    data = [pl.GlobalArg("x, y", np.uint64, shape="n"), ...]
    x = np.array([2**40 + 13, 2**63 + 9, 7], np.uint64)
    return threads(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] & ~7", data)), {"x": x}, {"y": x & ~np.uint64(7)}


def no_terms() -> Case:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", "y[i] = sum(k, a[i, k])", data)
    return threads(knl), {"a": np.zeros((70, 0), F), "y": np.full(70, 7, F)}, {"y": np.zeros(70, F)}


def no_terms_of_a_tiled_product() -> Case:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("b", F, shape="m, n"), pl.GlobalArg("c", F, shape="n, n")]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j < n and 0 <= k < m}", "c[i, j] = sum(k, a[i, k]*b[k, j])", [*data, ...])
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0"), "k", 16)
    knl = pl.add_prefetch(pl.add_prefetch(knl, "a", ["i_inner", "k_inner"]), "b", ["k_inner", "j_inner"])
    empty = {"a": np.zeros((33, 0), F), "b": np.zeros((0, 33), F), "c": np.full((33, 33), 7, F)}
    return knl, empty, {"c": np.zeros((33, 33), F)}


def barrier_in_a_loop() -> Case:
    text = "<> t = 1\nfor j\n  out[j] = t\n  ... lbarrier\n  t = 10\nend"
    knl = pl.make_kernel("{[j]: 0 <= j < 5}", text, [pl.GlobalArg("out", J, shape="5"), ...], seq_dependencies=True)
    return knl, {}, {"out": np.array([1, 10, 10, 10, 10], J)}


def wide_copies_into_a_swizzled_array() -> Case:
    data = [pl.GlobalArg("a, b", D, shape="16, 16"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 16}", "b[i, j] = a[i, j]", data)
    knl = pl.add_prefetch(pl.tag_inames(knl, "i:l.1, j:l.0"), "a", ["i", "j"], vec=4)
    a = np.arange(256.0).reshape(16, 16)
    return pl.swizzle(knl, "a_fetch"), {"a": a}, {"b": a}


def vectors_of_four_doubles() -> Case:
    data = [pl.GlobalArg("a, b", D, shape="n, 4", dim_tags="N0,vec"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 4}", "b[i, j] = 3*a[i, j]", data)
    a = np.arange(40.0).reshape(10, 4)
    return threads(pl.tag_inames(knl, "j:vec")), {"a": a}, {"b": 3 * a}


def names_of_others() -> Case:
    data = [pl.GlobalArg("sqrtf, INT8_MAX, linux, stream, out", F, shape="n"), ...]
    text = "out[threadIdx_] = max(sqrtf[threadIdx_], sqrt(INT8_MAX[threadIdx_])) + linux[threadIdx_]*stream[threadIdx_]"
    knl = pl.make_kernel("{[threadIdx_]: 0 <= threadIdx_ < n}", text, data, name="read")
    a = np.arange(1, 51, dtype=F)
    given = {"sqrtf": a, "INT8_MAX": 4 * a, "linux": a + 1, "stream": a - 2}
    return threads(knl, "threadIdx_"), given, {"out": np.maximum(a, np.sqrt(4 * a)) + (a + 1) * (a - 2)}


def more_rows_than_blocks_along_y() -> Case:
    data = [pl.GlobalArg("x", F, shape="n, m"), pl.GlobalArg("y", F, shape="n, m"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i, j] = 2*x[i, j]", data)
    knl = pl.tag_inames(pl.split_iname(knl, "j", 32, outer_tag="g.1", inner_tag="l.0"), "i:g.0")
    x = np.arange(70_000 * 3, dtype=F).reshape(70_000, 3)
    return knl, {"x": x}, {"y": 2 * x}


CASES: Final[list[Callable[[], Case]]] = [
    parameter_like_an_iname, rule_over_another_iname, rule_of_a_callee, numerator_beyond_32_bits, window_beyond_32_bits,
    number_beyond_32_bits, sums_that_wrap, complement_beside_unsigned, no_terms, no_terms_of_a_tiled_product,
    barrier_in_a_loop, wide_copies_into_a_swizzled_array, vectors_of_four_doubles, names_of_others,
    more_rows_than_blocks_along_y,
]  # fmt: skip
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


def copies(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}


def agree(found: Any, wanted: dict[str, Any], where: str) -> None:
    for name, want in wanted.items():
        np.testing.assert_allclose(found[name], want, rtol=1e-6, err_msg=f"{where}: {name}")


@cases
def test_on_the_processor(case: Callable[[], Case]) -> None:
    knl, given, wanted = case()
    assert pl.verify(knl).proofs
    agree(pl.compile(knl, target=pl.CTarget())(**copies(given)), wanted, "C")
    orders = ("forward",) if case is more_rows_than_blocks_along_y else ORDERS[:2]
    bits = 64 if case in {numerator_beyond_32_bits, window_beyond_32_bits} else None
    program = pl.generate_code(knl, target=pl.CudaTarget(), index_bits=bits)
    for order, found in run_on_fibres(program, copies(given), orders=orders).items():
        agree(found, wanted, order)


@pytest.mark.gpu
@cases
def test_on_a_gpu(case: Callable[[], Case]) -> None:
    knl, given, wanted = case()
    agree(pl.compile(knl, target=pl.CudaTarget())(**copies(given)), wanted, "GPU")


@pytest.mark.gpu
def test_too_many_rows_along_y_are_refused_on_a_gpu() -> None:
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", F, shape="n, m"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i, j] = 2*x[i]", data)
    knl = pl.tag_inames(pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0"), "i:g.1")
    with pytest.raises(pl.ArgumentError) as error:
        pl.compile(knl, target=pl.CudaTarget())(x=np.ones(70_000, F), m=3)
    assert error.value.codes == ("grid-too-large",)
