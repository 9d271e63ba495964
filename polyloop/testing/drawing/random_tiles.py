"""Random layouts under wide accesses: tiles filled by vectors, then padded, swizzled, in other orders and strides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_kernels import Source

__all__ = ["TILES", "layout_step", "tile_recipe", "tile_source"]

TILES: Final = "wide tiles"
"""The feature of a source of :func:`tile_source`."""
_DTYPES: Final = ("int8", "int16", "float16", "int32", "float32", "int64", "float64", "complex64")
_BODIES: Final[Mapping[str, int]] = {
    "b[i, j] = a[i, j]": 0,
    "b[j, i] = a[i, j]": 0,
    "b[i, j] = 3*a[i, j]": 0,
    "b[i, j] = a[i, j] + a[i, j + 1]": 1,
    "b[i, j] = a[i + 1, j] + a[i, j + 1]": 1,
}
"""Statements, and whether they read beyond their own element."""


def tile_source(seed: int) -> Source:
    """Return the text of a kernel over a square of whole tiles."""
    rng = random.Random(seed)
    body, more = rng.choice(list(_BODIES.items()))
    dtype, extent = np.dtype(rng.choice(_DTYPES)), _tile(seed) * rng.choice((1, 2))
    whole = extent + 16 * more
    data = (GlobalArg("a", dtype, shape=f"{whole}, {whole}"), GlobalArg("b", dtype))
    return Source(f"layout_{seed}", (f"{{[i, j]: 0 <= i, j < {extent}}}",), (body,), data, features=(TILES,))


def _tile(seed: int) -> int:
    return random.Random(seed + 1).choice((8, 16, 16, 32))


def tile_recipe(seed: int) -> Iterator[Step]:
    """Yield steps for the kernel of *seed*: tiles, a vector copy, and changes of its layout."""
    rng, tile = random.Random(seed + 2), _tile(seed)
    yield Step("split_iname", {"split_iname": "i", "inner_length": tile, "outer_tag": "g.1", "inner_tag": "l.1"})
    yield Step("split_iname", {"split_iname": "j", "inner_length": tile, "outer_tag": "g.0", "inner_iname": "t"})
    inner = rng.choice((1, 1, 2, 4))
    more = {"inner_tag": rng.choice(("vec", "unr"))} if inner > 1 else {}
    yield Step("split_iname", {"split_iname": "t", "inner_length": inner, "outer_tag": "l.0", **more})
    fetch: dict[str, Any] = {"var_name": "a", "sweep_inames": ["i_inner", "t_outer", "t_inner"]}
    yield Step("add_prefetch", {**fetch, "vec": rng.choice((2, 4, 8, 16))})
    yield Step("add_prefetch", fetch)  # where rows have another length, and the vectors are refused
    for _ in range(rng.randint(1, 3)):
        yield layout_step(rng, "a_fetch")


def layout_step(rng: random.Random, name: str) -> Step:
    """Return a random layout of a tile."""
    choice = rng.randrange(6)
    if choice == 0:
        axis, align = rng.choice((0, 0, 1)), rng.choice((4, 8, 16, 20, 36, 64, 144))
        return Step("add_padding", {"variable": name, "axis": axis, "align_bytes": align})
    if choice == 1:
        tags = rng.choice(("N0,N1", "N1,N0", "N0(pad=4),N1", "N1,N0(pad=16)", "F"))
        return Step("tag_array_axes", {"ary_names": name, "dim_tags": tags})
    if choice == 2:
        row = rng.choice((16, 17, 20, 24, 33, 40))
        tags = rng.choice((f"stride:{row},stride:1", f"stride:1,stride:{row}", f"stride:{2 * row},stride:2"))
        return Step("tag_array_axes", {"ary_names": name, "dim_tags": tags})
    if choice == 3:
        return Step("swizzle", {"ary_name": name})
    bits, base, shift = rng.randint(1, 4), rng.randint(0, 4), rng.randint(1, 6)
    return Step("swizzle", {"ary_name": name, "bits": bits, "base": base, "shift": shift})
