"""``python -m benchmarks fused``: products in a chain, beside PyTorch and ``torch.compile``.

Programs are made and compiled by processes of their own.  Each is checked against float64 for some rows, and all of one
call are timed in turn, with PyTorch's own ways to compute it.
"""
# ruff: noqa: ANN401  # PyTorch's arrays

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polyloop as pl
from benchmarks.gpu.chains import CHAINS, Chain
from benchmarks.gpu.library import apart
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.gpu import device_name, gpu_available
from polyloop.runtime.invoke import load
from polyloop.runtime.nvrtc import compile_cuda

__all__ = ["JOBS", "Figure", "Job", "Made", "main", "make"]

_SAMPLES: Final = 9
_LIMIT: Final = 2e-2
_ARCHITECTURE: Final = "sm_90a"


@dataclass(frozen=True)
class Job:
    """One call of a chain, by its number in ``CHAINS``, with its sizes."""

    number: int
    sizes: tuple[tuple[str, int], ...]

    @property
    def chain(self) -> Chain:
        """The chain."""
        return CHAINS[self.number]

    def __str__(self) -> str:
        return f"{self.chain.name} {' x '.join(str(size) for _, size in self.sizes)}"


JOBS: Final = tuple(Job(number, tuple(sizes.items())) for number, chain in enumerate(CHAINS) for sizes in chain.sizes)


@dataclass(frozen=True)
class Made:
    """A schedule of a call; ``refused`` is why there is no program."""

    name: str
    program: GeneratedProgram | None = None
    refused: str = ""


def make(job: Job, name: str) -> Made:
    """Return one schedule, compiled into the disk cache."""
    try:
        kernel = job.chain.schedules[name](**dict(job.sizes))
        program = pl.generate_code(kernel, target=pl.CudaTarget(_ARCHITECTURE))
        compile_cuda(program.device_code, _ARCHITECTURE)
        return Made(name, program)
    except Exception as error:
        return Made(name, refused=f"{type(error).__name__}: {error}"[:400])


@dataclass(frozen=True)
class Figure:
    """Times of one call [us]: PyTorch's ways' and the schedules', with their errors; ``operations`` of the call."""

    job: str
    operations: float
    peers: Mapping[str, float]
    times: Mapping[str, float]
    errors: Mapping[str, float]

    def __str__(self) -> str:
        best = min(self.peers.values(), default=float("nan"))
        rate = {name: self.operations / found * 1e-6 for name, found in {**self.peers, **self.times}.items()}
        peers = ", ".join(f"{name} {self.peers[name]:.1f} us ({rate[name]:.0f})" for name in self.peers)
        own = ", ".join(f"{name} **{best / self.times[name]:.2f}** ({rate[name]:.0f}, error {self.errors[name]:.0e})"
                        for name in sorted(self.times, key=lambda name: self.times[name]))  # fmt: skip
        return f"| {self.job} | {peers} | {own} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks fused", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="calls with one of these words in their names")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes seconds a call")
    parser.add_argument("--seconds", type=float, default=400.0, help="begin no call after this time")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    jobs = [job for job in JOBS if not options.words or any(word in str(job) for word in options.words)]
    figures: list[Figure] = []
    print("| call | PyTorch [TFLOP/s] | schedules, of PyTorch's best [TFLOP/s] |\n|---|---|---|")
    for figure in measured(jobs, options.seconds, compiles=not options.no_compile):
        print(figure, flush=True)
        figures.append(figure)
        if options.save is not None:
            options.save.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    return int(any(not error < _LIMIT for figure in figures for error in figure.errors.values()))


def measured(jobs: Sequence[Job], seconds: float, *, compiles: bool) -> Iterator[Figure]:
    """Yield a figure for each of *jobs*, as their programs are ready."""
    begin = time.perf_counter()
    count = max(1, (os.cpu_count() or 2) - 1)
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        made = {job: [pool.submit(make, job, name) for name in job.chain.schedules] for job in jobs}
        device = importlib.import_module("benchmarks.gpu.device").Device()
        torch: Any = importlib.import_module("torch")
        torch.backends.cuda.matmul.allow_tf32 = False
        for job in jobs:
            if time.perf_counter() - begin > seconds:
                print(f"out of time before {job}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return
            try:
                yield measure(torch, device, job, [future.result() for future in made[job]], compiles=compiles)
            except Exception as error:
                print(f"{job}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            torch.cuda.empty_cache()
    print(f"took {time.perf_counter() - begin:.0f} s on {device_name()}", file=sys.stderr)


def measure(torch: Any, device: Any, job: Job, made: Sequence[Made], *, compiles: bool) -> Figure:
    """Return the times of the schedules *made* for a call."""
    torch.manual_seed(0)
    chain, sizes = job.chain, dict(job.sizes)
    arrays = chain.inputs(torch, sizes)
    wanted = chain.expected(torch, arrays)
    rivals: list[tuple[str, Callable[[], object]]] = list(_peers(torch, job, arrays, compiles=compiles))
    peers, errors = [name for name, _ in rivals], {}
    for one in made:
        if one.program is None:
            print(f"{job}, {one.name}: {one.refused}", file=sys.stderr)
            continue
        try:
            call = load(one.program, None, _ARCHITECTURE).bind(**arrays)
            call()
            device.synchronize()
            errors[one.name] = apart(torch, call.result["c"], wanted)
            rivals.append((one.name, call))
        except Exception as error:
            print(f"{job}, {one.name}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
    found = device.in_turn([[call] for _, call in rivals], warm_up=2, repeat=_SAMPLES)
    times = {name: 1e3 * one for (name, _), one in zip(rivals, found, strict=True)}
    return Figure(str(job), chain.operations(sizes), {name: times.pop(name) for name in peers}, times, errors)


def _peers(torch: Any, job: Job, arrays: Mapping[str, Any], *, compiles: bool) -> Iterator[tuple[str, Any]]:
    """Yield PyTorch's ways to compute a call; one that fails is left out."""
    ways: dict[str, Callable[[], object]] = dict(job.chain.peers(torch, arrays))
    if compiles and job.chain.expression is not None:
        compiled = torch.compile(partial(job.chain.expression, torch), dynamic=False)
        ways["torch.compile"] = partial(compiled, **arrays)
    for name, way in ways.items():
        try:
            way()
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{job}, {name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        yield name, way


if __name__ == "__main__":
    sys.exit(main())
