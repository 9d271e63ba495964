"""``add_prefetch`` of one of several reads of an array: positions of bodies, of which each meets all the others."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, vectors

CODE = """
for i
    f[i] = 0
    for j
        f[i] = f[i] + p[j, 1]*(p[j, 0] - p[i, 0])
    end
end
"""


def bodies() -> pl.LoopKernel:
    arguments = [pl.GlobalArg("p", np.float32, shape="n, 2"), pl.GlobalArg("f", np.float32, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", CODE, arguments, name="bodies")
    return knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0").split_iname("j", 8)


@pytest.fixture(scope="module")
def staged() -> pl.LoopKernel:
    return bodies().add_prefetch("p[j, :]", "j_inner")


def test_threads_share_a_copy_of_what_they_all_read(staged: pl.LoopKernel) -> None:
    """The other read, ``p[i, 0]``, has an element for each thread, and no part in the copy."""
    source = cuda(staged)
    assert "__shared__ float p_fetch[8][2];" in source
    assert "p_fetch[j_inner][0] - p[i * 2]" in source


def test_a_second_copy_takes_the_other_read_and_not_the_first_copy(staged: pl.LoopKernel) -> None:
    knl = staged.add_prefetch("p[i, :]", "j_outer, j_inner", temporary_name="mine")
    source = cuda(knl)
    assert "    float mine[2];" in source
    assert "p_fetch[j_inner][0] - mine[0]" in source
    assert "- mine[0]" in cuda(staged.add_prefetch("p[i, :]", temporary_name="mine"))
    p = vectors(19, 2)
    values = (p[1][None, :] * (p[0][None, :] - p[0][:, None])).sum(1)
    check(knl, {"p": np.stack(p, axis=1), "n": 19}, {"f": values})


def test_reads_that_lie_apart_are_named_by_the_refusal() -> None:
    text = refused(bodies(), lambda knl: knl.add_prefetch("p", "j_inner"), "footprint-not-constant")
    assert "its uses p[i_inner + 8*i_outer, 0], p[j_inner + 8*j_outer, 0], p[j_inner + 8*j_outer, 1]" in text
    assert "add_prefetch(knl, 'p[j_inner + 8*j_outer, 1]', ..)" in text


def test_a_copy_of_what_no_read_sees_is_refused() -> None:
    text = refused(bodies(), lambda knl: knl.add_prefetch("p[i + n, :]", "j_inner"), "not-used")
    assert "stays in the footprint" in text
