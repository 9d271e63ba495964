"""Drawn programs: ``<y_bar, J x_dot>`` is the same by forward and by reverse mode."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.drawing.random_kernels import random_arguments

SEEDS = 120
SIZE = 8
KNOWN = {"not-differentiable"}
"""What drawn programs may be refused for: integers alone, bounds read from memory, results of several parts."""


def paired(knl: pl.LoopKernel, seed: int) -> list[float]:
    """Return the pairing by forward mode, by reverse mode, and by reverse mode without stored values."""
    made = [pl.differentiate(knl, mode="forward"), pl.differentiate(knl), pl.differentiate(knl, store="recompute")]
    arguments = random_arguments(knl, SIZE, seed, whole=True)
    floats = [a for a in knl.arguments if isinstance(a, ArrayArg) and a.dtype is not None and a.dtype.kind == "f"]
    rng = np.random.default_rng(seed)

    def drawn(name: str) -> Any:
        return rng.integers(-3, 4, np.shape(arguments[name])).astype(arguments[name].dtype)

    dots = {a.name: drawn(a.name) for a in floats if a.is_input}
    bars = {a.name: drawn(a.name) for a in floats if a.is_output}
    more = {f"{x}_dot": dot for x, dot in dots.items()} | {f"grad_{y}": bar for y, bar in bars.items()}
    more |= {f"{y}_dot": np.zeros_like(bar) for y, bar in bars.items() if y not in dots}
    more |= {f"grad_{x}": np.zeros_like(dot) for x, dot in dots.items() if x not in bars}
    found = []
    for each, others, name in zip(made, (bars, dots, dots), ("{}_dot", "grad_{}", "grad_{}"), strict=True):
        names = {argument.name for argument in each.arguments}
        given = {x: np.copy(v) for x, v in {**arguments, **more}.items() if x in names}
        results = pl.interpret(each, **{x: v if v.shape else v[()] for x, v in given.items()})
        found.append(float(sum(np.sum(results[name.format(x)].astype(float) * other) for x, other in others.items())))
    return found


def test_drawn_programs_have_adjoints_that_fit_their_tangents() -> None:
    compared, refused = 0, set[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(SEEDS):
            try:
                knl = drawn_source(seed).make()
            except pl.KernelError:  # some are drawn to be refused
                continue
            try:
                forward, reverse, recomputed = paired(knl, seed)
            except pl.KernelError as error:
                refused.update(error.codes)
                continue
            compared += 1
            assert reverse == pytest.approx(forward, rel=1e-3, abs=1e-3, nan_ok=True), f"seed {seed}"
            assert recomputed == pytest.approx(forward, rel=1e-3, abs=1e-3, nan_ok=True), f"seed {seed}"
    assert refused <= KNOWN
    assert compared > SEEDS // 3
