from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, blur, check_matmul, matmul, normalise

Golden = Callable[[str, str], None]


def two_sums(rule: str = "") -> pl.LoopKernel:
    text = f"{rule}\nb[i] = sum(k, a[i, k]) {{id=first}}\nc[i] = sum(k, 2*a[i, k]) {{id=second}}"
    data = [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("b, c", F, shape="n"), ...]
    return pl.make_kernel("{[i, k]: 0 <= i, k < n}", text, data, name="sums", assumptions="n >= 1")


def check_sums(knl: pl.LoopKernel) -> None:
    for n in (1, 2, 9):
        a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(F)
        check(knl, {"a": a}, {"b": a.sum(1), "c": 2 * a.sum(1)})


def test_reductions_get_inames_of_their_own() -> None:
    knl = pl.make_reduction_inames_unique(two_sums())
    assert [i.terms[0].inames for i in knl.instructions] == [("i", "k"), ("i", "k_0")]
    check_sums(pl.split_iname(knl, "k_0", 4))
    same_after_replay(two_sums(), knl)
    assert pl.make_reduction_inames_unique(two_sums(), within="id:first").inames == ("i", "k")
    assert two_sums().make_reduction_inames_unique("i").inames == ("i", "k")
    refused(two_sums(), lambda knl: pl.make_reduction_inames_unique(knl, "z"), "unknown-iname")
    refused(two_sums(), lambda knl: pl.make_reduction_inames_unique(knl, within="id:x"), "unknown-instruction")


def test_unused_inames_go() -> None:
    knl = pl.duplicate_inames(two_sums(), "k")
    assert knl.inames == ("i", "k", "k_0")
    knl = pl.remove_unused_inames(knl)
    assert knl.inames == ("i", "k_0")
    check_sums(knl)
    same_after_replay(two_sums(), knl)
    assert pl.remove_unused_inames(two_sums()).inames == ("i", "k")
    assert knl.remove_unused_inames().inames == ("i", "k_0")
    refused(two_sums(), lambda knl: pl.remove_unused_inames(knl, "k"), "iname-in-use")
    refused(knl, lambda knl: pl.remove_unused_inames(knl, "k"), "unknown-iname")


def hoisted(first: str = "b[i] = 2*a[i] {id=first}", assumptions: str = "n >= 1 and m >= 1") -> pl.LoopKernel:
    text = f"{first}\nc[i, j] = a[i] + j {{id=second}}"
    data = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape="n"), pl.GlobalArg("c", F, shape="n, m"),
            pl.GlobalArg("at", np.int32, shape="n"), ...]  # fmt: skip
    data = data if "at[" in first else [*data[:3], ...]
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"]
    return pl.make_kernel(domains, text, data, name="hoisted", assumptions=assumptions)


def test_work_may_be_done_again() -> None:
    knl = pl.add_inames_to_insn(hoisted(), "j", "id:first")
    assert knl.instructions[0].inames == ("i", "j")
    for n, m in ((1, 1), (5, 3)):
        (a,) = vectors(n, 1)
        check(knl, {"a": a, "m": m}, {"b": 2 * a, "c": a[:, None] + np.arange(m, dtype=F)})
    same_after_replay(hoisted(), knl)
    assert cuda(hoisted().add_inames_to_insn("j", "id:first")) == cuda(knl)


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]


