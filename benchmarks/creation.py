"""How long ``make_kernel`` takes for chains of instructions, and the way from there to CUDA source.

Run it as ``python -m benchmarks.creation``: it needs neither a compiler nor a GPU. Each run has a text of its own, so
nothing is remembered from the last.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

import polyloop as pl

__all__ = ["CHAINS", "LENGTHS", "ChainTiming", "main", "measure_chain"]

LENGTHS: Final = (15, 60, 100, 240, 1000)
"""Instructions of a chain."""

GOAL: Final = 60.0
"""Most milliseconds for the creation of 100 instructions."""

LONGEST_TO_SOURCE: Final = 240
"""Longer chains are only created."""


def _arrays(length: int) -> str:
    """Return a chain in which each instruction writes an array that the next one reads."""
    lines = [f"t{k}[i] = 2*t{k - 1}[i] + x[i]" for k in range(1, length)]
    return "\n".join(["t0[i] = x[i] + 1", *lines])


def _temporaries(length: int) -> str:
    """Return the same chain through scalar temporaries."""
    lines = [f"<> t{k} = 2*t{k - 1} + x[i]" for k in range(1, length - 1)]
    return "\n".join(["<> t0 = x[i] + 1", *lines, f"y[i] = t{length - 2}"])


CHAINS: Final[dict[str, Callable[[int], str]]] = {"arrays": _arrays, "temporaries": _temporaries}
"""The text of a chain of a given length, by kind."""


@dataclass(frozen=True, slots=True)
class ChainTiming:
    """Best times of one chain [milliseconds]; ``to_source`` contains ``creation`` and is None where not measured."""

    kind: str
    length: int
    creation: float
    to_source: float | None


def _run_once(text: str, to_source: bool) -> tuple[float, float]:
    """Return the seconds that creation took, and those to the source."""
    begin = time.perf_counter()
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x", np.float32, shape="n"), ...])
    created = time.perf_counter()
    if to_source:
        pl.generate_code(pl.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0"), target=pl.CudaTarget())
    return created - begin, time.perf_counter() - begin


def measure_chain(kind: str, length: int, *, repeat: int) -> ChainTiming:
    """Return the best of *repeat* runs."""
    text = CHAINS[kind](length)
    to_source = length <= LONGEST_TO_SOURCE
    gc.collect()
    runs = [_run_once(f"{text}\n# {run}", to_source) for run in range(repeat)]
    creation = 1e3 * min(created for created, _ in runs)
    return ChainTiming(kind, length, creation, 1e3 * min(total for _, total in runs) if to_source else None)


def _table(timings: Sequence[ChainTiming]) -> str:
    lines = [f"{'chain of':<14}{'instructions':>12}{'creation':>14}{'each':>12}{'to source':>14}"]
    for timing in timings:
        whole = "-" if timing.to_source is None else f"{timing.to_source:.1f} ms"
        each = 1e3 * timing.creation / timing.length
        lines.append(
            f"{timing.kind:<14}{timing.length:>12}{timing.creation:>11.1f} ms{each:>9.0f} us{whole:>14}"
        )
    return "\n".join([*lines, f"The goal is {GOAL:.0f} ms for the creation of 100 instructions."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each chain (default: 5)")
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--longest", type=int, default=max(LENGTHS), help="leave out longer chains")
    options = parser.parse_args(arguments)
    timings = [
        measure_chain(kind, length, repeat=max(1, options.repeat))
        for kind in CHAINS
        for length in LENGTHS
        if length <= options.longest
    ]
    if options.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(_table(timings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
