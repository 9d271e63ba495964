"""Orders of blocks, and blocks that execute several ones of the grid in turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from examples import matmul_wgmma
from polyloop.errors import PolyloopError, VerificationError
from polyloop.runtime.fibres import disagreement, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda, resources
from tests.generated import bare, flat
from tests.transform.checking import same_after_replay
from tests.transform.test_scan_over_blocks import in_one_launch, prefix
from tests.transform.test_tma import boxed, same
from tests.transform.test_wgmma import BF16, TARGET, check, product, tiled

stored = cache(matmul_wgmma.stored_by_boxes)

Golden = Callable[[str, str], None]
F4 = np.float32
ANY = "m >= 1 and n >= 1 and p >= 1 and p mod 8 = 0 and n mod 8 = 0"
MOST = [1, 3, 1000]


def plane(axes: str = "g.1, g.0") -> pl.LoopKernel:
    """Return a kernel with blocks of 4 by 4 elements along two axes."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j] + i + 100*j",
        [pl.GlobalArg("a", F4, shape="n, m"), pl.GlobalArg("b", F4, shape="n, m"), ...], name="plane",
    )  # fmt: skip
    of_i, of_j = axes.split(", ")
    knl = pl.split_iname(knl, "i", 4, outer_iname="by", outer_tag=of_i, inner_tag="l.1")
    return pl.split_iname(knl, "j", 4, outer_iname="bx", outer_tag=of_j, inner_tag="l.0")


