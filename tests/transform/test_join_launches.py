"""The last block of a group to arrive goes on to the next launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.errors import PolyloopError, VerificationError
from polyloop.runtime.fibres import disagreement, fibre_library, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import same_after_replay

F4 = np.float32


@cache
def sums(assume: str) -> pl.LoopKernel:
    """Return sums of rows, added to what is there: whoever adds twice is found out."""
    return pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "y[i] = y[i] + sum(j, a[i, j])",
        [pl.GlobalArg("a", F4, shape="n, m"), pl.GlobalArg("y", F4, shape="n"), ...], name="rows", assumptions=assume,
    )  # fmt: skip


@cache
def parts(tile: int = 8, behind: int = 8, terms: int = 4, assume: str = "n >= 1 and m >= 1") -> pl.LoopKernel:
    """Return sums of rows by blocks of *terms* terms, and a second launch."""
    knl = pl.split_iname(sums(assume), "j", terms, outer_iname="part", inner_iname="term")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="i", new_inames="row, parts", temporary_name="sums",
        temporary_address_space="global", default_tag=None,
    )  # fmt: skip
    knl = pl.split_iname(knl, "row", tile, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "i", behind, outer_tag="g.0", inner_tag="l.0")
    return pl.tag_inames(knl, "parts:g.1")


@cache
def products(rows: int = 8, columns: int = 8, terms: int = 4) -> pl.LoopKernel:
    """Return a product in tiles and parts of k, with blocks on three axes, and a second launch with other threads."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}", "c[i, j] = c[i, j] + sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a", F4, shape="m, p"), pl.GlobalArg("b", F4, shape="p, n"), pl.GlobalArg("c", F4, shape="m, n"),
         ...], name="products", assumptions="m >= 1 and n >= 1 and p >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "k", terms, outer_iname="part", inner_iname="term")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="i, j", new_inames="row, column, parts", temporary_name="sums",
        temporary_address_space="global", default_tag=None,
    )  # fmt: skip
    for name, size, axis in (("row", rows, 1), ("i", rows, 1), ("column", columns, 0), ("j", columns, 0)):
        knl = pl.split_iname(knl, name, size, outer_tag=f"g.{axis}")
    knl = pl.tag_inames(knl, "parts:g.2, row_inner:l.1, column_inner:l.0, j_inner:l.0")
    knl = pl.split_iname(knl, "i_inner", 2, outer_iname="i_step", inner_tag="l.1")
    knl = pl.add_prefetch(knl, "b", "column_inner, term", temporary_name="b_tile", default_tag="l.auto")
    return pl.add_prefetch(
        knl, "sums", "i_inner_inner, j_inner", temporary_name="s_tile", temporary_address_space="local",
        default_tag="l.auto",
    )  # fmt: skip


def numbers(n: int, m: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"a": rng.integers(-4, 5, (n, m)).astype(F4), "y": rng.integers(-4, 5, n).astype(F4), "n": n, "m": m}


def right(program: GeneratedProgram, given: dict[str, Any], want: np.ndarray[Any, Any], library: Any = None) -> None:
    """Check that a program finds *want* on fibres, in each order of blocks and threads."""
    found = run_on_fibres(program, given, library=library or fibre_library(program, quick=True))
    assert disagreement(found) is None
    (name,) = next(iter(found.values())).keys()
    np.testing.assert_array_equal(found["random"][name], want)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PolyloopError) as error:
        call()
    return str(error.value)


# {{{ values


def test_the_last_block_adds_up_what_all_have_stored() -> None:
    program = pl.generate_code(pl.join_launches(parts(), "parts"), target=pl.CudaTarget())
    assert [launch.name for launch in program.launches] == ["rows_0"]
    assert program.zeroed == ("arrived",)
    library = fibre_library(program, quick=True)
    for n, m in ((8, 4), (21, 19), (1, 1), (33, 3)):
        given = numbers(n, m)
        right(program, given, given["y"] + given["a"].sum(1), library)


