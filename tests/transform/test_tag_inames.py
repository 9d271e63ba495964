from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow.address_spaces import place
from polyloop.program.expand_lanes import with_lanes
from polyloop.proof.obligation import Obligation, prove
from polyloop.verification.correspondence import Comparison
from polyloop.verification.order import order_obligations
from polyloop.verification.values import value_obligations
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import (
    F,
    blur,
    check_blur,
    check_matmul,
    check_normalise,
    check_triangle,
    matmul,
    normalise,
    spread,
    sweep,
    triangle,
)

Golden = Callable[[str, str], None]


def on_threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return pl.split_iname(knl, "j", 8, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(
    "tags",
    [
        "i_outer: g.0, i_inner: l.0",
        {"i_outer": "g.0", "i_inner": "l.0"},
        [("i_outer", "g.0"), ("i_inner", "l.0")],
    ],
)
def test_tags_are_text_a_mapping_or_pairs(tags: object) -> None:
    base = pl.split_iname(blur(), "i", 16)
    knl = pl.tag_inames(base, tags)  # type: ignore[arg-type]
    assert cuda(knl) == cuda(spread(blur()))
    assert str(knl.trace).splitlines()[-1] == (
        "knl = pl.tag_inames(knl, iname_to_tag={'i_outer': 'g.0', 'i_inner': 'l.0'})"
    )
    same_after_replay(blur(), knl)


def test_the_method_is_the_function() -> None:
    base = pl.split_iname(blur(), "i", 16)
    assert cuda(base.tag_inames("i_outer:g.0")) == cuda(pl.tag_inames(base, "i_outer:g.0"))


@pytest.mark.few(2)
@pytest.mark.parametrize("tag", ["for", "ord", "unr_hint", "unr_hint.3"])
def test_a_loop_may_stay_a_loop(tag: str) -> None:
    check_blur(pl.tag_inames(pl.split_iname(blur(), "i", 16), {"i_inner": tag}), (3, 18, 50))


def _obligations(knl: pl.LoopKernel) -> list[Obligation]:
    comparison = Comparison(with_lanes(knl))
    return [*value_obligations(comparison), *order_obligations(comparison)]


def test_how_a_loop_is_printed_changes_no_proof() -> None:
    base = pl.split_iname(on_threads(matmul()), "k", 4)
    known = [prove(base, obligation) for obligation in _obligations(base)]
    hinted = pl.tag_inames(base, "k_outer:unr_hint.2, k_inner:unr")
    assert [prove(hinted, obligation) for obligation in _obligations(hinted)] == known
    assert all(a is b for a, b in zip(known, (prove(hinted, o) for o in _obligations(hinted)), strict=True))
    own = place(base).statements
    assert place(hinted).statements.keys() == own.keys()
    lanes = pl.tag_inames(base, "k_inner:ilp")
    assert place(lanes).statements.keys() != own.keys()
    assert all(a is not b for a, b in zip(known, (prove(lanes, o) for o in _obligations(lanes)), strict=False))


def test_a_tag_can_be_replaced() -> None:
    knl = spread(blur())
    check_blur(pl.tag_inames(knl, "i_inner:l.1", force=True), (18,))
    check_blur(pl.tag_inames(knl, "i_inner:l.0"), (18,))
    check_blur(pl.tag_inames(knl, "other:l.0", ignore_nonexistent=True), (18,))


def test_a_triangle_on_blocks_and_threads(golden: Golden) -> None:
    knl = on_threads(triangle())
    check_triangle(knl)
    golden("golden/triangle.cu", cuda(knl))
    check_triangle(pl.split_iname(triangle(), "i", 8, outer_tag="g.0", inner_tag="l.0"))
    check_triangle(pl.split_iname(triangle(), "j", 8, inner_tag="l.0"))


def test_row_sums_and_rows_share_blocks(golden: Golden) -> None:
    check_normalise(spread(normalise(), "i", 8))
    knl = pl.split_iname(pl.tag_inames(normalise(), "i:g.0"), "j", 8, inner_tag="l.0")
    check_normalise(knl)
    golden("golden/normalise.cu", cuda(knl))
    check_normalise(pl.split_iname(pl.tag_inames(normalise(), "i:g.1"), "j", 8, outer_tag="g.0", inner_tag="l.0"))


def test_three_axes() -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < nx and 0 <= j < ny and 0 <= k < nz}",
        "b[i, j, k] = a[k, i, j] + i",
        [pl.GlobalArg("a", F, shape="nz, nx, ny"), pl.GlobalArg("b", F, shape="nx, ny, nz"), ...],
        name="rotate",
        assumptions="nx >= 1 and ny >= 1 and nz >= 1",
    )
    for iname, axis in (("i", 2), ("j", 1), ("k", 0)):
        knl = pl.split_iname(knl, iname, 4, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    for nx, ny, nz in ((1, 1, 1), (4, 5, 3), (9, 4, 6)):
        a = np.random.default_rng(nx).integers(-4, 5, (nz, nx, ny)).astype(F)
        check(knl, {"a": a}, {"b": a.transpose(1, 2, 0) + np.arange(nx, dtype=F)[:, None, None]})


def test_a_dependence_between_blocks_makes_two_launches(golden: Golden) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[i]            {id=first}\nc[i] = b[n-1-i] + 1    {id=second, dep=first}",
        [pl.GlobalArg("a, b, c", F, shape="n"), ...],
        name="mirror",
        assumptions="n >= 1",
    )
    knl = spread(knl)
    assert len(pl.generate_code(knl, target=pl.CudaTarget()).launches) == 2
    golden("golden/two_launches.cu", cuda(knl))
    for n in (1, 16, 17, 40):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": a, "c": a[::-1] + 1})


