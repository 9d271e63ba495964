"""``realize_reduction``: what the trace says, that nothing changes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.transform.base import Applied

ROWS = "{[i, k]: 0 <= i < n and 0 <= k < m}"


def rows(text: str = "y[i] = sum(k, a[i, k])  {id=rows}") -> pl.LoopKernel:
    data = [pl.GlobalArg("a", np.float32, shape="n, m"), pl.GlobalArg("y", np.float32, shape="n")]
    return pl.make_kernel(ROWS, text, data, assumptions="n >= 1 and m >= 1", name="rows")


def note(knl: pl.LoopKernel) -> str:
    step = knl.trace.steps[-1]
    assert isinstance(step, Applied)
    return step.note


def test_the_trace_says_how_terms_are_collected() -> None:
    knl = pl.split_iname(pl.tag_inames(rows(), "i:g.0"), "k", 128, inner_tag="l.0")
    realized = pl.realize_reduction(knl, "id:rows")
    assert realized.trace.steps[-1].script().endswith("knl = pl.realize_reduction(knl, insn_id_filter='id:rows')")
    assert note(realized) == (
        "'rows': one after the other over 'k_outer', then by the threads 'k_inner' (l.0), which combine what they have"
    )
    assert pl.generate_code(realized).device_code == pl.generate_code(knl).device_code


def test_a_sequential_one() -> None:
    knl = pl.realize_reduction(pl.split_iname(rows(), "k", 4, inner_tag="vec"))
    assert note(knl) == "'rows': one after the other over 'k_outer', 'k_inner' (vec)"


def test_numbers() -> None:
    knl = pl.realize_reduction(pl.split_iname(rows(), "k", 32, inner_tag="lane"))
    a = np.random.default_rng(0).random((3, 70), np.float32)
    assert np.allclose(pl.compile(knl, target=pl.CTarget())(a=a).y, a.sum(1))


def test_there_is_none() -> None:
    data = [pl.GlobalArg("a", np.float32, shape="n, m"), pl.GlobalArg("y", np.float32, shape="n, m")]
    knl = pl.make_kernel(ROWS, "y[i, k] = 2*a[i, k]", data, name="rows")
    with pytest.raises(pl.TransformError) as refusal:
        pl.realize_reduction(knl)
    assert str(refusal.value) == (
        "realize_reduction on kernel 'rows': there is no reduction to realize [no-match]\n"
        "  Hint: instructions with reductions: none"
    )
