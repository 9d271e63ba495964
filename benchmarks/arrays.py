"""``python -m benchmarks arrays``: what a call costs the host, by the library of its arrays.

The kernel scales an array of 256 elements, and there is one that sums it into an array without axes.  Times are the
best of several rounds of many calls, on the CPU [us]: with outputs that are passed, a new number each time, outputs
that are allocated; beside it the operator of PyTorch, the function of JAX and the gufunc of the same kernel.
Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import polyloop as pl

__all__ = ["main"]

_N: Final = 256
_CALLS: Final = 500
_ROUNDS: Final = 9
_F: Final = np.float32


def scaled() -> pl.LoopKernel:
    """Return ``z[i] = s*x[i]``."""
    data = [pl.GlobalArg("x, z", _F, shape="n"), pl.ValueArg("s", _F), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled")


def summed() -> pl.LoopKernel:
    """Return ``z = s*sum(x)``, whose output has no axes."""
    data = [pl.GlobalArg("x", _F, shape="n"), pl.GlobalArg("z", _F, shape=()), pl.ValueArg("s", _F), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", "z = s*sum(i, x[i])", data, name="summed")


def _microseconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(_CALLS):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / _CALLS * 1e6


def _calls(make: Callable[[np.ndarray[Any, Any]], Any], name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield calls with arrays that *make* returns."""
    numbers = itertools.count()
    run, total = pl.compile(scaled(), pl.CTarget()), pl.compile(summed(), pl.CTarget())
    x = make(np.ones(_N, _F))
    if name != "JAX":
        z, none = make(np.zeros(_N, _F)), make(np.zeros((), _F))
        yield f"{name}, output passed", lambda: run(x=x, z=z, s=2.0)
        yield f"{name}, output passed, a new number each time", lambda: run(x=x, z=z, s=float(next(numbers)))
        yield f"{name}, output without axes passed, a new number each time", lambda: total(
            x=x, z=none, s=float(next(numbers)))
    yield f"{name}, output allocated", lambda: run(x=x, s=2.0)


def _all() -> Iterator[tuple[str, Callable[[], object]]]:
    yield from _calls(lambda array: array, "NumPy")
    gufunc, x = pl.gufunc(scaled()), np.ones(_N, _F)
    yield "NumPy, pl.gufunc, output allocated", lambda: gufunc(x, 2.0)
    rows = np.ones((1000, _N), _F)
    yield "NumPy, pl.gufunc, 1000 batches in one call", lambda: gufunc(rows, 2.0)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        print("torch is not installed", file=sys.stderr)
    else:
        yield from _calls(torch.from_numpy, "Torch")
        door: Any = importlib.import_module("polyloop.torch")
        op, tensor = door.custom_op(scaled(), "polyloop_benchmarks::scaled"), torch.ones(_N)
        yield "Torch, polyloop.torch.custom_op, output allocated", lambda: op(tensor, 2.0)
        yield "Torch, torch.mul, output allocated", lambda: torch.mul(tensor, 2.0)
    try:
        jax: Any = importlib.import_module("jax")
    except ImportError:
        print("jax is not installed", file=sys.stderr)
        return
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    yield from _calls(jax.numpy.asarray, "JAX")
    call: Any = importlib.import_module("polyloop.jax").call(scaled())
    compiled, plain, array = jax.jit(call), jax.jit(lambda x, s: s * x), jax.numpy.ones(_N)
    yield "JAX, polyloop.jax.call in jax.jit", lambda: compiled(array, 2.0).block_until_ready()
    yield "JAX, a product in jax.jit", lambda: plain(array, 2.0).block_until_ready()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks arrays", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args(arguments)
    found = {name: _microseconds(call) for name, call in _all()}
    if options.json:
        print(json.dumps(found, indent=2))
        return 0
    print("| call | us |\n|---|---|")
    for name, time_of_one in found.items():
        print(f"| {name} | {time_of_one:.2f} |")
    return 0
