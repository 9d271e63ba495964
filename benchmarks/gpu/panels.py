"""LU by panels and Floyd-Warshall by blocks, from the loops of a textbook."""

# ruff: noqa: ANN401  # PyTorch and PyCUDA have no types here

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import polyloop as pl
from benchmarks.gpu import handwritten
from polyloop.runtime.gpu import device_architecture, gpu_available

__all__ = ["floyd_warshall", "floyd_warshall_text", "lu", "lu_text", "main"]


def lu_text(dtype: Any) -> pl.LoopKernel:
    """Return LU without pivoting, in place, as three loops.

    The iname ``y`` has one value: by its tag what has no column of blocks of its own runs in one, with its copies.
    """
    text = """
    low(x, y) := a[x, y]
    up(x, y) := a[x, y]
    pivot(x) := a[x, x]
    for k, y, p
        a[p, k] = a[p, k]/pivot(k) {id=scale}
        for q
            a[p, q] = a[p, q] - low(p, k)*up(k, q) {id=update}
        end
    end
    """
    domains = ["{[k]: 0 <= k < n}", "{[y]: y = 0}", "[n, k] -> {[p]: k < p < n}", "[n, k] -> {[q]: k < q < n}"]
    return pl.make_kernel(domains, text, [pl.GlobalArg("a", dtype, shape="n, n"), ...], name="lu")


def lu(
    dtype: Any, width: int = 64, *, rows: int = 16, tile: int = 64, part: int = 4, depth: int = 16,
) -> pl.LoopKernel:  # fmt: skip
    """Return LU by panels of *width* columns: three launches a panel.

    The block on the diagonal is factored in shared memory by one block of threads.  Then rows below it and columns
    beside it are solved for, each by blocks that hold a part of them; and what is left is updated, by tiles in shared
    memory and registers.

    Parameters
    ----------
    rows
        Rows of threads of the blocks that factor and solve.
    tile, part, depth
        Elements of a tile along an axis, of these for one thread, and terms that are staged at once.
    """
    knl = pl.split_iname(lu_text(dtype), "k", width, outer_iname="kp", inner_iname="kk")
    end = f"{width}*kp + {width}"
    knl = pl.split_instruction(knl, "id:update", f"q < {end}", new_id="right")
    knl = pl.split_instruction(knl, "id:right", f"p < {end}", new_id="trail")
    knl = pl.duplicate_inames(knl, "kk, y, p, q", "id:trail", new_inames=["kt", "yt", "pt", "qt"])
    knl = pl.duplicate_inames(knl, "kk, y, p, q", "id:right", new_inames=["kr", "yr", "pr", "qr"])
    knl = pl.split_instruction(knl, "id:update", f"p < {end}", new_id="below")
    knl = pl.split_instruction(knl, "id:scale", f"p < {end}", new_id="divide")
    knl = pl.distribute_loops(knl, "kk", "id:divide or id:below")
    knl = pl.duplicate_inames(knl, "kk, y, p, q", "id:divide or id:below", new_inames=["kb", "yb", "pb", "qb"])
    knl = pl.tag_inames(knl, "y:g.1, yr:g.1, yb:g.1")
    return _by_tiles(_beside(_below(_diagonal(knl, width, rows), width, rows), width, rows), tile, part, depth)


_SHARED: dict[str, Any] = {"temporary_address_space": "local"}


def _diagonal(knl: pl.LoopKernel, width: int, rows: int) -> pl.LoopKernel:
    """Return LU with the block on the diagonal in shared memory: ``i`` and ``q`` along a row, ``p`` on rows."""
    knl = pl.split_iname(knl, "p", width, outer_iname="pd", inner_iname="pi", outer_tag="g.0")
    knl = pl.tag_inames(pl.duplicate_inames(knl, "pi", "id:scale", new_inames=["i"]), "i:l.0")
    knl = pl.split_iname(knl, "q", width, outer_iname="qd", inner_iname="qi", inner_tag="l.0")
    knl = pl.split_iname(knl, "pi", rows, outer_iname="po", inner_iname="pl", inner_tag="l.1")
    return pl.buffer_array(knl, "a", "kk, i, po, pl, qd, qi", within="id:scale or id:update",
                           temporary_name="diagonal", **_SHARED)  # fmt: skip


