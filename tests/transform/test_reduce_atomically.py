from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import F

Golden = Callable[[str, str], None]


def dot() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[k]: 0 <= k < n}",
        "out = sum(k, a[k]*b[k])",
        [pl.GlobalArg("a, b", F, shape="n"), ...],
        name="dot",
        assumptions="n >= 1",
    )


def by_blocks() -> pl.LoopKernel:
    knl = pl.reduce_atomically(pl.split_iname(dot(), "k", 32), "k_outer")
    knl = pl.split_iname(pl.tag_inames(knl, "k_outer:g.0"), "k_inner", 8)
    return pl.stage_reduction(knl, "k_inner_inner", default_tag="l.0", temporary_name="mine", new_inames="t")


def test_blocks_add_what_they_have(golden: Golden) -> None:
    knl = by_blocks()
    for n in (1, 8, 31, 32, 33, 100):
        a, b = vectors(n, 2)
        check(knl, {"a": a, "b": b}, {"out": np.asarray(a @ b)})
    golden("golden/dot_atomic.cu", cuda(knl))
    same_after_replay(dot(), knl)
    assert str(knl.reference) == (
        "out = 0.0    {id=insn_init}\n"
        "for k_outer\n"
        "    out = out + sum(k_inner, a[32*k_outer + k_inner]*b[32*k_outer + k_inner])    {id=insn}"
    )


def test_each_term_by_itself() -> None:
    knl = pl.reduce_atomically(dot(), "k")
    knl = pl.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (1, 8, 9):
        a, b = vectors(n, 2)
        check(knl, {"a": a, "b": b}, {"out": np.asarray(a @ b)})
    assert "atomicAdd(&out[0], a[k] * b[k]);" in cuda(knl)


@pytest.mark.parametrize(("operation", "numpy"), [("max", np.max), ("min", np.min), ("product", np.prod)])
def test_rows_and_other_operations(operation: str, numpy: Callable[..., Any]) -> None:
    base = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        f"s[i] = {operation}(k, a[i, k])\nt[i] = 2*s[i]",
        [pl.GlobalArg("a", np.int32, shape="m, n"), pl.GlobalArg("s, t", np.int32, shape="m"), ...],
        name="rows",
        assumptions="m >= 1 and n >= 1",
    )
    knl = pl.split_iname(base, "k", 4)
    knl = pl.reduce_atomically(pl.rename_iname(knl, "i", "row", within="writes:s"), "k_outer")
    knl = pl.tag_inames(knl, "row:g.1, k_outer:g.0, i:g.0")
    for m, n in ((1, 1), (3, 4), (2, 9)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(np.int32)
        want = numpy(a, axis=1).astype(np.int32)
        check(knl, {"a": a}, {"s": want, "t": 2 * want})
    same_after_replay(base, knl)


def test_the_start_has_loops_of_its_own() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        "s[i] = sum(k, a[k]*c[i])",
        [pl.GlobalArg("a, c", F, shape="n"), ...],
        name="rows",
        assumptions="n >= 1",
    )
    knl = pl.reduce_atomically(knl, "k")
    knl = pl.split_iname(knl, "k", 8, outer_tag="g.0", inner_tag="l.0")
    for n in (1, 9):
        a, c = vectors(n, 2)
        check(knl, {"a": a, "c": c}, {"s": a.sum() * c})
        check(pl.tag_inames(knl, "i:g.1"), {"a": a, "c": c}, {"s": a.sum() * c})


def test_beside_others_in_a_loop() -> None:
    """What is assigned in the loop before and read in it after stays so."""
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < 8}",
        "<> t = a[i, 0]\ns[i] = sum(k, t*a[i, k])\nb[i] = s[i] + t",
        [pl.GlobalArg("a", F, shape="m, 8"), pl.GlobalArg("s, b", F, shape="m"), ...],
        assumptions="m >= 1",
    )
    knl = pl.reduce_atomically(pl.split_iname(knl, "k", 4), "k_outer")
    a = np.random.default_rng(1).integers(-3, 4, (5, 8)).astype(F)
    s = a[:, 0] * a.sum(1)
    check(knl, {"a": a}, {"s": s, "b": s + a[:, 0]})


