"""``python -m benchmarks gpu``: generated kernels beside other libraries', one table.

Each kernel is built, checked against float64 on fresh random inputs with poisoned outputs, and timed by events: the
median of 20 after a warm-up, in turn with its peers.  Where the arrays of a size fit into the cache, several sets are
taken in turn.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import argparse
import datetime
import functools
import importlib
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.gpu.case import Random
from benchmarks.gpu.cases import CASES, Case
from benchmarks.gpu.device import Device
from benchmarks.gpu.peers import as_tensor, calls_of, load_peers
from benchmarks.gpu.report import Figure, Run, as_json, as_markdown, as_table, from_json, with_run
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.devices import DEVICES
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.gpu import gpu_available
from polyloop.tuning.worker import compile_all

__all__ = ["is_right", "main", "relative_error", "sets_of"]

_MOST_SETS: Final = 64  # of arguments; small ones are taken from the cache
_VERSIONS: Final = ("numpy", "pycuda", "islpy", "torch", "triton", "cupy-cuda13x", "nvidia-cuda-nvrtc")
_ROOT: Final = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks gpu", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md, if all is right")
    parser.add_argument("--commit", default=_commit(), help="what is measured; by default git says")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write JSON after each kernel")
    parser.add_argument("--saved", type=Path, metavar="FILE", help="measure nothing: show what --json printed before")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CASES]
    if unknown:
        parser.error(f"no kernel {unknown[0]!r}")
    is_there, reason = gpu_available()
    if options.saved is None and not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    if options.saved is None:
        run = _run(options.names or list(CASES), options.commit, options.save)
    else:
        run = from_json(options.saved.read_text())
    print(as_json(run) if options.json else as_markdown(run))
    wrong = [figure for figure in run.figures if not is_right(figure)]
    for figure in wrong:
        print(f"{figure.kernel}, {figure.size}: the result is wrong, error {figure.error:.1e}", file=sys.stderr)
    if options.write and not wrong:
        document = _ROOT / "docs" / "benchmarks.md"
        document.write_text(with_run(document.read_text(), run))
    return int(bool(wrong))


def is_right(figure: Figure) -> bool:
    """Return whether the error is one of rounding; one that is no number is not."""
    case = CASES.get(figure.kernel)
    return case is None or figure.error <= case.rtol


def _run(names: Sequence[str], commit: str, save: Path | None) -> Run:
    """Measure the cases called *names*; what is done is kept in the file *save*."""
    kernels = {name: CASES[name].build() for name in names}
    targets = {name: CASES[name].target for name in names}
    for arch in {target.arch for target in targets.values()}:
        own = [name for name in names if targets[name].arch == arch]
        compile_all([pl.generate_code(kernels[name], target=targets[name]).device_code for name in own], arch)
    device = Device()
    libraries, missing = load_peers()
    ceilings = _ceilings(device, libraries)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    facts = {"date": today, "device": device.name, "driver": device.driver_version, "CUDA": device.cuda_version,
             **_versions(), "commit": commit}  # fmt: skip
    figures: list[Figure] = []
    run = Run(figures, facts, ceilings, list(libraries), missing)
    for name in names:
        compiled = pl.compile(kernels[name], target=targets[name])
        for sizes in CASES[name].sizes:
            figures.append(_measure(device, CASES[name], sizes, compiled, libraries, ceilings))
            print(as_table(figures[-1:], list(libraries)).splitlines()[-1], file=sys.stderr, flush=True)
            if save is not None:
                save.write_text(as_json(run))
    return run


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str:
    if shutil.which("git") is None:
        return "unknown"
    found = subprocess.run(
        ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


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
    run: pl.CompiledKernel,
    libraries: Mapping[str, Any],
    ceilings: Mapping[str, float],
) -> Figure:
    checked = _checked_sets(device, case, sizes, run)
    rivals: list[tuple[str, Sequence[Callable[[], object]]]] = [
        ("polyloop", [functools.partial(run, **arrays) for arrays in checked.sets])
    ]
    wrong = {}
    for name, library in libraries.items():
        variants = list(zip(*(calls_of(case.name, name, library, arrays) for arrays in checked.sets), strict=True))
        if not variants:
            continue
        apart = max(_apart(device, libraries, checked, calls[0]) for calls in variants)
        if apart <= 3 * case.rtol:
            rivals += ((name, calls) for calls in variants)
        else:
            wrong[name] = apart
    times: dict[str, float] = {}
    for (name, _), found in zip(rivals, device.in_turn([calls for _, calls in rivals]), strict=True):
        times[name] = min(found, times.get(name, found))
    moved, operations = case.moved(sizes), case.operations(sizes)
    roofline = max(moved / ceilings["copy [TB/s]"] / 1e9, operations / _peak(device, case, ceilings) / 1e9)
    size = ", ".join(f"{name}={value}" for name, value in sizes.items())
    return Figure(case.name, size, times, moved, operations, checked.error, roofline, wrong)


def _peak(device: Device, case: Case, ceilings: Mapping[str, float]) -> float:
    """Return the peak rate of what does the work [TFLOP/s]: as published, or the measured one of an unknown device."""
    for short, known in DEVICES.items():
        if short in device.name and (rate := known.rate(case.unit)) is not None:
            return rate.value / 1e12
    return ceilings.get("fp32 product [TFLOP/s]", float("inf"))


@dataclass(frozen=True)
class _Checked:
    """Sets of arguments on the device, too many for its cache.

    Attributes
    ----------
    given
        The inputs of the first set, on the host.
    output, found
        An output, and what the kernel made of the first set: its largest error is *error*.
    """

    sets: Sequence[dict[str, Any]]
    given: Mapping[str, Any]
    output: str
    found: Any
    error: float


def sets_of(case: Case, sizes: Mapping[str, int], l2_bytes: int) -> int:
    """Return how many sets of arguments are taken in turn, so that a call finds little of its own in the cache."""
    return min(_MOST_SETS, max(1, -(-4 * l2_bytes // case.moved(sizes))))


def _checked_sets(device: Device, case: Case, sizes: Mapping[str, int], run: pl.CompiledKernel) -> _Checked:
    """Draw sets of arguments and check the outputs of the first one."""
    rng = Random(np.random.PCG64DXSM())
    drawn = [case.inputs(sizes, rng) for _ in range(sets_of(case, sizes, device.l2_bytes))]
    sets = [_placed(device, inputs, sizes, run) for inputs in drawn]
    run(**sets[0])
    device.synchronize()
    expected = case.expected(drawn[0])
    worst = max(relative_error(sets[0][name].get(), *found) for name, found in expected.items())
    output = next(iter(expected))
    return _Checked(sets, drawn[0], output, device.copy(sets[0][output]), worst)


def _placed(
    device: Device, inputs: Mapping[str, Any], sizes: Mapping[str, int], run: pl.CompiledKernel
) -> dict[str, Any]:
    """Return the arguments of a call: inputs on the device, and poisoned outputs."""
    found = {name: device.array(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    for argument in run.program.arguments:
        if isinstance(argument, ArrayArg) and argument.name not in found:
            values = {**sizes, **{name: value for name, value in inputs.items() if not isinstance(value, np.ndarray)}}
            shape = tuple(evaluate(extent, values) for extent in argument.shape or ())
            found[argument.name] = device.poisoned(shape, np.dtype(argument.dtype))
    return found


def _apart(device: Device, libraries: Mapping[str, Any], checked: _Checked, call: Callable[[], object]) -> float:
    """Return how far the result of a peer's call on the first set is from the kernel's, relative to the largest value.

    The output is poisoned before; infinity where an element was not written.
    """
    output = checked.sets[0][checked.output]
    if checked.output in checked.given:
        output.set(checked.given[checked.output])
    else:
        device.poison(output)
    returned: Any = call()
    device.synchronize()
    mine, other = checked.found, returned if hasattr(returned, "shape") else output  # Triton returns its kernel
    if "torch" in libraries:
        torch = libraries["torch"]
        a, b = (as_tensor(torch, array) for array in (mine, other))
        short = [x.dtype for x in (a, b) if x.dtype in (torch.float16, torch.bfloat16)]
        rounded = sum(torch.finfo(dtype).eps / 2 for dtype in short)
        a, b = (x.float() if x.dtype in short else x for x in (a, b))
        apart = float((a - b).abs().max() / a.abs().max()) - rounded
    else:
        a, b = mine.get(), other.get()
        apart = float(np.abs(a - b).max() / np.abs(a).max())
    return float("inf") if np.isnan(apart) else apart


def relative_error(got: np.ndarray[Any, Any], at: Any, expected: np.ndarray[Any, Any]) -> float:
    """Return the largest error at the places *at* relative to the largest value; infinity if any element is NaN."""
    if np.isnan(got).any() or np.isnan(expected).any():
        return float("inf")
    apart = float(np.abs(got[at].astype(np.float64) - expected).max())
    largest = float(np.abs(expected).max())
    return apart / largest if largest else float("inf") if apart else 0.0


if __name__ == "__main__":
    sys.exit(main())
