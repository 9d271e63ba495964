"""Transformed programs with their instructions in every order: each is refused, or legal by brute force."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations

import numpy as np
import pytest

import polyloop as pl
from polyloop.frozen import replace
from tests.verification.judged import check_variants

F = np.float64
SIZES = (5, 2)


def rows() -> pl.LoopKernel:
    """Return sums of rows into the first half of an array, beside writes of the second half and of the same element."""
    return pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j < n}",
        """
        for i
            c[i + n] = 1 {id=far}
            for j
                c[i] = c[i] + a[j] {id=add}
            end
            c[i] = 2*c[i] {id=twice}
        end
        """,
        [pl.GlobalArg("a, c", F, shape="2*n"), ...],
        seq_dependencies=True,
        name="rows",
    )


def loaded() -> pl.LoopKernel:
    return pl.buffer_array(rows(), "c", [], within="id:add")


def pairs() -> pl.LoopKernel:
    """Return pairs of elements in one buffer, of which one is set before and scaled behind the loop."""
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i < n and 0 <= j < 3}",
        """
        for i
            c[2*i] = 1 {id=zero}
            for j
                c[2*i + 1] = b[j] {id=far}
                c[2*i] = c[2*i] + a[j] {id=add}
            end
            c[2*i] = 2*c[2*i] {id=twice}
        end
        """,
        [pl.GlobalArg("a, b", F, shape=3), pl.GlobalArg("c", F, shape="2*n"), ...],
        seq_dependencies=True,
        name="pairs",
    )
    return pl.buffer_array(knl, "c", [], within="id:add or id:far")


def tile() -> pl.LoopKernel:
    """Return a stencil in place of two passes, with the first one's values in a tile."""
    knl = pl.make_kernel(
        "[n] -> {[i]: 0 <= i < n}",
        """
        b[i + 1] = a[i] + a[i + 1] {id=first}
        c[i] = b[i] + b[i + 1] {id=second}
        d[i] = b[i + 1] {id=third}
        """,
        [pl.GlobalArg("a, b, c, d", F, shape="n + 4"), ...],
        name="tile",
    )
    knl = pl.split_iname(knl, "i", 2)
    return pl.add_prefetch(knl, "a", "i_inner")


def fetched() -> pl.LoopKernel:
    """Return rows that one instruction reads from a tile, and another one from the array, before they are written."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 3}",
        """
        for i, j
            b[i, j] = a[i, j] {id=use}
            d[i, j] = a[i, j] {id=other}
            a[i, j] = 2 {id=set}
        end
        """,
        [pl.GlobalArg("a, b, d", F, shape="3, 3")],
        seq_dependencies=True,
        name="fetched",
    )
    return pl.add_prefetch(knl, "a", "j", within="id:use", default_tag=None)


def partial_sums() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i, k < n}",
        "y[i] = sum(k, a[i, k]*x[k]) {id=sum}\nz[i] = 2*y[i] {id=after}",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y, z", F, shape="n"), ...],
        name="partial_sums",
    )
    return pl.stage_reduction(pl.split_iname(knl, "k", 3), "k_inner")


def ahead(via: str) -> pl.LoopKernel:
    """Return rows that threads read in both directions, and copy one iteration ahead."""
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < 5 and 0 <= i < 4}",
        "y[t, i] = x[t, i] + x[t, 3 - i] {id=use}",
        [pl.GlobalArg("x, y", F, shape="5, 4")],
        name="ahead",
    )
    knl = pl.add_prefetch(pl.tag_inames(knl, "i:l.0"), "x", "i", default_tag=None)
    return pl.pipeline(pl.tag_inames(knl, "x_dim_1:l.0"), "t", via=via)


def ahead_in_registers() -> pl.LoopKernel:
    return ahead("registers")


def ahead_by_copies() -> pl.LoopKernel:
    return ahead("cp.async")


KERNELS: list[Callable[[], pl.LoopKernel]] = [
    loaded,
    pairs,
    tile,
    fetched,
    partial_sums,
    ahead_in_registers,
    ahead_by_copies,
]


@pytest.mark.few(4)
@pytest.mark.parametrize("build", KERNELS)
def test_every_order_of_the_instructions_is_refused_or_legal(build: Callable[[], pl.LoopKernel]) -> None:
    kernel = build()
    orders = permutations(kernel.instructions)
    check_variants(
        ((f"{[i.id for i in order]}", partial(replace, kernel, instructions=order)) for order in orders), SIZES
    )
