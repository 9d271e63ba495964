"""Random domains through the whole pipeline, against the points that Python finds by trying all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check

INT = np.int32
SIZE = 9
NAMES = ("i", "j")


def condition(rng: random.Random, names: tuple[str, ...]) -> tuple[str, str]:
    """Return one random condition as ISL reads it, and as Python does."""
    first, second = rng.choice(names), rng.choice(names)
    number, other = rng.randint(-2, 6), rng.randint(2, 4)
    match rng.randrange(7):
        case 0:
            return (f"{first} < {second} + {number}",) * 2
        case 1:
            return (f"{first} + {second} >= {number}",) * 2
        case 2:
            return f"{first} mod {other} = {number % other}", f"{first} % {other} == {number % other}"
        case 3:
            return f"({first} + {second}) mod {other} <= 1", f"({first} + {second}) % {other} <= 1"
        case 4:
            text = f"exists h: {first} = {other}*h + {second} and h >= 0"
            return f"({text})", f"(({first} - {second}) % {other} == 0 and {first} >= {second})"
        case 5:
            return f"floor({first}/{other}) <= {second}", f"{first} // {other} <= {second}"
        case _:
            return f"2*{first} != {second} + {number}", f"2*{first} != {second} + {number}"


def conditions(rng: random.Random, names: tuple[str, ...]) -> tuple[str, str]:
    """Return a random union of conjunctions."""
    cases = []
    for _ in range(rng.choice([1, 1, 2])):
        parts = [condition(rng, names) for _ in range(rng.randint(1, 3))]
        cases.append(tuple("(" + " and ".join(texts) + ")" for texts in zip(*parts, strict=True)))
    isl_text, python_text = (" or ".join(texts) for texts in zip(*cases, strict=True))
    return f"({isl_text})", f"({python_text})"


def points(python_text: str, values: dict[str, int]) -> Iterator[tuple[int, int]]:
    for i in range(values["n"]):
        for j in range(values["n"]):
            if eval(python_text, {}, {**values, "i": i, "j": j}):
                yield i, j


def chains(rng: random.Random, knl: pl.LoopKernel, on_threads: bool) -> Iterator[pl.LoopKernel]:
    yield knl
    yield pl.split_iname(pl.split_iname(knl, "i", rng.randint(2, 4)), "j", rng.randint(2, 4))
    tags: dict[str, Any] = {"outer_tag": "g.0", "inner_tag": "l.0"} if on_threads else {}
    knl = pl.split_iname(knl, "i", 3, **tags)
    yield pl.split_iname(knl, "j", 2, inner_tag="unr") if rng.random() < 0.5 else knl


def affine(seed: int) -> None:
    rng = random.Random(seed)
    isl_text, python_text = conditions(rng, (*NAMES, "n"))
    domain = f"{{[i, j]: 0 <= i, j < n and {isl_text}}}"
    data = [pl.GlobalArg("a, z", INT, shape="n, n"), ...]
    elementwise = pl.make_kernel(domain, "z[i, j] = 2*a[i, j]", data)
    sums = [pl.GlobalArg("s", INT, shape="1"), pl.GlobalArg("a", INT, shape="n, n"), ...]
    reduced = pl.make_kernel(domain, "s[0] = sum((i, j), a[i, j])", sums)
    elementwise_chains = list(chains(rng, elementwise, True))
    reduced_chains = list(chains(rng, reduced, False))
    for n in (1, 4, SIZE):
        a = np.random.default_rng(seed).integers(1, 9, (n, n)).astype(INT)
        z = np.zeros((n, n), INT)
        where = list(points(python_text, {"n": n}))
        for i, j in where:
            z[i, j] = 2 * a[i, j]
        for chain in elementwise_chains:
            check(chain, {"a": a, "z": np.zeros((n, n), INT)}, {"z": z}, fibres=n == SIZE)
        total = np.array([sum(a[i, j] for i, j in where)], INT)
        for chain in reduced_chains:
            check(chain, {"a": a}, {"s": total}, fibres=n == SIZE)


def by_data(seed: int) -> None:
    """A domain that depends on two numbers of each row."""
    rng = random.Random(seed)
    isl_text, python_text = conditions(rng, ("j", "p", "q"))
    text = """
    for i
        <> p = lows[i]
        <> q = highs[i]
        y[i] = sum(j, a[i, j])
    end
    """
    data = [pl.GlobalArg("a", INT, shape="n, n"), pl.GlobalArg("lows, highs", INT, shape="n"), ...]
    knl = pl.make_kernel(["{[i]: 0 <= i < n}", f"{{[j]: 0 <= j < n and {isl_text}}}"], text, data)
    data_chains = list(chains(rng, knl, True))
    for n in (1, 4, SIZE):
        generator = np.random.default_rng(seed)
        a = generator.integers(1, 9, (n, n)).astype(INT)
        lows, highs = generator.integers(-3, n + 3, (2, n)).astype(INT)
        y = np.zeros(n, INT)
        for i in range(n):
            values: dict[str, Any] = {"p": int(lows[i]), "q": int(highs[i])}
            y[i] = sum(a[i, j] for j in range(n) if eval(python_text, {}, {**values, "j": j}))
        for chain in data_chains:
            check(chain, {"a": a, "lows": lows, "highs": highs}, {"y": y}, fibres=n == SIZE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_domains(seed: int) -> None:
    affine(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_domains_that_depend_on_data(seed: int) -> None:
    by_data(seed)
