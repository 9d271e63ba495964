"""Kernels of several shapes on a real GPU, against NumPy, with NaN-filled outputs; on the C target everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.gpu import gpu_available

F = np.float32
Array = np.ndarray[Any, np.dtype[np.float32]]
Case = tuple[dict[str, Any], dict[str, Array]]


def rows(name: str, *shape: str) -> pl.GlobalArg:
    return pl.GlobalArg(name, F, shape=", ".join(shape))


def softmax() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, j2, j3]: 0 <= i < n and 0 <= j, j2, j3 < m}",
        """
        <> top = max(j, x[i, j])
        <> total = sum(j2, exp(x[i, j2] - top))
        y[i, j3] = exp(x[i, j3] - top) / total
        """,
        [rows("x, y", "n", "m"), ...],
        name="softmax",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def softmax_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.random((n, n + 3), dtype=F)
    e = np.exp(x - x.max(1, keepdims=True))
    return {"x": x}, {"y": e / e.sum(1, keepdims=True)}


def transpose() -> pl.LoopKernel:
    data = [rows("a", "n", "m"), rows("b", "m", "n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[j, i] = a[i, j]", data, name="transpose")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.1")
    return pl.add_prefetch(knl, "a", ["i_inner", "j_inner"])


def transpose_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n + 5), dtype=F)
    return {"a": a}, {"b": np.ascontiguousarray(a.T)}


def triangle() -> pl.LoopKernel:
    data = [rows("t", "n", "n"), rows("x, y", "n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "y[i] = sum(j, t[i, j]*x[j])", data, name="triangle")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 8)
    return pl.add_prefetch(knl, "x", ["j_inner"])


def triangle_case(n: int, rng: np.random.Generator) -> Case:
    t, x = rng.random((n, n), dtype=F), rng.random(n, dtype=F)
    return {"t": t, "x": x}, {"y": np.tril(t) @ x}


def register_tiles() -> pl.LoopKernel:
    data = [rows("a, b, c", "n", "n"), ...]
    text = "c[i, j] = sum(k, a[i, k]*b[k, j])"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, name="register_tiles")
    for iname, block, thread in (("i", "g.1", "l.1"), ("j", "g.0", "l.0")):
        knl = pl.split_iname(knl, iname, 32, outer_tag=block)
        knl = pl.split_iname(knl, f"{iname}_inner", 4, outer_tag=thread, inner_tag="unr")
    knl = pl.split_iname(knl, "k", 8)
    knl = pl.prioritize_loops(knl, "k_outer, k_inner, i_inner_inner, j_inner_inner")
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner_outer", "j_inner_inner"])


def register_tiles_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((2, n, n), dtype=F)
    return {"a": a, "b": b}, {"c": a @ b}


def two_launches() -> pl.LoopKernel:
    text = "b[i] = 2*a[i] {id=put}\nc[i] = b[n - 1 - i] + 1 {id=get}"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [rows("a, b, c", "n"), ...], name="two_launches")
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def two_launches_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random(n, dtype=F)
    return {"a": a}, {"b": 2 * a, "c": (2 * a)[::-1] + 1}


def moving_sum() -> pl.LoopKernel:
    text = "f(x) := sum(k, a[x + k])\nout[i] = f(i) + f(i + 1)"
    data = [rows("a", "n + 4"), rows("out", "n"), ...]
    knl = pl.make_kernel(["{[i]: 0 <= i < n}", "{[k]: 0 <= k < 4}"], text, data, name="moving_sum")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.precompute(knl, "f", ["i_inner"])


def moving_sum_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random(n + 4, dtype=F)
    four = sum(a[k : k + n + 1] for k in range(4))
    assert not isinstance(four, int)
    return {"a": a}, {"out": four[:-1] + four[1:]}


def time_loop() -> pl.LoopKernel:
    text = """
    for t
        for i
            <float32> v[i] = 0.5*(u[i] + u[i + 2]) {id=step}
        end
        for i
            u[i + 1] = v[i] {id=back}
        end
    end
    """
    domains = ["{[t]: 0 <= t < steps}", "{[i]: 0 <= i < 98}"]
    knl = pl.make_kernel(domains, text, [rows("u", "100"), ...], name="time_loop")
    return pl.tag_inames(knl, "i:l.0")


def time_loop_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.random(100, dtype=F)
    expected = u.copy()
    for _ in range(n):
        expected[1:-1] = 0.5 * (expected[:-2] + expected[2:])
    return {"u": u, "steps": n}, {"u": expected}


KERNELS: dict[str, tuple[Callable[[], pl.LoopKernel], Callable[[int, np.random.Generator], Case]]] = {
    "softmax": (softmax, softmax_case),
    "transpose": (transpose, transpose_case),
    "triangle": (triangle, triangle_case),
    "register_tiles": (register_tiles, register_tiles_case),
    "two_launches": (two_launches, two_launches_case),
    "moving_sum": (moving_sum, moving_sum_case),
    "time_loop": (time_loop, time_loop_case),
}
SIZES = (1, 7, 8, 31, 32, 33, 100)


def check(name: str, target: pl.Target) -> None:
    build, make_case = KERNELS[name]
    run = pl.compile(build(), target=target)
    rng = np.random.default_rng(1)
    for n in SIZES:
        arguments, expected = make_case(n, rng)
        result = run(**arguments, poison=True)
        for output, values in expected.items():
            np.testing.assert_allclose(getattr(result, output), values, rtol=2e-5, atol=1e-6, err_msg=f"{name} {n}")


def test_an_array_that_threads_exchange_is_not_restrict() -> None:
    """Found on a GPU: the compiler kept the first step's loads for all steps of ``time_loop``."""
    source = pl.generate_code(time_loop()).device_code
    assert "(float *u, int steps)" in source
    assert "float *restrict u" in pl.generate_code(time_loop(), pl.CTarget()).device_code
    assert "const float *__restrict__ a" in pl.generate_code(transpose()).device_code


@pytest.mark.parametrize("name", KERNELS)
def test_the_c_target_agrees_with_numpy(name: str) -> None:
    check(name, pl.CTarget())


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available()[0], reason=gpu_available()[1] or "a GPU is there")
@pytest.mark.parametrize("name", KERNELS)
def test_the_gpu_agrees_with_numpy(name: str) -> None:
    check(name, pl.CudaTarget())
