"""The one reader of arrays: memory lent by DLPack or an array interface, read-only or not, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.foreign.capsule import dlpack_dtype, dlpack_view
from polyloop.runtime.foreign.readers import array_view, is_device_array
from polyloop.runtime.foreign.view import ArrayKind

F = np.float32


class Lent:
    """An array of some library, which lends the memory of a NumPy array by DLPack."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0), *, versions: bool = True) -> None:
        self.inner, self.device, self.versions, self.streams = array, device, versions, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if options and not self.versions:
            raise TypeError("no such options")
        self.streams.append(stream)
        return self.inner.__dlpack__(**options)


@pytest.fixture(scope="module")
def run() -> Any:
    data = [pl.GlobalArg("x, z", F, shape="n"), ...]
    return pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = 2*x[i]", data, name="twice"), target=pl.CTarget())


def refused(call: Any) -> str:
    with pytest.raises(pl.ArgumentError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("versions", [False, True])
def test_lent_memory_is_read_and_written_where_it_lies(run: Any, versions: bool) -> None:
    x, z = np.arange(4, dtype=F), np.zeros(4, F)
    lent = Lent(z, versions=versions)
    for _ in range(3):
        assert run(x=Lent(x, versions=versions), z=lent).z is lent
        assert np.array_equal(z, 2 * x)
        z[:] = 0
    assert isinstance(run(x=Lent(x)).z, np.ndarray)


def test_layouts_of_lent_memory() -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::-3]
    view = array_view("k", "a", Lent(array))
    assert (view.kind, view.shape, view.strides, view.dtype, view.device) == (
        ArrayKind.HOST, (2, 2), (12, -3), np.dtype(np.int16), -1)
    assert view.pointer == array.__array_interface__["data"][0]
    assert view.array.inner is array


def test_memory_lent_for_reading_is_no_output(run: Any) -> None:
    x, z = np.arange(4, dtype=F), np.zeros(4, F)
    x.flags.writeable = z.flags.writeable = False
    assert np.array_equal(run(x=Lent(x)).z, 2 * x)
    assert "'z' is written by the kernel and is read-only [read-only-output]" in refused(lambda: run(x=x, z=Lent(z)))
    assert "[wrong-type]\n  Note: BufferError" in refused(lambda: run(x=Lent(x, versions=False)))


def test_overlaps_of_lent_memory_are_found(run: Any) -> None:
    x = np.zeros(8, F)
    assert "[overlapping-arguments]" in refused(lambda: run(x=Lent(x[:4]), z=Lent(x[2:6])))
    assert "[wrong-strides]" in refused(lambda: run(x=Lent(x[:4]), z=Lent(x[7:3:-1])))


@pytest.mark.parametrize("device", [(2, 0), (8, 0), (13, 0)])
def test_memory_of_other_devices_is_refused(run: Any, device: tuple[int, int]) -> None:
    assert "[wrong-device]" in refused(lambda: run(x=Lent(np.ones(4, F), device)))


@pytest.mark.parametrize(
    ("code", "bits", "name"), [(4, 16, "bfloat16"), (10, 8, "float8_e4m3fn"), (12, 8, "float8_e5m2")]
)
def test_types_that_numpy_has_not_are_read(code: int, bits: int, name: str) -> None:
    """``DLDataTypeCode`` of ``dlpack.h``: kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2."""
    assert dlpack_dtype("k", "x", code, bits, 1) == np.dtype(name)
    with pytest.raises(pl.ArgumentError):
        dlpack_dtype("k", "x", code, bits, 2)


def test_a_device_without_kernels_is_named() -> None:
    found = refused(lambda: dlpack_view("k", "x", Lent(np.ones(4, F), (8, 2)), (ArrayKind.HOST, ArrayKind.CUDA)))
    assert "'x' is on a device that no kernel runs on [wrong-device]\n  Note: its DLPack device is (8, 2)" in found


@pytest.mark.parametrize("device", [(2, 3), (13, 3)])
def test_memory_of_a_gpu_is_read_in_the_order_of_the_default_stream(device: tuple[int, int]) -> None:
    lent = Lent(np.ones((2, 3), F), device)
    view = array_view("k", "x", lent)
    assert (view.kind, view.device, view.stream, lent.streams) == (ArrayKind.CUDA, 3, 1, [1])
    assert is_device_array(lent)


def interface(**more: Any) -> Any:
    """Return an array as Numba describes its own."""
    given = {"shape": (4,), "typestr": "<f4", "version": 3, "data": (4096, False), **more}
    return type("Array", (), {"__cuda_array_interface__": given})()


def test_an_array_interface_is_read() -> None:
    view = array_view("k", "x", interface(data=(4096, True), stream=7, strides=(8,)))
    assert (view.kind, view.pointer, view.strides) == (ArrayKind.CUDA, 4096, (2,))
    assert (view.writeable, view.stream) == (False, 7)
    assert "wrong-strides" in refused(lambda: array_view("k", "x", interface(strides=(6,))))
    assert "a kernel reads masked elements too" in refused(lambda: array_view("k", "x", interface(mask=interface())))
    assert is_device_array(interface())


def test_pinned_memory_is_memory_of_the_host(run: Any) -> None:
    x = np.arange(4, dtype=F)
    assert np.array_equal(run(x=Lent(x, (3, 0))).z, 2 * x)


class Once:
    """An array of which there is one capsule."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


class Consumed(Lent):
    """An array whose library lends a capsule that another has consumed."""

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        capsule = super().__dlpack__(stream=stream, **options)
        np.from_dlpack(Once(capsule))
        return capsule


class Wrong(Lent):
    """An array whose library lends no capsule."""

    def __dlpack__(self, **_: Any) -> Any:
        return 5


@pytest.mark.parametrize("kind", [Consumed, Wrong])
def test_what_is_no_capsule_is_refused(run: Any, kind: type[Lent]) -> None:
    x = np.arange(4, dtype=F)
    assert "the library of 'x' does not lend its memory [wrong-type]" in refused(lambda: run(x=kind(x)))


def test_an_array_without_memory_is_refused(run: Any) -> None:
    class Nowhere:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012

    assert "'x' has no memory that holds its elements" in refused(lambda: array_view("k", "x", Nowhere()))
    assert run(x=np.zeros(0, F)).z.size == 0


@pytest.mark.parametrize("value", [[1.0], "x", 1.0, object()])
def test_what_is_no_array_is_refused(value: Any) -> None:
    assert "'x' must be an array [wrong-type]" in refused(lambda: array_view("k", "x", value))
