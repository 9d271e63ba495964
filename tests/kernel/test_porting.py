"""Spellings that Loopy scripts use, and what they mean here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl

F = np.float32


def test_sequential_dependencies_are_a_chain() -> None:
    text = "<> t = a[i] {id=one}\nb[i] = 1 {id=two}\nc[i] = t {id=three}"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, b, c", F), ...], seq_dependencies=True)
    assert [sorted(i.depends_on) for i in knl.instructions] == [[], ["one"], ["two"]]


def test_a_chain_against_the_order_of_a_temporary_is_a_cycle() -> None:
    text = "c[i] = t {id=use}\n<> t = a[i] {id=set}"
    with pytest.raises(pl.KernelError) as refused:
        pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, c", F), ...], seq_dependencies=True)
    assert "dependency-cycle" in refused.value.codes


def test_the_target_of_a_kernel_is_the_default() -> None:
    data = [pl.GlobalArg("a", F), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", data, target=pl.CTarget())
    split = pl.split_iname(knl, "i", 8)
    assert pl.generate_code(split).target == "c"
    assert pl.generate_code(split, pl.CudaTarget()).target == "cuda"
    assert pl.compile(split)(a=np.ones(3, F))["b"].sum() == 3
    assert "target=pl.CTarget()" in pl.kernel_to_python(split)


def test_integer_scalars_in_subscripts_are_parameters() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "a[i] = b[shift + i] {if=i < cut}",
        [pl.GlobalArg("b", F, shape="m"), pl.ValueArg("shift", np.int32), pl.ValueArg("cut", np.int64), ...],
    )
    assert set(knl.parameters) == {"n", "m", "shift", "cut"}
    assert knl.instructions[0].predicates == ()
    run = pl.compile(knl, target=pl.CTarget())
    arguments: dict[str, Any] = {"b": np.arange(9, dtype=F), "shift": 2, "cut": 3, "n": 5}
    for result in (run(**arguments, a=np.zeros(5, F)), pl.interpret(knl, **arguments, a=np.zeros(5, F))):
        np.testing.assert_array_equal(result["a"], [2, 3, 4, 0, 0])
    with pytest.raises(pl.ArgumentError) as refused:
        run(**{**arguments, "shift": 5, "cut": 5}, a=np.zeros(5, F))
    assert refused.value.codes == ("out-of-bounds",)


def test_an_undeclared_scalar_in_a_subscript_is_an_integer() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i + shift]", [pl.GlobalArg("b", F), ...])
    assert "b: float32[n + shift] (in)" in str(knl)
    assert "shift: int32" in str(knl)


def test_a_strided_array_has_room_for_its_domain() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n and i mod 2 = 0}", "a[i] = 1")
    assert "a: int32[n] (out)" in str(knl)


def test_for_atomic_has_no_effect() -> None:
    data = [pl.GlobalArg("out", F, shape=(20,), for_atomic=True), pl.GlobalArg("a", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "out[i%20] = out[i%20] + 2*a[i] {atomic}", data)
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert "atomicAdd(&out[i % 20], 2.0f * a[i]);" in pl.generate_code(knl).device_code


def test_a_type_that_is_called() -> None:
    with pytest.raises(pl.KernelError) as refused:
        pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = float32(b[i])", [pl.GlobalArg("a, b", F, shape="n"), ...])
    assert "Hint: convert with cast(float32, ...)" in str(refused.value)


def test_expressions_of_other_programs() -> None:
    data = [pl.GlobalArg("x", F), pl.GlobalArg("y", np.float64), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [pl.Assignment("y[i]", p.Product((p.Variable("x")[p.Variable("i")], 2))),
                                               pl.Assignment("z[i]", p.NaN(np.float32))], data)  # fmt: skip
    result = pl.interpret(knl, x=np.ones(3, F))
    assert result["y"].tolist() == [2, 2, 2]
    assert result["z"].dtype == F
    assert np.isnan(result["z"]).all()
    with pytest.raises(pl.KernelError, match="a node of class Slice is not an expression"):
        pl.make_kernel("{[i]: 0 <= i < n}", [pl.Assignment("y[i]", p.Sum((1, p.Slice((None,)))))], data)


def test_conditions_of_c_text_may_be_expressions_and_a_name_be_bound_twice() -> None:
    condition = p.Comparison(p.Variable("i"), ">", 1)
    text = pl.CInstruction(("i", "i"), "x[i] = 7;", assignees="x[i]", predicates={condition}, within_inames=["i"])
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], [pl.GlobalArg("x", F, shape="n"), ...])
    x = np.zeros(4, F)
    pl.compile(knl, target=pl.CTarget())(x=x)
    assert x.tolist() == [0, 0, 7, 7]


def test_a_function_of_whole_arrays_and_one_that_sweeps_over_one_value() -> None:
    add = pl.make_function("{[i, j]: 0 <= i, j < 3}", "c[i, j] = a[i, j] + 2*b[i, j]", name="add")
    x = np.arange(9, dtype=F).reshape(3, 3)
    data: list[Any] = [pl.GlobalArg("x, y, z", F, shape=(3, 3))]
    knl = pl.make_kernel("{:}", "z[:, :] = add(x, y)", data, functions=[add])
    np.testing.assert_array_equal(pl.interpret(knl, x=x, y=x)["z"], 3 * x)
    twice = pl.make_function("{[k]: 0 <= k < 1}", "v[k] = 2*u[k]", name="twice")
    data = [pl.GlobalArg("x, z", F, shape=9), ...]
    knl = pl.make_kernel("{[i, k]: 0 <= i < 9 and k = 0}", "[k]: z[i + k] = twice([k]: x[i + k])", data,
                         functions=[twice])  # fmt: skip
    np.testing.assert_array_equal(pl.interpret(knl, x=x.ravel())["z"], 2 * x.ravel())
