"""Loops over the numbers of one residue: red and black points, every third element from one that varies."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda


def strided(residue: str, text: str = "a[i, j] = i + 2*j", shape: str = "n, n") -> pl.LoopKernel:
    arguments = [pl.GlobalArg("a", np.float32, shape=shape), ...]
    domain = f"{{[i, j]: 0 <= i < n and 0 <= j < n and (exists e: j = {residue} + 3e)}}"
    return pl.make_kernel(domain, text, arguments, name="strided")


def marked(n: int, of: int = 0, factor: int = 1) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    i, j = np.indices((n, n))
    return np.where((j - factor * i - of) % 3 == 0, i + 2 * j, 0).astype(np.float32)


@pytest.mark.parametrize(("residue", "of", "factor", "header", "loop"), [
    ("i", 0, 1, "with j % 3 == i % 3", "for (int j = i % 3; j < n; j += 3)"),
    ("i + 2", 2, 1, "with j % 3 == (i + 2) % 3", "for (int j = (i + 2) % 3; j < n; j += 3)"),
    ("2*i", 0, 2, "with j % 3 == 2*i % 3", "for (int j = 2 - ((i + 2) % 3); j < n; j += 3)"),
    ("1", 1, 0, "j in [1, n) by 3", "for (int j = 1; j < n; j += 3)"),
])  # fmt: skip
def test_a_loop_begins_at_the_first_number_of_its_residue(
    residue: str, of: int, factor: int, header: str, loop: str
) -> None:
    knl = strided(residue)
    source = cuda(knl)
    assert loop in source
    assert header in source
    check(knl, {"n": 8, "a": np.zeros((8, 8), np.float32)}, {"a": marked(8, of, factor)})


def test_threads_test_the_residue_by_one_remainder() -> None:
    """A thread whose point has the other colour has nothing to do; the comparison has no quotient in it."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and (i + c) % 2 <= j < n and (exists e: j = (i + c) % 2 + 2e)}",
        "a[i, j] = i + 2*j",
        [pl.GlobalArg("a", np.float32, shape="n, n"), pl.ValueArg("c", np.int32), ...],
        assumptions="0 <= c < 2",
        name="colour",
    )
    assert "//     for i in [0, n), j in [(c + i) % 2, n) by 2" in cuda(knl)
    knl = knl.split_iname("i", 4, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 4, outer_tag="g.0", inner_tag="l.0")
    source = cuda(knl)
    assert "if ((c + tx + ty) % 2 == 0 && i < n && j < n && (c + ty) % 2 <= j)" in source
    i, j = np.indices((7, 7))
    for c in range(2):
        wanted = np.where((i + j + c) % 2 == 0, i + 2 * j, 0).astype(np.float32)
        check(knl, {"n": 7, "c": c, "a": np.zeros((7, 7), np.float32)}, {"a": wanted}, fibres=c == 0)
