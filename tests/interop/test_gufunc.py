"""Kernels as functions of batches: leading axes are broadcast, nothing is copied, and each wrong call is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.interop.libraries import added, matvec, refused, rounded

F8 = np.float64


@pytest.fixture(scope="module")
def run() -> pl.Batched:
    return pl.gufunc(matvec(F8))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(("a", "x", "s"), [
    ((), (), ()), ((5,), (5,), ()), ((5, 1), (7,), (5, 7)), ((1, 1, 2), (3, 1, 1), (4, 1)), ((0,), (), ()),
    ((2, 3), (), (3,)), ((1,), (), (1,)),
])  # fmt: skip
def test_leading_axes_are_broadcast(
    run: pl.Batched, rng: np.random.Generator, a: tuple[int, ...], x: tuple[int, ...], s: tuple[int, ...]
) -> None:
    arrays = rng.random((*a, 3, 4)), rng.random((*x, 4)), rng.random(s)
    found = run(*arrays).y
    wanted = arrays[2][..., None] * np.einsum("...ij,...j->...i", arrays[0], arrays[1])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_any_strides_of_leading_axes(run: pl.Batched, rng: np.random.Generator) -> None:
    a, x = rng.random((6, 5, 3, 4))[::-2, ::2], np.broadcast_to(rng.random(4), (3, 3, 4))
    y = np.zeros((3, 3, 2, 3))[:, :, 1]
    assert run(a, x, 2.0, y=y).y is y
    np.testing.assert_allclose(y, 2 * np.einsum("...ij,...j->...i", a, x), rtol=1e-13)


def test_several_outputs_a_size_and_numbers_of_other_types(rng: np.random.Generator) -> None:
    run = pl.gufunc(rounded())
    x, shift = rng.random((2, 3, 5)).astype(np.float32), np.array([[1], [-2]])
    y, w = run(x=x, z=np.ones(1, np.float32), t=2, shift=shift)
    np.testing.assert_allclose(y, x[..., :-1] + x[..., 1:] + 2, rtol=1e-6)
    np.testing.assert_allclose(w[..., 0], 4 * x + shift[..., None], rtol=1e-6)


def test_arrays_that_are_changed() -> None:
    run, u, v = pl.gufunc(added()), np.zeros((3, 4), np.float32), np.arange(4, dtype=np.float32)
    assert run(u=u, v=v).u is u
    assert run(u=u, v=v).u is u
    assert np.array_equal(u, np.broadcast_to(2 * v, (3, 4)))
    assert "'u' is written, and has leading axes ()" in refused(lambda: run(u=u[0], v=u[1:]))
    assert "overlapping-elements" in refused(lambda: run(u=np.lib.stride_tricks.as_strided(u, (3, 4), (0, 4)), v=v))
    assert "overlapping-arguments" in refused(lambda: run(u=u, v=u[1]))
    assert "assumption-violated" in refused(lambda: run(u=u[:, :1].copy(), v=v[:1]))


def test_it_says_its_signature(run: pl.Batched) -> None:
    assert repr(run) == "<gufunc of 'matvec': (m,n),(n),()->(m)>"


A, X = np.ones((2, 3, 4)), np.ones(4)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"a": A, "x": np.ones((5, 4)), "s": 1}, "the leading axes cannot be broadcast [wrong-shape]"),
    ({"a": A, "x": np.float64(1), "s": 1}, "'x' must be an array [wrong-type]"),
    ({"a": A[0, 0], "x": X, "s": 1}, "'a' has 1 axes, and the kernel has 2 [wrong-shape]"),
    ({"a": A, "x": X[:3], "s": 1}, "'x' does not fit the other arrays [inconsistent-size]"),
    ({"a": A, "x": X.astype(np.float32), "s": 1}, "'x' has dtype float32, expected float64 [wrong-dtype]"),
    ({"a": A.transpose(0, 2, 1), "x": X[:3], "s": 1}, "'a' is not stored as the kernel reads it [wrong-strides]"),
    ({"a": A, "x": X, "s": "1"}, "'s' must be a real number, not str '1' [wrong-type]"),
    ({"a": A, "x": X}, "'s' was not passed [missing-argument]"),
    ({"a": A, "x": X, "s": 1, "b": 1}, "no argument 'b' [unknown-argument]"),
    ({"a": A, "x": X, "s": 1, "m": 2.0}, "'m' must be an integer of Python [wrong-type]"),
    ({"a": A, "x": X, "s": 1, "y": np.broadcast_to(0.0, (2, 3))}, "read-only-output"),
])  # fmt: skip
def test_a_wrong_call_is_refused(run: pl.Batched, arguments: dict[str, Any], message: str) -> None:
    assert message in refused(lambda: run(**arguments))


def test_kernels_that_are_no_c_functions_are_refused() -> None:
    assert "needs-c-target" in refused(lambda: pl.gufunc(matvec(), target=pl.CudaTarget()))
    assert "unknown-dtype" in refused(lambda: pl.gufunc(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]")))
    assert "wrong-argument-type" in refused(lambda: pl.gufunc("matvec"))  # type: ignore[arg-type]
