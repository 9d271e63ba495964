"""``python -m benchmarks library``: every schedule of the ready kernels, beside PyTorch, and what the model chooses.

Programs are made and compiled by processes of their own, and the model is asked there.  Each is checked against
float64, and all of one call are timed in turn, with PyTorch: the median of some calls, each on data that is not in the
cache.
"""
# ruff: noqa: ANN401  # PyTorch's arrays

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polyloop as pl
from polyloop import library
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.devices import find_device
from polyloop.runtime.gpu import device_architecture, device_name, gpu_available
from polyloop.runtime.invoke import load
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.tuning.estimate import estimate

__all__ = ["JOBS", "Figure", "Job", "Made", "apart", "main", "measure"]

_ELEMENTS: Final = 2**27
"""Of a matrix whose rows are normalized."""
_SAMPLES: Final = 9
_MOST_SETS: Final = 32
_BYTES: Final = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
_PLACE = "cuda"
"""Where PyTorch's arrays are."""


@dataclass(frozen=True)
class Job:
    """One call of a ready kernel: which, for which type and sizes, and of products the type of the result."""

    kernel: str
    dtype: str
    sizes: tuple[tuple[str, int], ...]
    result: str = ""

    def __str__(self) -> str:
        short = {"float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float16": "fp16"}
        if self.kernel in ("softmax", "layer_norm"):
            return f"{self.kernel} {short[self.dtype]} {dict(self.sizes)['n']}"
        to = f" to {short[self.result]}" if self.result not in ("", self.dtype) else ""
        return f"{self.kernel} {short[self.dtype]}{to} {' x '.join(str(value) for _, value in self.sizes)}"


def _product(dtype: str, *shapes: tuple[int, int, int], result: str = "") -> list[Job]:
    return [Job("matmul", dtype, tuple(zip("mnp", shape, strict=True)), result or dtype) for shape in shapes]


