"""Small transformed programs changed as a faulty transform could: each is refused, or legal by brute force.

``test_provenance`` draws a few changes of each large program, and compares results; here all changes are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import PolyloopError
from polyloop.testing.drawing.breaks import broken
from polyloop.testing.pairs import legality
from polyloop.testing.symbols import UnsupportedError
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.verification.provenance import expression_violations
from polyloop.verification.values import value_violations
from tests.verification.test_every_order import ahead_by_copies, loaded, pairs, partial_sums, tile

F = np.float64
pytestmark = pytest.mark.filterwarnings("ignore:idle-barrier")
SIZES = (5, 2)


def tiles_of_tiles() -> pl.LoopKernel:
    """Return rows that go through a tile and then through registers, under a condition."""
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j < n}",
        "y[i, j] = a[i, j] + a[i, j + 1]*n {id=use, if=j > i and n > 2}",
        [pl.GlobalArg("a, y", F, shape="n, n + 1"), ...],
        name="tiles_of_tiles",
    )
    knl = pl.split_iname(pl.split_iname(knl, "j", 3), "i", 2)
    knl = pl.prioritize_loops(knl, "i_outer, j_outer, i_inner, j_inner")
    knl = pl.add_prefetch(knl, "a", "i_inner, j_inner", default_tag=None)
    return pl.add_prefetch(knl, "a", "a_dim_0", default_tag=None, temporary_name="first")


def reductions_ahead() -> pl.LoopKernel:
    """Return sums that are computed ahead, of values that are computed ahead, beside a sum over the same iname."""
    knl = pl.make_kernel(
        "[n] -> {[i, j, k]: 0 <= i, j, k < n}",
        ["f(x) := sum(k, g(x, k)*b[k] + x)", "g(x, z) := 2*a[x, z]", "y[i] = f(i) + sum(j, b[j]) - sum(j, a[i, j])"],
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("b, y", F, shape="n"), ...],
        name="reductions_ahead",
    )
    knl = pl.precompute(pl.split_iname(knl, "i", 2), "f", "i_inner", default_tag=None)
    return pl.precompute(pl.split_iname(knl, "k", 2), "g", "k_inner", default_tag=None)


def rows_on_threads() -> pl.LoopKernel:
    """Return products of rows whose terms are spread over threads."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i, k < n}",
        "y[i] = max(k, a[i, k]*x[k]) + x[i]",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y", F, shape="n"), ...],
        name="rows_on_threads",
    )
    return pl.tag_inames(pl.split_iname(knl, "k", 4, inner_tag="l.0"), "i:g.0")


def scan_of_tiles() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i < n and 0 <= j <= i}",
        "b[i] = sum(j, a[j]) {id=scan}",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        name="scan_of_tiles",
    )
    return pl.realize_scan(pl.split_scan(knl, "i", 3, carry_iname="tile"))


def two_launches() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i]: 0 <= i < n}",
        "t[i] = 2*a[i] {id=put}\nb[i] = t[i] + 1 {id=first}\nc[i] = t[i] + b[n - 1 - i] {id=second}",
        [pl.GlobalArg("a, b, c", F, shape="n"),
         pl.TemporaryVariable("t", F, shape="n", address_space="private")],
        name="two_launches",
    )  # fmt: skip
    return pl.save_and_reload_temporaries(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0"))


def lanes() -> pl.LoopKernel:
    """Return rows of lanes that read what another row has written."""
    knl = pl.make_kernel(
        "[n] -> {[r, i, j]: 0 <= r < n and 0 <= i, j < 4}",
        "a[r + 1, i] = a[r, i] + b[3 - i] {id=step}\nc[r, j] = a[r + 1, 3 - j] {id=turn, dep=step}",
        [pl.GlobalArg("a", F, shape="n + 2, 5"), pl.GlobalArg("b", F, shape=5), pl.GlobalArg("c", F, shape="n, 4")],
        name="lanes",
    )
    return pl.tag_inames(knl, "i:ilp, j:ilp")


def nested() -> pl.LoopKernel:
    """Return sums of sums, one of which is staged."""
    knl = pl.make_kernel(
        "[n] -> {[i, j, k]: 0 <= i, j, k < n}",
        "y[i] = sum(j, x[j]*sum(k, a[j, k]*x[k])) + 2 {id=sum}",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y", F, shape="n"), ...],
        name="nested",
    )
    return pl.stage_reduction(pl.split_iname(knl, "k", 2), "k_inner")


def updated_between() -> pl.LoopKernel:
    """Return sums ahead of their uses, of an array that each step of a loop changes behind the uses."""
    knl = pl.make_kernel(
        "[n] -> {[t, i, j, k]: 0 <= t < 3 and 0 <= i, j, k < n}",
        """
        f(x) := sum(k, b[x, k]*a[k])
        for t
            for i
                y[t, i] = f(i) {id=use}
            end
            for j
                a[j] = a[j] + y[t, j] {id=change}
            end
        end
        """,
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape="n, n"), pl.GlobalArg("y", F, shape="3, n")],
        seq_dependencies=True,
        name="updated_between",
    )
    return pl.precompute(pl.split_iname(knl, "i", 2), "f", "i_inner", default_tag=None)


