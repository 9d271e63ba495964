"""Small programs with their loops and instructions in other orders: each is refused, or legal by brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import numpy as np
import pytest

import polyloop as pl
from polyloop.frozen import replace
from tests.verification.judged import check_variants

F = np.float64
SIZES = (4,)

INSIDE: dict[str, tuple[str, ...]] = {
    "rows kept apart by a number": ("a[0, i + 1, j] = x[i, j]", "a[1, i, j] = 2", "a[0, i, j] = 3"),
    "elements kept apart by a number": ("a[0, i, 0] = x[i, j]", "a[0, i, 1] = 2", "a[0, i, j] = 3"),
    "one element a row": ("a[0, i, 0] = x[i, j]",),
    "one element": ("a[0, 0, 0] = a[0, 0, 0] + x[i, j]",),
    "from above": ("a[0, i + 1, j] = a[0, i, j] + x[i, j]",),
    "from below": ("a[0, i, j] = a[0, i + 1, j] + x[i, j]",),
    "from below on the right": ("a[0, i, j] = a[0, i + 1, j + 1] + x[i, j]",),
    "from below on the left": ("a[0, i, j + 1] = a[0, i + 1, j] + x[i, j]",),
    "two rows further": ("a[0, i + 1, j] = a[0, max(i - 1, 0), j] + x[i, j]",),
    "turned": ("a[0, i, j] = a[0, j, i] + x[i, j]",),
    "one above, one here": ("a[0, i + 1, j] = x[i, j]", "a[0, i, j] = 2*a[0, i, j]"),
    "written before": ("a[0, i, j] = x[i, j]", "a[1, i, j] = a[0, i, j + 1]"),
    "written later": ("a[1, i, j] = a[0, i + 1, j]", "a[0, i, j] = x[i, j]"),
    "there and back": ("a[1, i, j] = a[0, i + 1, j]", "a[0, i, j] = a[1, i, j + 1]", "a[0, i, j] = a[0, i, j] + 1"),
    "an element that data names": ("a[0, i, if(x[i, j] > 0, 1, 0)] = a[0, i, j] + 1",),
    "elements that data names": ("a[0, i, if(x[i, j] > 0, 1, 0)] = 1", "a[1, i, j] = 2", "a[0, i + 1, j] = 3"),
    "writes where data says": ("a[0, i, j + 1] = x[i, j] {if=x[i, j] > 0}", "a[1, i, j] = a[0, i, j]"),
    "an element where data says": ("a[0, i, 0] = x[i, j] {if=x[i, j] > 0}",),
    "sums where data says": ("a[0, 0, j] = a[0, 0, j] + x[i, j] {if=x[i, j] > 0}", "a[1, i, j] = a[0, 0, j]"),
    "sums in any order": ("a[0, 0, j] = a[0, 0, j] + x[i, j] {atomic}", "a[1, i, j] = 2"),
    "sums in any order that are read": ("a[0, 0, j] = a[0, 0, j] + x[i, j] {atomic}", "a[1, i, j] = a[0, 0, j]"),
    "sums in any order that are set": ("a[0, 0, j] = a[0, 0, j] + x[i, j] {atomic}", "a[0, i, 0] = 2"),
    "a scalar": ("<> t = a[0, i, j]", "a[0, i, j + 1] = t + x[i, j]"),
    "the last of two": ("t[i] = x[i, j]", "t[j] = 2", "a[0, i, j] = t[i]"),
    "elements that data sets": ("t[j] = x[i, j] {if=x[i, j] > 0}", "a[0, i, j] = t[j]"),
    "rows that data sets": ("t[i] = 1", "t[i] = x[i, j] {if=x[i, j] > 0}", "a[0, i, j] = t[i]"),
    "two that data sets": ("t[j] = 1 {if=x[i, j] > 0}", "t[i] = 2 {if=x[i, j] < 1}", "a[0, i, j] = t[j]"),
    "a sum of what is written": ("a[0, i, j] = x[i, j]", "a[1, i, j] = sum(k, a[0, i, k])"),
}
"""Instructions in a loop over ``i`` and one over ``j`` inside of it."""

OTHERWISE: dict[str, Callable[[pl.LoopKernel], pl.LoopKernel]] = {
    "rows backwards": lambda knl: pl.reverse(knl, "i"),
    "columns backwards": lambda knl: pl.reverse(knl, "j"),
    "columns outside": lambda knl: pl.interchange(knl, "i", "j"),
    "diagonals": lambda knl: pl.map_domain(knl, "{[i, j] -> [d, j]: d = i + j}"),
    "columns of diagonals": lambda knl: pl.interchange(pl.map_domain(knl, "{[i, j] -> [d, j]: d = i + 2*j}"), "d", "j"),
    "tiles": lambda knl: pl.prioritize_loops(
        pl.split_iname(pl.split_iname(knl, "i", 2), "j", 2), "i_outer, j_outer, i_inner, j_inner"
    ),
    "even rows first": lambda knl: pl.interchange(pl.split_iname(knl, "i", 2), "i_outer", "i_inner"),
    "rows on threads": lambda knl: pl.tag_inames(knl, "i:g.0"),
    "columns on threads": lambda knl: pl.tag_inames(pl.split_iname(knl, "j", 2), "j_outer:g.0, j_inner:l.0"),
}


def program(lines: tuple[str, ...]) -> pl.LoopKernel:
    text = "\n".join(lines)
    data: list[pl.GlobalArg | pl.TemporaryVariable] = [pl.GlobalArg("a", F, shape="2, n + 1, n + 1")]
    if "x[" in text:
        data.append(pl.GlobalArg("x", F, shape="n, n"))
    if "t[" in text:
        data.append(pl.TemporaryVariable("t", F, shape=("n",)))
    domain, text = "{[i, j, k]: 0 <= i, j, k < n}", f"for i, j\n{text}\nend"
    return pl.make_kernel(domain, text, data, seq_dependencies=True, silenced_warnings="*", assumptions="n >= 1")


def otherwise(kernel: pl.LoopKernel) -> Iterator[tuple[str, Callable[[], pl.LoopKernel]]]:
    """Yield the instructions in every order, and the loops in others, with the instructions in order and backwards."""
    for order in permutations(kernel.instructions):
        yield f"{[i.id for i in order]}", partial(replace, kernel, instructions=order)
    for how, change in OTHERWISE.items():
        yield how, partial(change, kernel)
        if len(kernel.instructions) > 1:
            yield f"{how}, backwards", partial(change, replace(kernel, instructions=kernel.instructions[::-1]))


@pytest.mark.few(6)
@pytest.mark.parametrize("name", INSIDE)
def test_every_order_of_the_loops_is_refused_or_legal(name: str) -> None:
    check_variants(otherwise(program(INSIDE[name])), SIZES)