def _rows(dtype: str, *widths: int) -> list[Job]:
    return [Job(kernel, dtype, (("m", max(1, _ELEMENTS // width)), ("n", width)))
            for kernel in ("softmax", "layer_norm") for width in widths]  # fmt: skip


JOBS: Final = (
    *_product("float32", *((n,) * 3 for n in (512, 1000, 1024, 1023, 3072, 4096)), (512, 512, 8192),
              (128, 8192, 8192)),
    *_product("float64", (1024, 1024, 8192), (128, 4096, 4096), (1023, 1023, 1023)),
    *_product("bfloat16", *((n,) * 3 for n in (2048, 4096, 6144, 8192)), (8192, 8192, 512), (4000, 3000, 5000),
              (1024, 1024, 8192), (128, 4096, 4096), (16, 8192, 8192), (1023, 1023, 1023)),
    *_product("float16", *((n,) * 3 for n in (2048, 4096, 6144, 8192))),
    *_product("bfloat16", (4096, 4096, 4096), (1024, 1024, 8192), (128, 4096, 4096), (1023, 1023, 1023),
              result="float32"),
    *(Job("transpose", "float32", (("m", n), ("n", n))) for n in (4096, 8200, 12289)),
    *_rows("float32", 32, 257, 1000, 1024, 4096, 4099, 16384, 32768, 65536, 131072, 262144),
    *_rows("bfloat16", 32, 1000, 1024, 4096, 16384, 65536, 131072, 262144),
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A schedule of a call: its program, the sizes that it has fixed, and its time by the model [s].

    ``refused`` is why there is no program.
    """

    name: str
    program: GeneratedProgram | None = None
    architecture: str = ""
    fixed: tuple[str, ...] = ()
    model: float = 0.0
    refused: str = ""


def make(job: Job, device: str, architecture: str, target: pl.Target | None = None) -> list[Made]:
    """Return the valid schedules of a call, compiled into the disk cache."""
    found = []
    which = (job.dtype, job.result) if job.result else (job.dtype,)
    kernel = getattr(library, job.kernel)(*which, target=target, device=device)
    for name, schedule in kernel.valid(**dict(job.sizes)).items():
        arch = schedule.target.arch if schedule.kernel.target is not None else architecture
        try:
            if schedule.program.target == "cuda":
                compile_cuda(schedule.program.device_code, arch)
            model = estimate(schedule.kernel, dict(job.sizes), find_device(device))
            found.append(Made(name, schedule.program, arch, tuple(schedule.kernel.fixed), model))
        except Exception as error:
            found.append(Made(name, refused=f"{type(error).__name__}: {error}"[:300]))
    return found


@dataclass(frozen=True)
class Figure:
    """Times of one call [us]: PyTorch's, that of a copy of as many bytes, and each schedule's with its error."""

    job: str
    torch: float
    copy: float
    times: Mapping[str, float]
    errors: Mapping[str, float]
    model: Mapping[str, float]

    def __str__(self) -> str:
        ranked = sorted(self.times, key=lambda name: self.times[name])
        if not ranked:
            return f"| {self.job} | {self.torch:.1f} | {self.copy:.1f} | none | | |"
        best, chosen = ranked[0], min(self.model, key=lambda name: self.model[name], default="")
        more = ", ".join(f"{name} {self.torch / self.times[name]:.2f}" for name in ranked[1:4])
        picked = self.times.get(chosen, float("inf"))
        wrong = ", ".join(f"{name} WRONG {error:.0e}" for name, error in self.errors.items() if not error < _LIMIT)
        return (f"| {self.job} | {self.torch:.1f} | {self.copy / self.times[best]:.2f} | {best} "
                f"**{self.torch / self.times[best]:.2f}** | {chosen} {self.torch / picked:.2f} | {more} | {wrong} |")


_LIMIT: Final = 2e-2
_HEAD: Final = ("| call | PyTorch [us] | copy/best | best, PyTorch/it | the model's, PyTorch/it | next | wrong |\n"
                "|---|---|---|---|---|---|---|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks library", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="calls with all of these words in their names")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the times by which calls are chosen")
    parser.add_argument("--seconds", type=float, default=140.0, help="begin no call after this time")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for figure in measured([job for job in JOBS if all(word in str(job) for word in options.words)], options.seconds):
        if not figures:
            print(_HEAD)
        print(figure, flush=True)
        figures.append(figure)
        if options.save is not None:
            options.save.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    if options.record is not None:
        jobs = {str(job): job for job in JOBS}
        options.record.write_text(recorded(figures, jobs, find_device(device_name() or "").name))
    return int(any(not error < _LIMIT for figure in figures for error in figure.errors.values()))


def recorded(figures: Sequence[Figure], jobs: Mapping[str, Job], device: str) -> str:
    """Return the times of *figures*, measured on *device*, as :mod:`polyloop.library.records` reads them."""
    entries = []
    for figure in figures:
        job = jobs[figure.job]
        right = {name: time for name, time in figure.times.items() if figure.errors.get(name, 1.0) < _LIMIT}
        seconds = {name: float(f"{time * 1e-6:.4g}") for name, time in sorted(right.items(), key=lambda one: one[1])}
        result = {"result": job.result} if job.result else {}
        entries.append({"kernel": job.kernel, "dtype": job.dtype, **result, "sizes": dict(job.sizes), "device": device,
                        "seconds": seconds})
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"


def measured(jobs: Sequence[Job], seconds: float) -> Any:
    """Yield a figure for each of *jobs*, as their programs are ready."""
    bench: Any = importlib.import_module("benchmarks.gpu.device")
    begin, name = time.perf_counter(), device_name() or ""
    architecture = device_architecture() or "sm_90"
    count = max(1, min(len(jobs), (os.cpu_count() or 2) - 1))
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        made = [pool.submit(make, job, name, architecture) for job in jobs]
        device = bench.Device()
        torch: Any = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False
        for job, future in zip(jobs, made, strict=True):
            if time.perf_counter() - begin > seconds:
                print(f"out of time before {job}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return
            try:
                yield measure(torch, device, job, future.result())
            except Exception as error:
                print(f"{job}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            torch.cuda.empty_cache()
    print(f"took {time.perf_counter() - begin:.0f} s on {name}", file=sys.stderr)


def measure(torch: Any, device: Any, job: Job, made: Sequence[Made]) -> Figure:
    """Return the times of the schedules *made* for a call, which is refused by those that are not for it."""
    sets = [_inputs(torch, job) for _ in range(_sets(job, device.l2_bytes))]
    wanted, output = _expected(torch, job, sets[0])
    rivals: list[tuple[str, list[Callable[[], object]]]] = [
        ("torch", [_torch_call(torch, job, arrays) for arrays in sets]),
        ("copy", [_copy_call(torch, job)]),
    ]
    errors, model = {}, {}
    for one in made:
        if one.program is None:
            print(f"{job}, {one.name}: {one.refused}", file=sys.stderr)
            continue
        try:
            run = load(one.program, None, one.architecture)
            calls = [run.bind(**arrays) for arrays in sets]
            calls[0]()
            device.synchronize()
            errors[one.name] = apart(torch, calls[0].result[output], wanted)
            model[one.name] = one.model
            rivals.append((one.name, list(calls)))
        except pl.ArgumentError:
            continue  # the call is none for this schedule
        except Exception as error:
            print(f"{job}, {one.name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    del wanted
    times = dict(zip([name for name, _ in rivals], _in_turn(device, [calls for _, calls in rivals]), strict=True))
    pytorch, copy = times.pop("torch"), times.pop("copy")
    return Figure(str(job), pytorch, copy, times, errors, model)


def _in_turn(device: Any, rivals: Sequence[Sequence[Callable[[], object]]]) -> list[float]:
    """Return the median time of one call of each [us]; those that are far behind are timed less often."""
    first = device.in_turn(rivals, warm_up=1, repeat=3)
    limit = 2 * min([first[0], *first[2:]])
    near = [number for number, found in enumerate(first) if found <= limit]
    again = device.in_turn([rivals[number] for number in near], warm_up=0, repeat=_SAMPLES) if near else []
    times = dict(enumerate(first)) | dict(zip(near, again, strict=True))
    return [1e3 * times[number] for number in range(len(rivals))]


def _sets(job: Job, l2_bytes: int) -> int:
    """Return how many sets of arguments are taken in turn, so that a call finds little of its own in the cache."""
    return min(_MOST_SETS, max(1, -(-2 * l2_bytes // _moved(job))))


def _moved(job: Job) -> int:
    """Return the bytes that a call reads and writes at least."""
    size, sizes = _BYTES[job.dtype], dict(job.sizes)
    if job.kernel != "matmul":
        return 2 * size * sizes["m"] * sizes["n"]
    m, n, p = (sizes[name] for name in "mnp")
    return size * (m * p + p * n) + _BYTES[job.result] * m * n


def _inputs(torch: Any, job: Job) -> dict[str, Any]:
    sizes, dtype = dict(job.sizes), getattr(torch, job.dtype)
    if job.kernel == "matmul":
        shapes = {"a": (sizes["m"], sizes["p"]), "b": (sizes["p"], sizes["n"])}
        return {name: (torch.rand(shape, device=_PLACE) - 0.5).to(dtype) for name, shape in shapes.items()}
    if job.kernel == "transpose":
        return {"a": torch.rand((sizes["m"], sizes["n"]), device=_PLACE).to(dtype)}
    found = {"x": torch.randn((sizes["m"], sizes["n"]), device=_PLACE).to(dtype)}
    if job.kernel == "layer_norm":
        found |= {name: torch.rand(sizes["n"], device=_PLACE).to(dtype) for name in ("gamma", "beta")}
    return found


def _expected(torch: Any, job: Job, given: Mapping[str, Any]) -> tuple[Any, str]:
    """Return some rows of what is expected, from the first on, and the name of the output."""
    if job.kernel == "matmul":
        return given["a"][:256].double() @ given["b"].double(), "c"
    if job.kernel == "transpose":
        return given["a"].T.double(), "b"
    x = given["x"][:64].double()
    if job.kernel == "softmax":
        return torch.softmax(x, 1), "y"
    return torch.nn.functional.layer_norm(x, x.shape[1:], given["gamma"].double(), given["beta"].double(), 1e-5), "y"


def apart(torch: Any, found: Any, wanted: Any) -> float:
    """Return the largest error relative to the largest value; infinity where an element is NaN."""
    if bool(torch.isnan(found).any()):
        return float("inf")
    return float((found[: len(wanted)].double() - wanted).abs().max() / wanted.abs().max())


def _torch_call(torch: Any, job: Job, arrays: Mapping[str, Any]) -> Callable[[], object]:
    match job.kernel:
        case "matmul":
            out = torch.empty((arrays["a"].shape[0], arrays["b"].shape[1]), device=_PLACE, dtype=arrays["a"].dtype)
            return lambda: torch.mm(arrays["a"], arrays["b"], out=out)
        case "transpose":
            turned = torch.empty(arrays["a"].shape[::-1], device=_PLACE, dtype=arrays["a"].dtype)
            return lambda: turned.copy_(arrays["a"].T)
        case "softmax":
            return functools.partial(torch.softmax, arrays["x"], 1)
    x, gamma, beta = (arrays[name] for name in ("x", "gamma", "beta"))
    return lambda: torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta, 1e-5)


def _copy_call(torch: Any, job: Job) -> Callable[[], object]:
    """Return a copy that moves as many bytes as the call."""
    source, sink = (torch.zeros(max(1, _moved(job) // 8), device=_PLACE) for _ in range(2))
    return lambda: sink.copy_(source)


if __name__ == "__main__":
    sys.exit(main())
