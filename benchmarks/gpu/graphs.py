"""``python -m benchmarks graphs``: programs of many launches, started by the host, as one CUDA graph, cooperatively.

First a step on two small blocks, 1000 times: the time of one launch [us].  It is that of the host and the GPU together,
from the call to the end of the last launch.  Then what a graph costs beside: making it, and giving its nodes a new
number.  Last, Jacobi's method in two dimensions: the rate of all steps against the rate of the kernel of one step,
which is launched alone, on its arrays in turn.

Every result is compared with that of the host's launches, and small ones with NumPy's.  A way that a program cannot be
started in is named with its reason.  The exit status is 1 where a result is wrong, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.device import Device
from polyloop.errors import PolyloopError
from polyloop.runtime.gpu import gpu_available

__all__ = ["main"]

_WAYS: Final = ("host", "graph", "cooperative")
_ROUNDS: Final = 9
_TINY: Final = 66


def tiny() -> pl.LoopKernel:
    """Return a program whose steps have little to do, with a number that each launch takes."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < steps and 1 <= i < n - 1}",
        "u[t + 1, i] = w*(u[t, i - 1] + u[t, i + 1])",
        [pl.GlobalArg("u", np.float32, shape="steps + 1, n"), pl.ValueArg("w", np.float32), ...],
        name="tiny", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    return knl.split_iname("i", 32, outer_tag="g.0", inner_tag="l.0")


def jacobi(*, has_loop: bool) -> pl.LoopKernel:
    """Return two steps of Jacobi's method, from 'u' to 'v' and back, in a loop; or the first one alone."""
    first = "v[i, j] = 0.25f*(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])"
    second = "u[p, q] = 0.25f*(v[p - 1, q] + v[p + 1, q] + v[p, q - 1] + v[p, q + 1])"
    arrays = [pl.GlobalArg("u, v", np.float32, shape="n, n"), ...]
    if has_loop:
        knl = pl.make_kernel(
            "{[t, i, j, p, q]: 0 <= t < pairs and 1 <= i, j, p, q < n - 1}",
            f"for t\n    for i, j\n        {first}\n    end\n    for p, q\n        {second}\n    end\nend",
            arrays, name="jacobi", assumptions="n >= 0 and pairs >= 0",
        )  # fmt: skip
        nests: tuple[tuple[str, str], ...] = (("i", "j"), ("p", "q"))
    else:
        knl = pl.make_kernel("{[i, j]: 1 <= i, j < n - 1}", first, arrays, name="step", assumptions="n >= 0")
        nests = (("i", "j"),)
    for row, column in nests:
        knl = knl.split_iname(row, 4, outer_tag="g.1", inner_tag="l.1")
        knl = knl.split_iname(column, 64, outer_tag="g.0", inner_tag="l.0")
    return knl


def _ways(kernel: pl.LoopKernel) -> Iterator[tuple[str, pl.CompiledKernel]]:
    """Yield the ways in which the launches of a program can be started; say why not of the others."""
    for way in _WAYS:
        try:
            yield way, pl.compile(kernel, target=pl.CudaTarget(), launches=way)
        except PolyloopError as error:
            print(f"  {way:12} {error.found[0].message}: {', '.join(error.found[0].notes)}")


def _seconds(device: Device, call: Callable[[], object]) -> float:
    """Return the median time from a call to the end of its work."""
    times = []
    for _ in range(_ROUNDS + 2):
        device.synchronize()
        begin = time.perf_counter()
        call()
        device.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def _compare_starts(device: Device, steps: int) -> bool:
    print(f"a step on two blocks of 32 threads, {steps} launches a call [us a launch]")
    values = np.zeros((steps + 1, _TINY), np.float32)
    values[0] = np.random.default_rng(1).random(_TINY)
    values[:, [0, -1]] = values[0, [0, -1]]
    expected, good = values.copy(), True
    for t in range(steps):
        expected[t + 1, 1:-1] = np.float32(0.5) * (expected[t, :-2] + expected[t, 2:])
    for way, run in _ways(tiny()):
        u = device.array(values)
        call = run.bind(u=u, w=0.5)
        plain = _seconds(device, call) / steps
        again = _seconds(device, lambda run=run, u=u: run(u=u, w=0.5)) / steps  # type: ignore[misc]
        is_right = bool(np.allclose(u.get(), expected, rtol=1e-5, atol=1e-6))
        good = good and is_right
        word = "" if is_right else "  WRONG"
        print(f"  {way:12} {plain * 1e6:8.3f}, as a call with its arguments {again * 1e6:8.3f}{word}")
    _costs_of_a_graph(device, values, steps)
    return good


def _costs_of_a_graph(device: Device, values: np.ndarray[Any, Any], steps: int) -> None:
    run = pl.compile(tiny(), target=pl.CudaTarget(), launches="graph")
    u, few = device.array(values), device.array(values[:2].copy())
    run(u=few, w=0.5)  # loads the functions
    device.synchronize()
    begin = time.perf_counter()
    run(u=u, w=0.5)
    device.synchronize()
    first = time.perf_counter() - begin
    same = _seconds(device, lambda: run(u=u, w=0.5))
    numbers = iter(range(1, 10_000))
    other = _seconds(device, lambda: run(u=u, w=0.5 / next(numbers)))
    print(f"  to make a graph {(first - same) / steps * 1e6:.3f}, to give its nodes a new number "
          f"{(other - same) / steps * 1e6:.3f}")  # fmt: skip


def _compare_rates(device: Device, n: int, steps: int) -> bool:
    pairs = steps // 2
    print(f"Jacobi 2D, {n} x {n} of float32, {2 * pairs} steps a call; 2 elements moved for each point and step")
    values = np.random.default_rng(2).random((n, n), dtype=np.float32)
    step = pl.compile(jacobi(has_loop=False), target=pl.CudaTarget())
    u, v = device.array(values), device.array(values)
    alone = device.milliseconds([step.bind(u=u, v=v), step.bind(u=v, v=u)]) / 1e3
    moved = 2 * 4 * n * n

    def rate(seconds: float) -> str:
        return f"{seconds * 1e6:9.2f} us a step, {moved / seconds / 1e9:7.0f} GB/s"

    print(f"  {'one step':12} {rate(alone)}")
    results, good = list[np.ndarray[Any, Any]](), True
    for way, run in _ways(jacobi(has_loop=True)):
        u, v = device.array(values), device.array(values)
        call = run.bind(u=u, v=v, pairs=pairs)
        call()
        results.append(u.get())
        is_right = bool((results[-1] == results[0]).all()) and not np.array_equal(results[-1], values)
        good = good and is_right
        seconds = _seconds(device, call) / (2 * pairs)
        word = "" if is_right else "  WRONG"
        print(f"  {way:12} {rate(seconds)}, {alone / seconds:.1%} of one step's{word}")
    return good


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks graphs", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="launches of a call; default: 1000")
    parser.add_argument("--size", type=int, default=4096, help="rows of the plane; default: 4096")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    device = Device()
    print(f"{device.name}, driver {device.driver_version}, CUDA {device.cuda_version}")
    right = [_compare_starts(device, options.steps), _compare_rates(device, options.size, options.steps)]
    return int(not all(right))