def _below(knl: pl.LoopKernel, width: int, rows: int) -> pl.LoopKernel:
    """Return LU with some rows below the diagonal for each block, in shared memory beside what they are solved by."""
    knl = pl.split_iname(knl, "pb", rows, outer_iname="pbo", inner_iname="pbi", outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "qb", width, outer_iname="qbo", inner_iname="qbi", inner_tag="l.0")
    knl = pl.prioritize_loops(knl, "kp, kb")
    outer = {"precompute_outer_inames": "kp, yb, pbo", **_SHARED}
    knl = pl.precompute(knl, "up", "kb, qbo, qbi", within="id:below", temporary_name="up_b", **outer)
    knl = pl.precompute(knl, "pivot", "kb", within="id:divide", temporary_name="pivots", **outer)
    return pl.buffer_array(knl, "a", "kb, pbi, qbo, qbi", within="id:divide or id:below", temporary_name="rows",
                           **_SHARED)  # fmt: skip


def _beside(knl: pl.LoopKernel, width: int, rows: int) -> pl.LoopKernel:
    """Return LU with some columns beside the diagonal for each block, in shared memory with what they are solved by."""
    knl = pl.split_iname(knl, "qr", width, outer_iname="qro", inner_iname="qri", outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "pr", rows, outer_iname="pro", inner_iname="pri", inner_tag="l.1")
    knl = pl.prioritize_loops(knl, "kp, kr")
    knl = pl.precompute(knl, "low", "kr, pro, pri", within="id:right", temporary_name="low_r",
                        precompute_outer_inames="kp, yr, qro", **_SHARED)  # fmt: skip
    return pl.buffer_array(knl, "a", "kr, pro, pri, qri", within="id:right", temporary_name="columns", **_SHARED)


def _by_tiles(knl: pl.LoopKernel, tile: int, part: int, depth: int) -> pl.LoopKernel:
    """Return LU with the update behind a panel by tiles: ``pt`` and ``qt`` on blocks, threads and registers."""
    for iname, axis in (("pt", 1), ("qt", 0)):
        knl = pl.split_iname(knl, iname, tile, outer_iname=f"{iname}b", inner_iname=f"{iname}i", outer_tag=f"g.{axis}")
        knl = pl.split_iname(knl, f"{iname}i", tile // part, outer_iname=f"{iname}r", inner_iname=f"{iname}l",
                             outer_tag="unr", inner_tag=f"l.{axis}")  # fmt: skip
    knl = pl.split_iname(knl, "kt", depth, outer_iname="kto", inner_iname="kti")
    knl = pl.prioritize_loops(knl, "kp, ptb, qtb, kto, kti, ptr, qtr, yt")
    outer = {"precompute_outer_inames": "kp, ptb, qtb, kto", **_SHARED}
    knl = pl.precompute(knl, "low", "ptr, ptl, kti", within="id:trail", temporary_name="low_t", **outer)
    knl = pl.precompute(knl, "up", "qtr, qtl, kti", within="id:trail", temporary_name="up_t", **outer)
    return pl.buffer_array(knl, "a", "kto, kti, ptr, qtr, yt", within="id:trail", temporary_name="sums")


