"""C text among other instructions, and values that are computed once."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32
NO_INTERPRETER = {"interpreter": "c-instruction"}


def _halvings_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.uniform(0, 1000, n).astype(F)
    steps = np.maximum(np.ceil(np.log2(a.astype(np.float64))), 0).astype(np.int32)
    return {"a": a, "factor": F(0.5)}, {"steps": steps, "b": (2 * a * 0.5**steps).astype(F)}


@example(_halvings_case, refused=NO_INTERPRETER)
def halvings() -> pl.LoopKernel:
    """Count with a loop whose end nobody knows, which expressions cannot say."""
    text = """
        float x = a[i];
        int k = 0;
        while (x > 1.0f) {
            x *= factor;
            ++k;
        }
        t = x;
        steps[i] = k;
    """
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        [
            "t = 0f {id=begin, inames=i}",
            pl.CInstruction("i", text, {"a", "factor"}, ["t", "steps[i]"], id="halve", depends_on="begin"),
            "b[i] = 2*t {dep=halve}",
        ],
        [
            pl.GlobalArg("a, b", F, shape="n"),
            pl.GlobalArg("steps", np.int32, shape="n"),
            pl.TemporaryVariable("t", F),
            pl.ValueArg("factor", F),
            ...,
        ],
        name="halvings",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def _search_case(n: int, rng: np.random.Generator) -> Case:
    edges = np.sort(rng.standard_normal(17)).astype(F)
    x = rng.standard_normal(n).astype(F)
    return {"edges": edges, "x": x}, {"bin": np.searchsorted(edges, x, side="right").astype(np.int32)}


@example(_search_case, refused=NO_INTERPRETER)
def binary_search() -> pl.LoopKernel:
    """Each thread searches a table of its own accord."""
    text = """
        int low = 0, high = m;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (edges[middle] <= wanted) low = middle + 1; else high = middle;
        }
        bin[p] = low;
    """
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        [pl.CInstruction([("p", "i"), ("wanted", "x[i]")], text, {"edges", "m"}, ["bin[i]"])],
        [
            pl.GlobalArg("edges", F, shape="m"),
            pl.GlobalArg("x", F, shape="n"),
            pl.GlobalArg("bin", np.int32, shape="n"),
            ...,
        ],
        name="binary_search",
    )
    return pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def _tile_case(n: int, rng: np.random.Generator) -> Case:
    x = rng.integers(-9, 9, 32 * n).astype(np.int32)
    return {"x": x, "n": n}, {"y": x.reshape(n, 32)[:, ::-1].reshape(-1).copy()}


@example(_tile_case, sizes=(1, 2, 5), refused=NO_INTERPRETER)
def reversed_tiles() -> pl.LoopKernel:
    """C text fills shared memory; the barrier behind it is derived."""
    knl = pl.make_kernel(
        "{[o, i, j]: 0 <= o < n and 0 <= i, j < 32}",
        [
            "for o",
            "tile[i] = 0 {id=clear}",
            pl.CInstruction(
                "o, i", "tile[i] = x[32*o + 31 - i];", {"x"}, ["tile[i]"], id="fill", depends_on="clear"
            ),
            "y[32*o + j] = tile[j] {dep=fill}",
            "end",
        ],
        [
            pl.GlobalArg("x, y", np.int32, shape="32*n"),
            pl.TemporaryVariable("tile", np.int32, shape="32", address_space="local"),
            ...,
        ],
        name="reversed_tiles",
    )
    return pl.tag_inames(knl, "o:g.0, i:l.0, j:l.0")


def _once_case(n: int, rng: np.random.Generator) -> Case:
    a, b = rng.standard_normal((2, n)).astype(F)
    s = np.exp(-a * a)
    return {"a": a, "b": b}, {"c": s * s + s * b.sum() + s}


@example(_once_case, rtol=2e-4)
def computed_once() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        "c[i] = cse(exp(-a[i]*a[i]), weight)*cse(exp(-a[i]*a[i])) + sum(k, cse(exp(-a[i]*a[i]))*b[k]) + "
        "cse(cse(exp(-a[i]*a[i])) + 0)",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        name="computed_once",
    )
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
