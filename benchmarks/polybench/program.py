"""What one comparison needs: a kernel, its arrays, and the same program in C and in Numba."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import polyloop as pl

__all__ = ["Arrays", "D", "Program", "arguments", "blocks", "few_threads", "in_fronts", "in_panels", "square"]

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
D: Final = np.float64
_FEW: Final = 4
LANES: Final = 8
"""Numbers of float64 in a register of AVX-512."""


@dataclass(frozen=True)
class Program:
    """A program with one size.

    Attributes
    ----------
    build
        Returns the transformed kernel, for any size ``n``.
    arrays
        Shape of each array for a size, in the order in which the function in C takes them.
    text
        A function of the program's name in C, for the size ``N``.
    size
        The size that is measured.
    tiles
        The same function with tiles in time as Pluto makes them, empty if there is none.
    """

    name: str
    build: Callable[[], pl.LoopKernel]
    arrays: Callable[[int], Mapping[str, tuple[int, ...]]]
    text: str
    size: int
    tiles: str = ""

    def inputs(self, n: int) -> dict[str, np.ndarray[Any, Any]]:
        """Return arrays with random elements; square ones have a heavy diagonal, by which eliminations are stable."""
        rng = np.random.default_rng(0)
        found = {}
        for name, shape in self.arrays(n).items():
            array = found[name] = rng.random(shape)
            if shape == (n, n):
                array += np.diag(np.full(n, float(n)))
        return found


def square(squares: str, vectors: str = "") -> Callable[[int], dict[str, tuple[int, ...]]]:
    """Return the shapes of square matrices and of vectors, by their names."""
    return lambda n: {**dict.fromkeys(squares.split(), (n, n)), **dict.fromkeys(vectors.split(), (n,))}


def arguments(squares: str, vectors: str = "") -> list[Any]:
    """Return arguments of a kernel: square matrices and vectors of float64."""
    found: list[Any] = []
    if squares:
        found.append(pl.GlobalArg(", ".join(squares.split()), D, shape="n, n"))
    if vectors:
        found.append(pl.GlobalArg(", ".join(vectors.split()), D, shape="n"))
    return [*found, ...]


def blocks(knl: pl.LoopKernel, iname: str, size: int) -> pl.LoopKernel:
    """Return *knl* with blocks of some iterations of a loop for threads."""
    return pl.split_iname(knl, iname, size, outer_tag="g.0")


def few_threads() -> bool:
    """Return whether the tiles of a front of :func:`in_fronts` are enough for the threads that there are."""
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1) <= _FEW


def in_fronts(
    knl: pl.LoopKernel, rows: Mapping[str, tuple[int, int]], *, steps: int, length: int, time: str = "t"
) -> pl.LoopKernel:  # fmt: skip
    """Return a program in steps of time with tiles of some steps and rows, of which threads take those of a front.

    ::

        for t:  for i:  v[i] = f(u[i - 1], u[i], u[i + 1])         # "i": (2, 0)
                for j:  u[j] = f(v[j - 1], v[j], v[j + 1])         # "j": (2, 1)
        ->
        for front:
            for tile:                                              # g.0: tile T of time, front - T of rows
                for t_step:  for i_in:  v[..] = ..
                             for j_in:  u[..] = ..

    *rows* are the outermost loops over space, each with the factor of time and the constant that its rows are moved by,
    so that nothing depends on a tile behind.
    """
    for iname, (factor, constant) in rows.items():
        moved = f"{iname}_moved"
        row = f"{iname} + {factor}*{time} + {constant}"
        knl = pl.map_domain(knl, f"{{[{time}, {iname}] -> [{time}, {moved}]: {moved} = {row}}}")
    knl = pl.split_iname(knl, time, steps, outer_iname="tile", inner_iname=f"{time}_step")
    for iname in rows:
        knl = pl.split_iname(knl, f"{iname}_moved", length, outer_iname=f"{iname}_tile", inner_iname=f"{iname}_in")
    knl = pl.fuse_loops(knl, [f"{iname}_tile" for iname in rows], "row_tile")
    knl = pl.prioritize_loops(knl, f"tile, row_tile, {time}_step")
    knl = pl.map_domain(knl, "{[tile, row_tile] -> [front, tile]: front = tile + row_tile}")
    return pl.tag_inames(knl, "tile:g.0")


def in_panels(
    knl: pl.LoopKernel, i: str, j: str, k: str, a: str, b: str, *,
    block: tuple[int, int] = (96, 16), terms: int = 256, height: int = 12,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product of which threads take blocks, with panels of both operands, by tiles in their registers.

    ::

        for i, j:  c[i, j] = sum(k, a*b)
        ->
        for by, bx:  for ko:  for j_tile, i_tile:  c_tile += sum(ki, a_panel*b_panel)
    """
    rows, vectors = block
    knl = pl.split_iname(knl, i, rows, outer_iname=f"{i}_by", inner_iname=f"{i}_block", outer_tag="g.1")
    knl = pl.split_iname(
        knl, j, vectors * LANES, outer_iname=f"{j}_bx", inner_iname=f"{j}_block", outer_tag="g.0")
    knl = pl.split_iname(knl, f"{i}_block", height, outer_iname=f"{i}_tile", inner_iname=f"{i}_row", inner_tag="ilp")
    knl = pl.split_iname(knl, f"{j}_block", 2 * LANES, outer_iname=f"{j}_tile", inner_iname=f"{j}_column")
    knl = pl.split_iname(knl, f"{j}_column", LANES, outer_iname=f"{j}_vector", inner_iname=f"{j}_lane")
    knl = pl.split_iname(knl, k, terms, outer_iname=f"{k}o", inner_iname=f"{k}i")
    knl = pl.split_reduction_outward(knl, f"{k}o")
    knl = pl.tag_inames(knl, {f"{j}_vector": "ilp", f"{j}_lane": "vec"})
    knl = pl.prioritize_loops(knl, f"{k}o, {j}_tile, {i}_tile, {k}i")
    knl = pl.add_prefetch(knl, b, [f"{j}_tile", f"{k}i", f"{j}_vector", f"{j}_lane"], temporary_name=f"{b}_{k}_panel")
    return pl.add_prefetch(knl, a, [f"{i}_tile", f"{k}i", f"{i}_row"], temporary_name=f"{a}_{k}_panel")
