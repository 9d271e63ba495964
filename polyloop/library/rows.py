"""Softmax and layer norm of the rows of a matrix."""

from __future__ import annotations

from functools import cache, partial
from math import gcd
from typing import Any, Final

import numpy as np

import polyloop as pl
from polyloop.expr.dtypes import to_dtype
from polyloop.library.elements import element_type
from polyloop.library.records import ready

__all__ = ["layer_norm", "softmax"]

_BYTES: Final = 16
"""Bytes that a thread loads or stores at once, at most."""


_BITS: Final = "1.44269504"
"""The binary logarithm of e: the device has an instruction for powers of 2 alone."""


def _computed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of sums: float32 for 16-bit types."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def softmax_program(dtype: Any = np.float32) -> pl.LoopKernel:
    """Return softmax as it is written: ``y[i, k] = exp(x[i, k] - max x[i])/sum(exp(x[i] - max x[i]))``.

    A row is held as it is stored.  Powers of 16-bit elements are those of the device's own instruction, whose error is
    far below that of their results.
    """
    element = to_dtype(dtype)
    wide, own, power = _computed(element), "", "exp(cast({wide}, row[k]) - top)"
    if element.itemsize < 4:
        own, power = "   {precision=fast}", f"exp2((cast({{wide}}, row[k]) - top)*{_BITS})"
    return pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        f"""
        for i
            <> row[k] = x[i, k]
            <> top = max(k, cast({wide}, row[k]))
            <> power[k] = {power.format(wide=wide)}{own}
            <> scale = 1/sum(k, power[k]){own}
            y[i, k] = power[k]*scale{own}
        end
        """,
        [pl.GlobalArg("x, y", element, shape="m, n"), pl.TemporaryVariable("row", element, shape="n"),
         pl.TemporaryVariable("power", wide, shape="n"), pl.TemporaryVariable("top, scale", wide), ...],
        name="softmax",
        assumptions="m >= 1 and n >= 1",
    )  # fmt: skip


def layer_norm_program(dtype: Any = np.float32, eps: float = 1e-5) -> pl.LoopKernel:
    """Return layer norm as it is written: rows of mean 0 and variance 1, times ``gamma``, plus ``beta``.

    A row is held as it is stored.
    """
    element = to_dtype(dtype)
    wide = _computed(element)
    return pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        f"""
        for i
            <> row[k] = x[i, k]
            <> mean = sum(k, cast({wide}, row[k]))/n
            <> away[k] = cast({wide}, row[k]) - mean
            <> scale = rsqrt(sum(k, away[k]*away[k])/n + {eps})
            y[i, k] = away[k]*scale*gamma[k] + beta[k]
        end
        """,
        [pl.GlobalArg("x, y", element, shape="m, n"), pl.GlobalArg("gamma, beta", element, shape="n"),
         pl.TemporaryVariable("row", element, shape="n"), pl.TemporaryVariable("away", wide, shape="n"),
         pl.TemporaryVariable("mean, scale", wide), ...],
        name="layer_norm",
        assumptions="m >= 1 and n >= 1",
    )  # fmt: skip


def _held(knl: pl.LoopKernel) -> tuple[str, ...]:
    """Return the temporaries that have an element for each of a row."""
    return tuple(name for name, temporary in knl.temporaries.items() if temporary.shape)


