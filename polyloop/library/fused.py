"""Products in a chain with what comes before and after them, each one kernel on tensor cores of Hopper (``wgmma``).

What follows a product is computed of its results while they are in registers: bias and GELU, the gate of a second
product of the same rows, layer norm of whole rows.  Results go through shared memory, from where the copy engine stores
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype
from polyloop.library.tensor_cores import (
    in_panels,
    in_turns_with_roles,
    on_groups_of_warps,
    stored_by_boxes,
    with_roles,
)

__all__ = [
    "convolution", "dequantized", "gated", "gelu", "grouped", "layer_norm", "layer_norm_of_stored",
    "on_converted_tiles", "on_groups", "on_pixels", "on_rows", "on_tiles", "on_tiles_and_warps",
]  # fmt: skip

_MULTIPROCESSORS: Final = 132
"""Of an H100 and of an H200."""
_TARGET: Final = pl.CudaTarget("sm_90a")
_SIZES: Final = "m >= 1 and n >= 1 and p >= 1 and n mod 8 = 0 and p mod 8 = 0"


def _made(name: str, text: str, arguments: Sequence[Any], n: str = "n", sizes: str = _SIZES) -> pl.LoopKernel:
    """Return a program of products of m by p elements with n columns."""
    domain = f"{{[i, j, k]: 0 <= i < m and 0 <= j < {n} and 0 <= k < p}}"
    return pl.make_kernel(domain, text, [*arguments, ...], name=name, target=_TARGET, assumptions=sizes)


def gelu(dtype: Any = "bfloat16") -> pl.LoopKernel:
    """Return a product with a bias and GELU: ``c[i, j] = gelu(bias[j] + sum(k, a[i, k]*b[k, j]))``.

    GELU is that of the error function, which CUDA code computes to 1e-6 instead of 1e-7.
    """
    element = to_dtype(dtype)
    return _made("product_gelu", """
        gelu(x) := 0.5f*x*(1 + erf(0.70710678f*x))
        <float32> s = sum(k, a[i, k]*b[k, j])             {id=product}
        c[i, j] = gelu(s + bias[j])                       {id=result, precision=fast}
        """, [
        pl.GlobalArg("a", element, shape="m, p"), pl.GlobalArg("b", element, shape="p, n"),
        pl.GlobalArg("bias", element, shape="n"), pl.GlobalArg("c", element, shape="m, n"),
    ])  # fmt: skip


def gated(dtype: Any = "bfloat16") -> pl.LoopKernel:
    """Return two products of the same rows, of which one is the gate of the other: ``c = silu(a gate) * (a up)``."""
    element = to_dtype(dtype)
    return _made("gated_product", """
        silu(x) := x/(1 + exp(-x))
        <float32> g = sum(k, a[i, k]*gate[k, j])          {id=product_gate}
        <float32> u = sum(k, a[i, k]*up[k, j])            {id=product_up}
        c[i, j] = silu(g)*u                               {id=result, precision=fast}
        """, [
        pl.GlobalArg("a", element, shape="m, p"), pl.GlobalArg("gate, up", element, shape="p, n"),
        pl.GlobalArg("c", element, shape="m, n"),
    ])  # fmt: skip


def layer_norm(n: int = 256, dtype: Any = "bfloat16", eps: float = 1e-5) -> pl.LoopKernel:
    """Return a product of *n* columns and the layer norm of its rows, times ``gamma``, plus ``beta``.

    ::

        for i:  c[i] = (a[i] b - mean(a[i] b))/sqrt(var(a[i] b) + eps)*gamma + beta
    """
    element = to_dtype(dtype)
    return _made("product_layer_norm", f"""
        for i
            <float32> row[j] = sum(k, a[i, k]*b[k, j])    {{id=product}}
            <float32> mean = sum(j, row[j])/{n}           {{id=mean}}
            <float32> away[j] = row[j] - mean             {{id=away}}
            <float32> scale = rsqrt(sum(j, away[j]*away[j])/{n} + {eps}f)   {{id=scale}}
            c[i, j] = away[j]*scale*gamma[j] + beta[j]    {{id=result}}
        end
        """, [
        pl.GlobalArg("a", element, shape="m, p"), pl.GlobalArg("b", element, shape=f"p, {n}"),
        pl.GlobalArg("gamma, beta", element, shape=f"{n}"), pl.GlobalArg("c", element, shape=f"m, {n}"),
    ], str(n), "m >= 1 and p >= 1 and p mod 8 = 0")  # fmt: skip


def layer_norm_of_stored(n: int = 1024, dtype: Any = "bfloat16", eps: float = 1e-5) -> pl.LoopKernel:
    """Return a product of *n* columns that is stored, rounded to *dtype*, and the layer norm of the rows that were.

    ::

        row = a b;  for i:  c[i] = (row[i] - mean(row[i]))/sqrt(var(row[i]) + eps)*gamma + beta

    So do calls of a product and a layer norm, one after the other; :func:`layer_norm` rounds results alone.
    """
    element = to_dtype(dtype)
    return pl.make_kernel(
        [f"{{[i, j, k]: 0 <= i < m and 0 <= j < {n} and 0 <= k < p}}", f"{{[r, t]: 0 <= r < m and 0 <= t < {n}}}"],
        f"""
        row[i, j] = sum(k, a[i, k]*b[k, j])                             {{id=product}}
        for r
            <> held[t] = row[r, t]                                      {{id=load}}
            <float32> mean = sum(t, cast(float32, held[t]))/{n}         {{id=mean}}
            <float32> away[t] = cast(float32, held[t]) - mean           {{id=away}}
            <float32> scale = rsqrt(sum(t, away[t]*away[t])/{n} + {eps}f)   {{id=scale}}
            c[r, t] = away[t]*scale*gamma[t] + beta[t]                  {{id=result}}
        end
        """,
        [pl.GlobalArg("a", element, shape="m, p"), pl.GlobalArg("b", element, shape=f"p, {n}"),
         pl.GlobalArg("gamma, beta", element, shape=f"{n}"), pl.GlobalArg("c", element, shape=f"m, {n}"),
         pl.TemporaryVariable("row", element, shape=f"m, {n}", address_space=pl.AddressSpace.GLOBAL), ...],
        name="product_layer_norm", target=_TARGET, assumptions="m >= 1 and p >= 1 and p mod 8 = 0",
    )  # fmt: skip


def dequantized(weights: str = "float8_e4m3fn", dtype: Any = "bfloat16", group: int = 0) -> pl.LoopKernel:
    """Return a product with *weights* of 8 or 4 bits and scales: ``c = (a w(q))*scale``, or ``c = a (w(q)*scale)``.

    ``"float8_e4m3fn"`` or ``"float8_e5m2"``: ``q`` is p by n; ``"int4"``: p/2 by n bytes, of which the low half is a
    weight of an even row, the high half that of the next one, in two's complement.

    There is a scale for each column, which the sums are multiplied by; or, with *group*, one for so many rows of a
    column, ``scale[row//group, column]``, which weights are multiplied by where they are converted.  Then p is a
    multiple of 64 and of *group*.
    """
    element = to_dtype(dtype)
    word = dtype_name(element)
    if weights == "int4":
        stored, kind = "((q[row//2, column] >> 4*(row % 2) & 15 ^ 8) - 8)", to_dtype("uint8")
    else:
        stored, kind = "q[row, column]", to_dtype(weights)
    rows = "p//2" if weights == "int4" else "p"
    scaled = f"cast(float32, {stored})*scale[row//{group}, column]" if group else stored
    return _made("product_dequantized", f"""
        w(row, column) := cast({word}, {scaled})
        c[i, j] = {"" if group else "scale[j]*"}sum(k, a[i, k]*w(k, j))        {{id=product}}
        """, [
        pl.GlobalArg("a", element, shape="m, p"), pl.GlobalArg("q", kind, shape=f"{rows}, n"),
        pl.GlobalArg("scale", np.float32, shape=f"p//{group}, n" if group else "n"),
        pl.GlobalArg("c", element, shape="m, n"),
    ], sizes=_SIZES.replace("mod 8", "mod 16") + f" and p mod {lcm(64, group)} = 0"*bool(group))  # fmt: skip


def _word(knl: pl.LoopKernel) -> str:
    """Return the name that intrinsics have for the type of ``a``."""
    element = knl.arrays()["a"].dtype
    assert element is not None, "the types of a library's programs are stated"
    return {"bfloat16": "bf16", "float16": "f16"}[dtype_name(element)]


def on_tiles(
    knl: pl.LoopKernel, rows: int = 128, columns: int = 256, stages: int = 4, group: int = 8, *,
    operands: Sequence[str] = ("a", "b"), persistent: bool = True, roles: bool = False, columnwise: Sequence[str] = (),
) -> pl.LoopKernel:  # fmt: skip
    """Return products in tiles of some rows and columns, with what follows them in registers.

    ::

        # before
        for i, j:  s = sum(k, a[i, k]*b[k, j]);  c[i, j] = f(s)
        # after
        each block (by, bx):  s = the sums of a tile, in registers;  c_tile = f(s);  the copy engine stores c_tile

    Parameters
    ----------
    rows, columns
        Of a tile: multiples of 64, and 256 columns at most, less for several products.
    stages
        Buffers of tiles, of which two are filled ahead if there are four.
    group
        Columns of tiles of a panel, whose blocks run together.
    operands
        The arrays of rows, and of columns: for several products within a tile, several of these.
    persistent
        Whether a block a multiprocessor stays, and fetches the next tile while it stores one.
    roles
        Whether a thread of its own fetches them, in blocks of 128 rows that stay; results then have a place of their
        own, and there is room for fewer stages.
    columnwise
        Arrays with an element for each column, which threads load into registers ahead of the products.
    """
    intrinsic = f"wgmma_m64n{columns}k16_{_word(knl)}"
    knl = on_groups_of_warps(
        knl, intrinsic, rows, columns, stages, lag=1, via="tma", within="id:product*", operands=tuple(operands)
    )
    for array in columnwise:
        knl = _loaded_ahead(knl, array)
    knl = pl.order_blocks(stored_by_boxes(knl, "" if roles else "b_tile"), "bx", group=group)
    if roles:
        return in_turns_with_roles(knl, _MULTIPROCESSORS)
    return pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=True) if persistent else knl


def _loaded_ahead(knl: pl.LoopKernel, array: str) -> pl.LoopKernel:
    """Return products for whose columns each thread has the elements of *array* in registers, ahead of the products.

    ::

        # before
        s = the sums of a tile;  for jj:  c_tile[ii, jj] = f(s[ii, jj], array[jj])
        # after
        own[jj] = array[jj];  s = the sums of a tile;  for jj:  c_tile[ii, jj] = f(s[ii, jj], own[jj])
    """
    around, fetch = "by, bx, wg, ii_lane_0, ii_lane_2, jj_lane", f"fetch_{array}"
    knl = pl.add_prefetch(
        knl, array, "jj_reg_0, jj_reg_2", fetch_outer_inames=around, default_tag="unr", prefetch_insn_id=fetch,
        temporary_name=f"{array}_own", temporary_address_space="private",
    )  # fmt: skip
    return pl.add_dependency(knl, "id:product*", f"id:{fetch}")


def on_rows(
    knl: pl.LoopKernel, rows: int = 128, columns: int = 256, stages: int = 4, blocks: int = 1
) -> pl.LoopKernel:  # fmt: skip
    """Return a product in blocks, or clusters of blocks, of some whole rows, whose sums are those of four lanes.

    ::

        # before
        for i:  row[j] = sum(k, a[i, k]*b[k, j]);  mean = sum(j, row[j])/n;  ..;  c[i, j] = ..
        # after
        each cluster (by), each block of it (bx):
            row = the sums of a tile, in registers
            mean_part[bx] = sum(jj, row[jj])            # by the lanes of a row, in shared memory of the cluster
            mean = sum(bx, mean_part[bx])/n;  ..;  c = ..

    Parameters
    ----------
    rows, columns
        Of a tile; 256 columns at most.
    stages
        Buffers of tiles.
    blocks
        Of a cluster, 8 at most: the product has *columns* times *blocks* columns.
    """
    wide = [name for name, value in knl.temporaries.items() if value.shape]
    held = [*knl.temporaries]
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    if blocks == 1:
        knl = pl.rename_iname(knl, "j", "jj")
    else:
        knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj")
        for name in wide:
            knl = pl.split_array_axis(knl, name, 0, columns)
    knl = pl.privatize_temporaries_with_inames(knl, "i_block", held)
    knl = knl if blocks == 1 else _summed_by_clusters(knl)
    intrinsic = f"wgmma_m64n{columns}k16_{_word(knl)}"
    knl = on_groups_of_warps(
        knl, intrinsic, rows, columns, stages, lag=1, via="tma", within="id:product", divided=False
    )
    for name in held:  # as the lanes of an instruction have rows and columns
        first = int(blocks > 1)
        for length in (2, 4) if name in wide else ():
            knl = pl.split_array_axis(knl, name, first, length)
        for length in (8, 2, 4):
            knl = pl.split_array_axis(knl, name, first + 3 if name in wide else 0, length)
        if name in wide:  # neighbours of a row are neighbours
            axes = [f"N{6 + first - number + (number > first + 2)}" for number in range(7 + first)]
            axes[first + 2] = "N0"
            knl = pl.tag_array_axes(knl, name, ",".join(axes))
    return stored_by_boxes(pl.tag_inames(knl, "jj_reg_0:vec", force=True))


def on_tiles_and_warps(
    knl: pl.LoopKernel, rows: int = 128, columns: int = 256, stages: int = 4, group: int = 8, *, together: int = 4,
    persistent: bool = True, roles: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return a product that is stored in tiles, and a second launch, by warps, of what is computed of its rows.

    ::

        # before
        for i, j:  row[i, j] = sum(k, a[i, k]*b[k, j])
        for r:  mean = sum(t, row[r, t])/n;  ..;  c[r, t] = ..
        # after
        each block (by, bx):  row = the sums of a tile, by the copy engine
        each block, each warp of it:  some rows r of the launch before, in its registers;  mean;  ..;  c[r, t] = ..

    Rows may be as long as the registers of a warp hold, and the product has as many tiles in a row as it needs: a
    cluster for each row, as :func:`on_rows` has, leaves multiprocessors out.

    Parameters
    ----------
    rows, columns, stages, group, persistent, roles
        As for :func:`on_tiles`.
    together
        Rows that a warp computes at one time, so that more of them are on their way.
    """
    warps = rows // 16  # threads of a block are those of the product
    knl = pl.split_iname(knl, "t", 8, outer_iname="part", inner_iname="lane", inner_tag="vec")
    knl = pl.split_iname(knl, "part", 32, outer_iname="step", inner_iname="of_row", outer_tag="unr", inner_tag="l%32")
    for name in ("held", "away"):
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, 8), name, 0, 32)
    knl = pl.split_iname(knl, "r", warps * together, outer_iname="rows", inner_iname="r_block", outer_tag="g.0")
    knl = pl.split_iname(
        knl, "r_block", warps, outer_iname="r_step", inner_iname="warp", outer_tag="ilp", inner_tag="l/32"
    )
    intrinsic = f"wgmma_m64n{columns}k16_{_word(knl)}"
    knl = on_groups_of_warps(knl, intrinsic, rows, columns, stages, lag=1, via="tma", within="id:product")
    knl = stored_by_boxes(knl, "" if roles else "b_tile", "row", "id:product")
    knl = pl.order_blocks(knl, "bx", group=group)
    if roles:
        return in_turns_with_roles(knl, _MULTIPROCESSORS)
    return pl.persist_blocks(knl, _MULTIPROCESSORS, ahead=True) if persistent else knl


