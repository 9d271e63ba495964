"""``assume``, ``fix_parameters``, ``add_dtypes`` and ``set_temporary_address_space``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay, vectors
from tests.transform.kernels import (
    F,
    check_normalise,
    check_rule,
    check_transposed,
    matmul,
    normalise,
    rule,
    spread,
    transposed,
)

Golden = Callable[[str, str], None]
Case = tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]


def untyped() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", "c[i] = a[i] + b[i]", name="untyped")


def test_divisible_sizes_need_no_guard(golden: Golden) -> None:
    base = rule()
    knl = pl.assume(spread(base), "n mod 16 = 2")
    assert "if" not in cuda(knl)
    golden("golden/assume.cu", cuda(knl))
    check_rule(knl, (18, 34))
    same_after_replay(base, knl)
    assert str(knl.trace).splitlines()[-1] == "knl = pl.assume(knl, assumptions='n mod 16 = 2')"
    assert cuda(spread(base).assume("n mod 16 = 2")) == cuda(knl)


def test_an_assumption_is_checked_at_the_call(golden: Golden) -> None:
    run = pl.compile(pl.assume(spread(rule()), "n mod 16 = 2"), target=pl.CTarget())
    with pytest.raises(pl.ArgumentError) as caught:
        run(a=np.zeros(17, F))
    assert caught.value.codes == ("assumption-violated",)
    golden("messages/call_assumption_violated.txt", str(caught.value))


def test_nothing_to_assume_is_fine() -> None:
    check_rule(pl.assume(rule(), ""), (3, 18))


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [20, np.int32(20), np.int64(20)])
def test_a_parameter_becomes_a_number(n: Any, golden: Golden) -> None:
    base = rule()
    knl = pl.fix_parameters(spread(base), n=n)
    assert [argument.name for argument in knl.arguments] == ["a", "out"]
    assert knl.parameters == ()
    (a,) = vectors(20, 1)
    f = 2 * a + 1
    for fixed in (
        knl,
        pl.fix_parameters(base, n=n),
        pl.fix_parameters(pl.precompute(spread(base), "f", "i_inner"), n=n),
        pl.precompute(pl.fix_parameters(base, n=n), "f", "i"),
    ):
        check(fixed, {"a": a}, {"out": f[:-2] + f[2:]})
    golden("golden/fix_parameters.cu", cuda(knl))
    same_after_replay(base, knl)
    assert str(knl.trace).splitlines()[-1] == "knl = pl.fix_parameters(knl, n=20)"
    assert cuda(spread(base).fix_parameters(n=20)) == cuda(knl)


def test_one_of_two_parameters() -> None:
    knl = pl.fix_parameters(normalise(), n=17)
    for m in (1, 5):
        a = np.random.default_rng(m).integers(-3, 4, (m, 17)).astype(F)
        check(knl, {"a": a}, {"b": a - a.sum(1)[:, None]})


@pytest.mark.parametrize("dtypes", [{"a, b": F}, {"a": "float32", "b": np.dtype(F)}])
def test_stated_types_fix_the_others(dtypes: dict[str, object]) -> None:
    base = untyped()
    knl = pl.add_dtypes(base, dtypes)
    assert [argument.dtype for argument in knl.arguments if argument.name == "c"] == [F]
    for n in (1, 17):
        a, b = vectors(n, 2)
        check(knl, {"a": a, "b": b}, {"c": a + b})
    same_after_replay(base, knl)
    assert str(knl.trace) == "knl = pl.add_dtypes(knl, dtypes={'a': 'float32', 'b': 'float32'})"
    assert cuda(base.add_dtypes(dtypes)) == cuda(knl)


def test_double_precision_comes_through() -> None:
    knl = pl.add_dtypes(untyped(), {"a": F, "b": np.float64})
    a, b = vectors(9, 2)
    check(knl, {"a": a, "b": b.astype(np.float64)}, {"c": a + b.astype(np.float64)})


def test_a_tile_in_shared_memory(golden: Golden) -> None:
    base = transposed()
    check_transposed(base)
    knl = pl.set_temporary_address_space(base, "t", "local")
    check_transposed(knl)
    assert cuda(knl).count("__syncthreads") == 1
    golden("golden/transposed.cu", cuda(knl))
    assert cuda(base.set_temporary_address_space("t", pl.AddressSpace.LOCAL)) == cuda(knl)
    assert pl.trace_from_json(knl.trace.to_json()).to_json() == knl.trace.to_json()
    assert str(knl.trace).splitlines()[-1] == (
        "knl = pl.set_temporary_address_space(knl, temp_var_names=['t'], address_space='local')"
    )


def test_a_scalar_for_the_whole_block() -> None:
    knl = pl.split_iname(pl.tag_inames(normalise(), "i:g.0"), "j", 8, inner_tag="l.0")
    knl = pl.set_temporary_address_space(knl, ["s"], "local")
    assert "__shared__ float s" in cuda(knl)
    check_normalise(knl)


@pytest.mark.parametrize("space", ["private", "global"])
def test_a_space_that_does_not_reach_the_reader_is_refused(space: str, golden: Golden) -> None:
    knl = pl.set_temporary_address_space(transposed(), "t", space)
    before = str(knl.trace)
    with pytest.raises(pl.VerificationError) as caught:
        pl.generate_code(knl)
    assert set(caught.value.codes) == {"illegal-order"}
    assert str(knl.trace) == before
    golden(f"messages/schedule_{space}_tile.txt", str(caught.value))


REFUSALS: dict[str, Case] = {
    "assume_unknown": (rule, lambda knl: pl.assume(knl, "m >= 1"), "unknown-parameter"),
    "assume_iname": (rule, lambda knl: pl.assume(knl, "i >= 1"), "unknown-parameter"),
    "assume_syntax": (rule, lambda knl: pl.assume(knl, "n >== 1"), "syntax-domain"),
    "assume_contradiction": (rule, lambda knl: pl.assume(knl, "n < 0"), "contradiction"),
    "fix_parameters_unknown": (rule, lambda knl: pl.fix_parameters(knl, m=2), "unknown-parameter"),
    "fix_parameters_fraction": (rule, lambda knl: pl.fix_parameters(knl, n=2.5), "bad-value"),  # type: ignore[arg-type]
    "fix_parameters_contradiction": (rule, lambda knl: pl.fix_parameters(knl, n=2), "contradiction"),
    "fix_parameters_again": (
        lambda: pl.fix_parameters(rule(), n=20), lambda knl: pl.fix_parameters(knl, n=20), "unknown-parameter"),
    "add_dtypes_unknown": (matmul, lambda knl: pl.add_dtypes(knl, {"aa": F}), "unknown-variable"),
    "add_dtypes_no_type": (untyped, lambda knl: pl.add_dtypes(knl, {"a": "floaty"}), "unknown-dtype"),
    "add_dtypes_number": (untyped, lambda knl: pl.add_dtypes(knl, {"a": 3}), "unknown-dtype"),
    "add_dtypes_conflict": (matmul, lambda knl: pl.add_dtypes(knl, {"a": np.float64}), "type-conflict"),
    "set_temporary_address_space_unknown": (
        transposed, lambda knl: pl.set_temporary_address_space(knl, "tt", "local"), "unknown-temporary"),
    "set_temporary_address_space_no_space": (
        transposed, lambda knl: pl.set_temporary_address_space(knl, "t", "shared"), "bad-address-space"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/{case}.txt", refused(make(), call, code))


def test_code_needs_types(golden: Golden) -> None:
    golden("messages/generate_code_unknown_dtype.txt",
           refused(untyped(), pl.generate_code, "unknown-dtype", pl.VerificationError))  # fmt: skip


def test_a_buffer_is_fixed_with_its_kernel() -> None:
    knl = pl.make_kernel(
        ["{[q]: 0 <= q < m}", "[n] -> {[h]: n <= h <= n + 2}"], "for q\nfor h\nw[h] = a[h, q]\nend\nend",
        [pl.GlobalArg("a", np.uint32, shape="n + 3, m"), pl.GlobalArg("w", np.uint32, shape="n + 3"), ...],
        assumptions="n >= 0 and m >= 0",
    )  # fmt: skip
    knl = pl.split_iname(pl.fix_parameters(pl.buffer_array(knl, "w", ["h"]), n=3), "q", 4)
    a = np.arange(12, dtype=np.uint32).reshape(6, 2)
    assert pl.compile(knl, target=pl.CTarget())(a=a, w=np.zeros(6, np.uint32)).w.tolist() == [0, 0, 0, 7, 9, 11]


def test_a_size_with_which_the_program_leaves_an_array_is_refused_behind_values_ahead() -> None:
    """A value that was computed ahead is data to the transformed program, and no data to the reference program."""
    knl = pl.make_kernel(
        "[n] -> {[i]: 0 <= i < 9}", "row(k) := k + 5\na[i] = b[row(i)]",
        [pl.GlobalArg("a", np.float32, shape="9"), pl.GlobalArg("b", np.float32, shape="2*n + 8"), ...],
    )  # fmt: skip
    staged = pl.precompute(pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0"), "row", "i_inner")
    for kernel in (knl, staged):
        with pytest.raises(pl.TransformError) as error:
            pl.fix_parameters(kernel, n=2)
        assert error.value.codes == ("out-of-bounds",)
        assert "b[12]" in str(error.value)
    assert pl.verify(pl.fix_parameters(staged, n=3)).is_proven
