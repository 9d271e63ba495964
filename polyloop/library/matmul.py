"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from math import sqrt
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.library.elements import element_type
from polyloop.library.records import ready
from polyloop.library.registers import Tiles, in_cluster, in_one_launch, in_parts, in_registers, in_two_launches
from polyloop.library.tensor_cores import (
    in_double_precision,
    in_turns_with_roles,
    on_groups_of_warps,
    on_tensor_cores,
    stored_by_boxes,
    stored_by_rows,
    with_padded_copies,
    with_roles,
)
from polyloop.runtime.gpu import gpu_available

__all__ = ["matmul", "program", "schedules"]


def program(
    dtype: Any = np.float32, result: Any = None, target: pl.Target | None = None, *, batched: bool = False,
    transposed: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return the product as it is written: ``c[i, j] = sum(k, a[i, k]*b[k, j])``.

    *batched*: ``c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])`` for each e; *transposed*: of ``b[j, k]``, and elements of
    8 bits are scaled, ``c[i, j] = scale*sum(k, a[i, k]*b[j, k])``.
    """
    element = to_dtype(dtype)
    stored = to_dtype(result) if result is not None else np.dtype(np.float32) if element.itemsize < 4 else element
    is_scaled = element.itemsize == 1
    batch, e, more, least = ("batch, ", "e, ", " and 0 <= e < batch", " and batch >= 1") if batched else ("",) * 4
    right, shape = ("j, k", "n, p") if transposed else ("k, j", "p, n")
    return pl.make_kernel(
        f"{{[{e}i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p{more}}}",
        f"c[{e}i, j] = {'scale*' if is_scaled else ''}sum(k, a[{e}i, k]*b[{e}{right}])",
        [pl.GlobalArg("a", element, shape=f"{batch}m, p"), pl.GlobalArg("b", element, shape=f"{batch}{shape}"),
         pl.GlobalArg("c", stored, shape=f"{batch}m, n"),
         *([pl.ValueArg("scale", np.float32)] if is_scaled else []), ...],
        name="matmul",
        target=target,
        assumptions=f"m >= 1 and n >= 1 and p >= 1{least}",
    )


def multiples(knl: pl.LoopKernel, of: int) -> pl.LoopKernel:
    """Return the product for rows whose lengths are multiples of some elements."""
    return knl if of == 1 else pl.assume(knl, f"n mod {of} = 0 and p mod {of} = 0")


def single(base: pl.LoopKernel, tiles: Tiles) -> pl.LoopKernel:
    """Return a product by threads with pieces of it in registers."""
    return in_registers(multiples(base, tiles.vec), tiles)


def single_in_parts(base: pl.LoopKernel, tiles: Tiles, terms: int, *, launches: int = 1) -> pl.LoopKernel:
    """Return a product whose blocks add up parts of the terms: by atomic updates, or in two launches."""
    knl = (in_parts if launches == 1 else in_two_launches)(multiples(base, tiles.vec), terms)
    return in_registers(knl, tiles, term="k_part", grouped=False)


def single_in_one_launch(base: pl.LoopKernel, tiles: Tiles, terms: int) -> pl.LoopKernel:
    """Return a product whose blocks sum up parts of the terms, and of which the last one of a tile adds them up."""
    (rows, columns), (height, width) = tiles.block, tiles.warp
    threads = 32 * (rows // height) * (columns // width)
    knl = in_one_launch(multiples(base, tiles.vec), terms, tiles.block, threads, ("g.0", "g.1"))
    return pl.join_launches(in_registers(knl, tiles, term="k_part", grouped=False), "parts")


def in_vectors(base: pl.LoopKernel, lanes: int) -> pl.LoopKernel:
    """Return a product for one core of a processor, by tiles of 12 rows and two vectors of some lanes each.

    Operands are read where they lie.  Without OpenMP, whose directives :func:`in_panels` counts on, GCC keeps these
    tiles in registers and not those.
    """
    knl = pl.split_iname(base, "i", 144, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 24*lanes, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "i_block", 12, outer_iname="i_tile", inner_iname="row", inner_tag="ilp")
    knl = pl.split_iname(knl, "j_block", 2*lanes, outer_iname="j_tile", inner_iname="column")
    knl = pl.split_iname(knl, "column", lanes, outer_iname="vector", inner_iname="lane")
    knl = pl.tag_inames(knl, {"vector": "ilp", "lane": "vec"})
    return pl.prioritize_loops(knl, "j_tile, i_tile")


def in_panels(
    base: pl.LoopKernel, lanes: int, block: tuple[int, int] = (264, 32), terms: int = 256, height: int = 12
) -> pl.LoopKernel:  # fmt: skip
    """Return a product for a processor, by tiles of *height* rows and two vectors of some lanes each, in its registers.

    ::

        # before
        for i, j:  c[i, j] = sum(k, a[i, k]*b[k, j])
        # after
        each block (by, bx), each panel of terms ko:
            b_panel, a_panel = parts of b and a             # of the thread, in its cache
            for j_tile, i_tile:  sums[j_tile, i_tile] += sum(ki, a_panel*b_panel)      # in registers

    A block has some rows and vectors of columns, and a panel some terms: three arrays that fit into 2 MiB of cache.
    Rows of the operands whose addresses meet in few sets of the cache, as those of 4096 bytes do, are read once for a
    panel.  Source: Goto and van de Geijn, ACM TOMS 34(3), 2008, https://doi.org/10.1145/1356052.1356053.
    """
    rows, vectors = block
    knl = pl.split_iname(base, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "j", vectors*lanes, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "i_block", height, outer_iname="i_tile", inner_iname="row", inner_tag="ilp")
    knl = pl.split_iname(knl, "j_block", 2*lanes, outer_iname="j_tile", inner_iname="column")
    knl = pl.split_iname(knl, "column", lanes, outer_iname="vector", inner_iname="lane")
    knl = pl.split_iname(knl, "k", terms, outer_iname="ko", inner_iname="ki")
    knl = pl.split_reduction_outward(knl, "ko")
    knl = pl.tag_inames(knl, {"vector": "ilp", "lane": "vec"})
    knl = pl.prioritize_loops(knl, "ko, j_tile, i_tile, ki")
    knl = pl.add_prefetch(knl, "b", "j_tile, ki, vector, lane", temporary_name="b_panel")
    return pl.add_prefetch(knl, "a", "i_tile, ki, row", temporary_name="a_panel")


def _float32(base: pl.LoopKernel) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    large, middle, wide = Tiles(), Tiles((128, 64), (64, 32)), Tiles((64, 128), (32, 64), stages=4)
    small, low = (Tiles((rows, 64), (32, 32), terms=16, stages=4) for rows in (64, 32))
    flat = Tiles((32, 128), (32, 32), terms=16, vec=1, stages=3)
    parts = {"64 x 128": (wide, 256), "128 x 64": (middle, 1024), "64 x 64": (replace(small, stages=3), 256),
             "32 x 64": (low, 64)}  # fmt: skip
    return {
        "tiles of 128 x 128": partial(single, base, large),
        "tiles of 128 x 64": partial(single, base, middle),
        "tiles of 128 x 64, four stages": partial(single, base, replace(middle, stages=4)),
        "tiles of 64 x 64": partial(single, base, small),
        "tiles of 32 x 64": partial(single, base, low),
        **{f"tiles of {name}, parts of {terms}": partial(single_in_parts, base, tiles, terms)
           for name, (tiles, terms) in parts.items()},
        "tiles of 128 x 128, parts of 1024, two launches": partial(single_in_parts, base, large, 1024, launches=2),
        "tiles of 128 x 128, parts of 2048, the last block adds": partial(single_in_one_launch, base, large, 2048),
        "tiles of 64 x 64, any rows": partial(single, base, replace(small, vec=1)),
        "tiles of 64 x 64, through registers, any rows": partial(single, base, replace(small, vec=1, stages=2)),
        "tiles of 32 x 64, any rows": partial(single, base, replace(low, vec=1, terms=8)),
        "tiles of 32 x 128, parts of 1024, any rows": partial(single_in_parts, base, flat, 1024),
        "tiles of 32 x 64, parts of 128, any rows": partial(single_in_parts, base, replace(low, vec=1), 128),
    }


_DOUBLE: Final = Tiles((128, 128), (32, 64), piece=2, lanes=4, vec=2, pad=2, unroll=1)


def double(
    base: pl.LoopKernel, vec: int, block: tuple[int, int] = (128, 128), warp: tuple[int, int] = (64, 32)
) -> pl.LoopKernel:
    """Return a product of float64 on tensor cores."""
    return in_double_precision(multiples(base, vec), vec, block, warp)


def double_in_parts(
    base: pl.LoopKernel, vec: int, terms: int, block: tuple[int, int] = (128, 128), warp: tuple[int, int] = (64, 32)
) -> pl.LoopKernel:
    """Return a product of float64 on tensor cores whose blocks sum up *terms* terms, which a second launch adds up."""
    knl = in_two_launches(multiples(base, vec), terms)
    return in_double_precision(knl, vec, block, warp, grouped=False, term="k_part", within="compute_sums")


def _float64(base: pl.LoopKernel) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    small = Tiles((64, 64), (32, 32), piece=2, lanes=4, vec=2, pad=2, unroll=1)
    tiles = {"64 x 128": ((64, 128), (32, 32)), "64 x 64": ((64, 64), (32, 32)), "32 x 32": ((32, 32), (16, 16))}
    found: dict[str, Callable[..., pl.LoopKernel]] = {}
    for vec, rows in ((2, ""), (1, ", any rows")):
        found[f"tensor cores{rows}"] = partial(double, base, vec)
        for name, sizes in tiles.items():
            found[f"tensor cores, tiles of {name}{rows}"] = partial(double, base, vec, *sizes)
        for name, terms in (("64 x 128", 256), ("64 x 128", 1024), ("32 x 32", 256)):
            found[f"tensor cores, tiles of {name}, parts of {terms}{rows}"] = partial(
                double_in_parts, base, vec, terms, *tiles[name])
    return found | {
        "tensor cores, parts of 1024": partial(double_in_parts, base, 2, 1024),
        "tiles of 128 x 128": partial(single, base, _DOUBLE),
        "tiles of 64 x 64": partial(single, base, small),
    }


_MULTIPROCESSORS: Final = 132
"""Of an H100 and of an H200, on each of which one block runs."""


def _panel(rows: int, columns: int) -> int:
    """Return the width of panels in which blocks that run at once read as few rows and columns as they can."""
    return max(1, round(sqrt(_MULTIPROCESSORS * rows / columns)))


def _stages(rows: int, columns: int) -> int:
    """Return the buffers of tiles for which shared memory has room, 6 at most."""
    return min(6, 3 * 2**16 // (128 * (rows + columns)))


def by_groups(base: pl.LoopKernel, name: str, rows: int, columns: int, *, persistent: bool = False) -> pl.LoopKernel:
    """Return a product by ``wgmma``, tiles fetched and results stored by the copy engine, blocks in panels."""
    intrinsic, stages = f"wgmma_m64n{columns}k16_{name}", _stages(rows, columns)
    knl = on_groups_of_warps(multiples(base, 8), intrinsic, rows, columns, stages, lag=1, via="tma")
    knl = pl.order_blocks(stored_by_boxes(knl), "bx", group=_panel(rows, columns))
    return pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=True) if persistent else knl


_SHARED: Final = 226 * 1024
"""Shared memory of a block on Hopper, less what counts arrivals [bytes]."""


def _stages_beside(rows: int, columns: int, base: pl.LoopKernel) -> int:
    """Return the buffers of tiles for which shared memory has room beside a tile of results, 6 at most."""
    stored = base.arrays()["c"].dtype
    assert stored is not None, "the types of a library's programs are stated"
    return min(6, (_SHARED - rows * columns * stored.itemsize) // (128 * (rows + columns)))


def by_groups_in_roles(base: pl.LoopKernel, name: str, rows: int, columns: int) -> pl.LoopKernel:
    """Return a product by ``wgmma`` in blocks that stay, and whose next tiles come while results are stored."""
    stages = _stages_beside(rows, columns, base)
    intrinsic = f"wgmma_m64n{columns}k16_{name}"
    knl = on_groups_of_warps(multiples(base, 8), intrinsic, rows, columns, stages, lag=1, via="tma")
    knl = pl.order_blocks(stored_by_boxes(knl, ""), "bx", group=_panel(rows, columns))
    return in_turns_with_roles(knl, _MULTIPROCESSORS)


def by_groups_on_copies(base: pl.LoopKernel, name: str, rows: int, columns: int) -> pl.LoopKernel:
    """Return a product by ``wgmma`` of copies of a and b with padded rows, for rows of any length."""
    knl = on_groups_of_warps(
        with_padded_copies(base), f"wgmma_m64n{columns}k16_{name}", rows, columns, _stages(rows, columns), lag=1,
        via="tma", operands=("a_rows", "b_rows"),
    )  # fmt: skip
    return pl.order_blocks(stored_by_rows(knl, columns), "bx", group=_panel(rows, columns))


def by_groups_on_columns(
    base: pl.LoopKernel, name: str, rows: int, columns: int, *, persistent: bool = False
) -> pl.LoopKernel:  # fmt: skip
    """Return a product by ``wgmma`` of a and a copy of b with padded rows, for rows of whole 16 bytes."""
    knl = on_groups_of_warps(
        with_padded_copies(multiples(base, 8), names="b", vec=8), f"wgmma_m64n{columns}k16_{name}", rows, columns,
        _stages(rows, columns), lag=1, via="tma", operands=("a", "b_rows"),
    )  # fmt: skip
    knl = pl.order_blocks(stored_by_boxes(knl), "bx", group=_panel(rows, columns))
    return pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=True) if persistent else knl


def by_groups_in_parts(base: pl.LoopKernel, name: str, rows: int, columns: int, terms: int) -> pl.LoopKernel:
    """Return a product by ``wgmma`` whose blocks sum up parts of the terms, which a second launch adds up."""
    knl = in_two_launches(multiples(base, 8), terms)
    return on_groups_of_warps(
        knl, f"wgmma_m64n{columns}k16_{name}", rows, columns, _stages(rows, columns), lag=1, via="tma", term="k_part",
        within="compute_sums",
    )  # fmt: skip


def by_groups_in_one_launch(base: pl.LoopKernel, name: str, rows: int, columns: int, terms: int) -> pl.LoopKernel:
    """Return a product by ``wgmma`` in parts of the terms, which the last block of a tile to arrive adds up."""
    knl = in_one_launch(multiples(base, 8), terms, (rows, columns), 2 * rows, together=8)
    knl = on_groups_of_warps(
        knl, f"wgmma_m64n{columns}k16_{name}", rows, columns, _stages(rows, columns), lag=1, via="tma", term="k_part",
        within="compute_sums",
    )  # fmt: skip
    return pl.join_launches(knl, "parts")


def by_groups_in_clusters(
    base: pl.LoopKernel, name: str, rows: int, columns: int, parts: int, terms: int, *, roles: bool = False
) -> pl.LoopKernel:  # fmt: skip
    """Return a product by ``wgmma`` whose tiles are added up by the blocks of a cluster, which sum up a part each.

    With *roles* a thread of its own fetches tiles, as many as there is room for beside the sums.
    """
    knl = in_cluster(multiples(base, 8), parts, terms, (rows, columns), 2 * rows)
    room = (_SHARED - 4 * rows * (columns + 8)) // (128 * (rows + columns))
    knl = on_groups_of_warps(
        knl, f"wgmma_m64n{columns}k16_{name}", rows, columns, room if roles else 4 if columns > 64 else 6, lag=1,
        via="tma", term="k_part", within="compute_sums", divided=False,
    )  # fmt: skip
    return with_roles(knl) if roles else knl


def by_warps(base: pl.LoopKernel, name: str, vec: int, *shape: Any) -> pl.LoopKernel:
    """Return a product by ``mma.sync``, with copies of *vec* elements."""
    is_async = vec > 1
    return on_tensor_cores(
        multiples(base, vec), f"mma_m16n8k16_{name}", 16, vec, *shape, ahead=is_async, spread=is_async and vec == 8,
        swizzled=vec == 8,
    )  # fmt: skip


def by_warps_in_parts(base: pl.LoopKernel, name: str, vec: int, terms: int, *shape: Any) -> pl.LoopKernel:
    """Return a product by ``mma.sync`` whose blocks sum up parts of the terms, which a second launch adds up."""
    knl = in_two_launches(multiples(base, vec), terms)
    return on_tensor_cores(
        knl, f"mma_m16n8k16_{name}", 16, vec, *shape, ahead=vec > 1, swizzled=vec == 8, term="k_part",
        within="compute_sums",
    )  # fmt: skip


def by_warps_in_tf32(base: pl.LoopKernel, vec: int, *shape: Any) -> pl.LoopKernel:
    """Return a product of float32 by ``mma.sync``, which takes 11 bits of an element, with copies of *vec* elements.

    Copies of 16 bytes come with everything that large products ask for; columns are rows of the instruction then, since
    a lane has neighbours of these.
    """
    is_wide = vec == 4
    return on_tensor_cores(
        multiples(base, vec), f"mma_m16n8k8_tf32{'_pairs' if is_wide else ''}", 8, vec, *shape, ahead=is_wide,
        spread=is_wide, swizzled=is_wide, turned=is_wide,
    )  # fmt: skip


def _tf32(base: pl.LoopKernel) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    return {
        "mma, tiles of 128 x 256": partial(by_warps_in_tf32, base, 4, (128, 256, 32), (64, 64), 3, 16),
        "mma, tiles of 64 x 64": partial(by_warps_in_tf32, base, 4, (64, 64, 32), (32, 32), 3, 16),
        "mma, tiles of 128 x 128, any rows": partial(by_warps_in_tf32, base, 1, (128, 128, 32), (64, 32), 3, 16),
        "mma, tiles of 64 x 64, any rows": partial(by_warps_in_tf32, base, 1, (64, 64, 32), (32, 32), 3, 16),
    }


def _half(dtype: np.dtype[Any], result: np.dtype[Any]) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    name = {"bfloat16": "bf16", "float16": "f16"}[dtype_name(dtype)]
    base, hopper = program(dtype, result), program(dtype, result, target=pl.CudaTarget("sm_90a"))
    return {
        "wgmma, tiles of 128 x 256": partial(by_groups, hopper, name, 128, 256),
        "wgmma, tiles of 128 x 256, persistent": partial(by_groups, hopper, name, 128, 256, persistent=True),
        "wgmma, tiles of 128 x 192, persistent": partial(by_groups, hopper, name, 128, 192, persistent=True),
        "wgmma, tiles of 128 x 192, roles": partial(by_groups_in_roles, hopper, name, 128, 192),
        "wgmma, tiles of 128 x 128, roles": partial(by_groups_in_roles, hopper, name, 128, 128),
        "wgmma, tiles of 128 x 128": partial(by_groups, hopper, name, 128, 128),
        "wgmma, tiles of 64 x 128": partial(by_groups, hopper, name, 64, 128),
        "wgmma, tiles of 64 x 64": partial(by_groups, hopper, name, 64, 64),
        "wgmma, tiles of 128 x 64, parts of 512": partial(by_groups_in_parts, hopper, name, 128, 64, 512),
        "wgmma, tiles of 128 x 64, parts of 1024": partial(by_groups_in_parts, hopper, name, 128, 64, 1024),
        "wgmma, tiles of 128 x 128, parts of 1024": partial(by_groups_in_parts, hopper, name, 128, 128, 1024),
        "wgmma, tiles of 128 x 256, parts of 2048": partial(by_groups_in_parts, hopper, name, 128, 256, 2048),
        "wgmma, tiles of 128 x 128, parts of 4096, the last block adds":
            partial(by_groups_in_one_launch, hopper, name, 128, 128, 4096),
        **{
            f"wgmma, tiles of 128 x {columns}, parts of {terms} in clusters of {parts}":
                partial(by_groups_in_clusters, hopper, name, 128, columns, parts, terms)
            for columns, parts, terms in ((64, 2, 2048), (128, 2, 2048), (128, 2, 4096), (128, 4, 1024))
        },
        "wgmma, tiles of 128 x 64, parts of 2048 in clusters of 2, roles":
            partial(by_groups_in_clusters, hopper, name, 128, 64, 2, 2048, roles=True),
        "wgmma, tiles of 128 x 256, a padded copy of b": partial(by_groups_on_columns, hopper, name, 128, 256),
        "wgmma, tiles of 128 x 256, a padded copy of b, persistent":
            partial(by_groups_on_columns, hopper, name, 128, 256, persistent=True),
        "wgmma, tiles of 128 x 256, padded copies": partial(by_groups_on_copies, hopper, name, 128, 256),
        "wgmma, tiles of 128 x 128, padded copies": partial(by_groups_on_copies, hopper, name, 128, 128),
        "wgmma, tiles of 128 x 64, padded copies": partial(by_groups_on_copies, hopper, name, 128, 64),
        "mma, tiles of 256 x 128": partial(by_warps, base, name, 8, (256, 128, 64), (64, 64), 3, 16),
        "mma, tiles of 64 x 64": partial(by_warps, base, name, 8),
        "mma, tiles of 256 x 128, rows of 4": partial(by_warps, base, name, 4, (256, 128, 64), (64, 64), 3, 16),
        "mma, tiles of 64 x 64, rows of 2": partial(by_warps, base, name, 2),
        "mma, tiles of 32 x 32, rows of 2": partial(by_warps, base, name, 2, (32, 32, 64), (16, 16)),
        "mma, tiles of 32 x 64, parts of 256, rows of 2": partial(
            by_warps_in_parts, base, name, 2, 256, (32, 64, 64), (32, 32)),
        "mma, tiles of 128 x 128, any rows": partial(by_warps, base, name, 1, (128, 128, 32), (64, 32), 2, 16),
        "mma, tiles of 64 x 64, any rows": partial(by_warps, base, name, 1),
        "mma, tiles of 64 x 64, parts of 512, any rows": partial(
            by_warps_in_parts, base, name, 1, 512, (64, 64, 32), (32, 32), 2),
        "mma, tiles of 32 x 32, any rows": partial(by_warps, base, name, 1, (32, 32, 32), (16, 16), 2),
        "mma, tiles of 32 x 32, parts of 128, any rows": partial(
            by_warps_in_parts, base, name, 1, 128, (32, 32, 32), (16, 16), 2),
    }


def schedules(dtype: Any = np.float32, result: Any = None) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    """Return the schedules for GPUs, by name: functions that make them, some of them for the sizes of a call."""
    element = to_dtype(dtype)
    stored = _result_type(element, result)
    if element.itemsize == 2:
        return _half(element, stored)
    return (_float32 if element.itemsize == 4 else _float64)(program(element, stored))


def single_of_batch(base: pl.LoopKernel, tiles: Tiles) -> pl.LoopKernel:
    """Return products of a batch by threads with pieces of them in registers."""
    return in_registers(pl.tag_inames(multiples(base, tiles.vec), "e:g.2"), tiles, grouped=False)


def double_of_batch(base: pl.LoopKernel, vec: int, block: tuple[int, int], warp: tuple[int, int]) -> pl.LoopKernel:
    """Return products of a batch of float64 on tensor cores."""
    return in_double_precision(pl.tag_inames(multiples(base, vec), "e:g.2"), vec, block, warp, grouped=False)


def _of_batch(element: np.dtype[Any], stored: np.dtype[Any]) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    """Return schedules for products of a batch: a block for each product and tile of it."""
    base = program(element, stored, batched=True)
    if element.itemsize == 8:
        return {
            f"tensor cores, tiles of {block[0]} x {block[1]}{rows}": partial(double_of_batch, base, vec, block, warp)
            for vec, rows in ((2, ""), (1, ", any rows"))
            for block, warp in (((128, 128), (64, 32)), ((64, 64), (32, 32)), ((32, 32), (16, 16)))
        }
    if element.itemsize == 4:
        small = Tiles((64, 64), (32, 32), terms=16, stages=4)
        return {
            "tiles of 128 x 128": partial(single_of_batch, base, Tiles()),
            "tiles of 128 x 64": partial(single_of_batch, base, Tiles((128, 64), (64, 32))),
            "tiles of 64 x 64": partial(single_of_batch, base, small),
            "tiles of 64 x 64, any rows": partial(single_of_batch, base, replace(small, vec=1)),
            "tiles of 32 x 64, any rows": partial(
                single_of_batch, base, Tiles((32, 64), (32, 32), terms=8, vec=1, stages=4)),
        }  # fmt: skip
    name = {"bfloat16": "bf16", "float16": "f16"}[dtype_name(element)]
    wide = pl.tag_inames(program(element, stored, pl.CudaTarget("sm_90a"), batched=True), "e:g.2")
    base = pl.tag_inames(base, "e:g.2")
    return {
        **{f"wgmma, tiles of {rows} x {columns}{', persistent' if stays else ''}":
           partial(by_groups, wide, name, rows, columns, persistent=stays)
           for rows, columns, stays in ((128, 256, True), (128, 256, False), (128, 128, True), (128, 128, False),
                                        (64, 64, False))},
        "mma, tiles of 64 x 64": partial(by_warps, base, name, 8),
        "mma, tiles of 64 x 64, rows of 2": partial(by_warps, base, name, 2),
        "mma, tiles of 64 x 64, any rows": partial(by_warps, base, name, 1),
        "mma, tiles of 32 x 32, any rows": partial(by_warps, base, name, 1, (32, 32, 32), (16, 16), 2),
    }  # fmt: skip


def by_groups_in_bytes(
    base: pl.LoopKernel, name: str, rows: int, columns: int, *, persistent: bool = False
) -> pl.LoopKernel:  # fmt: skip
    """Return a product of elements of 8 bits by ``wgmma``, tiles fetched and results stored by the copy engine."""
    knl = pl.assume(base, "n mod 8 = 0 and p mod 16 = 0")
    knl = on_groups_of_warps(
        knl, f"wgmma_m64n{columns}k32_{name}", rows, columns, _stages(rows, columns), lag=1, via="tma", panels=False
    )
    knl = pl.order_blocks(stored_by_boxes(knl), "bx", group=_panel(rows, columns))
    return pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=True) if persistent else knl


def _bytes(element: np.dtype[Any], stored: np.dtype[Any]) -> Mapping[str, Callable[..., pl.LoopKernel]]:
    """Return schedules for products of elements of 8 bits, the second operand stored by rows of k."""
    name = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}[dtype_name(element)]
    base = program(element, stored, transposed=True)
    hopper = program(element, stored, pl.CudaTarget("sm_90a"), transposed=True)
    return {
        "wgmma, tiles of 128 x 256, persistent": partial(by_groups_in_bytes, hopper, name, 128, 256, persistent=True),
        "wgmma, tiles of 128 x 256": partial(by_groups_in_bytes, hopper, name, 128, 256),
        "wgmma, tiles of 128 x 128": partial(by_groups_in_bytes, hopper, name, 128, 128),
        "wgmma, tiles of 64 x 128": partial(by_groups_in_bytes, hopper, name, 64, 128),
        "wgmma, tiles of 64 x 64": partial(by_groups_in_bytes, hopper, name, 64, 64),
        "tiles of 64 x 64, any rows": partial(
            in_registers, base, Tiles((64, 64), (32, 32), terms=16, vec=1), transposed=True),
    }  # fmt: skip


def _is_for_processors(target: pl.Target | None) -> bool:
    """Return whether dispatchers of this *target* are for C."""
    return not gpu_available()[0] if target is None else target.name == "c"


@cache
def matmul(
    dtype: Any = np.float32, result: Any = None, *, precision: str | None = None, batched: bool = False,
    transposed: bool = False, target: pl.Target | None = None, device: str | None = None,
) -> pl.Dispatcher:  # fmt: skip
    """Return the product ``c[i, j] = sum(k, a[i, k]*b[k, j])`` of matrices of any size.

    ::

        c = matmul()(a=a, b=b).c                         # a is m by p, b p by n, c m by n
        c = matmul("bfloat16", batched=True)(a=a, b=b).c # of 3 axes each, the first of which numbers products
        print(matmul("bfloat16"))                        # the schedules and their conditions
        print(matmul().choose(m=128, n=8192, p=8192))    # the one for these sizes, and why

    Parameters
    ----------
    dtype
        Of a and b: float32, float64, bfloat16 or float16; float8_e4m3fn or float8_e5m2 if b is transposed.
    result
        Of c: that of a and b, or float32 for 16-bit types, which is the default: products are summed up in it.  With
        16 bits half as much is stored, which is what other libraries do.  For 8-bit types bfloat16, which is the
        default, float16 or float32.
    precision
        ``"tf32"``: products of float32 may go through tensor cores, which take 11 bits of each element, rounded to the
        nearest; sums are in float32.  On processors there is nothing to gain, and they are computed as float32.
    batched
        Whether it is ``c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j])``, the products of a batch, one for each ``e``.
    transposed
        Whether b is n by p, which tensor cores ask of elements of 8 bits.  Their products have a factor that undoes
        the scaling of both: ``c[i, j] = scale*sum(k, a[i, k]*b[j, k])``.
    target, device
        As for :func:`polyloop.dispatch`.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``: another type, results of one that the library does not store, or a precision, batches or a
        transposed operand that the type does not have.

    Notes
    -----
    Schedules in "parts of" k add their parts to the result by atomic updates, unless they have two launches or
    clusters: the order
    of a sum, and with it its rounding, may differ from call to call.  Others always give the same result.  Hopper keeps
    about 14 bits of a sum of products of 8-bit numbers.

    The recipes are in ``polyloop/library/registers.py`` and ``tensor_cores.py``.  Source: the structure is that of
    CUTLASS, https://docs.nvidia.com/cutlass/media/docs/cpp/efficient_gemm.html.
    """
    element = _element_type(dtype, transposed=transposed)
    stored = _result_type(element, result)
    _check_forms(element, precision, batched=batched, transposed=transposed)
    base = program(element, stored, batched=batched, transposed=transposed)
    if _is_for_processors(target) and element.itemsize != 2:
        lanes = 64 // max(4, element.itemsize)
        in_threads = target is not None and target.openmp and not (batched or transposed)
        made: Mapping[str, Any] = {
            f"panels, vectors of {lanes}" if in_threads else f"vectors of {lanes}":
                partial(in_panels if in_threads else in_vectors, base, lanes)
        }
    elif batched or transposed:
        made = (_of_batch if batched else _bytes)(element, stored)
    else:
        made = _tf32(base) if precision is not None else schedules(element, stored)
    kernel = "matmul" if precision is None else f"matmul in {precision}"
    return ready(f"{kernel} of a batch" if batched else kernel, element, base, made, target, device, stored)


def _element_type(dtype: Any, *, transposed: bool) -> np.dtype[Any]:
    """Return the type of a and b: of 8 bits only where b is transposed.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``.
    """
    if transposed and dtype_name(to_dtype(dtype, "matmul")) in _OF_8_BITS:
        return to_dtype(dtype, "matmul")
    return element_type("matmul", dtype, "polyloop.library.matmul.program(dtype)")


_OF_8_BITS: Final = ("float8_e4m3fn", "float8_e5m2")


def _check_forms(element: np.dtype[Any], precision: str | None, *, batched: bool, transposed: bool) -> None:
    """Raise ``wrong-dtype`` unless products of *element* can have a *precision*, and be batched or transposed."""
    name = dtype_name(element)
    if precision is not None and (precision != "tf32" or element != np.dtype(np.float32) or batched):
        has, hint = f"with precision={precision!r}", "leave it out, or pass precision='tf32' for float32"
        has += " of a batch" if batched else ""
    elif transposed and (element.itemsize > 1 or batched):
        has, hint = f"with {'batches and ' if batched else ''}transposed=True", "pass b as p by n"
        hint = "leave out batched" if batched and element.itemsize == 1 else hint
    else:
        return
    raise pl.ArgumentError("matmul", None, [pl.Diagnostic(
        "wrong-dtype", f"the library has no matmul of {name} {has}", (),
        (f"{hint}, or schedule the program yourself: polyloop.library.matmul.program(dtype)",))])


def _result_type(element: np.dtype[Any], result: Any) -> np.dtype[Any]:
    """Return the type of c.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``.
    """
    bytes_to = (to_dtype("bfloat16"), np.dtype(np.float16), np.dtype(np.float32))
    usual = np.dtype(np.float32) if element.itemsize < 4 else element
    known = bytes_to if element.itemsize == 1 else tuple(dict.fromkeys((usual, element)))
    stored = known[0] if result is None else to_dtype(result, "matmul")
    if stored not in known:
        has = dtype_name(element)
        raise pl.ArgumentError("matmul", None, [pl.Diagnostic(
            "wrong-dtype", f"the library stores no product of {has} as {dtype_name(stored)}", (),
            (f"pass result={' or '.join(repr(dtype_name(one)) for one in known)}, or "
             "schedule the program yourself: polyloop.library.matmul.program(dtype, result)",))])
    return stored
