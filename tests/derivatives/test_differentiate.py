"""``differentiate``: adjoints are gathered where relations can be inverted, and agree with finite differences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.derivatives.checked import D, Run, check, compiled, inputs, interpreted
from tests.transform.checking import check as on_all_targets

BOTH = pytest.mark.parametrize("run", [interpreted, compiled])


def text(knl: pl.LoopKernel) -> str:
    return str(knl.reference)


def product() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < l}", "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a", D, shape="m, l"), pl.GlobalArg("b", D, shape="l, n"), pl.GlobalArg("c", D), ...],
        name="product")  # fmt: skip


@BOTH
def test_the_adjoint_of_a_product_is_two_products(run: Run) -> None:
    knl = product()
    _, adjoint = check(knl, ["a", "b"], ["c"], inputs(knl, {"m": 3, "n": 4, "l": 5}), run)
    assert text(adjoint) == """\
for i
    for k
        grad_a[i, k] = sum(j_sum, grad_c[i, j_sum]*b[k, j_sum])    {id=grad_a}
for k_0
    for j
        grad_b[k_0, j] = sum(i_sum, grad_c[i_sum, j]*a[i_sum, k_0])    {id=grad_b}"""


def test_the_tangent_stands_in_front_of_each_statement() -> None:
    tangent = pl.differentiate(product(), "a", mode="forward")
    assert text(tangent) == """\
for i
    for j
        c_dot[i, j] = sum(k, a_dot[i, k]*b[k, j])    {id=insn_dot}
        c[i, j] = sum(k, a[i, k]*b[k, j])    {id=insn}"""
    assert tangent.name == "product_tangent"


@BOTH
def test_the_adjoint_of_a_stencil_is_a_stencil(run: Run) -> None:
    knl = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}", "y[i] = w*x[i - 1] - 2*x[i] + x[i + 1]",
        [pl.GlobalArg("x, y", D, shape="n"), pl.ValueArg("w", D), ...])
    _, adjoint = check(knl, ["x", "w"], ["y"], inputs(knl, {"n": 6}) | {"y": np.zeros(6)}, run)
    assert text(adjoint) == """\
for i
    grad_x[i] = if(n >= i + 3, grad_y[i + 1]*w, 0) + if(i >= 1 and n >= i + 2, -2*grad_y[i], 0) + \
