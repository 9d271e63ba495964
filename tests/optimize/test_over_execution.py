"""Which statements run for elements that nobody uses, so that blocks at an edge need no tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.optimize.over_execution import Edges, at_edges
from polyloop.poly import budget
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.build import prepared

EVERYWHERE = {"fetch_a_tile", "fetch_b_tile", "insn_init", "insn_update", "store_a_fetch", "store_b_fetch"}


def program(text: str = "c[i, j] = sum(k, a[i, k]*b[k, j])", dtype: Any = np.float32) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        text,
        [
            pl.GlobalArg("a", dtype, shape="m, p"),
            pl.GlobalArg("b", dtype, shape="p, n"),
            pl.GlobalArg("c", dtype, shape="m, n"),
            ...,
        ],
        name="product",
        assumptions="m >= 1 and n >= 1 and p >= 1",
    )


def tiled(knl: pl.LoopKernel, *, ahead: bool = True) -> pl.LoopKernel:
    """Return *knl* with blocks of 8 by 8 elements, 2 by 2 a thread."""
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_iname="ib")
    knl = pl.split_iname(knl, "ib", 4, outer_iname="iu", inner_iname="it", outer_tag="unr", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_iname="jb")
    knl = pl.split_iname(knl, "jb", 4, outer_iname="ju", inner_iname="jt", outer_tag="unr", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 4, outer_iname="ko", inner_iname="ki")
    knl = pl.prioritize_loops(knl, "ko, ki, iu, ju")
    knl = pl.add_prefetch(knl, "a", "iu, it, ki")
    knl = pl.add_prefetch(knl, "b", "ju, jt, ki")
    for tile, axis in (("a_fetch", "iu"), ("b_fetch", "ju")):
        knl = pl.add_prefetch(
            knl, tile, compute_at="ki", storage_axes=axis, temporary_address_space="private",
            prefetch_insn_id=f"fetch_{tile[0]}_tile", temporary_name=f"{tile[0]}_part",
        )  # fmt: skip
    return pl.pipeline(knl, "ko", stages=2, via="registers") if ahead else knl


def edges(knl: pl.LoopKernel) -> Edges:
    return at_edges(place(prepared(knl)))


def test_a_product_with_tiles_ahead_in_registers_computes_everywhere() -> None:
    found = edges(tiled(program()))
    assert found.placement.phantoms == EVERYWHERE
    assert found.cleared == {"a_fetch_next", "b_fetch_next"}


def test_the_certificate_says_so() -> None:
    (proof,) = [proof for proof in pl.verify(tiled(program())).proofs if proof.subject == "phantoms"]
    assert proof.says == (
        "over-executed instances of 'fetch_a_tile', 'fetch_b_tile', 'insn_init', 'insn_update', 'store_a_fetch', "
        "'store_b_fetch' touch no element that the program touches"
    )


@pytest.mark.parametrize("steps", [3000, 20_000])
def test_a_question_that_ISL_gives_up_on_is_left_open_and_the_text_says_so(  # noqa: N802
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = pl.generate_code(tiled(program()), target=pl.CudaTarget())
    assert not wanted.notes
    knl = tiled(program())
    monkeypatch.setattr(budget, "ASIDE", steps)
    with pytest.warns(pl.PolyloopWarning, match="left-open"):
        found = pl.generate_code(knl, target=pl.CudaTarget())
    ((name, note),) = found.notes
    assert (name, note.code) == ("product", "left-open")
    assert note.message == "left open whether blocks at the edge of an array can compute as full ones do"
    assert note.notes[0].startswith("ISL gave up")
    first = "// " + note.message
    assert found.device_code.startswith(first)
    assert found.device_code != wanted.device_code
    assert not pl.generate_code(knl, target=pl.CTarget()).notes, "nothing is done at the edges there"


def test_blocks_have_one_text_and_loads_and_stores_alone_are_tested() -> None:
    text = pl.generate_code(tiled(program()), target=pl.CudaTarget()).device_code
    assert " else " not in text
    main = text[text.index("for (int ko = 0") : text.index("for (int ko = max(")]
    assert "if (" not in main[main.index("__syncwarp();") :]
    assert "a_fetch_next[2] = {};" in text


@pytest.mark.few(6)
@pytest.mark.parametrize("m", [1, 7, 8, 9, 17])
@pytest.mark.parametrize(("n", "p"), [(1, 1), (9, 3), (8, 4), (17, 5), (6, 13)])
def test_every_size_agrees_with_numpy_in_any_order_of_threads(m: int, n: int, p: int) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((m, p), np.float32), rng.random((p, n), np.float32)
    global _program  # noqa: PLW0603 - one text for all sizes
    if _program is None:
        _program = pl.generate_code(tiled(program()), target=pl.CudaTarget())
    found = run_on_fibres(_program, {"a": a, "b": b})
    assert disagreement(found, rtol=1e-6, atol=1e-6) is None
    np.testing.assert_allclose(found["random"].c, a @ b, rtol=1e-5)


_program: Any = None


def test_what_is_not_a_number_stays_where_it_is() -> None:
    a, b = np.ones((9, 5), np.float32), np.ones((5, 9), np.float32)
    a[8, 4] = np.inf
    b[:, 3] = np.nan
    found = run_on_fibres(pl.generate_code(tiled(program()), target=pl.CudaTarget()), {"a": a, "b": b})["random"].c
    assert np.array_equal(np.isnan(found), np.isnan(a @ b))
    assert np.array_equal(np.isinf(found), np.isinf(a @ b))


@pytest.mark.parametrize(
    ("why", "knl"),
    [
        ("shared tiles that are filled from global memory at once have no zeros", tiled(program(), ahead=False)),
        ("integers may overflow", tiled(program(dtype=np.int32))),
        ("functions are not looked into", tiled(program("c[i, j] = sum(k, a[i, k]*sqrt(b[k, j]))"))),
    ],
)
def test_otherwise_every_instance_is_one_of_the_program(why: str, knl: pl.LoopKernel) -> None:
    placement = place(prepared(knl))
    assert at_edges(placement).placement is placement, why


def test_sizes_that_tiles_divide_leave_nothing_to_do() -> None:
    knl = tiled(pl.assume(program(), "m mod 8 = 0 and n mod 8 = 0 and p mod 4 = 0"))
    placement = place(prepared(knl))
    assert at_edges(placement).placement is placement


def test_the_c_target_computes_what_is_used() -> None:
    assert "{}" not in pl.generate_code(tiled(program()), target=pl.CTarget()).device_code
    rng = np.random.default_rng(2)
    a, b = rng.random((9, 5), np.float32), rng.random((5, 17), np.float32)
    found = pl.compile(tiled(program()), target=pl.CTarget())(a=a, b=b)
    np.testing.assert_allclose(found.c, a @ b, rtol=1e-5)


def test_counts_are_those_of_the_program() -> None:
    counts = pl.get_op_map(tiled(program()), count_within_subscripts=False)
    assert counts.filter_by(name="mul").eval_and_sum({"m": 9, "n": 5, "p": 3}) == 9 * 5 * 3


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_text_compiles_and_keeps_its_registers(arch: str) -> None:
    text = pl.generate_code(tiled(program()), target=pl.CudaTarget(arch)).device_code
    assert compile_cuda(text, arch).cubin


def test_phantoms_that_would_race_with_each_other_do_not_run() -> None:
    """Threads 1 and 2 have no instance for any size; as phantoms both would write ``w[1]``."""
    knl = pl.make_kernel(
        "{[b, x, y, i, j, k]: 0 <= b and 0 <= x, i, j < 16 and 0 <= y, k < 8 and 16*b + i < n and 16*b + j < n}",
        """
        for b
            for x, y
                <float32> tile[x, y] = a[x, y]
            end
            for i
                w[(i + 1)//2] = sum(k, tile[i, k])
            end
            for j
                c[16*b + j] = w[(j + 1)//2]
            end
        end
        """,
        [
            pl.GlobalArg("a", np.float32, shape="16, 8"),
            pl.GlobalArg("c", np.float32, shape="n"),
            pl.TemporaryVariable("w", np.float32, shape=(16,), address_space=pl.AddressSpace.LOCAL),
            ...,
        ],
        assumptions="n = 1",
    )
    knl = pl.set_temporary_address_space(knl, "tile", "local").tag_inames("b:g.0, x:l.0, i:l.0, j:l.0")
    assert not edges(knl).placement.phantoms
    pl.generate_code(knl, target=pl.CudaTarget())
