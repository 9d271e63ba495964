"""``python -m benchmarks opencl``: one kernel as CUDA C and as OpenCL C, in turn on one GPU.

The time of a call is that of the GPU alone: by events around a launch in CUDA, by the profile of its command in OpenCL.
Both are medians of 20 after a warm-up.  Results of both texts are compared with one another and with float64.
"""
# ruff: noqa: ANN401  # PyCUDA and PyOpenCL have no types

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Random
from benchmarks.gpu.cases import CASES, Case
from benchmarks.gpu.device import Device
from benchmarks.gpu.run import relative_error
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.opencl.devices import opencl_available

__all__ = ["main"]

_NAMES: Final = ("copy", "softmax of 4096", "softmax of 16384", "transpose", "stencil", "fp32 GEMM")
_WARM_UP: Final = 3
_REPEAT: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Print a row for each kernel; the exit status is 1 where a result is wrong, 2 where one of both cannot run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks opencl", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"default: {', '.join(_NAMES)}")
    parser.add_argument("--version", default="1.2", help="of OpenCL C; default: 1.2")
    options = parser.parse_args(arguments)
    for there, reason in (gpu_available(), opencl_available()):
        if not there:
            print(reason, file=sys.stderr)
            return 2
    queue = _nvidia()
    if queue is None:
        print("no platform of OpenCL has a GPU of NVIDIA", file=sys.stderr)
        return 2
    device, wrong = Device(), False
    print(f"{device.name}; {queue.device.platform.version.strip()}; {queue.device.version.strip()}")
    print("| kernel | size | CUDA C | OpenCL C | of CUDA's speed | apart | error |\n|---|---|---|---|---|---|---|")
    for name in options.names or _NAMES:
        wrong |= _measured(device, queue, CASES[name], options.version)
    return int(wrong)


def _nvidia() -> Any:
    """Return a queue of the first GPU of NVIDIA that keeps times, None if there is none."""
    cl: Any = importlib.import_module("pyopencl")
    platforms = [platform for platform in cl.get_platforms() if "NVIDIA" in platform.name]
    device = next((device for platform in platforms for device in platform.get_devices()), None)
    if device is None:
        return None
    return cl.CommandQueue(cl.Context([device]), properties=cl.command_queue_properties.PROFILING_ENABLE)


def _measured(device: Device, queue: Any, case: Case, version: str) -> bool:
    """Print the row of *case*, and return whether a result is wrong."""
    arrays: Any = importlib.import_module("pyopencl.array")
    sizes = case.sizes[min(1, len(case.sizes) - 1)]
    given, knl = case.inputs(sizes, Random(np.random.PCG64DXSM())), case.build()
    target = pl.OpenCLTarget(queue.device, version=version)
    cuda, opencl = pl.compile(knl, target=case.target), pl.compile(knl, target=target)
    shapes = _outputs(cuda, given, sizes)
    expected = case.expected(given)
    there: dict[str, Any] = {name: device.array(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    there |= {name: device.poisoned(shape, dtype) for name, (shape, dtype) in shapes.items()}
    here: dict[str, Any] = {
        name: arrays.to_device(queue, x) if isinstance(x, np.ndarray) else x for name, x in given.items()
    }
    here |= {name: arrays.to_device(queue, np.full(shape, np.nan, dtype)) for name, (shape, dtype) in shapes.items()}
    first = next(iter(expected))

    def profiled() -> float:
        opencl(queue, **here)
        (event,) = here[first].events[-1:]
        event.wait()
        return float(event.profile.end - event.profile.start) / 1e6

    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(_WARM_UP + _REPEAT):
        theirs.append(device.in_turn([[lambda: cuda(**there)]], 0, 1)[0])
        ours.append(profiled())
    a, b = (statistics.median(found[_WARM_UP:]) for found in (theirs, ours))
    first_result, second = there[first].get(), here[first].get()
    apart = float(np.abs(first_result - second).max() / np.abs(first_result).max())
    error = max(relative_error(here[name].get(), *found) for name, found in expected.items())
    size = ", ".join(f"{name}={value}" for name, value in sizes.items())
    times = f"{a:.3f} ms | {b:.3f} ms | {a / b:.0%} | {apart:.1e} | {error:.1e}"
    print(f"| {case.name} | {size} | {times} |", flush=True)
    return not error <= case.rtol


def _outputs(
    run: pl.CompiledKernel, given: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array that is not given."""
    values = {**sizes, **{name: value for name, value in given.items() if not isinstance(value, np.ndarray)}}
    return {
        argument.name: (tuple(evaluate(e, values) for e in argument.shape or ()), np.dtype(argument.dtype))
        for argument in run.program.arguments
        if isinstance(argument, ArrayArg) and argument.name not in given
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
