"""``python -m benchmarks attention``: the schedules of attention, beside PyTorch's ``scaled_dot_product_attention``.

Programs are made and compiled by processes of their own.  Each is checked against float64 for some heads, and all of
one call are timed in turn, with each of PyTorch's kernels for it.
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
from math import e, log2, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.library.attention import VARIANTS, scheduled
from polyloop.runtime.gpu import device_name, gpu_available
from polyloop.runtime.invoke import load
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin

__all__ = ["JOBS", "Figure", "Job", "Made", "main"]

_PLACE: Final = "cuda"
_SAMPLES: Final = 9
_LIMIT: Final = 2e-2


@dataclass(frozen=True)
class Job:
    """One call: heads of keys of all batches, heads of queries for each, queries (and keys), elements of a head."""

    heads: int
    group: int
    n: int
    head: int
    causal: bool = False
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        short = {"bfloat16": "bf16", "float16": "fp16"}[self.dtype]
        grouped = f" x {self.group}" if self.group > 1 else ""
        return f"{short} d {self.head} heads {self.heads}{grouped} s {self.n}{' causal' if self.causal else ''}"

    @property
    def operations(self) -> float:
        """Additions and multiplications."""
        return 4.0 * self.heads * self.group * self.n**2 * self.head / (2 if self.causal else 1)


JOBS: Final = (
    Job(64, 1, 4096, 128), Job(64, 1, 4096, 128, causal=True), Job(64, 1, 4096, 64), Job(64, 1, 4096, 64, causal=True),
    Job(16, 1, 16384, 128), Job(16, 1, 16384, 128, causal=True), Job(16, 4, 4096, 128),
    Job(64, 1, 4096, 128, dtype="float16"), Job(64, 1, 1024, 128),
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A schedule of a call: its program, the registers of a thread and its bytes of local memory.

    ``refused`` is why there is no program.
    """

    name: str
    program: GeneratedProgram | None = None
    architecture: str = ""
    registers: int = 0
    local: int = 0
    refused: str = ""


def make(key: tuple[int, int, bool, str], name: str) -> Made:
    """Return one schedule for heads, groups and types, compiled into the disk cache."""
    head, group, causal, dtype = key
    try:
        kernel = scheduled(name, dtype, head, causal=causal, group=group)
        architecture = "sm_90a"
        program = pl.generate_code(kernel, target=pl.CudaTarget(architecture))
        image = read_cubin(compile_cuda(program.device_code, architecture).cubin)[program.launches[0].name]
        return Made(name, program, architecture, image.registers, image.local_bytes)
    except Exception as error:
        return Made(name, refused=f"{type(error).__name__}: {error}"[:400])


@dataclass(frozen=True)
class Figure:
    """Times of one call [us]: PyTorch's kernels' and the schedules', with their errors; ``operations`` of the call."""

    job: str
    operations: float
    peers: Mapping[str, float]
    times: Mapping[str, float]
    errors: Mapping[str, float]

    def __str__(self) -> str:
        rate = {name: self.operations / found * 1e-6 for name, found in {**self.peers, **self.times}.items()}
        best = max((rate[name] for name in self.peers), default=float("nan"))
        peers = ", ".join(f"{name} {rate[name]:.0f}" for name in self.peers)
        own = ", ".join(f"{name} **{rate[name]:.0f}** ({rate[name] / best:.2f}, error {self.errors[name]:.0e})"
                        for name in sorted(self.times, key=lambda name: self.times[name]))  # fmt: skip
        return f"| {self.job} | {peers} | {own} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a result is wrong, 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="benchmarks attention", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="calls with all of these words in their names")
    parser.add_argument("--variants", default="", metavar="A,B", help="schedules with one of these words")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--seconds", type=float, default=400.0, help="begin no call after this time")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    jobs = [job for job in JOBS if all(word in str(job) for word in options.words)]
    wanted = [word for word in options.variants.split(",") if word]
    names = [name for name in VARIANTS if not wanted or any(word in name for word in wanted)]
    figures: list[Figure] = []
    print("| call | PyTorch [TFLOP/s] | schedules [TFLOP/s] (of PyTorch's best) |\n|---|---|---|")
    for figure in measured(jobs, names, options.seconds):
        print(figure, flush=True)
        figures.append(figure)
        if options.save is not None:
            options.save.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    return int(any(not error < _LIMIT for figure in figures for error in figure.errors.values()))


