"""``python -m benchmarks drawn``: products of sizes that are drawn at random, beside PyTorch.

Each schedule of ``polyloop.library.matmul`` is made and compiled once, by processes of their own, and those that take a
call's sizes are timed in turn with PyTorch.  What is told is the best of them, which :meth:`polyloop.Dispatcher.tune`
would choose, the one that a dispatcher chooses by the times that come with the library, and the geometric means over
all calls.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import random
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polyloop as pl
from benchmarks.gpu.library import Figure, Job, Made, measure, recorded
from polyloop.kernel.devices import find_device
from polyloop.runtime.gpu import device_architecture, device_name, gpu_available
from polyloop.runtime.nvrtc import compile_cuda

__all__ = ["TYPES", "drawn", "made", "main"]

TYPES: Final = ("bfloat16", "float16", "float32", "float64")
_MOST: Final = {"bfloat16": 2**37, "float16": 2**37, "float32": 2**34, "float64": 2**35}
"""Operations of a call."""
_STEPS: Final = (64, 64, 8, 1)
"""Sizes are multiples of these: half of them of 64, a quarter of 8, the others any."""


def drawn(count: int, seed: int, types: Sequence[str] = TYPES) -> list[Job]:
    """Return *count* products: *types* in turn, sizes from 16 to 16384, their logarithms evenly distributed."""
    rng = random.Random(seed)
    jobs: list[Job] = []
    while len(jobs) < count:
        dtype, step = types[len(jobs) % len(types)], rng.choice(_STEPS)
        shape = [max(step, round(2 ** rng.uniform(4, 14) / step) * step) for _ in "mnp"]
        if 2**24 <= 2 * math.prod(shape) <= _MOST[dtype]:
            jobs.append(Job("matmul", dtype, tuple(zip("mnp", shape, strict=True)), dtype))
    return jobs


def made(dtype: str, name: str, architecture: str) -> Made:
    """Return one schedule, compiled into the disk cache."""
    schedules = importlib.import_module("polyloop.library.matmul").schedules
    try:
        kernel = schedules(dtype, dtype)[name]()
        target = kernel.target or pl.CudaTarget(architecture)
        program = pl.generate_code(kernel, target=target)
        compile_cuda(program.device_code, target.arch)
        return Made(name, program, target.arch, tuple(kernel.fixed))
    except Exception as error:
        return Made(name, refused=f"{type(error).__name__}: {error}"[:300])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks drawn", description=__doc__)
    parser.add_argument("--count", type=int, default=60, metavar="N", help="calls that are drawn")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="seed of the draw")
    parser.add_argument("--seconds", type=float, default=200.0, help="begin no call after this time")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES, help="types of elements, in turn")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the times by which calls are chosen")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    print("| call | PyTorch [us] | best, PyTorch/it | chosen, PyTorch/it | wrong |\n|---|---|---|---|---|")
    jobs = {str(job): job for job in drawn(options.count, options.seed, options.types)}
    figures, ratios, chosen = list[Figure](), list[float](), list[float]()
    is_wrong = False
    for figure in _measured(list(jobs.values()), options.seconds):
        best = min(figure.times, key=lambda name: figure.times[name])
        ratios.append(figure.torch / figure.times[best])
        wrong = [name for name, error in figure.errors.items() if not error < 2e-2]
        is_wrong = is_wrong or bool(wrong)
        name = by_records(jobs[figure.job], figure.times)
        chosen += [figure.torch / figure.times[name]] if name else []
        told = f"{name} {chosen[-1]:.2f}" if name else ""
        print(f"| {figure.job} | {figure.torch:.1f} | {best} **{ratios[-1]:.2f}** | {told} | {', '.join(wrong)} |",
              flush=True)  # fmt: skip
        figures.append(figure)
    if options.record is not None:
        options.record.write_text(recorded(figures, jobs, find_device(device_name() or "").name))
    print(f"geometric mean over {len(ratios)} calls, seed {options.seed}: {_mean(ratios):.3f}; "
          f"least {min(ratios, default=0.0):.2f}")  # fmt: skip
    print(f"chosen by the times that come with the library, {len(chosen)} calls: {_mean(chosen):.3f}; "
          f"least {min(chosen, default=0.0):.2f}")  # fmt: skip
    return int(is_wrong)


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0


def by_records(job: Job, valid: Collection[str]) -> str:
    """Return which of the *valid* schedules a dispatcher chooses on this GPU by measurements, empty if by its model."""
    dispatcher: pl.Dispatcher = importlib.import_module("polyloop.library").matmul(job.dtype, job.result)
    return next((name for name in dispatcher.ranked(**dict(job.sizes)) if name in valid), "")


def _measured(jobs: Sequence[Job], seconds: float) -> Iterator[Figure]:
    bench: Any = importlib.import_module("benchmarks.gpu.device")
    schedules = importlib.import_module("polyloop.library.matmul").schedules
    architecture = device_architecture() or "sm_90"
    begin = time.perf_counter()
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1), get_context("spawn")) as pool:
        types = dict.fromkeys(job.dtype for job in jobs)
        asked = [(dtype, name) for dtype in types for name in schedules(dtype, dtype)]
        futures = {key: pool.submit(made, *key, architecture) for key in asked}
        device = bench.Device()
        torch: Any = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False
        print(f"made for {device_name()}", file=sys.stderr)
        for job in jobs:
            if time.perf_counter() - begin > seconds:
                print(f"out of time before {job}", file=sys.stderr)
                break
            programs = [future.result() for (dtype, _), future in futures.items() if dtype == job.dtype]
            yield measure(torch, device, job, programs)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
