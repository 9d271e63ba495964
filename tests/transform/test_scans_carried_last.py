"""``split_scan`` with ``local_name``: tiles are scanned by themselves, and the sum of those before comes last."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.domains import data_inames
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


def divided(knl: pl.LoopKernel, length: int = 4, **more: Any) -> pl.LoopKernel:
    more = {"local_name": "local", "local_iname": "e", **more}
    return pl.split_scan(knl, "i", length, outer_iname="tile", inner_iname="k", **more)


def by_blocks(knl: pl.LoopKernel, threads: int = 8, items: int = 2) -> pl.LoopKernel:
    """Return a scan with a tile for each block, whose threads scan it before they look at the blocks before."""
    knl = divided(knl, threads * items, outer_tag="g.0", sum_name="tile_sum", carry_name="before_tile")
    knl = pl.split_iname(knl, "j_inner", items, outer_tag="l.0")
    knl = pl.split_iname(knl, "k", items, outer_tag="l.0", inner_iname="q")
    knl = pl.split_array_axis(knl, "local", 1, items)
    knl = pl.split_scan(
        knl, "e", items, outer_iname="t", outer_tag="l.0", sum_name="thread_sum", carry_name="before_thread"
    )
    return pl.realize_scan(knl)


def test_the_instructions() -> None:
    knl = divided(prefix())
    assert [str(instruction) for instruction in knl.instructions] == [
        "b_sum[tile] = sum(j_inner, a[4*tile + j_inner])",
        "b_carry[tile] = sum(j_outer, b_sum[j_outer])",
        "local[tile, e] = sum(j_local, a[4*tile + j_local])",
        "b[4*tile + k] = sum(j_last, local[tile, k], start=b_carry[tile])",
    ]
    same_after_replay(prefix(), knl)


@pytest.mark.parametrize("more", [{"local_name": "s"}, {"local_iname": "e"}])
def test_either_name_asks_for_it(more: dict[str, str]) -> None:
    knl = pl.split_scan(prefix(), "i", 4, **more)
    assert len(knl.instructions) == 4
    (a,) = vectors(9, 1)
    check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_no_data_decides_on_the_loops() -> None:
    """Domains have the names of inames that are gone; accesses inside of their loops are proven all the same."""
    arguments = [pl.GlobalArg("a, b, w", F, shape="n"), ...]
    made = divided(pl.make_kernel(INCLUSIVE, "w[i] = 2*a[i]\nb[i] = sum(j, a[j])", arguments))
    assert any("j" in str(piece.set).split("->")[0] for piece in made.domains)
    assert not data_inames(made)
    assert "each access to 'a' stays inside of its shape (n)" in [proof.says for proof in pl.verify(made).proofs]


def test_the_text(golden: Golden) -> None:
    """The carry is combined with a result where that is stored, in one statement."""
    golden("golden/scan_carried_last.cu", cuda(by_blocks(prefix(), 64, 4)))


@pytest.mark.few(2)
@pytest.mark.parametrize("length", [1, 3, 4])
@pytest.mark.parametrize("domains", [INCLUSIVE, BEFORE])
def test_loops(length: int, domains: Any) -> None:
    knl = divided(prefix(domains=domains), length)
    for made in (knl, pl.realize_scan(knl)):
        for n in (0, 1, length, length + 1, 3 * length - 1, 9):
            (a,) = vectors(n, 1)
            check(made, {"a": a}, {"b": np.cumsum(a) - (0 if domains is INCLUSIVE else a)})


@pytest.mark.few(2)
@pytest.mark.parametrize(("threads", "items"), [(1, 4), (8, 2), (64, 2), (48, 3)])
def test_blocks(threads: int, items: int) -> None:
    knl = by_blocks(prefix(), threads, items)
    tile = threads * items
    for n in (0, 1, tile - 1, tile, tile + 1, 3 * tile + 1):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_a_block_scans_its_tile_before_it_looks_back() -> None:
    text = cuda(by_blocks(prefix(), 64, 4))
    places = [text.rindex(call) for call in (
        "block_sum_float32(tile_sum", "store_float32(", "= prefix_block_exclusive_sum", "local[",
        "= prefix_grid_exclusive_sum", "before_tile + local[",
    ) if call != "local["]  # fmt: skip
    assert places == sorted(places)


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int64, np.float64, np.complex64])
def test_types(dtype: type[np.generic]) -> None:
    a = np.random.default_rng(1).integers(0, 100, 50).astype(dtype)
    with np.errstate(over="ignore"):
        expected = np.cumsum(a, dtype=dtype)
    check(by_blocks(prefix(dtype=dtype)), {"a": a}, {"b": expected})


def test_sums_of_another_type_than_the_result() -> None:
    """The sum is an int32, which the result takes half of: it is not computed in the type of the result."""
    knl = pl.make_kernel(
        INCLUSIVE, "b[i] = sum(j, a[j]) / 2", [pl.GlobalArg("a", np.int32, shape="n"), pl.GlobalArg("b", F, shape="n")],
        name="halves",
    )  # fmt: skip
    a = np.arange(50, dtype=np.int32)
    check(by_blocks(knl), {"a": a}, {"b": (np.cumsum(a) / 2).astype(F)})
    knl = pl.make_kernel(
        INCLUSIVE, "b[i] = sum(j, a[j])",
        [pl.GlobalArg("a", np.uint8, shape="n"), pl.GlobalArg("b", np.int32, shape="n")], name="narrow",
    )  # fmt: skip
    a = np.full(50, 200, np.uint8)
    check(by_blocks(knl), {"a": a}, pl.interpret(knl, a=a))


@pytest.mark.parametrize(("operation", "expected"), [("max", np.maximum), ("product", np.multiply)])
def test_operations(operation: str, expected: np.ufunc) -> None:
    a = np.random.default_rng(1).choice(np.array([1, -1, 2, 0.5], F), 100)
    check(by_blocks(prefix(f"b[i] = {operation}(j, a[j])")), {"a": a}, {"b": expected.accumulate(a)})


def test_segments() -> None:
    """A record, not commutative: the blocks before come first, though they are combined last."""
    arguments = [pl.GlobalArg("x, b", F, shape="n"), pl.GlobalArg("starts", np.bool_, shape="n")]
    knl = pl.make_kernel(INCLUSIVE, "b[i] = reduce(segmented(sum), j, x[j], starts[j]).value", arguments)
    knl = by_blocks(knl, 32)
    for n in (1, 64, 65, 300):
        (x,) = vectors(n, 1)
        starts = np.random.default_rng(n).random(n) < 0.1
        expected = x.copy()
        for i in range(1, n):
            expected[i] += 0 if starts[i] else expected[i - 1]
        check(knl, {"x": x, "starts": starts}, {"b": expected})


def test_where_the_greatest_so_far_stands() -> None:
    arguments = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("best", np.int32, shape="n")]
    knl = by_blocks(pl.make_kernel(INCLUSIVE, "best[i] = argmax(j, a[j], j).index", arguments))
    (a,) = vectors(300, 1)
    check(knl, {"a": a}, {"best": np.array([a[: i + 1].argmax() for i in range(300)], np.int32)})


def test_a_given_name_that_another_would_have_had() -> None:
    knl = pl.split_scan(prefix(), "i", 4, inner_iname="j_local", local_name="b_sum", local_iname="j_inner")
    (a,) = vectors(9, 1)
    check(pl.realize_scan(knl), {"a": a}, {"b": np.cumsum(a)})


TERMS = {
    "none": "sum(j, 1.0f)",
    "one": "sum(j, a[j])",
    "two": "sum(j, a[j]*x[j])",
    "a rule": "sum(j, f(j))",
    "of another sum ahead": "sum(m, x[m]*a[m]) + sum(j, a[j]*x[j])",
    "beside another sum": "sum(j, a[j]*x[j]*a[j]) + sum(m, x[m])",
    "a record": "argmin(j, a[j]*x[j], j).index*1.0f",
}


@pytest.mark.parametrize("terms", TERMS)
def test_reads_behind_a_scan_with_any_number_of_reads(terms: str) -> None:
    """A result so far stands for the reads of the terms: those behind it are compared with those of the program."""
    text = f"f(p) := a[p]*x[p]\nw[i] = 2*a[i]\nb[i] = {TERMS[terms]} + w[i]*c[i] + w[i]\nc[i] = 3"
    arguments = [pl.GlobalArg("a, b, c, w", F, shape="n"), pl.GlobalArg("x", F, shape="n + 4"), ...]
    knl = pl.make_kernel([INCLUSIVE, "{[m]: 0 <= m < 4 and m < n}"], text, arguments, silenced_warnings="*")
    made = pl.realize_scan(divided(knl))
    for n in (1, 5, 9):
        a, c, x = vectors(n, 1), vectors(n, 2), vectors(n + 4, 3)
        assert terms == "a record" or not list(judge(assign_auto(made), {"n": n}, {}))
        given = {"a": a[0], "c": c[0], "x": x[0]}
        check(made, given, {"b": pl.interpret(knl, **{name: value.copy() for name, value in given.items()}).b})


def test_a_read_behind_a_scan_that_would_come_too_early() -> None:
    """The order of what is read behind a sum of two reads is looked at, and refused where it is another one."""
    text = "b[i] = sum(j, a[j]*a[j]) + {}\nw[i] = 2*a[i]"
    data = [pl.GlobalArg("a, b, w", F, shape=16), ...]
    domains = "{[i, j]: 0 <= i < 16 and 0 <= j <= i}"
    divided(pl.make_kernel(domains, text.format("w[i]"), data))
    knl = pl.make_kernel(domains, text.format("w[15 - i]"), data)
    assert "'w'" in refused(knl, divided, "illegal-order")


def test_rows_an_expression_and_another_user() -> None:
    knl = pl.make_kernel(
        ["{[r]: 0 <= r < m}", INCLUSIVE],
        "for r, i\n b[r, i] = 2*sum(j, a[r, j]) + a[r, i] {id=scan}\n c[r, i] = 3*b[r, i] {id=use}\nend",
        [pl.GlobalArg("a, b, c", F, shape="m, n"), ...],
        name="rows",
    )
    knl = pl.realize_scan(divided(knl, 4))
    a = np.random.default_rng(3).integers(-9, 9, (3, 11)).astype(F)
    b = 2 * np.cumsum(a, 1) + a
    check(knl, {"a": a}, {"b": b, "c": 3 * b})


def test_results_that_begin_later() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 10 <= i < n and 10 <= j <= i}", "b[i] = sum(j, a[j])", [pl.GlobalArg("a, b", F, shape="n"), ...],
        assumptions="n >= 11", name="late",
    )  # fmt: skip
    knl = by_blocks(knl, 4)
    for n in (11, 16, 17, 50):
        (a,) = vectors(n, 1)
        expected = np.concatenate([np.zeros(10, F), np.cumsum(a[10:])])
        check(knl, {"a": a, "b": np.zeros(n, F)}, {"b": expected})


def test_tiles_of_tiles_carried_last() -> None:
    knl = divided(prefix(), 12)
    knl = pl.split_scan(knl, "e", 3, local_name="inner", local_iname="f")
    knl = pl.realize_scan(knl)
    for n in (1, 3, 4, 12, 13, 40):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_what_is_scanned_may_be_buffered() -> None:
    """The results of a tile as an array of its own, which the threads of a block read as any other."""
    knl = divided(prefix(), 16, outer_tag="g.0")
    knl = pl.set_temporary_address_space(knl, "local", "local")
    knl = pl.tag_inames(pl.realize_scan(knl), "k:l.0")
    for n in (1, 16, 17, 40):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_three_launches() -> None:
    knl = divided(prefix(), 4, carry_iname="c")
    knl = pl.realize_scan(pl.split_iname(knl, "tile", 2, outer_tag="g.0", inner_tag="l.0"))
    for n in (1, 4, 9, 30):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": np.cumsum(a)})


def test_refusals() -> None:
    assert refused(prefix(), lambda k: pl.split_scan(k, "i", 4, local_name="a"), "name-taken")
    assert refused(prefix(), lambda k: pl.split_scan(k, "i", 4, local_iname="j"), "name-taken")
    for twice in (
        lambda k: pl.split_scan(k, "i", 4, sum_name="s", local_name="s"),
        lambda k: pl.split_scan(k, "i", 4, inner_iname="k", local_iname="k"),
        lambda k: pl.split_scan(k, "i", 4, local_name="e", local_iname="e"),
        lambda k: pl.split_scan(k, "i", 4, carry_name="c", carry_iname="c"),
    ):
        refused(prefix(), twice, "name-taken")
    refused(prefix(), lambda k: pl.split_scan(k, "i", 4, local_name="insn"), "name-taken")  # the id of the scan
    refused(prefix(), lambda k: pl.split_scan(k, "i", 4, local_name="1s"), "bad-identifier")
    ordered = prefix("b[i] = reduce(ordered(sum), j, a[j])")
    assert refused(ordered, lambda k: pl.split_scan(k, "i", 4, local_name="s"), "ordered-reduction")


def test_brute_force_agrees() -> None:
    for domains in (INCLUSIVE, BEFORE):
        knl = by_blocks(prefix(domains=domains), 2, 2)
        for n in (1, 4, 5, 13):
            assert not list(judge(assign_auto(knl), {"n": n}, {}))


@pytest.mark.slow
def test_what_brute_force_finds_wrong_the_checker_finds() -> None:
    def draw(rng: random.Random) -> pl.LoopKernel:
        return by_blocks(prefix(domains=rng.choice((INCLUSIVE, BEFORE))), rng.choice((2, 3)), rng.choice((1, 2)))

    check_spoilt(draw, 80)


@pytest.mark.nvrtc
def test_nvrtc_takes_them() -> None:
    for knl in (by_blocks(prefix(), 64, 2), by_blocks(prefix(dtype=np.float64), 64, 2)):
        for arch in ("sm_80", "sm_90"):
            compile_cuda(cuda(knl), arch)