def measured(jobs: Sequence[Job], names: Sequence[str], seconds: float) -> Iterator[Figure]:
    """Yield a figure for each of *jobs*, as their programs are ready."""
    begin = time.perf_counter()
    keys = dict.fromkeys((job.head, job.group, job.causal, job.dtype) for job in jobs)
    count = max(1, (os.cpu_count() or 2) - 1)
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        made = {key: [pool.submit(make, key, name) for name in names] for key in keys}
        device = importlib.import_module("benchmarks.gpu.device").Device()
        torch: Any = importlib.import_module("torch")
        for job in jobs:
            if time.perf_counter() - begin > seconds:
                print(f"out of time before {job}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return
            found = [future.result() for future in made[job.head, job.group, job.causal, job.dtype]]
            try:
                yield measure(torch, device, job, found)
            except Exception as error:
                print(f"{job}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            torch.cuda.empty_cache()
    print(f"took {time.perf_counter() - begin:.0f} s on {device_name()}", file=sys.stderr)


def measure(torch: Any, device: Any, job: Job, made: Sequence[Made]) -> Figure:
    """Return the times of the schedules *made* for a call."""
    dtype = getattr(torch, job.dtype)
    torch.manual_seed(0)
    q = torch.randn((job.heads, job.group, job.n, job.head), device=_PLACE).to(dtype)
    k, v = (torch.randn((job.heads, job.n, job.head), device=_PLACE).to(dtype) for _ in range(2))
    wanted = _expected(torch, job, q, k, v)
    rivals: list[tuple[str, Callable[[], object]]] = list(_peers(torch, job, q, k, v))
    peers, errors = [name for name, _ in rivals], {}
    for one in made:
        if one.program is None:
            print(f"{job}, {one.name}: {one.refused}", file=sys.stderr)
            continue
        try:
            run = load(one.program, None, one.architecture)
            call = run.bind(q=q, k=k, v=v, scale=log2(e) / sqrt(job.head))
            call()
            device.synchronize()
            errors[one.name] = _apart(torch, call.result["o"], wanted)
            rivals.append((one.name, call))
            print(f"{job}, {one.name}: {one.registers} registers, {one.local} bytes of local memory", file=sys.stderr)
        except Exception as error:
            print(f"{job}, {one.name}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
    found = device.in_turn([[call] for _, call in rivals], warm_up=2, repeat=_SAMPLES)
    times = {name: 1e3 * one for (name, _), one in zip(rivals, found, strict=True)}
    return Figure(str(job), job.operations, {name: times.pop(name) for name in peers}, times, errors)


def _expected(torch: Any, job: Job, q: Any, k: Any, v: Any) -> Any:
    """Return what is expected of the first and the last head of keys, for some queries, in float64."""
    rows = torch.cat([torch.arange(0, 256), torch.arange(job.n - 256, job.n)]).to(_PLACE)
    found = []
    for head in (0, job.heads - 1):
        scores = q[head][:, rows].double() @ k[head].double().T / sqrt(job.head)
        if job.causal:
            scores = scores.masked_fill(torch.arange(job.n, device=_PLACE)[None] > rows[:, None], float("-inf"))
        found.append(torch.softmax(scores, -1) @ v[head].double())
    return rows, torch.stack(found)


def _apart(torch: Any, found: Any, wanted: Any) -> float:
    """Return the largest error relative to the largest value; infinity where an element is NaN."""
    rows, values = wanted
    if bool(torch.isnan(found).any()):
        return float("inf")
    own = torch.stack([found[0][:, rows], found[-1][:, rows]]).double()
    return float((own - values).abs().max() / values.abs().max())


def _peers(torch: Any, job: Job, q: Any, k: Any, v: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield PyTorch's kernels that take the call; heads of keys are repeated for groups."""
    attention = importlib.import_module("torch.nn.attention")
    one = q.reshape(1, job.heads * job.group, job.n, job.head)
    more = [x[:, None].expand(-1, job.group, -1, -1).reshape(one.shape).contiguous() for x in (k, v)]

    def run(backend: Any) -> object:
        with attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(one, *more, is_causal=job.causal)

    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION"):
        backend = getattr(attention.SDPBackend, name, None)
        try:
            run(backend)
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{job}, {name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        yield name.partition("_")[0].lower(), partial(run, backend)


if __name__ == "__main__":
    sys.exit(main())
