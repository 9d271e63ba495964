"""``collect_common_factors_on_increment``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, spread

Golden = Callable[[str, str], None]


def increments() -> pl.LoopKernel:
    text = """
        for i
            <float32> t = 0
            for k
                t = t + s*a[i, k]*w[0]/2    {id=first}
            end
            t = t + w[0]*sum(k, 3*s*a[i, k])    {id=second}
            t = t - (s*b[i] + s*a[i, 0])*w[0]   {id=third}
            y[i] = t + exp(t*b[i])
        end
        """
    data = [pl.GlobalArg("a", F, shape="n, 4"), pl.GlobalArg("b, y", F, shape="n"), pl.GlobalArg("w", F, shape="1"),
            pl.ValueArg("s", F), ...]  # fmt: skip
    return pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 4}", text, data, name="increments")


def check_increments(knl: pl.LoopKernel) -> None:
    for n in (1, 5):
        rng = np.random.default_rng(n)
        a, b = rng.integers(0, 3, (n, 4)).astype(F), rng.integers(-1, 2, n).astype(F)
        s, w = F(0.5), np.array([0.25], F)
        t = s * w[0] * (a.sum(1) / 2 + 3 * a.sum(1) - b - a[:, 0])
        check(knl, {"a": a, "b": b, "s": s, "w": w}, {"y": t + np.exp(t * b)}, rtol=1e-5)


def test_factors_of_all_increments_are_collected(golden: Golden) -> None:
    base = increments()
    knl = pl.collect_common_factors_on_increment(base, "t")
    assert "# collected s, w[0]" in str(knl.trace)
    golden("golden/collected_factors.cu", cuda(spread(knl, length=4)))
    check_increments(knl)
    after = pl.collect_common_factors_on_increment(spread(base, length=4), "t")
    check_increments(after)
    same_after_replay(base, after)


def test_factors_that_differ_along_an_axis() -> None:
    text = "t[i] = 0 {id=zero}\nt[j] = t[j] + c[j]*a[j, k] {id=add, dep=zero}\ny[m] = t[n - 1 - m] {dep=add}"
    vectors = [pl.GlobalArg("c, y", F, shape="n"), pl.TemporaryVariable("t", F, shape="n")]
    data = [pl.GlobalArg("a", F, shape="n, 4"), *vectors, ...]
    base = pl.make_kernel("{[i, j, k, m]: 0 <= i, j, m < n and 0 <= k < 4}", text, data, name="rows")
    text = refused(base, lambda k: pl.collect_common_factors_on_increment(k, "t"), "no-common-factor")
    assert "'add' adds c[j]*a[j, k]" in text
    knl = pl.collect_common_factors_on_increment(base, "t", vary_by_axes=(0,))
    assert "y[m] = c[n - 1 - m]*t[n - 1 - m]" in str(knl)
    for n in (1, 6):
        a, c = np.arange(4 * n, dtype=F).reshape(n, 4), np.arange(n, dtype=F)
        check(knl, {"a": a, "c": c}, {"y": (c * a.sum(1))[::-1]})
    same_after_replay(base, knl)


def test_types_of_products_with_rules_are_those_of_their_values() -> None:
    text = "f(x) := x*u[0]\n<float32> t = 0 {{id=zero}}\nt = t + s*{} {{id=add, dep=zero}}\ny[0] = t {{dep=add}}"
    data = [pl.GlobalArg("a", F, shape="4"), pl.GlobalArg("u, v", np.uint8, shape="4"), pl.ValueArg("s", F), ...]

    def sums(term: str) -> pl.LoopKernel:
        return pl.make_kernel("{[j, k]: 0 <= j, k < 4}", text.format(term), data, name="rules")

    knl = pl.collect_common_factors_on_increment(sums("f(a[k])*f(2)"), "t")
    assert "# collected s" in str(knl.trace)
    a, u, s = np.arange(4, dtype=F), np.full(4, 200, np.uint8), F(0.5)
    check(knl, {"a": a, "u": u, "v": u, "s": s}, {"y": np.array([s * (a * 200).sum() * np.uint8(144)], F)})
    for wrapping in ("v[k]*v[k]*a[k]", "(u[0] + u[0])*f(2)*a[k]", "sum(j, s*v[j])"):
        refused(sums(wrapping), lambda k: pl.collect_common_factors_on_increment(k, "t"), "no-common-factor")


def test_what_has_no_common_factor(golden: Golden) -> None:
    knl = increments()
    other = pl.map_instructions(knl, "id:second", lambda insn: "t = t + w[0]*sum(k, a[i, k])")
    assert "# collected w[0]" in str(pl.collect_common_factors_on_increment(other, "t").trace)
    none = pl.map_instructions(other, "id:third", lambda insn: "t = t + b[i]")
    text = refused(none, lambda k: pl.collect_common_factors_on_increment(k, "t"), "no-common-factor")
    golden("messages/collect_no_common_factor.txt", text)
    refused(knl, lambda k: pl.collect_common_factors_on_increment(k, "u"), "unknown-temporary")
    refused(knl, lambda k: pl.collect_common_factors_on_increment(k, "t", 0), "wrong-rank")
    product = pl.map_instructions(knl, "id:third", lambda insn: "t = t*b[i]")
    refused(product, lambda k: pl.collect_common_factors_on_increment(k, "t"), "bad-instructions")
    fetched = pl.add_prefetch(spread(knl, length=4), "a", "i_inner, k")
    with pytest.raises(pl.TransformError) as caught:
        pl.collect_common_factors_on_increment(fetched, "t")
    assert set(caught.value.codes) == {"bad-instructions"}
    integers = pl.make_kernel(
        "{[i, k]: 0 <= i, k < 4}",
        "for i\n<int32> t = 0\nfor k\nt = t + 2*a[k]\nend\ny[i] = t\nend",
        [pl.GlobalArg("a, y", np.int32, shape="4"), ...],
    )
    refused(integers, lambda k: pl.collect_common_factors_on_increment(k, "t"), "bad-value")
