"""How the time of a call grows with the number of statements, loops and rules.

Run it as ``python -m benchmarks growth``: it needs neither a compiler nor a GPU.  The exponent of a row is that between
it and the row before: 1 where the time doubles with the size, 2 where it grows fourfold.  Statements that do not
conflict should stay near 1; those that all conflict have a pair for every two, so 2 is what can be had.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Final

import numpy as np

import polyloop as pl

__all__ = ["PROGRAMS", "SIZES", "Growth", "main", "measure"]

SIZES: Final = (125, 250, 500, 1000)
"""Statements, loops or rules; programs whose statements all conflict have a fifth of them."""


def _apart(size: int) -> pl.LoopKernel:
    names = ", ".join(f"y{k}" for k in range(size))
    text = "\n".join(f"y{k}[i] = {k}*x[i]" for k in range(size))
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg(f"x, {names}", np.float32, shape="n"), ...])


def _chain(size: int) -> pl.LoopKernel:
    lines = [f"<> t{k} = 2*t{k - 1}" for k in range(1, size)]
    text = "\n".join(["<> t0 = x[i]", *lines, f"y[i] = t{size - 1}"])
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y", np.float32, shape="n"), ...])


def _loops(size: int) -> pl.LoopKernel:
    names = ", ".join(f"y{k}" for k in range(size))
    text = "\n".join(f"y{k}[i{k}] = {k}*x[i{k}]" for k in range(size))
    domains = ["{[i]: 0 <= i < n}".replace("i", f"i{k}") for k in range(size)]
    return pl.make_kernel(domains, text, [pl.GlobalArg(f"x, {names}", np.float32, shape="n"), ...])


def _rules(size: int) -> pl.LoopKernel:
    rules = "\n".join(f"f{k}(a) := {k}*x[a]" for k in range(size))
    uses = "\n".join(f"y{k}[i] = f{k}(i) + f{(k + 1) % size}(i)" for k in range(size))
    names = ", ".join(f"y{k}" for k in range(size))
    data = [pl.GlobalArg(f"x, {names}", np.float32, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", f"{rules}\n{uses}", data)


def _terms(size: int) -> pl.LoopKernel:
    text = "y[i] = " + " + ".join(f"{k}*x[i + {k}]" for k in range(size))
    data = [pl.GlobalArg("x", np.float32, shape=f"n + {size}"), pl.GlobalArg("y", np.float32, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data)


def _conflicts(size: int) -> pl.LoopKernel:
    text = "\n".join(f"y[i] = y[i] + {k}*x[i]" for k in range(size // 5))
    return pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("x, y", np.float32, shape="n"), ...])


PROGRAMS: Final[dict[str, Callable[[int], pl.LoopKernel]]] = {
    "statements apart": _apart,
    "chain of scalars": _chain,
    "loops apart": _loops,
    "rules": _rules,
    "terms of a sum": _terms,
    "all in conflict": _conflicts,
}
"""Makes a kernel of a size, by what grows."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Processor time of the calls for one size [milliseconds], and the exponent from the size before."""

    program: str
    size: int
    creation: float
    split: float
    source: float
    exponent: float | None


def measure(program: str, sizes: Sequence[int]) -> Iterator[Growth]:
    """Yield the times of *program* for each of *sizes*: the first is run twice, for what is done once."""
    PROGRAMS[program](sizes[0])
    before: tuple[int, float] | None = None
    for size in sizes:
        gc.collect()
        times = [time.process_time()]
        knl = PROGRAMS[program](size)
        times.append(time.process_time())
        split = pl.split_iname(knl, min(knl.inames), 128, outer_tag="g.0", inner_tag="l.0")
        times.append(time.process_time())
        pl.generate_code(split, target=pl.CudaTarget())
        times.append(time.process_time())
        creation, step, source = (1e3 * (after - begin) for begin, after in pairwise(times))
        total = creation + step + source
        exponent = None if before is None else math.log(total / before[1]) / math.log(size / before[0])
        before = (size, total)
        yield Growth(program, size, creation, step, source, exponent)


def _table(rows: Sequence[Growth]) -> str:
    lines = [f"{'what grows':<18}{'size':>6}{'creation':>13}{'split':>13}{'source':>13}{'exponent':>10}"]
    for row in rows:
        exponent = "" if row.exponent is None else f"{row.exponent:.2f}"
        times = "".join(f"{value:>10.1f} ms" for value in (row.creation, row.split, row.source))
        lines.append(f"{row.program:<18}{row.size:>6}{times}{exponent:>10}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--largest", type=int, default=max(SIZES), help="leave out larger sizes")
    options = parser.parse_args(arguments)
    sizes = [size for size in SIZES if size <= options.largest]
    rows = [row for program in PROGRAMS for row in measure(program, sizes)]
    print(json.dumps([asdict(row) for row in rows], indent=2) if options.json else _table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