def in_registers(
    program: pl.LoopKernel, threads: int, rows: int, most: int, blocks: int = 1, *, n: int, anew: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return *program* for rows of *n* elements, each in the registers of some threads from its load to its store.

    ::

        # before
        for i:  row[k] = x[i, k];  ..;  y[i, k] = ..
        # after
        each block: some rows i;  each thread t of a row:
            for step, lane:  row[step, lane] = x[i, (step*threads + t)*vec + lane]
            ..                                          # sums and maxima of the threads together
            for step, lane:  y[i, ..] = ..

    Parameters
    ----------
    threads
        Of a row, in a block.
    rows
        Of a block.
    most
        Elements of a row that a thread keeps.
    blocks
        Of a row: those of a cluster, which run at the same time, and combine their sums and maxima.
    anew
        Whether a thread keeps a row alone, and computes the rest again where it is read: 16-bit elements then take
        half as many registers, and twice as many threads run.
    """
    vec = _vector(program, n)
    knl = pl.fix_parameters(pl.assume(program, f"n <= {blocks * threads * most}"), n=n)
    for name in _held(knl)[1:] if anew else ():
        knl = recomputed(knl, name)
    held = _held(knl)
    knl = pl.split_iname(knl, "k", vec, outer_iname="part", inner_iname="lane", inner_tag="vec" if vec > 1 else "unr")
    knl = pl.split_iname(knl, "part", blocks * threads, outer_iname="step", outer_tag="unr", inner_iname="t")
    if blocks > 1:
        knl = pl.split_iname(knl, "t", threads, outer_iname="block", outer_tag="c.0", inner_iname="t_block")
    knl = pl.tag_inames(knl, {"t" if blocks == 1 else "t_block": "l.0"})
    for name in held:  # [step, block, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(pl.split_array_axis(knl, name, 0, vec), name, 0, blocks * threads)
        knl = knl if blocks == 1 else pl.split_array_axis(knl, name, 1, threads)
    if rows == 1:
        return pl.tag_inames(knl, "i:g.0")
    return pl.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")


def in_shared(program: pl.LoopKernel, threads: int, blocks: int = 1, *, n: int) -> pl.LoopKernel:
    """Return *program* for rows of *n* elements, each in the shared memory of a block, or of the blocks of a cluster.

    ::

        # before
        for i:  row[k] = x[i, k];  ..;  y[i, k] = ..
        # after
        each cluster i, each block of it, with a part of the row in its shared memory:
            for step:  row[block, (step*threads + t)*vec ..] = x[i, ..]
            ..                                          # sums and maxima of the threads of all blocks together
            for step:  y[i, ..] = ..
    """
    vec = _vector(program, n)
    name, *others = _held(program)
    size = program.temporaries[name].dtype
    assert size is not None, "the types of a library's programs are stated"
    knl = pl.fix_parameters(pl.assume(program, f"n <= {blocks * (_SHARED // size.itemsize)}"), n=n)
    for other in others:
        knl = recomputed(knl, other)
    knl = pl.split_iname(knl, "k", vec, outer_iname="part", inner_iname="lane", inner_tag="vec" if vec > 1 else "unr")
    if blocks > 1:
        parts = -(-n // (vec * blocks))
        knl = pl.split_iname(knl, "part", parts, outer_iname="block", outer_tag="c.0", inner_iname="part_in")
        knl = pl.split_array_axis(knl, name, 0, vec * parts)
    knl = pl.set_temporary_address_space(knl, name, "local" if blocks == 1 else "cluster")
    part = "part" if blocks == 1 else "part_in"
    knl = pl.split_iname(knl, part, threads, outer_iname="step", inner_iname="t", inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.0")


_SHARED: Final = 224 * 1024
"""Shared memory of a block on Hopper, less what sums of threads need [bytes]."""


def in_turns(
    program: pl.LoopKernel, threads: int, clusters: int, blocks: int, stages: int, *, n: int, kept: bool = False,
) -> pl.LoopKernel:  # fmt: skip
    """Return *program* with as many clusters as run at once, each of which takes one row after the other.

    ::

        # before
        for i:  row[k] = x[i, k];  ..;  y[i, k] = ..
        # after
        each cluster, each block of it, with a part of each row:
            for turn:                                   # i = turn*clusters + cluster
                x_row[(turn + stages - 1) % stages, ..] = x[..]         # on its way, for a later turn
                row[step, lane] = x_row[turn % stages, ..]
                ..                                      # sums and maxima of the threads of all blocks together
                for step, lane:  y[i, ..] = ..

    Copies of the next rows keep the memory busy while threads combine what they have, and store.

    Parameters
    ----------
    clusters
        Those that run at once: with more, the others begin when all rows of the first ones are done.
    stages
        Rows in the shared memory of a cluster, of which one is in use.
    kept
        Whether what all rows are multiplied by, or added to, stays in shared memory from the first turn to the last.
    """
    size = _size(program)
    vec, held = _vector(program, n), [*_held(program)]
    others = [argument.name for argument in program.arguments if argument.name in ("gamma", "beta")] if kept else []
    most = blocks * (_SHARED // (size * (stages + len(others))))
    knl = pl.fix_parameters(pl.assume(program, f"n <= {most}"), n=n)
    for name in held[1:] if size < 4 else ():  # two instructions an element cost less than registers for float32
        knl = recomputed(knl, name)
    held = [*_held(knl)]
    knl = pl.split_iname(knl, "i", clusters, outer_iname="turn", inner_iname="cluster", inner_tag="g.0")
    knl = pl.split_iname(knl, "k", vec, outer_iname="part", inner_iname="lane", inner_tag="vec" if vec > 1 else "unr")
    parts = -(-n // (vec * blocks))
    if blocks > 1:
        knl = pl.split_iname(knl, "part", parts, outer_iname="block", outer_tag="c.0", inner_iname="part_in")
    knl = pl.split_iname(
        knl, "part" if blocks == 1 else "part_in", threads, outer_iname="step", outer_tag="unr", inner_iname="t",
        inner_tag="l.0",
    )  # fmt: skip
    for name in held:  # [block, step, thread, lane], of which each thread has its own
        knl = pl.split_array_axis(knl, name, 0, vec)
        knl = knl if blocks == 1 else pl.split_array_axis(knl, name, 0, parts)
        knl = pl.split_array_axis(knl, name, 0 if blocks == 1 else 1, threads)
    around = "cluster" if blocks == 1 else "cluster, block"
    for array, outer in (*((name, around) for name in others), ("x", f"turn, {around}")):
        knl = pl.add_prefetch(
            knl, array, "step, t, lane", temporary_name=f"{array}_row", temporary_address_space="local",
            vec=vec if vec > 1 else None, fetch_outer_inames=outer,
        )  # fmt: skip
    return pl.pipeline(knl, "turn", stages, producers="x_row", via="cp.async")


def in_one_piece(program: pl.LoopKernel, threads: int, rows: int, *, n: int) -> pl.LoopKernel:
    """Return *program* with some rows of a block copied as one piece of memory, for rows that begin anywhere.

    ::

        # before
        for i:  row[k] = x[i, k];  ..;  y[i, k] = ..
        # after
        each block: some rows i:
            for f:  x_rows[f] = x[..]                   # f = i_inner*n + k, by vectors across the ends of rows
            each thread t of a row:
                for step:  row[step] = x_rows[i_inner*n + step*threads + t]
                ..                                      # sums and maxima of the threads together
                for step:  y_rows[i_inner*n + step*threads + t] = ..
            for f:  y[..] = y_rows[f]

    A row of an odd number of elements begins at no multiple of 16 bytes, but every eighth one does.

    Parameters
    ----------
    threads
        Of a row, in a block.
    rows
        Of a block.
    """
    size = _size(program)
    vec, most = gcd(rows * n, _BYTES // size), _SHARED // size // rows
    knl = pl.fix_parameters(pl.assume(program, f"n <= {min(most, 64 * threads)}"), n=n)
    for name in _held(knl)[1:] if size < 4 else ():
        knl = recomputed(knl, name)
    held = _held(knl)
    knl = pl.split_iname(knl, "i", rows, outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", threads, outer_iname="step", outer_tag="unr", inner_iname="t", inner_tag="l.0")
    for name in held:
        knl = pl.split_array_axis(knl, name, 0, threads)
    swept = "i_inner, step, t"
    knl = pl.add_prefetch(
        knl, "x", swept, ["x_row", "x_k"], temporary_name="x_rows", temporary_address_space="local", default_tag=None,
        fetch_outer_inames="i_outer",
    )  # fmt: skip
    knl = pl.buffer_array(knl, "y", swept, default_tag=None, temporary_address_space="local", temporary_name="y_rows")
    for name, loops in (("x_rows", "x_row, x_k"), ("y_rows", "y_rows_store_0, y_rows_store_1")):
        knl = pl.tag_array_axes(knl, name, f"stride:{n}, stride:1")
        knl = pl.join_inames(knl, loops, f"{name}_at")
        knl = pl.split_iname(knl, f"{name}_at", vec, outer_iname=f"{name}_part", inner_tag="vec" if vec > 1 else "unr")
        knl = pl.split_iname(knl, f"{name}_part", rows * threads, outer_tag="unr", inner_iname=f"{name}_thread")
        knl = pl.split_iname(knl, f"{name}_thread", threads, outer_tag="l.1", inner_tag="l.0")
    return pl.alias_temporaries(knl, ["x_rows", "y_rows"]) if 2 * rows * n * size > _SMALL else knl


_SMALL: Final = 48 * 1024
"""Limit on shared memory that the text of a block declares; two arrays with more are one after the other [bytes]."""


def in_passes(program: pl.LoopKernel, threads: int, vec: int = 1) -> pl.LoopKernel:
    """Return *program* with a block a row, which is read anew for each sum: for rows of any length."""
    knl = program if vec == 1 else pl.assume(program, f"n mod {vec} = 0")
    for name in _held(knl):
        knl = recomputed(knl, name)
    knl = pl.split_iname(knl, "k", vec, outer_iname="part", inner_iname="lane", inner_tag="vec" if vec > 1 else "unr")
    knl = pl.split_iname(knl, "part", threads, outer_iname="step", inner_iname="t", inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.0")


def recomputed(knl: pl.LoopKernel, name: str) -> pl.LoopKernel:
    """Return *knl* with a temporary array computed anew where it is read."""
    return pl.expand_subst(pl.assignment_to_subst(knl, name))


def _vector(program: pl.LoopKernel, n: int) -> int:
    """Return the number of elements of a row of *n* that are loaded at once."""
    return gcd(n, _BYTES // _size(program))


def _size(program: pl.LoopKernel) -> int:
    """Return the size of an element of the rows [bytes]."""
    return next(argument.dtype.itemsize for argument in program.arguments if argument.name == "x" and argument.dtype)


def _schedules(program: pl.LoopKernel) -> dict[str, Any]:
    """Return the schedules of a program of rows: threads of a row double with its length."""
    vec = _vector(program, _BYTES)
    return {
        "8 threads a row, 32 a block": partial(in_registers, program, 8, 32, 32),
        "16 threads a row, 16 a block": partial(in_registers, program, 16, 16, 32),
        "64 threads a row, 4 a block": partial(in_registers, program, 64, 4, 32),
        "a warp a row, 8 a block": partial(in_registers, program, 32, 8, 32),
        "a warp a row, 4 a block": partial(in_registers, program, 32, 4, 32),
        "128 threads a row": partial(in_registers, program, 128, 1, 32),
        "128 threads a row, 2 a block": partial(in_registers, program, 128, 2, 32),
        "256 threads a row, 2 a block": partial(in_registers, program, 256, 2, 32),
        "256 threads a row": partial(in_registers, program, 256, 1, 32),
        "512 threads a row": partial(in_registers, program, 512, 1, 64),
        "1024 threads a row": partial(in_registers, program, 1024, 1, 32),
        "a cluster of 2 a row, 1024 threads": partial(in_registers, program, 1024, 1, 32, 2),
        "a cluster of 4 a row": partial(in_registers, program, 512, 1, 32, 4),
        "a cluster of 4 a row, 1024 threads": partial(in_registers, program, 1024, 1, 32, 4),
        "a cluster of 8 a row": partial(in_registers, program, 512, 1, 32, 8),
        "a cluster of 8 a row, 1024 threads": partial(in_registers, program, 1024, 1, 32, 8),
        "a cluster of 4 a row, in shared memory": partial(in_shared, program, 512, 4),
        "a cluster of 8 a row, in shared memory": partial(in_shared, program, 512, 8),
        "a cluster of 4 a row, in shared memory, 256 threads": partial(in_shared, program, 256, 4),
        "a cluster of 8 a row, in shared memory, 256 threads": partial(in_shared, program, 256, 8),
        "1024 threads a row, in shared memory": partial(in_shared, program, 1024),
        "15 clusters of 8, rows in turn": partial(in_turns, program, 1024, 15, 8, 1),
        "30 clusters of 8, rows in turn": partial(in_turns, program, 512, 30, 8, 1),
        "1024 threads a row, vectors, several passes": partial(in_passes, program, 1024, vec),
        "1024 threads a row, several passes": partial(in_passes, program, 1024),
        "256 threads a row, several passes": partial(in_passes, program, 256),
    }


@cache
def softmax(dtype: Any = np.float32, *, target: pl.Target | None = None, device: str | None = None) -> pl.Dispatcher:
    """Return the softmax of each row of a matrix: ``y[i] = exp(x[i] - max x[i])/sum(exp(x[i] - max x[i]))``.

    ::

        y = softmax()(x=x).y                       # x and y have m rows of n elements
        print(softmax().choose(m=4096, n=1000))    # the schedule for these sizes, and why

    Rows that fit into the registers of a block, or of a cluster of blocks, are read once; there is a program for each
    length of them, made at the first call.  Sums of 16-bit elements are in float32.

    Parameters
    ----------
    dtype
        Of the elements: float64, float32, bfloat16 or float16.
    target, device
        As for :func:`polyloop.dispatch`.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``: another type.

    Notes
    -----
    Source: M. Milakov, N. Gimelshein, Online normalizer calculation for softmax, 2018, for what rows read several
    times cost.
    """
    element = element_type("softmax", dtype, "polyloop.library.rows.softmax_program(dtype)")
    program = softmax_program(element)
    return ready("softmax", element, program, _schedules(program), target, device)


@cache
def layer_norm(dtype: Any = np.float32, *, target: pl.Target | None = None, device: str | None = None) -> pl.Dispatcher:
    """Return the layer norm of each row of a matrix: mean 0 and variance 1, times ``gamma``, plus ``beta``.

    ::

        y = layer_norm()(x=x, gamma=gamma, beta=beta).y      # x and y have m rows of n elements, gamma and beta n

    As :func:`softmax`; 1e-5 is added to the variance.

    Parameters
    ----------
    dtype
        Of the elements: float64, float32, bfloat16 or float16.
    target, device
        As for :func:`polyloop.dispatch`.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``: another type.

    Notes
    -----
    Source: J. L. Ba, J. R. Kiros, G. E. Hinton, Layer Normalization, 2016, https://arxiv.org/abs/1607.06450.
    """
    element = element_type("layer_norm", dtype, "polyloop.library.rows.layer_norm_program(dtype)")
    program = layer_norm_program(element)
    return ready("layer_norm", element, program, _schedules(program), target, device)