def again(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.add_inames_to_insn(knl, "j", "id:first")


ADDITIONS: dict[str, Case] = {
    "update": (lambda: hoisted("b[i] = b[i] + a[i] {id=first}"), again, "illegal-order"),
    "update_somewhere": (lambda: hoisted("b[at[i]] = b[at[i]] + 1 {id=first}"), again, "illegal-order"),
    "update_sometimes": (lambda: hoisted("b[i] = b[i] + 1 {id=first,if=a[i] > 0}"), again, "illegal-order"),
    "atomic": (lambda: hoisted("b[at[i]] = b[at[i]] + 1 {id=first,atomic}"), again, "instance-lost"),
    "empty": (lambda: hoisted(assumptions="n >= 1 and m >= 0"), again, "instance-lost"),
    "reduction": (normalise, lambda knl: pl.add_inames_to_insn(knl, "k", "id:insn"), "same-nest"),
    "sum_again": (normalise, lambda knl: pl.add_inames_to_insn(knl, "j", "id:insn"), "term-twice"),
    "unknown": (hoisted, lambda knl: pl.add_inames_to_insn(knl, "k", "id:first"), "unknown-iname"),
    "no_match": (hoisted, lambda knl: pl.add_inames_to_insn(knl, "j", "id:third"), "unknown-instruction"),
}


@pytest.mark.parametrize("case", ADDITIONS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = ADDITIONS[case]
    golden(f"messages/add_inames_to_insn_{case}.txt", refused(make(), call, code))


def test_every_thread_does_it() -> None:
    text = "<> t = 2*a[i] {id=first}\nc[i, j] = t + j"
    data = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("c", F, shape="n, 4"), ...]
    domains = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 4}"]
    base = pl.make_kernel(domains, text, data, name="each", assumptions="n >= 1")
    knl = pl.add_inames_for_unused_hw_axes(pl.tag_inames(base, "j:l.0"))
    assert knl.instructions[0].inames == ("i", "j")
    (a,) = vectors(5, 1)
    check(knl, {"a": a}, {"c": 2 * a[:, None] + np.arange(4, dtype=F)})
    same_after_replay(base, knl)
    shown = pl.tag_inames(pl.fix_parameters(hoisted(), m=4), "j:l.0")
    refused(shown, pl.add_inames_for_unused_hw_axes, "write-race")
    assert knl.add_inames_for_unused_hw_axes(within="id:first") is not None
    text = "b[i] = 2*a[i]\nc[j] = 3*a[j]\nd[k] = a[k] {id=third}"
    data = [pl.GlobalArg("a, b, c, d", F, shape="4"), ...]
    knl = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < 4}", text, data, name="three")
    knl = pl.tag_inames(knl, "i:l.0, j:l.0")
    assert "several inames are 'l.0'" in refused(knl, pl.add_inames_for_unused_hw_axes, "axis-ambiguous")
    refused(knl, lambda knl: pl.add_inames_for_unused_hw_axes(knl, within="id:x"), "unknown-instruction")


def test_untagged_loops_are_loops_again(golden: Golden) -> None:
    base = pl.split_iname(blur(), "i", 8, outer_tag="g.0", inner_tag="l.0")
    knl = pl.untag_inames(base, "i_inner")
    assert set(knl.iname_tags) == {"i_outer"}
    assert "threadIdx" in cuda(base)
    assert "threadIdx" not in cuda(knl)
    same_after_replay(blur(), knl)
    assert not base.untag_inames("i_*").iname_tags
    assert set(pl.untag_inames(base, "*", "g.0").iname_tags) == {"i_inner"}
    golden("messages/untag_inames_unknown.txt", refused(base, lambda knl: pl.untag_inames(knl, "j"), "unknown-iname"))
    refused(base, lambda knl: pl.untag_inames(knl, "j*"), "unknown-iname")
    refused(base, lambda knl: pl.untag_inames(knl, "i_inner", "x.0"), "bad-tag")


def test_tags_by_pattern() -> None:
    knl = matmul()
    for iname in ("i", "j", "k"):
        knl = pl.split_iname(knl, iname, 4)
    knl = pl.tag_inames(knl, {"?_inner": "unr", "i_outer": "g.0"})
    assert {iname: str(tag) for iname, tag in knl.iname_tags.items()} == {
        "i_inner": "unr", "j_inner": "unr", "k_inner": "unr", "i_outer": "g.0",
    }  # fmt: skip
    check_matmul(pl.assume(knl, "n mod 4 = 0"), (4,))
    refused(matmul(), lambda knl: pl.tag_inames(knl, "x*:unr"), "unknown-iname")
    assert pl.tag_inames(matmul(), "x*:unr", ignore_nonexistent=True).iname_tags == {}


def test_peeled_iterations() -> None:
    text = "b[i] = 2*a[i]\nc[j] = b[j-1] + 1"
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    base = pl.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 1 <= j < n}"], text, data, name="peeled", assumptions="n >= 1")
    fused = pl.fuse_loops(base, "i, j")
    knl = pl.peel(fused, "i")
    bulk = cuda(knl)[cuda(knl).rindex("for (") :]
    assert "if" in cuda(fused)
    assert "if" not in bulk
    for changed in (knl, pl.peel(fused, "i", 2, 3), fused.peel("i", front=0, back=1)):
        for n in (1, 2, 3, 4, 5, 6, 9):
            a, c = vectors(n, 2)
            want = c.copy()
            want[1:] = 2 * a[:-1] + 1
            check(changed, {"a": a, "c": c}, {"b": 2 * a, "c": want})
    same_after_replay(base, knl)
    assert not pl.peel(knl, "i", 0, 0).slabs
    refused(base, lambda knl: pl.peel(knl, "i", -1), "bad-slabs")
    refused(base, lambda knl: pl.peel(knl, "k"), "unknown-iname")
    refused(pl.tag_inames(base, "i:g.0"), lambda knl: pl.peel(knl, "i"), "iname-tagged")
