"""How long it takes from ``make_kernel`` to CUDA source, all checks on, and where the time goes, beside Loopy.

Run it as ``python -m benchmarks codegen``: it needs neither a compiler nor a GPU. Loopy is timed where it is installed.
Times are processor time, the best of many runs in one warm process: every run makes its kernel anew, so nothing is
remembered from the last but what was parsed, and Loopy's caches are off.  Both get the same time for their runs.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import islpy as isl

import polyloop as pl
from benchmarks.programs import PROGRAMS, Library, Program
from polyloop.codegen.generate import generate
from polyloop.schedule.build import build_schedule

__all__ = ["PHASES", "Timing", "main", "measure"]

PHASES: Final = ("make_kernel", "transforms", "schedule and checks", "code generation")

POLYLOOP: Final = Library("polyloop", pl, dict)

_Finish = Callable[[Any, list[float]], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """Best times of one program in one library [milliseconds].

    Attributes
    ----------
    total
        Of the best run.
    phases
        Of the same run, by name.
    goal
        None where there is none.
    """

    program: str
    library: str
    total: float
    phases: dict[str, float]
    goal: float | None

    @property
    def is_met(self) -> bool:
        """Whether the total is below the goal, if there is one."""
        return self.goal is None or self.total < self.goal


def _finish(transformed: pl.LoopKernel, moments: list[float]) -> None:
    """Append the moments at which the schedule and the source of a kernel of ours are there."""
    target = pl.CudaTarget()
    schedule = build_schedule(transformed, target.limits)
    moments.append(time.process_time())
    generate(schedule, target.language)
    moments.append(time.process_time())


def _loopy() -> tuple[Library, _Finish] | None:
    """Return Loopy, and how it goes on from a transformed kernel; None where it is not installed."""
    if importlib.util.find_spec("loopy") is None:
        return None
    loopy = importlib.import_module("loopy")
    linearize = importlib.import_module("loopy.schedule").linearize
    if not hasattr(isl.Aff, "is_equal"):  # Loopy 2025.2 calls it, islpy 2026 has it under its name in ISL
        setattr(isl.Aff, "is_equal", isl.Aff.plain_is_equal)  # noqa: B010 - the types know no such name
    loopy.set_caching_enabled(False)

    def finish(transformed: Any, moments: list[float]) -> None:  # noqa: ANN401 - Loopy has no types
        scheduled = linearize(loopy.preprocess_program(transformed))
        moments.append(time.process_time())
        loopy.generate_code_v2(scheduled).device_code()
        moments.append(time.process_time())

    return Library("loopy", loopy, lambda: {"target": loopy.CudaTarget(), "lang_version": (2018, 2)}), finish


def _run_once(program: Program, library: Library, finish: _Finish) -> list[float]:
    """Return the moments [seconds] at which each phase began, and the end."""
    moments = [time.process_time()]
    written = program.define(library)
    moments.append(time.process_time())
    transformed = program.transform(library, written)
    moments.append(time.process_time())
    finish(transformed, moments)
    return moments


def measure(
    program: Program, library: Library = POLYLOOP, finish: _Finish = _finish, *, repeat: int, seconds: float
) -> Timing:
    """Return the best of *repeat* runs, or of as many as take so many *seconds*, after one to warm up."""
    _run_once(program, library, finish)
    gc.collect()
    begin = time.process_time()
    runs: list[list[float]] = []
    while len(runs) < repeat or time.process_time() < begin + seconds:
        runs.append(_run_once(program, library, finish))
    best = min(runs, key=lambda moments: moments[-1] - moments[0])
    spent = [1e3 * (after - before) for before, after in itertools.pairwise(best)]
    goal = program.goal if library is POLYLOOP else None
    return Timing(program.name, library.name, sum(spent), dict(zip(PHASES, spent, strict=True)), goal)


def _table(timings: Sequence[Timing]) -> str:
    """Return a table in Markdown; Loopy's lines say how many times as long it takes."""
    lines = [f"| kernel | library | total | {' | '.join(PHASES)} | goal |", "|---" * (len(PHASES) + 4) + "|"]
    own = {timing.program: timing.total for timing in timings if timing.library == POLYLOOP.name}
    for timing in timings:
        spent = " | ".join(f"{ms:.2f} ms" for ms in timing.phases.values())
        note = "-" if timing.goal is None else f"{timing.goal:.0f} ms"
        if timing.library != POLYLOOP.name:
            note = f"{timing.total / own[timing.program]:.1f} times as long"
        lines.append(f"| {timing.program} | {timing.library} | {timing.total:.2f} ms | {spent} | {note} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 1 where a goal is missed and ``--check`` was given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="kernels whose names begin so (default: all)")
    parser.add_argument("--repeat", type=int, default=5, help="least number of runs of each kernel (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="least time for the runs of each (default: 2)")
    parser.add_argument("--alone", action="store_true", help="leave Loopy out")
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a goal is missed")
    options = parser.parse_args(arguments)
    peer = None if options.alone else _loopy()
    if peer is None and not options.alone:
        print("Loopy is not installed, and left out", file=sys.stderr)
    timings = []
    effort: dict[str, Any] = {"repeat": max(1, options.repeat), "seconds": options.seconds}
    for program in PROGRAMS:
        if options.name and not program.name.startswith(tuple(options.name)):
            continue
        timings.append(measure(program, **effort))
        if peer is not None:
            timings.append(measure(program, *peer, **effort))
    if options.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(_table(timings))
    return int(options.check and not all(timing.is_met for timing in timings))


if __name__ == "__main__":
    sys.exit(main())
