"""Arrays that are passed in parts: axes tagged ``sep`` and ``vec``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from tests.generated import flat

F = np.float32


def scaled(tags: str = "N0,sep", count: int = 3, dtype: Any = F) -> pl.LoopKernel:
    data = [pl.GlobalArg("p, q", dtype, shape=f"n, {count}", dim_tags=tags), ...]
    text = f"q[i, k] = 2*p[i, {count - 1} - k]"
    knl = pl.make_kernel(f"{{[i, k]: 0 <= i < n and 0 <= k < {count}}}", text, data, name="scaled")
    return pl.tag_inames(knl, {"k": "unr"})


def run(knl: pl.LoopKernel, **arguments: Any) -> Any:
    return compile_kernel(knl, pl.CTarget())(**arguments)


def refusal(knl: pl.LoopKernel, **arguments: Any) -> str:
    with pytest.raises(pl.ArgumentError) as err:
        run(knl, **arguments)
    return str(err.value)


P = np.asfortranarray(np.random.default_rng(0).random((7, 3), dtype=F))
WANT = 2 * P[:, ::-1]


def test_an_axis_becomes_arguments() -> None:
    text = pl.generate_code(scaled()).device_code
    parts = "(const float *__restrict__ p_s0, const float *__restrict__ p_s1, const float *__restrict__ p_s2,"
    assert parts in flat(text)
    assert "q_s0[i] = 2.0f * p_s2[i];\n" in text
    assert [a.name for a in pl.generate_code(scaled()).arguments] == [
        "p_s0", "p_s1", "p_s2", "q_s0", "q_s1", "q_s2", "n",
    ]  # fmt: skip


def test_what_a_call_takes_and_returns() -> None:
    columns = [P[:, k].copy() for k in range(3)]
    knl = scaled()
    for given in ({"p": P}, {"p": columns}, {f"p_s{k}": column for k, column in enumerate(columns)}):
        result = run(knl, **given)
        assert list(result.keys()) == ["q"]
        np.testing.assert_array_equal(result.q, WANT)
    into = np.zeros_like(P)
    assert run(knl, p=P, q=into).q is into
    np.testing.assert_array_equal(into, WANT)
    parts = run(knl, p=P, **{f"q_s{k}": np.zeros(7, F) for k in range(3)})
    np.testing.assert_array_equal(parts.q_s1, WANT[:, 1])
    np.testing.assert_array_equal(pl.interpret(knl, p=P).q, WANT)
    for result in run_on_fibres(pl.generate_code(knl), {"p": P, "q_s0": np.zeros(7, F)}).values():
        np.testing.assert_array_equal(result.q_s0, WANT[:, 0])
        np.testing.assert_array_equal(result.q_s2, WANT[:, 2])
    row_major = np.ascontiguousarray(P)
    np.testing.assert_array_equal(run(scaled("stride:3,sep"), p=row_major).q, WANT)


def test_calls_that_do_not_fit() -> None:
    knl = scaled()
    assert "'p' cannot be taken apart [wrong-shape]\n  Note: its shape is (7, 2)" in refusal(knl, p=P[:, :2])
    assert "Hint: pass an array of that shape, or its parts, p_s0=, p_s1=, p_s2=" in refusal(knl, p=[P[:, 0]])
    assert "'p' and its part 'p_s1' were both passed" in refusal(knl, p=P, p_s1=P[:, 0])
    assert "'p_s0' is not stored as the kernel reads it" in refusal(knl, p=np.ascontiguousarray(P))
    assert "the array 'p_s2' was not passed" in refusal(knl, p_s0=P[:, 0], p_s1=P[:, 1])
    assert "'p' must be an array [wrong-type]" in refusal(knl, p=3)
    assert "'q_s0' is written and overlaps 'p_s0'" in refusal(knl, p=P, q=P)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize(("name", "count"), [("float", 2), ("double", 3), ("int", 4)])
def test_the_components_of_vectors(name: str, count: int, n: int) -> None:
    vector = getattr(pl.vec, f"{name}{count}")
    dtype = vector.fields["x"][0]
    knl = scaled("N0,vec", count, dtype)
    assert f"const {name}{count} *__restrict__ p" in pl.generate_code(knl).device_code
    p = np.arange(n * count).reshape(n, count).astype(dtype)
    want = 2 * p[:, ::-1]
    records = np.array([tuple(row) for row in p], vector)
    for given in (p, records):
        result = run(knl, p=given).q
        assert result.shape == (n, count)
        np.testing.assert_array_equal(result, want)
    for result in run_on_fibres(pl.generate_code(knl), {"p": p}).values():
        np.testing.assert_array_equal(result.q, want)
    into = np.zeros_like(p)
    assert run(knl, p=p, q=into).q is into
    np.testing.assert_array_equal(into, want)


def test_vectors_are_contiguous_numbers_of_their_type() -> None:
    knl = scaled("N0,vec")
    text = "the last axis of 'p' is not contiguous [wrong-strides]\n  Note: its 3 elements are the components of one "
    assert text in refusal(knl, p=P)
    assert "'p' has dtype float64, expected float32 [wrong-dtype]" in refusal(knl, p=np.zeros((3, 3)))
    assert "its shape is (7, 2)" in refusal(knl, p=np.ascontiguousarray(P[:, :2]))
    with pytest.raises(pl.CodegenError, match="there is no vector type of 2 components of type bool for 'p'"):
        pl.generate_code(pl.make_kernel(
            "{[i]: 0 <= i < n}", "q[i] = p[i, 0] and p[i, 1]",
            [pl.GlobalArg("p", np.bool_, shape="n, 2", dim_tags="N0,vec"), pl.GlobalArg("q", np.bool_, shape="n")]))


def test_a_subscript_that_is_not_constant() -> None:
    data = [pl.GlobalArg("p", F, shape="n, 3", dim_tags="N0,sep"), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < n and 0 <= k < 3}", "b[i, k] = p[i, 2 - k]", data)
    with pytest.raises(pl.CodegenError) as err:
        pl.generate_code(knl)
    assert str(err.value) == (
        "generate_code on kernel 'loop_kernel': the subscript 2 - k of 'p' along axis 1 is not a constant "
        "[subscript-not-constant]\n"
        "  Note: each index along that axis is an argument of its own\n"
        '  Hint: unroll the loops in it: pl.tag_inames(knl, {"k": "unr"})'
    )
    threads = pl.tag_inames(knl, {"k": "l.0"})
    with pytest.raises(pl.CodegenError, match="let a sequential loop with the tag unr run over it"):
        pl.generate_code(threads)
    data = [*data[:1], pl.GlobalArg("idx", np.int32, shape="n"), ...]
    by_data = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = p[i, idx[i]]", data)
    assert "p: float32[n, 3], stored as N0,sep (in)" in str(by_data)
    with pytest.raises(pl.CodegenError, match="tag axis 1 N0"):
        pl.generate_code(by_data)


def test_names_of_parts_that_are_taken() -> None:
    data = [pl.GlobalArg("p", F, shape="n, 2", dim_tags="N0,sep"), pl.GlobalArg("p_s1", F, shape="n"), ...]
    with pytest.raises(pl.KernelError, match="'p_s1' is the name of a part of 'p', and of something else"):
        pl.make_kernel("{[i]: 0 <= i < n}", "p_s1[i] = p[i, 0]", data)


def test_wide_indices() -> None:
    text = pl.generate_code(scaled(), pl.CTarget(), index_bits=64).device_code
    assert "q_s2[i] = 2.0f * p_s0[i];" in text
