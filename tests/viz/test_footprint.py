"""Footprints: elements and numbers of accesses, against enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.viz.test_pictures import NAMES, check, example


def stencil(size: int = 4) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}",
        "v[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + u[i, j]",
        [pl.GlobalArg("u, v", np.float32, shape="n, n"), ...],
        name="stencil",
    )
    knl = knl.split_iname("i", size, outer_tag="g.1", inner_tag="l.1")
    return knl.split_iname("j", size, outer_tag="g.0", inner_tag="l.0")


STENCIL = """\
footprint of one block, kernel stencil
n = 12, i_outer = 1, j_outer = 1

reads u: 32 elements, 2.5 times each
     0 ............
     1 ............
     2 ............
     3 ....1111....
     4 ...134431...
     5 ...145541...
     6 ...145541...
     7 ...134431...
     8 ....1111....
     9 ............
    10 ............
    11 ............
       columns 0 .. 11

writes v: 16 elements, each once
"""


def test_the_text_of_a_footprint() -> None:
    picture = check(lambda: pl.draw_footprint(stencil(), sizes={"n": 12}))
    assert str(picture).startswith(STENCIL)


@pytest.mark.parametrize("block", [(0, 0), (1, 2), (2, 2)])
def test_counts_are_those_of_enumeration(block: tuple[int, int]) -> None:
    counts = np.zeros((14, 14), int)
    low = [4 * block[0], 4 * block[1]]
    for i in range(max(low[0], 1), min(low[0] + 4, 13)):
        for j in range(max(low[1], 1), min(low[1] + 4, 13)):
            for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)):
                counts[i + di, j + dj] += 1
    at = {"i_outer": block[0], "j_outer": block[1]}
    rows = str(stencil().draw_footprint("u", sizes={"n": 14}, at=at)).splitlines()[4:18]
    assert [row[7:] for row in rows] == ["".join(map(str, row)).replace("0", ".") for row in counts.tolist()]


def test_a_prefetch_reads_each_element_once_and_a_loop_is_held() -> None:
    knl = example("matmul_tiled").program()
    knl = knl.split_iname("i", 16, outer_tag="g.1", inner_tag="l.1").split_iname(
        "j", 16, outer_tag="g.0", inner_tag="l.0"
    )
    knl = knl.split_iname("k", 8)
    sizes = {"m": 40, "n": 40, "p": 40}
    assert "reads a: 640 elements, 16 times each" in str(check(lambda: knl.draw_footprint("a", sizes=sizes)))
    held = {"k_outer": 2}
    assert "reads a: 128 elements, 16 times each" in str(knl.draw_footprint("a", sizes=sizes, at=held))
    staged = knl.add_prefetch("a", ["i_inner", "k_inner"])
    text = str(staged.draw_footprint(sizes=sizes, at=held))
    assert "reads a: 128 elements, each once" in text
    assert "reads b: 128 elements, 16 times each" in text
    assert "reads a_fetch: 128 elements, 16 times each" in str(staged.draw_footprint("a_fetch", sizes=sizes, at=held))


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_footprints_of_examples(name: str) -> None:
    knl = example(name).transformed()
    try:
        pl.draw_footprint(knl)
    except pl.ArgumentError as error:
        assert set(error.codes) <= {"nothing-to-draw", "too-many-instances"}  # noqa: PT017
        return
    check(lambda: pl.draw_footprint(knl))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"array": "w"}, "unknown-array"),
        ({"at": {"k": 0}}, "unknown-iname"),
        ({"sizes": {"m": 1}}, "unknown-size"),
        ({"sizes": {"n": 2}}, "nothing-to-draw"),
        ({"sizes": {"n": 900}, "at": {}}, "too-many-instances"),
    ],
)
def test_wrong_calls_of_draw_footprint(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_footprint(stencil(300), **arguments)
    assert caught.value.codes == (code,)