def test_both_launches_may_have_blocks_on_more_axes_and_barriers() -> None:
    program = pl.generate_code(pl.join_launches(products(), "parts"), target=pl.CudaTarget())
    assert "arrives_last(arrived + blockIdx.x + gridDim.x * blockIdx.y, gridDim.z)" in program.device_code
    assert program.device_code.count("__syncthreads()") > 2, "more than those of the count"
    rng, library = np.random.default_rng(0), fibre_library(program, quick=True)
    for m, n, p in ((8, 8, 8), (13, 21, 9), (3, 10, 1)):
        a, b, c = (rng.integers(-4, 5, shape).astype(F4) for shape in ((m, p), (p, n), (m, n)))
        right(program, {"a": a, "b": b, "c": c, "m": m, "n": n, "p": p}, c + a @ b, library)


def test_hosts_and_other_devices_run_the_launches_one_after_the_other() -> None:
    knl, given = pl.join_launches(parts(), "parts"), numbers(21, 19)
    want = given["y"] + given["a"].sum(1)
    np.testing.assert_array_equal(pl.interpret(knl, **{**given, "y": given["y"].copy()})["y"], want)
    found = pl.compile(knl, target=pl.CTarget())(a=given["a"], y=given["y"].copy())["y"]
    np.testing.assert_array_equal(found, want)
    hip = pl.generate_code(knl, target=pl.HipTarget("gfx90a"))
    assert ([launch.name for launch in hip.launches], hip.zeroed) == (["rows_0", "rows_1"], ())


def test_a_replay_joins_launches_again() -> None:
    same_after_replay(sums("n >= 1 and m >= 1"), pl.join_launches(parts(), "parts"))


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_tiles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tile, terms = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    program = pl.generate_code(pl.join_launches(parts(tile, tile, terms), "parts"), target=pl.CudaTarget())
    library = fibre_library(program, quick=True)
    for _ in range(3):
        given = numbers(int(rng.integers(1, 30)), int(rng.integers(1, 30)), seed)
        right(program, given, given["y"] + given["a"].sum(1), library)


# }}}
# {{{ mutations


