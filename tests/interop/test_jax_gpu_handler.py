"""The handler for a GPU, with a driver that launches on the host: what it checks, copies, launches and gives back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.interop import jaxcall
from polyloop.interop.jaxgpu import DRIVER, OnGpu
from polyloop.interop.operands import Operands
from polyloop.runtime.nvrtc import nvrtc_available
from tests.interop.libraries import required

jax = required("jax")
F = np.float32
_P, _I, _U, _S, _A = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_ulonglong
_TYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,),
    "cuLibraryLoadData": (_P, _P, _P, _P, _U, _P, _P, _U),
    "cuLibraryGetKernel": (_P, _P, ctypes.c_char_p),
    "cuKernelGetFunction": (_P, _P),
    "cuFuncSetAttribute": (_P, _I, _I),
    "cuStreamGetCtx": (_P, _P),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxPopCurrent_v2": (_P,),
    "cuLaunchKernel": (_P, *[_U] * 7, _P, ctypes.POINTER(_P), _P),
    "cuMemAllocAsync": (ctypes.POINTER(_A), _S, _P),
    "cuMemFreeAsync": (_A, _P),
    "cuMemcpyAsync": (_A, _A, _S, _P),
    "cuStreamSynchronize": (_P,),
    "cuGetErrorString": (_I, ctypes.POINTER(ctypes.c_char_p)),
    "cuMemsetD8Async": (_A, ctypes.c_ubyte, _S, _P),
}


_NUMBERS = count()


class Driver:
    """The functions of the driver over memory of the host; *launch* is given the grid, the block and the arguments."""

    def __init__(self, launch: Callable[..., int]) -> None:
        self.told: list[str] = []
        self.memory: dict[int, Any] = {}
        self._launch = launch
        for name in DRIVER:
            function = getattr(self, f"_{name}", None)
            setattr(self, name, ctypes.CFUNCTYPE(_I, *_TYPES[name])(self._telling(name, function)))

    def _telling(self, name: str, function: Any) -> Callable[..., int]:
        def call(*given: Any) -> int:
            self.told.append(name)
            return 0 if function is None else int(function(*given) or 0)

        return call

    def _cuLaunchKernel(self, *given: Any) -> int:  # noqa: N802
        return self._launch(given[1:4], given[4:7], given[9])

    def _cuMemAllocAsync(self, pointer: Any, size: int, _: Any) -> None:  # noqa: N802
        block = ctypes.create_string_buffer(size)
        pointer[0] = ctypes.addressof(block)
        self.memory[pointer[0]] = block

    def _cuMemFreeAsync(self, address: int, _: Any) -> None:  # noqa: N802
        del self.memory[address]

    def _cuMemsetD8Async(self, address: int, value: int, size: int, _: Any) -> None:  # noqa: N802
        ctypes.memset(address, value, size)

    def _cuMemcpyAsync(self, to: int, source: int, size: int, _: Any) -> None:  # noqa: N802
        ctypes.memmove(to, source, size)

    def _cuGetErrorString(self, _: int, text: Any) -> None:  # noqa: N802
        text[0] = b"an illegal instruction was encountered"


def value(arguments: Any, place: int, kind: Any) -> Any:
    return ctypes.cast(arguments[place], ctypes.POINTER(kind))[0]


def on_a_driver(kernel: pl.LoopKernel, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the JAX function of *kernel* whose handler for GPUs JAX takes for one for the CPU."""
    if not nvrtc_available()[0]:
        pytest.skip("no NVRTC")
    plain = jaxcall._registered

    def registered(text: str, prefix: str, _: Any) -> str:
        custom = made[-1]
        native = OnGpu.of(Operands("jax.call", kernel, pl.CudaTarget()))
        parts = {**native.parts, "ENTER": native.parts["ENTER"].replace(
            "XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&asked);", "XLA_FFI_Error *error = NULL;")}
        handler = native.handler(custom._text(native, parts), driver)
        name = f"{plain(text, prefix, None)}_{next(_NUMBERS)}"
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
        return name

    made: list[Any] = []
    begin = jaxcall._Call.__init__

    def remember(self: Any, operands: Any) -> None:
        made.append(self)
        begin(self, operands)

    monkeypatch.setattr(jaxcall._Call, "__init__", remember)
    monkeypatch.setattr(jaxcall, "_registered", registered)
    return jaxcall.call(kernel, backward=False)


