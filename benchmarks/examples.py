"""How long each transform of the programs in ``examples/`` takes, and each program from ``make_kernel`` to CUDA source.

Run it as ``python -m benchmarks examples``: it needs neither a compiler nor a GPU.  Times are medians of several runs
in one warm process; every run makes its kernel anew, so nothing is remembered from the last.  A step is a call of a
transform as the script makes it, with all checks on.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

import polyloop as pl
from polyloop.transform.registry import FUNCTIONS

__all__ = ["STEP_GOAL", "TOTAL_GOAL", "Timing", "main", "measure", "names"]

STEP_GOAL: Final = 5.0
"""Most milliseconds of the median of a transform step."""

TOTAL_GOAL: Final = 150.0
"""Most milliseconds from ``make_kernel`` to CUDA source."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Median times of one program [milliseconds].

    Attributes
    ----------
    make_kernel, steps, source
        The way from text to kernel, each transform by name in the order of the calls, and code generation with its
        checks.
    total
        Of whole runs.
    """

    name: str
    make_kernel: float
    steps: tuple[tuple[str, float], ...]
    source: float
    total: float

    @property
    def slowest(self) -> tuple[str, float]:
        """The step with the greatest median."""
        return max(self.steps, key=lambda step: step[1], default=("-", 0.0))

    @property
    def median(self) -> float:
        """The median over the steps of their medians."""
        return statistics.median(ms for _, ms in self.steps) if self.steps else 0.0

    @property
    def is_met(self) -> bool:
        """Whether every step and the total are below the goals."""
        return self.slowest[1] < STEP_GOAL and self.total < TOTAL_GOAL


def names() -> list[str]:
    """Return the programs there are."""
    return sorted(path.stem for path in (Path(__file__).parents[1] / "examples").glob("*.py"))


class _Clock:
    """Takes the times of the outermost calls of transforms, for as long as it is entered."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []
        self._depth = 0
        self._originals: dict[str, Callable[..., pl.LoopKernel]] = {}

    def __enter__(self) -> Self:
        for name in FUNCTIONS:
            self._originals[name] = getattr(pl, name)
            setattr(pl, name, self._timed(name, self._originals[name]))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self._originals.items():
            setattr(pl, name, function)

    def _timed(self, name: str, function: Callable[..., pl.LoopKernel]) -> Callable[..., pl.LoopKernel]:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> pl.LoopKernel:  # noqa: ANN401 - passed on
            self._depth += 1
            begin = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.steps.append((name, 1e3 * (time.process_time() - begin)))

        return call


@dataclass(frozen=True, slots=True)
class _Sample:
    make_kernel: float
    steps: list[tuple[str, float]]
    source: float
    total: float


def _run_once(module: Any) -> _Sample:  # noqa: ANN401 - a script
    target = pl.CudaTarget()
    begin = time.process_time()
    module.program()
    written = 1e3 * (time.process_time() - begin)
    gc.collect()
    with _Clock() as clock:
        begin = time.process_time()
        transformed = module.transformed()
        middle = time.process_time()
    pl.generate_code(transformed, target=target)
    end = time.process_time()
    return _Sample(written, clock.steps, 1e3 * (end - middle), 1e3 * (end - begin))


def measure(name: str, *, repeat: int) -> Timing:
    """Return the medians of *repeat* runs, after two to warm up."""
    module = import_module(f"examples.{name}")
    for _ in range(2):
        _run_once(module)
    samples = [_run_once(module) for _ in range(repeat)]
    steps = zip(*(sample.steps for sample in samples), strict=True)
    return Timing(
        name,
        statistics.median(sample.make_kernel for sample in samples),
        tuple((step[0][0], statistics.median(ms for _, ms in step)) for step in steps),
        statistics.median(sample.source for sample in samples),
        statistics.median(sample.total for sample in samples),
    )


def _table(timings: Sequence[Timing]) -> str:
    lines = [
        "| program | make_kernel | steps | median step | slowest step | checks and source | text to source |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        name, ms = timing.slowest
        lines.append(
            f"| {timing.name} | {timing.make_kernel:.2f} ms | {len(timing.steps)} | {timing.median:.2f} ms"
            f" | {name} {ms:.2f} ms | {timing.source:.1f} ms | {timing.total:.1f} ms |"
        )
    steps = [ms for timing in timings for _, ms in timing.steps]
    longest = max(timings, key=lambda timing: timing.source)
    lines += [
        "",
        f"The median of all {len(steps)} steps is {statistics.median(steps):.2f} ms (goal {STEP_GOAL:.0f} ms); checks"
        f" and source take {longest.source:.0f} ms at most, of {longest.name}.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a goal is missed and ``--check`` was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="programs (default: all)")
    parser.add_argument("--repeat", type=int, default=15, help="runs of each program (default: 15)")
    parser.add_argument("--steps", action="store_true", help="print every step")
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    options = parser.parse_args(arguments)
    timings = [measure(name, repeat=max(1, options.repeat)) for name in options.name or names()]
    if options.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(_table(timings))
    if options.steps:
        for timing in timings:
            print(f"\n{timing.name}:", *(f"{ms:8.2f} ms  {name}" for name, ms in timing.steps), sep="\n")
    return int(options.check and not all(timing.is_met for timing in timings))


if __name__ == "__main__":
    sys.exit(main())
