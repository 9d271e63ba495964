"""Kernels with rules put into them mean what they meant."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.drawing.random_kernels import Source, random_arguments, ruled_sources


def made(source: Source) -> pl.LoopKernel | tuple[str, ...]:
    """Return the kernel, or the codes of its refusal."""
    try:
        return source.make()
    except pl.KernelError as error:
        return error.codes


@pytest.mark.parametrize("part", range(3))
def test_rules_in_any_place_change_nothing(part: int) -> None:
    compared = 0
    for seed in range(part, 60, 3):
        plain, ruled = ruled_sources(seed)
        if plain.lines == ruled.lines:
            continue
        first, second = made(plain), made(ruled)
        if not isinstance(first, pl.LoopKernel) or not isinstance(second, pl.LoopKernel):
            assert first == second, ruled.script()
            continue
        given = random_arguments(first, 9, seed, whole=True)
        results = [pl.interpret(knl, **{x: np.copy(v) for x, v in given.items()}) for knl in (first, second)]
        for name in results[0]:
            np.testing.assert_array_equal(results[0][name], results[1][name], err_msg=ruled.script())
        compared += 1
    assert compared > 8
