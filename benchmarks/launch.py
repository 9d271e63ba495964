"""``python -m benchmarks launch``: what one call from Python costs the host, beside other ways to launch a kernel.

The kernel adds three arrays of 256 elements into a fourth, so that the GPU is done before the host.  Times are of many
calls in a row without waiting, the best of several rounds, in which all calls take turns.  Without a GPU only the C
target is measured.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.runtime.cuda.choice import cuda_library
from polyloop.runtime.gpu import gpu_available, on_device

__all__ = ["main", "microseconds"]

_N: Final = 256
_CALLS: Final = 1000
_ROUNDS: Final = 15

_SOURCE: Final = """
extern "C" __global__ void add(const float *a, const float *b, const float *c, float *d)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    d[i] = a[i] + b[i] + c[i];
}
"""


def add() -> pl.LoopKernel:
    """Return the kernel that is launched."""
    knl = pl.make_kernel(
        f"{{[i]: 0 <= i < {_N}}}",
        "d[i] = a[i] + b[i] + c[i]",
        [pl.GlobalArg("a, b, c, d", np.float32, shape=_N)],
        name="add",
    )
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def scaled() -> pl.LoopKernel:
    """Return a kernel like it that also takes a number."""
    knl = pl.make_kernel(
        f"{{[i]: 0 <= i < {_N}}}", "d[i] = s*a[i] + b[i] + c[i]",
        [pl.GlobalArg("a, b, c, d", np.float32, shape=_N), pl.ValueArg("s", np.float32)],
        name="scaled",
    )  # fmt: skip
    return pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def microseconds(calls: Mapping[str, Callable[[], object]], wait: Callable[[], object]) -> dict[str, float]:
    """Return the least time of one of many calls of each kind [us]; the kinds take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            wait()
            begin = time.perf_counter()
            for _ in range(_CALLS):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / _CALLS * 1e6)
    wait()
    return best


def _calling(run: pl.CompiledKernel, arrays: Mapping[str, Any]) -> Callable[[], object]:
    """Return a call as one writes it."""
    a, b, c, d = (arrays[name] for name in "abcd")
    return lambda: run(a=a, b=b, c=c, d=d)


def _allocating(run: pl.CompiledKernel, arrays: Mapping[str, Any]) -> Callable[[], object]:
    """Return a call that makes a new output each time."""
    a, b, c = (arrays[name] for name in "abc")
    return lambda: run(a=a, b=b, c=c)


def _scaling(run: Callable[..., object], arrays: Mapping[str, Any], numbers: Iterator[int]) -> Callable[[], object]:
    """Return a call with another number each time."""
    a, b, c, d = (arrays[name] for name in "abcd")
    return lambda: run(a=a, b=b, c=c, d=d, s=float(next(numbers)))


def _on_cpu() -> Iterator[tuple[str, Callable[[], object]]]:
    arrays: dict[str, Any] = {name: np.ones(_N, np.float32) for name in "abcd"}
    run = pl.compile(add(), pl.CTarget())
    yield "polyloop, C", _calling(run, arrays)
    yield "polyloop, C, output allocated", _allocating(run, arrays)
    yield "polyloop, C, bound", run.bind(**arrays)
    numbers = itertools.count()
    step = pl.compile(scaled(), pl.CTarget())
    yield "polyloop, C, a new number each time", _scaling(step, arrays, numbers)
    yield "polyloop, C, the kernel itself, a new number each time", _scaling(scaled(), arrays, numbers)
    yield "NumPy, np.add once", lambda: np.add(arrays["a"], arrays["b"], out=arrays["d"])


def _torch(torch: Any, run: pl.CompiledKernel) -> Iterator[tuple[str, Callable[[], object]]]:
    arrays: dict[str, Any] = {name: torch.ones(_N, device="cuda") for name in "abcd"}
    yield "polyloop, torch tensors", _calling(run, arrays)
    yield "polyloop, torch tensors, output allocated", _allocating(run, arrays)
    yield "polyloop, torch tensors, a new number each time", _scaling(
        pl.compile(scaled(), pl.CudaTarget()), arrays, itertools.count())
    yield "polyloop, bound", run.bind(**arrays)
    yield "torch.add(a, b, out=d)", lambda: torch.add(arrays["a"], arrays["b"], out=arrays["d"])


def _cupy(cupy: Any, run: pl.CompiledKernel) -> Iterator[tuple[str, Callable[[], object]]]:
    arrays: dict[str, Any] = {name: cupy.ones(_N, cupy.float32) for name in "abcd"}
    yield "polyloop, CuPy arrays", _calling(run, arrays)
    raw = cupy.RawKernel(_SOURCE, "add")
    given = tuple(arrays.values())
    yield "CuPy RawKernel", lambda: raw((_N // 128,), (128,), given)


def _pycuda(arrays: Mapping[str, Any], run: pl.CompiledKernel) -> Iterator[tuple[str, Callable[[], object]]]:
    driver: Any = importlib.import_module("pycuda.driver")
    function = driver.module_from_buffer(run.cubin).get_function("add").prepare("PPPP")
    pointers = [array.gpudata for array in arrays.values()]
    yield "PyCUDA prepared_call", lambda: function.prepared_call((_N // 128, 1), (128, 1, 1), *pointers)


def _cuda_core(core: Any, torch: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    device = core.Device()
    device.set_current()
    stream = device.default_stream
    options = core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    kernel = core.Program(_SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("add")
    arrays = [torch.ones(_N, device="cuda") for _ in range(4)]
    config = core.LaunchConfig(grid=_N // 128, block=128)
    pointers = [array.data_ptr() for array in arrays]
    yield "cuda.core launch", lambda: core.launch(stream, config, kernel, *pointers)


def _on_gpu() -> dict[str, float]:
    run, name = pl.compile(add(), pl.CudaTarget()), cuda_library().name
    with on_device("add", {name: np.ones(_N, np.float32) for name in "abcd"}) as (arrays, wait):
        shown = "PyCUDA arrays" if name == "pycuda" else f"arrays through {name}"
        calls: dict[str, Callable[[], object]] = {
            f"polyloop, {shown}": _calling(run, arrays), f"polyloop, {shown}, bound": run.bind(**arrays)}  # fmt: skip
        if name == "pycuda":
            calls |= dict(_pycuda(arrays, run))
        return microseconds(calls | dict(_of_others(run)), wait)


def _of_others(run: pl.CompiledKernel) -> Iterator[tuple[str, Callable[[], object]]]:
    sources = {"torch": _torch, "cupy": _cupy}
    for name, calls in sources.items():
        try:
            library: Any = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        yield from calls(library, run)
    try:
        core: Any = importlib.import_module("cuda.core")
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        print(f"cuda.core is not measured: {error}", file=sys.stderr)
        return
    yield from _cuda_core(core, torch)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks launch", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    found = microseconds(dict(_on_cpu()), lambda: None)
    if is_there:
        found |= _on_gpu()
    else:
        print(f"no GPU: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    print("| call | us |\n|---|---|")
    for name, time_of_one in found.items():
        print(f"| {name} | {time_of_one:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
