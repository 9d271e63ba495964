"""Addresses are added term by term: what is added before something is subtracted does not overflow either."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.running import needs_compiler

pytestmark = needs_compiler
FAR = 2**31 - 3


def kernel(order: str, far: int) -> pl.LoopKernel:
    subscripts = f"i, j - {far}" if order == "C" else f"j - {far}, i"
    array = pl.GlobalArg("y", np.float64, shape="n, n", order=order)
    domain = f"{{[i, j]: 0 <= i < n and {far} <= j < n + {far}}}"
    return pl.make_kernel(domain, f"y[{subscripts}] = i + 10*(j - {far})", [array, ...], silenced_warnings="*")


@pytest.mark.few(10)
@pytest.mark.parametrize("far", [FAR, 2**31 - 20, 2**31 + 5, 2**30])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 40])
def test_inames_far_off(order: str, far: int, n: int) -> None:
    knl = kernel(order, far)
    i, j = np.indices((n, n))
    expected = i + 10.0 * j if order == "C" else j + 10.0 * i
    y = np.zeros((n, n)) if order == "C" else np.zeros((n, n)).T
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(y=y, n=n).y, expected)


def test_threads_far_off() -> None:
    knl = pl.split_iname(kernel("C", FAR), "i", 4, outer_tag="g.0", inner_tag="l.0")
    text = pl.generate_code(knl, target=pl.CudaTarget(), index_bits=64)
    for result in run_on_fibres(text, {"y": np.zeros((5, 5)), "n": 5}).values():
        i, j = np.indices((5, 5))
        np.testing.assert_array_equal(result.y, i + 10.0 * j)
    with pytest.raises(pl.ArgumentError) as caught:
        run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget(), index_bits=32), {"y": np.zeros((5, 5)), "n": 5})
    assert caught.value.codes == ("index-overflow",)


def test_a_stencil_has_no_more_checks_than_its_arrays() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}", "y[i, j] = x[i, j - 1] + x[i, j + 1] + x[i - 1, j]",
        [pl.GlobalArg("x, y", np.float32, shape="n, n"), ...],
    )  # fmt: skip
    checks = pl.generate_code(knl, target=pl.CTarget()).index_checks
    assert [str(check.condition) for check in checks] == ["n*n <= 2147483647"]


@pytest.mark.parametrize("slabs", [(1, 0), (1, 1), (0, 1)])
def test_iterations_apart_say_nothing_of_the_others(slabs: tuple[int, int]) -> None:
    """An iteration that is written apart has a constant for the iname; the loop behind it has not."""
    knl = pl.make_kernel(
        f"[n] -> {{[i, j]: 0 <= i - {FAR + 1} < 4 and 1 <= j < n}}",
        f"<> s = x[i - {FAR + 1} + 3]\ny[j] = s {{dep=*}}",
        [pl.GlobalArg("x, y", np.float64, shape="n + 8"), ...], silenced_warnings="*",
    )  # fmt: skip
    knl = pl.chunk_iname(knl, "i", 4, inner_tag="g.0", slabs=slabs)
    arguments = {"x": np.arange(10.0), "y": np.zeros(10), "n": 2}
    for bits in (32, 64):
        program = pl.generate_code(knl, target=pl.CudaTarget(), index_bits=bits)
        assert program.index_bits == 64
        for result in run_on_fibres(program, arguments).values():
            assert result.y[1] == 6.0


@pytest.mark.parametrize(
    "subscript", ["k[i] & 1023", "1023 & k[i]", "(k[i] ^ m[i]) & 1023", "(k[i] & 255) << 2", "~k[i] & 7"]
)
def test_bits_of_a_number_without_a_sign_are_no_more_than_it_has(subscript: str) -> None:
    """Tables of hashes need no indices of 64 bits."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", f"y[i] = x[{subscript}]",
        [pl.GlobalArg("k, m", np.int32, shape="n"), pl.GlobalArg("x", np.float32, shape="1024"),
         pl.GlobalArg("y", np.float32, shape="n"), ...],
    )  # fmt: skip
    conditions = [str(check.condition) for check in pl.generate_code(knl, target=pl.CTarget()).index_checks]
    assert all(condition == "n <= 2147483647" for condition in conditions)
