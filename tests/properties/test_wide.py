"""Random kernels whose lanes move vectors agree with the interpreter: aligned rows, remainders, guards."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

DOMAINS = ("0 <= i < n", "0 <= i < n", "2 <= i < n - 1", "0 <= i < 6", "4 <= i < n", "0 <= i < n and i <= j + 7")
TERMS = ("x[j, i]", "y[j, i]", "v[i]", "x[j, i + 4]", "v[i + 8]", "x[j, i + 1]", "x[i, j]", "if(i >= 4, v[i - 4], 2)",
         "sum(k, x[k, i])", "sum(k, x[j, k]*v[k])", "t", "w[j]")  # fmt: skip


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        yield


def _instructions(rng: random.Random) -> list[str]:
    terms = rng.sample(TERMS, rng.randint(1, 3))
    lines = ["<> t = v[i] + w[j]"] if "t" in terms else []
    condition = rng.choice(("", "", "", " {if=w[j] > 0}", " {if=v[i] > 0}"))
    target = rng.choice(("y[j, i]", "y[j, i]", "y[j, i + 4]", "y[i, j]"))
    if "y[j, i]" in terms and target != "y[j, i]":
        target = "y[j, i]"
    lines.append(f"{target} = {' + '.join(terms)}{condition}")
    if rng.random() < 0.4:
        lines.append(f"z[j, i] = {rng.choice(('2*x[j, i]', 'x[j, i] + v[i]', '3'))}")
    return lines


def _kernel(rng: random.Random, dtype: str) -> pl.LoopKernel:
    text = "\n".join(_instructions(rng))
    shapes = {name: "n + 8, n + 8" if name in "xyz" else "n + 8" for name in "xyzvw" if f"{name}[" in text}
    data = [pl.GlobalArg(name, dtype, shape=shape) for name, shape in shapes.items()]
    domains = [f"{{[i, j]: {rng.choice(DOMAINS)} and 0 <= j < n}}", *(["{[k]: 0 <= k < n}"] if "k" in text else [])]
    assume = f"n >= 0{rng.choice(('', ' and n mod 4 = 0', ' and n mod 8 = 0', ' and n mod 2 = 0'))}"
    return pl.make_kernel(domains, text, [*data, ...], name="wide", assumptions=assume)


def _chain(rng: random.Random, knl: pl.LoopKernel) -> pl.LoopKernel:
    lanes = rng.choice((2, 4, 4, 4, 8))
    knl = pl.split_iname(knl, "i", lanes, inner_tag="vec")
    if rng.random() < 0.7:
        knl = pl.split_iname(knl, "i_outer", rng.choice((1, 2, 4)), outer_tag="g.0", inner_tag="l.0")
    if rng.random() < 0.6:
        outer, inner = rng.choice(((None, "ilp"), ("g.1", "ilp"), ("g.1", "l.1"), ("ilp", None)))
        length = rng.choice((2, 3))
        if outer != "ilp":
            knl = pl.split_iname(knl, "j", length, outer_tag=outer, inner_tag=inner)
    if rng.random() < 0.5 and "k" in {x for i in knl.instructions for term in i.terms for x in term.inames}:
        knl = pl.split_iname(knl, "k", 4, inner_tag=rng.choice(("vec", "ilp", "unr", None)))
    return knl


def _arguments(knl: pl.LoopKernel, n: int, dtype: str, seed: int) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    shapes = {"x": (n + 8, n + 8), "y": (n + 8, n + 8), "z": (n + 8, n + 8), "v": (n + 8,), "w": (n + 8,)}
    found: dict[str, Any] = {
        name: numbers.integers(-2, 3, shapes[name]).astype(dtype) for name in shapes if knl.argument(name) is not None
    }
    return found


def check_one(seed: int) -> bool:
    """Return whether the kernel of *seed* moves vectors; it must agree with the interpreter in any case."""
    rng = random.Random(seed)
    dtype = rng.choice(("float32", "float32", "float64", "int32", "int16"))
    knl = _kernel(rng, dtype)
    try:
        knl = _chain(rng, knl)
        program = pl.generate_code(knl, target=pl.CudaTarget())
    except (pl.TransformError, pl.VerificationError):
        return False
    for n in rng.sample((0, 1, 2, 4, 5, 8, 12, 16), 4):
        given = _arguments(knl, n, dtype, seed)
        try:
            wanted = dict(pl.interpret(knl, **{name: value.copy() for name, value in given.items()}).items())
        except pl.ArgumentError:
            continue  # a size that the kernel is not for
        check(knl, given, wanted)
    return bool(program.alignments)


@pytest.mark.parametrize("seed", [*range(6), 1005])  # GCC 12.2 vectorised the sums of 1005 to wrong results
def test_vectors_agree_with_the_interpreter(seed: int) -> None:
    check_one(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_vectors_agree_with_the_interpreter_at_length(first: int) -> None:
    assert sum(check_one(seed) for seed in range(first, first + 20)) >= 4
