"""Scans over blocks in one launch: numbers at edge sizes, the text, refusals, and the function that looks back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import DeviceLaunch, GeneratedProgram
from polyloop.kernel.arrays import ArrayArg
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.testing.brute import judge
from polyloop.transform.staging.staging import assign_auto
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.test_scans import check_spoilt

Golden = Callable[[str, str], None]
F = np.float32
INCLUSIVE = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
BEFORE = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i}"]


def prefix(text: str = "b[i] = sum(j, a[j])", domains: Any = INCLUSIVE, dtype: Any = F) -> pl.LoopKernel:
    return pl.make_kernel(domains, text, [pl.GlobalArg("a, b", dtype, shape="n"), ...], name="prefix")


def in_one_launch(knl: pl.LoopKernel, threads: int = 8, items: int = 2) -> pl.LoopKernel:
    """Return a scan with a tile for each block, and a few results for each of its threads."""
    knl = pl.split_scan(
        knl, "i", threads * items, outer_iname="tile", outer_tag="g.0", sum_name="tile_sum", carry_name="before_tile"
    )
    knl = pl.split_iname(knl, "j_inner", items, outer_tag="l.0")
    knl = pl.split_scan(
        knl, "i_inner", items, outer_iname="t", outer_tag="l.0", sum_name="thread_sum", carry_name="before_thread"
    )
    return pl.realize_scan(knl)


@pytest.mark.few(2)
@pytest.mark.parametrize(("threads", "items"), [(1, 4), (8, 2), (32, 1), (64, 2), (48, 3)])
def test_tiles_by_blocks(threads: int, items: int) -> None:
    knl = in_one_launch(prefix(), threads, items)
    tile = threads * items
    for n in (0, 1, tile - 1, tile, tile + 1, 3 * tile + 1):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_the_text(golden: Golden) -> None:
    knl = in_one_launch(prefix(), 128, 4)
    golden("golden/scan_over_blocks.cu", cuda(knl))
    same_after_replay(prefix(), knl)
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert [launch.name for launch in program.launches] == ["prefix_clear", "prefix"]
    assert [array.name for array in program.workspace] == ["next_block", "totals"]


def test_a_block_does_first_what_needs_no_other_block() -> None:
    """It stores its total at once, and looks back behind the scan of its own threads."""
    text = cuda(in_one_launch(prefix(), 128, 4))
    places = [text.rindex(call) for call in (
        "block_sum_float32(tile_sum", "store_float32(before_thread", "= prefix_block_exclusive_sum",
        "= prefix_grid_exclusive_sum",
    )]  # fmt: skip
    assert places == sorted(places)


def test_devices_whose_threads_cannot_pause() -> None:
    knl = in_one_launch(prefix(), 128, 4)
    texts = [pl.generate_code(knl, target=pl.CudaTarget(arch)).device_code for arch in ("sm_60", "sm_70", "sm_90")]
    assert ["__nanosleep(" in text for text in texts] == [False, True, True]


def test_what_other_blocks_see_stays_where_it_is() -> None:
    """A store to global memory, and what reads it in a later launch, do not pass the place where blocks wait."""
    knl = pl.make_kernel(
        "{[i, j, m, q]: 0 <= i, m, q < n and 0 <= j <= i}",
        "b[i] = sum(j, a[j]) {id=s}\nc[m] = 2*a[m] {id=t}\nd[q] = c[n - 1 - q] {id=u}",
        [pl.GlobalArg("a, b, c, d", F, shape="n"), ...],
        name="three",
    )
    for iname in "mq":
        knl = pl.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    knl = in_one_launch(knl)
    assert len(pl.generate_code(knl, target=pl.CudaTarget()).launches) == 3
    for n in (1, 33, 100):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a), "c": 2 * a, "d": 2 * a[::-1]})


def test_an_exclusive_scan() -> None:
    knl = in_one_launch(prefix(domains=BEFORE))
    for n in (1, 15, 16, 17, 50):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a) - a})


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.float64, np.int16, np.complex64])
def test_types(dtype: type[np.generic]) -> None:
    """Values of 4 bytes share a word with what they are; others stand beside it."""
    knl = in_one_launch(prefix(dtype=dtype), 32, 1)
    a = np.random.default_rng(1).integers(0, 5, 100).astype(dtype)
    check(knl, {"a": a}, {"b": np.cumsum(a).astype(dtype)})


@pytest.mark.parametrize(("operation", "expected"), [("max", np.maximum), ("product", np.multiply)])
def test_operations(operation: str, expected: np.ufunc) -> None:
    knl = in_one_launch(prefix(f"b[i] = {operation}(j, a[j])"), 32, 1)
    a = np.random.default_rng(1).choice(np.array([1, -1, 2, 0.5], F), 100)
    check(knl, {"a": a}, {"b": expected.accumulate(a)})


def segments(threads: int, items: int) -> pl.LoopKernel:
    arguments = [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")]
    knl = pl.make_kernel(INCLUSIVE, "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value", arguments)
    return in_one_launch(knl, threads, items)


@pytest.mark.parametrize("threads", [4, 32])
def test_segments(threads: int) -> None:
    """A record, and not commutative: blocks have to be combined in their order."""
    knl = segments(threads, 2)
    for n in (1, 2 * threads, 2 * threads + 1, 9 * threads):
        (x,) = vectors(n, 1)
        starts = np.random.default_rng(n).random(n) < 0.1
        expected = x.copy()
        for i in range(1, n):
            expected[i] += 0 if starts[i] else expected[i - 1]
        check(knl, {"x": x, "starts": starts}, {"b": expected})


def test_where_the_greatest_so_far_stands() -> None:
    arguments = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("best", np.int32, shape="n")]
    knl = in_one_launch(pl.make_kernel(INCLUSIVE, "best[i] = argmax(j, a[j], j).index", arguments), 32, 2)
    (a,) = vectors(300, 1)
    check(knl, {"a": a}, {"best": np.array([a[: i + 1].argmax() for i in range(300)], np.int32)})


def test_two_thread_axes() -> None:
    knl = pl.split_scan(prefix(), "i", 64, outer_tag="g.0")
    knl = pl.split_iname(pl.split_iname(knl, "j_inner", 32, outer_tag="l.1"), "j_inner_inner", 2, outer_tag="l.0")
    knl = pl.realize_scan(pl.split_scan(knl, "i_inner", 2, outer_tag="l.0"))
    for n in (1, 64, 65, 300):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_two_scans_in_one_kernel() -> None:
    """Sums and greatest elements, each passed on by itself; blocks have one number."""
    arguments = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j <= i and 0 <= k <= i}",
        "for i\n b[i] = sum(j, a[j]) {id=sums}\n c[i] = max(k, a[k]) {id=most}\nend",
        arguments,
    )
    for id_, inner in (("sums", "j"), ("most", "k")):
        knl = pl.split_scan(knl, "i", 32, within=f"id:{id_}", outer_iname=f"{inner}_tile", outer_tag="g.0",
                            inner_iname=f"{inner}_place", inner_tag="l.0")  # fmt: skip
        knl = pl.tag_inames(knl, f"{inner}_inner:l.0")
    knl = pl.realize_scan(knl)
    assert cuda(knl).count("atomicAdd") == 1
    for n in (1, 32, 33, 200):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a), "c": np.maximum.accumulate(a)})


def test_what_is_counted() -> None:
    knl = in_one_launch(prefix(), 64, 2)
    waits = pl.get_synchronization_map(knl)  # for the sum of a tile, the blocks before it, and the scan of threads
    assert str(waits).splitlines() == ["kernel_launch : 1", "barrier_local : 3"]
    assert [launch.name for launch in pl.explain(knl, {"n": 1000}, "H100").launches] == ["prefix_clear", "prefix"]


def test_brute_force_agrees() -> None:
    for domains in (INCLUSIVE, BEFORE):
        knl = in_one_launch(prefix(domains=domains), 2, 2)
        for n in (1, 4, 5, 13):
            assert not list(judge(assign_auto(knl), {"n": n}, {}))


@pytest.mark.slow
def test_what_brute_force_finds_wrong_the_checker_finds() -> None:
    def draw(rng: random.Random) -> pl.LoopKernel:
        return in_one_launch(prefix(domains=rng.choice((INCLUSIVE, BEFORE))), rng.choice((2, 3)), rng.choice((1, 2)))

    check_spoilt(draw, 80)


def test_what_blocks_cannot_scan() -> None:
    rows = pl.make_kernel(
        ["{[r]: 0 <= r < m}", INCLUSIVE], "b[r, i] = sum(j, a[r, j])", [pl.GlobalArg("a, b", F, shape="m, n"), ...],
        name="rows",
    )  # fmt: skip
    knl = pl.split_scan(rows, "i", 4, outer_tag="g.0")
    assert refused(knl, pl.realize_scan, "parallel-scan") == (
        "realize_scan on kernel 'rows': the blocks along 'i_outer' cannot scan over what 'b_carry' combines "
        "[parallel-scan]\n"
        "  b_carry[r, i_outer] = sum(j_outer, b_sum[r, j_outer]) (instruction 'b_carry')\n"
        "  Note: each block passes on one total, and 'b_carry' runs along r as well\n"
        "  Hint: give the scan of the sums a loop of its own: pl.split_scan(..., carry_iname='c')"
    )
    knl = pl.tag_inames(prefix(), "i:g.0")
    assert refused(knl, pl.realize_scan, "parallel-scan") == (
        "realize_scan on kernel 'prefix': the blocks along 'i' cannot scan over what 'insn' combines [parallel-scan]\n"
        "  b[i] = sum(j, a[j])                                  (line 1, instruction 'insn')\n"
        "  Note: each result would be a block of its own, which does nothing else\n"
        "  Hint: divide the scan before: pl.split_scan(knl, 'i', 256, outer_tag='g.0')"
    )
    beside = pl.make_kernel(
        "{[i, j, p, q]: 0 <= i, p, q < n and 0 <= j <= i}",
        "b[i] = sum(j, a[j])\nc[p, q] = 1",
        [pl.GlobalArg("a, b", F, shape="n"), pl.GlobalArg("c", F, shape="n, n"), ...],
        name="beside",
    )
    assert refused(in_one_launch(beside), lambda knl: pl.tag_inames(knl, "p:g.1"), "parallel-scan") == (
        "tag_inames on kernel 'beside': the blocks cannot scan over what 'before_tile' combines [parallel-scan]\n"
        "  before_tile = sum(j_outer, tile_sum, along=tile (after)) (instruction 'before_tile')\n"
        "  Note: blocks are numbered along one axis, and the kernel has g.0, g.1\n"
        "  Hint: scan the sums of the tiles in a launch of its own: pl.split_scan(..., carry_iname='c')"
    )
    refused(pl.tag_inames(beside, "p:g.1"), in_one_launch, "parallel-scan")
    knl = prefix("b[i] = reduce(ordered(sum), j, a[j])")
    refused(knl, lambda k: pl.split_scan(k, "i", 4, outer_tag="g.0"), "ordered-reduction")


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_scan_over_blocks_written_by_hand(exclusive: bool) -> None:
    """Sums of tiles, what is before each or up to it, and the tiles, as instructions of the program itself."""
    knl = pl.make_kernel(
        [
            "[m] -> {[u, k]: 0 <= u < m and 0 <= k < 32}",
            "[m] -> {[t]: 0 <= t < m}",
            f"[t] -> {{[v]: 0 <= v {'<' if exclusive else '<='} t}}",
            "{[i, j]: 0 <= i < 32 and 0 <= j <= i}",
        ],
        """
        <> total[u] = sum(k, a[32*u + k])
        <> others[t] = sum(v, total[v])
        b[32*t + i] = others[t] + sum(j, a[32*t + j])
        """,
        [pl.GlobalArg("a, b", F, shape="32*m"), ...],
        name="by_hand",
    )
    knl = pl.tag_inames(knl, {"u": "g.0", "k": "l.0", "t": "g.0", "i": "l.0"})
    knl = pl.realize_scan(knl)
    assert [launch.name for launch in pl.generate_code(knl, target=pl.CudaTarget()).launches] == [
        "by_hand_clear", "by_hand",
    ]  # fmt: skip
    for m in (0, 1, 2, 5, 40):
        (a,) = vectors(32 * m, 1)
        tiles = a.reshape(m, 32)
        ends = np.cumsum(tiles.sum(1))
        others = ends - tiles.sum(1) if exclusive else ends
        check(knl, {"a": a}, {"b": (others[:, None] + np.cumsum(tiles, 1)).astype(F).reshape(-1)})


def probe(text: str, before: int) -> GeneratedProgram:
    """Return a program that calls the function of *text* that looks back, in one block with so many before it."""
    helpers = text.split("// Clears", maxsplit=1)[0]
    source = f"""{helpers}