def axpy() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i] + y[i]", [
        pl.GlobalArg("x, y, z", F, shape="n"), pl.ValueArg("s", F), ...], name="axpy", assumptions="n >= 1")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def launched(seen: list[Any]) -> Callable[..., int]:
    def launch(grid: Any, block: Any, arguments: Any) -> int:
        x, y, z = (np.ctypeslib.as_array(ctypes.cast(value(arguments, k, _P), ctypes.POINTER(ctypes.c_float)), (40,))
                   for k in range(3))  # fmt: skip
        s, n = value(arguments, 3, ctypes.c_float), value(arguments, 4, _I)
        seen.append((grid, block, n))
        z[:n] = s * x[:n] + y[:n]
        return 0

    return launch


def test_a_launch_in_jit_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    driver = Driver(launched(seen))
    f = on_a_driver(axpy(), driver, monkeypatch)
    x, y = np.arange(40, dtype=F), np.ones(40, F)
    run = jax.jit(lambda x, y: f(x=x, y=y, s=F(3)) * 2)
    for _ in range(3):
        np.testing.assert_array_equal(run(x, y), 2 * (3 * x + y))
    assert seen == [((2, 1, 1), (32, 1, 1), 40)] * 3
    assert driver.told.count("cuLibraryLoadData") == 1, "the code is loaded once"
    assert driver.told.count("cuStreamSynchronize") == 3, "it waits for the number, and for nothing else"
    assert driver.told.count("cuLaunchKernel") == 3


def test_batches_of_vmap(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    f = on_a_driver(axpy(), Driver(launched(seen)), monkeypatch)
    x, y, s = np.arange(120, dtype=F).reshape(3, 40), np.ones(40, F), np.array([1, 2, 3], F)
    found = jax.jit(jax.vmap(lambda x, y, s: f(x=x, y=y, s=s), (0, None, 0)))(x, y, s)
    np.testing.assert_array_equal(found, s[:, None] * x + y)
    assert len(seen) == 3


def test_an_array_that_is_changed_is_copied_first_and_workspace_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", """
        <> t[i] = 2*y[i] {id=first}
        ... gbarrier
        y[j] = y[j] + t[n - 1 - j] {dep=first}
        """, [pl.GlobalArg("y", F, shape="n"), pl.TemporaryVariable("t", shape="n", address_space="global"), ...],
        name="flip", assumptions="n >= 1")  # fmt: skip
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    steps: list[int] = []

    def launch(_: Any, __: Any, arguments: Any) -> int:
        steps.append(1)
        names = [value(arguments, k, _P) for k in (0, 2)]
        y, t = (np.ctypeslib.as_array(ctypes.cast(p, ctypes.POINTER(ctypes.c_float)), (8,)) for p in names)
        if len(steps) % 2:
            t[:] = 2 * y
        else:
            y += t[::-1]
        return 0

    driver = Driver(launch)
    f = on_a_driver(knl, driver, monkeypatch)
    y = np.arange(8, dtype=F)
    np.testing.assert_array_equal(jax.jit(lambda y: f(y=y))(y), y + 2 * y[::-1])
    np.testing.assert_array_equal(y, np.arange(8))
    assert driver.told.count("cuMemAllocAsync") == driver.told.count("cuMemFreeAsync") == 1
    assert driver.memory == {}


def test_an_error_of_the_driver_is_one_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    f = on_a_driver(axpy(), Driver(lambda *_: 715), monkeypatch)
    x = np.ones(40, F)
    with pytest.raises(Exception, match="kernel 'axpy': an illegal instruction was encountered"):
        jax.block_until_ready(jax.jit(lambda x: f(x=x, y=x, s=F(3)))(x))


def test_a_handler_of_a_gpu_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if not nvrtc_available()[0]:
        pytest.skip("no NVRTC")
    driver, begin = Driver(lambda *_: 0), OnGpu.handler
    monkeypatch.setattr(jaxcall, "has_gpu", lambda: True)
    monkeypatch.setattr(jaxcall, "gpu_target", lambda _: pl.CudaTarget("sm_90"))
    monkeypatch.setattr(OnGpu, "handler", lambda self, text: begin(self, text, driver))
    knl = pl.rename_argument(axpy(), "s", "factor")
    there = jaxcall.call(knl, backward=False)
    again = jaxcall.call(knl, backward=False)
    assert there._custom.runs_on == ("cpu", "gpu")
    assert there._custom._name == again._custom._name
    monkeypatch.setattr(jaxcall, "has_gpu", lambda: False)
    x = np.arange(40, dtype=F)
    np.testing.assert_array_equal(there(x=x, y=x, factor=F(2)), 3 * x)
    assert jaxcall._Call(there._forward)._name != there._custom._name
