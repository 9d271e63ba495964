"""How long it takes from ``make_kernel`` to CUDA source, all checks on, and where the time goes.

Run it as ``python -m benchmarks.codegen``: it needs neither a compiler nor a GPU. Times are the best of
several runs in one warm process: every run makes its kernel anew, so nothing is remembered from the last.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import polyloop as pl
from polyloop.cli.kernels import DEMO_KERNELS, DemoKernel
from polyloop.codegen.generate import generate
from polyloop.schedule.build import build_schedule

__all__ = ["GOALS", "Timing", "main", "measure"]

GOALS: Final = {"axpy": 2.0, "matmul": 20.0}
"""Most milliseconds from ``make_kernel`` to source, by kernel."""

PHASES: Final = ("make_kernel", "transforms", "schedule and checks", "code generation")


@dataclass(frozen=True, slots=True)
class Timing:
    """Best times of one kernel [milliseconds].

    Attributes
    ----------
    total
        Of the best run.
    phases
        Of the same run, by name.
    goal
        None where there is none.
    """

    kernel: str
    total: float
    phases: dict[str, float]
    goal: float | None

    @property
    def is_met(self) -> bool:
        """Whether the total is below the goal, if there is one."""
        return self.goal is None or self.total < self.goal


def _run_once(demo: DemoKernel) -> list[float]:
    """Return the moments [seconds] at which each phase began, and the end."""
    target = pl.CudaTarget()
    moments = [time.perf_counter()]
    written = demo.define()
    moments.append(time.perf_counter())
    transformed = demo.transform(written)
    moments.append(time.perf_counter())
    schedule = build_schedule(transformed, target.limits)
    moments.append(time.perf_counter())
    generate(schedule, target.language)
    moments.append(time.perf_counter())
    return moments


def measure(demo: DemoKernel, *, repeat: int) -> Timing:
    """Return the best of *repeat* runs, after two to warm up."""
    for _ in range(2):
        _run_once(demo)
    gc.collect()
    best = min((_run_once(demo) for _ in range(repeat)), key=lambda moments: moments[-1] - moments[0])
    spent = [1e3 * (after - before) for before, after in itertools.pairwise(best)]
    return Timing(demo.name, sum(spent), dict(zip(PHASES, spent, strict=True)), GOALS.get(demo.name))


def _table(timings: Sequence[Timing]) -> str:
    lines = [f"{'kernel':<10}{'total':>10}{'goal':>10}  " + "".join(f"{phase:>28}" for phase in PHASES)]
    for timing in timings:
        goal = "-" if timing.goal is None else f"{timing.goal:.0f} ms"
        shares = "".join(f"{ms:>17.2f} ms ({100 * ms / timing.total:3.0f} %)" for ms in timing.phases.values())
        lines.append(f"{timing.kernel:<10}{timing.total:>7.2f} ms{goal:>10}  {shares}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a goal is missed and ``--check`` was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=30, help="runs of each kernel (default: 30)")
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    options = parser.parse_args(arguments)
    timings = [measure(demo, repeat=max(1, options.repeat)) for demo in DEMO_KERNELS.values()]
    if options.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(_table(timings))
    return int(options.check and not all(timing.is_met for timing in timings))


if __name__ == "__main__":
    sys.exit(main())