MUTATIONS = {
    "each block takes itself for the last": ("return before == blocks - 1;", "return true;"),
    "the first block takes itself for the last": ("return before == blocks - 1;", "return before == 0;"),
    "no fence before the count": ("    __threadfence();  // what they", "    // what they"),
    "no fence behind the count": ("    __threadfence();  // what others", "    // what others"),
    "a counter that is left": ("atomicInc(arrived, blocks - 1)", "atomicAdd(arrived, 1u)"),
    "one counter for all groups": ("arrived + blockIdx.x, gridDim.y", "arrived, gridDim.y"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_the_count_needs_is_missed_on_fibres(name: str) -> None:
    program = pl.generate_code(pl.join_launches(parts(), "parts"), target=pl.CudaTarget())
    old, new = MUTATIONS[name]
    assert program.device_code.count(old) == 1
    broken = replace(program, device_code=program.device_code.replace(old, new))
    given = numbers(21, 19)
    with pytest.raises((AssertionError, VerificationError)):
        right(broken, given, given["y"] + given["a"].sum(1))


# }}}
# {{{ what is shown


def test_the_certificate_names_the_count() -> None:
    knl = pl.join_launches(parts(), "parts")
    waits = [str(wait) for wait in pl.verify(knl).waits if wait.array == "sums"]
    assert waits == [
        "'sums': 'compute_sums' before 'insn': blocks of 'rows_0' along g.1 have arrived before 'rows_1' begins"
    ]
    assert "the last to arrive along g.1 goes on to the next launch" in str(knl)


def test_explain_and_pictures_have_both_launches() -> None:
    knl = pl.join_launches(parts(64, 64, 256), "parts")
    assert "rows_1: 64 blocks, each executed by the last of 32 blocks of rows_0 to arrive" in str(
        pl.explain(knl, {"n": 4096, "m": 8192}))  # fmt: skip
    assert "== the last block along g.1 to arrive goes on" in str(pl.draw_loops(knl))


def test_one_cooperative_launch_has_barriers_of_the_grid() -> None:
    run = pl.compile(pl.join_launches(parts(), "parts"), target=pl.CudaTarget(), launches="cooperative")
    assert "wait_for_blocks(" in run.source
    assert "arrives_last" not in run.source


def test_the_text_compiles() -> None:
    program = pl.generate_code(pl.join_launches(products(), "parts"), target=pl.CudaTarget("sm_90"))
    assert re.search(r"float \*sums,", program.device_code), "others write what a block reads"
    compile_cuda(program.device_code, "sm_90")


# }}}
# {{{ refusals


def test_launches_in_other_tiles_are_refused_with_instances() -> None:
    text = refused(lambda: pl.join_launches(parts(8, 4), "parts"))
    assert text == (
        "join_launches on kernel 'rows': blocks depend on others than those that differ along g.1 [bad-arrivals]\n"
        "  y[i] = y[i] + sum(j, a[i, j])                        (line 1, instruction 'insn')\n"
        "  Note: instance (row_outer=0, row_inner=4, parts=0) on thread (g.0=0, g.1=0, l.0=4) writes sums[4, 0]\n"
        "  Note: instance (i=4) on thread (g.0=1, g.1=0, l.0=0) reads it, and begins when the blocks with its "
        "indices on g.0 have arrived\n"
        "  Hint: divide the loops of both launches into equal tiles, on the same axes of blocks"
    )


def test_a_block_that_would_go_on_has_to_be_there() -> None:
    text = refused(lambda: pl.join_launches(parts(assume="n >= 1"), "parts"))
    assert "no block would execute 'insn' [bad-arrivals]" in text
    assert "there is none along g.1 for n=1, m=0" in text


def test_the_second_launch_is_without_the_axis() -> None:
    text = refused(lambda: pl.join_launches(parts(), "i_outer"))
    assert "no launch follows one along g.0 that has no iname there [bad-arrivals]" in text


def test_an_iname_that_is_not_on_blocks() -> None:
    assert "iname 'term' is tagged '" in refused(lambda: pl.join_launches(parts(), "term"))


def test_blocks_in_an_order_of_their_own_do_not_count() -> None:
    text = refused(lambda: pl.join_launches(pl.order_blocks(parts(), "parts", group=2), "parts"))
    assert "blocks cannot count their arrivals along g.1 [bad-arrivals]" in text
    knl = pl.persist_blocks(pl.join_launches(parts(), "parts"), 4)
    assert "blocks execute several ones in turn: pl.persist_blocks" in refused(lambda: pl.generate_code(knl))


def test_a_later_step_that_parts_the_tiles_is_refused_when_code_is_generated() -> None:
    knl = pl.join_launches(parts(), "parts")
    knl = pl.split_iname(knl, "i_outer", 2, outer_iname="far", inner_iname="near", do_tagged_check=False)
    knl = pl.tag_inames(knl, "far:g.0", force=True)
    assert "bad-arrivals" in refused(lambda: pl.generate_code(knl))


# }}}
# {{{ on the GPU


@pytest.mark.gpu
def test_the_gpu_agrees_call_after_call_and_on_two_streams() -> None:
    torch = pytest.importorskip("torch")
    run = pl.compile(pl.join_launches(products(32, 32, 64), "parts"), target=pl.CudaTarget())
    a, b = (torch.randint(-4, 5, shape, device="cuda").float() for shape in ((1000, 700), (700, 520)))
    want = (a.double() @ b.double()).float()
    for _ in range(3):
        assert torch.equal(run(a=a, b=b, c=torch.ones_like(want))["c"], want + 1)
    c = torch.zeros_like(want)
    bound = run.bind(a=a, b=b, c=c)
    for _ in range(3):
        bound()
    torch.cuda.synchronize()
    assert torch.equal(c, 3 * want)
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(20):
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(run(a=a, b=b, c=torch.ones_like(want))["c"])
        torch.cuda.synchronize()
        assert all(torch.equal(found, want + 1) for found in results)


# }}}
