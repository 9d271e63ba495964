"""Layouts: lanes as the manual of the instruction has them, banks as addresses give them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import polyloop as pl
from polyloop.kernel.intrinsic import INTRINSICS
from tests.viz.test_pictures import NAMES, check, example


def table(text: str, title: str) -> list[list[str]]:
    """Return the cells of the grid below a title."""
    rows = text.partition(title)[2].partition("\n\n")[0].splitlines()
    return [line.partition("|")[2].split() for line in rows if re.match(r" +\d+ \|", line)]


def test_lanes_are_those_of_the_manual() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"."""
    text = str(check(lambda: pl.draw_layout("mma_m16n8k16_bf16")))
    a, b, d = (table(text, f"{name}[") for name in ("a", "b", "d"))
    for lane in range(32):
        group, within = lane >> 2, lane % 4
        for element in range(8):
            row = group if element % 4 < 2 else group + 8
            column = within * 2 + (element & 1) + (8 if element >= 4 else 0)
            assert a[row][column] == f"{lane}:{element}"
        for element in range(4):
            row = within * 2 + (element & 1) + (8 if element >= 2 else 0)
            assert b[row][group] == f"{lane}:{element}"
            assert d[group + 8 * (element >= 2)][within * 2 + (element & 1)] == f"{lane}:{element}"


@pytest.mark.parametrize("name", sorted(INTRINSICS)[::7])
def test_layouts_of_instructions(name: str) -> None:
    picture = check(lambda: pl.draw_layout(name))
    assert pl.draw_layout(INTRINSICS[name]).svg() == picture.svg()
    for row in table(str(picture), ": d["):
        assert len(row) == len(set(row))  # no element twice


def transpose(*, swizzled: bool = False, padding: int = 0) -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]",
                         [pl.GlobalArg("a, b", "float32", shape="n, n"), ...])  # fmt: skip
    knl = knl.split_iname("i", 32, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 32, outer_tag="g.0", inner_tag="l.0").add_prefetch("a", ["j_inner", "i_inner"])
    knl = knl.add_padding("a_fetch", 0, padding) if padding else knl
    return knl.swizzle("a_fetch", 5, 0, 5) if swizzled else knl


@pytest.mark.parametrize(
    ("options", "banks", "of"),
    [({}, 1, lambda row, column: column), ({"padding": 132}, 32, lambda row, column: (33 * row + column) % 32),
     ({"swizzled": True}, 32, lambda row, column: row ^ column)],
)  # fmt: skip
def test_banks_follow_padding_and_swizzle(options: dict[str, Any], banks: int, of: Any) -> None:
    knl = transpose(**options)
    text = str(check(lambda: knl.draw_layout("a_fetch")))
    assert f"32 rows of a column begin in {banks} bank" in text
    cells = table(text, "a_fetch:")
    assert cells == [[f"{of(row, column)}" for column in range(32)] for row in range(16)]
    worst = max(entry.worst for entry in pl.get_bank_conflicts(knl))
    assert worst == 32 // banks


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_layouts_of_examples(name: str) -> None:
    knl = example(name).transformed()
    try:
        pl.draw_layout(knl)
    except pl.ArgumentError as error:
        assert error.codes == ("nothing-to-draw",)  # noqa: PT017
        return
    check(lambda: pl.draw_layout(knl))


def test_wrong_calls_of_draw_layout() -> None:
    for arguments, code in (
        (("mma_m16n8k16_bf61",), "unknown-intrinsic"),
        ((transpose(), "a_fetched"), "unknown-array"),
        ((transpose(), "a"), "nothing-to-draw"),
        ((example("transpose").program(),), "nothing-to-draw"),
    ):
        with pytest.raises(pl.ArgumentError) as caught:
            pl.draw_layout(*arguments)
        assert caught.value.codes == (code,)
