"""Programs written by hand, as code generation would return them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pymbolic import var
from pymbolic.primitives import Comparison

import polyloop as pl
from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck
from polyloop.expr.nodes import Expression
from polyloop.kernel.arrays import ArrayArg, ValueArg

F4 = np.dtype(np.float32)
I4 = np.dtype(np.int32)
I8 = np.dtype(np.int64)
N = var("n")
M = var("m")


def array(name: str, shape: Sequence[Expression], *, inp: bool = True, out: bool = False,
          dtype: np.dtype[np.generic] = F4, order: str = "C") -> ArrayArg:
    """Return a dense array argument."""
    strides: list[Expression] = []
    step: Expression = 1
    for extent in shape if order == "F" else reversed(shape):
        strides.append(step)
        step = step * extent
    if order == "C":
        strides.reverse()
    return ArrayArg(name, dtype, tuple(shape), tuple(strides), order, inp, out)


def at_most(name: str, limit: int, message: str, code: str = "assumption-violated") -> LaunchCheck:
    """Return the check ``name <= limit``."""
    return LaunchCheck(Comparison(var(name), "<=", limit), message, code)


AXPY_C = """\
void axpy(const float alpha, const float *restrict x, const float *restrict y, float *restrict z, const INDEX n)
{
    for (INDEX i = 0; i < n; i++)
        z[i] = alpha * x[i] + y[i];
}
"""

AXPY_CUDA = """\
extern "C" __global__ void __launch_bounds__(128) axpy(
    const float alpha, const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, const int n)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n)
        z[i] = alpha * x[i] + y[i];
}
"""


def axpy(target: str = "c", *, bits: int = 32, checks: tuple[LaunchCheck, ...] = (),
         index_checks: tuple[LaunchCheck, ...] = ()) -> GeneratedProgram:
    """Return ``z = alpha*x + y``."""
    if target == "c":
        source = AXPY_C.replace("INDEX", "int" if bits == 32 else "long")
        launch = DeviceLaunch("axpy", (1, 1, 1), (1, 1, 1), 0, ("alpha", "x", "y", "z", "n"))
    else:
        source = AXPY_CUDA
        launch = DeviceLaunch("axpy", ((N + 127) // 128, 1, 1), (128, 1, 1), 0, ("alpha", "x", "y", "z", "n"))
    arguments = (ValueArg("alpha", F4), array("x", [N]), array("y", [N]), array("z", [N], inp=False, out=True),
                 ValueArg("n", I4 if bits == 32 else I8))
    return GeneratedProgram("axpy", target, source, (launch,), arguments, checks, index_checks, bits)


TRANSPOSE_CUDA = """\
extern "C" __global__ void __launch_bounds__(256) transpose(
    const float* __restrict__ a, float* __restrict__ b, const int n, const int m)
{
    __shared__ float tile[16][17];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int i = blockIdx.y * 16 + ty;
    const int j = blockIdx.x * 16 + tx;
    if (i < n && j < m)
        tile[ty][tx] = a[i * m + j];
    __syncthreads();
    const int p = blockIdx.x * 16 + ty;
    const int q = blockIdx.y * 16 + tx;
    if (p < m && q < n)
        b[p * n + q] = tile[tx][ty];
}
"""


def transpose() -> GeneratedProgram:
    """Return ``b = a.T`` through tiles in shared memory."""
    launch = DeviceLaunch("transpose", ((M + 15) // 16, (N + 15) // 16, 1), (16, 16, 1), 16 * 17 * 4,
                          ("a", "b", "n", "m"))
    return GeneratedProgram("transpose", "cuda", TRANSPOSE_CUDA, (launch,),
                            (array("a", [N, M]), array("b", [M, N], inp=False, out=True), ValueArg("n", I4),
                             ValueArg("m", I4)))


REVERSE_CUDA = """\
extern "C" __global__ void __launch_bounds__(64) reverse(const float* a, float* __restrict__ b, const int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    const int i = blockIdx.x * 64 + t;
    s[t] = a[i];
    BARRIER
    b[i] = s[63 - t];
    EXTRA
}
"""


def reverse(barrier: str = "__syncthreads();", extra: str = "") -> GeneratedProgram:
    """Return the reversal of each 64 elements, with whatever stands for its barrier."""
    source = REVERSE_CUDA.replace("BARRIER", barrier).replace("    EXTRA\n", f"    {extra}\n" if extra else "")
    launch = DeviceLaunch("reverse", (N // 64, 1, 1), (64, 1, 1), 256, ("a", "b", "n"))
    return GeneratedProgram("reverse", "cuda", source, (launch,),
                            (array("a", [N]), array("b", [N], inp=False, out=True), ValueArg("n", I4)))


def steps() -> pl.LoopKernel:
    """Two launches on CUDA, with a workspace between them."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        <> t[i] = 2*u[i] {id=first}
        v[j] = t[n - 1 - j] + 1 {id=second}
        """,
        [pl.GlobalArg("u, v", F4, shape="n"), pl.TemporaryVariable("t", shape="n", address_space="global"), ...],
        name="steps",
    )
    return pl.tag_inames(pl.split_iname(pl.split_iname(knl, "i", 32), "j", 32),
                         "i_outer:g.0, j_outer:g.0, i_inner:l.0, j_inner:l.0")