def floyd_warshall_text(dtype: Any, block: int) -> pl.LoopKernel:
    """Return the shortest ways between ``block*m`` places, by blocks: the own one, its row, its column, the rest.

    No instance reads an element that another one of its step writes: a way from k to k has length 0.  The inames
    ``x1``, ``y1`` and so on have one value: by their tags what has no block of its own runs in one, with its copies.
    """
    b = block
    text = f"""
    diag(x, y) := d[x, y]
    left(x, y) := d[x, y]
    top(x, y) := d[x, y]
    for kb
        for x1, y1, k1, i1, j1
            d[{b}*kb+i1, {b}*kb+j1] = min(d[{b}*kb+i1, {b}*kb+j1],
                d[{b}*kb+i1, {b}*kb+k1] + d[{b}*kb+k1, {b}*kb+j1]) {{id=own, if=i1 != k1 and j1 != k1}}
        end
        for jb, y2, k2, i2, j2
            d[{b}*kb+i2, {b}*jb+j2] = min(d[{b}*kb+i2, {b}*jb+j2],
                diag({b}*kb+i2, {b}*kb+k2) + d[{b}*kb+k2, {b}*jb+j2]) {{id=row, if=i2 != k2 and jb != kb}}
        end
        for ib, y3, k3, i3, j3
            d[{b}*ib+i3, {b}*kb+j3] = min(d[{b}*ib+i3, {b}*kb+j3],
                d[{b}*ib+i3, {b}*kb+k3] + diag({b}*kb+k3, {b}*kb+j3)) {{id=column, if=j3 != k3 and ib != kb}}
        end
        for ic, jc, i4, j4
            d[{b}*ic+i4, {b}*jc+j4] = min(d[{b}*ic+i4, {b}*jc+j4], reduce(min, k4,
                left({b}*ic+i4, {b}*kb+k4) + top({b}*kb+k4, {b}*jc+j4))) {{id=rest, if=ic != kb and jc != kb}}
        end
    end
    """
    inner = ", ".join(f"{name}{number}" for number in range(1, 5) for name in "ijk")
    domains = ["{[kb]: 0 <= kb < m}", "{[jb]: 0 <= jb < m}", "{[ib]: 0 <= ib < m}", "{[ic, jc]: 0 <= ic, jc < m}",
               "{[x1, y1, y2, y3]: x1 = 0 and y1 = 0 and y2 = 0 and y3 = 0}",
               f"{{[{inner}]: 0 <= {inner} < {b}}}"]  # fmt: skip
    data = [pl.GlobalArg("d", dtype, shape=(f"{b}*m", f"{b}*m")), ...]
    return pl.make_kernel(domains, text, data, name="floyd_warshall")


def floyd_warshall(dtype: Any, block: int = 64, *, rows: int = 8, part: int = 4, depth: int = 16) -> pl.LoopKernel:
    """Return Floyd-Warshall with its blocks in shared memory, and what is left by tiles in registers.

    Parameters
    ----------
    rows
        Rows of threads of the own block, its row and its column, each thread for several rows of elements.
    part, depth
        Elements of one thread along an axis of what is left, and terms that are staged at once.
    """
    knl = floyd_warshall_text(dtype, block)
    for number in (1, 2, 3):
        knl = pl.split_iname(knl, f"i{number}", rows, outer_iname=f"i{number}r", inner_iname=f"i{number}l",
                             inner_tag="l.1")  # fmt: skip
    for iname, axis in (("i4", 1), ("j4", 0)):
        knl = pl.split_iname(knl, iname, block // part, outer_iname=f"{iname}r", inner_iname=f"{iname}l",
                             outer_tag="unr", inner_tag=f"l.{axis}")  # fmt: skip
    knl = pl.tag_inames(knl, "j1:l.0, j2:l.0, j3:l.0, jb:g.0, ib:g.0, ic:g.1, jc:g.0, x1:g.0, y1:g.1, y2:g.1, y3:g.1")
    knl = pl.split_iname(knl, "k4", depth, outer_iname="k4o", inner_iname="k4i")
    knl = pl.prioritize_loops(knl, "kb, k4o, k4i, i4r, j4r")
    shared: Any = {"temporary_address_space": "local"}
    for rule, sweep, outer, where in (
        ("diag", "i2r, i2l, k2", "kb, jb, y2", "row"), ("diag", "k3, j3", "kb, ib, y3", "column"),
        ("left", "i4r, i4l, k4i", "kb, ic, jc, k4o", "rest"), ("top", "k4i, j4r, j4l", "kb, ic, jc, k4o", "rest"),
    ):  # fmt: skip
        knl = pl.precompute(knl, rule, sweep, within=f"id:{where}", temporary_name=f"{rule}_{where}",
                            precompute_outer_inames=outer, **shared)  # fmt: skip
    for number, where in ((1, "own"), (2, "row"), (3, "column")):
        sweep = f"k{number}, i{number}r, i{number}l, j{number}"
        knl = pl.buffer_array(knl, "d", sweep, within=f"id:{where}", temporary_name=f"{where}_tile", **shared)
    return knl




# {{{ measured


