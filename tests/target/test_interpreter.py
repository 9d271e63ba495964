"""The reference interpreter against NumPy and against results worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

F4, F8, I4, I8, U1 = np.float32, np.float64, np.int32, np.int64, np.uint8


def kernel(domains: str | list[str], text: str, *data: Any, **options: Any) -> pl.LoopKernel:
    return pl.make_kernel(domains, text, [*data, ...], **options)


def row(*names: str, dtype: Any = F8, shape: str = "n") -> list[pl.GlobalArg]:
    return [pl.GlobalArg(name, dtype, shape=shape) for name in names]


def refusal(knl: pl.LoopKernel, **arguments: Any) -> pl.ArgumentError:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.interpret(knl, **arguments)
    return caught.value


# {{{ programs


def test_matmul() -> None:
    knl = kernel("{[i, j, k]: 0 <= i, j, k < n}", "c[i, j] = sum(k, a[i, k] * b[k, j])",
                 pl.GlobalArg("a, b, c", F8, shape="n, n"))  # fmt: skip
    a, b = np.random.default_rng(0).random((2, 24, 24))
    result = pl.interpret(knl, a=a, b=b)
    np.testing.assert_allclose(result.c, a @ b, rtol=1e-14)
    assert result["c"] is result.c
    assert list(result) == ["c"]


def test_a_recurrence_sees_what_the_iteration_before_wrote() -> None:
    knl = kernel("{[i]: 1 <= i < n}", "a[i] = a[i - 1] + a[i]", *row("a"))
    a = np.arange(7.0)
    assert pl.interpret(knl, a=a).a.tolist() == np.cumsum(a).tolist()


def test_passed_arrays_are_not_changed() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "a[i] = 2 * a[i]", *row("a"))
    a = np.arange(4.0)
    assert pl.interpret(knl, a=a).a.tolist() == [0, 2, 4, 6]
    assert a.tolist() == [0, 1, 2, 3]


def test_a_triangle_leaves_the_rest_alone() -> None:
    knl = kernel("{[i, j]: 0 <= i < n and 0 <= j <= i}", "a[i, j] = i + 10 * j", *row("a", shape="n, n"))
    result = pl.interpret(knl, n=4).a
    i, j = np.indices((4, 4))
    assert np.array_equal(result, np.where(j <= i, i + 10.0 * j, np.nan), equal_nan=True)


def test_statements_that_share_a_loop_alternate() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "s[0] = s[0] + x[i]\no[i] = s[0]", *row("x", "o"), *row("s", shape="1"))
    result = pl.interpret(knl, x=np.ones(4), s=np.zeros(1))
    assert result.o.tolist() == [1, 2, 3, 4]


def test_written_for_blocks_are_two_loops() -> None:
    text = "for i\n    s[0] = s[0] + x[i]\nend\nfor i\n    o[i] = s[0]\nend"
    knl = kernel("{[i]: 0 <= i < n}", text, *row("x", "o"), *row("s", shape="1"))
    result = pl.interpret(knl, x=np.ones(4), s=np.zeros(1))
    assert result.o.tolist() == [4, 4, 4, 4]


def test_a_loop_that_reads_elements_not_written_yet_is_opened_again() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "y[i] = 2 * a[i]\nx[i] = y[n - 1 - i]", *row("a", "y", "x"))
    assert pl.interpret(knl, a=np.arange(4.0)).x.tolist() == [6, 4, 2, 0]


def test_a_loop_runs_over_the_union_of_what_is_inside() -> None:
    text = "for i\n    a[i] = 1 {if=i < 2}\n    b[i] = a[i] {if=i >= 1}\nend"
    knl = kernel("{[i]: 0 <= i < n}", text, *row("a", "b"))
    result = pl.interpret(knl, a=np.zeros(4), b=np.zeros(4))
    assert result.a.tolist() == [1, 1, 0, 0]
    assert result.b.tolist() == [0, 1, 0, 0]


def test_temporaries_scalar_and_array() -> None:
    text = "<> s = x[i] + 1\nt[i] = s * s\no[i] = t[i] - s"
    temporary = pl.TemporaryVariable("t", np.dtype(F4), shape=None)
    knl = kernel("{[i]: 0 <= i < n}", text, *row("x", "o", dtype=F4), temporary)
    assert pl.interpret(knl, x=np.arange(3, dtype=F4)).o.tolist() == [0, 2, 6]


def test_substitution_rules_are_expanded() -> None:
    text = "f(p) := x[p] + 1\ng(p, q) := f(p) * q\no[i] = g(i, 3) + f(n - 1 - i)"
    knl = kernel("{[i]: 0 <= i < n}", text, *row("x", "o"))
    x = np.arange(5.0)
    assert pl.interpret(knl, x=x).o.tolist() == ((x + 1) * 3 + (x + 1)[::-1]).tolist()


def test_non_affine_gather() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = x[idx[i]]", *row("x", shape="m"), *row("o"), *row("idx", dtype=I4))
    assert pl.interpret(knl, x=np.arange(10.0), idx=np.array([9, 0, 3], I4)).o.tolist() == [9, 0, 3]


@pytest.mark.parametrize("index", [-1, 10])
def test_a_gather_outside_of_the_array_is_refused_with_its_instance(index: int) -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = x[idx[i]]", *row("x", shape="m"), *row("o"), *row("idx", dtype=I4))
    error = refusal(knl, x=np.arange(10.0), idx=np.array([9, index, 3], I4))
    assert error.codes == ("out-of-bounds",)
    assert f"x[{index}] does not exist" in str(error)
    assert "at i = 1" in str(error)


def test_data_dependent_predicates() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = 1 / x[i] {if=x[i] > 0}", *row("x", "o"))
    assert pl.interpret(knl, x=np.array([2.0, 0.0, -1.0, 4.0]), o=np.zeros(4)).o.tolist() == [0.5, 0, 0, 0.25]


def test_only_the_branch_taken_is_evaluated() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = if(idx[i] >= 0, x[idx[i]], 7)", *row("x", "o"), *row("idx", dtype=I4))
    assert pl.interpret(knl, x=np.array([5.0, 6.0]), idx=np.array([-1, 1], I4)).o.tolist() == [7, 6]


def test_a_reduction_is_compared_with_a_number() -> None:
    arrays = [*row("x", shape="3", dtype=I4), *row("o", dtype=I4)]
    knl = kernel("{[i, k]: 0 <= i < n and 0 <= k < 3}", "o[i] = if(max(k, x[k]) > i, 1, 0)", *arrays)
    assert pl.interpret(knl, x=np.array([2, -1, 0], I4), n=4).o.tolist() == [1, 1, 0, 0]


def test_a_condition_on_parameters_only() -> None:
    knl = kernel("[n] -> {[i]: 0 <= i < 3}", "o[0] = n {if=n > 4}", *row("o", shape="1"))
    assert pl.interpret(knl, n=4, o=np.zeros(1)).o.tolist() == [0]
    assert pl.interpret(knl, n=5, o=np.zeros(1)).o.tolist() == [5]


def test_transforms_change_nothing() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = x[i] + 1", *row("x", "o"))
    x = np.arange(9.0)
    moved = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert pl.interpret(moved, x=x).o.tolist() == pl.interpret(knl, x=x).o.tolist()


# }}}
# {{{ reductions


@pytest.mark.parametrize(
    ("operation", "dtype", "neutral"),
    [("sum", F4, 0), ("product", I4, 1), ("max", F8, -np.inf), ("min", F4, np.inf), ("max", I4, -(2**31)),
     ("min", I8, 2**63 - 1), ("max", U1, 0), ("min", U1, 255)],
)  # fmt: skip
def test_a_reduction_over_nothing_is_neutral(operation: str, dtype: Any, neutral: float) -> None:
    knl = kernel(["{[i]: 0 <= i < n}", "[i] -> {[k]: 0 <= k < i}"], f"o[i] = {operation}(k, x[k])",
                 *row("x", "o", dtype=dtype))  # fmt: skip
    x = np.arange(2, 5).astype(dtype)
    result = pl.interpret(knl, x=x).o
    functions: dict[str, Any] = {"sum": np.sum, "product": np.prod, "max": np.max, "min": np.min}
    assert result.tolist() == [neutral, *(functions[operation](x[:i]) for i in (1, 2))]


def test_any_and_all() -> None:
    knl = kernel(["{[i]: 0 <= i < n}", "[i] -> {[k]: 0 <= k < i}"], "o[i] = any(k, x[k] > 1)\np[i] = all(k, x[k] > 1)",
                 *row("x"), *row("o", "p", dtype=np.bool_))  # fmt: skip
    result = pl.interpret(knl, x=np.array([0.0, 2.0, 3.0]))
    assert result.o.tolist() == [False, False, True]
    assert result.p.tolist() == [True, False, False]


def test_a_sum_of_truth_values_counts() -> None:
    domain = "{[i, k]: 0 <= i < 1 and 0 <= k < n}"
    knl = kernel(domain, "o[i] = sum(k, x[k] > 1)", *row("x"), pl.GlobalArg("o", shape="1"))
    result = pl.interpret(knl, x=np.arange(5.0)).o
    assert result.dtype == I4
    assert result.tolist() == [3]


def test_nested_reductions_and_two_in_one_expression() -> None:
    knl = kernel(["{[i]: 0 <= i < n}", "[i] -> {[k]: 0 <= k <= i}", "[k] -> {[l]: 0 <= l < k}", "{[m]: 0 <= m < 3}"],
                 "o[i] = sum(k, x[k] * sum(l, x[l])) + max(m, x[m])", *row("x", "o"), assumptions="n >= 3")  # fmt: skip
    x = np.array([3.0, 1.0, 4.0, 1.0])
    expected = [sum(x[k] * x[:k].sum() for k in range(i + 1)) + 4 for i in range(4)]
    assert pl.interpret(knl, x=x).o.tolist() == expected


# }}}
# {{{ arithmetic


def value_of(expression: str, dtype: Any = None, **arguments: Any) -> Any:
    """Return the value of *expression* in the one-element arrays *arguments*, in the type that is inferred."""
    arrays = [pl.GlobalArg(name, np.asarray(value).dtype, shape="1") for name, value in arguments.items()]
    knl = kernel("{[i]: 0 <= i < 1}", f"o[i] = {expression}", *arrays, pl.GlobalArg("o", dtype, shape="1"))
    return pl.interpret(knl, **{name: np.array([value]) for name, value in arguments.items()}).o[0]


@pytest.mark.parametrize("left", [-7, -1, 0, 5, 7])
@pytest.mark.parametrize("right", [-3, 2])
def test_integer_division_rounds_downward(left: int, right: int) -> None:
    assert value_of("a[i] // b[i]", a=I4(left), b=I4(right)) == left // right
    assert value_of("a[i] % b[i]", a=I4(left), b=I4(right)) == left % right


def test_an_integer_divided_by_zero_is_refused() -> None:
    with pytest.raises(pl.ArgumentError, match="division-by-zero"):
        value_of("a[i] // b[i]", a=I4(1), b=I4(0))


@pytest.mark.parametrize(
    ("expression", "arguments", "expected"),
    [
        ("0.1 * a[i]", {"a": F4(3)}, F4(0.1) * F4(3)),
        ("a[i] / 2", {"a": I4(3)}, F8(1.5)),
        ("a[i] * b[i]", {"a": I4(3), "b": F4(0.5)}, F4(1.5)),
        ("a[i] + 1", {"a": U1(255)}, U1(0)),
        ("a[i] + b[i]", {"a": np.bool_(True), "b": np.bool_(True)}, I4(2)),
        ("a[i] < b[i]", {"a": F4(1), "b": I4(2)}, np.bool_(True)),
        ("1 / 2", {"a": F4(1)}, F8(0.5)),
        ("a[i] ** 3", {"a": F4(2)}, F4(8)),
        ("cast(int32, a[i])", {"a": F4(-2.7)}, I4(-2)),
        ("if(a[i] > 1, a[i], 0)", {"a": F4(0.5)}, F4(0)),
        ("max(a[i], 3)", {"a": I4(2)}, I4(3)),
        ("sqrt(a[i])", {"a": I4(9)}, F8(3)),
        ("abs(a[i])", {"a": I4(-9)}, I4(9)),
        ("fma(a[i], a[i], -1.0)", {"a": F8(1 + 2.0**-52)}, F8(2.0**-51 + 2.0**-104)),
        ("a[i] & 6", {"a": I4(5)}, I4(4)),
        ("a[i] << 2", {"a": I4(5)}, I4(20)),
    ],
)
def test_types_follow_numpy_with_weak_constants(expression: str, arguments: dict[str, Any], expected: Any) -> None:
    found = value_of(expression, **arguments)
    assert found == expected
    assert found.dtype == expected.dtype


def test_storing_into_integers_truncates() -> None:
    assert value_of("a[i] * 1.5", I4, a=F4(-3)) == -4


def test_inames_are_int32_values() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = i * n + 0.5 * i", pl.GlobalArg("o", shape="n"))
    result = pl.interpret(knl, n=3).o
    assert result.dtype == F8
    assert result.tolist() == [0, 3.5, 7]


def test_value_arguments() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = alpha * x[i]", *row("x", "o"), pl.ValueArg("alpha", np.dtype(F8)))
    assert pl.interpret(knl, x=np.arange(3.0), alpha=2).o.tolist() == [0, 2, 4]


# }}}
# {{{ refusals


def simple() -> pl.LoopKernel:
    alpha = pl.ValueArg("alpha", np.dtype(F4))
    text = "o[i] = alpha * x[i]"
    return kernel("{[i]: 0 <= i < n}", text, *row("x", "o", dtype=F4), alpha, assumptions="n >= 2")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"alpha": 1.0}, "missing-argument", "'x' was not passed"),
        ({"x": np.ones(3, F4)}, "missing-argument", "'alpha' was not passed"),
        ({"x": np.ones(3, F4), "alpha": 1.0, "z": 1}, "unknown-argument", "no argument 'z'"),
        ({"x": np.ones(3), "alpha": 1.0}, "wrong-dtype", "'x' has dtype float64, expected float32"),
        ({"x": np.ones((3, 1), F4), "alpha": 1.0}, "wrong-shape", "'x' has 2 axes, and the kernel has 1"),
        ({"x": np.ones(3, F4), "o": np.ones(4, F4), "alpha": 1.0}, "wrong-shape", "the kernel wants"),
        ({"x": [1.0, 2.0], "alpha": 1.0}, "wrong-type", "'x' must be an array"),
        ({"x": np.ones(3, F4), "alpha": "1"}, "wrong-type", "'alpha' must be float32"),
        ({"x": np.ones(1, F4), "alpha": 1.0}, "assumption-violated", "it is false for n = 1"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], code: str, text: str) -> None:
    error = refusal(simple(), **arguments)
    assert error.codes == (code,)
    assert text in str(error)


def test_a_size_that_no_array_determines() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = i", *row("o"))
    assert refusal(knl).codes == ("missing-argument",)


def test_sizes_are_solved_from_affine_extents() -> None:
    knl = kernel("{[i]: 0 <= i < n}", "o[i] = x[2 * i]", *row("o"), *row("x", shape="2*n + 1"))
    assert pl.interpret(knl, x=np.arange(7.0)).o.tolist() == [0, 2, 4]
    assert refusal(knl, x=np.arange(8.0)).codes == ("inconsistent-size",)


def test_no_such_output() -> None:
    result = pl.interpret(kernel("{[i]: 0 <= i < n}", "o[i] = i", *row("o")), n=1)
    with pytest.raises(AttributeError, match="no output 'c'; outputs: o"):
        _ = result.c


# }}}
