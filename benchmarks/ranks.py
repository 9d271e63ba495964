"""A heat equation on several GPUs: ``torchrun --nproc-per-node 2 -m benchmarks.ranks [--points 1024] [--steps 50]``.

Weak scaling: each rank has n x n x n points of its own.  The time of a step on all ranks is compared with that of the
same kernels on one rank alone, which exchanges nothing.  Bytes sent are compared with those that ``explain`` counts.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from typing import Any

import numpy as np

import polyloop as pl


def heat() -> pl.LoopKernel:
    """Return two steps of the heat equation an iteration, from one array to the other and back."""
    stencil = ("{0}[i, j, k] + c*({0}[i - 1, j, k] + {0}[i + 1, j, k] + {0}[i, j - 1, k] + {0}[i, j + 1, k] "
               "+ {0}[i, j, k - 1] + {0}[i, j, k + 1] - 6*{0}[i, j, k])")
    return pl.make_kernel(
        "{[t, i, j, k]: 0 <= t < steps and 1 <= i < m - 1 and 1 <= j, k < n - 1}",
        f"""
        for t
            for i, j, k
                v[i, j, k] = {stencil.format("u")}
            end
            for i, j, k
                u[i, j, k] = {stencil.format("v")}
            end
        end
        """,
        [pl.GlobalArg("u, v", np.float32, shape="m, n, n"), pl.ValueArg("c", np.float32), ...], name="heat",
        assumptions="m >= 3 and n >= 3 and steps >= 0")


def on_gpu(kernel: pl.LoopKernel) -> pl.LoopKernel:
    """Return the kernel of a phase with a thread for each point."""
    kernel = pl.split_iname(kernel, "k", 128, outer_tag="g.0", inner_tag="l.0")
    kernel = pl.split_iname(kernel, "j", 4, outer_tag="g.1", inner_tag="l.1")
    return pl.tag_inames(kernel, "i:g.2")


def divided(ranks: int, *, overlap: bool = True) -> pl.DistributedKernel:
    """Return the kernel divided along its first axis."""
    found = pl.distribute(heat(), {"u": "block, *, *", "v": "block, *, *"}, "i:mesh.0", (ranks,), overlap=overlap)
    for name in found.kernels:
        found = found.transformed(name, on_gpu)
    return found


def measured(run: pl.RankProgram, sizes: dict[str, int], repeats: int) -> float:
    """Return the median time of a step [s]."""
    torch: Any = import_module("torch")
    like = torch.empty(0, dtype=torch.float32, device="cuda")
    u, v = run.empty("u", like, **sizes), run.empty("v", like, **sizes)
    u[...] = torch.rand(u.shape, device="cuda", dtype=torch.float32)
    for _ in range(2):
        run(u=u, v=v, c=0.1, **sizes)
    times = []
    for _ in range(repeats):
        run.engine.all_gather("")
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run(u=u, v=v, c=0.1, **sizes)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / (2 * sizes["steps"]))
    return float(np.median(times))


def compared(engine: pl.Engine) -> None:
    """Compare a small case with NumPy, and the bytes sent with those counted."""
    torch: Any = import_module("torch")
    sizes = {"m": 37, "n": 50, "steps": 3}
    found = divided(engine.size)
    run = found.compile(engine, pl.CudaTarget())
    start = np.random.default_rng(1).random((37, 50, 50), dtype=np.float32)
    parts = {name: run.scatter(name, torch.from_numpy(start).cuda(), **sizes) for name in ("u", "v")}
    run(**parts, c=0.1, **sizes)
    arrays = [start.copy(), start.copy()]
    for step in range(2 * sizes["steps"]):
        u, v = arrays[step % 2], arrays[1 - step % 2]
        near = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        near = near + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        v[1:-1, 1:-1, 1:-1] = u[1:-1, 1:-1, 1:-1] + np.float32(0.1) * (near - 6 * u[1:-1, 1:-1, 1:-1])
    np.testing.assert_allclose(run.gather("u", parts["u"], **sizes).cpu().numpy(), arrays[0], rtol=2e-5, atol=2e-6)
    links = found.explain((engine.size,), **sizes).links
    counted = sum(size for (source, _), size in links.items() if source == engine.rank)
    assert run.sent == counted, (run.sent, counted)
    print(f"rank {engine.rank}: equal to NumPy, {run.sent} bytes sent as counted", flush=True)


def main() -> None:
    """Print times and efficiencies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch: Any = import_module("torch")
    place = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(place)
    import_module("torch.distributed").init_process_group("nccl")
    engine = pl.TorchEngine()
    compared(engine)
    n = options.points
    alone = {"m": n, "n": n, "steps": options.steps}

    def by_itself(one: pl.Engine) -> float:
        torch.cuda.set_device(place)  # of this thread
        return measured(divided(1).compile(one, pl.CudaTarget()), alone, options.repeats)

    (single,) = pl.run_ranks(1, by_itself)
    torch.cuda.empty_cache()
    whole = {**alone, "m": n * engine.size}
    for overlap in (True, False):
        run = divided(engine.size, overlap=overlap).compile(engine, pl.CudaTarget())
        time = measured(run, whole, options.repeats)
        times = [float(text) for text in engine.all_gather(repr(time))]
        if engine.rank == 0:
            found = divided(engine.size, overlap=overlap)
            traffic = found.explain((engine.size,), **whole)
            per_step = traffic.bytes / (2 * options.steps)
            expected = found.explain((engine.size,), pl.Link(), torch.cuda.get_device_name().split()[1], **whole)
            print(f"expected by the model: {expected.total*1e3/(2*options.steps):.3f} ms a step", flush=True)
            print(f"{torch.cuda.get_device_name()}: {n}^3 a rank, {engine.size} ranks, overlap {overlap}: "
                  f"{max(times)*1e3:.3f} ms a step, alone {single*1e3:.3f} ms, "
                  f"efficiency {100*single/max(times):.1f} %, {per_step/1e6:.2f} MB a step", flush=True)
        torch.cuda.empty_cache()
    import_module("torch.distributed").destroy_process_group()


if __name__ == "__main__":
    main()
