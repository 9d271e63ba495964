"""Arrays of JAX and of whoever lends memory by DLPack, as arguments of compiled kernels: nothing is copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.interop.libraries import F, refused, required

jax: Any = required("jax")
jnp: Any = required("jax.numpy")
torch: Any = required("torch")


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """Let JAX work on the CPU, also where it has a GPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        yield


@pytest.fixture(scope="module", params=["compiled", "bundle"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return ``z[i] = s*x[i]``, compiled or loaded from a bundle."""
    data = [pl.GlobalArg("x, z", F, shape="n"), pl.ValueArg("s", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = s*x[i]", data, name="scaled")
    if request.param == "compiled":
        return pl.compile(knl, target=pl.CTarget())
    folder = tmp_path_factory.mktemp("bundle")
    pl.export(knl, folder, target=pl.CTarget(), bundle=True)
    return pl.load(folder)


MAKE = {"numpy": np.asarray, "torch": torch.tensor, "jax": jnp.asarray}
KIND = {"numpy": np.ndarray, "torch": torch.Tensor, "jax": jax.Array}


@pytest.mark.parametrize("name", MAKE)
def test_outputs_are_arrays_of_the_library_of_the_inputs_and_lend_their_memory(run: Any, name: str) -> None:
    x = MAKE[name](np.arange(5, dtype=F))
    for number in range(3):
        z = run(x=x, s=number).z
        assert isinstance(z, KIND[name])
        assert np.array_equal(np.from_dlpack(z), number * np.arange(5, dtype=F))
        torch.testing.assert_close(torch.from_dlpack(z), number * torch.arange(5, dtype=torch.float32))
        assert jnp.array_equal(jnp.asarray(np.from_dlpack(z)), number * jnp.arange(5, dtype=F))


def test_the_first_array_that_is_not_numpys_says_which_library(run: Any) -> None:
    add = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = x[i] + y[i]", [
        pl.GlobalArg("x, y, z", F, shape="n"), ...]), target=pl.CTarget())
    x = np.ones(3, F)
    assert isinstance(add(x=x, y=jnp.asarray(x)).z, jax.Array)
    assert isinstance(add(x=x, y=torch.ones(3)).z, torch.Tensor)
    assert isinstance(add(x=jnp.asarray(x), y=torch.ones(3)).z, jax.Array)
    assert isinstance(add(x=torch.ones(3), y=jnp.asarray(x)).z, torch.Tensor)


def test_results_of_jax_are_not_changed_by_the_next_call(run: Any) -> None:
    x = jnp.arange(4, dtype=F)
    first = run(x=x, s=2).z
    second = run(x=x, s=3).z
    assert first.tolist() == [0, 2, 4, 6]
    assert second.tolist() == [0, 3, 6, 9]
    assert (first + 1).tolist() == [1, 3, 5, 7]


def test_an_array_of_jax_is_read_where_it_lies(run: Any) -> None:
    x, z = jnp.arange(4, dtype=F), np.zeros(4, F)
    run(x=x, z=z, s=2)
    assert z.tolist() == [0, 2, 4, 6]
    assert pl.compile(pl.make_kernel(
        "{[i]: 0 <= i < n}", "z[i] = x[i]", [pl.GlobalArg("x, z", F, shape="n"), ...]), target=pl.CTarget()
    )._bind({"x": x, "z": z}, None)[1].views["x"].pointer == x.unsafe_buffer_pointer()  # fmt: skip


def test_arrays_of_jax_are_inputs_only(run: Any) -> None:
    x = jnp.arange(4, dtype=F)
    found = refused(lambda: run(x=x, z=x + 1, s=2))
    assert "[read-only-output]\n  Note: arrays of JAX never change" in found
    assert "leave it out to have it allocated" in found
    if isinstance(run, pl.LoadedKernel):
        return
    assert "a bound call would change or keep 'z', an array of JAX" in refused(lambda: run.bind(x=x, s=2))
    z = np.zeros(4, F)
    step = run.bind(x=x, z=z, s=2)
    step()
    assert z.tolist() == [0, 2, 4, 6]


def test_arrays_of_jax_without_values_are_refused(run: Any) -> None:
    x = jnp.arange(4, dtype=F)
    assert "polyloop.jax.call(knl)" in refused(lambda: jax.jit(lambda x: run(x=x, s=2).z)(x))
    assert "'x' has dtype int32, expected float32 [wrong-dtype]" in refused(lambda: run(x=jnp.arange(4), s=2))
    assert "[wrong-dtype]" in refused(lambda: run(x=jax.random.key(0), s=2))
    gone = x + 1
    gone.delete()
    assert "'x' was deleted, or donated" in refused(lambda: run(x=gone, s=2))


def test_a_kernel_without_types_takes_those_of_jax() -> None:
    knl = pl.make_einsum("ij,j->i", "a, x")
    a, x = jnp.ones((2, 3), F), jnp.arange(3, dtype=F)
    out = knl(a, x).out
    assert isinstance(out, jax.Array)
    assert out.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"])
def test_types(dtype: str) -> None:
    run = pl.compile(pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = x[n - 1 - i]", [
        pl.GlobalArg("x, z", dtype, shape="n"), ...]), target=pl.CTarget())
    x = jnp.asarray([0, 1, 1, 0, 1], dtype)
    assert jnp.array_equal(run(x=x).z, x[::-1])


def test_gradients_are_refused_and_taken_under_no_grad(run: Any) -> None:
    x, z = torch.ones(4, requires_grad=True), torch.zeros(4)
    for _ in range(2):
        found = refused(lambda: run(x=x, z=z, s=2))
        assert "pass x.detach(), or call the kernel under torch.no_grad()" in found
        assert "polyloop.torch.custom_op" in found
        with torch.no_grad():
            for _ in range(3):
                run(x=x, z=z, s=2)
        assert z.tolist() == [2.0] * 4
