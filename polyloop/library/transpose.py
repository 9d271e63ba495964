"""The transpose of a matrix."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import to_dtype
from polyloop.library.records import ready

__all__ = ["transpose"]


def program(dtype: Any = np.float32) -> pl.LoopKernel:
    """Return the transpose as it is written: ``b[i, j] = a[j, i]``."""
    element = to_dtype(dtype)
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        "b[i, j] = a[j, i]",
        [pl.GlobalArg("a", element, shape="m, n"), pl.GlobalArg("b", element, shape="n, m"), ...],
        name="transpose",
        assumptions="n >= 1 and m >= 1",
    )


def in_tiles(knl: pl.LoopKernel, tile: int, rows: int, vec: int = 1) -> pl.LoopKernel:
    """Return the transpose by tiles in shared memory, which a block reads along rows of a and writes along rows of b.

    ::

        # before
        for i, j:  b[i, j] = a[j, i]
        # after
        each block: a tile of a into shared memory, a tile of b out of it

    Parameters
    ----------
    tile
        Rows and columns of a tile.
    rows
        Rows of it that the threads of a block cover at once.
    vec
        Elements that a thread reads and writes at once; lengths of rows are multiples of it.
    """
    knl = knl if vec == 1 else pl.assume(knl, f"n mod {vec} = 0 and m mod {vec} = 0")
    knl = pl.split_iname(knl, "i", tile, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", rows, outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", tile, outer_tag="g.0")
    if vec > 1:
        knl = pl.split_iname(knl, "j_inner", vec, outer_tag="l.0", inner_tag="vec")
        swept = ["i_inner_outer", "i_inner_inner", "j_inner_outer", "j_inner_inner"]
    elif tile > 32:
        knl = pl.split_iname(knl, "j_inner", 32, outer_tag="unr", inner_tag="l.0")
        swept = ["i_inner_outer", "i_inner_inner", "j_inner_outer", "j_inner_inner"]
    else:
        knl = pl.tag_inames(knl, "j_inner:l.0")
        swept = ["i_inner_outer", "i_inner_inner", "j_inner"]
    return pl.add_prefetch(knl, "a", swept, temporary_name="tile", vec=vec if vec > 1 else None, pad=1)


def in_whole_sectors(knl: pl.LoopKernel, rows: int, columns: int, threads: int, *, m: int) -> pl.LoopKernel:
    """Return the transpose of *m* rows by tiles whose rows of b begin where a sector of 32 bytes does.

    ::

        # before
        for i, j:  b[i, j] = a[j, i]
        # after
        for i, jj:  b[i, jj - m*i mod 8] = a[jj - m*i mod 8, i]         # float32: sectors of 8 elements
        each block: a tile of a, with 7 rows more, into shared memory, pieces of rows of b out of it

    Where rows have no whole sectors, each begins at another place of one; tiles that are cut straight then leave a part
    of a sector at both ends of each of their rows.

    Parameters
    ----------
    rows, columns
        Of a tile of b; *columns* is a multiple of 32.
    threads
        Of a block: a multiple of 32.
    """
    sizes = [argument.dtype.itemsize for argument in knl.arguments if argument.name == "b" and argument.dtype]
    unit = _SECTOR // sizes[0]
    knl = pl.fix_parameters(knl, m=m)
    knl = pl.map_domain(knl, f"{{[i, j] -> [i, jj]: jj = j + ({m % unit}*i) mod {unit}}}")
    knl = pl.split_iname(knl, "i", rows, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", threads // 32, outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "jj", columns, outer_tag="g.0")
    knl = pl.split_iname(knl, "jj_inner", 32, outer_tag="unr", inner_tag="l.0")
    swept = ["i_inner_outer", "i_inner_inner", "jj_inner_outer", "jj_inner_inner"]
    return pl.add_prefetch(knl, "a", swept, temporary_name="tile", pad=1)


_SECTOR: Final = 32
"""Unit in which a device writes to its memory [bytes]."""


@cache
def transpose(dtype: Any = np.float32, *, target: pl.Target | None = None, device: str | None = None) -> pl.Dispatcher:
    """Return the transpose ``b[i, j] = a[j, i]`` of matrices of any size.

    ::

        b = pl_library.transpose()(a=a).b          # a has m rows of n elements, b n rows of m
        print(pl_library.transpose())              # the schedules and their conditions

    Parameters
    ----------
    dtype
        Of the elements; 2, 4 or 8 bytes.
    target, device
        As for :func:`polyloop.dispatch`.

    Notes
    -----
    The recipes are ``polyloop.library.transpose.in_tiles`` with several sizes. Source: G. Ruetsch, P. Micikevicius,
    Optimizing Matrix Transpose in CUDA, 2009.
    """
    element = to_dtype(dtype)
    base, vec = program(element), max(1, 16 // element.itemsize)
    return ready("transpose", element, base, {
        "vectors, tiles of 64": partial(in_tiles, base, 64, 16, vec),
        "tiles of 96": partial(in_tiles, base, 96, 32),
        "tiles of 64": partial(in_tiles, base, 64, 8),
        "tiles of 64, 16 rows": partial(in_tiles, base, 64, 16),
        "tiles of 32": partial(in_tiles, base, 32, 8),
        "tiles of 64, whole sectors": partial(in_whole_sectors, base, 64, 64, 256),
        "tiles of 96, whole sectors": partial(in_whole_sectors, base, 96, 96, 1024),
        "tiles of 128, whole sectors": partial(in_whole_sectors, base, 128, 128, 1024),
    }, target, device)  # fmt: skip
