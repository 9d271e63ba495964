from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.generated import code_of
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F, normalise

Golden = Callable[[str, str], None]


def kernel(instructions: str, *domains: str, arrays: str = "a, b, c", shape: str = "n") -> pl.LoopKernel:
    data = [pl.GlobalArg(arrays, F, shape=shape), ...]
    return pl.make_kernel(list(domains), instructions, data, name="loops", assumptions="n >= 1")


def pointwise() -> pl.LoopKernel:
    return kernel("b[i] = 2*a[i] {id=first}\nc[j] = b[j] + 1 {id=second}", "{[i, j]: 0 <= i, j < n}")


def ahead() -> pl.LoopKernel:
    return kernel(
        "b[i] = 2*a[i] {id=first}\nc[j] = b[j+1] + 1 {id=second}", "{[i]: 0 <= i < n}", "{[j]: 0 <= j < n - 1}"
    )


def sum_between() -> pl.LoopKernel:
    text = "b[i] = 2*a[i] {id=first}\n<> s = sum(k, b[k]) {id=total}\nc[j] = b[j] + s {id=second}"
    return kernel(text, "{[i, j, k]: 0 <= i, j, k < n}")


def check_pointwise(knl: pl.LoopKernel) -> None:
    for n in (1, 2, 7, 8, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": 2 * a, "c": 2 * a + 1})


def test_two_loops_become_one(golden: Golden) -> None:
    knl = pl.fuse_loops(pointwise(), "i, j")
    check_pointwise(knl)
    golden("golden/fused.cu", cuda(knl))
    same_after_replay(pointwise(), knl)
    assert cuda(pointwise().fuse_loops(["i", "j"])) == cuda(knl)
    named = pl.fuse_loops(pointwise(), "i, j", new_iname="x")
    assert named.instructions[0].inames == named.instructions[1].inames == ("x",)
    check_pointwise(named)
    check_pointwise(pl.split_iname(named, "x", 8, outer_tag="g.0", inner_tag="l.0"))


def test_a_loop_that_runs_behind_is_shifted_first() -> None:
    text = refused(ahead(), lambda knl: pl.fuse_loops(knl, "i, j"), "illegal-order")
    assert "pl.shift(knl, 'j', 1)" in text
    knl = pl.fuse_loops(pl.shift(ahead(), "j", 1), "i, j")
    assert cuda(knl).count("for (") == 1
    for n in (1, 2, 7):
        a, c = vectors(n, 2)
        want = c.copy()
        want[:-1] = 2 * a[1:] + 1
        check(knl, {"a": a, "c": c}, {"c": want})


def test_loops_of_different_lengths() -> None:
    text = "b[i] = 2*a[i] {id=first}\nc[j] = 3*a[j] {id=second}"
    knl = kernel(text, "{[i]: 0 <= i < n}", "{[j]: 2 <= j < n + 4}", arrays="a, b, c", shape="n + 4")
    knl = pl.fuse_loops(knl, "i, j")
    assert cuda(knl).count("for (") == 1
    for fused in (knl, pl.split_iname(knl, "i", 4), pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")):
        for n in (1, 2, 3, 7):
            a, b, c = vectors(n + 4, 3)
            double, triple = b.copy(), c.copy()
            double[:n] = 2 * a[:n]
            triple[2:] = 3 * a[2:]
            check(fused, {"a": a, "b": b, "c": c}, {"b": double, "c": triple})


def test_nests_are_fused_from_the_outside_in() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    knl = pl.make_kernel(
        ["{[i, j]: 0 <= j <= i < n}", "{[p, q]: 0 <= q <= p < n}"],
        "b[i, j] = 2*a[i, j] {id=first}\nc[p, q] = b[p, q] + 1 {id=second}",
        data, name="triangles", assumptions="n >= 1",
    )  # fmt: skip
    text = refused(knl, lambda knl: pl.fuse_loops(knl, "j, q"), "cannot-fuse")
    assert "inside of (i) and the other inside of (p)" in text
    fused = pl.fuse_loops(pl.fuse_loops(knl, "i, p"), "j, q")
    assert cuda(fused).count("for (") == 2
    for n in (1, 2, 5):
        a, b, c = np.random.default_rng(n).integers(-3, 4, (3, n, n)).astype(F)
        where = np.tril_indices(n)
        double, more = b.copy(), c.copy()
        double[where], more[where] = 2 * a[where], 2 * a[where] + 1
        check(fused, {"a": a, "b": b, "c": c}, {"b": double, "c": more})


def test_written_loops_of_one_name_become_one() -> None:
    text = """
        for i
            b[i] = 2*a[i]    {id=first}
        end
        for i
            c[i] = b[i] + 1  {id=second}
        end
        """
    knl = kernel(text, "{[i]: 0 <= i < n}")
    assert cuda(knl).count("for (") == 2
    fused = pl.fuse_loops(knl, "i")
    assert cuda(fused).count("for (") == 1
    check_pointwise(fused)


def test_sums_stay_sums() -> None:
    text = "b[i] = sum(k, a[k]) {id=first}\nc[j] = sum(k, a[k]*b[j]) {id=second}"
    knl = pl.fuse_loops(kernel(text, "{[i, j, k]: 0 <= i, j, k < n}"), "i, j")
    for n in (1, 4):
        (a,) = vectors(n, 1)
        total = np.full(n, a.sum(), F)
        check(knl, {"a": a}, {"b": total, "c": a.sum() * total})


def test_loops_on_threads() -> None:
    knl = pointwise()
    for iname in ("i", "j"):
        knl = pl.split_iname(knl, iname, 8, outer_tag="g.0", inner_tag="l.0")
    fused = pl.fuse_loops(pl.fuse_loops(knl, "i_outer, j_outer"), "i_inner, j_inner")
    check_pointwise(fused)
    assert fused.instructions[1].inames == ("i_outer", "i_inner")


def step(norm: str = "r[k]*r[k]") -> pl.LoopKernel:
    """Return a step of conjugate gradients: an update, and the norm of what it gives."""
    data = [pl.GlobalArg("r, q", F, shape="n"), pl.GlobalArg("s", F, shape=()), ...]
    text = f"r[i] = r[i] - 2*q[i] {{id=update}}\ns = sum(k, {norm}) {{id=norm}}"
    return pl.make_kernel(["{[i]: 0 <= i < n}", "{[k]: 0 <= k < n - 1}"], text, data, name="loops")


def step_ahead() -> pl.LoopKernel:
    return step("r[k + 1]*r[k + 1]")


def check_step(knl: pl.LoopKernel) -> None:
    for n in (1, 2, 7, 8, 20):
        r, q = vectors(n, 2)
        after = r - 2 * q
        check(knl, {"r": r, "q": q}, {"r": after, "s": np.array((after[:-1] ** 2).sum(), F)})


def test_an_update_and_the_norm_of_its_result_are_one_loop() -> None:
    fused = pl.fuse_loops(step(), "i, k", "m")
    assert cuda(fused).count("for (") == 1
    check_step(fused)
    same_after_replay(step(), fused)
    calls = [line.split("(")[0] for line in str(fused.trace).splitlines() if not line.startswith("#")]
    assert calls == ["knl = pl.reduce_atomically", "knl = pl.fuse_loops"]


def test_an_update_and_the_norm_of_its_result_are_one_launch_behind_the_zero() -> None:
    knl = pl.split_iname(pl.split_iname(step(), "i", 8), "k", 8)
    knl = pl.fuse_loops(knl, "i_outer, k_outer", "block")
    knl = pl.tag_inames(knl, "block:g.0, i_inner:l.0, k_inner:l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    first, second = code_of(program.device_code).split("loops_1")
    assert "s[0] = 0.0f;" in first
    assert "r[" not in first
    assert len(program.launches) == 2
    assert "atomicAdd(&s[0]" in second
    check_step(knl)


def test_two_reductions_share_a_loop() -> None:
    text, domain = "b[i] = sum(j, a[j]*a[i])\nc[i] = sum(k, a[k])", "{[i, j, k]: 0 <= i, j, k < n}"
    knl = pl.fuse_loops(kernel(text, domain), "j, k")
    assert cuda(knl).count("for (") == 2
    for n in (1, 4):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": a.sum() * a, "c": np.full(n, a.sum(), F)})
    refused(kernel(text + " + a[i]", domain), lambda knl: pl.fuse_loops(knl, "j, k"), "no-atomic-reduction")


def test_fusion_candidates() -> None:
    find = pl.get_kennedy_unweighted_fusion_candidates
    assert find(pointwise(), ["i", "j"]) == {"ifused_0": {"i", "j"}}
    assert find(ahead(), ["i", "j"]) == {}
    assert find(sum_between(), ["i", "j"]) == {}
    text = "b[i] = 2*a[i]\n<> s = sum(k, b[k])\nc[j] = b[j] + s\n d[p] = a[p] + c[p]\ne[q] = b[q]"
    knl = kernel(text, "{[i, j, k, p, q]: 0 <= i, j, k, p, q < n}", arrays="a, b, c, d, e")
    batches = find(knl, frozenset(knl.inames) - {"k"}, prefix="x")
    assert batches == {"x0": {"i", "q"}, "x1": {"j", "p"}}
    fused = pl.rename_inames_in_batch(knl, batches)
    assert cuda(fused).count("for (") == 3
    for n in (1, 5):
        (a,) = vectors(n, 1)
        c = 2 * a + 2 * a.sum()
        check(fused, {"a": a}, {"b": 2 * a, "c": c, "d": a + c, "e": 2 * a})
    same_after_replay(knl, fused)
    with pytest.raises(pl.TransformError) as caught:
        find(knl, ["i", "z"])
    assert caught.value.codes == ("unknown-iname",)
    refused(knl, lambda knl: pl.rename_inames_in_batch(knl, {"x": ["i", "q"], "y": ["q", "p"]}), "bad-inames")


Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]
REFUSALS: dict[str, Case] = {
    "read_ahead": (ahead, lambda knl: pl.fuse_loops(knl, "i, j"), "illegal-order"),
    "sum_between": (sum_between, lambda knl: pl.fuse_loops(knl, "i, j"), "cannot-fuse"),
    "reduction": (sum_between, lambda knl: pl.rename_inames_in_batch(knl, {"x": ["i", "k"]}), "not-a-loop"),
    "reduction_ahead": (step_ahead, lambda knl: pl.fuse_loops(knl, "i, k"), "illegal-order"),
    "one_nest": (normalise, lambda knl: pl.fuse_loops(knl, "i, j"), "same-nest"),
    "unknown": (pointwise, lambda knl: pl.fuse_loops(knl, "i, jj"), "unknown-iname"),
    "twice": (pointwise, lambda knl: pl.fuse_loops(knl, "i, i"), "bad-inames"),
    "taken": (pointwise, lambda knl: pl.fuse_loops(knl, "i, j", new_iname="a"), "name-taken"),
    "tagged": (
        lambda: pl.tag_inames(pointwise(), "i:g.0"), lambda knl: pl.fuse_loops(knl, "i, j"), "iname-tagged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/fuse_loops_{case}.txt", refused(make(), call, code))


def scalar_between() -> pl.LoopKernel:
    return kernel(
        "<> t = 2*a[i] {id=first}\nb[i] = t {id=second}\nc[i] = a[i] + 1 {id=third}", "{[i]: 0 <= i < n}"
    )


def chain() -> pl.LoopKernel:
    text = "b[i] = 2*a[i] {id=first}\nc[i] = b[i] + 1 {id=second}\nd[i] = c[i] + b[i] {id=third}"
    return kernel(text, "{[i]: 0 <= i < n}", arrays="a, b, c, d")


def check_chain(knl: pl.LoopKernel) -> None:
    for n in (1, 2, 9):
        (a,) = vectors(n, 1)
        check(knl, {"a": a}, {"b": 2 * a, "c": 2 * a + 1, "d": 4 * a + 1})


def test_one_loop_becomes_several(golden: Golden) -> None:
    knl = pl.distribute_loops(chain(), "i", "id:second or id:third")
    assert cuda(knl).count("for (") == 2
    check_chain(knl)
    golden("golden/distributed.cu", cuda(knl))
    same_after_replay(chain(), knl)
    every = chain().distribute_loops("i", ["id:first", "id:second", "id:third"])
    assert cuda(every).count("for (") == 3
    check_chain(every)
    check_chain(pl.split_iname(every, "i", 4))
    assert cuda(pl.fuse_loops(every, "i")).count("for (") == 1
    middle = pl.distribute_loops(chain(), "i", "writes:c")
    assert cuda(middle).count("for (") == 3, "the rest does not fit into one loop"
    check_chain(middle)


def test_loops_around_stay_shared() -> None:
    data = [pl.GlobalArg("a, b, c", F, shape="n, n"), ...]
    text = "b[i, j] = 2*a[i, j] {id=first}\nc[i, j] = b[i, j] + 1 {id=second}"
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="rows", assumptions="n >= 1")
    inner = pl.distribute_loops(knl, "j", "id:second")
    assert (cuda(inner).count("for (int i"), cuda(inner).count("for (int j")) == (1, 2)
    outer = pl.distribute_loops(knl, "i", "id:second")
    assert (cuda(outer).count("for (int i"), cuda(outer).count("for (int j")) == (2, 2)
    for changed in (inner, outer):
        a = np.random.default_rng(3).integers(-3, 4, (4, 4)).astype(F)
        check(changed, {"a": a}, {"b": 2 * a, "c": 2 * a + 1})


DISTRIBUTIONS: dict[str, Case] = {
    "scalar": (scalar_between, lambda knl: pl.distribute_loops(knl, "i", "id:second"), "illegal-order"),
    "between": (chain, lambda knl: pl.distribute_loops(knl, "i", "id:first or id:third"), "cannot-distribute"),
    "twice": (chain, lambda knl: pl.distribute_loops(knl, "i", ["id:f*", "writes:b"]), "bad-groups"),
    "none": (chain, lambda knl: pl.distribute_loops(knl, "i", []), "bad-groups"),
    "no_match": (chain, lambda knl: pl.distribute_loops(knl, "i", "id:fourth"), "unknown-instruction"),
    "syntax": (chain, lambda knl: pl.distribute_loops(knl, "i", "id:first and"), "syntax"),
    "unknown": (chain, lambda knl: pl.distribute_loops(knl, "k", "id:first"), "unknown-iname"),
    "tagged": (
        lambda: pl.tag_inames(chain(), "i:g.0"), lambda knl: pl.distribute_loops(knl, "i", "id:third"), "iname-tagged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DISTRIBUTIONS)
def test_refusals_of_distribution(case: str, golden: Golden) -> None:
    make, call, code = DISTRIBUTIONS[case]
    golden(f"messages/distribute_loops_{case}.txt", refused(make(), call, code))


def test_reductions_into_one_array_are_one_loop() -> None:
    data = [pl.GlobalArg("x, y", np.float64, shape="n"), ...]
    text = ["y[0] = sum(k, x[k])", "y[1] = max(j, x[j]*x[j])"]
    knl = pl.make_kernel("{[k, j]: 0 <= k, j < n}", text, data, assumptions="n >= 2").fuse_loops("k, j")
    x = np.arange(-3.0, 4.0)
    found = pl.interpret(knl, x=x, y=np.zeros(7))["y"]
    assert (found[0], found[1], len({i.inames for i in knl.instructions})) == (0, 9, 2)


def test_a_reduction_of_a_scalar_joins_the_loop_that_feeds_it() -> None:
    """The scalar is shared by the threads of the block then, and complete behind a barrier."""
    text = """
        for i
            for k
                e[i, k] = 2*x[i, k]
            end
            <> s = sum(l, e[i, l])
            for q
                o[i, q] = s - e[i, q]
            end
        end
        """
    knl = pl.make_kernel("{[i, k, l, q]: 0 <= i < 3 and 0 <= k, l, q < 8}", text,
                         [pl.GlobalArg("x, e, o", np.float64, shape="3, 8"), ...])  # fmt: skip
    knl = pl.tag_inames(knl.fuse_loops("k, l"), "i:g.0, k:l.0, q:l.0")
    source = cuda(knl)
    assert "__shared__ double s;" in source
    assert source.count("for (") == 0
    x = np.arange(24.0).reshape(3, 8)
    np.testing.assert_array_equal(pl.interpret(knl, x=x)["o"], 2 * x.sum(1)[:, None] - 2 * x)


def test_two_levels_of_tiles_are_fused() -> None:
    """The domain of the first fused loop uses the inames of the second pair, which are no parameters of it."""
    knl = pl.make_kernel(
        "{[k, i, c, r, j]: 0 <= k < n and k < i, r, j < n and c = k}",
        """
        for k
            for i, c
                a[i, c] = a[i, c]/a[k, k]
            end
            for r, j
                a[r, j] = a[r, j] - a[r, k]*a[k, j]
            end
        end
        """,
        [pl.GlobalArg("a", np.float64, shape="n, n")], name="lu", assumptions="n >= 1")  # fmt: skip
    for iname in ("k", "i", "c", "r", "j"):
        knl = pl.split_iname(knl, iname, 4, outer_iname=f"{iname}_tile", inner_iname=f"{iname}_in")
    knl = pl.fuse_loops(knl, "i_tile, r_tile", "rows")
    knl = pl.prioritize_loops(pl.prioritize_loops(knl, "rows, c_tile, i_in"), "rows, j_tile, r_in")
    knl = pl.fuse_loops(knl, "c_tile, j_tile", "columns")
    knl = pl.prioritize_loops(knl, "k_tile, rows, columns, k_in")
    a = np.random.default_rng(0).random((11, 11)) + 11*np.eye(11)
    lower_upper = pl.compile(knl, target=pl.CTarget())(a=a.copy()).a
    np.testing.assert_allclose((np.tril(lower_upper, -1) + np.eye(11)) @ np.triu(lower_upper), a, rtol=1e-12)
