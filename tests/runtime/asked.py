"""Programs whose host decides: loops that end early, launches that are left out, with what NumPy says."""
# mypy: ignore-errors
# ruff: noqa: ANN202, F821, B007, UP037
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from tests.runtime.hosts import Arrays, HostProgram

__all__ = ["ASKED"]

F = np.float64


def _on_blocks(knl: LoopKernel, *inames: str) -> LoopKernel:
    for iname in inames:
        knl = knl.split_iname(iname, 8, outer_tag="g.0", inner_tag="l.0")
    return knl


def _random(n: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(n).uniform(1, 2, n)


# {{{ a loop with break, and with while


@pl.kernel(assumptions="n >= 1 and most >= 0")
def relax(
    x: pl.Array[F, "n"], y: pl.Array[F, "n"], b: pl.Array[F, "n"], count: pl.Array[np.int32, 1], tol: F,
    most: np.int32, n: np.int32,
):  # fmt: skip
    count[0] = 0
    for it in range(most):
        for i in range(n):
            y[i] = 0.5*x[i] + 0.25*x[(i + 1) % n] + 0.25*b[i]
        r = sum(abs(y[k] - x[k]) for k in range(n))
        for j in range(n):
            x[j] = y[j]
        count[0] += 1
        if r < tol:
            break


@pl.kernel(assumptions="n >= 1 and most >= 0")
def halve(
    x: pl.Array[F, "n"], y: pl.Array[F, "n"], b: pl.Array[F, "n"], count: pl.Array[np.int32, 1], tol: F,
    most: np.int32, n: np.int32,
):  # fmt: skip
    count[0] = 0
    r = tol
    k = 0
    while r >= tol and k < most:
        for i in range(n):
            y[i] = 0.5*x[i] + 0.25*x[(i + 1) % n] + 0.25*b[i]
        r = sum(abs(y[m] - x[m]) for m in range(n))
        for j in range(n):
            x[j] = y[j]
        count[0] += 1
        k += 1


def relax_inputs(n: int) -> dict[str, Any]:
    n = max(n, 1)
    return {"x": np.zeros(n), "y": np.zeros(n), "b": _random(n), "count": np.zeros(1, np.int32),
            "tol": 0.01 if n % 2 else 1e-9, "most": 25, "n": n}


def relax_expected(x: Any, b: Any, tol: float, most: int, **_: Any) -> Arrays:
    y, count = x, 0
    for _it in range(most):
        y = 0.5 * x + 0.25 * np.roll(x, -1) + 0.25 * b
        r, x, count = abs(y - x).sum(), y, count + 1
        if r < tol:
            break
    return {"x": x, "count": np.array([count])}


# }}}
# {{{ a loop that ends, in a time loop: its condition is in memory, and the body is one launch that changes it


def drained() -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, s, i, j]: 0 <= t < steps and 0 <= s < 9 and 0 <= i, j < n}",
        """
        for t
            level[0] = t + 2 {id=fill}
            for s
                for i
                    y[i] = x[n - 1 - i] + level[0] {id=turn, if=level[0] > 0}
                end
                for j
                    x[j] = y[j] {id=back, if=level[0] > 0}
                end
                level[0] = level[0] - 1 {id=drain, if=level[0] > 0}
            end
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("level", np.int32, shape=1), ...],
        name="drained", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    return _on_blocks(knl, "i", "j")


def drained_inputs(n: int) -> dict[str, Any]:
    return {"x": _random(n), "y": np.zeros(n), "level": np.zeros(1, np.int32), "steps": 3, "n": n}


def drained_expected(x: Any, steps: int, **_: Any) -> Arrays:
    for t in range(steps):
        for level in range(t + 2, 0, -1):
            x = x[::-1] + level
    return {"x": x, "level": np.array([0])}


# }}}
# {{{ launches under conditions on numbers and on a loop of the host


def updated() -> LoopKernel:
    knl = pl.make_kernel(
        "{[t, i, j, k, l]: 0 <= t < steps and 0 <= i, j, k, l < n}",
        """
        for t
            for i
                y[i] = x[n - 1 - i] {id=turn}
            end
            for j
                x[j] = y[j] + beta*t {id=add, if=beta != 0}
            end
            for k
                y[k] = 2*y[k] - x[n - 1 - k] {id=rare, if=t*t % m == 1}
            end
            for l
                x[l] = x[l] + 1 {id=one, if=t*t % m == 1}
            end
        end
        """,
        [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("beta", F), pl.ValueArg("m", np.int32), ...],
        name="updated", assumptions="n >= 0 and steps >= 0",
    )  # fmt: skip
    return _on_blocks(knl, "i", "j", "k", "l")


def updated_inputs(n: int) -> dict[str, Any]:
    return {"x": _random(n), "y": np.zeros(n), "beta": 0.5 if n % 2 else 0.0, "m": 3, "steps": 5, "n": n}


def updated_expected(x: Any, y: Any, beta: float, m: int, steps: int, **_: Any) -> Arrays:
    x, y = x.copy(), y.copy()
    for t in range(steps):
        y = x[::-1].copy()
        if beta != 0:
            x = y + beta * t
        if t * t % m == 1:
            y = 2 * y - x[::-1]
            x = x + 1
    return {"x": x, "y": y}


# }}}


ASKED = {
    "relax": HostProgram(lambda: _on_blocks(relax, "i", "j"), relax_inputs, relax_expected,
                         ((), ("it",), ("it",), ("it",), ("it",)), (1, 2, 5, 37)),
    "halve": HostProgram(lambda: _on_blocks(halve, "i", "j"), relax_inputs, relax_expected,
                         ((), ("k",), ("k",), ("k",), ("k",)), (1, 2, 5, 37)),
    "drained": HostProgram(drained, drained_inputs, drained_expected,
                           (("t",), ("t", "s"), ("t", "s"), ("t", "s")), (0, 1, 5, 37)),
    "updated": HostProgram(updated, updated_inputs, updated_expected,
                           (("t",), ("t",), ("t",), ("t",)), (0, 1, 2, 5, 37)),
}  # fmt: skip
