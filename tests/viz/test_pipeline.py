"""Pictures of pipelines: the text, and that no slot holds two tiles, nor passes one on without a barrier."""

from __future__ import annotations

import re
from typing import Any

import pytest

import polyloop as pl
from tests.viz.test_pictures import NAMES, check, example

PIPELINED = """\
pipeline of kernel matmul_pipelined
> tile on its way  = there  * in use  | barrier

for k_outer, launch matmul_pipelined
                k_outer = -2    k_outer = -1    k_outer = 0     k_outer = 1     k_outer = 2     k_outer = 3     \
k_outer = 4
                        3               3       1   2   3   4   1   2   3   4   1   2   3   4   1   2   3   4   \
1   2   3   4
    a_fetch[0]          >0  >0  >0  >0  >0  >0  >0  |0  =0  *0      |   >3  >3  >3  |3  >3  >3  >3  |3  =3  *3  \
    |   >6  >6
"""


def test_the_text_of_a_pipeline() -> None:
    text = str(example("matmul_pipelined").transformed().draw_pipeline())
    assert text.startswith(PIPELINED)
    assert text.splitlines()[-4:] == [
        "  1  wait for copies: a_fetch, b_fetch of tile k_outer, but for 1 later {arrival_a_fetch, arrival_b_fetch}",
        "  2  barrier of the block: a_fetch RAW, WAR; b_fetch RAW, WAR",
        "  3  start copies: a_fetch, b_fetch of tile k_outer + 2 {fetch_a, fetch_b}",
        "  4  compute: a_fetch, b_fetch of tile k_outer {insn}",
    ]


def checked(picture: pl.Picture) -> int:
    """Check the slots of a picture: a tile is used behind a barrier, and replaced behind another one."""
    text, seen = str(picture).partition("\nthe last iterations")[0], 0
    column = max(len(match.group()) for match in re.finditer(r"^    \S+(?: \(registers\))?", text, re.MULTILINE)) + 1
    for line in text.splitlines():
        if not re.match(r"    \w+\[\d+\] ", line):
            continue
        last, state, crossed = None, "", True
        for at in range(column, len(line), 4):
            cell = line[at : at + 4].strip()
            sign, tile = cell[:1], cell[1:]
            if sign == "|":
                crossed = True
            elif tile and tile != last:
                assert sign == ">", line
                assert last is None or crossed, f"{line}: tile {tile} replaces {last} without a barrier"
                last, state, crossed = tile, ">", False
            elif tile and sign != state:
                if sign == "*":
                    assert crossed, f"{line}: tile {tile} is used without a barrier"
                    seen += 1
                    crossed = False
                state = sign
    return seen


def of_wgmma(**options: Any) -> pl.LoopKernel:
    module = example("matmul_wgmma")
    knl: pl.LoopKernel = module.on_groups_of_warps(module.program(), "wgmma_m64n128k16_bf16", **options)
    return knl


@pytest.mark.parametrize("via", ["shared", "registers", "cp.async"])
@pytest.mark.parametrize("stages", [2, 3])
def test_a_slot_is_used_and_replaced_behind_barriers(via: str, stages: int) -> None:
    if via == "registers" and stages > 2:
        return
    knl = example("matmul_tiled").transformed().pipeline("k_outer", stages, via=via)
    picture = check(lambda: pl.draw_pipeline(knl))
    assert checked(picture) >= 2 * stages
    ahead = stages - 1
    assert f"a_fetch, b_fetch of tile k_outer + {ahead}" in str(picture).replace("a_fetch_next", "a_fetch").replace(
        "b_fetch_next", "b_fetch"
    )


def test_one_thread_starts_the_copies_of_boxes() -> None:
    knl = of_wgmma(via="tma")
    picture = check(lambda: pl.draw_pipeline(knl, target=pl.CudaTarget("sm_90a")))
    assert "start copies by one thread of the block: a_tile, b_tile of tile ko + 3" in str(picture)
    assert checked(picture) > 4


def test_tiles_of_products_that_run_on_are_in_use_until_these_are_waited_for() -> None:
    knl = of_wgmma(lag=1)
    held = check(lambda: pl.draw_pipeline(knl, target=pl.CudaTarget("sm_90a")))
    assert "wait for products, but for 1 later {insn}" in str(held)
    row = next(line for line in str(held).splitlines() if line.startswith("    a_tile[0]"))
    assert row.count("*0") == 6  # and one of a barrier: 4 and 5 of its iteration, 1, 3, 4 and 5 of the next
    once = str(pl.draw_pipeline(of_wgmma(), target=pl.CudaTarget("sm_90a")))
    assert next(line for line in once.splitlines() if line.startswith("    a_tile[0]")).count("*0") == 1


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_pipelines_of_examples(name: str) -> None:
    knl = example(name).transformed()
    target = pl.CudaTarget(getattr(example(name), "ARCH", "sm_90"))
    try:
        pl.draw_pipeline(knl, target=target)
    except pl.ArgumentError as error:
        assert error.codes == ("nothing-to-draw",)  # noqa: PT017
        assert not any("stages=" in step.call() and "window" not in step.call() for step in knl.trace)
        return
    picture = check(lambda: pl.draw_pipeline(knl, target=target))
    if "barrier of the block" in str(picture):
        checked(picture)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"iname": "x"}, "unknown-iname"),
        ({"iname": "i_inner"}, "nothing-to-draw"),
        ({"sizes": {"q": 1}}, "unknown-size"),
        ({}, "nothing-to-draw"),
    ],
)
def test_wrong_calls_of_draw_pipeline(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_pipeline(example("matmul_tiled").transformed(), **arguments)
    assert caught.value.codes == (code,)


def test_the_last_iterations_fetch_nothing_any_more() -> None:
    knl = example("matmul_tiled").transformed().pipeline("k_outer", 2, via="registers")
    picture = check(lambda: pl.draw_pipeline(knl, sizes={"p": 160}))
    first, last = str(picture).split("\n\n")[1:]
    assert last.startswith("the last iterations of k_outer\n")
    heads, events, *slots = last.splitlines()[1:7]
    assert re.findall(r"k_outer = (-?\d+)", heads) == ["7", "8", "9"]
    per_iteration = [events[at : at + len(events) // 3].split() for at in range(22, len(events), 16)]
    assert len(per_iteration[-1]) < len(per_iteration[0]), "the last one loads no tile"
    assert [line for line in slots if "10" in re.findall(r"\d+", line.partition(" ")[2])] == []
    assert "load into registers" not in first
    assert "load into registers" in last


def test_few_iterations_are_drawn_as_one() -> None:
    text = str(pl.draw_pipeline(example("matmul_pipelined").transformed(), sizes={"p": 48}))
    assert "the last iterations" not in text
    assert re.findall(r"k_outer = (-?\d+)", text) == ["-2", "-1", "0", "1", "2"]
    assert "k_outer = 3" not in text
