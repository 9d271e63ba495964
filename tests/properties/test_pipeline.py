"""Whatever the library accepts is legal and agrees with the reference interpreter; whatever it refuses has a reason.

``python -m polyloop.testing.fuzz`` does the same at any length; what fails there is shrunk, and becomes a test in
``tests/testing/test_regressions.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import ArgumentError, CompilerError
from polyloop.runtime.ccompile import find_compiler
from polyloop.runtime.gpu import gpu_available
from polyloop.testing.agreement import copied, difference
from polyloop.testing.broken_pairs import check_broken
from polyloop.testing.drawing.random_kernels import random_arguments
from polyloop.testing.fuzz import report
from polyloop.testing.pairs import Tally, check_pairs, draw


def _has_compilers() -> bool:
    try:
        find_compiler("c")
        find_compiler("c++")
    except CompilerError:
        return False
    return True


pytestmark = pytest.mark.skipif(not _has_compilers(), reason="no C and C++ compiler")


def _check(first: int, count: int) -> None:
    tally = check_pairs(range(first, first + count))
    _require_none(tally)
    assert tally.counts["pairs compared"] >= count // 3, report(tally)


def _check_broken(first: int, count: int) -> None:
    tally = check_broken(range(first, first + count))
    _require_none(tally)
    assert tally.counts["schedules refused"] >= 2 * count, report(tally)


def _require_none(tally: Tally) -> None:
    shown = [f"{failure.kind}, seed {failure.pair.seed}\n{failure.pair.script()}\n{failure.text}"
             for failure in tally.failures]  # fmt: skip
    assert not shown, "\n".join(shown)


@pytest.mark.few(2)
@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_pairs(first: int) -> None:
    _check(first, 40)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_random_pairs_at_length(first: int) -> None:
    _check(first, 100)


@pytest.mark.few(1)
@pytest.mark.parametrize("first", [0, 5000])
def test_random_kernels_broken_as_no_transform_does(first: int) -> None:
    _check_broken(first, 10)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(6000, 7000, 100))
def test_random_kernels_broken_as_no_transform_does_at_length(first: int) -> None:
    _check_broken(first, 100)


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available()[0], reason=gpu_available()[1] or "a GPU is there")
@pytest.mark.parametrize("first", range(5000, 5600, 100))
def test_random_pairs_on_a_gpu(first: int) -> None:
    compared = 0
    for seed in range(first, first + 100):
        found = draw(seed, Tally())
        if found is None:
            continue
        pair, programs = found
        for n in pair.sizes:
            arguments = random_arguments(programs.kernel, n, seed + n)
            try:
                expected = pl.interpret(programs.kernel, **arguments)
            except ArgumentError:
                continue  # a size that the kernel refuses
            run = pl.compile(programs.kernel, target=pl.CudaTarget())
            copies = {name: copied(v) if isinstance(v, np.ndarray) else v for name, v in arguments.items()}
            try:
                result = run(**copies, poison=True)
            except ArgumentError as error:
                if error.codes != ("grid-too-large",):
                    raise
                continue  # axes in another order than a device has them
            wrong = difference(expected, dict(result.items()))
            assert wrong is None, f"seed {seed}, n = {n}: {wrong}\n{pair.script()}\n{run.source}"
            compared += 1
    assert compared >= 50