extern "C" __global__ void probe(unsigned long long *totals, float *result)
{{
    __shared__ float before[1];
    result[threadIdx.x] = prefix_grid_exclusive_sum_float32(1000.0f, {before}, totals, before);
}}
"""
    arguments = (
        ArrayArg("totals", np.dtype(np.uint64), (before + 1,), (1,), is_output=True),
        ArrayArg("result", np.dtype(F), (64,), (1,), is_input=False, is_output=True),
    )
    launch = DeviceLaunch("probe", (1, 1, 1), (64, 1, 1), 4, ("totals", "result"))
    return GeneratedProgram("probe", "cuda", source, (launch,), arguments)


@pytest.mark.parametrize("before", [1, 31, 32, 33, 64, 65, 100])
def test_looking_back_at_blocks_that_are_not_done(before: int) -> None:
    """Blocks on fibres are done before the next one begins, so here their words are made by hand."""
    text = cuda(in_one_launch(prefix(), 64, 1))
    rng = np.random.default_rng(before)
    for nearest in {0, before // 2, before - 1}:  # the last block that has the total of all up to it
        own = rng.integers(-9, 10, before).astype(F)
        kind = np.where(np.arange(before) <= nearest, rng.integers(1, 3, before), 1)
        kind[[0, nearest]] = 2
        kind[: rng.integers(nearest + 1)] = 0  # not known, and not needed
        held = np.where(kind == 2, np.cumsum(own), own).astype(F)
        words = np.zeros(before + 1, np.uint64)
        words[:before] = kind.astype(np.uint64) << np.uint64(32) | held.view(np.uint32)
        for result in run_on_fibres(probe(text, before), {"totals": words}).values():
            assert (result["result"] == own.sum()).all()
            last = int(result["totals"][before])
            assert last >> 32 == 2
            assert np.uint32(last & 0xFFFFFFFF).view(F) == own.sum() + 1000


@pytest.mark.nvrtc
def test_nvrtc_takes_scans_over_blocks() -> None:
    for knl in (in_one_launch(prefix(), 64, 2), in_one_launch(prefix(dtype=np.float64), 64, 2), segments(64, 2),
                in_one_launch(prefix(), 4, 2)):  # fmt: skip
        for arch in ("sm_80", "sm_90"):
            compile_cuda(cuda(knl), arch)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [F, np.float64])
def test_gpu_many_blocks_many_times(dtype: type[np.generic]) -> None:
    """Thousands of blocks on several streams at a time: each call has memory of its own to pass totals on through."""
    driver = pytest.importorskip("pycuda.driver")
    pytest.importorskip("pycuda.autoprimaryctx")
    gpuarray = pytest.importorskip("pycuda.gpuarray")
    run = pl.compile(in_one_launch(prefix(dtype=dtype), 128, 4), target=pl.CudaTarget())
    rng = np.random.default_rng(0)
    hosts = [rng.integers(-9, 10, 2**21 + 3 * k).astype(dtype) for k in range(4)]
    arrays, streams = [gpuarray.to_gpu(host) for host in hosts], [driver.Stream() for _ in hosts]
    for _ in range(10):
        results = [
            run(a=array, stream=stream, poison=True).b for array, stream in zip(arrays, streams, strict=True)
        ]
        driver.Context.synchronize()
        for host, result in zip(hosts, results, strict=True):
            np.testing.assert_array_equal(result.get(), np.cumsum(host))
