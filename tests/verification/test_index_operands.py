"""Inames that are numbers in what is computed ahead: loops that would give a use the value of another iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused

F = np.float32
Way = Callable[[pl.LoopKernel], pl.LoopKernel]


def staged(term: str) -> pl.LoopKernel:
    """Return sums of which the partial ones are kept, where the loop over ``i`` is in no subscript of the terms."""
    data = [pl.GlobalArg("y", F, shape="4"), *([pl.GlobalArg("a", F, shape="32")] if "a[" in term else []), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < 4 and 0 <= k < 32}", f"y[i] = sum(k, {term})", data, name="weighted")
    return pl.stage_reduction(pl.split_iname(knl, "k", 8, outer_iname="b", inner_iname="j"), "b")


def ahead(rule: str, use: str) -> pl.LoopKernel:
    """Return a rule that is computed ahead, into a temporary."""
    data = [pl.GlobalArg("y", F, shape="12, 8"), pl.GlobalArg("x", F, shape="9"), ...]
    text = f"f(r) := {rule}\ny[i, j] = {use}"
    knl = pl.make_kernel("{[i, j]: 0 <= i < 12 and 0 <= j < 8}", text, data, name="ahead")
    return pl.precompute(knl, "f", "j", default_tag=None)


TERMS = ["a[k]*(i + 1)", "k*(i + 1)", "a[k] if i > 1 else 0"]
APART: dict[str, Way] = {
    "distribute": lambda k: pl.distribute_loops(k, "i", ["id:compute_part", "id:insn"]),
    "duplicate": lambda k: pl.duplicate_inames(k, "i", "id:insn"),
    "duplicate_other": lambda k: pl.duplicate_inames(k, "i", "id:compute_part"),
    "reorder": lambda k: pl.prioritize_loops(k, "b_part, i"),
}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("way", APART)
def test_partial_results_of_another_iteration(term: str, way: str) -> None:
    text = refused(staged(term), APART[way], "copy-wrong-element")
    assert "computes for another iteration: it depends on 'i" in text


@pytest.mark.parametrize("term", TERMS)
def test_in_the_same_iteration(term: str) -> None:
    a = np.arange(32, dtype=F)
    k = np.arange(32)
    i = np.arange(4)[:, None]
    terms = {TERMS[0]: a * (i + 1), TERMS[1]: k * (i + 1), TERMS[2]: a * (i > 1)}
    y = terms[term].sum(1).astype(F)
    given = {"a": a} if "a[" in term else {}
    knl = staged(term)
    for chain in (
        knl,
        pl.tag_inames(knl, "i:g.0"),
        pl.split_iname(knl, "i", 2, inner_tag="l.0"),
        pl.tag_inames(pl.split_iname(knl, "b_part", 2), "b_part_inner:unr"),
        pl.map_domain(knl, "{[i] -> [s]: s = 3 - i}"),
    ):
        check(chain, given, {"y": y})
    check(pl.distribute_loops(staged("a[k]*2"), "i", ["id:compute_part", "id:insn"]), {"a": a},
          {"y": np.full(4, 2 * a.sum(), F)})  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "use", "value"),
    [
        ("x[r]*i", "f(j)", lambda x, i, j: x[j] * i),
        ("x[r]*r", "f(j)", lambda x, i, j: x[j] * j),
        ("x[r]*(i + r)", "f(j) + f(j + 1)", lambda x, i, j: x[j] * (i + j) + x[j + 1] * (i + j + 1)),
        ("1.0*r*i", "f(j)", lambda x, i, j: 1.0 * j * i),
    ],
)  # fmt: skip
def test_rules(rule: str, use: str, value: Callable[..., float]) -> None:
    x = np.arange(9, dtype=F)
    y = np.array([[value(x, i, j) for j in range(8)] for i in range(12)], F)
    knl = ahead(rule, use)
    given = {"x": x}
    for chain in (knl, pl.split_iname(knl, "i", 4, outer_tag="g.0"), pl.split_iname(knl, "i", 5, inner_tag="l.0")):
        check(chain, given, {"y": y})
    new = next(i for i in knl.instructions if i.id != "insn")
    if "i" in rule:
        refused(knl, lambda k: pl.duplicate_inames(k, "i", f"id:{new.id}"), "copy-wrong-element")
    else:
        check(pl.duplicate_inames(knl, "i", f"id:{new.id}"), given, {"y": y})


@pytest.mark.parametrize("via", ["shared", "registers"])
@pytest.mark.parametrize(("rule", "use", "value"), [
    ("f(p) := x[p + k]*p", "f(i) + f(i + 1)", lambda x, i, k: x[i + k] * i + x[i + k + 1] * (i + 1)),
    ("f(p) := x[p + k]*k", "f(i) + f(i + 1)", lambda x, i, k: (x[i + k] + x[i + k + 1]) * k),
    ("f(p, q) := x[p + q]*q", "f(i, k) + f(i, k + 1)", lambda x, i, k: x[i + k] * k + x[i + k + 1] * (k + 1)),
])  # fmt: skip
def test_values_for_the_next_iteration(via: str, rule: str, use: str, value: Callable[..., float]) -> None:
    """The lane that keeps a value in a register is no iname of what uses it, and selects the element that it fills."""
    knl = pl.make_kernel(
        "{[k, i]: 0 <= k < m and 0 <= i < n}",
        f"{rule}\ny[k, i] = {use}",
        [pl.GlobalArg("x", F, shape="m + n + 1"), pl.GlobalArg("y", F, shape="m, n"), ...],
        name="next",
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.prioritize_loops(pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0"), "k")
    knl = pl.pipeline(pl.precompute(knl, "f", ["i_inner"], default_tag="l.auto"), "k", via=via)
    for m, n in ((1, 1), (3, 32), (4, 70)):
        x = np.arange(m + n + 1, dtype=F)
        y = np.array([[value(x, i, k) for i in range(n)] for k in range(m)], F)
        check(knl, {"x": x, "m": m, "n": n}, {"y": y})
    if "q" not in rule and "*k" in rule:
        loop = next(i.inames for i in knl.instructions if i.id == "compute_f")
        assert "k" in loop
        text = refused(knl, lambda k: pl.duplicate_inames(k, "k", "id:insn"), "copy-wrong-element")
        assert "it depends on 'k" in text or "another element" in text