def _seconds(torch: Any, call: Callable[[Any], object], fresh: Callable[[], Any]) -> float:
    """Return the least time of a call on a new matrix [s]."""
    times = []
    for _ in range(5):
        matrix = fresh()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call(matrix)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def _measured_lu(torch: Any, n: int, dtype: str, launches: str) -> bool:
    """Print the times of LU beside cuSOLVER's, which exchanges rows; return whether the result is right."""
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    given = torch.rand(n, n, dtype=kind, device="cuda") + n * torch.eye(n, dtype=kind, device="cuda")
    run = pl.compile(lu(np.dtype(dtype)), target=pl.CudaTarget(device_architecture() or "sm_90"), launches=launches)
    a = given.clone()
    run(a=a)
    product = (torch.tril(a, -1) + torch.eye(n, dtype=kind, device="cuda")) @ torch.triu(a)
    error = float((product - given).abs().max() / given.abs().max())
    ours = _seconds(torch, lambda matrix: run(a=matrix), given.clone)
    theirs = _seconds(torch, torch.linalg.lu_factor, given.clone)
    print(f"LU, {dtype}, n={n}, launches={launches}: {ours * 1e3:.2f} ms, "
          f"torch.linalg.lu_factor {theirs * 1e3:.2f} ms: {theirs / ours:.0%}, error {error:.1e}")  # fmt: skip
    return error < 1e-4


def _by_hand() -> Callable[[Any], None]:
    """Return Floyd-Warshall as it is written by hand."""
    driver: Any = importlib.import_module("pycuda.driver")
    importlib.import_module("pycuda.autoprimaryctx")
    module = driver.module_from_buffer(handwritten.compiled("floyd_warshall", device_architecture() or "sm_90").cubin)
    own, cross, rest = (module.get_function(name) for name in ("own", "cross", "rest"))

    def run(d: Any) -> None:
        n, block = len(d), (16, 16, 1)
        where, size, blocks = np.intp(d.data_ptr()), np.int32(n), n // 64
        for kb in range(blocks):
            own(where, size, np.int32(kb), grid=(1, 1), block=block)
            cross(where, size, np.int32(kb), grid=(blocks, 2), block=block)
            rest(where, size, np.int32(kb), grid=(blocks, blocks), block=block)

    return run


def _measured_ways(torch: Any, n: int, launches: str) -> bool:
    """Print the times of Floyd-Warshall beside the kernels by hand; return whether the results are equal."""
    torch.manual_seed(0)
    given = torch.randint(1, 1000, (n, n), device="cuda").to(torch.float32)
    given.fill_diagonal_(0)
    target = pl.CudaTarget(device_architecture() or "sm_90")
    run = pl.compile(floyd_warshall(np.float32), target=target, launches=launches)
    by_hand = _by_hand()
    d, e = given.clone(), given.clone()
    run(d=d)
    by_hand(e)
    torch.cuda.synchronize()
    ours, theirs = (_seconds(torch, call, given.clone) for call in (lambda matrix: run(d=matrix), by_hand))
    is_right = bool(torch.equal(d, e))
    print(f"Floyd-Warshall, float32, n={n}, launches={launches}: {ours * 1e3:.2f} ms, by hand {theirs * 1e3:.2f} ms: "
          f"{ours / theirs:.2f} times as long, {'equal' if is_right else 'WRONG'}")  # fmt: skip
    return is_right


def main(arguments: Sequence[str]) -> int:
    """Measure both on a GPU, with PyTorch."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks panels", description=__doc__)
    parser.add_argument("--n", type=int, default=4096, help="rows; a multiple of 64")
    parser.add_argument("--dtype", default="float64", choices=("float32", "float64"), help="of LU")
    parser.add_argument("--launches", default="graph", choices=("host", "graph", "cooperative"))
    parser.add_argument("--only", choices=("lu", "ways"))
    options = parser.parse_args(arguments)
    is_there, why = gpu_available()
    if not is_there:
        print(why, file=sys.stderr)
        return 2
    torch: Any = importlib.import_module("torch")
    torch.zeros(1, device="cuda")
    is_right = True
    if options.only != "ways":
        is_right &= _measured_lu(torch, options.n, options.dtype, options.launches)
    if options.only != "lu":
        is_right &= _measured_ways(torch, options.n, options.launches)
    return 0 if is_right else 1


# }}}