def _summed_by_clusters(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return a product of rows with sums over them in parts, one of each block ``bx`` of a cluster."""
    names = [i.id for i in knl.instructions if any("bx" in term.inames for term in i.terms) and i.id != "product"]
    for name in names:
        knl = pl.stage_reduction(
            knl, "bx", f"id:{name}", sweep_inames="i_block", new_inames=f"i_{name}, b_{name}",
            temporary_name=f"{name}_part", temporary_address_space="cluster",
        )  # fmt: skip
        knl = pl.duplicate_inames(knl, "bx", f"id:{name}", new_inames=f"x_{name}")
        knl = pl.tag_inames(knl, {f"b_{name}": "c.0"})
        inner = f"i_{name}"  # rows lie on lanes as those of the product do
        for size, tag, own in ((8, "l/4%8", "lane_0"), (2, "unr", "reg"), (4, "l/32%4", "lane_2")):
            outer = f"i_{name}_{own}_rest"
            knl = pl.split_iname(knl, inner, size, outer_iname=outer, inner_iname=f"i_{name}_{own}", inner_tag=tag)
            inner = outer
        knl = pl.tag_inames(knl, {inner: "l/128"})
    return pl.tag_inames(knl, "bx:c.0")


def on_converted_tiles(knl: pl.LoopKernel, rows: int = 128, columns: int = 128, stages: int = 3) -> pl.LoopKernel:
    """Return a product in tiles whose weights threads convert in shared memory, from as few bytes as were stored.

    ::

        # before
        for i, j:  c[i, j] = scale[j]*sum(k, a[i, k]*w(k, j))
        # after
        each block (by, bx), each tile of terms ko:
            a_tile, q_tile = parts of a and q, by the copy engine, *stages* - 1 ahead
            b_tile = w(q_tile)                                  # by threads, eight neighbours each
            the sums of a tile += a_tile*b_tile
    """
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = _with_staged_rule(knl, "by", rows, columns)
    swept = {"a": ("wg, ii_lane_0, ii_reg, ii_lane_2, kk, ki", 8), "q": ("wk, wj", 16)}
    if len(knl.arrays()["scale"].shape or ()) > 1:  # of groups of rows, read where weights are converted
        swept["scale"] = ("wk, wj", 4)
    for array, (inames, vec) in swept.items():
        knl = pl.add_prefetch(
            knl, array, inames, fetch_outer_inames="by, bx, ko", temporary_name=f"{array}_tile", vec=vec
        )
    lanes, threads = columns // 8, 2*rows
    # threads convert eight neighbours at once, of a panel of 64 columns
    knl = pl.split_iname(
        knl, "wj", 64, outer_iname="wj_panel", inner_iname="wj_part", outer_tag=f"l/8%{columns // 64}"
    )
    knl = pl.split_iname(
        knl, "wj_part", 8, outer_iname="wj_group", inner_iname="wj_lane", outer_tag="l%8", inner_tag="vec"
    )
    knl = _swizzled(knl, columns)
    knl = pl.split_iname(knl, "wk", threads // lanes, outer_iname="wk_step", inner_iname="wk_row", outer_tag="unr",
                         inner_tag=f"l/{lanes}")  # fmt: skip
    return stored_by_boxes(pl.pipeline(knl, "ko", stages=stages, via="tma"), "a_tile")


def _with_staged_rule(knl: pl.LoopKernel, around: str, rows: int, columns: int, lag: int = 0) -> pl.LoopKernel:
    """Return a product by ``wgmma`` whose second operand is the rule ``w``, of which ``b_tile`` has the values.

    Blocks have *rows* rows, the loop ``i_block``; *around* is the loop over these blocks.
    """
    word = _word(knl)
    knl = pl.split_iname(knl, "i_block", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    knl = pl.split_iname(knl, "k", 64, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    for iname in ("ii", "jj"):
        knl = pl.prioritize_loops(knl, f"ko, kk, ki, {iname}")
    knl = pl.precompute(
        knl, "w", "jj, kk, ki", precompute_outer_inames=f"{around}, bx, ko", precompute_inames="wk, wj",
        temporary_name="b_tile", temporary_address_space="local", default_tag=None,
    )  # fmt: skip
    return pl.tensorize(knl, "id:product", f"wgmma_m64n{columns}k16_{word}", lag=lag)


def _swizzled(knl: pl.LoopKernel, columns: int) -> pl.LoopKernel:
    """Return a product with its tiles as ``wgmma`` reads them: rows of 128 bytes, panels of 64 columns."""
    knl = in_panels(knl, "b_tile", 64) if columns > 64 else knl
    for tile in ("a_tile", "b_tile"):
        knl = pl.swizzle(knl, tile, bits=3, base=3, shift=3)
    return knl


def convolution(height: int, width: int, channels: int, taps: int = 3, dtype: Any = "bfloat16") -> pl.LoopKernel:
    """Return a convolution of images with *channels* channels, by filters of *taps* by *taps* pixels, as a product.

    ::

        for im, y, x, j:  c[im, y, x, j] = sum((dy, dx, ch), a[im, y + dy, x + dx, ch]*b[dy, dx, ch, j])

    Results have *height* by *width* pixels; images have ``taps - 1`` rows and columns more.
    """
    element = to_dtype(dtype)
    return pl.make_kernel(
        f"{{[im, y, x, j, dy, dx, ch]: 0 <= im < images and 0 <= y < {height} and 0 <= x < {width} and 0 <= j < n "
        f"and 0 <= dy, dx < {taps} and 0 <= ch < {channels}}}",
        "c[im, y, x, j] = sum((dy, dx, ch), a[im, y + dy, x + dx, ch]*b[dy, dx, ch, j])   {id=product}",
        [pl.GlobalArg("a", element, shape=f"images, {height + taps - 1}, {width + taps - 1}, {channels}"),
         pl.GlobalArg("b", element, shape=f"{taps}, {taps}, {channels}, n"),
         pl.GlobalArg("c", element, shape=f"images, {height}, {width}, n"), ...],
        name="convolution",
        target=_TARGET,
        assumptions="images >= 1 and n >= 1 and n mod 8 = 0",
    )  # fmt: skip


def on_pixels(
    knl: pl.LoopKernel, tile: tuple[int, int] = (8, 16), columns: int = 128, stages: int = 4, via: str = "tma"
) -> pl.LoopKernel:
    """Return a convolution as a product of pixels by filters, none of whose operands is copied beforehand.

    ::

        # before
        for im, y, x, j:  c[im, y, x, j] = sum((dy, dx, ch), a[im, y + dy, x + dx, ch]*b[dy, dx, ch, j])
        # after
        each block (im, by, bx), each step (dy, dx, 64 channels):
            a_tile = the pixels of the tile, moved by (dy, dx);  b_tile = the weights of this step
            the sums of the tile += a_tile*b_tile

    Parameters
    ----------
    tile
        Rows and columns of pixels of a block, whose number is a multiple of 64.
    via
        ``"tma"`` if tiles divide the image, otherwise ``"cp.async"``: copies of whole boxes have the pixels of others.
    """
    for iname, size, outer, inner in (("y", tile[0], "yo", "yi"), ("x", tile[1], "xo", "xi")):
        knl = pl.split_iname(knl, iname, size, outer_iname=outer, inner_iname=inner)
    knl = pl.join_inames(pl.join_inames(knl, "yo, xo", "by"), "yi, xi", "i_block")
    knl = pl.tag_inames(knl, "im:g.2, by:g.1")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="jj", outer_tag="g.0")
    knl = pl.split_iname(knl, "ch", 64, outer_iname="channel_step", inner_iname="k_block")
    knl = pl.join_inames(knl, "dy, dx, channel_step", "ko")
    return on_groups_of_warps(
        knl, f"wgmma_m64n{columns}k16_{_word(knl)}", stages=stages, columns=columns, lag=1, via=via,
        within="id:product", divided=False, term="",
    )  # fmt: skip


def grouped(rows: int = 128, dtype: Any = "bfloat16") -> pl.LoopKernel:
    """Return products of groups of rows, each with a matrix of its own: experts of a mixture.

    ::

        for tile, i, j:  c[rows*tile + i, j] = sum(k, a[rows*tile + i, k]*b[group[tile], k, j])

    Rows of a group lie together, and begin at a multiple of *rows*: ``group`` has the matrix of each tile of so many.
    """
    element = to_dtype(dtype)
    return pl.make_kernel(
        f"{{[tile, i, j, k]: 0 <= tile < tiles and 0 <= i < {rows} and 0 <= j < n and 0 <= k < p}}",
        f"""
        <> g = group[tile]                                         {{id=group}}
        w(row, column) := b[g, row, column]
        c[{rows}*tile + i, j] = sum(k, a[{rows}*tile + i, k]*w(k, j))     {{id=product}}
        """,
        [pl.GlobalArg("a", element, shape=f"{rows}*tiles, p"), pl.GlobalArg("b", element, shape="groups, p, n"),
         pl.GlobalArg("c", element, shape=f"{rows}*tiles, n"), pl.GlobalArg("group", np.int32, shape="tiles"), ...],
        name="grouped_product",
        target=_TARGET,
        assumptions="tiles >= 1 and groups >= 1 and n >= 1 and p >= 1 and n mod 128 = 0 and p mod 64 = 0",
    )  # fmt: skip


def on_groups(
    knl: pl.LoopKernel, rows: int = 128, columns: int = 128, stages: int = 4, group: int = 8, *,
    persistent: bool = True, roles: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return products of groups in tiles of *rows* rows and some columns, the matrix of each found by the copy engine.

    ::

        # before
        for tile, i, j:  c[rows*tile + i, j] = sum(k, a[rows*tile + i, k]*b[group[tile], k, j])
        # after
        each block (tile, bx):
            g = group[tile]
            a_tile, b_tile = parts of a and of matrix g, by the copy engine;  the sums of the tile += a_tile*b_tile

    With *roles*, a thread of its own finds the matrix and fetches tiles, in blocks of 128 rows that stay; results then
    have a place of their own, and there is room for fewer stages.
    """
    knl = pl.rename_iname(pl.tag_inames(knl, "tile:g.1"), "i", "i_block")
    knl = _with_staged_rule(knl, "tile", rows, columns, lag=1)
    knl = pl.add_prefetch(
        knl, "a", "wg, ii_lane_0, ii_reg, ii_lane_2, kk, ki", fetch_outer_inames="tile, bx, ko",
        temporary_name="a_tile", vec=8,
    )  # fmt: skip
    knl = pl.pipeline(_swizzled(knl, columns), "ko", stages=stages, via="tma")
    knl = pl.order_blocks(stored_by_boxes(knl, "" if roles else "b_tile"), "bx", group=group)
    knl = pl.persist_blocks(knl, _MULTIPROCESSORS) if persistent or roles else knl
    return with_roles(knl) if roles else knl
