"""Kernels that are made otherwise than from text: einsums, fused kernels, functions."""

from __future__ import annotations

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

F = np.float32


def _batched_case(n: int, rng: np.random.Generator) -> Case:
    p, q = rng.random((3, n, 5), dtype=F), rng.random((3, 5, n + 1), dtype=F)
    return {"p": p, "q": q}, {"out": np.einsum("bij,bjk->bik", p, q)}


@example(_batched_case, sizes=(1, 15, 33))
def batched_matmul_by_einsum() -> pl.LoopKernel:
    knl = pl.make_einsum("bij,bjk->bik", ("p", "q"), name="batched_matmul_by_einsum")
    knl = pl.add_dtypes(knl, {"p": F, "q": F, "out": F})
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "b:g.2")


def _bilinear_case(n: int, rng: np.random.Generator) -> Case:
    a = rng.integers(-3, 4, (n, n)).astype(F)
    x, y = rng.integers(-3, 4, (2, n)).astype(F)
    return {"x": x, "a": a, "y": y}, {"out": x @ a @ y}


@example(_bilinear_case)
def bilinear_form_by_einsum() -> pl.LoopKernel:
    knl = pl.make_einsum("i,ij,j", "x, a, y", name="bilinear_form_by_einsum")
    return pl.add_dtypes(knl, {"x": F, "a": F, "y": F, "out": F})
