"""Threads with roles in blocks that belong together: those of a cluster, and those whose last one goes on."""

from __future__ import annotations

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
from tests.generated import bare
from tests.transform.checking import same_after_replay

F4 = np.float32
TARGET = pl.CudaTarget("sm_90a")
BOTH = {"load": "t", "compute": "*"}
TERMS = 4
"""Of a part."""


@cache
def sums() -> pl.LoopKernel:
    """Return sums of rows that are read in the other direction, so that threads need what others have fetched."""
    return pl.make_kernel(
        "{[r, k, i]: 0 <= r < m and 0 <= k < p and 0 <= i < 64}", "c[r, i] = c[r, i] + sum(k, a[r, k, 63 - i])",
        [pl.GlobalArg("a", F4, shape="m, p, 64"), pl.GlobalArg("c", F4, shape="m, 64"), ...], name="rows",
        target=TARGET, assumptions="m >= 1 and p >= 1",
    )  # fmt: skip


def fetched(knl: pl.LoopKernel) -> pl.LoopKernel:
    """Return sums by blocks of which one thread fetches rows, two ahead."""
    knl = knl.add_prefetch("a", "x", temporary_name="t", default_tag="l.auto")
    return pl.assign_roles(pl.pipeline(knl, "term", 3, via="tma"), BOTH)


@cache
def joined() -> pl.LoopKernel:
    """Return sums in parts, which the last block of a row adds up."""
    knl = pl.split_iname(sums(), "k", TERMS, outer_iname="part", inner_iname="term")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="r, i", new_inames="row, x, parts", temporary_name="sums",
        temporary_address_space="global", default_tag=None,
    )  # fmt: skip
    knl = pl.tag_inames(knl, "row:g.0, r:g.0, parts:g.1, x:l.0, i:l.0")
    return pl.join_launches(fetched(knl), "parts")


@cache
def clustered() -> pl.LoopKernel:
    """Return sums in two parts, by the two blocks of a cluster, each of which adds up half of the columns."""
    knl = pl.assume(pl.split_iname(sums(), "k", TERMS, outer_iname="part", inner_iname="term"), f"p <= {2 * TERMS}")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="i", new_inames="x, block", temporary_name="sums", temporary_address_space="cluster"
    )
    knl = pl.split_iname(knl, "i", 32, outer_iname="share", inner_iname="column", outer_tag="c.0", inner_tag="l.0")
    return fetched(pl.tag_inames(knl, "block:c.0, part:unr, r:g.0, x:l.0"))


def check(program: GeneratedProgram, rows: int, terms: int, library: Any = None) -> None:
    """Compare a program on fibres with NumPy, in each order of blocks and threads."""
    rng = np.random.default_rng(rows + terms)
    a, c = rng.integers(-4, 5, (rows, terms, 64)).astype(F4), rng.integers(-4, 5, (rows, 64)).astype(F4)
    found = run_on_fibres(program, {"a": a, "c": c}, library=library or fibre_library(program, quick=True))
    assert disagreement(found) is None
    np.testing.assert_array_equal(found["random"]["c"], c + a.sum(1)[:, ::-1])


@pytest.mark.parametrize("make", [joined, clustered])
def test_numbers(make: Any) -> None:
    program = pl.generate_code(make(), target=TARGET)
    compile_cuda(program.device_code, "sm_90a")
    library = fibre_library(program, quick=True)
    for rows, terms in ((3, 2 * TERMS), (2, TERMS + 1), (1, 1)):
        check(program, rows, terms, library)


def test_the_threads_that_copy_have_ended_when_a_block_goes_on() -> None:
    text = pl.generate_code(joined(), target=TARGET).device_code
    copying, computing = text.split("// compute", 1)
    assert "return;\n" in copying
    assert "if (arrives_last_of_64(arrived + blockIdx.x, gridDim.y)) {" in computing
    assert '"bar.sync 1, 64;" ::: "memory");  // all threads have stored' in text


