"""Wrong arguments: a clear error at the call, nothing is written or kept, and the next right call is as before."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import polyloop as pl

F = np.float32


class Elsewhere:
    """An array that lends memory of another device."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 8, 0  # Metal

    def __dlpack__(self, **_: Any) -> Any:
        return self._array.__dlpack__()


class Loud:
    """An array whose protocol raises."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise RuntimeError("out of order")

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("out of order")


WRONG: dict[str, tuple[Callable[[], dict[str, Any]], set[str]]] = {
    "negative strides": (lambda: {"x": np.ones(8, F)[::-1]}, {"wrong-strides"}),
    "every other element": (lambda: {"x": np.ones(16, F)[::2]}, {"wrong-strides"}),
    "elements at one address": (
        lambda: {"x": np.ones(8, F), "y": as_strided(np.ones(8, F), (8,), (0,))}, {"wrong-strides"}),
    "another type": (lambda: {"x": np.ones(8)}, {"wrong-dtype"}),
    "another number of axes": (lambda: {"x": np.ones((2, 4), F)}, {"wrong-rank", "wrong-shape"}),
    "another device": (lambda: {"x": Elsewhere(np.ones(8, F))}, {"wrong-device", "wrong-type"}),
    "a protocol that raises": (lambda: {"x": Loud()}, {"wrong-type", "callback-failed", "wrong-device"}),
    "no array": (lambda: {"x": [1.0] * 8}, {"wrong-type"}),
    "an output that is read-only": (
        lambda: {"x": np.ones(8, F), "y": np.broadcast_to(F(0), 8)}, {"read-only-output", "wrong-strides"}),
    "an unknown name": (lambda: {"x": np.ones(8, F), "w": 1}, {"unknown-argument"}),
    "a stream": (lambda: {"x": np.ones(8, F), "stream": 7}, {"no-stream"}),
}  # fmt: skip


def callees(folder: Path) -> dict[str, Callable[..., Any]]:
    data = [pl.GlobalArg("x, y", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", data, name="twice")
    pl.export(knl, folder, target=pl.CTarget(), bundle=True)
    return {"compiled": pl.compile(knl, target=pl.CTarget()), "bundle": pl.load(folder)}


@pytest.mark.usefixtures("young_heap")
@pytest.mark.parametrize("callee", ["compiled", "bundle"])
def test_wrong_arguments_leave_nothing(tmp_path: Path, callee: str) -> None:
    run = callees(tmp_path)[callee]
    for name, (make, codes) in WRONG.items():
        given = make()
        kept = [weakref.ref(value) for value in given.values() if isinstance(value, np.ndarray)]
        before = [np.array(value) for value in given.values() if isinstance(value, np.ndarray)]
        for _ in range(3):
            with pytest.raises(pl.PolyloopError) as caught:
                run(**given)
            if callee == "compiled":
                assert codes & {*caught.value.codes}, (name, caught.value.codes)
        after = [np.array(value) for value in given.values() if isinstance(value, np.ndarray)]
        assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True)), name
        del given, caught
        gc.collect()
        assert [ref() for ref in kept] == [None] * len(kept), f"{name}: an array is kept"
        assert run(x=np.ones(8, F)).y.tolist() == [2.0] * 8