if(i >= 2, grad_y[i - 1], 0)    {id=grad_x}
grad_w = sum(i_sum, grad_y[i_sum]*x[i_sum - 1])    {id=grad_w}"""


def test_a_convolution_is_gathered_over_the_taps() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 3}", "y[i] = sum(k, w[k]*x[2*i + k])",
        [pl.GlobalArg("x", D, shape="2*n + 2"), pl.GlobalArg("y", D, shape="n"), pl.GlobalArg("w", D, shape="3"), ...])
    _, adjoint = check(knl, ["x", "w"], ["y"], inputs(knl, {"n": 5}))
    assert "grad_x[x_0] = sum(k_sum, grad_y[(x_0 - k_sum) // 2]*w[k_sum])" in text(adjoint)


@BOTH
def test_elements_that_data_selects_get_atomic_updates(run: Run) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = x[idx[i]]**2 + x[i]",
        [pl.GlobalArg("x", D, shape="m"), pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("y", D, shape="n"),
         ...], assumptions="m >= n")
    arguments = inputs(knl, {"n": 5, "m": 7}) | {"idx": np.array([3, 0, 3, 6, 3], np.int32)}
    _, adjoint = check(knl, ["x"], ["y"], arguments, run)
    update = adjoint.instruction("grad_x_part")
    assert update.atomic
    assert str(update) == "grad_x[idx[i]] = grad_x[idx[i]] + 2*grad_y[i]*x[idx[i]]"
    assert str(adjoint.instruction("grad_x")) == "grad_x[i] = if(n >= i + 1, grad_y[i], 0)"
    on_blocks = pl.split_iname(adjoint, "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert "atomicAdd" in pl.generate_code(on_blocks, target=pl.CudaTarget()).device_code


@BOTH
@pytest.mark.parametrize("option", ["", ", atomic"])
def test_updates_of_elements_that_data_selects_are_read_back(run: Run, option: str) -> None:
    knl = pl.make_kernel(
        "{[i, b]: 0 <= i < n and 0 <= b < m}", f"""
        h[b] = z[b]**2                                                  {{id=init}}
        if x[i] > 0
            h[idx[i]] = h[idx[i]] + x[i]*x[i]*sum(b, z[b]) + w[i]       {{id=add, dep=init{option}}}
        end
        """,
        [pl.GlobalArg("h, z", D, shape="m"), pl.GlobalArg("x, w", D, shape="n"),
         pl.GlobalArg("idx", np.int32, shape="n"), ...])  # fmt: skip
    arguments = inputs(knl, {"n": 6, "m": 4}) | {"idx": np.array([0, 3, 3, 1, 3, 0], np.int32), "h": np.zeros(4)}
    tangent, adjoint = check(knl, ["z", "x", "w"], ["h"], arguments, run)
    assert tangent.instruction("add_dot").atomic is bool(option)
    assert not any(instruction.atomic for instruction in adjoint.instructions)
    assert "grad_w[i_0] = if(x[i_0] > 0, grad_h[idx[i_0]], 0)" in text(adjoint)


@BOTH
def test_a_loop_that_hands_values_on_runs_the_other_way(run: Run) -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < T and 0 <= i < n}", """
        s[i] = x[i]
        for t
            for i
                s[i] = s[i]*w[t] + sin(s[i])
            end
        end
        y[i] = s[i]
        """,
        [pl.GlobalArg("x, y", D, shape="n"), pl.GlobalArg("w", D, shape="T"), pl.TemporaryVariable("s", D, shape="n"),
         ...], seq_dependencies=True)  # fmt: skip
    arguments = inputs(knl, {"n": 3, "T": 4})
    _, adjoint = check(knl, ["x", "w"], ["y"], arguments, run)
    assert "for t_back" in text(adjoint)
    assert "s_bar[T - t_back - 1, i]" in text(adjoint)
    assert run(adjoint, {**inputs(knl, {"n": 3, "T": 0}), "grad_y": np.ones(3)})["grad_x"].tolist() == [1.0] * 3


@pytest.mark.parametrize("options", [{}, {"store": "recompute"}, {"saved": ["u"]}])
def test_an_array_that_is_read_and_written(options: dict[str, Any]) -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < T and 1 <= i < n - 1}",
        "u[t + 1, i] = u[t, i] + c*(u[t, i - 1] - 2*u[t, i] + u[t, i + 1])**2",
        [pl.GlobalArg("u", D, shape="T + 1, n"), pl.ValueArg("c", D), ...])
    _, adjoint = check(knl, ["u", "c"], ["u"], inputs(knl, {"n": 6, "T": 3}) | {"c": 0.1}, **options)
    assert ("u_value" in text(adjoint)) is ("saved" not in options)


def test_an_update_in_place_has_one_gradient_array() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "u[i] = u[i]*u[i]*v[n - 1 - i]", [pl.GlobalArg("u, v", D, shape="n"), ...])
    _, adjoint = check(knl, ["u", "v"], ["u"], inputs(knl, {"n": 5}))
    argument = adjoint.argument("grad_u")
    assert argument is not None
    assert argument.shown() == "grad_u: float64[n] (in and out)"


@BOTH
def test_conditions_on_data_and_variables_that_are_assigned_again(run: Run) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", """
        <> a = x[i]                       {id=a}
        if x[i] > 0
            a = a*x[i]                    {id=b, dep=a}
            z[i] = sin(a)*erf(a)          {id=c, dep=b}
        else
            z[i] = tanh(a) + a**3         {id=d, dep=b}
        end
        z[i] = z[i]*z[i] + max(x[i], a)   {id=e, dep=c:d}
        y[i] = z[i]/(1 + z[i]**2)         {dep=e}
        """, [pl.GlobalArg("x, y, z", D, shape="n"), ...])
    check(knl, ["x"], ["y", "z"], inputs(knl, {"n": 7}) | {"z": np.zeros(7)}, run)


@BOTH
@pytest.mark.parametrize("value", [
    "sum(j, a[i, j]*sum(k, a[i, k]))", "product(j, a[i, j])", "product(j, 2*a[i, j] + 1)", "max(j, a[i, j])",
    "min(j, a[i, j]**3)", "sqrt(1 + sum(j, a[i, j]**2))", "sum(j, a[i, j]) if a[i, 0] > 0 else product(k, a[i, k])",
    "reduce(ordered(sum), j, exp(a[i, j]))", "sum(j, max(k, a[i, k]*a[i, j]))",
])  # fmt: skip
def test_reductions(value: str, run: Run) -> None:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j, k < n}", f"y[i] = {value}",
        [pl.GlobalArg("a", D, shape="m, n"), pl.GlobalArg("y", D, shape="m"), ...], assumptions="n >= 1",
        silenced_warnings="unused-iname")
    check(knl, ["a"], ["y"], inputs(knl, {"m": 3, "n": 4}), run)


def test_a_product_with_factors_that_are_zero() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[i] = product(j, a[i, j])",
        [pl.GlobalArg("a", D, shape="m, n"), pl.GlobalArg("y", D, shape="m"), ...])
    a = np.array([[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0]])
    found = pl.interpret(pl.differentiate(knl), a=a, grad_y=np.ones(3))["grad_a"]
    assert found.tolist() == [[12, 8, 6], [12, 0, 0], [0, 0, 0]]
    dots = pl.interpret(pl.differentiate(knl, mode="forward"), a=a, a_dot=np.ones((3, 3)))["y_dot"]
    assert dots.tolist() == [26, 12, 0]


def test_equal_terms_of_a_maximum_share_evenly() -> None:
    knl = pl.make_kernel(
        "{[j]: 0 <= j < n}", "y[0] = max(j, a[j]) + max(a[0], a[1]) + abs(a[2])",
        [pl.GlobalArg("a", D, shape="n"), pl.GlobalArg("y", D, shape="1"), ...], assumptions="n >= 3")
    found = pl.interpret(pl.differentiate(knl), a=np.array([1.0, 1.0, 0.0, 1.0]), grad_y=np.ones(1))["grad_a"]
    np.testing.assert_allclose(found, [1 / 3 + 0.5, 1 / 3 + 0.5, 0, 1 / 3])


FUNCTIONS = [
    "sqrt(p)", "rsqrt(p)", "cbrt(p)", "exp(x)", "exp2(x)", "exp10(x)", "expm1(x)", "log(p)", "log2(p)", "log10(p)",
    "log1p(p)", "sin(x)", "cos(x)", "tan(x)", "asin(x/2)", "acos(x/2)", "atan(x)", "sinh(x)", "cosh(x)", "tanh(x)",
    "asinh(x)", "acosh(p + 1)", "atanh(x/2)", "sinpi(x)", "cospi(x)", "erf(x)", "erfc(x)", "abs(x)", "fabs(x)",
    "pow(p, x)", "p**x", "x**3", "x**-2", "x**0.5 if x > 0 else x", "x**1", "atan2(x, p)", "hypot(x, p)", "fmin(x, p)",
    "fmax(x, p)", "min(x, p, 2*x)", "max(x, 0.25, p)", "fmod(x, p/4)", "x % p", "fdim(x, p)", "copysign(x, -p)",
    "fma(x, p, x)", "ldexp(x, 3)", "floor(3*x) + x", "x/p", "p/(x*x)", "cast(float64, x)*2", "sign(x)*x",
    "-x + (x > p)*x", "x*x*x", "(x if p > 1 else -x) - 3",
]  # fmt: skip


@pytest.mark.parametrize("value", FUNCTIONS)
def test_functions(value: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        knl = pl.make_kernel("{[i]: 0 <= i < n}", ["<> x = 0.9*u[i]", "<> p = abs(v[i]) + 0.1", f"y[i] = {value}"],
                             [pl.GlobalArg("u, v, y", D, shape="n"), ...], silenced_warnings="*")
        check(knl, ["u", "v"], ["y"], inputs(knl, {"n": 9}))


def test_rules_strides_and_triangles() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}"], """
        f(k) := x[2*k + 1]*x[k]
        y[i, j] = f(i)*f(j) + x[i - j]
        """, [pl.GlobalArg("x", D, shape="2*n"), pl.GlobalArg("y", D, shape="n, n"), ...])
    check(knl, ["x"], ["y"], inputs(knl, {"n": 5}) | {"y": np.zeros((5, 5))})


@pytest.mark.parametrize(("low", "extents"), [("-2", "5, n"), ("far", "5, n")])
def test_stored_values_begin_where_their_loop_begins(low: str, extents: str) -> None:
    knl = pl.make_kernel(
        f"{{[i, j]: {low} <= i < {low} + 5 and 0 <= j < n}}",
        [f"<> t = exp(x[i - {low}, j])", f"y[i - {low}, j] = t*t"],
        [pl.GlobalArg("x, y", D, shape=extents), ...])
    _, adjoint = check(knl, ["x"], ["y"], inputs(knl, {"n": 3, "far": 10**9} if low == "far" else {"n": 3}))
    assert adjoint.temporaries["t"].shown().startswith("t: float64[5, n]")


def test_an_output_that_does_not_depend_has_a_gradient_of_zeros() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = floor(x[i]) + 2*v[i]", [pl.GlobalArg("x, v, y", D, shape="n"), ...])
    found = pl.interpret(pl.differentiate(knl), grad_y=np.ones(3))
    assert (found["grad_x"].tolist(), found["grad_v"].tolist()) == ([0.0] * 3, [2.0] * 3)


def test_the_result_is_transformed_and_proven_like_any_kernel() -> None:
    adjoint = pl.differentiate(product(), name="backward")
    knl = pl.split_iname(adjoint, "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "proven" in str(pl.verify(knl))
    with pytest.raises(pl.TransformError):
        pl.tag_inames(pl.differentiate(pl.make_kernel(
            "{[t]: 1 <= t < n}", "u[t] = u[t - 1]*u[t - 1]", [pl.GlobalArg("u", D, shape="n"), ...])), "t_back:l.0")


def test_an_adjoint_runs_on_blocks_of_threads() -> None:
    knl = pl.differentiate(product())
    for iname, axis in (("i", 1), ("k", 0), ("k_0", 1), ("j", 0)):
        knl = pl.split_iname(knl, iname, 4, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    rng = np.random.default_rng(0)
    a, b, bar = rng.integers(-3, 4, (5, 3)) + 0.0, rng.integers(-3, 4, (3, 6)) + 0.0, rng.integers(-3, 4, (5, 6)) + 0.0
    on_all_targets(knl, {"a": a, "b": b, "grad_c": bar}, {"grad_a": bar @ b.T, "grad_b": a.T @ bar})


def test_atomic_updates_run_on_blocks_of_threads() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "y[i] = x[idx[i]]**2",
        [pl.GlobalArg("x", D, shape="m"), pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("y", D, shape="n"),
         ...])
    adjoint = pl.differentiate(knl)
    for iname in ("i", "x_0"):
        adjoint = pl.split_iname(adjoint, iname, 4, outer_tag="g.0", inner_tag="l.0")
    x, idx, bar = np.arange(5.0), np.array([1, 4, 1, 1, 0, 3, 4], np.int32), np.arange(7.0)
    wanted = np.zeros(5)
    np.add.at(wanted, idx, 2 * x[idx] * bar)
    on_all_targets(adjoint, {"x": x, "idx": idx, "grad_y": bar}, {"grad_x": wanted})


def test_a_loop_over_time_that_runs_back_is_on_blocks_in_space() -> None:
    knl = pl.make_kernel(
        "{[t, i]: 0 <= t < 3 and 0 <= i < n}", "u[t + 1, i] = u[t, i]*u[t, i]",
        [pl.GlobalArg("u", D, shape="4, n"), ...], name="squares")
    adjoint = pl.split_iname(pl.differentiate(knl, saved="u"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    u = np.ones((4, 6))
    bar = np.zeros((4, 6))
    bar[3] = np.arange(6)
    wanted = np.arange(6) * np.array([[8.0], [0], [0], [0]])
    on_all_targets(adjoint, {"u": u, "grad_u": bar}, {"grad_u": wanted})


def test_the_script_makes_the_same_kernel() -> None:
    adjoint = pl.differentiate(product(), ["b"], mode="forward", name="other")
    script = pl.kernel_to_python(adjoint)
    assert "knl = pl.differentiate(knl, wrt=['b'], mode='forward', name='other')" in script
    space: dict[str, Any] = {}
    exec(script, space)
    assert str(space["knl"]) == str(adjoint)


def refusal(knl: pl.LoopKernel, *arguments: Any, **options: Any) -> str:
    with pytest.raises(pl.PolyloopError) as error:
        pl.differentiate(knl, *arguments, **options)
    return str(error.value)


def line(value: str, *more: Any, **options: Any) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", D, shape="n"), *more, ...]
    return pl.make_kernel("{[i, j]: 0 <= i, j < n}", value, data, name="k", silenced_warnings="*", **options)


@pytest.mark.parametrize(("knl", "options", "message"), [
    (line("y[i] = lgamma(x[i])"), {}, "the derivative of 'lgamma' is not known [not-differentiable]"),
    (line("y[i] = x[idx[i]]", pl.GlobalArg("idx", np.int32, shape="n")), {"wrt": "idx"},
     "'idx' is an integer: int32 [not-differentiable]"),
    (line("y[idx[i]] = x[i]", pl.GlobalArg("idx", np.int32, shape="n")), {},
     "it depends on data which element of 'y' is assigned [not-differentiable]"),
    (line("y[idx[i]] = y[idx[i]] + x[i]\nz[i] = y[i]", pl.GlobalArg("idx", np.int32, shape="n"),
          pl.GlobalArg("z", D, shape="n")), {}, "data selects elements of 'y', and the kernel reads it"),
    (line("y[idx[i]] = y[idx[i]] + x[i]\ny[j] = x[j]", pl.GlobalArg("idx", np.int32, shape="n")), {},
     "data selects elements of 'y', which are assigned after that or in the same loop"),
    (line("y[i] = x[i]\nz[i] = y[idx[i]]", pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("z", D, shape="n")),
     {}, "it depends on data which value of 'y' is read [not-differentiable]"),
    (line("y[i], z[i] = argmax(j, x[j]*x[i], j)", pl.GlobalArg("z", np.int32, shape="n"), assumptions="n >= 1"), {},
     "'argmax' has a result of several parts [not-differentiable]"),
    (line("c[i] = x[i]*c[i]", pl.GlobalArg("c", np.complex128, shape="n")), {"wrt": "x", "of": "c"},
     "'c' is complex: complex128 [not-differentiable]"),
    (line("y[i] = x[i]"), {"wrt": "n"}, "'n' is an integer: int32 [not-differentiable]"),
    (line("y[i] = x[i]"), {"wrt": "z"}, "no argument 'z' [unknown-argument]"),
    (line("y[i] = x[i]"), {"wrt": "y"}, "the kernel does not read 'y' [bad-derivative]"),
    (line("y[i] = x[i]"), {"of": "x"}, "the kernel does not write 'x' [bad-derivative]"),
    (line("y[i] = x[i]"), {"wrt": ()}, "wrt= has no names [bad-derivative]"),
    (line("y[i] = x[i]\ny[i] = 2*y[i]"), {"saved": "y"},
     "elements of 'y' are assigned more than once [bad-derivative]"),
    (line("y[i] = x[i]*grad_x[i]", pl.GlobalArg("grad_x", D, shape="n")), {},
     "the name 'grad_x' is taken [name-taken]"),
    (line("y[i] = x[i]"), {"mode": "sideways"}, "[wrong-argument-type]"),
    (line("y[i] = x[i]"), {"name": "a b"}, "[bad-identifier]"),
])  # fmt: skip
def test_refusals(knl: pl.LoopKernel, options: dict[str, Any], message: str) -> None:
    assert message in refusal(knl, **options)
