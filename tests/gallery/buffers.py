"""Arrays worked on in registers or shared memory (``buffer_array``), tiles in one place (``alias_temporaries``)."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _matmul_case(n: int, rng: np.random.Generator) -> Case:
    a, b, c = (rng.random((n, n), dtype=F) for _ in range(3))
    return {"a": a, "b": b, "c": c}, {"c": c + a @ b}


@example(_matmul_case, sizes=(1, 9, 33))
def matmul_in_registers() -> pl.LoopKernel:
    """Each thread updates 2 x 2 elements of c in registers; tiles of a and b are in shared memory."""
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    text = "c[i, j] = c[i, j] + a[i, k]*b[k, j]"
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, name="matmul_in_registers")
    knl = pl.split_iname(knl, "i", 8, outer_iname="ib", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 4, outer_iname="ir", inner_iname="it", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_iname="jb", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 4, outer_iname="jr", inner_iname="jt", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4, outer_iname="kb", inner_iname="kt")
    knl = pl.prioritize_loops(knl, "kb, kt, ir, jr")
    knl = pl.buffer_array(knl, "c", "kb, kt, ir, jr")
    knl = pl.add_prefetch(knl, "a", "ir, it, kt")
    knl = pl.add_prefetch(knl, "b", "kt, jr, jt")
    return pl.tag_inames(knl, "ir:unr, jr:unr")


def _stencil_case(n: int, rng: np.random.Generator) -> Case:
    u = rng.random((n + 2, n + 2), dtype=F)
    return {"u": u}, {"v": u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]}


@example(_stencil_case, sizes=(1, 9, 33))
def stencil_with_an_output_tile() -> pl.LoopKernel:
    """A tile with its halo comes in, a tile of the result goes out, each through shared memory."""
    data = [pl.GlobalArg("u", F, shape="n + 2, n + 2"), pl.GlobalArg("v", F, shape="n, n"), ...]
    text = "v[i, j] = u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="stencil_with_an_output_tile")
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 4, inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.add_prefetch(knl, "u", "i_inner_outer, i_inner_inner, j_inner")
    return pl.buffer_array(knl, "v", "i_inner_outer, i_inner_inner, j_inner", temporary_address_space="local")


def _smooth_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-8, 9, (n, 16)).astype(F)
    y = x.copy()
    for _ in range(3):
        y[:, 1:-1] = (y[:, :-2] + y[:, 2:]) / 2
    return {"x": x}, {"x": y}


@example(_smooth_case)
def rows_smoothed_in_place() -> pl.LoopKernel:
    """Each block takes a row into shared memory, where its threads exchange neighbours in every step."""
    text = """
        for r
            for s
                for i
                    t[i] = (x[r, i-1] + x[r, i+1]) / 2
                end
                for j
                    x[r, j] = t[j]
                end
            end
        end
        """
    data = [pl.GlobalArg("x", F, shape="n, 16"), pl.TemporaryVariable("t", F, shape=16), ...]
    domain = "{[r, s, i, j]: 0 <= r < n and 0 <= s < 3 and 1 <= i, j < 15}"
    knl = pl.make_kernel(domain, text, data, name="rows_smoothed_in_place")
    knl = pl.tag_inames(knl, "r:g.0, i:l.0, j:l.0")
    return pl.buffer_array(knl, "x", "s, i, j", temporary_address_space="local")


def _turned_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.random((n, n), dtype=F), rng.random((n, n)).astype(np.float64)
    return {"a": a, "b": b}, {"at": a.T, "bt": b.T}


@example(_turned_case, sizes=(1, 9, 33))
def two_transposes_in_one_tile() -> pl.LoopKernel:
    """Tiles of two types take turns in shared memory."""
    data = [pl.GlobalArg("a, at", F, shape="n, n"), pl.GlobalArg("b, bt", np.float64, shape="n, n"), ...]
    text = """
        for i, j
            at[j, i] = a[i, j]
        end
        for k, l
            bt[l, k] = b[k, l]
        end
        """
    knl = pl.make_kernel("{[i, j, k, l]: 0 <= i, j, k, l < n}", text, data, name="two_transposes_in_one_tile")
    for row, column, array in (("i", "j", "a"), ("k", "l", "b")):
        knl = pl.split_iname(knl, row, 8, outer_tag="g.1", inner_tag="l.0")
        knl = pl.split_iname(knl, column, 8, outer_tag="g.0", inner_tag="l.1")
        knl = pl.add_prefetch(knl, array, f"{row}_inner, {column}_inner")
    return pl.alias_temporaries(knl, "a_fetch, b_fetch", base_name_prefix="tile")


def _turned_tile_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random((n, n), dtype=F)
    return {"a": a}, {"at": a.T}


@example(_turned_tile_case, sizes=(1, 17, 33))
def transpose_with_a_padded_tile() -> pl.LoopKernel:
    """Rows of 17 words: neither the rows nor the columns of the tile share a bank."""
    data = [pl.GlobalArg("a, at", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "at[j, i] = a[i, j]", data, name="transpose_with_a_padded_tile")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.1")
    knl = pl.add_prefetch(knl, "a", "i_inner, j_inner")
    return pl.add_padding(knl, "a_fetch", 0, 68)


def _smoothed_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.random(n + 2, dtype=F)
    root = np.sqrt(a)
    return {"a": a}, {"out": root[:-2] + root[1:-1] + root[2:]}


@example(_smoothed_case, sizes=(1, 17, 40))
def roots_computed_once_a_tile() -> pl.LoopKernel:
    """An array of intermediate values becomes a rule, and the rule a tile in shared memory."""
    arrays = [pl.GlobalArg("a", F, shape="n + 2"), pl.GlobalArg("out", F, shape="n")]
    data = [*arrays, pl.TemporaryVariable("r", F, shape="n + 2"), ...]
    text = """
        for k
            r[k] = sqrt(a[k])
        end
        for i
            out[i] = r[i] + r[i+1] + r[i+2]
        end
        """
    domain = "{[i, k]: 0 <= i < n and 0 <= k < n + 2}"
    knl = pl.make_kernel(domain, text, data, name="roots_computed_once_a_tile")
    knl = pl.assignment_to_subst(knl, "r")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.precompute(knl, "r_subst", "i_inner")
