"""Programs inside of JAX's ``shard_map``, on four devices: ``python -m tests.distributed.jaxworker [all]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import polyloop as pl
from tests.distributed import programs
from tests.distributed.programs import Case

jax: Any = import_module("jax")
polyloop_jax: Any = import_module("polyloop.jax")
jax.config.update("jax_enable_x64", True)
P: Any = jax.sharding.PartitionSpec
NAMES = ("x", "y")


def spec(divided: pl.DistributedKernel, array: str) -> Any:
    axes = divided.analysis.division.axes(array)
    return P(*(None if axis is None else NAMES[axis] for axis in axes))


def padded(plan: Any, array: str, whole: Any) -> Any:
    """Return a whole array with blocks of one length on all devices."""
    regions = plan.regions
    lengths = [extent if axis is None else regions.blocks[axis]*regions.mesh[axis]
               for extent, axis in zip(whole.shape, regions.axes(array), strict=True)]
    return np.pad(whole, [(0, length - extent) for length, extent in zip(lengths, whole.shape, strict=True)])


def check(case: Case, shape: tuple[int, ...]) -> str:
    """Compare a program with the undivided kernel, and return the operations that it is made of."""
    divided, names = case.divided(shape), NAMES[: len(shape)]
    sizes, plan = dict(case.sizes), case.divided(shape).plan(**case.sizes)
    step = polyloop_jax.sharded(divided, names)
    given = {name: padded(plan, name, value) for name, value in case.inputs().items()}
    expected = case.expected()
    outputs = [entry.name for entry in case.kernel.arguments if getattr(entry, "is_output", False)]
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape), names)
    specs = {name: spec(divided, name) for name in given}
    run: Callable[..., Any] = jax.jit(jax.shard_map(
        lambda arrays: step(**arrays, **sizes, **case.scalars), mesh=mesh, in_specs=(specs,),
        out_specs={name: specs[name] for name in outputs}, check_vma=False))
    found = run(given)
    for name in outputs:
        value = np.asarray(found[name])[tuple(slice(0, extent) for extent in expected[name].shape)]
        np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=f"{case!r}: {name}")
    return str(jax.make_jaxpr(run)(given))


def refusals() -> None:
    """Print what is refused."""
    case = programs.heat_1d_mesh(n=8)
    step = polyloop_jax.sharded(case.divided((4,)), "x")
    u = np.zeros((8, 8, 8))

    def inside(count: int, **arguments: Any) -> None:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:count]), ("x",))
        jax.shard_map(lambda u: step(u=u, **arguments)["u"], mesh=mesh, in_specs=P("x"), out_specs=P("x"),
                      check_vma=False)(u)

    known = {**case.sizes, **case.scalars}
    for call in (
        lambda: step(u=u, **known), lambda: inside(2, **known), lambda: inside(4, **{**known, "n": 16}),
        lambda: inside(4, **case.scalars), lambda: inside(4, w=1, **known), lambda: inside(4, **case.sizes),
        lambda: polyloop_jax.sharded(case.divided((4,)), ("x", "y")),
    ):
        try:
            call()
        except pl.ArgumentError as error:
            print(*error.codes)
        else:
            print("taken")


def main() -> None:
    quick = [(programs.heat(n=9), (2, 2)), (programs.columns(m=8, n=8), (4,)), (programs.cells(), (3,))]
    more = [(programs.heat_1d_mesh(n=8), (4,)), (programs.layer_norm(), (3,)), (programs.product(), (2, 2)),
            (programs.history(n=7), (4,)), (programs.boundaries(n=5), (4,)), (programs.transpose(), (3,)),
            (programs.sparse(), (4,)), (programs.conjugate_gradients(), (4,)), (programs.histogram(), (2,)),
            (programs.extremes(), (4,)), (programs.norms(), (2, 2)), (programs.attention(), (2,)),
            (programs.heat_1d_mesh(n=5), (4,)), (programs.heat_1d_mesh(steps=0), (2,)), (programs.product(), (1, 3))]
    for case, shape in quick + (more if "all" in sys.argv else []):
        text = check(case, shape)
        kinds = [word for word in ("ppermute", "psum", "reduce_scatter", "pmax", "all_gather") if f" {word}[" in text]
        print(case.kernel.name, *kinds, text.count(" ffi_call["), flush=True)
    refusals()


if __name__ == "__main__":
    main()
