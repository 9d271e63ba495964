"""Derivatives of kernels, compared with one another and with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.evaluate import evaluate

D = np.float64
Run = Callable[[pl.LoopKernel, Mapping[str, Any]], Mapping[str, Any]]


def interpreted(knl: pl.LoopKernel, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the reference interpreter computes; names that the kernel does not have are left out."""
    return pl.interpret(knl, **given(knl, arguments))


def compiled(knl: pl.LoopKernel, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the C target computes."""
    outputs = pl.compile(knl, pl.CTarget())(**given(knl, arguments))
    names = [a.name for a in knl.arguments if isinstance(a, ArrayArg) and a.is_output]
    return {name: np.asarray(getattr(outputs, name)) for name in names}


def given(knl: pl.LoopKernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the arguments that *knl* has."""
    names = {argument.name for argument in knl.arguments}
    return {x: np.copy(v) if isinstance(v, np.ndarray) else v for x, v in arguments.items() if x in names}


def inputs(knl: pl.LoopKernel, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Return random numbers away from zero for all that *knl* reads, and the sizes."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = dict(sizes)
    for argument in knl.arguments:
        if isinstance(argument, ArrayArg) and argument.is_input:
            shape = tuple(evaluate(extent, sizes) for extent in argument.shape or ())
            found[argument.name] = rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)
        elif not isinstance(argument, ArrayArg) and argument.name not in sizes:
            found[argument.name] = float(rng.uniform(0.5, 1.5))
    return found


def check(
    knl: pl.LoopKernel, wrt: Sequence[str], of: Sequence[str], arguments: Mapping[str, Any], run: Run = interpreted,
    **options: Any,
) -> tuple[pl.LoopKernel, pl.LoopKernel]:  # fmt: skip
    """Compare ``<y_bar, J x_dot>`` by forward mode, by reverse mode, and by differences; return the two kernels."""
    tangent = pl.differentiate(knl, wrt, of, mode="forward")
    adjoint = pl.differentiate(knl, wrt, of, **options)
    rng = np.random.default_rng(1)
    dots = {x: rng.normal(size=np.shape(arguments[x])) for x in wrt}
    base = run(knl, arguments)
    bars = {y: rng.normal(size=np.shape(base[y])) for y in of}

    def paired(found: Mapping[str, Any], others: Mapping[str, Any], name: str) -> float:
        return float(sum(np.sum(np.asarray(found[name.format(x)]) * other) for x, other in others.items()))

    step = 1e-6
    moved = [run(knl, {**arguments, **{x: arguments[x] + sign * step * dots[x] for x in wrt}}) for sign in (1, -1)]
    differences = float(sum(np.sum(bars[y] * (moved[0][y] - moved[1][y])) for y in of)) / (2 * step)
    blank = {f"{y}_dot": np.zeros_like(bar) for y, bar in bars.items() if y in arguments}
    moving = {**arguments, **blank, **{f"{x}_dot": _plain(dot) for x, dot in dots.items()}}
    forward = paired(run(tangent, moving), bars, "{}_dot")
    saved = {y: base[y] for y in options.get("saved", ())}
    reverse = paired(
        run(adjoint, {**arguments, **saved, **{f"grad_{y}": bar for y, bar in bars.items()}}), dots, "grad_{}")
    scale = max(1.0, abs(differences))
    assert abs(forward - differences) < 1e-6 * scale, (forward, differences)
    assert abs(reverse - forward) < 1e-11 * scale, (reverse, forward)
    return tangent, adjoint


def _plain(dot: Any) -> Any:
    return dot if np.shape(dot) else float(dot)
