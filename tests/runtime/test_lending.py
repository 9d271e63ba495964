"""Arrays that are lent by DLPack: capsules as libraries read them, of both forms, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.foreign import lending
from polyloop.runtime.foreign.capsule import DLVersioned, dlpack_view
from polyloop.runtime.foreign.view import ArrayKind

HOST = (ArrayKind.HOST, ArrayKind.CUDA)


def refused(call: Any) -> str:
    with pytest.raises(pl.ArgumentError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("array", [
    np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(2, 3, 4)[:, ::-1, ::2].T, np.zeros((0, 3)),
    np.array(7, np.int8), np.ones(3, np.complex64), np.array([True, False]), np.ones(5, np.float16),
], ids=lambda x: f"{x.dtype}{list(x.shape)}")  # fmt: skip
def test_numpy_reads_what_is_lent(array: Any) -> None:
    found = np.from_dlpack(pl.as_dlpack(array))
    assert np.array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    if array.size:
        assert np.shares_memory(found, array)
        assert found.flags.writeable
    copy = np.from_dlpack(pl.as_dlpack(array), copy=True)
    assert np.array_equal(copy, array)
    assert not np.shares_memory(copy, array)
    assert np.from_dlpack(pl.as_dlpack(array), device="cpu").shape == array.shape


def test_what_is_read_only_is_lent_so_or_not_at_all() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    lent = pl.as_dlpack(array)
    assert not np.from_dlpack(lent).flags.writeable
    assert "[not-lent]\n  Note: it is read-only, which DLPack before version 1 cannot say" in refused(lent.__dlpack__)
    assert np.from_dlpack(lent, copy=True).flags.writeable
    plain = lent.__dlpack__(copy=True)  # a copy may be written, which the old form can say
    assert "dltensor" in repr(plain)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_types_that_numpy_does_not_lend(dtype: Any) -> None:
    array = np.arange(6).astype(dtype)[::2]
    for version in (None, (1, 1)):
        class Given:
            __dlpack_device__ = staticmethod(pl.as_dlpack(array).__dlpack_device__)

            def __dlpack__(self, **how: Any) -> Any:
                return pl.as_dlpack(array).__dlpack__(**{**how, "max_version": version})  # noqa: B023

        view = dlpack_view("k", "x", Given(), HOST)
        assert (view.pointer, view.dtype, view.shape, view.strides) == (
            array.__array_interface__["data"][0], array.dtype, (3,), (2,))


def test_a_kernel_takes_it_as_it_takes_the_array() -> None:
    run = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float64), ...]),
                     target=pl.CTarget())  # fmt: skip
    x, y = np.arange(5.0), np.zeros(5)
    for _ in range(3):
        run(x=pl.as_dlpack(x), y=pl.as_dlpack(y))
    assert y.tolist() == (2 * x).tolist()


def test_memory_lives_until_its_reader_lets_it_go() -> None:
    class Kept(np.ndarray[Any, Any]):
        pass

    before = len(lending._LIVE)
    array = np.arange(4.0).view(Kept)
    gone = weakref.ref(array)
    found = np.from_dlpack(pl.as_dlpack(array))
    unread = [pl.as_dlpack(array).__dlpack__(max_version=version) for version in (None, (1, 0))]
    del array
    gc.collect()
    assert gone() is not None
    assert len(lending._LIVE) == before + 3
    del unread
    assert len(lending._LIVE) == before + 1
    thread = threading.Thread(target=found.sum)
    thread.start()
    thread.join()
    del found
    gc.collect()
    assert gone() is None
    assert len(lending._LIVE) == before


def test_the_form_says_what_it_was_asked() -> None:
    array = np.arange(4.0)
    lent = pl.as_dlpack(array)
    assert lent.__dlpack_device__() == (1, 0)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for version in (None, (0, 8)):
        assert get(lent.__dlpack__(max_version=version), b"dltensor")
    for copy, flags in ((None, 0), (False, 0), (True, 2)):
        capsule = lent.__dlpack__(max_version=(1, 3), copy=copy)
        found = DLVersioned.from_address(get(capsule, b"dltensor_versioned"))
        assert (found.major, found.flags, found.tensor.ndim, found.tensor.lanes) == (1, flags, 1, 1)
        assert (found.tensor.data == array.ctypes.data) is (copy is not True)


def test_what_cannot_be_lent_is_refused() -> None:
    lent = pl.as_dlpack(np.arange(4.0))
    assert "it is on the device (1, 0), not (2, 0)" in refused(lambda: lent.__dlpack__(dl_device=(2, 0)))
    assert "which has no stream 1" in refused(lambda: lent.__dlpack__(stream=1))
    assert "[wrong-type]" in refused(lambda: pl.as_dlpack("text"))
    assert "[wrong-dtype]" in refused(lambda: pl.as_dlpack(np.zeros(3, "f4,i4")))
    assert "[wrong-dtype]" in refused(lambda: pl.as_dlpack(np.zeros(3, ">f4")))
    apart = np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (2,), (6,))
    assert "[wrong-strides]" in refused(lambda: pl.as_dlpack(apart))


def test_torch_reads_what_numpy_does_not_lend() -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(6).astype(ml_dtypes.bfloat16).reshape(2, 3)
    found = torch.from_dlpack(pl.as_dlpack(array))
    assert found.dtype == torch.bfloat16
    assert found.data_ptr() == array.__array_interface__["data"][0]
    found.add_(1)
    assert array.astype(int).ravel().tolist() == [1, 2, 3, 4, 5, 6]
