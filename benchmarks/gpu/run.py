"""``python -m benchmarks gpu``: generated kernels beside other libraries', one table.

Each kernel is built, checked against float64 on fresh random inputs with poisoned outputs, and timed by events: the
median of 20 after a warm-up.  Where the arrays of a size fit into the cache, several sets are taken in turn.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.cases import CASES, Case
from benchmarks.gpu.device import Device
from benchmarks.gpu.peers import calls_of, load_peers
from benchmarks.gpu.report import Figure, as_json, as_table
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.gpu import gpu_available

__all__ = ["main", "relative_error"]

_MOST_SETS: Final = 64  # of arguments; small ones are taken from the cache
_VERSIONS: Final = ("numpy", "pycuda", "islpy", "torch", "triton", "cupy-cuda13x", "nvidia-cuda-nvrtc")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks gpu", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CASES]
    if unknown:
        parser.error(f"no kernel {unknown[0]!r}")
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    device = Device()
    libraries, missing = load_peers()
    ceilings = _ceilings(device, libraries)
    figures = [
        _measure(device, CASES[name], sizes, libraries, ceilings)
        for name in options.names or CASES
        for sizes in CASES[name].sizes
    ]
    facts = {"device": device.name, "driver": device.driver_version, **_versions(), "missing": missing, **ceilings}
    print(as_json(figures, facts) if options.json else _text(figures, facts, list(libraries)))
    return int(any(figure.error > CASES[figure.kernel].rtol for figure in figures))


def _text(figures: Sequence[Figure], facts: Mapping[str, object], others: Sequence[str]) -> str:
    lines = [f"{name}: {value}" for name, value in facts.items()]
    return "\n".join([*lines, "", as_table(figures, others)])


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _ceilings(device: Device, libraries: Mapping[str, Any]) -> dict[str, float]:
    """Return the measured ceilings: traffic of a large copy [TB/s], and work of a large fp32 product [TFLOP/s]."""
    count = 2**29
    source, sink = (device.poisoned((count,), np.dtype(np.float32)) for _ in range(2))
    driver: Any = importlib.import_module("pycuda.driver")
    copied = device.milliseconds([lambda: driver.memcpy_dtod_async(sink.gpudata, source.gpudata, 4 * count)])
    found = {"copy [TB/s]": 8 * count / copied / 1e9}
    if "torch" in libraries:
        torch = libraries["torch"]
        torch.backends.cuda.matmul.allow_tf32 = False
        a, b = (torch.rand((8192, 8192), device="cuda") for _ in range(2))
        found["fp32 product [TFLOP/s]"] = 2 * 8192**3 / device.milliseconds([lambda: torch.mm(a, b)]) / 1e9
    return found


def _measure(
    device: Device,
    case: Case,
    sizes: Mapping[str, int],
    libraries: Mapping[str, Any],
    ceilings: Mapping[str, float],
) -> Figure:
    run = pl.compile(case.build(), target=pl.CudaTarget(min_blocks=case.min_blocks))
    sets, error = _checked_sets(device, case, sizes, run)
    times = {"polyloop": device.milliseconds([lambda arrays=arrays: run(**arrays) for arrays in sets])}  # type: ignore[misc]
    for name, library in libraries.items():
        calls = [call for arrays in sets if (call := calls_of(case.name, name, library, arrays)) is not None]
        if calls:
            times[name] = device.milliseconds(calls)
    moved, operations = case.moved(sizes), case.operations(sizes)
    ceiling = moved / ceilings["copy [TB/s]"] / 1e9
    if operations and "fp32 product [TFLOP/s]" in ceilings:
        ceiling = max(ceiling, operations / ceilings["fp32 product [TFLOP/s]"] / 1e9)
    size = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return Figure(case.name, size, times, moved, operations, error, ceiling)


def _checked_sets(
    device: Device, case: Case, sizes: Mapping[str, int], run: pl.CompiledKernel
) -> tuple[list[dict[str, Any]], float]:
    """Return sets of arguments on the device, too many for its cache, and the largest error of the outputs."""
    rng = np.random.default_rng()
    count = min(_MOST_SETS, max(1, -(-4 * device.l2_bytes // case.moved(sizes))))
    sets: list[dict[str, Any]] = []
    worst = 0.0
    for number in range(count):
        inputs = case.inputs(sizes, rng)
        arguments: dict[str, Any] = {
            name: device.array(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()
        }
        for argument in run.program.arguments:
            if isinstance(argument, ArrayArg) and argument.name not in arguments:
                shape = tuple(evaluate(extent, sizes) for extent in argument.shape or ())
                arguments[argument.name] = device.poisoned(shape, np.dtype(argument.dtype))
        sets.append(arguments)
        if number == 0:
            run(**arguments)
            device.synchronize()
            expected = case.expected(inputs)
            worst = max(relative_error(arguments[name].get(), *found) for name, found in expected.items())
    return sets, worst


def relative_error(got: np.ndarray[Any, Any], at: Any, expected: np.ndarray[Any, Any]) -> float:
    """Return the largest error at the places *at* relative to the largest value; infinity if any element is NaN."""
    if np.isnan(got).any():
        return float("inf")
    return float(np.abs(got[at].astype(np.float64) - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    sys.exit(main())
