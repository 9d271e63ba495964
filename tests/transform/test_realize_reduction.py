"""``realize_reduction``: what the trace says, that nothing changes, reductions over blocks, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.transform.base import Applied
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors

F = np.float32
Golden = Callable[[str, str], None]

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


# {{{ the grid


def dot() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "out = sum(k, a[k]*b[k])  {id=dot}",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        name="dot",
        assumptions="n >= 1",
    )


def on_threads() -> pl.LoopKernel:
    """Return a dot product of which blocks may have 64 terms each, a thread two of them."""
    knl = pl.split_iname(dot(), "k", 64, outer_iname="block", inner_iname="i")
    return pl.split_iname(knl, "i", 32, inner_tag="l.0")


def row_blocks() -> pl.LoopKernel:
    knl = pl.split_iname(rows(), "i", 2, outer_tag="g.0", inner_tag="l.1")
    knl = pl.split_iname(knl, "k", 16, outer_iname="part", inner_iname="c")
    return pl.split_iname(knl, "c", 4, inner_tag="l.0")


@pytest.mark.parametrize("grid", ["two launches", "atomics"])
def test_blocks(grid: str, golden: Golden) -> None:
    knl = pl.realize_reduction(on_threads(), "id:dot", grid=grid, grid_inames="block")
    for n in (1, 63, 64, 65, 300):
        a, b = vectors(n, 2)
        check(knl, {"a": a, "b": b}, {"out": np.asarray(a @ b)})
    golden(f"golden/realize_{grid.replace(' ', '_')}.cu", cuda(knl))
    same_after_replay(dot(), knl)
    last = [step.script().splitlines()[-1] for step in knl.trace.steps[2:]]
    assert [line.split("(")[0] for line in last] == [
        "knl = pl.stage_reduction" if grid == "two launches" else "knl = pl.reduce_atomically",
        "knl = pl.tag_inames",
        "knl = pl.realize_reduction",
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("grid", ["two launches", "atomics"])
def test_rows_of_blocks(grid: str) -> None:
    for over in ("part", "part:g.2"):
        knl = pl.realize_reduction(row_blocks(), grid=grid, grid_inames=over)
        for n, m in ((1, 1), (2, 16), (3, 33)):
            a = np.random.default_rng(n).integers(-4, 5, (n, m)).astype(F)
            check(knl, {"a": a}, {"y": a.sum(1)})
        assert ("blockIdx.z" if ":" in over else "blockIdx.y") in cuda(knl)


def summed() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 5}",
        """
        x[i] = i              {id=other}
        y[i] = sum(k, a[k, i])
        """,
        [pl.GlobalArg("x, y", F, shape="n"), pl.GlobalArg("a", F, shape="5, n"), ...],
    )


def test_a_term_a_block() -> None:
    knl = pl.remove_instructions(summed(), "other")
    knl = pl.realize_reduction(knl, grid="atomics", grid_inames="k")
    for n in (1, 2, 7):
        a = np.random.default_rng(n).integers(-4, 5, (5, n)).astype(F)
        check(knl, {"a": a}, {"y": a.sum(0)})


def test_blocks_that_add_to_what_one_loop_begins() -> None:
    knl = pl.reduce_atomically(summed(), "k")
    on_the_host = pl.tag_inames(knl, "k:g.0")
    (first, second) = pl.generate_code(on_the_host, target=pl.CudaTarget()).launches
    assert [loop.iname for launch in (first, second) for loop in launch.around] == ["i", "i"]
    apart = pl.tag_inames(pl.distribute_loops(knl, "i", "id:insn"), "k:g.0")
    assert not any(launch.around for launch in pl.generate_code(apart, target=pl.CudaTarget()).launches)
    for n in (1, 2, 7):
        a = np.random.default_rng(n).integers(-4, 5, (5, n)).astype(F)
        for each in (on_the_host, apart):
            check(each, {"a": a}, {"x": np.arange(n, dtype=F), "y": a.sum(0)})


def test_several_inames_of_the_grid() -> None:
    knl = pl.split_iname(row_blocks(), "part", 2)
    for grid in ("two launches", "atomics"):
        taken = pl.realize_reduction(knl, grid=grid, grid_inames=["part_outer", "part_inner"])
        a = np.random.default_rng(0).integers(-4, 5, (3, 70)).astype(F)
        check(taken, {"a": a}, {"y": a.sum(1)})


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no_way": ("bad-grid", {"grid": "cooperative", "grid_inames": "part"}),
    "not_said_how": ("bad-grid", {"grid_inames": "part"}),
    "no_iname": ("bad-grid", {"grid": "atomics"}),
    "no_block_axis": ("bad-grid", {"grid": "atomics", "grid_inames": "part:l.0"}),
    "a_scan": ("bad-grid", {"grid": "atomics", "grid_inames": "part", "force_scan": True}),
    "unknown": ("unknown-iname", {"grid": "atomics", "grid_inames": "block"}),
    "all": ("reduction-not-split", {"grid": "two launches", "grid_inames": "part, c_outer, c_inner"}),
    "of_the_instruction": ("reduction-not-split", {"grid": "atomics", "grid_inames": "i_outer"}),
    "no_scan": ("not-a-scan", {"force_scan": True}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, golden: Golden) -> None:
    code, options = REFUSED[case]
    text = refused(row_blocks(), lambda knl: pl.realize_reduction(knl, **options), code)
    golden(f"messages/realize_reduction_{case}.txt", text)


# }}}
# {{{ scans


def prefix() -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n"), ...]
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "b[i] = sum(j, a[j])", data, name="prefix")


def test_scans() -> None:
    a = vectors(9, 1)[0]
    knl = prefix()
    plain = cuda(knl)
    assert cuda(pl.realize_reduction(knl)) == plain
    for options in ({"force_scan": True}, {"automagic_scans_ok": True},
                    {"force_scan": True, "force_outer_iname_for_scan": "i"}):  # fmt: skip
        taken = pl.realize_reduction(knl, **options)
        assert cuda(taken) == cuda(pl.realize_scan(knl))
        check(taken, {"a": a}, {"b": np.cumsum(a)})
    assert cuda(pl.realize_reduction(rows(), automagic_scans_ok=True)) == cuda(rows())


# }}}
