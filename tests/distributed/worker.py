"""One rank of a test with processes: ``python -m tests.distributed.worker ENGINE WHAT [STORE RANK SIZE]``."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

import polyloop as pl
from tests.distributed import programs
from tests.distributed.programs import Case

LINES = (programs.history, programs.boundaries, programs.transpose, programs.layer_norm, programs.histogram,
         programs.columns, programs.cells, programs.conjugate_gradients, programs.sparse, programs.sparse_gradients,
         programs.attention)
PLANES = (programs.heat, programs.product)
SHAPES = {1: (1, 1), 2: (2, 1), 3: (1, 3), 4: (2, 2)}


def engine_of(kind: str, arguments: list[str]) -> pl.Engine:
    if kind == "mpi":
        return pl.MpiEngine(timeout=4 if sys.argv[2] == "fail" else 20)
    store, rank, size = arguments
    dist: Any = import_module("torch.distributed")
    if kind == "nccl":
        import_module("torch").cuda.set_device(int(rank))
    dist.init_process_group(kind, init_method=f"file://{store}", rank=int(rank), world_size=int(size),
                            timeout=timedelta(seconds=5 if "lost" in store and kind == "gloo" else 20))
    return pl.TorchEngine()


def _tensor_on_gpu(array: Any) -> Any:
    return import_module("torch").from_numpy(array).cuda()


def check(case: Case, mesh: tuple[int, ...], engine: pl.Engine) -> None:
    """Compare a program with the undivided kernel, and the bytes sent with those counted."""
    assert prod(mesh) == engine.size
    divided = case.divided(mesh)
    on_gpu = sys.argv[1] == "nccl"
    run = divided.compile(engine, pl.CudaTarget() if on_gpu else pl.CTarget())
    found = case.on_rank(run, _tensor_on_gpu) if on_gpu else case.on_rank(run)
    expected = case.expected()
    for name, value in found.items():
        whole = value.cpu().numpy() if on_gpu else value
        np.testing.assert_allclose(whole, expected[name], rtol=1e-12, atol=1e-12, err_msg=f"{case.kernel.name}: {name}")
    traffic = divided.explain(mesh, **case.sizes)
    if any(entry.is_bound for entry in traffic.exchanges):
        return
    links = traffic.links
    assert run.sent == sum(size for (source, _), size in links.items() if source == engine.rank), case.kernel.name


def tensors(engine: pl.Engine) -> None:
    """Run a program on tensors of PyTorch."""
    torch: Any = import_module("torch")
    case = programs.heat_1d_mesh()
    run = case.divided((engine.size,)).compile(engine, pl.CTarget())
    parts = {name: run.scatter(name, torch.from_numpy(value), **case.sizes) for name, value in case.inputs().items()}
    assert all(isinstance(part, torch.Tensor) for part in parts.values())
    run(**parts, **case.sizes, **case.scalars)
    whole = run.gather("u", parts["u"], **case.sizes)
    np.testing.assert_array_equal(whole.numpy(), case.expected()["u"])
    dtensors(engine)


def dtensors(engine: pl.Engine) -> None:
    """Run programs on DTensors: without copies where there is room for halos, with copies, and what is refused."""
    torch: Any = import_module("torch")
    made: Any = import_module("torch.distributed.tensor")
    mesh = import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (engine.size,))
    case = programs.heat_1d_mesh(n=10)
    run, sizes = case.divided((engine.size,)).compile(engine, pl.CTarget()), dict(case.sizes)
    start, expected = case.inputs()["u"], case.expected()["u"]
    part = run.scatter("u", torch.from_numpy(start), **sizes)
    room = run.dtensor("u", part, mesh, **sizes)
    assert room.to_local().data_ptr() == run.owned("u", part, **sizes).data_ptr()
    plain = made.distribute_tensor(torch.from_numpy(start), mesh, [made.Shard(0)])
    memory = plain.to_local().data_ptr()
    v = made.zeros(10, 10, 10, dtype=torch.float64, device_mesh=mesh, placements=[made.Shard(0)])
    for u in (room, plain):
        found = run(u=u, v=v, c=0.1, **sizes)
        assert found["u"] is u
        np.testing.assert_array_equal(u.full_tensor().numpy(), expected)
    assert plain.to_local().data_ptr() == memory
    assert run.plan(**sizes).regions.stored((0,), "v") == run.plan(**sizes).regions.owned((0,), "v")
    bad = {
        "columns": made.distribute_tensor(torch.from_numpy(start), mesh, [made.Shard(1)]),
        "everywhere": made.distribute_tensor(torch.from_numpy(start), mesh, [made.Replicate()]),
        "partial": made.DTensor.from_local(torch.zeros(10, 10, 10), mesh, [made.Partial()]),
        "shape": made.zeros(8, 10, 10, dtype=torch.float64, device_mesh=mesh, placements=[made.Shard(0)]),
        "mesh": made.zeros(10, 10, 10, dtype=torch.float64, placements=[made.Shard(0), made.Replicate()],
                           device_mesh=import_module("torch.distributed.device_mesh").init_device_mesh(
                               "cpu", (engine.size, 1))),
    }
    codes = {}
    for name, wrong in bad.items():
        try:
            run(u=wrong, v=v, c=0.1, **sizes)
        except pl.ArgumentError as error:
            codes[name] = error.codes[0]
            if name == "columns":
                print(error)
    assert codes == {**dict.fromkeys(("columns", "everywhere", "partial"), "wrong-placement"), "shape": "wrong-part",
                     "mesh": "mesh-mismatch"}


def called(engine: pl.Engine) -> tuple[Case, pl.RankProgram, dict[str, Any]]:
    """Call a program once, and return it with its parts."""
    case, on_gpu = programs.heat_1d_mesh(), sys.argv[1] == "nccl"
    run = case.divided((engine.size,)).compile(engine, pl.CudaTarget() if on_gpu else pl.CTarget())
    parts = {name: run.scatter(name, _tensor_on_gpu(value) if on_gpu else value, **case.sizes)
             for name, value in case.inputs().items()}
    run(**parts, **case.sizes, **case.scalars)
    return case, run, parts


def lose(engine: pl.Engine) -> None:
    """End the last rank between two calls."""
    case, run, parts = called(engine)
    if engine.rank == engine.size - 1:
        sys.stdout.flush()
        os._exit(0)
    try:
        run(**parts, **case.sizes, **case.scalars)
    except pl.CommunicationError as error:
        print(*error.codes)
        sys.stdout.flush()
        os._exit(0)


def fail(engine: pl.Engine) -> None:
    """Raise an error on the last rank between two calls, and what follows from it on the others."""
    case, run, parts = called(engine)
    if engine.rank == engine.size - 1:
        raise ValueError("of this rank")
    run(**parts, **case.sizes, **case.scalars)


def disagree(engine: pl.Engine) -> None:
    """Call with other sizes on the last rank."""
    case = programs.heat_1d_mesh(n=9 + engine.rank)
    run = case.divided((engine.size,)).compile(engine, pl.CTarget())
    try:
        run.plan(**case.sizes)
    except pl.ArgumentError as error:
        print(*error.codes)


def main() -> None:
    kind, what, *arguments = sys.argv[1:]
    engine = engine_of(kind, arguments)
    if what == "all":
        for make in PLANES:
            check(make(), SHAPES[engine.size], engine)
        for make in LINES:
            check(make(), (engine.size,), engine)
        print("equal")
    else:
        {"tensors": tensors, "lost": lose, "fail": fail, "disagree": disagree}[what](engine)
        print("done")


if __name__ == "__main__":
    main()
