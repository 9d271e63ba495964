from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, blur, check_blur, check_matmul, check_normalise, matmul, normalise

Golden = Callable[[str, str], None]


def shared(first: str = "<> t[i] = 2*a[i] {id=first}") -> pl.LoopKernel:
    data = [pl.GlobalArg("a, b", F, shape="n"), pl.TemporaryVariable("t", F, shape="n"), ...]
    data = data[:1] + data[2:] if "<> t =" in first else data
    knl = f"{first}\nb[i] = {'t' if '<> t =' in first else 't[i]'} + 1 {{id=second}}"
    return pl.make_kernel("{[i]: 0 <= i < n}", knl.replace("<> t[", "t["), data, name="sharing", assumptions="n >= 1")


def scalar() -> pl.LoopKernel:
    return shared("<> t = 2*a[i] {id=first}")


def test_a_loop_of_their_own_for_some() -> None:
    knl = pl.fix_parameters(shared(), n=6)
    changed = pl.duplicate_inames(knl, "i", "id:second")
    assert [i.inames for i in changed.instructions] == [("i",), ("i_0",)]
    assert cuda(changed).count("for (") == 2
    (a,) = vectors(6, 1)
    check(changed, {"a": a}, {"b": 2 * a + 1})
    same_after_replay(shared(), changed)
    named = knl.duplicate_inames("i", within="writes:b", new_inames="k", tags={"i": "l.0"})
    assert str(named.iname_tags["k"]) == "l.0"
    check(named, {"a": a}, {"b": 2 * a + 1})
    same_after_replay(shared(), named)
    assert pl.duplicate_inames(knl, ["i"], "id:second", suffix="_new").instructions[1].inames == ("i_new",)


def test_reductions_and_whole_nests() -> None:
    knl = pl.duplicate_inames(normalise(), "k", None)
    check_normalise(knl)
    check_normalise(pl.duplicate_inames(normalise(), "j", "id:insn_1"))
    check_matmul(pl.duplicate_inames(matmul(), "i, j, k"))
    check_blur(pl.duplicate_inames(pl.split_iname(blur(), "i", 4), "i_inner, i_outer"))


def test_rules_are_expanded_where_they_use_the_iname() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    text = "f(x) := a[x] + i\nb[i] = f(i) {id=first}\nc[i] = 2*f(i) {id=second}"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="rules", assumptions="n >= 1")
    changed = pl.duplicate_inames(knl, "i", "id:second")
    for n in (1, 5):
        (a,) = vectors(n, 1)
        f = a + np.arange(n, dtype=F)
        check(changed, {"a": a}, {"b": f, "c": 2 * f})


def test_a_triangle_keeps_its_bounds() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    text = "b[i, j] = 2*a[i, j] {id=first}\nc[i, j] = b[i, j] + 1 {id=second}"
    knl = pl.make_kernel("{[i, j]: 0 <= j <= i < n}", text, data, name="triangle", assumptions="n >= 1")
    for inames in ("i, j", "j", "i"):
        changed = pl.duplicate_inames(knl, inames, "id:second")
        for n in (1, 4):
            a, b, c = np.random.default_rng(n).integers(-3, 4, (3, n, n)).astype(F)
            where = np.tril_indices(n)
            double, more = b.copy(), c.copy()
            double[where], more[where] = 2 * a[where], 2 * a[where] + 1
            check(changed, {"a": a, "b": b, "c": c}, {"b": double, "c": more})


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "scalar": (scalar, lambda knl: pl.duplicate_inames(knl, "i", "id:second"), "illegal-order"),
    "unknown": (scalar, lambda knl: pl.duplicate_inames(knl, "k", "id:second"), "unknown-iname"),
    "no_match": (scalar, lambda knl: pl.duplicate_inames(knl, "i", "id:third"), "unknown-instruction"),
    "no_such_loop": (normalise, lambda knl: pl.duplicate_inames(knl, "k", "id:insn_1"), "no-match"),
    "names": (scalar, lambda knl: pl.duplicate_inames(knl, "i", "id:second", ["p", "q"]), "bad-inames"),
    "taken": (scalar, lambda knl: pl.duplicate_inames(knl, "i", "id:second", "a"), "name-taken"),
    "no_tag": (scalar, lambda knl: pl.duplicate_inames(knl, "i", tags={"i": "fast"}), "bad-tag"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/duplicate_inames_{case}.txt", refused(make(), call, code))


def test_two_instructions_at_one_instance_are_told_apart() -> None:
    text = """
    <> t = 2.0
    for j
        t = t + x[j]  {id=first}
        t = 3*t       {id=second}
    end
    y = t
    """
    knl = pl.make_kernel("{[j]: 0 <= j < 6}", text, seq_dependencies=True)
    with pytest.raises(pl.TransformError) as caught:
        knl.duplicate_inames("j", "id:second")
    message = str(caught.value)
    assert "instance (j=1) would read t as written by instance (j=0) of 'first'" in message
    assert "it should read the value of instance (j=0) of 'second'" in message
