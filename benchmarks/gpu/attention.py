"""``python -m benchmarks attention``: the schedules of attention, beside PyTorch's ``scaled_dot_product_attention``.

Programs are made and compiled by processes of their own.  Each is checked against float64 for some heads, and all of
one call are timed in turn, with each of PyTorch's kernels for it.  Of a backward pass, the programs are timed by
themselves first, and then the whole pass by the fastest of each.
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
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import e, log2, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.devices import find_device
from polyloop.library.attention import VARIANTS, scheduled
from polyloop.library.attention_backward import VARIANTS as GRADIENTS
from polyloop.library.attention_backward import delta_scheduled
from polyloop.library.attention_backward import scheduled as gradients_scheduled
from polyloop.library.scores import Scores
from polyloop.runtime.gpu import device_name, gpu_available
from polyloop.runtime.invoke import load
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin

__all__ = ["JOBS", "Figure", "Job", "Made", "main", "recorded"]

_PLACE: Final = "cuda"
_SAMPLES: Final = 9
_LIMIT: Final = 2e-2


@dataclass(frozen=True)
class Job:
    """One call: heads of keys of all batches, heads of queries for each, queries (and keys), elements of a head.

    Keys may have lengths of their own, scores a bias; ``backward`` is the pass for gradients alone.
    """

    heads: int
    group: int
    n: int
    head: int
    causal: bool = False
    dtype: str = "bfloat16"
    ragged: bool = False
    bias: bool = False
    backward: bool = False

    def __str__(self) -> str:
        short = {"bfloat16": "bf16", "float16": "fp16"}[self.dtype]
        grouped = f" x {self.group}" if self.group > 1 else ""
        more = [name for name in ("causal", "ragged", "bias", "backward") if getattr(self, name)]
        return " ".join([f"{short} d {self.head} heads {self.heads}{grouped} s {self.n}", *more])

    @property
    def operations(self) -> float:
        """Additions and multiplications: of two products forward, of five backward; of all keys if they are ragged."""
        return (10.0 if self.backward else 4.0) * self.heads * self.group * self.n**2 * self.head / (1 + self.causal)

    @property
    def scores(self) -> Scores:
        """What becomes of scores."""
        return Scores(causal=self.causal, lengths=self.ragged, bias=self.bias)

    @property
    def parts(self) -> tuple[str, ...]:
        """The programs that have several schedules, by their results."""
        if not self.backward:
            return ("o",)
        return ("dq", "dk", "dv") if self.head > _WIDEST else ("dq", "dk,dv")


_WIDEST: Final = 128
"""Elements of a head up to which one program has dk and dv."""
JOBS: Final = (
    Job(64, 1, 4096, 128), Job(64, 1, 4096, 128, causal=True), Job(64, 1, 4096, 128, backward=True),
    Job(64, 1, 4096, 128, causal=True, backward=True), Job(32, 1, 4096, 256), Job(32, 1, 4096, 256, causal=True),
    Job(64, 1, 4096, 64), Job(64, 1, 4096, 64, causal=True), Job(16, 4, 4096, 128), Job(64, 1, 4096, 128, ragged=True),
    Job(16, 1, 4096, 128, bias=True), Job(64, 1, 4096, 64, backward=True), Job(16, 4, 4096, 128, backward=True),
    Job(32, 1, 4096, 256, backward=True), Job(16, 1, 16384, 128), Job(16, 1, 16384, 128, causal=True),
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


def make(job: Job, part: str, name: str) -> Made:
    """Return one schedule of a part of *job*, compiled into the disk cache."""
    try:
        if part == "o":
            kernel = scheduled(name, job.dtype, job.head, group=job.group, scores=job.scores)
        elif part == "delta":
            kernel = delta_scheduled(job.dtype, job.head, job.group)
        else:
            of = part.split(",")
            kernel = gradients_scheduled(of, name, job.dtype, job.head, group=job.group, scores=job.scores)
        architecture = "sm_90a"
        program = pl.generate_code(kernel, target=pl.CudaTarget(architecture))
        image = read_cubin(compile_cuda(program.device_code, architecture).cubin)[program.launches[0].name]
        return Made(name, program, architecture, image.registers, image.local_bytes)
    except Exception as error:
        return Made(name, refused=f"{type(error).__name__}: {error}"[:400])


@dataclass(frozen=True)
class Figure:
    """Times of one call [us]: PyTorch's kernels' and the schedules', with their errors; ``operations`` of the call.

    ``parts`` has the times of all schedules of each of its programs.
    """

    job: str
    operations: float
    peers: Mapping[str, float]
    times: Mapping[str, float]
    errors: Mapping[str, float]
    parts: Mapping[str, Mapping[str, float]]

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
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the times by which calls are chosen")
    parser.add_argument("--seconds", type=float, default=400.0, help="begin no call after this time")
    options = parser.parse_args(arguments)
    is_there, reason = gpu_available()
    if not is_there:
        print(f"no GPU: {reason}", file=sys.stderr)
        return 2
    jobs = [job for job in JOBS if all(word in str(job) for word in options.words)]
    wanted = [word for word in options.variants.split(",") if word]
    figures: list[Figure] = []
    print("| call | PyTorch [TFLOP/s] | schedules [TFLOP/s] (of PyTorch's best) |\n|---|---|---|")
    for figure in measured(jobs, wanted, options.seconds):
        print(figure, flush=True)
        figures.append(figure)
        if options.save is not None:
            options.save.write_text(json.dumps([asdict(one) for one in figures], indent=1))
    if options.record is not None:
        options.record.write_text(recorded(figures, jobs, find_device(device_name() or "").name))
    return int(any(not error < _LIMIT for figure in figures for error in figure.errors.values()))


def recorded(figures: Sequence[Figure], jobs: Sequence[Job], device: str) -> str:
    """Return the times of *figures*, measured on *device*, as :mod:`polyloop.library.records` reads them."""
    named, lines = {str(job): job for job in jobs}, []
    for figure in figures:
        job = named[figure.job]
        if job.ragged or job.bias:  # a call that differs in them alone takes the same schedule
            continue
        sizes = {"heads": job.heads, "n": job.n} | ({} if job.causal else {"m": job.n})
        for part, times in figure.parts.items():
            title = "" if part == "o" else f": {part.replace(',', ', ')}"
            lines.append(json.dumps({
                "kernel": f"attention of {job.head}{', causal' * job.causal}{title}", "dtype": job.dtype,
                "sizes": sizes, "device": device,
                "seconds": {name: float(f"{1e-6 * time:.3g}") for name, time in sorted(times.items(), key=_time)},
            }))  # fmt: skip
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _time(item: tuple[str, float]) -> float:
    return item[1]


def _names(part: str, wanted: Sequence[str]) -> list[str]:
    """Return the schedules of a part that have one of the words *wanted*, all if there are none."""
    known = list(VARIANTS if part == "o" else GRADIENTS)
    return [name for name in known if not wanted or any(word in name for word in wanted)] or known


def measured(jobs: Sequence[Job], wanted: Sequence[str], seconds: float) -> Iterator[Figure]:
    """Yield a figure for each of *jobs*, as their programs are ready."""
    begin = time.perf_counter()
    count = max(1, (os.cpu_count() or 2) - 1)
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        made: dict[Job, dict[str, list[Future[Made]]]] = {}
        for job in jobs:  # what a program does not depend on is left out
            key = replace(job, heads=1, n=1)
            if key not in made:
                made[key] = {part: [pool.submit(make, key, part, name) for name in _names(part, wanted)]
                             for part in job.parts}  # fmt: skip
                if job.backward:
                    made[key]["delta"] = [pool.submit(make, key, "delta", "delta")]
        device = importlib.import_module("benchmarks.gpu.device").Device()
        torch: Any = importlib.import_module("torch")
        for job in jobs:
            if time.perf_counter() - begin > seconds:
                print(f"out of time before {job}", file=sys.stderr)
                pool.shutdown(wait=False, cancel_futures=True)
                return
            parts = made[replace(job, heads=1, n=1)]
            found = {part: [future.result() for future in futures] for part, futures in parts.items()}
            try:
                yield (backward_figure if job.backward else forward_figure)(torch, device, job, found)
            except Exception as error:
                print(f"{job}: {type(error).__name__}: {error}"[:400], file=sys.stderr)
            torch.cuda.empty_cache()
    print(f"took {time.perf_counter() - begin:.0f} s on {device_name()}", file=sys.stderr)


def _arguments(torch: Any, job: Job) -> dict[str, Any]:
    """Return the arguments of a forward pass."""
    dtype = getattr(torch, job.dtype)
    torch.manual_seed(0)
    given = {"q": torch.randn((job.heads, job.group, job.n, job.head), device=_PLACE).to(dtype)}
    given |= {name: torch.randn((job.heads, job.n, job.head), device=_PLACE).to(dtype) for name in "kv"}
    given["scale"] = log2(e) / sqrt(job.head)
    if job.ragged:
        given["lengths"] = torch.randint(job.n // 2, job.n, (job.heads,), device=_PLACE, dtype=torch.int32)
    if job.bias:
        given["bias"] = torch.randn((job.heads, job.group, job.n, job.n), device=_PLACE).to(dtype)
    return given


def _ready(
    job: Job, made: Sequence[Made], given: Mapping[str, Any], synchronize: Callable[[], object]
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """Yield the schedules that can be called, bound to those of the arguments that they take, and called once."""
    for one in made:
        if one.program is None:
            print(f"{job}, {one.name}: {one.refused}", file=sys.stderr)
            continue
        try:
            takes = {argument.name for argument in one.program.arguments}
            call = load(one.program, None, one.architecture).bind(
                **{name: value for name, value in given.items() if name in takes})
            call()
            synchronize()
            print(f"{job}, {one.name}: {one.registers} registers, {one.local} bytes of local memory", file=sys.stderr)
            yield one.name, call
        except Exception as error:
            print(f"{job}, {one.name}: {type(error).__name__}: {error}"[:400], file=sys.stderr)


def _in_turn(device: Any, calls: Sequence[tuple[str, Callable[[], object]]]) -> dict[str, float]:
    """Return the times [us] of calls, measured in turn."""
    found = device.in_turn([[call] for _, call in calls], warm_up=2, repeat=_SAMPLES)
    return {name: 1e3 * one for (name, _), one in zip(calls, found, strict=True)}


def forward_figure(torch: Any, device: Any, job: Job, made: Mapping[str, Sequence[Made]]) -> Figure:
    """Return the times of the schedules *made* for a call."""
    given = _arguments(torch, job)
    wanted = _expected(torch, job, given)
    peers = [(name, call) for name, call in _peers(torch, job, given)]
    own = list(_ready(job, made["o"], given, device.synchronize))
    errors = {name: _apart(torch, call.result["o"], wanted) for name, call in own}
    times = _in_turn(device, [*peers, *own])
    rivals = {name: times.pop(name) for name, _ in peers}
    return Figure(str(job), job.operations, rivals, times, errors, {"o": times})


def backward_figure(torch: Any, device: Any, job: Job, made: Mapping[str, Sequence[Made]]) -> Figure:
    """Return the time of a whole backward pass, by the fastest schedule of each of its programs."""
    given = _arguments(torch, job)
    given["d_o"] = torch.randn(given["q"].shape, device=_PLACE).to(given["q"].dtype)
    peers = [(name, call) for name, call in _peers(torch, job, given)]
    given["o"], given["lse"] = _forward(torch, job, given)
    calls = dict(_ready(job, made["delta"], given, device.synchronize))
    given["delta"] = calls["delta"].result["delta"]
    names, parts = ["delta"], {}
    for part in job.parts:
        own = list(_ready(job, made[part], given, device.synchronize))
        times = parts[part] = _in_turn(device, own)
        best = min(times, key=lambda name: times[name])
        print(f"{job}, {part} [us]: {', '.join(f'{name} {time:.0f}' for name, time in times.items())}", file=sys.stderr)
        names.append(f"{part} {best}")
        calls[part] = dict(own)[best]

    def whole() -> None:
        for call in calls.values():
            call()

    title = "; ".join(names[1:])
    found = {name: calls[part].result[name] for part in job.parts for name in part.split(",")}
    errors = {title: _gradients_apart(torch, job, given, found)}
    times = _in_turn(device, [*peers, (title, whole)])
    rivals = {name: times.pop(name) for name, _ in peers}
    return Figure(str(job), job.operations, rivals, times, errors, parts)


def _scores(torch: Any, job: Job, given: Mapping[str, Any], head: int, rows: Any) -> Any:
    """Return the scores of some queries of a head of keys, in float64."""
    scores = given["q"][head][:, rows].double() @ given["k"][head].double().T / sqrt(job.head)
    if job.bias:
        scores += given["bias"][head][:, rows]
    keys = torch.arange(job.n, device=_PLACE)[None]
    if job.causal:
        scores = scores.masked_fill(keys > rows[:, None], float("-inf"))
    return scores.masked_fill(keys >= given["lengths"][head], float("-inf")) if job.ragged else scores


def _expected(torch: Any, job: Job, given: Mapping[str, Any]) -> Any:
    """Return what is expected of the first and the last head of keys, for some queries, in float64."""
    rows = torch.cat([torch.arange(0, 256), torch.arange(job.n - 256, job.n)]).to(_PLACE)
    found = [torch.softmax(_scores(torch, job, given, head, rows), -1) @ given["v"][head].double()
             for head in (0, job.heads - 1)]  # fmt: skip
    return rows, torch.stack(found)


def _apart(torch: Any, found: Any, wanted: Any) -> float:
    """Return the largest error relative to the largest value; infinity where an element is NaN."""
    rows, values = wanted
    if bool(torch.isnan(found).any()):
        return float("inf")
    own = torch.stack([found[0][:, rows], found[-1][:, rows]]).double()
    return float((own - values).abs().max() / values.abs().max())


def _forward(torch: Any, job: Job, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return outputs and logarithms of sums of exponentials, head by head, in float32."""
    outputs, sums = [], []
    rows = torch.arange(job.n, device=_PLACE)
    for head in range(job.heads):
        scores = (given["q"][head] @ given["k"][head].T).float() / sqrt(job.head)
        if job.causal:
            scores = scores.masked_fill(rows[None] > rows[:, None], float("-inf"))
        if head in (0, job.heads - 1):  # those that are compared
            scores = _scores(torch, job, given, head, rows)
        sums.append(torch.logsumexp(scores, -1).float())
        outputs.append((torch.softmax(scores, -1) @ given["v"][head].to(scores.dtype)).to(given["q"].dtype))
    return torch.stack(outputs), torch.stack(sums)


