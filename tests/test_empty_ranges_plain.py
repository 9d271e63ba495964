"""Loops around empty loops in domains that calls, copies of inames and sizes make of others: these run too."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl

I = np.int64  # noqa: E741 - the type of all data here
TRIANGLE = "{[i, j]: 0 <= i < n and 0 <= j < i}"


TOTAL = pl.make_function(
    "{[k]: 0 <= k < m}",
    "out = sum(k, a[k])",
    [pl.GlobalArg("a", shape="m"), pl.GlobalArg("out", shape=()), ...],
    name="total",
)


def check(knl: pl.LoopKernel, arguments: dict[str, Any], **expected: Any) -> None:
    for result in (pl.interpret(knl, **arguments), pl.compile(knl, target=pl.CTarget())(**arguments)):
        for name, value in expected.items():
            np.testing.assert_array_equal(getattr(result, name), value)


def test_a_call_runs_where_it_sweeps_over_nothing() -> None:
    data = [pl.GlobalArg("b", I, shape="n"), pl.GlobalArg("c", I, shape="n, n"), ...]
    knl = pl.make_kernel(TRIANGLE, "b[i] = total([j]: c[i, j])", data, functions=[TOTAL])
    check(knl, {"b": np.full(3, -7), "c": np.ones((3, 3), I)}, b=[0, 1, 2])


@pytest.mark.parametrize("bound", ["k < p", "k < j", "k < p and k < j"])
def test_a_sweep_is_as_long_as_its_own_bounds_say(bound: str) -> None:
    """What ``k`` has no values for is swept as well: the call is not inside of its loop."""
    data = [pl.GlobalArg("b", I, shape="n"), pl.GlobalArg("c", I, shape="n, m"), ...]
    for inner, lengths in (("m", [3, 3, 3]), ("i", [0, 1, 2])):
        domain = f"{{[i, j, k]: 0 <= i < n and 0 <= j < {inner} and 0 <= k and {bound}}}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pl.PolyloopWarning)
            knl = pl.make_kernel(domain, "b[i] = total([j]: c[i, j])", data, functions=[TOTAL], assumptions="n <= m")
        given = {"b": np.full(3, -7), "c": np.ones((3, 3), I)} | ({"p": 0} if "p" in bound else {})
        check(knl, given, b=lengths)


def test_bounds_that_others_imply_count_in_a_sweep() -> None:
    data = [pl.GlobalArg("b", I, shape=()), pl.GlobalArg("u, c", I, shape="10"), pl.ValueArg("n", np.int32), ...]
    domain = "{[i, j]: 0 <= i <= n - 5 and i <= 9 and 0 <= j <= 4 and j < n}"
    with pytest.raises(pl.KernelError, match="its values are no range by themselves"):
        pl.make_kernel(domain, ["b = total([j]: c[j])", "u[i] = 1"], data, functions=[TOTAL])


def test_a_function_runs_where_a_size_is_zero() -> None:
    data = [pl.GlobalArg("a", shape="n, m"), pl.GlobalArg("out", shape="n"), ...]
    rows = pl.make_function("{[i, k]: 0 <= i < n and 0 <= k < m}", "out[i] = sum(k, a[i, k])", data, name="rows")
    data = [pl.GlobalArg("b", I, shape="n"), pl.GlobalArg("c", I, shape="n, 4"), ...]
    for part, total in (("0:0", 0), ("1:2", 1), ("0:4", 4)):
        knl = pl.make_kernel("{:}", f"b[:] = rows(c[:, {part}])", data, functions=[rows])
        check(knl, {"b": np.full(3, -7), "c": np.ones((3, 4), I)}, b=np.full(3, total))


def test_the_text_of_a_function_comes_along() -> None:
    """ISL drops ``j < m``, which the bounds of ``i`` imply."""
    data = [pl.GlobalArg("u, v", shape="10"), pl.ValueArg("m", np.int32), ...]
    domain = "{[i, j]: 0 <= i <= m - 5 and 0 <= j <= 4 and j < m and i <= 9}"
    inner = pl.make_function(domain, ["u[i] = 1", "v[j] = 2"], data, name="inner")
    outer = pl.make_function("{:}", "u[:], v[:] = inner(m)", data, functions=[inner], name="outer")
    data = [pl.GlobalArg("u, v", I, shape="10"), ...]
    for called in (inner, outer):
        knl = pl.make_kernel("{:}", f"u[:], v[:] = {called.name}(q)", data, functions=[called])
        zeros = np.zeros(10, I)
        check(knl, {"q": 3, "u": zeros.copy(), "v": zeros.copy()}, v=[2, 2, 2, *[0] * 7], u=zeros)


@pytest.mark.parametrize("fixed", [{}, {"n": 3}])
def test_copies_of_inames_of_rules_and_reductions_have_their_own_range(fixed: dict[str, int]) -> None:
    data = [pl.GlobalArg("x, y", I, shape="n"), ...]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        lines = ["f(a) := sum(i, x[i]*a)", "y[i] = f(1)"]
        knl = pl.make_kernel(TRIANGLE, lines, data, fixed_parameters=fixed)
    x = np.array([1, 10, 100])
    check(knl, {"x": x, "y": np.full(3, -7)}, y=[111, 111, 111])


@pytest.mark.parametrize("bound", ["k < p", "k < j"])
def test_a_reduction_inside_of_one_over_the_same_iname_has_all_terms(bound: str) -> None:
    data = [pl.GlobalArg("b", I, shape="m"), pl.GlobalArg("y", I, shape="n"), ...]
    domain = f"{{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k and {bound}}}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        knl = pl.make_kernel(domain, "y[i] = sum(j, b[j]*sum(j, b[j]))", data)
    for m in (1, 3):
        b = np.arange(1, m + 1)
        check(knl, {"b": b, "y": np.full(2, -7)} | ({"p": 0} if "p" in bound else {}), y=np.full(2, b.sum() ** 2))


def test_a_copy_for_one_statement_has_its_own_range() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        knl = pl.make_kernel(TRIANGLE, "y[i] = 3 {dup=i}", [pl.GlobalArg("y", I, shape="n"), ...])
    check(knl, {"y": np.full(3, -7)}, y=[3, 3, 3])
    lines = ["y[i] = 3 {dup=i}", "w[i] = 2", "z[i, j] = 4"]
    knl = pl.make_kernel(TRIANGLE, lines, [pl.GlobalArg("y, w", I, shape="n"), pl.GlobalArg("z", I, shape="n, n"), ...])
    given = {"y": np.full(3, -7), "w": np.full(3, -7), "z": np.zeros((3, 3), I)}
    check(knl, given, y=[3, 3, 3], w=[2, 2, 2], z=4 * np.tri(3, k=-1))


def test_a_copy_keeps_loops_that_follow_from_reads() -> None:
    """The last statement is inside the loop over ``j``, because it reads ``t``: its copy of ``i`` goes with that."""
    lines = ["<> t = 1 + x[j] {id=t}", "c[i] = c[i] + t {dup=i, dep=t}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        domain = "{[j, i]: 0 <= i < n and 0 <= j < i}"
        knl = pl.make_kernel(domain, lines, [pl.GlobalArg("x, c", I, shape="n"), ...])
    check(knl, {"x": np.array([1, 10, 100]), "c": np.zeros(3, I)}, c=[0, 2, 13])


JOINT = {
    "0 <= i < n and 0 <= j < i and 0 <= k < p": ["y[i] = 3", "z[i, j] = 1", "q[i, k] = 1"],
    "0 <= i < n and 0 <= j < 4 - i and 0 <= k < p": ["y[i] = sum(j, x[j]*sum(j, x[j]))", "w[j] = 1", "q[i, k] = 1"],
    "0 <= i < n and 0 <= j < m and 0 <= k < j": ["y[i] = 1", "w[j] = 2", "q[i, k] = 3"],
    "0 <= i < n and 0 <= j < m and 0 <= k < p and k < j": ["y[i] = 1 {dup=i}", "w[j] = 2", "z[i, j] = sum(k, x[k])"],
}


@pytest.mark.parametrize("text", JOINT)
def test_one_domain_means_the_same_as_one_of_each_iname(text: str) -> None:
    i, j, k = text.partition(" and 0 <= j")[0], *text.partition(" and ")[2].split(" and ", 1)
    data = [pl.GlobalArg("x, y, w", I, shape="9"), pl.GlobalArg("z, q", I, shape="9, 9"), ...]
    sizes = [name for name in "nmp" if f"< {name}" in text]
    for n, m, p in ((0, 0, 0), (3, 3, 0), (3, 0, 2), (1, 5, 3), (4, 3, 5)):
        found = []
        for domains in (f"{{[i, j, k]: {text}}}", [f"{{[i]: {i}}}", f"{{[j]: {j}}}", f"{{[k]: {k}}}"]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pl.PolyloopWarning)
                limits = " and ".join(f"{name} <= 9" for name in sizes)
                knl = pl.make_kernel(domains, JOINT[text], data, assumptions=limits)
            given: dict[str, Any] = {"x": np.arange(1, 10), "y": np.full(9, -7), "w": np.full(9, -7)}
            given |= {"z": np.zeros((9, 9), I), "q": np.zeros((9, 9), I), "n": n, "m": m, "p": p}
            used = {argument.name for argument in knl.arguments}
            result = pl.interpret(knl, **{name: value for name, value in given.items() if name in used})
            found.append({name: result[name] for name in "ywzq" if name in result})
        for name, value in found[0].items():
            np.testing.assert_array_equal(value, found[1][name])