def test_the_threads_that_copy_do_not_wait_for_the_cluster() -> None:
    copying, computing = pl.generate_code(clustered(), target=TARGET).device_code.split("// compute", 1)
    main = copying.split("threadIdx.x >= 64", 1)[1]
    assert "cluster_" not in main
    assert (computing.count("cluster_wait();"), computing.count("cluster_barrier();")) == (1, 2)


MISTAKES = {
    "the threads that copy go on": (joined, "        return;\n", ""),
    "a barrier of all threads":
        (joined, 'asm volatile("bar.sync 1, 64;" ::: "memory");\n    return', "__syncthreads();\n    return"),
    "no fence": (joined, "__threadfence();  // what they", "// what they"),
    "no barrier of the cluster": (clustered, "cluster_barrier();  // sums", "// sums"),
    "no barrier at the end": (clustered, "cluster_barrier();  // no block ends", "// no block ends"),
    "a slot that is not free": (clustered, "ring_wait(&t_free[0], (term + 2) % 3, &t_free_phases);", ""),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_fibres_see_mistakes(mistake: str) -> None:
    make, old, new = MISTAKES[mistake]
    program = pl.generate_code(make(), target=TARGET)
    text = bare(program.device_code) if old not in program.device_code else program.device_code
    assert text.count(old) >= 1
    with pytest.raises((AssertionError, VerificationError)):
        check(replace(program, device_code=text.replace(old, new)), 3, 2 * TERMS)


def test_replays() -> None:
    for knl in (joined(), clustered()):
        same_after_replay(sums(), knl)


def refused(knl: pl.LoopKernel) -> str:
    with pytest.raises(PolyloopError) as caught:
        pl.generate_code(knl, target=TARGET)
    return str(caught.value)


def test_sums_of_a_cluster_are_refused() -> None:
    knl = pl.make_kernel(
        "{[r, k, q, i]: 0 <= r < m and 0 <= k < 4 and 0 <= q < 2 and 0 <= i < 64}",
        "c[r, i] = sum((k, q), a[r, q, k, 63 - i])  {id=total}",
        [pl.GlobalArg("a", F4, shape="m, 2, 4, 64"), pl.GlobalArg("c", F4, shape="m, 64"), ...], target=TARGET,
    )  # fmt: skip
    knl = pl.tag_inames(knl, "r:g.0, q:c.0, i:l.0").add_prefetch("a", "i", temporary_name="t", default_tag="l.auto")
    knl = pl.assign_roles(pl.pipeline(knl, "k", 3, via="tma"), BOTH)
    assert "all threads of the block would meet in 'total'" in refused(knl)


def test_copies_of_the_launch_behind_are_refused() -> None:
    knl = pl.make_kernel(
        "{[r, k, i, q]: 0 <= r < m and 0 <= k, q < p and 0 <= i < 64}",
        "c[r, i] = sum(k, a[r, k, 63 - i]) + sum(q, d[r, q, 63 - i])",
        [pl.GlobalArg("a, d", F4, shape="m, p, 64"), pl.GlobalArg("c", F4, shape="m, 64"), ...], target=TARGET,
        assumptions="m >= 1 and p >= 1",
    )  # fmt: skip
    knl = pl.split_iname(knl, "k", TERMS, outer_iname="part", inner_iname="term")
    knl = pl.stage_reduction(
        knl, "part", sweep_inames="r, i", new_inames="row, x, parts", temporary_name="sums",
        temporary_address_space="global", default_tag=None,
    )  # fmt: skip
    knl = pl.tag_inames(knl, "row:g.0, r:g.0, parts:g.1, x:l.0, i:l.0")
    for array, iname, tile in (("a", "x", "t"), ("d", "i", "u")):
        knl = knl.add_prefetch(array, iname, temporary_name=tile, default_tag="l.auto")
        knl = pl.pipeline(knl, "term" if tile == "t" else "q", 3, via="tma")
    knl = pl.assign_roles(knl, {"load": "t, u", "compute": "*"})
    with pytest.raises(PolyloopError, match="threads that copy have ended when 'fetch_d' is to start") as caught:
        pl.join_launches(knl, "parts")
    assert "[bad-arrivals]" in str(caught.value)
