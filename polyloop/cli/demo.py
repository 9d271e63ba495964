"""``python -m polyloop demo``: three kernels, from text to a checked result."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

import polyloop as pl
from polyloop.cli.kernels import DEMO_KERNELS, DemoKernel
from polyloop.cli.pictures import Picture, read_picture, shipped_picture
from polyloop.cli.problems import Problem, axpy_problem, matmul_problem, stencil_problem
from polyloop.codegen.program import GeneratedProgram
from polyloop.runtime.fibres import agree, run_on_fibres
from polyloop.runtime.gpu import gpu_available
from polyloop.runtime.nvrtc import nvrtc_available
from polyloop.runtime.resources import Resources

__all__ = ["Outcome", "run"]

Output: TypeAlias = NDArray[np.floating]

_TIMINGS: Final = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one demo kernel.

    Attributes
    ----------
    ran_on
        The places that it ran on, each with the size.
    max_error, allowed
        Largest error against NumPy, and the largest that rounding explains [units of the output].
    seconds_to_source
        From ``make_kernel`` to CUDA C, transforms and checks included; best of three.
    seconds_to_run
        The call with the large size, in this process, copies included.
    """

    name: str
    ran_on: str
    max_error: float
    allowed: float
    ok: bool
    seconds_to_source: float
    seconds_to_run: float
    resources: Resources | None

    def as_data(self) -> dict[str, object]:
        """Return the JSON of ``--json``; an error that is not a number is ``None``."""
        return {
            "name": self.name,
            "ran_on": self.ran_on,
            "max_error": self.max_error if math.isfinite(self.max_error) else None,
            "allowed_error": self.allowed,
            "ok": self.ok,
            "seconds_to_source": self.seconds_to_source,
            "seconds_to_run": self.seconds_to_run,
            "registers": None if self.resources is None else self.resources.registers,
            "shared_bytes": None if self.resources is None else self.resources.shared_bytes,
        }


@dataclass(frozen=True, slots=True)
class _Case:
    """A kernel with two problem sizes: for a GPU or the C target, and for fibres."""

    demo: DemoKernel
    full: Problem
    small: Problem


def _cases(picture: Picture) -> Iterator[_Case]:
    yield _Case(DEMO_KERNELS["axpy"], axpy_problem(1_000_003), axpy_problem(1000))
    yield _Case(DEMO_KERNELS["matmul"], matmul_problem(1000), matmul_problem(37))
    yield _Case(DEMO_KERNELS["stencil"], stencil_problem(picture), stencil_problem(picture[:43, :37]))


@dataclass(frozen=True, slots=True)
class _Ran:
    """Result of one run: target, error, tolerance, time."""

    place: str
    error: float
    allowed: float
    ok: bool
    seconds: float


def _judge(place: str, problem: Problem, outputs: Sequence[Output], seconds: float) -> _Ran:
    errors = [problem.error(output) for output in outputs]
    return _Ran(
        place=f"{place} ({problem.size})",
        error=float(np.max(errors)),
        allowed=float(problem.bound.max()),
        ok=all(problem.accepts(output) for output in outputs),
        seconds=seconds,
    )


def _on_target(place: str, compiled: pl.CompiledKernel, problem: Problem) -> _Ran:
    output = problem.poisoned_output()
    arguments: dict[str, Any] = {**problem.inputs, problem.output: output}
    start = time.perf_counter()
    compiled(**arguments)
    return _judge(place, problem, [output], time.perf_counter() - start)


def _on_fibres(program: GeneratedProgram, problem: Problem) -> _Ran:
    start = time.perf_counter()
    by_order = run_on_fibres(program, problem.inputs)
    seconds = time.perf_counter() - start
    ran = _judge("the CUDA C on fibres", problem, [result[problem.output] for result in by_order.values()], seconds)
    return replace(ran, ok=ran.ok and agree(by_order))


def _seconds_to_source(demo: DemoKernel) -> float:
    def once() -> float:
        start = time.perf_counter()
        pl.generate_code(demo.build(), target=pl.CudaTarget())
        return time.perf_counter() - start

    return min(once() for _ in range(_TIMINGS))


def _run_case(case: _Case) -> tuple[pl.LoopKernel, GeneratedProgram, Outcome]:
    seconds_to_source = _seconds_to_source(case.demo)
    knl = case.demo.build()
    program = pl.generate_code(knl, target=pl.CudaTarget())
    cuda = pl.compile(knl, target=pl.CudaTarget()) if nvrtc_available()[0] else None
    if cuda is not None and gpu_available()[0]:
        runs = [_on_target("the GPU", cuda, case.full)]
    else:
        compiled = pl.compile(knl, target=pl.CTarget())
        runs = [_on_target("the C target", compiled, case.full), _on_fibres(program, case.small)]
    worst = next((ran for ran in runs if not ran.ok), max(runs, key=lambda ran: ran.error / ran.allowed))
    outcome = Outcome(
        name=case.demo.name,
        ran_on=" and ".join(ran.place for ran in runs),
        max_error=worst.error,
        allowed=worst.allowed,
        ok=all(ran.ok for ran in runs),
        seconds_to_source=seconds_to_source,
        seconds_to_run=runs[0].seconds,
        resources=None if cuda is None else cuda.resources[program.launches[0].name],
    )
    return knl, program, outcome


def _resources_text(resources: Resources | None) -> str:
    if resources is None:
        return "NVRTC is not installed, so registers and shared memory are not known"
    spilled = f", {resources.local_bytes} bytes of stack" if resources.local_bytes else ", no stack"
    return f"NVRTC: {resources.registers} registers, {resources.shared_bytes} bytes of shared memory{spilled}"


def _outcome_text(outcome: Outcome) -> str:
    verdict = "ok" if outcome.ok else "MISMATCH"
    allowed = f"rounding explains up to {outcome.allowed:.3g}"
    return "\n".join(
        (
            _resources_text(outcome.resources),
            f"Ran on: {outcome.ran_on}",
            f"Largest error against NumPy: {outcome.max_error:.3g} ({allowed}): {verdict}",
            f"Time: {1e3 * outcome.seconds_to_source:.1f} ms to source, {1e3 * outcome.seconds_to_run:.1f} ms to run",
        )
    )


def run(image: Path | None, *, as_json: bool) -> bool:
    """Build, run and check the kernels of the demo, and print the results.

    Parameters
    ----------
    image
        The stencil's picture; the one that comes with the package if None.
    as_json
        Print one JSON document instead of text.

    Returns
    -------
    bool
        Whether all results are right.
    """
    picture = shipped_picture() if image is None else read_picture(image)
    outcomes = []
    for case in _cases(picture):
        knl, program, outcome = _run_case(case)
        outcomes.append(outcome)
        if not as_json:
            title = f"{outcome.name}: {case.full.size}"
            written = case.demo.define()
            print(title, "=" * len(title), "", written, "", "Transforms", knl.trace, "", sep="\n")
            print("CUDA C", program.device_code, _outcome_text(outcome), "", sep="\n")
    ok = all(outcome.ok for outcome in outcomes)
    if as_json:
        print(json.dumps({"kernels": [outcome.as_data() for outcome in outcomes], "ok": ok}, indent=2))
    return ok
