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


def between() -> pl.LoopKernel:
    """Return a kernel whose third instruction runs after all of the first, because of the one between."""
    return pl.make_kernel(
        "{[i]: 1 <= i < 5}", ["b[i] = a[i-1]", "c[0] = b[4] {id=mid}", "a[i] = 7 + 0*c[0]"],
        [pl.GlobalArg("a, b, c, d", np.int64, shape="5"), ...], silenced_warnings="*",
    )  # fmt: skip


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("what", ["remove", "map"])
def test_what_is_left_of_a_program_keeps_its_loops(early: bool, what: str) -> None:
    knl = pl.split_iname(between(), "i", 2) if early else between()
    if what == "remove":
        knl = pl.remove_instructions(knl, "mid")
    else:
        knl = pl.map_instructions(knl, instructions={"mid": "c[0] = d[4]"})
    for run in (lambda **given: pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())):
        given = {argument.name: np.arange(1, 6) for argument in knl.arguments}
        np.testing.assert_array_equal(run(**given)["b"], [1, 1, 2, 3, 4])


def test_arrays_that_become_one_may_change_the_order_of_loops() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < 9}", ["a[i] = 1", "b[k] = 2", "c[i] = 3"],
        [pl.GlobalArg("a, b, c", np.int64, shape="9"), ...],
    )  # fmt: skip
    knl = pl.concatenate_arrays(knl, "a, b", "z")
    found = pl.compile(knl, target=pl.CTarget())()
    np.testing.assert_array_equal(found["z"], [1] * 9 + [2] * 9)
