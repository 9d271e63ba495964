"""How values are stored: temporaries that share storage, temporaries in other layouts."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _two_tiles_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 16), dtype=F)
    return {"a": a}, {"b": a[:, ::-1], "c": np.cumsum(a.astype(np.float64), 1)[:, ::-1]}


@example(_two_tiles_case)
def two_tiles_in_one_pool() -> pl.LoopKernel:
    data = [
        pl.GlobalArg("a, b", F, shape="n, 16"),
        pl.GlobalArg("c", np.float64, shape="n, 16"),
        pl.TemporaryVariable("row", F, shape=16, address_space="local", base_storage="pool"),
        pl.TemporaryVariable("sums", np.float64, shape=16, address_space="local", base_storage="pool"),
        ...,
    ]
    text = """
        for g
            row[i] = a[g, i]
            b[g, j] = row[15 - j]
            sums[p] = sum(q, a[g, q])
            c[g, r] = sums[15 - r]
        end
        """
    domain = "{[g, i, j, p, q, r]: 0 <= g < n and 0 <= i, j, p, r < 16 and 0 <= q <= p}"
    knl = pl.make_kernel(domain, text, data, name="two_tiles_in_one_pool")
    return pl.tag_inames(knl, "g:g.0, i:l.0, j:l.0, p:l.0, r:l.0")


def _pool_in_a_loop_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 8), dtype=F)
    return {"a": a}, {"b": np.float32(2) * a[:, ::-1]}


@example(_pool_in_a_loop_case)
def pool_in_a_loop() -> pl.LoopKernel:
    pool = [pl.TemporaryVariable(name, F, shape=8, address_space="local", base_storage="mem") for name in ("x", "y")]
    text = """
        for s
            x[i] = a[s, i]
            <> twice[j] = 2*x[7 - j]
            y[k] = twice[k]
            b[s, l] = y[l]
        end
        """
    data = [pl.GlobalArg("a, b", F, shape="n, 8"), *pool, ...]
    knl = pl.make_kernel("{[s, i, j, k, l]: 0 <= s < n and 0 <= i, j, k, l < 8}", text, data, name="pool_in_a_loop")
    return pl.tag_inames(knl, "i:l.0, j:l.0, k:l.0, l:l.0")


def _transposed_tile_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, 7, 5), dtype=F)
    return {"a": a}, {"b": a.transpose(0, 2, 1)}


@example(_transposed_tile_case)
def column_major_tile() -> pl.LoopKernel:
    tile = pl.TemporaryVariable("t", F, shape=(7, 5), address_space="local", order="F", padding=1)
    text = """
        for g
            t[i, j] = a[g, i, j]
            b[g, jj, ii] = t[ii, jj]
        end
        """
    domain = "{[g, i, j, ii, jj]: 0 <= g < n and 0 <= i, ii < 7 and 0 <= j, jj < 5}"
    data = [pl.GlobalArg("a", F, shape="n, 7, 5"), pl.GlobalArg("b", F, shape="n, 5, 7"), tile, ...]
    knl = pl.make_kernel(domain, text, data, name="column_major_tile")
    return pl.tag_inames(knl, "g:g.0, i:l.1, j:l.0, ii:l.0, jj:l.1")
