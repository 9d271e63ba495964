"""What binds a name: parameters of rules, reductions, functions; and rules wherever expressions stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.frontend.functions import with_functions
from tests.transform.checking import check, refused

INT = np.int64
A = np.arange(25, dtype=INT).reshape(5, 5) ** 2 % 11
Golden = Callable[[str, str], None]
Arrays = dict[str, np.ndarray[Any, Any]]


def made(domains: str, text: str, arrays: str = "a, w", shape: str = "n", **options: Any) -> pl.LoopKernel:
    options = {"silenced_warnings": "*", "assumptions": "n >= 1", **options}
    return pl.make_kernel(domains, text, [pl.GlobalArg(arrays, INT, shape=shape), ...], name="k", **options)


def shifted(parameter: str, iname: str = "i") -> pl.LoopKernel:
    """``w[i] = 2*a[i + 1]`` by a rule, whose parameter has any name."""
    data = [pl.GlobalArg("a", INT, shape="n + 1"), pl.GlobalArg("w", INT, shape="n"), ...]
    text = f"f({parameter}) := 2*a[{parameter}]\nw[{iname}] = f({iname} + 1)"
    return pl.make_kernel(f"{{[{iname}]: 0 <= {iname} < n}}", text, data, name="k", silenced_warnings="*")


STEPS: dict[str, Callable[[pl.LoopKernel], pl.LoopKernel]] = {
    "split_iname": lambda k: pl.split_iname(k, "i", 4),
    "rename_iname": lambda k: pl.rename_iname(k, "i", "z"),
    "rename_iname to p": lambda k: pl.rename_iname(k, "i", "p"),
    "rename_inames": lambda k: pl.rename_inames(k, "i", "p"),
    "map_domain": lambda k: pl.map_domain(k, "{[i] -> [p]: p = -i}"),
    "affine_map_inames": lambda k: pl.affine_map_inames(k, "i", "p", "p = i + 3"),
    "chunk_iname": lambda k: pl.chunk_iname(pl.fix_parameters(k, n=8), "i", 3),
    "tile": lambda k: pl.tile(k, {"i": 4}),
    "vectorize": lambda k: pl.vectorize(k, "i", 4),
    "fix_parameters": lambda k: pl.fix_parameters(k, n=8),
    "duplicate_inames": lambda k: pl.duplicate_inames(k, "i", within="id:insn", new_inames="p"),
    "rename_argument": lambda k: pl.rename_argument(k, "a", "p"),
    "expand_subst": pl.expand_subst,
    "precompute": lambda k: pl.precompute(pl.split_iname(k, "i", 4), "f", "i_inner", default_tag=None),
    "add_prefetch": lambda k: pl.add_prefetch(pl.split_iname(k, "i", 4), "a", "i_inner", default_tag=None),
    "fuse_kernels": lambda k: pl.fuse_kernels([k, pl.rename_argument(shifted("z"), "w", "v")]),
}


@pytest.mark.few(30)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("parameter", ["i", "n", "w", "p", "z", "i_outer", "f"])
def test_steps_leave_parameters_of_rules_alone(step: str, parameter: str) -> None:
    a = np.arange(9, dtype=INT) ** 2
    knl = STEPS[step](shifted(parameter))
    given = {"p" if step == "rename_argument" else "a": a}
    check(knl, given, {"w": 2 * a[1:]}, fibres=step == "vectorize")


def test_an_iname_takes_the_name_of_a_parameter() -> None:
    base = made("{[k, q]: 0 <= k, q < n}", "f(p) := sum(q, a[q, p])\nw[k] = f(k)", "a", "n, n")
    knl = pl.rename_iname(base, "q", "p")
    check(knl, {"a": A}, {"w": A.sum(0)})
    assert str(knl.substitutions["f"]) == "f(p_0) := sum(p, a[p, p_0])"
    assert str(base.substitutions["f"]) == "f(p) := sum(q, a[q, p])"


def test_a_parameter_has_the_name_of_a_reduction_inside() -> None:
    knl = made("{[k, q]: 0 <= k, q < n}", "f(q) := q + sum(q, a[q, q])\nw[k] = f(k)", "a", "n, n")
    check(knl, {"a": A}, {"w": np.arange(5) + A.trace()})


def test_a_parameter_has_the_name_of_a_rule() -> None:
    knl = made("{[i]: 0 <= i < n}", "g(x) := x + 1\nf(g) := 2*g\nh(f) := f + g(f)\nw[i] = f(a[i]) + h(g(i))")
    a = A[0]
    check(knl, {"a": a}, {"w": 2 * a + 2 * (np.arange(5) + 1) + 1})
    refused_text("{[i]: 0 <= i < n}", "g(x) := x\nf(g) := g(1)\nw[i] = f(i)", "bad-rule-argument")


ON = np.arange(5)
SUMS = {
    "nested": ("w[k] = sum(q, sum(q, a[q, q])*a[k, q])", A.trace() * A.sum(1)),
    "three deep": ("w[k] = sum(q, a[k, q]*sum(q, a[k, q]*sum(q, a[q, q])))", A.trace() * A.sum(1) ** 2),
    "a rule below a sum": ("f(p) := sum(q, a[q, p])\nw[k] = sum(q, f(q)*a[k, q])", A @ A.sum(0)),
    "a rule of its own": ("f(p) := sum(q, a[q, p])\nw[k] = f(f(k) % 5)", A.sum(0)[A.sum(0) % 5]),
    "a rule in a loop over its iname": ("f(p) := sum(q, a[q, p])\nw[q] = f(q)", A.sum(0)),
    "and written": ("f(p) := sum(q, a[q, p])\nfor q\n w[q] = f(q)\nend", A.sum(0)),
    "a rule in a rule": ("f(p) := sum(q, a[q, p])\ng(p) := sum(q, f(q)*a[p, q])\nw[q] = g(q)", A @ A.sum(0)),
    "an iname of the place": ("f(p) := a[p, q]\nw[k] = sum(q, f(k))", A.sum(1)),
    "both": ("f(p) := a[p, q]*sum(q, a[q, p])\nw[k] = sum(q, f(k))", A.sum(1) * A.sum(0)),
    "twice beside": ("f(p) := sum(q, a[q, p])\nw[k] = f(k) + 2*f(k) + sum(q, a[k, q])", 3 * A.sum(0) + A.sum(1)),
    "in a subscript": ("f(p) := sum(q, a[q, p])\nw[q] = a[f(q) % 5, q]", A[A.sum(0) % 5, ON]),
    "of other names": ("f(q) := sum(k, a[k, q])\nw[k] = sum(q, f(k)*f(q))", A.sum(0) * A.sum()),
    "pairs": ("f(p) := sum((q, k), a[q, k])*p\nw[q] = sum(k, f(k) + q)", A.sum() * 10 + 5 * ON),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("case", SUMS)
def test_reductions_are_over_inames_of_their_own(case: str) -> None:
    text, want = SUMS[case]
    knl = made("{[k, q]: 0 <= k, q < n}", text, "a", "n, n")
    check(knl, {"a": A}, {"w": want})
    iname = knl.instructions[0].inames[0]
    check(pl.split_iname(knl, iname, 2), {"a": A}, {"w": want}, fibres=False)
    check(pl.split_iname(knl, iname, 2, outer_tag="g.0", inner_tag="l.0"), {"a": A}, {"w": want})


def test_a_copy_of_an_iname_has_the_bounds_of_its_place() -> None:
    text = "f(p) := sum(j, a[p, j])\nw[i] = sum(j, f(i)*a[i, j])"
    lower = np.tril(A)
    knl = made("{[i, j]: 0 <= j <= i < n}", text, "a", "n, n")
    check(knl, {"a": A}, {"w": lower.sum(1) ** 2})
    data = [pl.GlobalArg("a", INT, shape="n, n"), ...]
    apart = pl.make_kernel(["{[i]: 0 <= i < n}", "{[j]: 0 <= j <= i}"], text, data)
    check(apart, {"a": A}, {"w": lower.sum(1) ** 2})


def test_a_copy_brings_what_its_value_bounds() -> None:
    text = "f(p) := sum(q, sum(r, a[q, r]))\nw[k] = sum(q, f(k)*a[k, q])"
    data = [pl.GlobalArg("a", INT, shape="n, n"), ...]
    nested = ["{[k, q]: 0 <= k, q < n}", "{[r]: 0 <= r <= q}"]
    for domains in (nested, ["{[k]: 0 <= k < n}", "{[q, r]: 0 <= r <= q < n}"]):
        check(pl.make_kernel(domains, text, data), {"a": A}, {"w": np.tril(A).sum() * A.sum(1)})


def test_a_copy_knows_nothing_of_what_is_not_around_it() -> None:
    text = "f(p) := sum(q, a[q])\nw[q] = f(q)"
    data = [pl.GlobalArg("a, w", INT, shape="n + 1"), ...]
    knl = pl.make_kernel("{[i, q]: 0 <= i < n and i <= q <= i + 1}", text, data, assumptions="n >= 1")
    check(knl, {"a": A[0]}, {"w": np.full(5, A[0].sum())})


def test_a_loop_and_a_written_sum_over_one_iname_stay_refused() -> None:
    refused_text("{[i]: 0 <= i < n}", "w[i] = sum(i, a[i])", "iname-bound-twice")


FORWARD = "{[i]: 0 <= i < n}"
a0 = A[3]
PAIRS = np.array([*np.add.reduceat(a0, [0, 2, 4]), 0, 0])
TEXTS: dict[str, tuple[str, Arrays]] = {
    "on the left": ("g(x) := n - 1 - x\nw[g(i)] = a[i]", {"w": a0[::-1]}),
    "a name on the left": ("r := n - 1 - i\nw[r] = 2*a[r]", {"w": 2 * a0}),
    "an update": ("g(x) := n - 1 - x\nw[i] = 0\nw[g(i)] += a[i]", {"w": a0[::-1]}),
    "in if": ("g(x) := a[x] % 2\nw[i] = 1\nif g(i) > 0\n  w[i] = a[i]\nend", {"w": np.where(a0 % 2, a0, 1)}),
    "in elif": ("g(x) := x % 2\nif g(i) > 0\n w[i] = 1\nelif g(i + 1) > 0\n w[i] = 2\nend", {"w": 2 - ON % 2}),
    "in a condition": ("g(x) := a[x]\nw[i] = 0\nw[i] = 1 {if=g(i) > 3}", {"w": a0 > 3}),
    "an affine condition": ("g(x) := x - 2\nw[i] = 0\nw[i] = 1 {if=g(i) >= 0}", {"w": ON >= 2}),
    "in a subscript": ("g(x) := n - 1 - x\nw[i] = a[g(g(g(i)))]", {"w": a0[::-1]}),
    "in a sum": ("g(x) := a[x] + 1\nw[i] = sum(j, g(j)*g(i))", {"w": (a0 + 1).sum() * (a0 + 1)}),
    "in cse": ("g(x) := cse(a[x])\nw[i] = g(i)*cse(g(i))", {"w": a0 * a0}),
    "in cse on the left": ("g(x) := n - 1 - x\nw[cse(g(i))] = a[cse(g(i))]", {"w": a0}),
    "declared": ("g(x) := a[x]\n<> t = g(i)\nw[i] = t + g(i)", {"w": 2 * a0}),
    "several": ("g(x) := a[x]\n<> s, t = g(i), g(n - 1 - i)\nw[i] = s - t", {"w": a0 - a0[::-1]}),
    "atomic": ("g(x) := x // 2\nw[i] = 0\nw[g(j)] = w[g(j)] + a[j] {atomic}", {"w": PAIRS}),
    "nested": ("f(x) := x + 1\ng(x) := f(x)*f(x + 1)\nh(x) := g(f(x)) - g(x)\nw[i] = h(a[i])", {"w": 2 * (a0 + 2)}),
    "of no use": ("g(x) := a[x]\nw[i] = i", {"w": ON}),
}  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("case", TEXTS)
def test_rules_stand_wherever_expressions_do(case: str) -> None:
    text, want = TEXTS[case]
    knl = made("{[i, j]: 0 <= i, j < n}", text)
    check(knl, {"a": a0}, want)
    assert not {argument.name for argument in knl.arguments} - {"a", "w", "n"}
    if case not in ("atomic", "in cse on the left"):
        check(pl.split_iname(knl, "i", 2, outer_tag="g.0", inner_tag="l.0"), {"a": a0}, want)
    check(pl.fix_parameters(knl, n=5), {"a": a0}, want, fibres=False)


def refused_text(domains: str, text: str, code: str) -> str:
    with pytest.raises(pl.KernelError) as error:
        made(domains, text)
    assert error.value.codes == (code,)
    return str(error.value)


def test_rules_that_cannot_be(golden: Golden) -> None:
    text = refused_text(FORWARD, "t := a[i]\nt = 5\nw[i] = t", "name-taken")
    golden("messages/rule_on_the_left.txt", text)
    refused_text(FORWARD, "i := a[0]\nw[i] = i", "name-taken")
    refused_text(FORWARD, "n := a[0]\nw[i] = n", "name-taken")
    refused_text("{[i]: 0 <= i < m}", "m := n\nw[i] = a[n - 1]", "name-taken")
    sums = "{[i, k]: 0 <= i, k < n}"
    text = refused_text(sums, "g := sum(k, a[k])\nw[i] = 1 {if=g > 3}", "misplaced-reduction")
    golden("messages/reduction_in_a_condition.txt", text)
    refused_text(sums, "w[sum(k, a[k])] = 1", "misplaced-reduction")
    refused_text(sums, "w[i] = 1 {if=sum(k, a[k]) > 3}", "misplaced-reduction")


def doubled(count: int) -> str:
    rules = ["f0(x) := x + 1", *(f"f{k}(x) := f{k - 1}(x) + f{k - 1}(x)" for k in range(1, count))]
    return "\n".join([*rules, f"w[i] = f{count - 1}(a[i])"])


def test_rules_that_grow_are_refused_with_their_size(golden: Golden) -> None:
    check(made(FORWARD, doubled(8)), {"a": a0}, {"w": 2**7 * (a0 + 1)})
    text = refused_text(FORWARD, doubled(31), "rule-too-large")
    golden("messages/rule_too_large.txt", text)
    refused_text(FORWARD, doubled(300), "rule-too-large")
    deep = "\n".join(["f0(x) := x", *(f"f{k}(x) := 3*f{k - 1}(x)" for k in range(1, 999)), "w[i] = f998(a[i])"])
    refused_text(FORWARD, deep, "too-deep")
    calls = "f(x, y) := x\nw[i] = " + "f(" * 40 + "a[i]" + ", a[0])" * 40
    check(made(FORWARD, calls), {"a": a0}, {"w": a0})


def test_a_callee_brings_names_of_its_own() -> None:
    twice = pl.make_function(
        "{[k]: 0 <= k < m}", "g(i) := 2*v[i]\nf(n) := g(n)\nout[k] = f(k)*s",
        [pl.GlobalArg("v, out", shape="m"), pl.ValueArg("s", INT), ...], name="twice",
    )  # fmt: skip
    data = [pl.GlobalArg("a, w", INT, shape="n, n"), ...]
    for subscript, factor, want in (
        ("i", "3", 6 * A),
        ("g(i)", "g(i)", 2 * A[::-1] * (4 - ON)[:, None]),
        ("k", "f(i)", 2 * A[::-1] * ON[:, None] ** 2),
        ("i", "k", 2 * A * (4 - ON)[:, None]),
    ):
        text = f"g(p) := n - 1 - p\nf(k) := k*i\nk := g(i)\nfor i\n  w[i, :] = twice(a[{subscript}, :], {factor})\nend"
        knl = pl.make_kernel(FORWARD, text, data, functions=[twice], silenced_warnings="*")
        check(knl, {"a": A}, {"w": want})
        check(pl.split_iname(knl, "i", 2), {"a": A}, {"w": want}, fibres=False)


def test_a_callee_may_be_called_below_its_own_names() -> None:
    rows = pl.make_function(
        "{[q]: 0 <= q < m}", "g(p) := sum(q, v[q])*p\nout = g(s)",
        [pl.GlobalArg("v", shape="m"), pl.GlobalArg("out", shape=()), pl.ValueArg("s", INT), ...], name="rows",
    )  # fmt: skip
    data = [pl.GlobalArg("a", INT, shape="n, n"), pl.GlobalArg("w", INT, shape="n"), ...]
    text = "for q\n  w[q] = rows(a[q, :], sum(p, a[q, p]))\nend"
    knl = pl.make_kernel("{[p, q]: 0 <= p, q < n}", text, data, functions=[rows])
    check(knl, {"a": A}, {"w": A.sum(1) ** 2})


def test_parameters_of_python_functions_are_their_own() -> None:
    a = np.arange(6, dtype=INT) ** 2
    want = 2 * a[1:] + a[:5].sum() * ON + a[5]
    for knl in (with_functions, pl.split_iname(with_functions, "i", 2), pl.rename_iname(with_functions, "i", "z")):
        check(knl, {"a": a}, {"w": want})


def test_an_array_that_rules_are_given_can_be_fetched() -> None:
    base = made(FORWARD, "f(w, i) := w[i] + 1\ng(v, x) := f(v, x)*2\nw[i] = f(a, i) + g(a, i)")
    knl = pl.add_prefetch(pl.split_iname(base, "i", 2), "a", "i_inner", default_tag=None)
    for after in (base, knl, pl.rename_argument(base, "a", "x")):
        check(after, {"x" if after.argument("x") else "a": a0}, {"w": 3 * (a0 + 1)})


def test_conditions_keep_what_they_read() -> None:
    """A template that only a condition has is not found: conditions are no place for rules."""
    base = made("{[i, j]: 0 <= i, j < n}", "w[j] = 0\nw[i] = a[i] {if=a[i] <= 3}")
    refused(base, lambda k: pl.extract_subst(k, "g", "a[p] <= 3", "p"), "not-used")
    knl = pl.extract_subst(base, "g", "a[p]", "p")
    assert [str(i.predicates[0]) for i in knl.instructions if i.predicates] == ["a[i] <= 3"]
    for step in (pl.generate_code, lambda k: pl.tag_inames(k, "i:l.0"), lambda k: pl.split_iname(k, "i", 2)):
        step(knl)
    check(pl.split_iname(knl, "i", 2), {"a": a0}, {"w": np.where(a0 <= 3, a0, 0)})
