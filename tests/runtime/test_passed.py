"""Masked arrays, arrays whose elements share memory, and outputs that no memory can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

SCALE = pl.make_kernel(
    "{[i]: 0 <= i < n}", "y[i] = f*x[i]", name="scale",
    kernel_data=[
        pl.GlobalArg("x, y", np.float64, shape="n", dim_tags="stride:auto"), pl.ValueArg("f", np.float64), ...])
FILL = pl.make_kernel(
    "{[i, j]: 0 <= i, j < n}", "y[i, j] = 1.0",
    [pl.GlobalArg("y", np.float64, shape="n, n", dim_tags="stride:auto, stride:auto"), ...], name="fill")
OUTER = pl.make_kernel(
    "{[i, j]: 0 <= i, j < n}", "y[i, j] = x[i]*x[j]", [pl.GlobalArg("x", np.float64), ...], name="outer")
RUNS: dict[str, Callable[[pl.LoopKernel], Callable[..., Any]]] = {
    "C": lambda knl: pl.compile(knl, target=pl.CTarget()),
    "bind": lambda knl: pl.compile(knl, target=pl.CTarget()).bind,
    "interpreter": lambda knl: lambda **given: pl.interpret(knl, **given),
    "fibres": lambda knl: lambda **given: run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given),
    "equivalence": lambda knl: lambda **given: pl.check_equivalence(knl, knl, inputs=given, target=pl.CTarget()),
}


def masked(mask: Any) -> Any:
    return np.ma.array([1.0, 2.0, 3.0], mask=mask)


@pytest.mark.parametrize("mask", [[0, 1, 0], [0, 0, 0], False, np.ma.nomask])
@pytest.mark.parametrize("way", sorted(RUNS))
def test_a_masked_array_is_refused(way: str, mask: object) -> None:
    for given in ({"x": masked(mask), "y": np.zeros(3)}, {"x": np.ones(3), "y": masked(mask)}):
        with pytest.raises(pl.ArgumentError) as refused:
            RUNS[way](SCALE)(**given, f=2.0)
        assert refused.value.codes == ("wrong-type",)
        assert "is a masked array" in str(refused.value)


def test_a_masked_number_is_refused() -> None:
    for way in ("C", "interpreter"):
        with pytest.raises(pl.ArgumentError, match="'f' is a masked array"):
            RUNS[way](SCALE)(x=np.ones(3), y=np.zeros(3), f=np.ma.masked)


def test_a_masked_array_is_refused_after_a_call_with_its_data(golden: Callable[[str, str], None]) -> None:
    run = pl.compile(SCALE, target=pl.CTarget())
    x, y = np.ones(3), np.zeros(3)
    for _ in range(3):
        run(x=x, y=y, f=2.0)
    with pytest.raises(pl.ArgumentError) as refused:
        run(x=np.ma.array(x, mask=[False, True, False], copy=False), y=y, f=2.0)
    golden("messages/call_masked_array.txt", str(refused.value))


@pytest.mark.parametrize(
    "strides", [(8, 8), (16, 24), (0, 8), (8, 0), (-16, 24)], ids=["diagonal", "comb", "rows", "columns", "backwards"])
def test_a_written_array_whose_elements_share_memory_is_refused(strides: tuple[int, int]) -> None:
    y = as_strided(np.zeros(100)[50:], (4, 4), strides)
    for way in ("C", "fibres"):
        with pytest.raises(pl.ArgumentError) as refused:
            RUNS[way](FILL)(y=y)
        assert refused.value.codes == ("overlapping-elements",)


def test_arrays_that_lie_between_each_others_elements_are_taken() -> None:
    both = np.arange(10.0)
    RUNS["C"](SCALE)(x=both[::2], y=both[1::2], f=2.0)
    np.testing.assert_array_equal(both, [0, 0, 2, 4, 4, 8, 6, 12, 8, 16])
    RUNS["C"](SCALE)(x=as_strided(np.ones(1), (5,), (0,)), y=both[::-2], f=3.0)
    np.testing.assert_array_equal(both[1::2], np.full(5, 3.0))


@pytest.mark.parametrize("way", ["C", "interpreter"])
def test_an_output_that_no_memory_can_hold_is_refused(way: str, golden: Callable[[str, str], None]) -> None:
    with pytest.raises(pl.ArgumentError) as refused:
        RUNS[way](OUTER)(x=np.zeros(10**7))
    assert refused.value.codes == ("too-large",)
    text = str(refused.value)
    golden(f"messages/{way.lower()}_too_large.txt", text[: text.index("MemoryError")])
