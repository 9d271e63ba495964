"""A layer of a JAX model that is one kernel: ``python layer.py`` compares it with JAX alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from kernels import backward, forward

import polyloop.jax

rms_norm = polyloop.jax.call(forward(), backward=backward())
EPS = 1e-6


def plain(x: jax.Array, w: jax.Array) -> jax.Array:
    """Return the normalized rows by JAX's own functions."""
    return w * x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + EPS)


def model(parameters: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Return the output of two layers, with the kernel in between."""
    return jnp.tanh(rms_norm(x @ parameters["first"], parameters["w"], EPS)) @ parameters["second"]


def reference(parameters: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Return the same without the kernel."""
    return jnp.tanh(plain(x @ parameters["first"], parameters["w"])) @ parameters["second"]


def main() -> None:
    """Compare values, gradients, and a batch of inputs, and train for a few steps."""
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    parameters = {
        "first": jax.random.normal(keys[0], (16, 24)), "w": jnp.ones(24), "second": jax.random.normal(keys[1], (24, 8)),
    }  # fmt: skip
    x, wanted = jax.random.normal(keys[2], (5, 32, 16)), jax.random.normal(keys[3], (5, 32, 8))

    def loss(parameters: dict[str, jax.Array], function: object = model) -> jax.Array:
        return jnp.mean((jax.vmap(lambda one: function(parameters, one))(x) - wanted) ** 2)  # type: ignore[operator]

    gradient, losses = jax.jit(jax.value_and_grad(loss)), []
    for _ in range(10):
        value, found = gradient(parameters)
        other = jax.grad(lambda given: loss(given, reference))(parameters)
        for name, each in found.items():
            assert jnp.allclose(each, other[name], rtol=1e-3, atol=1e-5), name
        parameters = {name: each - 0.05 * found[name] for name, each in parameters.items()}
        losses.append(float(value))
    assert losses[-1] < losses[0], "training lowers the loss"
    print(f"10 steps, 5 batches, on {jax.default_backend()}: gradients agree, loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
