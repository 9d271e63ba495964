"""Random Python functions: the kernel computes what Python computes, statement after statement."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.testing.drawing.random_functions import MARGIN, PythonSource, UndefinedError, random_function

SIZES = (0, 1, 2, 5)
LEGAL_ELSEWHERE = {"read-before-write"}
"""Refusals of what Python runs: no value is left to chance."""


def arguments(seed: int, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed + n)
    return {name: rng.integers(0, 40, n + MARGIN) for name in "abc"}


def by_python(source: PythonSource, seed: int, n: int) -> dict[str, Any] | None:
    try:
        return source.run(n, arguments(seed, n))
    except UndefinedError:
        return None


def passed(kernel: LoopKernel, seed: int, n: int) -> dict[str, Any]:
    names = {argument.name for argument in kernel.arguments}
    return {name: value for name, value in {**arguments(seed, n), "n": n}.items() if name in names}


def made(source: PythonSource) -> tuple[LoopKernel | None, frozenset[str]]:
    try:
        return source.make(), frozenset()
    except pl.PolyloopError as error:
        return None, frozenset(error.codes)


def compare(seed: int, *, compiled: bool) -> str:
    """Compare one function at all sizes; return what came of it."""
    source = random_function(seed)
    wanted = {n: by_python(source, seed, n) for n in SIZES}
    kernel, codes = made(source)
    if kernel is None:
        assert codes <= LEGAL_ELSEWHERE, f"seed {seed}: {codes}\n{source.text()}"
        return "refused" if None in wanted.values() else "refused though defined"
    script: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(pl.kernel_to_python(kernel), script)
    again = next(value for value in script.values() if isinstance(value, LoopKernel))
    assert str(again.reference) == str(kernel.reference), f"seed {seed}\n{source.text()}"
    run = pl.compile(kernel, target=pl.CTarget()) if compiled else None
    for n, expected in wanted.items():
        if expected is None:
            continue
        results: list[Any] = [pl.interpret(kernel, **passed(kernel, seed, n))]
        results += [] if run is None else [run(**passed(kernel, seed, n))]
        for result in results:
            for name in (argument.name for argument in kernel.arguments if getattr(argument, "is_output", False)):
                np.testing.assert_array_equal(
                    getattr(result, name), expected[name], f"seed {seed}, n = {n}, array {name}\n{source.text()}"
                )
    return "compared"


def test_kernels_do_what_python_does() -> None:
    outcomes = [compare(seed, compiled=seed % 8 == 0) for seed in range(120)]
    assert outcomes.count("compared") > 80
    assert outcomes.count("refused though defined") <= 2


@pytest.mark.slow
def test_many_kernels_do_what_python_does() -> None:
    outcomes = [compare(seed, compiled=seed % 4 == 0) for seed in range(120, 2600)]
    assert outcomes.count("compared") > 1600
    assert outcomes.count("refused though defined") <= 25
