"""Kernels as functions of JAX: values, transforms of JAX, gradients, and each wrong use refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.interop.libraries import F, added, matvec, matvec_backward, refused, required, rounded

jax: Any = required("jax")
jnp: Any = required("jax.numpy")
polyloop_jax: Any = required("polyloop.jax")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Let JAX work on the CPU, also where it has a GPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture(scope="module")
def f() -> Any:
    return polyloop_jax.call(matvec(), backward=matvec_backward())


@pytest.fixture
def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.random((3, 4)), F), jnp.asarray(rng.random(4), F)


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2e-5, atol=1e-6)


def test_values_in_and_out_of_jit(f: Any, data: tuple[Any, Any]) -> None:
    a, x = data
    close(f(a, x, 2.0), 2 * a @ x)
    close(f(s=2, x=np.asarray(x), a=a), 2 * a @ x)
    close(jax.jit(lambda a, x, s: jnp.sin(f(a, x, s)))(a, x, 3.0), jnp.sin(3 * a @ x))
    assert isinstance(f(a, x, 2.0), jax.Array)


@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (0, None, 0)])
def test_vmap(f: Any, axes: tuple[int | None, ...]) -> None:
    rng = np.random.default_rng(1)
    shapes = [(3, 4), (4,), ()]
    given = [jnp.asarray(rng.random(shape if axis is None else (5, *shape)), F)
             for shape, axis in zip(shapes, axes, strict=True)]
    close(jax.vmap(f, axes)(*given), jax.vmap(lambda a, x, s: s * a @ x, axes)(*given))


def test_vmap_in_vmap_in_jit(f: Any, data: tuple[Any, Any]) -> None:
    a, _ = data
    rng = np.random.default_rng(2)
    x, s = jnp.asarray(rng.random((5, 4)), F), jnp.asarray(rng.random(6), F)
    over = jax.jit(jax.vmap(jax.vmap(lambda x, s: f(a, x, s), (0, None)), (None, 0)))
    close(over(x, s), s[:, None, None] * (x @ a.T))


def test_gradients_are_those_of_jax(f: Any, data: tuple[Any, Any]) -> None:
    a, x = data

    def loss(function: Any) -> Any:
        return lambda a, x: jnp.sum(jnp.sin(function(a, x)))

    own = jax.jit(jax.grad(loss(lambda a, x: f(a, x, 2.0)), (0, 1)))(a, x)
    for one, other in zip(own, jax.grad(loss(lambda a, x: 2 * a @ x), (0, 1))(a, x), strict=True):
        close(one, other)
    rows = jnp.asarray(np.random.default_rng(3).random((5, 4)), F)
    close(jax.vmap(jax.grad(lambda x: loss(lambda a, x: f(a, x, 2.0))(a, x)))(rows),
          jax.vmap(jax.grad(lambda x: loss(lambda a, x: 2 * a @ x)(a, x)))(rows))


def test_several_outputs_and_a_size(data: tuple[Any, Any]) -> None:
    _, x = data
    f = polyloop_jax.call(rounded())
    y, w = jax.jit(lambda x, t: f(x, jnp.ones(1, F), t, 3))(x, 0.5)
    close(y, x[:-1] + x[1:] + 0.5)
    close(w, (x + 3)[:, None])
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[0]", [
        pl.GlobalArg("x", F, shape="1"), pl.GlobalArg("y", F, shape="n"), pl.ValueArg("n", np.int32)])
    repeated = polyloop_jax.call(knl)
    assert jax.jit(lambda x: repeated(x, n=3))(jnp.ones(1, F)).tolist() == [1.0] * 3
    assert "the size 'n' follows from no array" in refused(lambda: repeated(jnp.ones(1, F)))


def test_arrays_that_the_kernel_changes_stay(data: tuple[Any, Any]) -> None:
    _, x = data
    f, u = polyloop_jax.call(added()), jnp.ones(4, F)
    close(jax.jit(f)(u, x), 1 + x)
    close(jax.vmap(lambda v: f(u, v))(jnp.stack([x, 2 * x])), 1 + jnp.stack([x, 2 * x]))
    assert u.tolist() == [1.0] * 4
    assert "[assumption-violated]" in refused(lambda: f(u[:1], x[:1]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"])
def test_types(dtype: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[n - 1 - i]", [pl.GlobalArg("x, y", dtype, shape="n"), ...])
    x = jnp.asarray([0, 1, 1, 0, 1], dtype)
    assert jnp.array_equal(jax.jit(polyloop_jax.call(knl))(x), x[::-1])


def test_types_of_64_bits_are_refused_where_jax_makes_none(data: tuple[Any, Any]) -> None:
    a, x = data
    assert "jax_enable_x64" in refused(lambda: polyloop_jax.call(matvec(np.float64))(a, x, 1.0))
    widening = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [
        pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("y", np.float64, shape="n"), ...])
    assert "'y' has dtype float32, expected float64 [wrong-dtype]" in refused(lambda: polyloop_jax.call(widening)(x))


A, X = np.ones((3, 4), F), np.ones(4, F)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"a": A, "x": X[:3], "s": 1}, "'x' does not fit the other arrays [inconsistent-size]"),
    ({"a": A, "x": A, "s": 1}, "'x' has 2 axes, and the kernel has 1 [wrong-shape]"),
    ({"a": A, "x": np.ones(4, np.int32), "s": 1}, "'x' has dtype int32, expected float32 [wrong-dtype]"),
    ({"a": A, "x": [1.0] * 4, "s": 1}, "'x' must be an array of JAX or NumPy [wrong-type]"),
    ({"a": A, "x": X, "s": X}, "'s' must be a real number"),
    ({"a": A, "x": X, "s": "1"}, "'s' must be a real number"),
    ({"a": A, "x": X}, "'s' was not passed [missing-argument]"),
    ({"a": A, "x": X, "s": 1, "q": 1}, "no argument 'q' [unknown-argument]"),
])  # fmt: skip
def test_a_wrong_call_is_refused_also_where_jax_traces(f: Any, arguments: dict[str, Any], message: str) -> None:
    assert message in refused(lambda: f(**arguments))
    assert message in refused(lambda: jax.jit(lambda _: f(**arguments))(1.0))


def test_numbers_of_jax_are_checked(f: Any) -> None:
    assert "'s' must be a number [wrong-type]" in refused(lambda: f(A, X, jnp.ones(2)))
    assert "'s' has dtype int32, expected float32 [wrong-dtype]" in refused(lambda: f(A, X, jnp.int32(1)))


def test_gradients_that_no_kernel_computes_are_refused(f: Any) -> None:
    assert "computes no gradient of 's' [no-gradient]" in refused(lambda: jax.grad(lambda s: f(A, X, s).sum())(2.0))
    plain = polyloop_jax.call(matvec(), backward=False)
    assert "pass backward=" in refused(lambda: jax.grad(lambda x: plain(A, x, 2.0).sum())(X))
    assert "'y' is no gradient of 'matvec' [wrong-backward]" in refused(
        lambda: polyloop_jax.call(matvec(), backward=matvec()))


def test_kernels_that_are_no_functions_are_refused() -> None:
    assert "[needs-c-target]" in refused(lambda: polyloop_jax.call(matvec(), target=pl.CudaTarget()))
    assert "[unknown-dtype]" in refused(lambda: polyloop_jax.call(pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]")))


def test_what_is_found_when_it_runs_is_an_error_of_jax() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [pl.GlobalArg("x, y", F, shape="n"), ...], name="copied")
    f = polyloop_jax.call(knl)
    name = f._custom._name
    call = jax.ffi.ffi_call(name, [jax.ShapeDtypeStruct((3,), np.int32)])
    with pytest.raises(Exception, match="kernel 'copied': called with other types or axes than it was made for"):
        call(np.ones(3, F), sizes=np.array([3, 0]))[0].block_until_ready()
    call = jax.ffi.ffi_call(name, [jax.ShapeDtypeStruct((3,), F)])
    with pytest.raises(Exception, match="kernel 'copied': an extent of 'x' is negative"):
        call(np.ones(3, F), sizes=np.array([-3, 0]))[0].block_until_ready()


def test_gradients_follow_from_the_kernel(data: tuple[Any, Any]) -> None:
    a, x = data
    f = polyloop_jax.call(matvec())
    own = jax.jit(jax.grad(lambda a, x, s: jnp.sum(jnp.sin(f(a, x, s))), (0, 1, 2)))(a, x, 2.0)
    theirs = jax.grad(lambda a, x, s: jnp.sum(jnp.sin(s * a @ x)), (0, 1, 2))(a, x, 2.0)
    for one, other in zip(own, theirs, strict=True):
        close(one, other)
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = lgamma(x[i])", [pl.GlobalArg("x, y", F, shape="n"), ...])
    g = polyloop_jax.call(knl)
    assert "the derivative of 'lgamma' is not known" in refused(lambda: jax.grad(lambda x: g(x).sum())(x))


@pytest.mark.parametrize(("text", "function"), [
    ("y[i] = max(j, a[i, j])", lambda a: jnp.max(a, 1)),
    ("y[i] = min(j, a[i, j]*a[i, j])", lambda a: jnp.min(a * a, 1)),
    ("y[i] = product(j, a[i, j])", lambda a: jnp.prod(a, 1)),
    ("y[i] = sqrt(sum(j, a[i, j]**2) + 1)", lambda a: jnp.sqrt(jnp.sum(a**2, 1) + 1)),
    ("y[i] = sum(j, tanh(a[i, j])*erf(a[i, 0]) + abs(a[i, j] + 0.3))",
     lambda a: jnp.sum(jnp.tanh(a) * jax.scipy.special.erf(a[:, :1]) + jnp.abs(a + F(0.3)), 1)),
    ("y[i] = sum(j, max(a[i, j], 0) + (sin(a[i, j]) if a[i, j] > 0.5 else log1p(a[i, j]**2)))",
     lambda a: jnp.sum(jnp.maximum(a, 0) + jnp.where(a > 0.5, jnp.sin(a), jnp.log1p(a**2)), 1)),
])  # fmt: skip
@pytest.mark.parametrize("ties", [False, True])
def test_subgradients_are_those_of_jax(text: str, function: Any, ties: bool) -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i < m and 0 <= j < n}", text,
                         [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("y", F), ...], assumptions="n >= 1")
    f = polyloop_jax.call(knl)
    a = np.random.default_rng(0).normal(size=(4, 5)).astype(F)
    if ties:
        a = np.round(a)
    close(jax.grad(lambda a: jnp.sum(f(a) ** 2))(jnp.asarray(a)), jax.grad(lambda a: jnp.sum(function(a) ** 2))(a))
