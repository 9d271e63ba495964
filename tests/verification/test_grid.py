"""Statements that every block repeats run on the blocks that there are, and on no other."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.runtime.fibres import run_on_fibres
from polyloop.testing.witnesses import Verdict, check_witness
from polyloop.transform.base import Transform


def handed_on(assumptions: str, space: str = "local") -> pl.LoopKernel:
    """Elements that are set in one loop, and read by one that other axes know nothing of."""
    knl = pl.make_kernel(
        ["[n] -> {[i]: 0 <= i < n}", "{[j, k]: 0 <= j, k < 5}"],
        "<> t[i] = y[i]\n<> u[j] = 2*t[j]\nx[k] = u[k]",
        [
            pl.TemporaryVariable("t, u", np.float64, shape=20),
            pl.GlobalArg("x, y", np.float64, shape="n"),
            ...,
        ],
        assumptions=assumptions,
    )
    return pl.set_temporary_address_space(knl, "t,u", space)


@pytest.mark.parametrize("space", ["local", "private"])
@pytest.mark.parametrize("assumptions", ["n = 5", "5 <= n < 6"])
def test_a_grid_of_one_block_has_no_second_one(space: str, assumptions: str) -> None:
    knl = pl.split_iname(handed_on(assumptions, space), "i", 5, outer_tag="g.0")
    y = np.arange(5.0)
    for result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"y": y, "n": 5}).values():
        assert (result["x"] == 2 * y).all()


def sums(length: str) -> pl.LoopKernel:
    """The last value that one loop sets, to which another one adds."""
    knl = pl.make_kernel(
        ["[n] -> {[i, k]: 0 <= i, k < n}", f"[n] -> {{[j]: 0 <= j < {length}}}"],
        "for i\n<> s = y[i]\nend\nfor j\ns = s + x[j]\nend\nfor k\nz[k] = s\nend",
        [pl.GlobalArg("x, y", np.float64, shape="2*n + 8"), pl.GlobalArg("z", np.float64, shape="n"), ...],
        assumptions="n >= 1",
    )
    return pl.set_temporary_address_space(knl, "s", "local")


@pytest.mark.parametrize("tag", ["g.0", "g.1"])
@pytest.mark.parametrize("length", ["n", "n + 2", "7"])
def test_an_instance_that_is_named_is_on_a_block_that_there_is(tag: str, length: str) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.split_iname(sums(length), "i", 5, outer_tag=tag)
    witness, transform, before = caught.value.found[0].witness, caught.value.transform, caught.value.before
    assert witness is not None
    assert isinstance(transform, Transform)
    assert isinstance(before, pl.LoopKernel)
    assert check_witness(transform.rewrite(before), witness, {}) is Verdict.REAL


def test_the_longest_loop_on_an_axis_decides_how_many_blocks_there_are() -> None:
    knl = pl.make_kernel(
        ["[n, m] -> {[i]: 2 <= i < n}", "[n, m] -> {[j]: 0 <= j < m}", "{[k]: 0 <= k < 3}"],
        "<> t[k] = 2*z[k]\nx[i] = t[0] + t[1]\ny[j] = t[2]",
        [pl.GlobalArg("x, y, z", np.float64, shape="n + m + 3"), ...],
        assumptions="n >= 0 and m >= 0",
    )
    knl = pl.tag_inames(knl, {"i": "g.0", "j": "g.0"})
    (filled,) = [s for s in place(knl).statements.values() if s.lowered.writes_to("t")]
    blocks = filled.domain.project_out(isl.dim_type.set, 1, 1)
    for n, m in [(0, 0), (3, 0), (5, 2), (1, 4)]:
        wanted = isl.Set(f"[n, m] -> {{ [b] : n = {n} and m = {m} and 0 <= b < {max(1, n, m)} }}")
        assert blocks.intersect_params(wanted.params()).is_equal(wanted)


def test_the_blocks_that_there_are_make_no_pieces() -> None:
    """Along two axes there were four of them, and ISL took a hundred times as long for the dataflow between them."""
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= i, j < 8}", "[n] -> {[k]: 0 <= k < n}", "[n] -> {[m]: 0 <= m < n}"],
        "<> t = c[0]\nx[i] = t\ny[j] = t\nz[0] = sum(k, c[k] + t)\nw[m] = c[m]",
        [pl.GlobalArg("x, y", np.float64, shape=8), pl.GlobalArg("c, z, w", np.float64, shape="n + 1"), ...],
        assumptions="0 <= n <= 5",
    )
    knl = pl.tag_inames(knl, {"i": "g.0", "j": "g.1"})
    repeated = [s for s in place(knl).statements.values() if s.repeated]
    assert len(repeated) > 1
    assert all(s.domain.n_basic_set() == 1 for s in repeated)