def by_atomics() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i, k < n}",
        "y[i] = sum(k, a[i, k]*x[k]) {id=sum}\nz[i] = 2*y[i] {id=after}",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y, z", F, shape="n"), ...],
        name="by_atomics",
    )
    return pl.reduce_atomically(pl.split_iname(knl, "k", 3), "k_outer", within="id:sum")


def scan_on_threads() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "[n] -> {[r, i, j]: 0 <= r < n and 0 <= i < 4 and 0 <= j < i}",
        "b[r, i] = sum(j, a[r, j]) + a[r, i] {id=scan}",
        [pl.GlobalArg("a, b", F, shape="n, 4"), ...],
        name="scan_on_threads",
    )
    return pl.realize_scan(pl.tag_inames(knl, "i:l.0"))


def two_of_a_kind() -> pl.LoopKernel:
    """Return an instruction with sums over one iname, one of which is computed ahead; their terms read what is set."""
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j < n}",
        """
        f(x) := sum(j, a[x, j])
        a[i, j] = 2*b[j] + i {id=set}
        y[i] = sum(j, a[i, j]*b[j]) + f(i)*sum(j, b[j]) + max(j, a[i, j]) {id=use}
        """,
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("b, y", F, shape="n"), ...],
        name="two_of_a_kind",
    )
    return pl.precompute(pl.split_iname(knl, "i", 2, within="id:use"), "f", "i_inner", default_tag=None)


def parts_of_what_may_be_empty() -> pl.LoopKernel:
    """Return sums of sums of one instruction; the outer loop of their terms may be empty."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < 3 and 0 <= k < n}",
        "y[i] = sum(k, a[i, k]) + 2 {id=sum}",
        [pl.GlobalArg("a", F, shape="3, n"), pl.GlobalArg("y", F, shape=3), ...],
        name="parts_of_what_may_be_empty",
    )
    return pl.split_reduction_outward(pl.split_iname(knl, "k", 2), "k_outer")


def through_three() -> pl.LoopKernel:
    """Return sums that are computed ahead, of values computed ahead, of elements fetched ahead."""
    return pl.add_prefetch(reductions_ahead(), "a", "g_dim_1", default_tag=None, within="id:compute_g")


KERNELS: list[Callable[[], pl.LoopKernel]] = [
    tiles_of_tiles, through_three, rows_on_threads, scan_of_tiles, two_launches, lanes, nested,
    updated_between, by_atomics, scan_on_threads, two_of_a_kind,
    parts_of_what_may_be_empty,
    loaded, pairs, tile, partial_sums, ahead_by_copies,
]  # fmt: skip


def accepted(knl: pl.LoopKernel) -> Iterator[tuple[str, pl.LoopKernel]]:
    """Yield *knl*, and what is proven of it with one change; each other one must be refused, whatever it is."""
    pl.verify(knl)
    yield "no change", knl
    for label, other in broken(knl):
        try:
            pl.verify(other)
        except PolyloopError:
            continue
        yield label, other


@pytest.mark.few(6)
@pytest.mark.parametrize("build", KERNELS)
def test_every_change_of_a_small_program_is_refused_or_legal(build: Callable[[], pl.LoopKernel]) -> None:
    for label, knl in accepted(build()):
        try:
            found = legality(assign_auto(knl), SIZES, 0)
        except UnsupportedError:
            continue
        assert found is None, f"{label}: {found}"


@pytest.mark.parametrize("within", ["id:add", "id:add or id:more"])
def test_every_change_of_a_collecting_buffer_is_refused_or_gives_the_same_sums(within: str) -> None:
    """Sums in another order are other values for brute force, so integers are added."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i, k < n}",
        """
        for i
            for k
                c[i] = c[i] + a[i, k] {id=add}
                c[i] = c[i] + b[k] {id=more}
            end
            c[i] = 2*c[i] {id=twice}
        end
        """,
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("b, c", F, shape="n"), ...],
        seq_dependencies=True,
        name="collected",
    )
    if within == "id:add":
        knl = pl.remove_instructions(knl, "more")
    knl = pl.buffer_array(knl, "c", "k", init_expression=0, store_expression="base + buffer", within=within)
    n = 5
    a, b, c = np.arange(n * n, dtype=F).reshape(n, n), np.arange(n, dtype=F) ** 2, np.arange(n, dtype=F) + 1
    wanted = 2 * (c + a.sum(1) + (b.sum() if within != "id:add" else 0))
    for label, other in accepted(knl):
        given = {name: x.copy() for name, x in (("a", a), ("b", b), ("c", c)) if name in other.arrays()}
        found = pl.compile(other, target=pl.CTarget())(**given)["c"]
        assert np.array_equal(np.asarray(found), wanted), label


@pytest.mark.parametrize("build", [tile, tiles_of_tiles, reductions_ahead, updated_between])
def test_values_in_another_text_are_not_proven(build: Callable[[], pl.LoopKernel]) -> None:
    """Behind the first difference operands are not listed, so a proof of values that is asked alone has to refuse."""
    knl = build()
    for old in knl.instructions:
        if not {*old.reads, *old.writes} & knl.evaluations.keys():
            continue
        other = dict(broken(knl))[f"{old.id}: right-hand side times 3"]
        assert [*expression_violations(other)]
        assert [*value_violations(other)], old.id