def turned() -> pl.LoopKernel:
    """Return a transposition through shared memory."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "b[j, i] = a[i, j]",
        [pl.GlobalArg("a", F4, shape="n, m"), pl.GlobalArg("b", F4, shape="m, n"), ...], name="turned",
    )  # fmt: skip
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.1")
    return pl.add_prefetch(knl, "a", "i_inner, j_inner", temporary_name="tile", default_tag="l.auto")


def body(text: str) -> str:
    return text[text.index('extern "C"') :]


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(PolyloopError) as error:
        call()
    return str(error.value)


# {{{ orders


def indices(text: str, rows: int, columns: int) -> list[tuple[int, int]]:
    """Return the indices (by, bx) of each block by the lines of *text*."""
    lines = re.findall(r"const int (.*);", text)
    lines = [line for line in lines if re.match("blocks|panel|first|width|bx|by", line)]
    code = [
        f"{name} = {value.replace('/', '//')}"
        for line in lines for name, value in re.findall(r"(\w+) = ((?:[^,(]|\([^)]*\))+)", line)
    ]  # fmt: skip
    found = []
    for block in range(rows * columns):
        names: dict[str, Any] = {"block": block, "n": 4 * rows, "m": 4 * columns, "min": min}
        exec("\n".join(code), names)
        found.append((names["by"], names["bx"]))
    return found


@pytest.mark.few(4)
@pytest.mark.parametrize("group", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("iname", ["bx", "by"])
@pytest.mark.parametrize("most", [0, 4])
def test_each_block_has_one_number(group: int, iname: str, most: int) -> None:
    knl = pl.order_blocks(plane(), iname, group=group)
    text = body(pl.generate_code(pl.persist_blocks(knl, most) if most else knl).device_code)
    for rows, columns in pairs(range(1, 10), repeat=2):
        found = indices(text, rows, columns)
        assert sorted(found) == [*pairs(range(rows), range(columns))]
        along = [index[iname == "bx"] for index in found]
        across = [index[iname != "bx"] for index in found]
        assert [n // group for n in along] == sorted(n // group for n in along), "panel by panel"
        keys = [(n // group, other, n) for n, other in zip(along, across, strict=True)]
        assert keys == sorted(keys), "along the axis first, then along the other one"


@pytest.mark.few(4)
@pytest.mark.parametrize("most", [0, *MOST])
@pytest.mark.parametrize("iname", ["", "bx", "by"])
def test_numbers_in_an_order_of_blocks(iname: str, most: int) -> None:
    knl = pl.order_blocks(plane(), iname, group=2) if iname else plane()
    knl = pl.persist_blocks(knl, most) if most else knl
    for n, m in ((9, 23), (1, 1), (16, 4)):
        same(knl, a=np.random.default_rng(0).random((n, m), F4), b=np.zeros((n, m), F4), n=n, m=m)


@pytest.mark.parametrize("most", [0, 2])
def test_a_third_axis_comes_last(most: int) -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < m and 1 <= k < l}", "b[k, i, j] = i + 10*j + 100*k",
        [pl.GlobalArg("b", F4, shape="l, n, m"), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "i:g.1, j:g.0, k:g.2")
    knl = pl.order_blocks(knl, "j", group=2)
    text = same(pl.persist_blocks(knl, most) if most else knl, b=np.zeros((4, 3, 5), F4), n=3, m=5, l=4)
    assert "bz = block / (blocks_x * blocks_y) + 1" in text
    for order in ("i", "k"):
        other = pl.order_blocks(knl, order, group=2)
        same(pl.persist_blocks(other, most) if most else other, b=np.zeros((4, 3, 5), F4), n=3, m=5, l=4)


def test_the_grid_has_one_axis_and_is_empty_where_one_is() -> None:
    program = pl.generate_code(pl.order_blocks(plane(), "bx", group=2))
    assert program.launches[0].grid[1:] == (1, 1)
    out = pl.compile(pl.order_blocks(plane(), "bx"), target=pl.CTarget())(a=np.ones((3, 5), F4))
    np.testing.assert_array_equal(out.b[1], 3 + 100 * np.arange(5))
    for outputs in run_on_fibres(program, {"a": np.zeros((0, 3), F4)}).values():
        assert outputs["b"].shape == (0, 3)


def test_the_number_of_blocks_is_checked() -> None:
    checks = [str(check.message) for check in pl.generate_code(pl.persist_blocks(plane(), 7)).index_checks]
    assert f"there are more than {2**31 - 8} blocks" in checks


# }}}
# {{{ turns


@pytest.mark.few(3)
@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize("shape", [(8, 8), (19, 30), (5, 41)])
def test_turns_share_memory(most: int, shape: tuple[int, int]) -> None:
    n, m = shape
    knl = pl.persist_blocks(pl.order_blocks(turned(), "j_outer", group=2), most)
    a = np.random.default_rng(0).random(shape, F4)
    text = body(same(knl, a=a, b=np.zeros((m, n), F4), n=n, m=m))
    assert text.count("__syncthreads") == 2
    assert bare(text).rstrip().endswith("        __syncthreads();\n    }\n}"), "between two turns"


def test_the_barrier_between_turns_is_needed() -> None:
    program = pl.generate_code(pl.persist_blocks(turned(), 2))
    torn = bare(program.device_code).replace("        __syncthreads();\n    }\n}", "    }\n}")
    assert torn != bare(program.device_code)
    a = np.random.default_rng(0).random((16, 24), F4)
    outputs = run_on_fibres(replace(program, device_code=torn), {"a": a})
    wrong = disagreement(outputs) or any(not np.array_equal(result["b"], a.T) for result in outputs.values())
    assert wrong


def test_without_shared_memory_there_is_no_barrier() -> None:
    text = body(pl.generate_code(pl.persist_blocks(plane(), 5)).device_code)
    assert "__syncthreads" not in text
    assert "for (int block = blockIdx.x; block < blocks; block += gridDim.x) {" in text


def test_a_barrier_of_the_tree_serves_if_it_is_outside_of_both_uses() -> None:
    knl = pl.make_kernel(
        "{[b, i, j]: 0 <= b < n and 0 <= i < 64 and 0 <= j < 64}",
        """
        s[i] = x[b, i] {id=one}
        y[b, i] = s[63 - i] {id=two}
        t[j] = x[b, j] {id=three}
        z[b, j] = t[63 - j] {id=four}
        """,
        [pl.TemporaryVariable("s", F4, shape="64", address_space="local"),
         pl.TemporaryVariable("t", F4, shape="64", address_space="local"),
         pl.GlobalArg("x, y, z", F4, shape="n, 64"), ...],
    )  # fmt: skip
    knl = pl.tag_inames(knl, "b:g.0, i:l.0, j:l.0")
    x = np.random.default_rng(0).random((7, 64), F4)
    text = body(same(pl.persist_blocks(knl, 2), x=x, y=np.zeros_like(x), z=np.zeros_like(x), n=7))
    plain = body(pl.generate_code(knl).device_code)
    assert text.count("__syncthreads") <= plain.count("__syncthreads") + 1


@pytest.mark.few(2)
@pytest.mark.parametrize("most", MOST)
def test_reductions_over_threads_use_their_memory_again(most: int) -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 128}", "b[i] = sum(j, a[i, j])",
        [pl.GlobalArg("a", F4, shape="n, 128"), pl.GlobalArg("b", F4, shape="n"), ...],
    )  # fmt: skip
    knl = pl.persist_blocks(pl.tag_inames(knl, "i:g.0, j:l.0"), most)
    a = np.random.default_rng(0).integers(-4, 5, (9, 128)).astype(F4)
    same(knl, a=a, b=np.zeros(9, F4), n=9)


@pytest.mark.few(1)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("stages", [1, 3])
def test_copies_of_threads_end_in_their_turn(most: int, stages: int) -> None:
    knl = tiled(product(64, lag=int(stages > 1)), stages)
    text = check(pl.persist_blocks(pl.order_blocks(knl, "bx", group=2), most), 128, 192, 192)
    assert "block += gridDim.x" in text


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lag", "stages", "ahead", "most"),
    [(0, 2, False, 1), (0, 2, True, 3), (1, 3, True, 1), (1, 4, False, 3), (1, 4, True, 1000), (2, 4, True, 2)],
)
def test_rings_go_on_from_turn_to_turn(lag: int, stages: int, ahead: bool, most: int) -> None:
    knl = pl.order_blocks(boxed(product(64, lag=lag), stages), "bx", group=2)
    knl = pl.persist_blocks(knl, most, ahead=ahead)
    for p in (64, 192, 320):  # loops shorter than the pipeline, and turns that begin at other slots
        check(knl, 128, 192, p)


@pytest.mark.few(1)
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("shape", [(96, 56, 64), (64, 64, 72), (8, 8, 8), (130, 136, 200)])
def test_turns_at_the_edges_of_tiles(shape: tuple[int, int, int], ahead: bool) -> None:
    knl = pl.order_blocks(boxed(product(64, lag=1, assume=ANY), 3), "bx", group=2)
    check(pl.persist_blocks(knl, 2, ahead=ahead), *shape)


def test_copies_start_behind_the_last_use_and_before_the_stores(golden: Golden) -> None:
    knl = pl.order_blocks(boxed(product(64, groups=2, lag=1), 4), "bx", group=4)
    program = pl.generate_code(pl.persist_blocks(knl, 132, ahead=True), target=TARGET)
    golden("golden/persistent.cu", program.device_code)
    text = body(program.device_code)
    parts = ["ring_open", "__syncthreads", "if ((int)blockIdx.x < blocks)", "box_2d", "for (int block",
             "for (int ko = 0", "ring_wait", "__syncthreads", "box_2d", "products_done", "__syncthreads",
             "+ (int)gridDim.x < blocks", "box_2d", "&c["]  # fmt: skip
    at = 0
    for part in parts:
        at = text.index(part, at) + 1
    assert text.count("__syncthreads") == 3


@pytest.mark.few(1)
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("shares", ["b_tile", ""])
def test_the_copy_engine_stores_results_of_each_turn(shares: str, ahead: bool) -> None:
    knl = stored(boxed(product(64, lag=1), 4), shares)
    text = body(check(pl.persist_blocks(knl, 2, ahead=ahead), 128, 192, 320))
    if shares:
        assert re.search(r"publish_stores\(\); __syncthreads\(\); if \(tx == 0\) \{ store_box", flat(text))
    if ahead:
        assert text.rindex(" box_2d(&b_tile") < text.index("store_box_2d("), "in front of the stores"
        turn = text[text.index("for (int block") :]
        assert turn.count("__syncthreads") == 3, "in the loop, in front of the copies, and in front of the stores"
        assert turn.count("publish_stores") == 1
        assert turn.count("boxes_read") == (3 if shares else 2)


def test_what_shares_storage_with_a_ring_lies_behind_the_slots_that_are_filled_ahead() -> None:
    knl = stored(boxed(product(64, lag=1), 4))
    code = pl.generate_code(pl.persist_blocks(knl, 2, ahead=True), target=TARGET).device_code
    at = {name: int(found) for name, found in re.findall(r"\(&(\w+)\)\[.*shared_memory \+ (\d+)\)", code)}
    assert at["c_tile"] - at["b_tile"] == 2 * 64 * 128, "two slots of 64 rows"


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
def test_large_blocks_spill_nothing_and_keep_products_apart(ahead: bool) -> None:
    knl = matmul_wgmma.on_groups_of_warps(
        matmul_wgmma.program(), "wgmma_m64n256k16_bf16", 128, 256, stages=4, lag=1, via="tma"
    )
    knl = pl.persist_blocks(pl.order_blocks(knl, "bx", group=16), 132, ahead=ahead)
    compiled = compile_cuda(pl.generate_code(knl, target=TARGET).device_code, "sm_90a")
    assert "serialized" not in compiled.log, compiled.log
    assert all(used.local_bytes == 0 for used in resources(compiled.cubin).values())


@pytest.mark.few(1)
@pytest.mark.parametrize("mistake", ["no barrier before copies", "no barrier in the loop"])
def test_fibres_see_mistakes(mistake: str) -> None:
    knl = pl.persist_blocks(boxed(product(64, groups=2, lag=1), 3), 1, ahead=True)
    barrier = {
        "no barrier before copies": "        __syncthreads();\n        if (block + (int)gridDim.x",
        "no barrier in the loop": "            __syncthreads();\n",
    }[mistake]
    assert _is_seen(knl, barrier, barrier.replace("__syncthreads();", ""), 256)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("mistake", "depth"),
    [("no wait in the loop", 256), ("no wait before the next stores", 64), ("no wait at the end", 256),
     ("results in the first slots", 256)],
)
def test_fibres_see_mistakes_of_late_stores(mistake: str, depth: int) -> None:
    knl = pl.persist_blocks(stored(boxed(product(64, lag=1), 4)), 1, ahead=True)
    code = pl.generate_code(knl, target=TARGET).device_code
    at = {name: f"{found});" for name, found in re.findall(r"\(&(\w+)\)\[.*(shared_memory \+ \d+)\)", code)}
    before, after = {
        "no wait in the loop": ("                boxes_read();\n", ""),
        "no wait before the next stores": ("        if (tx == 0)\n            boxes_read();\n        __syncthreads();",
                                           "        __syncthreads();"),
        "no wait at the end": ("    if (tx == 0)\n        boxes_read();\n}", "}"),
        "results in the first slots": (at["c_tile"], at["b_tile"]),
    }[mistake]  # fmt: skip
    assert _is_seen(knl, before, after, depth)


def _is_seen(knl: pl.LoopKernel, before: str, after: str, depth: int) -> bool:
    """Return whether some order of fibres shows that *after* is wrong in place of *before*."""
    program = pl.generate_code(knl, target=TARGET)
    text = bare(program.device_code)
    assert text.count(before) == 1
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (256, depth)), rng.integers(-3, 4, (128, depth))
    given = {"a": a.astype(BF16), "b": b.astype(BF16), "c": np.zeros((256, 128), F4)}
    wanted = (a @ b.T).astype(F4)
    assert all(np.array_equal(result["c"], wanted) for result in run_on_fibres(program, given).values())
    try:
        outputs = run_on_fibres(replace(program, device_code=text.replace(before, after)), given)
    except VerificationError:
        return True  # threads that wait for bytes that never come
    return any(not np.array_equal(result["c"], wanted) for result in outputs.values())


# }}}
# {{{ reports


def test_the_certificate_has_the_waits_between_turns() -> None:
    waits = [str(wait) for wait in pl.verify(pl.persist_blocks(turned(), 4)).waits]
    later = "in a later iteration of 'blocks': the block barrier at the end of loop 'blocks'"
    assert f"'tile': 'insn' before 'fetch_a', {later}" in waits
    knl = pl.persist_blocks(boxed(product(64, lag=1), 3), 4, ahead=True)
    waits = [str(wait) for wait in pl.verify(knl, target=TARGET).waits]
    assert any("in a later iteration of 'blocks': the block barrier before loop 'jj_reg_2'" in wait for wait in waits)


def test_explain_counts_turns() -> None:
    knl = pl.persist_blocks(turned(), 132)
    found = pl.explain(knl, {"n": 800, "m": 800}, device="H100 SXM")
    (launch,) = found.launches
    assert (launch.blocks, launch.turns, launch.barriers) == (132, 76, 152)
    assert "each executes up to 76 blocks of the grid, one after the other" in str(found)


def test_a_kernel_shows_its_order() -> None:
    knl = pl.persist_blocks(pl.order_blocks(plane(), "bx", group=4), 132)
    assert "blocks:\n    in panels of 4 along g.0, at most 132 at a time, which take turns\n" in str(knl)
    base = pl.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]", [pl.GlobalArg("a, b", F4, shape="n, m"), ...]
    )
    after = pl.tag_inames(base, "i:g.1, j:g.0")
    same_after_replay(base, pl.persist_blocks(pl.order_blocks(after, "j", group=3), 5))


# }}}
# {{{ refusals


def test_refusals_of_orders() -> None:
    one = pl.tag_inames(pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]"), "i:g.0")
    assert refused(lambda: pl.order_blocks(plane(), "bz")).startswith("order_blocks on kernel 'plane': no iname 'bz'")
    assert refused(lambda: pl.order_blocks(plane(), "i_inner")) == (
        "order_blocks on kernel 'plane': iname 'i_inner' is tagged 'l.1' [not-on-blocks]\n"
        "  Note: there is 'by' on 'g.1', 'bx' on 'g.0'\n"
        "  Hint: tag an iname 'g.0' first: pl.tag_inames"
    )
    assert refused(lambda: pl.order_blocks(one, "i")) == (
        "order_blocks on kernel 'loop_kernel': all blocks lie along 'g.0', so they have one order [bad-block-order]\n"
        "  Hint: tag an iname with another block axis first"
    )
    assert refused(lambda: pl.order_blocks(plane(), "bx", group=0)) == (
        "order_blocks on kernel 'plane': 0 blocks are no panel [bad-block-order]\n"
        "  Hint: pl.order_blocks(knl, iname, group=8): 8 neighbours along the axis of the iname"
    )
    assert refused(lambda: pl.persist_blocks(plane(), 0)) == (
        "persist_blocks on kernel 'plane': 0 blocks are no launch [bad-block-order]\n"
        "  Hint: pl.persist_blocks(knl, 132): one block for each multiprocessor of an H100"
    )
    none = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    assert refused(lambda: pl.persist_blocks(none, 4)) == (
        "persist_blocks on kernel 'loop_kernel': no iname is on a block axis [not-on-blocks]\n"
        "  Hint: tag an iname 'g.0' first: pl.tag_inames"
    )


@pytest.mark.parametrize("first", [False, True])
def test_scans_over_blocks_keep_the_order_of_the_hardware(first: bool) -> None:
    if first:
        knl = pl.split_scan(prefix(), "i", 16, outer_iname="tile", outer_tag="g.0")
        text = refused(lambda: pl.persist_blocks(pl.realize_scan(knl), 4))
        assert text.startswith("persist_blocks on kernel 'prefix': the blocks cannot scan over what")
    else:  # the scan comes after the order
        text = refused(lambda: pl.persist_blocks(in_one_launch(prefix()), 4))
    assert "  Note: blocks wait for those with smaller numbers, and have an order of their own: at most 4 at a" in text


@pytest.mark.parametrize("shrinks", [False, True])
def test_launches_in_loops_of_the_host(shrinks: bool) -> None:
    knl = pl.make_kernel(
        f"{{[t, i]: 0 <= t < 3 and 0 <= i < n{' - 4*t' if shrinks else ''}}}", "u[t + 1, i] = u[t, n - 1 - i] + 1",
        [pl.GlobalArg("u", F4, shape="4, n"), ...], name="steps",
    )  # fmt: skip
    knl = pl.persist_blocks(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"), 2)
    if shrinks:
        text = refused(lambda: pl.generate_code(knl))
        assert "their number depends on a loop of the host [bad-block-order]\n  Note: it depends on 't'" in text
    else:
        same(knl, u=np.random.default_rng(0).random((4, 23), F4), n=23)


def test_copies_ahead_need_copies_of_boxes() -> None:
    assert refused(lambda: pl.generate_code(pl.persist_blocks(turned(), 4, ahead=True))) == (
        "schedule on kernel 'turned': there are no copies to start before the next turn [not-ahead]\n"
        "  Note: no loop at the outermost level of a launch has copies of boxes that are started ahead\n"
        "  Hint: fetch tiles by pl.pipeline(knl, .., via=\"tma\"), or leave out ahead=True"
    )


# }}}
# {{{ GPU


@pytest.mark.gpu
@pytest.mark.parametrize("most", [1, 7, 132])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("shape", [(2048, 2048, 512), (1000, 1096, 328), (128, 64, 64)])
def test_the_gpu_agrees_on_products(shape: tuple[int, int, int], ahead: bool, most: int) -> None:
    knl = pl.order_blocks(boxed(product(64, groups=2, lag=1, assume=ANY), 4), "bx", group=4)
    rng = np.random.default_rng(0)
    m, n, p = shape
    a, b = rng.integers(-3, 4, (m, p)), rng.integers(-3, 4, (n, p))
    run = pl.compile(pl.persist_blocks(knl, most, ahead=ahead), target=TARGET)
    found = run(a=a.astype(BF16), b=b.astype(BF16))["c"]
    np.testing.assert_array_equal(np.asarray(found), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("shares", ["b_tile", ""])
def test_the_gpu_agrees_on_stored_boxes(shares: str, ahead: bool) -> None:
    knl = pl.persist_blocks(stored(boxed(product(64, groups=2, lag=1, assume=ANY), 4), shares), 5, ahead=ahead)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (1032, 520)), rng.integers(-3, 4, (392, 520))
    found = pl.compile(knl, target=TARGET)(a=a.astype(BF16), b=b.astype(BF16))["c"]
    np.testing.assert_array_equal(np.asarray(found), (a @ b.T).astype(F4))


@pytest.mark.gpu
@pytest.mark.parametrize("most", [0, 1, 100])
def test_the_gpu_agrees_on_orders(most: int) -> None:
    knl = pl.order_blocks(turned(), "j_outer", group=3)
    a = np.random.default_rng(0).random((1234, 777), F4)
    found = pl.compile(pl.persist_blocks(knl, most) if most else knl, target=pl.CudaTarget())(a=a)["b"]
    np.testing.assert_array_equal(np.asarray(found), a.T)


# }}}
