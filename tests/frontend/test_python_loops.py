"""Loops, assignments, conditions, functions and names in ``@pl.kernel``: as in Python, which is the oracle."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, F821, PLR1730, UP037

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from tests.frontend import loops
from tests.frontend.test_python_refusals import define

D = np.float64


def value_of(argument: Any, n: int, rng: np.random.Generator) -> Any:
    """Return a random array; integers are rising, between 0 and n."""
    if not isinstance(argument, ArrayArg):
        return 1.5
    shape = [{"n": n, "n + 1": n + 1}.get(str(extent), 4) for extent in argument.shape or ()]
    if argument.dtype.kind == "c":
        return rng.random(shape) + 1j * rng.random(shape)
    if argument.dtype.kind == "i":
        return np.sort(rng.integers(0, n + 1, shape)).astype(argument.dtype)
    return rng.random(shape)


def made(function: Callable[..., None]) -> pl.LoopKernel:
    return pl.kernel(silenced_warnings="*")(function)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("function", loops.FUNCTIONS, ids=lambda function: function.__name__)
def test_a_kernel_does_what_python_does(function: Callable[..., None], n: int) -> None:
    knl, rng = made(function), np.random.default_rng(n)
    given = {x.name: value_of(x, n, rng) for x in knl.arguments if x.name != "n"}
    expected = {name: np.copy(value) if np.ndim(value) else value for name, value in given.items()}
    function(n=n, **expected)
    again: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(pl.kernel_to_python(knl), again)
    assert str(again["knl"].reference) == str(knl.reference)
    outputs = [x.name for x in knl.arguments if isinstance(x, ArrayArg) and x.is_output]
    runs = [lambda **values: pl.interpret(knl, **values), pl.compile(knl, target=pl.CTarget())]
    for run in runs:
        result = run(n=n, **{name: np.copy(value) if np.ndim(value) else value for name, value in given.items()})
        for name in outputs:
            np.testing.assert_allclose(result[name], expected[name], rtol=1e-11, err_msg=name)


def code(function: Callable[..., None], target: Any = None) -> str:
    found = pl.generate_code(made(function), target=target or pl.CTarget()).device_code
    return found[found.index("void ") :]


def test_a_downward_loop_reads_like_this() -> None:
    def backward(n: pl.int32, a: pl.Array[D, "n"]):
        for i in range(n - 2, -1, -1):
            a[i] += a[i + 1] * i

    assert code(backward) == (
        "void backward(int n, double *restrict a)\n"
        "{\n"
        "    for (int i_down = 0; i_down < n - 1; ++i_down)\n"
        "        a[n - i_down - 2] += a[n - i_down - 1] * (n - i_down - 2);\n"
        "}\n"
    )


def test_inames_of_downward_loops_are_transformed_as_others() -> None:
    def stencil(n: pl.int32, a: pl.Array[D, "n", "n"]):
        for t in range(n - 2, -1, -1):
            for i in range(n):
                a[t, i] += a[t + 1, n - 1 - i]

    knl = made(stencil)
    tiled = knl.split_iname("i", 4, inner_tag="l.0")
    rng = np.random.default_rng(0)
    a = rng.random((6, 6))
    expected = a.copy()
    stencil(6, expected)
    for run in (pl.interpret, lambda k, **x: pl.compile(k, target=pl.CTarget())(**x)):
        np.testing.assert_allclose(run(knl.split_iname("t_down", 2), a=a.copy()).a, expected)
    with pytest.raises(pl.TransformError, match="t_down"):
        knl.tag_inames("t_down:l.0")
    assert "t_down" in str(tiled)


def test_conditions_that_change_are_kept_and_others_are_not() -> None:
    def largest(n: pl.int32, a: pl.Array[D, "n"], c: pl.Array[D, 1]):
        top = 0.0
        for i in range(n):
            if a[i] > top:
                top = a[i]
        c[0] = top

    def both(n: pl.int32, a: pl.Array[D, "n"], c: pl.Array[D, "n"]):
        top = 0.0
        for i in range(n):
            if a[i] > top:
                top = a[i]
                c[i] = top

    assert "holds" not in str(made(largest))
    assert "bool holds = a[i] > top;" in code(both)


def test_rules_are_shared_by_calls_that_see_the_same() -> None:
    def smooth(n: pl.int32, a: pl.Array[D, "n"], b: pl.Array[D, "n"]):
        def at(k):
            return a[k] + a[i]

        for i in range(n):
            b[i] = at(0) + at(i)
        for i in range(n):
            b[i] += at(0)

    knl = made(smooth)
    assert list(knl.substitutions) == ["at", "at_1"]


def test_a_bound_that_is_assigned_once_needs_no_other_variable() -> None:
    def rows(n: pl.int32, p: pl.Array[np.int32, "n"], b: pl.Array[D, "n"]):
        for i in range(n):
            m = p[i]
            for k in range(m):
                b[i] += k

    assert "for (int k = 0; k < m; ++k)" in code(rows)


def test_a_counter_that_is_read_elsewhere_is_a_variable() -> None:
    def search(n: pl.int32, c: pl.Array[np.int32, 2]):
        k = 0
        while k < n:
            k += 3
        c[0] = k

    assert "k = max_int32(k_start, n)" not in code(search)
    for n in range(5):
        assert pl.interpret(made(search), n=n).c[0] == 3 * ((n + 2) // 3)


def test_arrays_called_as_functions_are_renamed_in_programs() -> None:
    text = code(loops.names, pl.CudaTarget())
    assert "exp(exp_[i])" in text
    assert "double *__restrict__ sum" in text


def test_a_name_of_a_function_is_that_of_a_variable_in_text_too() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "<> as = in[i]\nout[i] = exp(exp[i]) + is*as + min(min, in[i])\nis := 2*in[i]",
        [pl.GlobalArg("in, exp, out", D, shape="n"), pl.ValueArg("min", D), pl.ValueArg("n", np.int32)],
    )
    x = np.arange(3.0)
    for run in (pl.interpret, lambda k, **given: pl.compile(k, target=pl.CTarget())(**given)):
        result = run(knl, **{"in": x, "exp": x, "min": 1.0})
        np.testing.assert_allclose(result["out"], np.exp(x) + 2 * x * x + np.minimum(1.0, x))


RANGES = (
    "range(0, n, 3)", "range(n, -1, -1)", "range(n, 0, -3)", "range(2, n - 4, -2)", "range(n - 1, 2, -2)",
    "range(3, n, 2)", "reversed(range(0, n, 3))", "reversed(range(3, n, 2))", "reversed(range(1, n - 1))",
    "reversed(range(2, -1))",
)  # fmt: skip


@pytest.mark.parametrize("over", RANGES)
def test_a_loop_has_the_values_of_its_range_in_their_order(over: str) -> None:
    text = f"    k = 0\n    for i in {over}:\n        x[k] = i\n        k += 1\n    x[31] = k\n"
    function = define(f"def f(n: pl.int32, x: pl.Array[np.int64, 32]):\n{text}")
    knl = made(function)
    for n in (0, 1, 2, 5, 8):
        expected = np.full(32, -9)
        function(n, expected)
        np.testing.assert_array_equal(pl.interpret(knl, n=n, x=np.full(32, -9)).x, expected, f"{over}, n = {n}")


ORDER = [
    "for i in range(n):\n    m = s[i] % 3\n    for j in range(m):\n        m += 1\n        c[j] += m",
    "k = 1\na[k], k = k, 0\nk, a[k] = 1, 7\nc[0] = k",
    "def g(i_down, n):\n    return a[i_down] + n\nfor i in range(n - 1, -1, -1):\n    c[i] = g(i, 3)",
    "k = 0\nfor i in range(n):\n    if a[i] > 5:\n        while k < i:\n            c[k] += a[i]\n            k += 1\n"
    "c[n] += k",
    "t = 0\nfor i in range(n):\n    if t > 3:\n        t = t - a[i]\n        c[i] = t\n    t += a[i]",
    "def g(x):\n    return x + t\nt = 1\nc[0] = g(t)\nt = 5\nc[1] = g(t)",
    "i = 0\nwhile i < n:\n    def g(x):\n        return x + a[i]\n    c[i] = g(1)\n    i += 1\n    c[i] += g(2)",
    "i = n\nwhile i > 0:\n    i -= 1\n    s[i] = sum(a[j] for j in range(i, n)) + i\n"
    "    if s[i] > 9:\n        s[i] = 1\n        c[i] = s[i]",
    "def g(x):\n    return x + h(x)\ndef h(x):\n    return x * a[0]\nfor i in range(n):\n    c[i] = g(s[i])",
    "for i in range(n):\n    if a[i] > 3:\n        a[i] = 0\n        if a[i] == 0 and s[i] > 2:\n            s[i] = 1\n"
    "            a[i] = s[i] + 5\n        c[i] = a[i]\n    elif s[i] > a[i]:\n        s[i], a[i] = a[i], s[i]\n"
    "        c[i] = 2",
    "for i in range(n):\n    c[i] += 1\nw = 0\nwhile w < n:\n    c[w] += 2\n    w += 1\n"
    "for w in range(n):\n    c[w] += 3",
    "for i in range(n):\n    c[i] += 1\n    if a[i] > 5:\n        break\n    c[i] += 2",
    "for i in range(n):\n    if a[i] > 5:\n        c[i] = 7\n        break\n    else:\n        c[i] += 2\nc[n] = 1",
    "for i in range(n):\n    for j in range(n):\n        if a[j] > s[i]:\n            break\n        c[i] += 1\n"
    "    if c[i] > 2:\n        s[i] = 0\n        if a[i] > 1:\n            break\n        c[i] += 4\n    c[i] += 10",
    "for i in range(n):\n    if a[i] > 2:\n        for j in range(n):\n            c[j] += a[i]\n"
    "            if c[j] > 9:\n                break",
    "t = 0\nk = 0\nwhile t < 9 and k < n:\n    t += a[k]\n    c[k] = t\n    k += 1\nc[n] = t",
    "k = 0\nwhile k < n and a[k] < 6:\n    c[k] += 1\n    k += 1\n    s[k] = 3",
    "t = 0\nk = n\nwhile k > 0 and t != 3 and s[0] >= 0:\n    k -= 1\n    t = a[k]\n    if s[k] == 4:\n        break\n"
    "    c[k] = t + 1",
    "for i in range(n):\n    break\n    c[i] = 3",
    "k = 0\nwhile k < n:\n    if a[k] == 2:\n        break\n    c[k] = 5\n    k += 1",
    "k = 0\nwhile k < n and a[k] > 2:\n    k += 1\nc[0] = k",
    "for i in range(n):\n    k = 1\n    while k < n:\n        k += 2\n        if a[k - 2] > 5:\n            break\n"
    "        c[i] += k\n    s[i] = k",
    "k = n\nc[0] = k\nwhile k > 0 and a[k] > 1:\n    c[k] = k\n    k -= 1\nc[n] = k\n"
    "while k < n and a[k] < 7:\n    k += 1\nc[n] += 9*k",
    "for i in range(n):\n    if a[i] > 5:\n        a[i] = 0\n        continue\n    elif i == 1:\n        continue\n"
    "    c[i] = a[i] + 1\n    a[i] = 7\n    if s[i] > 4:\n        c[i] += 1\n    else:\n        continue\n    s[i] = 2",
    "for i in range(n):\n    t = a[i]\n    if t > 2:\n        if s[i] > t:\n            t += 1\n            continue\n"
    "        c[i] = t\n    for j in range(n):\n        if j == i or a[j] == 3:\n            continue\n"
    "        c[j] += 1\n        if c[j] > 7:\n            break\n    s[i] += 1",
    "k = 0\nwhile k < n and c[0] < 9:\n    k += 1\n    if a[k] > 4:\n        if s[k] > 3:\n            continue\n"
    "        c[0] += 3\n    c[k] += 1\n    if s[k] == 2:\n        break\nc[n] = k",
    "for i in range(n):\n    if a[i] > 4:\n        a[i] = 0\n        break\n    c[i] = 2",
    "for i in range(n):\n    c[i] = 1\n    continue\n    c[i] = 2\nfor i in range(len(a) - 2):\n    c[i] += len(s)",
]  # fmt: skip


@pytest.mark.parametrize("body", ORDER)
def test_statements_run_in_the_order_of_python(body: str) -> None:
    arrays = ", ".join(f"{name}: pl.Array[np.int64, 'n + 2']" for name in "sac")
    function = define(f"def f(n: pl.int32, {arrays}):\n{textwrap.indent(body, '    ')}\n")
    knl = made(function)
    run = pl.compile(knl, target=pl.CTarget())
    used = {x.name for x in knl.arguments}
    for n in (1, 2, 5):
        rng = np.random.default_rng(n)
        given = {name: rng.integers(0, 9, n + 2) for name in "sac"}
        expected = {name: value.copy() for name, value in given.items()}
        function(n=n, **expected)
        for call in (lambda **values: pl.interpret(knl, **values), run):
            result = call(n=n, **{name: value.copy() for name, value in given.items() if name in used})
            for name, value in dict(result).items():
                np.testing.assert_array_equal(value, expected[name], f"{name}, n = {n}")


def test_continue_on_loop_variables_leaves_plain_conditions() -> None:
    def f(n: pl.int32, a: pl.Array[np.float64, "n", "n"]):  # type: ignore[no-untyped-def,name-defined]
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                a[i, j] = 2

    knl = pl.kernel(f)
    assert not knl.temporaries
    assert np.trace(pl.interpret(knl, n=4, a=np.zeros((4, 4))).a) == 0
    assert pl.tag_inames(knl, "i:g.0, j:l.0") is not None


def test_the_length_of_an_array_is_the_extent_of_its_first_axis() -> None:
    def f(n: pl.int32, a: pl.Array[np.int64, "2*n", 3], out: pl.Array[np.int64, "n"]):  # type: ignore
        t: pl.Array[np.int64, 5]  # type: ignore[type-arg,valid-type]

        def last(v):  # type: ignore[no-untyped-def]
            return v[len(v) - 1, 0]

        for k in range(len(t)):
            t[k] = k
        for i in range(len(out)):
            out[i] = last(a) + t[i % len(t)] + len(a)

    knl = pl.kernel(f)
    a = np.arange(24).reshape(8, 3)
    for call in (pl.compile(knl, target=pl.CTarget()), lambda **values: pl.interpret(knl, **values)):
        np.testing.assert_array_equal(call(a=a).out, 21 + np.arange(4) + 8)


def test_a_loop_with_break_ends_where_its_flag_is_false() -> None:
    """The test that ends it comes before what else an iteration does."""

    def escape(x: pl.Array[np.float32, "n"], y: pl.Array[np.int32, "n"], n: int):
        for i in range(n):
            z = x[i]
            count = 0
            for k in range(20):
                if z > 4:
                    break
                z = z * z
                count = k + 1
            y[i] = count

    source = code(escape)
    assert "for (int k = 0; k < 20 && k_goes_on; ++k) {" in source
    assert "if (z > 4.0f)" in source
    x = np.array([1, 5, 1.5, 1.01, 4], np.float32)
    np.testing.assert_array_equal(pl.compile(made(escape), target=pl.CTarget())(x=x).y, [20, 0, 2, 8, 1])