def _gradients_apart(torch: Any, job: Job, given: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """Return the largest error of the gradients of the first and the last head of keys, relative to the largest one."""
    rows, worst = torch.arange(job.n, device=_PLACE), 0.0
    for head in (0, job.heads - 1):
        q, k, v, d_o = (given[name][head].double() for name in ("q", "k", "v", "d_o"))
        weights = torch.softmax(_scores(torch, job, given, head, rows), -1)
        outward = (d_o * (weights @ v)).sum(-1, keepdim=True)
        ds = weights * (d_o @ v.T - outward) / sqrt(job.head)
        wanted = {"dq": ds @ k, "dk": (ds.mT @ q).sum(0), "dv": (weights.mT @ d_o).sum(0)}
        for name, value in wanted.items():
            own = found[name][head].double()
            bad = bool(torch.isnan(own).any())
            worst = max(worst, float("inf") if bad else float((own - value).abs().max() / value.abs().max()))
        del weights, ds
    return worst


def _peers(torch: Any, job: Job, given: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield PyTorch's kernels that take the call; heads of keys are repeated for groups."""
    attention = importlib.import_module("torch.nn.attention")
    one = given["q"].reshape(1, job.heads * job.group, job.n, job.head)
    more = [given[x][:, None].expand(-1, job.group, -1, -1).reshape(one.shape).contiguous() for x in "kv"]
    mask = given["bias"].reshape(1, -1, job.n, job.n) if job.bias else None
    if job.ragged:
        keys = torch.arange(job.n, device=_PLACE)[None] < given["lengths"].repeat_interleave(job.group)[:, None]
        mask = keys[None, :, None].expand(-1, -1, job.n, -1)
    parts = [x.detach().requires_grad_(job.backward) for x in (one, *more)]
    d_o = given["d_o"].reshape(one.shape) if job.backward else None

    def run(backend: Any) -> Any:
        with attention.sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=job.causal)

    def back(output: Any) -> object:
        return torch.autograd.grad(output, parts, d_o, retain_graph=True)

    names = ["CUDNN_ATTENTION", "FLASH_ATTENTION", *["EFFICIENT_ATTENTION"] * (mask is not None)]
    for name in names:
        backend = getattr(attention.SDPBackend, name, None)
        try:
            call = partial(back, run(backend)) if job.backward else partial(run, backend)
            call()
            torch.cuda.synchronize()
        except Exception as error:
            print(f"{job}, {name}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            continue
        yield name.partition("_")[0].lower(), call


if __name__ == "__main__":
    sys.exit(main())