def test_several_instructions_on_one_axis() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "<> t = 2*a[i]\nb[i] = t + 1\nc[i] = b[i] * t",
        [pl.GlobalArg("a, b, c", F, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = spread(knl)
    for n in (1, 16, 17):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": 2 * a + 1, "c": (2 * a + 1) * 2 * a})


def test_unrolling_by_a_pragma(golden: Golden) -> None:
    knl = pl.split_iname(matmul(), "k", 4)
    knl = pl.tag_inames(pl.assume(knl, "n mod 4 = 0"), "k_inner:unr")
    golden("golden/unrolled.cu", cuda(knl))
    check_matmul(knl, (4, 8))


def test_inner_loops_of_a_recurrence_may_run_together() -> None:
    knl = pl.split_iname(sweep(), "j", 16, inner_tag="l.0")
    for n in (2, 17, 20):
        a = np.random.default_rng(n).integers(-4, 5, (n, n)).astype(F)
        want = a.copy()
        for i in range(1, n):
            want[i, :-1] = want[i - 1, 1:] + 1
        check(knl, {"a": a}, {"a": want})


def recurrence() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 1 <= i < n}", "out[i] = out[i-1] + a[i]", [pl.GlobalArg("out, a", F, shape="n"), ...], name="scan"
    )


def row_writer() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < 16 and 0 <= j < 16}", "a[i] = b[j]", [pl.GlobalArg("a, b", F, shape="16"), ...], name="rows"
    )


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "recurrence": (recurrence, lambda knl: pl.tag_inames(knl, "i:l.0"), "illegal-parallel"),
    "recurrence_on_blocks": (recurrence, lambda knl: pl.tag_inames(knl, "i:g.0"), "illegal-parallel"),
    "two_threads_write": (row_writer, lambda knl: pl.tag_inames(knl, "i:l.1, j:l.0"), "write-race"),
    "two_blocks_write": (row_writer, lambda knl: pl.tag_inames(knl, "j:g.0"), "write-race"),
    "unknown_iname": (matmul, lambda knl: pl.tag_inames(knl, "ii:l.0"), "unknown-iname"),
    "unknown_tag": (matmul, lambda knl: pl.tag_inames(knl, "i:x.3"), "bad-tag"),
    "no_tag": (matmul, lambda knl: pl.tag_inames(knl, "i"), "bad-tag"),
    "already_tagged": (lambda: spread(blur()), lambda knl: pl.tag_inames(knl, "i_inner:l.1"), "iname-tagged"),
    "reduction": (matmul, lambda knl: pl.tag_inames(knl, "k:g.0"), "parallel-reduction"),
    "one_axis_twice": (matmul, lambda knl: pl.tag_inames(knl, "i:g.0, j:g.0"), "axis-twice"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/tag_inames_{case}.txt", refused(make(), call, code))


LATE: dict[str, Case] = {
    "axis_too_long": (
        lambda: pl.make_kernel("{[i]: 0 <= i < 2048}", "a[i] = b[i]", [pl.GlobalArg("a, b", F), ...], name="lengthy"),
        lambda knl: pl.tag_inames(knl, "i:l.0"),
        "block-too-large",
    ),
    "block_too_large": (
        lambda: pl.make_kernel(
            "{[i, j]: 0 <= i < 32 and 0 <= j < 64}", "a[i, j] = b[i, j]", [pl.GlobalArg("a, b", F), ...], name="large"
        ),
        lambda knl: pl.tag_inames(knl, "i:l.1, j:l.0"),
        "block-too-large",
    ),
    "extent_not_constant": (blur, lambda knl: pl.tag_inames(knl, "i:l.0"), "local-size-not-constant"),
}


@pytest.mark.parametrize("case", LATE)
def test_what_only_the_schedule_can_refuse(case: str, golden: Golden) -> None:
    make, call, code = LATE[case]
    knl = call(make())
    golden(f"messages/schedule_{case}.txt", refused(knl, pl.generate_code, code, pl.VerificationError))


@pytest.mark.parametrize("domain", ["{[i]: 0 <= i < n and i < -1}", "{[i]: 0 <= i < n and n < 0}", "{[i]: 1 = 0}"])
def test_an_empty_domain_on_threads_runs_nothing(domain: str) -> None:
    knl = pl.make_kernel(domain, "y[i] = 1", [pl.GlobalArg("y", np.float32, shape="4"), ...])
    y = np.zeros(4, np.float32)
    given = {"y": y, "n": 3} if "n" in knl.parameters else {"y": y}
    check(pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0"), given, {"y": y})


def test_a_temporary_that_threads_share_is_told_how_to_get_a_copy_each() -> None:
    knl = pl.make_kernel(
        "{[e, i, k]: 0 <= e, i, k < 8}",
        """
        for e
            for i
                <> t[i] = a[e, i]
            end
            for k
                b[e, k] = t[7 - k]
            end
        end
        """,
        [pl.GlobalArg("a, b", np.float32, shape="8, 8"), ...],
    )
    knl = pl.tag_inames(knl, "e:l.1")
    with pytest.raises(pl.TransformError) as refusal:
        pl.tag_inames(knl, "i:l.0, k:l.0")
    assert refusal.value.codes == ("write-race",)
    assert "pl.privatize_temporaries_with_inames(knl, 'e', 't')" in str(refusal.value)
    knl = pl.privatize_temporaries_with_inames(knl, "e", "t")
    assert "t[8][8]" in pl.generate_code(pl.tag_inames(knl, "i:l.0, k:l.0")).device_code


def test_a_wavefront_of_blocks_is_launched_by_the_host() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < m and 1 <= i < n - 1}",
        "u[t + 1, i] = u[t, i - 1] + u[t, i + 1]",
        [pl.GlobalArg("u", np.float32, shape="m + 1, n"), ...],
        assumptions="m >= 1 and n >= 3",
    )
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert [[loop.iname for loop in launch.around] for launch in pl.generate_code(knl).launches] == [["t"]]


def test_a_refused_wavefront_of_blocks_names_the_loop_that_would_have_to_wait() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < m and 1 <= i < n - 1}",
        "<> m = count[0]\nu[(t + 1) % 2, i] = u[t % 2, i - 1] + u[t % 2, i + 1]",
        [pl.GlobalArg("u", np.float32, shape="2, n"), pl.GlobalArg("count", np.int32, shape="1"), ...],
        assumptions="n >= 3",
    )
    with pytest.raises(pl.PolyloopError) as error:
        pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    why = "the host cannot run the loop 't' around launches: its bounds are read from memory ('m')"
    assert f"  Note: {why}" in str(error.value).splitlines()
    assert (
        "Hint: blocks do not wait for each other inside a launch, and loop 't' carries the value from one to another: "
        "run 'i_outer' on the threads of a block ('l.0'), or let each 't' be a call of the kernel"
    ) in str(error.value)
