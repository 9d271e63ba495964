"""CUDA C as one writes it by hand, in the files beside this one: what generated code has to come up to."""
# ruff: noqa: ANN401  # PyCUDA has no types

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from polyloop.runtime.nvrtc import CompiledCuda, compile_cuda

__all__ = ["HANDWRITTEN", "compiled"]

Arrays = Mapping[str, Any]
Variants = Sequence[Callable[[], object]]
_THREADS: Final = 256


def compiled(name: str, architecture: str, *macros: str) -> CompiledCuda:
    """Return ``NAME.cu``, compiled with *macros* such as ``"LANES=8"``."""
    source = (Path(__file__).parent / f"{name}.cu").read_text()
    return compile_cuda(source, architecture, tuple(f"--define-macro={macro}" for macro in macros))


@functools.cache
def _function(name: str, signature: str, *macros: str) -> Any:
    driver: Any = importlib.import_module("pycuda.driver")
    major, minor = driver.Context.get_device().compute_capability()
    image = compiled(name, f"sm_{major}{minor}", *macros).cubin
    return driver.module_from_buffer(image).get_function(name).prepare(signature)


def _call(function: Any, grid: tuple[int, ...], threads: int, *given: Any) -> Callable[[], object]:
    pointers = [value.gpudata if hasattr(value, "gpudata") else value for value in given]
    return functools.partial(function.prepared_call, grid, (threads, 1, 1), *pointers)


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


def _copy(_: Any, arrays: Arrays) -> Variants:
    count = arrays["x"].size // 4
    function = _function("copy", "PPi")
    return [_call(function, (_blocks(count, _THREADS), 1), _THREADS, arrays["x"], arrays["y"], np.int32(count))]


def _transpose(_: Any, arrays: Arrays) -> Variants:
    n = len(arrays["a"])
    blocks = _blocks(n, 64)
    return [_call(_function("transpose", "PPi"), (blocks, blocks), _THREADS, arrays["a"], arrays["b"], np.int32(n))]


def _softmax(_: Any, arrays: Arrays) -> Variants:
    m, columns = arrays["x"].shape
    calls = []
    for vectors in (2, 4):
        threads = columns // (4 * vectors)
        if threads <= 1024:
            function = _function("softmax", "PP", f"THREADS={threads}", f"VECTORS={vectors}")
            calls.append(_call(function, (m, 1), threads, arrays["x"], arrays["y"]))
    return calls


def _row_sums(_: Any, arrays: Arrays) -> Variants:
    m, columns = arrays["a"].shape
    lanes = {32: 8, 1024: 32, 16384: 256}[columns]
    function = _function("row_sums", "PPi", f"LANES={lanes}", f"VECTORS={columns // (4 * lanes)}")
    return [_call(function, (_blocks(m, _THREADS // lanes), 1), _THREADS, arrays["a"], arrays["y"], np.int32(m))]


def _stencil(_: Any, arrays: Arrays) -> Variants:
    m, n = arrays["u"].shape[:2]
    if n % 4:
        return []
    function = _function("stencil", "PPii")
    grid = (_blocks(n, 128), _blocks(n - 2, 8), _blocks(m - 2, 32))
    return [_call(function, grid, _THREADS, arrays["u"], arrays["v"], np.int32(m), np.int32(n))]


def _gemm(_: Any, arrays: Arrays) -> Variants:
    (m, p), n = arrays["a"].shape, arrays["b"].shape[1]
    exact = int(m % 128 == 0 and n % 128 == 0 and p % 8 == 0)
    function = _function("gemm", "PPPiii", f"EXACT={exact}")
    sizes = (np.int32(size) for size in (m, n, p))
    grid = (_blocks(n, 128), _blocks(m, 128))
    return [_call(function, grid, _THREADS, arrays["a"], arrays["b"], arrays["c"], *sizes)]


def _csr(_: Any, arrays: Arrays) -> Variants:
    n = arrays["y"].size
    given = [arrays[name] for name in ("first", "column", "a", "x", "y")]
    return [
        _call(_function("csr_product", "PPPPPi", f"LANES={lanes}"), (_blocks(n, _THREADS // lanes), 1), _THREADS,
              *given, np.int32(n))
        for lanes in (4, 8)
    ]  # fmt: skip


HANDWRITTEN: Final[Mapping[str, Callable[[Any, Arrays], Variants]]] = {
    "copy": _copy,
    "transpose": _transpose,
    **{f"softmax of {columns}": _softmax for columns in (1024, 4096, 16384)},
    **{f"row sums of {columns}": _row_sums for columns in (32, 1024, 16384)},
    "stencil": _stencil,
    "fp32 GEMM": _gemm,
    "CSR product": _csr,
}
"""Case name -> a function of the arrays that returns what is timed."""
