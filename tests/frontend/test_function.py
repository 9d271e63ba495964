"""Functions of the user's: what a call means, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

F = np.float32


def norm(**options: Any) -> pl.Function:
    data = [pl.GlobalArg("x", shape="m", **options), pl.GlobalArg("r", shape=()), ...]
    return pl.make_function("{[j]: 0 <= j < m}", ["<> s = sum(j, x[j]*x[j])", "r = sqrt(s)"], data, name="norm")


def shift() -> pl.Function:
    """Two statements, with loops of their own: a call must be over before the next begins."""
    data = [pl.GlobalArg("y, x", shape="m"), pl.ValueArg("alpha"), ...]
    lines = ["y[p] = x[p] + alpha {id=add}", "y[q] = 2*y[q] {dep=add}"]
    return pl.make_function("{[p, q]: 0 <= p, q < m}", lines, data, name="shift")


def reference(knl: pl.LoopKernel) -> list[str]:
    return str(knl.reference).splitlines()


def results(knl: pl.LoopKernel, **given: Any) -> list[Any]:
    return [pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())(**given, poison=True)]


def test_a_call_is_put_in_line() -> None:
    data = [pl.GlobalArg("a", F, shape="n, 3"), ...]
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < 3}"], "lengths[i] = norm([k]: a[i, k])", data, functions=[norm()]
    )
    assert reference(knl) == [
        "for i",
        "    norm_s = sum(norm_j, a[i, norm_j]*a[i, norm_j])    {id=norm_insn}",
        "    lengths[i] = sqrt(norm_s)    {id=norm_insn_1}",
    ]
    assert knl.inames == ("i", "norm_j")
    assert [d.name for d in knl.arguments] == ["a", "lengths", "n"]
    a = np.random.default_rng(0).random((4, 3), dtype=F)
    for found in results(knl, a=a):
        np.testing.assert_allclose(found.lengths, np.sqrt((a * a).sum(1)), rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b[i, :] = shift(a[:, i], i)", lambda a: 2 * (a.T + np.arange(6)[:, None])),
        ("[k]: b[i, k] = shift([k]: a[i, n - 1 - k], 3.0)", lambda a: 2 * (a[:, ::-1] + 3)),
        ("b[i, 1:n] = shift(a[i, 0:n-1], a[i, i])", lambda a: None),
        ("[p]: b[2*p, i] = shift([p]: a[2*p + 1, i], 0, 3)", lambda a: None),
        ("for i\nb[i, :] = shift(b[i, :], 1.0) {id=first}\nend", lambda a: None),
    ],
)
def test_parts_of_arrays_are_passed(text: str, expected: Any) -> None:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    domains = ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < n}", "{[p]: 0 <= p < 3}"]
    knl = pl.make_kernel(
        domains, text, data, functions=[shift()], silenced_warnings="*", assumptions="n = 6"
    )
    a = np.random.default_rng(1).integers(-5, 6, (6, 6)).astype(F)
    b = np.full((6, 6), 7, F)
    want = expected(a)
    if want is None:
        want = b.copy()
        for i in range(6):
            if "1:n" in text:
                want[i, 1:] = 2 * (a[i, :-1] + a[i, i])
            elif "2*p" in text:
                want[::2, i] = 2 * a[1::2, i]
            else:
                want[i] = 2 * (b[i] + 1)
    arrays = {"a": a, "b": b}
    given: dict[str, Any] = {x.name: arrays[x.name].copy() for x in knl.arguments if x.name in arrays}
    assert knl.argument("b") is not None
    for found in (pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())(**given)):
        np.testing.assert_array_equal(found.b, want)


def test_every_call_runs_to_its_end_before_the_next() -> None:
    """The call for i reads what the call for i - 1 wrote with its last statement."""
    data = [pl.GlobalArg("b", F, shape="n, 4"), ...]
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "b[i, :] = shift(b[i - 1, :], 1.0)", data, functions=[shift()])
    b = np.zeros((5, 4), F)
    want = b.copy()
    for i in range(1, 5):
        want[i] = 2 * (want[i - 1] + 1)
    for found in (pl.interpret(knl, b=b.copy()), pl.compile(knl, target=pl.CTarget())(b=b.copy())):
        np.testing.assert_array_equal(found.b, want)


def test_functions_call_functions_and_come_in_libraries() -> None:
    unit = pl.make_function(
        ["{[j]: 0 <= j < m}"],
        ["<> r = norm(x) {id=length}", "y[j] = x[j]/r {dep=length}"],
        [pl.GlobalArg("y, x", shape="m"), ...],
        name="unit",
        functions=[norm()],
    )
    data = [pl.GlobalArg("a, b", F, shape="n, 3"), ...]
    library = [unit, shift()]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i, :] = unit(a[i, :])", data, functions=[library])
    a = np.random.default_rng(0).random((5, 3), dtype=F) + F(0.5)
    for found in results(knl, a=a):
        np.testing.assert_allclose(found.b, a / np.linalg.norm(a, axis=1)[:, None], rtol=1e-5)


def test_names_never_clash() -> None:
    data = [pl.GlobalArg("a", F, shape="n, 3"), pl.GlobalArg("norm_s", F, shape="n"), ...]
    text = [
        "norm_s[i] = norm(a[i, :]) {id=it}",
        "<> s = norm_s[i]",
        "r[i] = norm(a[i, :]) {dep=it}",
        "q[i] = s {dep=it}",
    ]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, functions=[norm()])
    assert set(knl.temporaries) == {"s", "norm_s_1", "norm_s_2"}
    assert knl.instruction("it_insn_1").writes == ("norm_s",)
    assert knl.instruction("norm_insn").depends_on == {"it_insn", "it_insn_1"}


@pytest.mark.parametrize("shape", ["m, n", "n, m", "n + m, n", "n, 2*n", "m, n - m + 4"])
def test_sizes_of_the_caller_may_have_the_names_of_others(shape: str) -> None:
    """Parameters of a function get their values all at once."""
    data = [pl.GlobalArg("a, out", shape="n, m"), pl.GlobalArg("r", shape="m"), ...]
    lines = ["out[i, j] = 2*a[i, j]", "<> t[j] = sum(k, a[k, j])", "r[j] = t[j]"]
    domains = ["{[i, j]: 0 <= i < n and 0 <= j < m}", "{[k]: 0 <= k < n}"]
    twice = pl.make_function(domains, lines, data, name="twice")
    n, m = 2, 3
    extents = eval(shape, {"n": n, "m": m})
    data = [pl.GlobalArg("b, c", F, shape=shape), pl.GlobalArg("s", F, shape=shape.split(",")[1]), ...]
    knl = pl.make_kernel("{:}", "b[:, :], s[:] = twice(c[:, :])", data, functions=[twice])
    c = np.arange(np.prod(extents), dtype=F).reshape(extents)
    for result in results(knl, c=c, **{name: value for name, value in (("n", n), ("m", m)) if name in shape}):
        np.testing.assert_array_equal(result.b, 2 * c)
        np.testing.assert_array_equal(result.s, c.sum(0))


def test_names_of_a_call_avoid_those_of_parameters() -> None:
    data = [pl.GlobalArg("y, x", shape="f_j"), pl.ValueArg("f_t"), ...]
    fun = pl.make_function("{[j]: 0 <= j < f_j}", ["<> t = x[j] + f_t", "y[j] = t*f_j"], data, name="f")
    knl = pl.make_kernel("{:}", "b[:] = f(a[:], 3)", [pl.GlobalArg("a, b", F, shape="n"), ...], functions=[fun])
    a = np.arange(4, dtype=F)
    for result in results(knl, a=a):
        np.testing.assert_array_equal(result.b, (a + 3) * 4)


def test_conditions_and_rules_come_along() -> None:
    clip = pl.make_function(
        "{[j]: 0 <= j < m}",
        ["top(v) := if(v > limit, limit, v)", "if x[j] > 0", "y[j] = top(x[j])", "end"],
        [pl.GlobalArg("y, x", shape="m"), pl.ValueArg("limit"), ...],
        name="clip",
    )
    data = [pl.GlobalArg("a, b", F, shape="n, 8"), pl.GlobalArg("w", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i, :] = clip(a[i, :], 2.0) {if=w[i] > 0}", data, functions=[clip])
    rng = np.random.default_rng(3)
    a, w, b = rng.integers(-4, 5, (6, 8)).astype(F), rng.integers(-1, 2, 6).astype(F), np.full((6, 8), 9, F)
    want = np.where((a > 0) & (w > 0)[:, None], np.minimum(a, 2), b)
    compiled = pl.compile(knl, target=pl.CTarget())
    for found in (pl.interpret(knl, a=a, w=w, b=b.copy()), compiled(a=a, w=w, b=b.copy())):
        np.testing.assert_array_equal(found.b, want)


def test_statements_of_all_kinds_come_along() -> None:
    """Several assignments at once, patterns, and names for several instructions, in the function and around it."""
    swap = pl.make_function(
        "{[j]: 0 <= j < m}",
        """
        <> s, t = x[j], 2*x[j] {id=load}
        ... nop {id=loaded, dep=load*}
        y[j] = s + t {id=add, dep=loaded}
        y[j] = y[j] + 1 {dep=a*}
        """,
        [pl.GlobalArg("y, x", shape="m"), ...],
        name="swap",
    )
    lines = ["b[i, :] = swap(a[i, :]) {id=it}", "<> p, q = b[i, 0], b[i, 1] {dep=it}", "v[i] = p + q"]
    data = [pl.GlobalArg("a, b, c", F, shape="n, 4"), pl.GlobalArg("v", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [*lines, "c[i, :] = swap(b[i, :])"], data, functions=[swap])
    a = np.arange(12, dtype=F).reshape(3, 4)
    for found in results(knl, a=a):
        np.testing.assert_array_equal(found.b, 3 * a + 1)
        np.testing.assert_array_equal(found.v, 3 * a[:, 0] + 3 * a[:, 1] + 2)
        np.testing.assert_array_equal(found.c, 9 * a + 4)


def test_declared_types_reach_the_caller() -> None:
    typed = norm(dtype=np.float64)
    data = [pl.GlobalArg("a", shape="n, 4"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "r[i] = norm(a[i, :])", data, functions=[typed])
    assert [array.dtype for array in knl.arguments][:2] == [np.dtype("float64")] * 2


def test_fixed_parameters_reach_the_call() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), ...]
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", "r[i] = norm(a[i, 1:m])", data, functions=[norm()], fixed_parameters={"m": 4}
    )
    assert "{ [norm_j] : 0 <= norm_j <= 2 }" in str(knl)


def test_the_script_has_the_functions() -> None:
    data = [pl.GlobalArg("a", F, shape="n, 3"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "r[i] = norm(a[i, :])", data, functions=[norm()])
    namespace: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl), namespace)
    assert str(namespace["knl"]) == str(knl)
    assert repr(norm()) == "<Function r = norm(x)>"


CALLER = [pl.GlobalArg("a, b", F, shape="n, n"), pl.GlobalArg("v", F, shape="n"), pl.ValueArg("z", F), ...]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("v[i] = norm(a[i, :], 1, 2)", "wrong-argument-count", "'norm' takes 1 argument, not 3"),
        ("v[i], b[i, i] = norm(a[i, :])", "wrong-argument-count", "'norm' writes 1 array, not 2"),
        ("v[i] = norm(a[:, :])", "shape-mismatch", "'x' of 'norm' has 1 axis, and is passed 2 axes"),
        ("b[i, 0:n-1] = shift(a[i, :], z)", "shape-mismatch", "has shape (n - 1) here, and is passed (n)"),
        ("v[i] = norm(2*z)", "bad-call", "'x' of 'norm' is an array, and is passed the value 2*z"),
        ("v[i] = norm(z)", "bad-call", "'z' is no array"),
        ("b[i, :] = shift(a[i, :], v[:])", "bad-call", "'alpha' of 'shift' is a scalar, and is passed a part of 'v'"),
        ("v[i] = norm(w[:])", "bad-call", "the slice of 'w' has no end, and its shape is not declared"),
        ("v[i] = norm([k]: a[i, i])", "bad-call", "'k' sweeps over 'a' and does not subscript it"),
        ("v[i] = norm([j]: a[i, j])", "bad-call", "'j' sweeps over 'a', and its values are no range by themselves"),
        ("v[i] = norm([u]: a[i, u])", "unknown-iname", "no iname 'u'"),
        ("<> w[i] = norm(a[i, :])", "syntax", "a call declares one scalar at most"),
        ("<nothing> w = norm(a[i, :])", "unknown-dtype", "nothing"),
        ("v[i] = norm(a[i, ::0])", "bad-call", "is 0, or no number"),
        ("[k]: v[k] = other([k]: a[i, k])", "unknown-function", "no function 'other'"),
        ("v[i] = 2*norm(a[i, i])", "call-in-expression", "'norm' has statements"),
        ("b[i, :] = shift(a[i, :], z) {if=b[i, i] > 0}", "condition-changed", "the call writes 'b'"),
        ("v[:] = shift(v[:], v[i], i*i)", "bad-call", "size 'm' of 'shift' is passed i*i"),
        (["<> t = v[i]", "v[:] = shift(a[0, :], t)"], "call-needs-loop", "would run in the loop over 'i'"),
    ],
)
def test_what_a_call_cannot_pass_is_refused(text: Any, code: str, message: str) -> None:
    domains = ["{[i, k]: 0 <= i, k < n}", "{[j]: 0 <= j < n and j mod 2 = 0}"]
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(domains, text, CALLER, functions=[norm(), shift()])
    assert caught.value.codes == (code,)
    assert message in str(caught.value)
    assert "Hint: " in str(caught.value)


def test_a_part_that_is_read_and_written_is_passed_twice_alike() -> None:
    grow = pl.make_function("{[j]: 0 <= j < m}", "x[j] = x[j] + 1", [pl.GlobalArg("x", shape="m"), ...], name="grow")
    data = [pl.GlobalArg("a", F, shape="n, n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i, :] = grow(a[i, :])", data, functions=[grow])
    np.testing.assert_array_equal(pl.interpret(knl, a=np.zeros((3, 3), F)).a, np.ones((3, 3), F))
    with pytest.raises(pl.KernelError, match="'x' of 'grow' is read and written, and is passed two parts"):
        pl.make_kernel("{[i]: 0 <= i < n}", "a[i, :] = grow(b[i, :])", CALLER, functions=[grow])


def test_types_that_differ_are_refused() -> None:
    with pytest.raises(pl.KernelError, match="'x' of 'norm' is float64, and 'a' is float32"):
        pl.make_kernel("{[i]: 0 <= i < n}", "v[i] = norm(a[i, :])", CALLER, functions=[norm(dtype=np.float64)])


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(pl.KernelError, match="functions cannot hold 3"):
        pl.make_kernel("{[i]: 0 <= i < n}", "v[i] = 1", CALLER, functions=[3])  # type: ignore[list-item]
    with pytest.raises(pl.KernelError, match="there are two functions 'norm'"):
        pl.make_kernel("{[i]: 0 <= i < n}", "v[i] = 1", CALLER, functions=[norm(), norm()])
    with pytest.raises(pl.KernelError, match=r"norm -> norm"):
        pl.make_function("{[j]: 0 <= j < m}", "r = norm(x[:])", name="norm", functions=[norm()])


def test_a_function_is_checked_by_itself() -> None:
    with pytest.raises(pl.KernelError, match="out-of-bounds"):
        pl.make_function("{[j]: 0 <= j < m}", "y[j] = x[j + 1]", [pl.GlobalArg("x, y", shape="m"), ...], name="f")


def test_a_function_has_no_barriers() -> None:
    lines = ["for j", "y[j] = x[j]", "... lbarrier", "y[j] = 2*y[j]", "end"]
    with pytest.raises(pl.KernelError, match="a function has no barriers"):
        pl.make_function("{[j]: 0 <= j < m}", lines, [pl.GlobalArg("x, y", shape="m"), ...], name="f")


def test_tables_come_along_and_variables_that_begin_with_values_do_not() -> None:
    def weigh(line: str) -> pl.Function:
        table = pl.TemporaryVariable("w", initializer=np.array([1, 2, 4], F))
        data = [pl.GlobalArg("x", shape="3"), pl.GlobalArg("r", shape=()), table, ...]
        return pl.make_function("{[j]: 0 <= j < 3}", [line, "r = sum(j, w[j]*x[j])"], data, name="weigh")

    data = [pl.GlobalArg("a", F, shape="n, 3"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "v[i] = weigh(a[i, :])", data, functions=[weigh("<> t = w[0]")],
                         silenced_warnings="*")  # fmt: skip
    a = np.arange(12, dtype=F).reshape(4, 3)
    for found in results(knl, a=a):
        np.testing.assert_array_equal(found.v, a @ np.array([1, 2, 4], F))
    with pytest.raises(pl.KernelError, match="'w' has an initializer and is written"):
        weigh("w[0] = w[0] + 1")
