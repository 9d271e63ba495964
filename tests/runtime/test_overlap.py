"""Arrays that share memory with one that is written are refused at the call, wherever they lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.arguments import Binder
from polyloop.runtime.gpuarrays import DeviceMemory
from polyloop.runtime.views import HostMemory

F = np.float32


def program(stride: int = 1) -> pl.GeneratedProgram:
    """Return ``z[i] = x[i] + y[i]``, elements *stride* apart."""
    data = [pl.GlobalArg("x, y, z", F, shape="n", strides=(stride,)), ...]
    return pl.generate_code(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = x[i] + y[i]", data, name="add"))


def torch_tensor(pointer: int, size: int, stride: int) -> Any:
    """Return what has the attributes of a Torch tensor on a GPU."""

    class Tensor:
        __module__ = "torch"
        is_cuda, dtype, shape, device = True, "torch.float32", (size,), SimpleNamespace(index=0)

        def stride(self) -> tuple[int]:
            return (stride,)

        def data_ptr(self) -> int:
            return pointer

    return Tensor()


def cupy_array(pointer: int, size: int, stride: int) -> Any:
    """Return what has the attributes of a CuPy array."""

    class Ndarray:
        __module__ = "cupy"
        data, dtype, shape, strides = SimpleNamespace(ptr=pointer), F, (size,), (4 * stride,)
        device = SimpleNamespace(id=0)

    return Ndarray()


def foreign_array(pointer: int, size: int, stride: int) -> Any:
    """Return an array of another library, which describes itself by ``__cuda_array_interface__``."""
    interface = {"shape": (size,), "typestr": "<f4", "strides": (4 * stride,), "version": 3, "data": (pointer, False)}
    return type("Array", (), {"__cuda_array_interface__": interface})()


def numpy_array(pointer: int, size: int, stride: int) -> Any:
    return MEMORY[(pointer - 4096) // 4 :][: size * stride : stride]


MEMORY = np.zeros(256, F)
DEVICE = [torch_tensor, cupy_array, foreign_array]
"""Where the arrays of the tests lie: each at an address of its own, from 4096."""


def bind(make: Any, stride: int = 1, **places: tuple[int, int]) -> None:
    memory = HostMemory() if make is numpy_array else DeviceMemory()
    arrays = {name: make(4096 + 4 * first, size, stride) for name, (first, size) in places.items()}
    Binder(program(stride), memory).bind(arrays)


@pytest.mark.parametrize("make", [numpy_array, *DEVICE])
def test_an_array_that_begins_in_a_written_one_is_refused(make: Any) -> None:
    bind(make, x=(0, 8), y=(8, 8), z=(16, 8))
    with pytest.raises(pl.ArgumentError) as error:
        bind(make, x=(0, 8), y=(9, 8), z=(16, 8))
    assert error.value.codes == ("overlapping-arguments",)
    assert "'z' is written and overlaps 'y'" in str(error.value)
    assert "pass a copy of 'y'" in str(error.value)


@pytest.mark.parametrize("make", [numpy_array, *DEVICE])
def test_one_array_given_twice_is_refused_where_one_is_written(make: Any) -> None:
    bind(make, x=(0, 8), y=(0, 8), z=(8, 8))
    with pytest.raises(pl.ArgumentError) as error:
        bind(make, x=(0, 8), y=(8, 8), z=(0, 8))
    assert "'z' is written and overlaps 'x'" in str(error.value)


@pytest.mark.parametrize("make", [numpy_array, *DEVICE])
def test_elements_that_lie_between_each_other_do_not_overlap(make: Any) -> None:
    bind(make, stride=2, x=(0, 8), y=(0, 8), z=(1, 8))
    with pytest.raises(pl.ArgumentError):
        bind(make, stride=2, x=(0, 8), y=(0, 8), z=(4, 8))


@pytest.mark.parametrize("make", [numpy_array, *DEVICE])
def test_an_array_without_elements_overlaps_nothing(make: Any) -> None:
    bind(make, x=(3, 0), y=(3, 0), z=(3, 0))


def test_each_call_is_looked_at_again() -> None:
    binder = Binder(program(), DeviceMemory())
    one, other = cupy_array(4096, 8, 1), cupy_array(8192, 8, 1)
    for _ in range(2):
        binder.bind({"x": one, "y": one, "z": other})
        with pytest.raises(pl.ArgumentError):
            binder.bind({"x": one, "y": one, "z": one})


def test_arrays_of_two_libraries_are_compared_by_address() -> None:
    arrays = {"x": torch_tensor(4096, 8, 1), "y": cupy_array(8192, 8, 1), "z": foreign_array(4100, 8, 1)}
    with pytest.raises(pl.ArgumentError) as error:
        Binder(program(), DeviceMemory()).bind(arrays)
    assert "'z' is written and overlaps 'x'" in str(error.value)


def test_two_outputs_must_not_overlap() -> None:
    data = [pl.GlobalArg("x, y, z", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]\nz[i] = 2*x[i]", data, name="two")
    with pytest.raises(pl.ArgumentError) as error:
        pl.compile(knl, target=pl.CTarget())(x=np.ones(4, F), y=MEMORY[:4], z=MEMORY[3:7])
    assert error.value.codes == ("overlapping-arguments",)
