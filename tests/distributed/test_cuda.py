"""Kernels of ranks in CUDA C: they are transformed as all others, and run on fibres where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.ranks import divided, divided_gradients, divided_product, product
from polyloop.distributed.ranks import RankProgram
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

ONE = Lock()
"""Fibres are those of one thread at a time."""


def on_fibres(kernel: pl.LoopKernel) -> Callable[..., None]:
    """Return a call of a kernel's CUDA C, with a fibre for each thread, in place."""
    program = pl.generate_code(kernel, target=pl.CudaTarget())

    def run(**arguments: Any) -> None:
        with ONE:
            outputs = next(iter(run_on_fibres(program, arguments).values()))
        for name, value in outputs.items():
            arguments[name][...] = value

    return run


def test_the_heat_equation_of_the_benchmark_runs_on_two_ranks_of_fibres() -> None:
    found = divided(2)
    kernels = {local.phase.number: on_fibres(found.kernels[local.kernel.name]) for local in found.analysis.locals}
    sizes = {"m": 7, "n": 5, "steps": 1}
    start = np.random.default_rng(2).random((7, 5, 5), dtype=np.float32)

    def program(engine: pl.Engine) -> Any:
        run = RankProgram(found.analysis, (2,), True, engine, kernels)
        parts = {name: run.scatter(name, start, **sizes) for name in "uv"}
        run(**parts, c=np.float32(0.125), **sizes)
        return run.gather("u", parts["u"], **sizes)

    u, v = start.copy(), start.copy()
    for old, new in ((u, v), (v, u)):
        near = old[:-2, 1:-1, 1:-1] + old[2:, 1:-1, 1:-1] + old[1:-1, :-2, 1:-1] + old[1:-1, 2:, 1:-1]
        near = near + old[1:-1, 1:-1, :-2] + old[1:-1, 1:-1, 2:]
        new[1:-1, 1:-1, 1:-1] = old[1:-1, 1:-1, 1:-1] + np.float32(0.125)*(near - 6*old[1:-1, 1:-1, 1:-1])
    for whole in pl.run_ranks(2, program):
        np.testing.assert_allclose(whole, u, rtol=1e-5)


def gathered(found: pl.DistributedKernel, program: Callable[[RankProgram], Any]) -> Any:
    """Return what two ranks of fibres compute."""
    kernels = {local.phase.number: on_fibres(found.kernels[local.kernel.name]) for local in found.analysis.locals}
    return pl.run_ranks(2, lambda engine: program(RankProgram(found.analysis, (2,), True, engine, kernels)))[0]


@pytest.mark.slow
def test_conjugate_gradients_of_the_benchmark_run_on_ranks_of_fibres() -> None:
    n, rng = 300, np.random.default_rng(0)
    matrix = np.where(rng.random((n, n)) < 0.01, rng.random((n, n)), 0)
    matrix, b = matrix + matrix.T + 4*np.eye(n), rng.random(n).astype(np.float32)

    def program(run: RankProgram) -> Any:
        (low, high), = run.box("x", n=n, most=0, nnz=0)
        rows = matrix[low:high]
        ends = np.cumsum((rows != 0).sum(1)).astype(np.int32)
        val, col = rows[rows != 0].astype(np.float32), np.nonzero(rows)[1].astype(np.int32)
        sizes = {"n": n, "most": 12, "nnz": len(val)}
        names = ("x", "b", "r", "p", "q", "rr", "alpha", "rnew", "first", "last")
        parts = {name: run.empty(name, **sizes) for name in names}
        parts["b"][...], parts["last"][...], parts["first"][1:] = b[low:high], ends, ends[:-1]
        run(**parts, val=val, col=col, **sizes)
        return run.gather("x", parts["x"], **sizes)

    np.testing.assert_allclose(matrix @ gathered(divided_gradients(2), program), b, atol=1e-3)


@pytest.mark.slow
def test_the_product_of_the_benchmark_runs_on_ranks_of_fibres() -> None:
    sizes, rng = {"m": 40, "n": 24, "p": 256}, np.random.default_rng(0)
    half = pl.distribute(product(128), dict.fromkeys("abc", "block, *"), "i:mesh.0", (2,), hosts="panel")
    dtype = next(entry.dtype for entry in half.kernels["product_1"].arguments if entry.name == "a")
    a, b = rng.random((40, 256)).astype(dtype), rng.random((256, 24)).astype(dtype)

    def program(run: RankProgram) -> Any:
        parts = {"a": run.scatter("a", a, **sizes), "b": run.scatter("b", b, **sizes), "c": run.empty("c", **sizes)}
        run(**parts, **sizes)
        return run.gather("c", parts["c"], **sizes)

    found = gathered(divided_product(2, panel=128), program)
    np.testing.assert_allclose(found, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5)


@pytest.mark.nvrtc
@pytest.mark.parametrize("make", [divided, pytest.param(divided_gradients, marks=pytest.mark.slow),
                                  pytest.param(divided_product, marks=pytest.mark.slow)])
def test_kernels_of_ranks_compile_for_a_gpu(make: Callable[[int], pl.DistributedKernel]) -> None:
    for kernel in make(2).kernels.values():
        text = pl.generate_code(kernel, target=pl.CudaTarget("sm_90a")).device_code
        assert compile_cuda(text, "sm_90a").cubin
