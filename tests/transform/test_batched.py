"""``to_batched`` and ``concatenate_arrays``: what a caller passes, for many problems and in fewer pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, blur, spread

Golden = Callable[[str, str], None]


# {{{ batches


def affine() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("s", F), ...]
    text = "<> t = s*x[i]\ny[i] = t + sum(j, a[i, j]*x[j])"
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="affine")


def check_affine(knl: pl.LoopKernel, count: int | None = None, name: str = "nb") -> None:
    for n, some in ((1, 1), (5, 3), (9, 2)):
        problems = count or some
        rng = np.random.default_rng(n)
        x = rng.integers(-4, 5, (problems, n)).astype(F)
        a = rng.integers(-4, 5, (n, n)).astype(F)
        s = rng.integers(1, 4, problems).astype(F)
        given = {"a": a, "x": x, "s": s} | ({name: problems} if count is None else {})
        check(knl, given, {"y": s[:, None] * x + x @ a.T})


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_batch_of_any_size(order: str, golden: Golden) -> None:
    base = affine()

    def arranged(knl: pl.LoopKernel) -> pl.LoopKernel:
        return pl.add_prefetch(pl.split_iname(spread(knl, length=4), "j", 4), "x", "j_inner")

    batched = partial(pl.to_batched, nbatches="nb", batch_varying_args="x, y, s")
    knl = arranged(batched(base)) if order == "first" else batched(arranged(base))
    check_affine(knl)
    knl = pl.tag_inames(knl, "ibatch:g.1")
    check_affine(knl)
    golden(f"golden/batched_{order}.cu", cuda(knl))
    same_after_replay(base, knl)


def test_a_batch_of_a_fixed_size_one_after_the_other() -> None:
    base = affine()
    knl = pl.to_batched(base, 3, ["x", "y", "s"], batch_iname_prefix="problem", sequential=True)
    assert str(knl.iname_tags["problem"]) == "for"
    check_affine(knl, 3)
    same_after_replay(base, knl)
    assert "for problem\n" in str(knl.reference)


def test_a_barrier_stands_between_the_batches() -> None:
    text = "t[i] = 2*x[i]\n... gbarrier\ny[i] = t[n - 1 - i] {id=last}"
    temporary = pl.TemporaryVariable("t", F, shape="n", address_space="global")
    data = [pl.GlobalArg("x, y", F, shape="n"), temporary, ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="turned")
    for sequential in (False, True):
        knl = pl.to_batched(base, "nb", "x, y", sequential=sequential)
        assert "each problem has its own t" in str(knl.trace)
        variants = [knl] if sequential else [knl, spread(pl.tag_inames(knl, "ibatch:g.1"), length=4)]
        for variant in variants:
            for n, problems in ((1, 2), (5, 3)):
                x = np.arange(n * problems, dtype=F).reshape(problems, n)
                check(variant, {"x": x}, {"y": 2 * x[:, ::-1]})


def test_buffers_orders_and_rules_of_a_batch() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m", order="F"), pl.GlobalArg("c", F, shape="n"), ...]
    text = "f(p, q) := 2*a[p, q]\nc[i] = c[i] + f(i, k)"
    base = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < m}", text, data, name="sums")
    knl = pl.buffer_array(spread(pl.split_iname(base, "k", 4), length=4), "c", "k_outer, k_inner")
    knl = pl.tag_inames(pl.to_batched(knl, "nb", "a, c"), "ibatch:g.1")
    assert "a: float32[nb, n, m], strides (n*m, 1, n) (in)" in str(knl)
    for n, m, problems in ((1, 1, 1), (5, 6, 2)):
        a = np.zeros((problems, m, n), F).transpose(0, 2, 1)
        a[...] = np.arange(problems * n * m).reshape(problems, n, m)
        c = np.arange(problems * n, dtype=F).reshape(problems, n)
        check(knl, {"a": a, "c": c}, {"c": c + 2 * a.sum(2)})


def test_batches_that_cannot_be(golden: Golden) -> None:
    knl = affine()
    for arguments, code in (
        (("nb", "z"), "unknown-argument"),
        (("a", "x"), "name-taken"),
        (("n b", "x"), "bad-identifier"),
        ((-1, "x"), "bad-value"),
        (("nb", "n"), "bad-value"),
        (("nb", "x", "for"), "reserved-name"),
    ):
        refused(knl, lambda k, arguments=arguments: pl.to_batched(k, *arguments), code)  # type: ignore[misc]
    shared = pl.to_batched(knl, "nb", "x")
    text = refused(shared, lambda k: pl.tag_inames(k, "ibatch:g.0"), "write-race")
    golden("messages/to_batched_shared_result.txt", text)
    strided = pl.make_kernel("{[i]: 0 <= i < n}", "y[2*i] = 1", [pl.GlobalArg("y", F, shape="2*n", strides=(2,)), ...])
    refused(strided, lambda k: pl.to_batched(k, "nb", "y"), "bad-layout")


# }}}

# {{{ arrays behind each other


def three() -> pl.LoopKernel:
    wide = [pl.GlobalArg("b", F, shape="n, 2"), pl.GlobalArg("c", F, shape="n, 3")]
    data = [pl.GlobalArg("a, y", F, shape="n"), *wide, ...]
    text = "f(p) := 2*b[p, 1]\n<> t = a[i]*f(i)\ny[i] = t + c[i, 0]"
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="three")


def test_arguments_behind_each_other(golden: Golden) -> None:
    base = three()
    knl = pl.concatenate_arrays(spread(base, length=4), ["b", "c"], axis_nr=1)
    knl = pl.concatenate_arrays(knl, "a, y", "both")
    golden("golden/concatenated.cu", cuda(knl))
    assert [argument.name for argument in knl.arguments] == ["both", "b_c", "n"]
    for n in (1, 4, 5):
        both, b_c = np.arange(2 * n, dtype=F), np.arange(5 * n, dtype=F).reshape(n, 5)
        want = np.concatenate([both[:n], both[:n] * 2 * b_c[:, 1] + b_c[:, 2]])
        check(knl, {"both": both, "b_c": b_c}, {"both": want})
    same_after_replay(base, knl)


def test_temporaries_behind_each_other() -> None:
    text = "u[i] = a[i] + 1\nv[i] = a[i]*2\nb[i] = u[i]*v[n - 1 - i]"
    temporaries = pl.TemporaryVariable("u, v", F, shape="n", address_space="global")
    data = [pl.GlobalArg("a, b", F, shape="n"), temporaries, ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="pair")
    knl = pl.concatenate_arrays(spread(base, length=4), "u, v")
    assert {*knl.temporaries} == {"u_v"}
    assert "u_v[2*n]" in str(knl.trace)
    for n in (1, 6):
        a = np.arange(n, dtype=F)
        check(knl, {"a": a}, {"b": (a + 1) * 2 * a[::-1]})
    same_after_replay(base, knl)


def test_parts_are_proven_as_they_were_before() -> None:
    text = """
        u[0] = 1                {id=first}
        v[i] = a[i]             {id=load}
        u[j + 1] = u[j] + v[j]  {id=sums, dep=first:load}
        b[k] = u[k + 1]         {dep=sums}
        """
    temporaries = [pl.TemporaryVariable("u", F, shape="n + 1"), pl.TemporaryVariable("v", F, shape="n")]
    data = [pl.GlobalArg("a, b", F, shape="n"), *temporaries, ...]
    base = pl.make_kernel("{[i, j, k]: 0 <= i, j, k < n}", text, data, name="running")
    knl = pl.concatenate_arrays(base, "u, v")
    for n in (1, 5):
        a = np.arange(n, dtype=F)
        check(knl, {"a": a}, {"b": 1 + np.cumsum(a)}, fibres=False)
    refused(knl, lambda k: pl.reverse(k, "j"), "illegal-order")
    refused(knl, lambda k: pl.tag_inames(k, "j:l.0"), "illegal-parallel")
    check(pl.reverse(knl, "i"), {"a": a}, {"b": 1 + np.cumsum(a)}, fibres=False)


def test_arrays_that_are_no_parts(golden: Golden) -> None:
    knl = three()
    text = refused(knl, lambda k: pl.concatenate_arrays(k, "b, c"), "bad-layout")
    golden("messages/concatenate_arrays_extents.txt", text)
    for names, options, code in (
        ("a, b", {}, "bad-layout"),
        ("a", {}, "bad-value"),
        ("a, a", {}, "bad-value"),
        ("a, q", {}, "unknown-array"),
        ("a, y", {"axis_nr": 1}, "wrong-rank"),
        ("a, y", {"new_name": "b"}, "name-taken"),
        ("a, y", {"new_name": "for"}, "reserved-name"),
        ("a, t", {}, "bad-layout"),
    ):
        given: dict[str, Any] = dict(options)
        refused(knl, lambda k, names=names, given=given: pl.concatenate_arrays(k, names, **given), code)  # type: ignore[misc]
    fetched = pl.add_prefetch(spread(blur()), "a", "i_inner")
    refused(fetched, lambda k: pl.concatenate_arrays(k, "a_fetch, a"), "bad-layout")


# }}}
