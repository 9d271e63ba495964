"""Programs on several GPUs: ``torchrun --nproc-per-node 2 -m benchmarks.ranks [heat cg product]``.

Each is compared with NumPy at a small size first, and the bytes sent with those that ``explain`` counts.  Then

* heat: n x n x n points a rank (weak scaling), with and without the exchange beside the inner part;
* cg: conjugate gradients for a matrix by rows, of a 7-point stencil on n x n x n points a rank (weak scaling);
* product: bfloat16 matrices of n x n in all (strong scaling), rows of the result on each rank, panels of the right one
  from the rank that has them.

The time on all ranks is compared with that of the same kernels on one rank alone, which exchanges nothing.
``--backend gloo --small`` runs all of it on processors, with sizes that say nothing of speed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any, Final, TypeAlias

import numpy as np

import polyloop as pl
from polyloop.library.matmul import schedules
from polyloop.library.tensor_cores import on_groups_of_warps, stored_by_boxes

F = np.float32
_PANEL: Final = 4096

Transformation: TypeAlias = Callable[[pl.LoopKernel], pl.LoopKernel]


@dataclass(frozen=True)
class Machine:
    """The processors of ranks: how kernels are made for them, and how time is taken."""

    torch: Any
    device: str
    target: pl.Target

    @property
    def on_gpu(self) -> bool:
        """True for GPUs."""
        return self.device == "cuda"

    def tensor(self, array: Any) -> Any:  # noqa: ANN401 - of NumPy and of PyTorch
        """Return a tensor with the values of an array."""
        return self.torch.as_tensor(array).to(self.device)

    def wait(self) -> None:
        """Wait until all work is done."""
        if self.on_gpu:
            self.torch.cuda.synchronize()


# {{{ heat


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
        [pl.GlobalArg("u, v", F, shape="m, n, n"), pl.ValueArg("c", F), ...], name="heat",
        assumptions="m >= 3 and n >= 3 and steps >= 0")


def on_gpu(kernel: pl.LoopKernel) -> pl.LoopKernel:
    """Return the kernel of a phase with a thread for each point."""
    kernel = pl.split_iname(kernel, "k", 128, outer_tag="g.0", inner_tag="l.0")
    kernel = pl.split_iname(kernel, "j", 4, outer_tag="g.1", inner_tag="l.1")
    return pl.tag_inames(kernel, "i:g.2")


def divided(ranks: int, *, overlap: bool = True, scheduled: bool = True) -> pl.DistributedKernel:
    """Return the heat equation divided along its first axis."""
    found = pl.distribute(heat(), {"u": "block, *, *", "v": "block, *, *"}, "i:mesh.0", (ranks,), overlap=overlap)
    for name in found.kernels if scheduled else ():
        found = found.transformed(name, on_gpu)
    return found


def _heat_data(run: pl.RankProgram, machine: Machine, sizes: dict[str, int]) -> dict[str, Any]:
    like = machine.tensor(np.zeros(0, F))
    u, v = run.empty("u", like, **sizes), run.empty("v", like, **sizes)
    u[...] = machine.torch.rand(u.shape, device=machine.device)
    return {"u": u, "v": v, "c": 0.1}


def _check_heat(run: pl.RankProgram, machine: Machine) -> int:
    """Compare a small case with NumPy, and return the bytes sent."""
    sizes = {"m": 37, "n": 50, "steps": 3}
    start = np.random.default_rng(1).random((37, 50, 50), dtype=F)
    parts = {name: run.scatter(name, machine.tensor(start), **sizes) for name in ("u", "v")}
    run(**parts, c=0.1, **sizes)
    arrays = [start.copy(), start.copy()]
    for step in range(2 * sizes["steps"]):
        u, v = arrays[step % 2], arrays[1 - step % 2]
        near = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        near = near + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        v[1:-1, 1:-1, 1:-1] = u[1:-1, 1:-1, 1:-1] + F(0.1) * (near - 6 * u[1:-1, 1:-1, 1:-1])
    np.testing.assert_allclose(run.gather("u", parts["u"], **sizes).cpu().numpy(), arrays[0], rtol=2e-5, atol=2e-6)
    return _as_counted(run, sizes)


def _as_counted(run: pl.RankProgram, sizes: Mapping[str, int]) -> int:
    """Compare the bytes that this rank has sent with those of ``explain``."""
    plan = run.plan(**sizes)
    divided = pl.DistributedKernel(run.analysis, run.mesh, run.overlap)
    links = divided.explain(plan.regions.mesh, **sizes).links
    counted = sum(size for (source, _), size in links.items() if source == run.engine.rank)
    assert run.sent == counted, (run.sent, counted)
    return counted


# }}}

# {{{ conjugate gradients


def gradients() -> pl.LoopKernel:
    """Return conjugate gradients for a matrix by rows."""
    return pl.make_kernel(
        ["{[it, i, j]: 0 <= it < most and 0 <= i, j < n}", "{[e]: begin <= e < stop}"],
        """
        for i
            r[i] = b[i]
            p[i] = b[i]
            x[i] = 0
        end
        rr[0] = sum(j, b[j]*b[j])
        for it
            for i
                <> begin = first[i]
                <> stop = last[i]
                q[i] = sum(e, val[e]*p[col[e]])
            end
            alpha[0] = rr[0]/sum(j, p[j]*q[j])
            for i
                x[i] = x[i] + alpha[0]*p[i]
                r[i] = r[i] - alpha[0]*q[i]
            end
            rnew[0] = sum(j, r[j]*r[j])
            for i
                p[i] = r[i] + rnew[0]/rr[0]*p[i]
            end
            rr[0] = rnew[0]
        end
        """,
        [pl.GlobalArg("x, b, r, p, q", F, shape="n"), pl.GlobalArg("rr, alpha, rnew", F, shape="1"),
         pl.GlobalArg("val", F, shape="nnz"), pl.GlobalArg("col", np.int32, shape="nnz"),
         pl.GlobalArg("first, last", np.int32, shape="n"), ...], name="cg", assumptions="n >= 1 and most >= 0")


def _vectors_on_gpu(kernel: pl.LoopKernel) -> pl.LoopKernel:
    """Return a phase with a thread for each element, and sums of threads, of blocks and of all blocks."""
    if "i" in kernel.inames:
        kernel = pl.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    if "j" in kernel.inames:
        kernel = pl.split_iname(kernel, "j", 2048, outer_iname="j_block", inner_iname="j_in")
        kernel = pl.stage_reduction(kernel, "j_block", default_tag="g.0", temporary_name="sums",
                                    temporary_address_space="global")
        kernel = pl.split_iname(kernel, "j_in", 256, inner_tag="l.0")
        kernel = pl.split_iname(kernel, "j_block", 256, inner_tag="l.0")
    return kernel


def divided_gradients(ranks: int, *, scheduled: bool = True) -> pl.DistributedKernel:
    """Return conjugate gradients divided by rows."""
    blocks = dict.fromkeys(("x", "b", "r", "p", "q", "first", "last"), "block")
    found = pl.distribute(gradients(), {**blocks, "val": "local", "col": "local"}, "i:mesh.0, j:mesh.0", (ranks,))
    for name in found.kernels if scheduled else ():
        found = found.transformed(name, _vectors_on_gpu)
    return found


def _gradients_data(run: pl.RankProgram, machine: Machine, sizes: dict[str, int]) -> dict[str, Any]:
    """Return this rank's rows of a 7-point stencil, and a right-hand side; their number goes to *sizes*."""
    torch, n = machine.torch, round((sizes["n"] / run.engine.size) ** (1 / 3))
    (low, high), = run.box("x", n=sizes["n"], most=0, nnz=0)
    rows = torch.arange(low, high, device=machine.device)
    place = torch.stack([rows // (n * n), rows // n % n, rows % n])
    extents = torch.tensor([n * run.engine.size, n, n], device=machine.device)
    steps = [(0, -1, n * n), (1, -1, n), (2, -1, 1), (0, 0, 0), (2, 1, 1), (1, 1, n), (0, 1, n * n)]
    inside = torch.stack([(place[axis] + sign >= 0) & (place[axis] + sign < extents[axis])
                          for axis, sign, _ in steps], 1)
    shifts = torch.tensor([sign * width for _, sign, width in steps], device=machine.device)
    values = torch.tensor([-1.0, -1, -1, 6.5, -1, -1, -1], device=machine.device)
    col = (rows[:, None] + shifts)[inside].to(torch.int32)
    val = values.expand(len(rows), 7)[inside].contiguous()
    ends = torch.cumsum(inside.sum(1), 0).to(torch.int32)
    sizes["nnz"] = len(val)
    like = {F: machine.tensor(np.zeros(0, F)), np.int32: machine.tensor(np.zeros(0, np.int32))}
    found = {name: run.empty(name, like[F], **sizes) for name in ("x", "b", "r", "p", "q", "rr", "alpha", "rnew")}
    found |= {name: run.empty(name, like[np.int32], **sizes) for name in ("first", "last")}
    found["b"][...] = torch.sin(rows.to(torch.float32))
    found["last"][...] = ends
    found["first"][1:] = ends[:-1]
    return {**found, "val": val, "col": col}


def _check_gradients(run: pl.RankProgram, machine: Machine) -> int:
    """Compare the solution of a small system with its right-hand side, and return the bytes sent."""
    n = 6
    sizes = {"n": n**3 * run.engine.size, "most": 40}
    data = _gradients_data(run, machine, sizes)
    run(**data, **sizes)
    sent = run.sent
    x, b = (run.gather(name, data[name], **sizes).cpu().numpy().astype(float) for name in "xb")
    cube = x.reshape(-1, n, n)
    found = 6.5 * cube
    for axis in range(3):
        ends = [slice(None)] * 3
        for mine, other in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            ends[axis] = mine
            there = ends.copy()
            there[axis] = other
            found[tuple(ends)] -= cube[tuple(there)]
    np.testing.assert_allclose(found.reshape(-1), b, atol=1e-4)
    neighbours = (run.engine.rank > 0) + (run.engine.rank < run.engine.size - 1)
    counted = neighbours * n * n * (8 + 4 * sizes["most"])  # lists of indices, then a plane in each iteration
    assert sent == counted, (sent, counted)
    return counted


# }}}

# {{{ products


def product(panel: int = _PANEL) -> pl.LoopKernel:
    """Return a product of bfloat16 in panels of terms (SUMMA)."""
    return pl.make_kernel(
        f"{{[i, j, panel, k]: 0 <= i < m and 0 <= j < n and 0 <= {panel}*panel < p and 0 <= k < {panel}}}",
        f"""
        for i, j
            c[i, j] = 0
        end
        for panel, i, j
            c[i, j] = c[i, j] + sum(k, a[i, {panel}*panel + k]*b[{panel}*panel + k, j])
        end
        """,
        [pl.GlobalArg("a", "bfloat16", shape="m, p"), pl.GlobalArg("b", "bfloat16", shape="p, n"),
         pl.GlobalArg("c", F, shape="m, n"), ...], name="product",
        assumptions=f"m >= 1 and n >= 1 and p >= {panel} and p mod {panel} = 0 and n mod 8 = 0")


def product_by_columns() -> pl.LoopKernel:
    """Return a product of bfloat16 in panels of columns, in which b is stored."""
    return pl.make_kernel(
        "{[i, panel, j, k]: 0 <= i < m and 0 <= panel < q and 0 <= j < w and 0 <= k < p}",
        """
        for panel, i, j
            c[i, panel, j] = sum(k, a[i, k]*b[panel, k, j])
        end
        """,
        [pl.GlobalArg("a", "bfloat16", shape="m, p"), pl.GlobalArg("b", "bfloat16", shape="q, p, w"),
         pl.GlobalArg("c", F, shape="m, q, w"), ...], name="columns",
        assumptions="m >= 1 and w >= 1 and p >= 1 and q >= 1 and p mod 8 = 0 and w mod 8 = 0")


def _product_on_gpu(kernel: pl.LoopKernel, rows: int = 128, columns: int = 256, stages: int = 4) -> pl.LoopKernel:
    """Return a phase on tensor cores, by groups of four warps; sums that go on are added to memory from registers."""
    if "k" not in kernel.inames:
        kernel = pl.split_iname(kernel, "j", 256, outer_tag="g.0", inner_tag="l.0")
        return pl.tag_inames(kernel, "i:g.1")
    goes_on = "insn_1" in {entry.id for entry in kernel.instructions}
    kernel = on_groups_of_warps(
        kernel, f"wgmma_m64n{columns}k16_bf16", rows, columns, stages, lag=1, via="tma",
        within="insn_1" if goes_on else "insn", operands=("a", "b_part"))
    return pl.order_blocks(kernel if goes_on else stored_by_boxes(kernel), "bx", group=8)


def divided_product(
    ranks: int, *, scheduled: bool = True, panel: int = _PANEL, schedule: Transformation = _product_on_gpu
) -> pl.DistributedKernel:
    """Return a product divided by rows of all three matrices: panels of the right one come from their rank."""
    blocks = dict.fromkeys("abc", "block, *")
    found = pl.distribute(product(panel), blocks, "i:mesh.0", (ranks,), hosts="panel")
    for name in found.kernels if scheduled else ():
        found = found.transformed(name, schedule)
    return found


def divided_columns(
    ranks: int, *, scheduled: bool = True, schedule: Transformation = _product_on_gpu
) -> pl.DistributedKernel:
    """Return a product divided by rows of all three matrices, of which each panel of columns comes from all ranks."""
    blocks = {"a": "block, *", "b": "*, block, *", "c": "block, *, *"}
    found = pl.distribute(product_by_columns(), blocks, "i:mesh.0", (ranks,), hosts="panel")
    for name in found.kernels if scheduled else ():
        found = found.transformed(name, schedule)
    return found


def _product_data(run: pl.RankProgram, machine: Machine, sizes: dict[str, int]) -> dict[str, Any]:
    torch = machine.torch
    half = torch.zeros(0, dtype=torch.bfloat16, device=machine.device)
    found = {name: run.empty(name, half, **sizes) for name in "ab"}
    for value in found.values():
        value[...] = torch.rand(value.shape, device=machine.device, dtype=torch.float32) - 0.5
    return {**found, "c": run.empty("c", machine.tensor(np.zeros(0, F)), **sizes)}


def _check_product(run: pl.RankProgram, machine: Machine) -> int:
    """Compare a small product with PyTorch, and return the bytes sent."""
    panel = 2048 if machine.on_gpu else 16
    sizes = {"m": 4 * panel, "n": 4 * panel, "p": 4 * panel}
    if "q" in run.analysis.source.parameters:
        sizes = {"m": 4 * panel, "p": 4 * panel, "q": 4, "w": panel}
    data = _product_data(run, machine, sizes)
    run(**data, **sizes)
    sent = _as_counted(run, sizes)
    a, b, c = (run.gather(name, data[name], **sizes).to(machine.torch.float32) for name in "abc")
    expected = a @ b
    if "q" in sizes:
        c = c.transpose(0, 1)
    assert float((c - expected).abs().max() / expected.abs().max()) < 1e-3
    return sent


def _product_of_library(machine: Machine, n: int, repeats: int) -> float:
    """Return the time of the library's product of n x n on one GPU [s]."""
    torch = machine.torch
    knl = schedules("bfloat16")["wgmma, tiles of 128 x 256"]()
    run = pl.compile(knl, target=machine.target)
    a, b = (torch.rand((n, n), device=machine.device).to(torch.bfloat16) for _ in range(2))
    c = torch.empty((n, n), device=machine.device)
    return _median(lambda: run(a=a, b=b, c=c), machine, repeats, lambda: None)


# }}}


def _time_of(run: pl.RankProgram, machine: Machine, call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call, all ranks of which begin together [s]."""
    return _median(call, machine, repeats, lambda: run.engine.all_gather(""))


def _median(call: Callable[[], object], machine: Machine, repeats: int, meet: Callable[[], object]) -> float:
    """Return the median time of a call [s]."""
    times = []
    for number in range(repeats + 2):
        meet()
        machine.wait()
        begin = perf_counter()
        call()
        machine.wait()
        if number >= 2:
            times.append(perf_counter() - begin)
    return float(np.median(times))


def measured(
    run: pl.RankProgram, machine: Machine, make: Callable[[pl.RankProgram, Machine, dict[str, int]], dict[str, Any]],
    sizes: Mapping[str, int], repeats: int, more: Mapping[str, int],
) -> float:  # fmt: skip
    """Return the time of a call [s]; with *more*, of what it takes longer with these sizes."""
    own = dict(sizes)
    data = make(run, machine, own)
    long = {**own, **more}
    found = _time_of(run, machine, lambda: run(**data, **long), repeats)
    return found - _time_of(run, machine, lambda: run(**data, **own), repeats) if more else found


@dataclass(frozen=True)
class Measurement:
    """What is measured of a program: sizes of one rank and of all, and how many units of work a call has."""

    make: Callable[..., pl.DistributedKernel]
    check: Callable[[pl.RankProgram, Machine], int]
    data: Callable[[pl.RankProgram, Machine, dict[str, int]], dict[str, Any]]
    sizes: Callable[[int], dict[str, int]]
    more: Mapping[str, int]
    units: int
    is_weak: bool


def measurements(options: argparse.Namespace) -> dict[str, Measurement]:
    """Return the programs at the sizes of the options."""
    n, rows, matrix, steps = options.points, options.rows, options.matrix, options.steps
    width = 16 if options.small else options.columns
    sweeps = (1 if options.small else 50) * steps
    return {
        "heat": Measurement(divided, _check_heat, _heat_data,
                            lambda ranks: {"m": n * ranks, "n": n, "steps": steps}, {}, 2 * steps, is_weak=True),
        "cg": Measurement(divided_gradients, _check_gradients, _gradients_data,
                          lambda ranks: {"n": rows**3 * ranks, "most": 2}, {"most": 2 + sweeps}, sweeps, is_weak=True),
        "product": Measurement(partial(divided_product, panel=16 if options.small else options.panel), _check_product,
                               _product_data, lambda _: dict.fromkeys("mnp", matrix), {}, 1, is_weak=False),
        "columns": Measurement(divided_columns, _check_product, _product_data,
                               lambda _: {"m": matrix, "p": matrix, "q": matrix // width, "w": width}, {}, 1,
                               is_weak=False),
    }


def report(name: str, job: Measurement, engine: pl.Engine, machine: Machine, options: argparse.Namespace) -> None:
    """Compare a program with NumPy, measure it, and print its efficiency."""
    ways: list[dict[str, Any]] = [{"scheduled": machine.on_gpu}]
    if name == "heat":
        ways += [{**ways[0], "overlap": False}]
    run = job.make(engine.size, **ways[0]).compile(engine, machine.target)
    print(f"{name}, rank {engine.rank}: as NumPy has it, {job.check(run, machine)} bytes sent as counted", flush=True)
    place = machine.torch.cuda.current_device() if machine.on_gpu else 0

    def by_itself(one: pl.Engine) -> float:
        if machine.on_gpu:
            machine.torch.cuda.set_device(place)  # of this thread
        alone = job.make(1, **ways[0]).compile(one, machine.target, once=True)
        return measured(alone, machine, job.data, job.sizes(1), options.repeats, job.more)

    (single,) = pl.run_ranks(1, by_itself)
    is_product = not job.is_weak and machine.on_gpu
    library = _product_of_library(machine, options.matrix, options.repeats) if is_product else single
    for way in ways:
        if machine.on_gpu:
            machine.torch.cuda.empty_cache()
        run = job.make(engine.size, **way).compile(engine, machine.target, once=True)
        time = measured(run, machine, job.data, job.sizes(engine.size), options.repeats, job.more)
        times = [float(text) for text in engine.all_gather(repr(time))]
        if engine.rank == 0:
            longest = max(times)
            efficiency = single / longest / (1 if job.is_weak else engine.size)
            rate = f", {2e-12 * options.matrix**3 / longest:.0f} TFLOP/s; the library's on one GPU " \
                f"{library * 1e3:.3f} ms: {100 * library / longest / engine.size:.1f} %" if is_product else ""
            how = "" if way.get("overlap", True) else ", no overlap"
            print(f"{name} {job.sizes(engine.size)} on {engine.size} ranks{how}: "
                  f"{longest * 1e3 / job.units:.3f} ms a step, alone {single * 1e3 / job.units:.3f} ms, "
                  f"efficiency {100 * efficiency:.1f} %{rate}", flush=True)


def main() -> None:
    """Print times and efficiencies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*", default=[])
    parser.add_argument("--backend", default="nccl", choices=["nccl", "gloo", "peers"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--points", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--matrix", type=int)
    parser.add_argument("--panel", type=int, default=_PANEL)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for option, (large, small) in {"points": (1024, 24), "rows": (320, 8), "matrix": (16384, 64)}.items():
        if getattr(options, option) is None:
            setattr(options, option, small if options.small else large)
    torch: Any = import_module("torch")
    if options.backend == "peers":
        places = range(torch.cuda.device_count())
        pl.run_ranks(len(places), lambda engine: work(engine, options), devices=places, timeout=600)
        return
    distributed: Any = import_module("torch.distributed")
    if options.backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group(options.backend)
    work(pl.TorchEngine(), options)
    distributed.destroy_process_group()


def work(engine: pl.Engine, options: argparse.Namespace) -> None:
    """Measure the programs of the options on a rank."""
    torch: Any = import_module("torch")
    machine = (Machine(torch, "cpu", pl.CTarget()) if options.backend == "gloo"
               else Machine(torch, "cuda", pl.CudaTarget("sm_90a")))
    if engine.rank == 0 and machine.on_gpu:
        print(f"{torch.cuda.get_device_name()}, {engine.size} ranks, {options.backend}", flush=True)
    for name, job in measurements(options).items():
        if not options.programs or name in options.programs:
            begin = perf_counter()
            report(name, job, engine, machine, options)
            if engine.rank == 0:
                print(f"    {perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
