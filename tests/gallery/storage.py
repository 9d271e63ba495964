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


def _directions_case(n: int, rng: np.random.Generator) -> Case:
    p = np.asfortranarray(rng.random((n, 3), dtype=F) + F(0.5))
    return {"p": p}, {"d": p / np.sqrt((p * p).sum(1, keepdims=True)), "step": np.diff(p, axis=1)}


@example(_directions_case)
def structure_of_arrays() -> pl.LoopKernel:
    data = [pl.GlobalArg("p, d", F, shape="n, 3", dim_tags="N0,sep"), pl.GlobalArg("step", F, shape="n, 2"), ...]
    text = """
        <> norm = sqrt(sum(k, p[i, k]*p[i, k]))
        d[i, l] = p[i, l]/norm
        step[i, l] = p[i, l + 1] - p[i, l]   {if=l < 2}
        """
    domain = "{[i, k, l]: 0 <= i < n and 0 <= k, l < 3}"
    knl = pl.make_kernel(domain, text, data, name="structure_of_arrays")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "k:unr, l:unr")


def _passes_case(n: int, rng: np.random.Generator) -> Case:
    planes = rng.random((2, n, n + 1), dtype=F)
    moved = np.stack([planes[1] + F(1), planes[0] - F(1)])
    return {"u": planes}, {"v": moved, "w": moved[0, ::-1] + moved[1]}


@example(_passes_case)
def planes_in_two_launches() -> pl.LoopKernel:
    planes = pl.GlobalArg("u, v", F, shape="2, n, m", dim_tags="sep,N1,N0")
    text = """
        v[0, i, j] = u[1, i, j] + 1
        v[1, i, j] = u[0, i, j] - 1
        w[ii, jj] = v[0, n - 1 - ii, jj] + v[1, ii, jj]
        """
    domain = "{[i, j, ii, jj]: 0 <= i, ii < n and 0 <= j, jj < m}"
    knl = pl.make_kernel(domain, text, [planes, ...], name="planes_in_two_launches")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "jj", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "i:g.1, ii:g.1")


def _quaternions_case(n: int, rng: np.random.Generator) -> Case:
    q = rng.random((n, 4))
    s = rng.random((2, n, 2), dtype=F)
    conjugate = q * np.array([1, -1, -1, -1])
    return {"q": q, "s": s}, {"c": conjugate, "t": s[::-1, :, ::-1] * F(2)}


@example(_quaternions_case)
def vector_components() -> pl.LoopKernel:
    data = [
        pl.GlobalArg("q, c", np.float64, shape="n, 4", dim_tags="N0,vec"),
        pl.GlobalArg("s, t", F, shape="2, n, 2", dim_tags="sep,N0,vec"),
        ...,
    ]
    text = """
        c[i, 0] = q[i, 0]
        c[i, k + 1] = -q[i, k + 1]
        t[a, i, b] = 2*s[1 - a, i, 1 - b]
        """
    domain = "{[i, k, a, b]: 0 <= i < n and 0 <= k < 3 and 0 <= a, b < 2}"
    knl = pl.make_kernel(domain, text, data, name="vector_components")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "k:unr, a:unr, b:unr")
