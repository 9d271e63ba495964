"""The order of a program stays, whatever more becomes known about its sizes.

Legality of sharing loops is decided for all sizes of a kernel.  Statements that may not share a loop for some sizes
must not do so when a transform leaves the others only: that is another program.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.agreement import other_loops
from tests.transform.checking import cuda

Step = Callable[[pl.LoopKernel], pl.LoopKernel]


def apart() -> pl.LoopKernel:
    """Return a kernel of two nests: for n > 7, the second would read elements of ``o`` before they are set."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        ["o[i] = a[i, j]", "o[i] = o[i] + if(i > 5, o[j] - o[j], b[i, j])"],
        [
            pl.GlobalArg("o", np.float64, shape="n"),
            pl.GlobalArg("a", np.float64, shape="n, n"),
            pl.GlobalArg("b", np.float64, shape="n, n"),
            ...,
        ],
        name="apart",
    )


def narrow(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return the kernel after one that runs for few sizes only."""
    small = pl.make_kernel(
        "{[k]: 0 <= k < n}", "c[k] = 2", [pl.GlobalArg("c", np.float64, shape="n"), ...], assumptions="1 <= n <= 6"
    )
    return pl.fuse_kernels([small, knl])


STEPS: dict[str, Step] = {
    "fix_parameters": lambda knl: pl.fix_parameters(knl, n=5),
    "assume": lambda knl: pl.assume(knl, "n <= 6"),
    "after a split": lambda knl: pl.fix_parameters(pl.split_iname(knl, "j", 4), n=5),
    "on threads": lambda knl: pl.fix_parameters(pl.tag_inames(pl.split_iname(knl, "i", 4), "i_inner:unr"), n=5),
    "fused": narrow,
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_nests_stay_apart_for_the_sizes_that_are_left(step: Step) -> None:
    knl = step(apart())
    rng = np.random.default_rng(0)
    n = 5
    arrays = {name: rng.integers(-9, 9, (n, n)).astype(np.float64) for name in "ab"}
    expected = arrays["a"][:, -1] + arrays["b"].sum(axis=1)
    extra = {"n": n} if "n" in knl.parameters else {}
    for found in (
        pl.interpret(knl, **arrays, o=np.zeros(n), **extra)["o"],
        pl.compile(knl, target=pl.CTarget())(**arrays, o=np.zeros(n), **extra)["o"],
    ):
        assert np.array_equal(found, expected)
    assert cuda(knl).count("o[") >= 2


@pytest.mark.parametrize("step", ["fix_parameters", "assume"])
def test_the_program_says_the_loops_that_it_has(step: str) -> None:
    knl = apart()
    assert other_loops(knl, STEPS[step](knl)) is None


def test_loops_that_a_program_may_share_are_shared() -> None:
    """Where the program itself is made for few sizes, its statements share their loops."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 5}",
        ["o[i] = a[i, j]", "o[i] = o[i] + if(i > 5, o[j] - o[j], b[i, j])"],
        [pl.GlobalArg("o", np.float64, shape="5"), ...],
    )
    assert str(knl.reference).count("for i") == 1


def test_more_knowledge_changes_no_kernel_whose_loops_stay() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", ["a[i] = 1", "b[i] = a[i]"])
    assert all(not instruction.blocks for instruction in pl.fix_parameters(knl, n=8).instructions)
