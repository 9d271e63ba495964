"""Random tiles that a copy engine fills or stores: halos, edges, layouts, loops, and copies that are no boxes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from polyloop.kernel.text.specs import GlobalArg
from polyloop.testing.drawing.random_chains import Step
from polyloop.testing.drawing.random_kernels import Source
from polyloop.testing.drawing.random_tiles import layout_step, tile_source

__all__ = ["BOXES", "box_recipe", "box_source", "staged_source"]

BOXES: Final = "boxes"
"""The feature of a source of :func:`box_source`."""
_SHARE: Final = 0.4
_DTYPES: Final = ("int8", "uint16", "int32", "float32", "float32", "float64", "complex64")
_BODIES: Final = (
    "o[t, i, j] = u[t, i, j] + u[t, i, j + 1]",
    "o[t, i, j] = u[t, i, j]*t",
    "o[t, i, j] = u[t + 1, i + 2, j] - u[t + 1, i, j]",
    "o[t, i, j] = u[t, i, 31 - j]",
    "o[t, i, j] = u[n - t, i, j + 4]",
    "o[t, i, j] = u[t, i, 2*j]",
    "o[t, i, j] = u[t, i, j] {if=j > 2}",
    "o[t, i, j] = o[t, i, j] + u[0, t, j]",
    "o[n, i, j] = sum(t, u[t, i, j])",
    "o[i, j + 4, 3] = sum(t, u[t, i, j]*u[t, i, j])",
)
_ROWS: Final = ("0 <= i < n", "1 <= i < n", "0 <= i < 6", "0 <= i <= t", "i = 0")
_COLUMNS: Final = ("0 <= j < 16", "0 <= j < 16", "0 <= j < n", "0 <= j <= i", "3 <= j < 15")
_SHAPE: Final = "n + 4, n + 9, 32"


def staged_source(rng: random.Random, seed: int) -> Source:
    """Return the text of a kernel with tiles in shared memory: boxes for a copy engine, or tiles of many layouts."""
    return box_source(seed) if rng.random() < _SHARE else tile_source(seed)


def box_source(seed: int) -> Source:
    """Return the text of a kernel that reads planes of an array one after the other."""
    rng = random.Random(seed + 31)
    domain = f"[n] -> {{[t, i, j]: 0 <= t < n and {rng.choice(_ROWS)} and {rng.choice(_COLUMNS)}}}"
    dtype = np.dtype(rng.choice(_DTYPES))
    data = (GlobalArg("u", dtype, shape=_SHAPE), GlobalArg("o", dtype, shape=_SHAPE), ...)
    return Source(f"boxes_{seed}", (domain,), (rng.choice(_BODIES),), data, features=(BOXES,))


def box_recipe(seed: int) -> Iterator[Step]:
    """Yield steps for the kernel of *seed*: threads, a tile, perhaps another layout, and copies of boxes."""
    rng = random.Random(seed + 37)
    rows, columns = rng.choice((2, 4, 8)), rng.choice((8, 16, 16, 32))
    yield Step("split_iname", {"split_iname": "i", "inner_length": rows, "outer_tag": "g.1", "inner_tag": "l.1"})
    yield Step("split_iname", {"split_iname": "j", "inner_length": columns, "outer_tag": "g.0", "inner_tag": "l.0"})
    yield Step("prioritize_loops", {"loop_priority": "t"})
    sweep = rng.choice((["i_inner", "j_inner"], ["i_inner", "j_inner"], ["i", "j_inner"], ["j_inner"]))
    fetch: dict[str, Any] = {"var_name": "u", "sweep_inames": sweep, "temporary_address_space": "local"}
    yield Step("add_prefetch", fetch)
    if rng.random() < 0.3:
        yield layout_step(rng, "u_fetch")
    if rng.random() < 0.3:
        yield Step("swizzle", {"ary_name": "u_fetch", "bits": 3, "base": rng.choice((1, 2, 3)), "shift": 3})
    via = rng.choice(("tma", "tma", "cp.async"))
    yield Step("pipeline", {"iname": "t", "stages": rng.choice((2, 2, 3, 5)), "via": via})
    if rng.random() < 0.4:
        buffer = {"temporary_name": "o_tile", "temporary_address_space": "local", "default_tag": "box"}
        yield Step("buffer_array", {"var_name": "o", "buffer_inames": sweep, **buffer})
        if rng.random() < 0.3:
            yield Step("swizzle", {"ary_name": "o_tile", "bits": 3, "base": rng.choice((1, 2, 3)), "shift": 3})
        if rng.random() < 0.4:
            yield Step("alias_temporaries", {"names": ["u_fetch", "o_tile"]})
