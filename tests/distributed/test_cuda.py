"""Kernels of ranks in CUDA C: they are transformed as all others, and run on fibres where there is no GPU."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.ranks import divided
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


@pytest.mark.nvrtc
def test_kernels_of_ranks_compile_for_a_gpu() -> None:
    for kernel in divided(2).kernels.values():
        text = pl.generate_code(kernel, target=pl.CudaTarget()).device_code
        assert compile_cuda(text, "sm_90").cubin
