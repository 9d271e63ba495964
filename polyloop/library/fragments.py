"""Parts of recipes of attention: temporaries as tensor cores leave results, and tiles as these read them."""

from __future__ import annotations

from typing import Any

import polyloop as pl
from polyloop.expr.dtypes import dtype_name, to_dtype

__all__ = ["check_heads", "in_fragments", "in_panels", "short_name"]


def short_name(knl: pl.LoopKernel, array: str) -> str:
    """Return the type of an array's elements, of 16 bits, as names of instructions have it."""
    element = knl.arrays()[array].dtype
    assert element is not None, "the types of a library's programs are stated"
    return {"bfloat16": "bf16", "float16": "f16"}[dtype_name(element)]


def in_fragments(knl: pl.LoopKernel, rows: tuple[int, ...], *known: str) -> pl.LoopKernel:
    """Return *knl* with the axes of temporaries divided as tensor cores leave results: a thread has some of each.

    Those of *known* are divided that the program has.  A second axis of four is that of the lanes of a row.
    """
    names = tuple(name for name in known if name in knl.temporaries)
    wide = [name for name in names if (knl.temporaries[name].shape or ())[1:] not in ((), (4,))]
    for axis, lengths, own in ((1, (2, 4), wide), (0, rows, names)):
        for length in lengths:
            knl = pl.split_array_axis(knl, own, axis, length)
    return knl


def in_panels(knl: pl.LoopKernel, tile: str, head: int) -> pl.LoopKernel:
    """Return *knl* with a *tile* of rows of *head* elements, of 16 bits, in panels of 128 bytes, swizzled."""
    if head > 64:
        axes = len(knl.temporaries[tile].shape or ())
        knl = pl.split_array_axis(knl, tile, axes - 1, 64)
        knl = pl.tag_array_axes(knl, tile, ",".join([*(f"N{axes - n}" for n in range(axes - 2)), "N1", "N2", "N0"]))
    return pl.swizzle(knl, tile, bits=3, base=3, shift=3)


def check_heads(kernel: str, dtype: Any, head: int, group: int) -> None:
    """Raise an error unless there are schedules for heads of *head* elements of *dtype*, in groups of *group*.

    Raises
    ------
    ArgumentError
        ``wrong-dtype``, ``bad-value``.
    """
    name = dtype_name(to_dtype(dtype, kernel))
    if name not in ("bfloat16", "float16"):
        raise pl.ArgumentError(kernel, None, [pl.Diagnostic(
            "wrong-dtype", f"the library has no {kernel} of {name}", (),
            ("pass bfloat16 or float16, or schedule the program yourself: "
             "polyloop.library.attention.program(dtype, head)",))])
    if head not in (64, 128, 256) or group < 1:
        what = f"a head of {head} elements" if group > 0 else f"{group} heads of queries for one of keys"
        raise pl.ArgumentError(kernel, None, [pl.Diagnostic(
            "bad-value", f"the library has no {kernel} with {what}", (),
            ("pad q, k and v with zeros to 64, 128 or 256 elements: scores stay as they are" if group > 0
             else "pass group=1 where each head of queries has keys of its own",))])
