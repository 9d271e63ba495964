"""``python -m benchmarks polybench``: programs on the cores of a processor, beside C by hand and Numba.

C by hand is tiled, with directives of OpenMP, and compiled by ``gcc -O3 -march=native -fopenmp`` for its one size; that
in the manner of Pluto has tiles in time.  polyloop's text is for any size, and once more for that one.  Numba runs with
``parallel=True`` and ``fastmath=True`` where it is installed.  All have as many threads as ``OMP_NUM_THREADS`` says.  A
time is the best of many calls in turn: of one thread processor time, which other programs do not add to, of several the
time of a clock.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib
import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl
from benchmarks.polybench.products import PRODUCTS
from benchmarks.polybench.program import Arrays, Program
from benchmarks.polybench.stencils import STENCILS
from benchmarks.polybench.vectors import VECTORS
from polyloop.runtime.ccompile import open_library

__all__ = ["PROGRAMS", "by_hand", "main"]

PROGRAMS: Final = (*PRODUCTS, *VECTORS, *STENCILS)
TARGET: Final = pl.CTarget(openmp=True, contract=True)
_FLAGS: Final = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared")
_CLOSE: Final = 1e-9
_ANY: Final = "any size"
_ONE: Final = "its size"
_WAYS: Final = (_ANY, _ONE, "C by hand", "Pluto's tiles", "Numba")
Call = Callable[[], object]


def by_hand(program: Program, n: int, text: str = "") -> Callable[[Arrays], Call]:
    """Return the C function of *program* for the size *n*, to be bound to arrays; *text* is another one of the same."""
    function = getattr(open_library(f"#define N {n}\n{text or program.text}", flags=_FLAGS), program.name)

    def bound(arrays: Arrays) -> Call:
        pointers = [ctypes.c_void_p(arrays[name].ctypes.data) for name in program.arrays(n)]
        return lambda: function(*pointers)

    return bound


def _numba() -> Mapping[str, Any]:
    """Return the functions for Numba, none if it is not installed."""
    if importlib.util.find_spec("numba") is None:
        return {}
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads:
        os.environ.setdefault("NUMBA_NUM_THREADS", threads)
    functions: Mapping[str, Any] = importlib.import_module("benchmarks.polybench.compiled").FUNCTIONS
    return functions


def _bound(knl: pl.LoopKernel) -> Callable[[Arrays], Call]:
    run = pl.compile(knl, target=TARGET)
    return lambda arrays: run.bind(**arrays)


def _seconds(call: Call, clock: Callable[[], float]) -> float:
    begin = clock()
    call()
    return clock() - begin


def measured(program: Program, compiled: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Return the best time of each way to run *program* [s]; all have to find the same.

    Raises
    ------
    AssertionError
        If a result differs.
    """
    given, n = program.inputs(program.size), program.size
    knl = program.build()
    makers: dict[str, Callable[[Arrays], Call]] = {
        _ANY: _bound(knl),
        _ONE: _bound(pl.fix_parameters(knl, n=n)),
        "C by hand": by_hand(program, n),
    }
    if program.tiles:
        makers["Pluto's tiles"] = by_hand(program, n, program.tiles)
    if program.name in compiled:
        makers["Numba"] = lambda arrays: functools.partial(compiled[program.name], *arrays.values())
    copies = {name: {array: value.copy() for array, value in given.items()} for name in makers}
    ways = {name: (copies[name], bound(copies[name])) for name, bound in makers.items()}
    for used, call in ways.values():
        call()
        for name, value in used.items():
            error = float(np.abs(value - ways[_ANY][0][name]).max() / np.abs(value).max())
            assert error < _CLOSE, f"{program.name}: {name} differs by {error:.1e}"
    clock = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    best = dict.fromkeys(ways, math.inf)
    end = time.monotonic() + seconds
    while time.monotonic() < end or math.inf in best.values():
        for name, (used, call) in ways.items():
            for array, value in given.items():
                np.copyto(used[array], value)
            best[name] = min(best[name], _seconds(call, clock))
    return best


def main(arguments: Sequence[str]) -> int:
    """Print a row for each program: its time, those of the others, and the ratio to the best of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks polybench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all, if there are none")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each program; default: 3")
    options = parser.parse_args(arguments)
    unknown = set(options.names).difference(program.name for program in PROGRAMS)
    if unknown:
        parser.error(f"no program {min(unknown)!r}; programs: {', '.join(program.name for program in PROGRAMS)}")
    compiled = _numba()
    print(f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')}; Numba {'' if compiled else 'not '}installed")
    print(f"| program | n | {' | '.join(_WAYS)} | of the best | with its size |\n|---|---|{'---|' * (len(_WAYS) + 2)}")
    ratios = []
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        times = measured(program, compiled, options.seconds)
        best = min(seconds for way, seconds in times.items() if way not in {_ANY, _ONE})
        ratios.append((best / times[_ANY], best / times[_ONE]))
        cells = (f"{times[way] * 1e3:.2f} ms" if way in times else "-" for way in _WAYS)
        shown = " | ".join([*cells, *(f"{ratio:.2f}" for ratio in ratios[-1])])
        print(f"| {program.name} | {program.size} | {shown} |", flush=True)
    for what, found in zip((_ANY, _ONE), zip(*ratios, strict=True), strict=True):
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{what}: geometric mean {mean:.2f}, least {min(found):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