def _with(text: str, *more: pl.TemporaryVariable, dtype: type = np.float32) -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        text,
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("s", dtype, shape="n"), *more, ...],
        name="rows",
        assumptions="n >= 1",
    )


@pytest.mark.parametrize(
    ("text", "dtype", "problem"),
    [
        ("s[i] = 2*sum(k, a[i, k])", F, "its value is more than the reduction"),
        ("s[i] = reduce(ordered(sum), k, a[i, k])", F, "its terms are combined in their order"),
        ("s[i] = argmin(k, a[i, k], k).index", np.int32, "its value is more than the reduction"),
        ("s[i] = sum(k, a[i, k])", np.float64, "'s' is float64, and its terms are added as float32"),
        ("s[i] = sum(k, a[i, k] + s[k])", F, "its terms read 's'"),
        ("<> t = 2*a[i, k]\ns[i] = sum(k, t)", F, "its terms read what is set in the loop over them"),
    ],
)
def test_what_cannot_become_atomic_updates(text: str, dtype: type, problem: str) -> None:
    message = refused(_with(text, dtype=dtype), lambda k: pl.reduce_atomically(k, "k"), "no-atomic-reduction")
    assert f"cannot become atomic updates: {problem} [no-atomic-reduction]" in message


def test_several_instances_may_assign_one_element() -> None:
    a = np.arange(9, dtype=F).reshape(3, 3)
    knl = pl.reduce_atomically(_with("s[0] = sum(k, a[i, k])"), "k")
    assert pl.interpret(knl, a=a, s=np.zeros(3, F))["s"][0] == a[2].sum()
    refused(knl, lambda k: pl.tag_inames(k, {"i": "g.0"}), "illegal-parallel")


def test_a_refusal() -> None:
    knl = _with("s[i] = 2*sum(k, a[i, k])")
    assert refused(knl, lambda k: pl.reduce_atomically(k, "k"), "no-atomic-reduction") == (
        "reduce_atomically on kernel 'rows': 'insn' cannot become atomic updates: its value is more than the reduction "
        "[no-atomic-reduction]\n"
        "  s[i] = 2*sum(k, a[i, k])                             (line 1, instruction 'insn')\n"
        "  Hint: assign the reduction to a variable, and compute with that"
    )
    refused(knl, lambda k: pl.reduce_atomically(k, "i"), "reduction-not-split")
    refused(knl, lambda k: pl.reduce_atomically(k, "j"), "unknown-iname")


def test_after_a_prefetch_is_too_late() -> None:
    knl = pl.split_iname(_with("s[i] = sum(k, a[i, k])"), "k", 4)
    knl = pl.add_prefetch(knl, "a", "k_inner")
    message = refused(knl, lambda k: pl.reduce_atomically(k, "k_outer"), "no-atomic-reduction")
    assert "it reads 'a_fetch', which a transform made" in message


@pytest.mark.parametrize("name", ["t", "u"])
def test_after_axes_of_a_temporary_were_divided_is_too_late(name: str) -> None:
    """Seed 34100628: the program, in which the temporary has its axis, was given the new subscripts."""
    knl = _with(
        "t[i] = 2*a[i, 0]\nu[i] = sum(k, t[k]*a[i, k]) {id=r}\ns[k] = u[k]",
        *(pl.TemporaryVariable(x, F, shape="n") for x in "tu"),
    )
    knl = pl.split_array_axis(knl, name, 0, 4)
    message = refused(knl, lambda k: pl.reduce_atomically(k, "k", within="id:r"), "no-atomic-reduction")
    assert f"'r' cannot become atomic updates: a transform made '{name}', or changed its axes" in message


def test_what_a_transform_made_is_not_updated() -> None:
    knl = pl.fix_parameters(_with("s[i] = sum(k, a[i, k])"), n=8)
    knl = pl.buffer_array(knl, "s", [])
    message = refused(knl, lambda k: pl.reduce_atomically(k, "k"), "no-atomic-reduction")
    assert "a transform made 's_buf', or changed its axes" in message


@pytest.mark.nvrtc
def test_nvrtc() -> None:
    program = pl.generate_code(by_blocks(), target=pl.CudaTarget())
    for architecture in ("sm_80", "sm_90"):
        assert compile_cuda(program.device_code, architecture).cubin
