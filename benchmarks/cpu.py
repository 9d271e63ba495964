"""``python -m benchmarks cpu``: kernels in C on the cores of a processor, in turn with C by hand and with NumPy.

Each is measured with as many threads as ``OMP_NUM_THREADS`` says (NumPy's BLAS has a variable of its own, such as
``OPENBLAS_NUM_THREADS``).  A time is the best of several rounds; what is compared runs in turn.  Of one thread it is
processor time, which other programs do not add to.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import polyloop as pl
from examples import matmul_processor
from polyloop.library.matmul import in_panels
from polyloop.runtime.ccompile import open_library

__all__ = ["main"]

_TRIAD: Final = """
void triad(float *restrict a, const float *restrict b, const float *restrict c, int n)
{
    #pragma omp parallel for simd
    for (int i = 0; i < n; ++i)
        a[i] = b[i] + 3.0f * c[i];
}
"""
_STREAMED: Final = """
#include <immintrin.h>
void triad(float *restrict a, const float *restrict b, const float *restrict c, int n)
{
    #pragma omp parallel
    {
        #pragma omp for nowait
        for (int i = 0; i < n; i += 8)
            _mm256_stream_ps(a + i, _mm256_fmadd_ps(_mm256_set1_ps(3.0f), _mm256_loadu_ps(c + i),
                                                    _mm256_loadu_ps(b + i)));
        _mm_sfence();
    }
}
"""
_JACOBI: Final = """
void jacobi(const float *restrict u, float *restrict v, int n)
{
    #pragma omp parallel for
    for (int i = 1; i < n - 1; ++i) {
        #pragma omp simd
        for (int j = 1; j < n - 1; ++j)
            v[i * n + j] = 0.2f * (u[i * n + j] + u[(i - 1) * n + j] + u[(i + 1) * n + j]
                                   + u[i * n + j - 1] + u[i * n + j + 1]);
    }
}
"""
Arrays = Mapping[str, Any]
_LINE: Final = 64


def _by_hand(source: str, name: str, *names: str) -> Callable[[Arrays], None]:
    function = getattr(open_library(source), name)

    def call(arrays: Arrays) -> None:
        function(*(ctypes.c_void_p(arrays[x].ctypes.data) for x in names), len(arrays[names[0]]))

    return call


def _numpy(arrays: Arrays) -> None:
    np.matmul(arrays["a"], arrays["b"], out=arrays["c"])


def _triad() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "a[i] = b[i] + 3*c[i]", [pl.GlobalArg("a, b, c", np.float32, shape="n")], name="triad"
    )
    return pl.split_iname(knl, "i", 4096, outer_tag="g.0")


def _streamed() -> pl.LoopKernel:
    return pl.write_once(pl.split_iname(_triad(), "i_inner", 16, inner_tag="vec"), "a")


def _jacobi() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i < n - 1 and 1 <= j < n - 1}",
        "v[i, j] = 0.2*(u[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])",
        [pl.GlobalArg("u, v", np.float32, shape="n, n")],
        name="jacobi",
    )
    return pl.split_iname(knl, "i", 16, outer_tag="g.0")


def _product(dtype: type[np.generic]) -> Callable[[], pl.LoopKernel]:
    return lambda: in_panels(matmul_processor.program(dtype), 64 // np.dtype(dtype).itemsize)


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy that begins in a line of the cache, as the arrays do that a call allocates."""
    raw = np.empty(array.nbytes + _LINE, np.uint8)
    start = -raw.ctypes.data % _LINE
    copy: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@dataclass(frozen=True)
class Case:
    """A kernel, its arrays for a size, what it is compared with, and its work for the size [bytes or operations]."""

    name: str
    build: Callable[[], pl.LoopKernel]
    shapes: Mapping[str, int]
    dtype: Any
    size: int
    peer: Callable[[], Callable[[Arrays], None]]
    work: Callable[[int], float]
    unit: str

    def arrays(self) -> dict[str, Any]:
        """Return arrays with random elements."""
        rng = np.random.default_rng(0)
        shapes = {name: (self.size,) * rank for name, rank in self.shapes.items()}
        return {name: _aligned(rng.random(shape).astype(self.dtype)) for name, shape in shapes.items()}


def _products(name: str, dtype: type[np.generic]) -> list[Case]:
    shapes = {"a": 2, "b": 2, "c": 2}
    return [
        Case(f"{name} {n}", _product(dtype), shapes, dtype, n, lambda: _numpy, lambda n: 2.0 * n**3, "GFLOP/s")
        for n in (1000, 1024)
    ]


CASES: Final = (
    Case("triad", _triad, {"a": 1, "b": 1, "c": 1}, np.float32, 1 << 24,
         lambda: _by_hand(_TRIAD, "triad", "a", "b", "c"), lambda n: 12.0 * n, "GB/s"),
    Case("streamed triad", _streamed, {"a": 1, "b": 1, "c": 1}, np.float32, 1 << 24,
         lambda: _by_hand(_STREAMED, "triad", "a", "b", "c"), lambda n: 12.0 * n, "GB/s"),
    Case("Jacobi", _jacobi, {"u": 2, "v": 2}, np.float32, 4096,
         lambda: _by_hand(_JACOBI, "jacobi", "u", "v"), lambda n: 8.0 * n * n, "GB/s"),
    *_products("sgemm", np.float32),
    *_products("dgemm", np.float64),
)  # fmt: skip


def _seconds(call: Callable[[], object]) -> float:
    clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    begin = clock()
    call()
    return clock() - begin


def measured(case: Case, seconds: float) -> tuple[float, float]:
    """Return the best times of a kernel and of its peer [s], and check that both compute the same."""
    run, peer, arrays = pl.compile(case.build(), target=matmul_processor.TARGET), case.peer(), case.arrays()
    others = {name: _aligned(value) for name, value in arrays.items()}
    ours = theirs = float("inf")
    end = time.monotonic() + seconds
    while time.monotonic() < end or theirs == float("inf"):
        ours = min(ours, _seconds(lambda: run(**arrays)))
        theirs = min(theirs, _seconds(lambda: peer(others)))
    for name, value in arrays.items():
        np.testing.assert_allclose(value, others[name], rtol=1e-3)
    return ours, theirs


def main(arguments: Sequence[str]) -> int:
    """Print a row for each kernel: its time and rate, those of the peer, and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cpu", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all, if there are none")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kernel; default: 2")
    options = parser.parse_args(arguments)
    print(f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')}")
    print("| kernel | polyloop | rate | by hand or NumPy | of its rate |\n|---|---|---|---|---|")
    for case in CASES:
        if options.names and case.name.split()[0] not in options.names and case.name not in options.names:
            continue
        ours, theirs = measured(case, options.seconds)
        rate = case.work(case.size) / ours / 1e9
        times = f"{ours * 1e3:.2f} ms | {rate:.1f} {case.unit} | {theirs * 1e3:.2f} ms"
        print(f"| {case.name} | {times} | {theirs / ours:.0%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
