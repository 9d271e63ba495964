"""The instances that refusals name, as data."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import Witness, WitnessKind


def _refused(call: object, *arguments: object) -> Witness:
    with pytest.raises(pl.TransformError) as caught:
        call(*arguments)  # type: ignore[operator]
    (finding,) = caught.value.found
    assert finding.witness is not None
    assert caught.value.transform is not None
    return finding.witness


def _sweep() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", np.float32, shape="n, n"), ...]
    domain = "{[i, j]: 1 <= i < n and 0 <= j < n - 1}"
    return pl.make_kernel(domain, "a[i, j] = a[i-1, j+1] + 1", data, assumptions="n >= 1")


def test_an_interchange() -> None:
    witness = _refused(pl.prioritize_loops, _sweep(), "j, i")
    assert witness.kind is WitnessKind.EARLY
    assert (witness.array, witness.element) == ("a", (1, 1))
    assert witness.parameters == (("n", 3),)
    assert witness.first.inames == (("i", 1), ("j", 1))
    assert witness.second is not None
    assert witness.second.inames == (("i", 2), ("j", 0))


@pytest.mark.parametrize("outer_tags", [{"l": "g.0"}, {"i": "g.0", "l": "g.1"}])
def test_tiles_of_a_loop_that_carries_a_value(outer_tags: dict[str, str]) -> None:
    """It names the write that is missed, where another one is the first of those that are read in the program."""
    knl = pl.make_kernel(
        "{[l, i]: 0 <= l, i < n}",
        """
        c[0] = 5              {id=first}
        for l, i
            c[i] = c[i] + l   {id=up, dep=first}
        end
        """,
        [pl.GlobalArg("c", np.int64, shape="n"), ...],
        assumptions="1 <= n <= 5",
    )
    with pytest.raises(pl.TransformError) as caught:
        pl.tile(knl, {"i": 1, "l": 2}, outer_tags=outer_tags)
    (finding,) = caught.value.found
    witness = finding.witness
    assert witness is not None
    assert witness.second is not None
    assert (witness.kind, witness.first.instruction, witness.second.instruction) == (WitnessKind.EARLY, "up", "up")


def test_a_race() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "s[0] = 2*x[i]", assumptions="n >= 1")
    witness = _refused(pl.tag_inames, knl, {"i": "g.0"})
    assert witness.kind is WitnessKind.RACE
    assert (witness.array, witness.element) == ("s", (0,))
    assert witness.second is not None
    assert dict(witness.first.point)["g.0"] != dict(witness.second.point)["g.0"]


def test_an_access_outside() -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel("{[i]: 0 <= i < 5}", "y[i] = x[i+1]", [pl.GlobalArg("x", np.float32, shape="5"), ...])
    (finding,) = caught.value.found
    assert finding.witness is not None
    assert (finding.witness.kind, finding.witness.element) == (WitnessKind.OUTSIDE, (5,))
