"""``extract_subst``, ``expand_subst``, ``find_rules_matching`` and ``assignment_to_subst``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay
from tests.transform.kernels import F, matmul, spread

Golden = Callable[[str, str], None]


def products() -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n + 1"), pl.GlobalArg("out", F, shape="n"), ...]
    text = "out[i] = sin(2*a[i])*sin(2*a[i + 1]) + a[i] {id=one}"
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="products")


def test_a_rule_of_what_looks_alike() -> None:
    base = products()
    knl = pl.extract_subst(base, "s", "sin(2*a[x])", "x")
    assert "s(x) := sin(2*a[x])" in str(knl)
    assert "out[i] = s(i)*s(i + 1) + a[i]" in str(knl)
    assert cuda(knl) == cuda(base)
    same_after_replay(base, knl)
    refused(knl, lambda k: pl.extract_subst(k, "twice", "2*y", parameters=["y"], within="id:one"), "not-used")
    ahead = pl.precompute(spread(knl), "s", "i_inner")
    for n in (1, 16, 18):
        a = np.linspace(0, 1, n + 1, dtype=F)
        check(ahead, {"a": a}, {"out": np.sin(2 * a[:-1]) * np.sin(2 * a[1:]) + a[:-1]}, rtol=1e-5)


def test_rules_inside_of_rules_and_sums() -> None:
    base = matmul()
    knl = pl.extract_subst(pl.extract_subst(base, "left", "a[r, s]", "r, s"), "right", "b[r, s]", "r, s")
    assert pl.find_rules_matching(knl, "*t") == ("left", "right")
    assert pl.find_rules_matching(knl, "r*") == ("right",)
    assert cuda(knl) == cuda(base)
    knl = pl.split_iname(pl.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0"), "k", 8)
    knl = pl.precompute(knl, "left", "i_inner, k_inner")
    for n in (1, 9):
        a, b = (np.arange(n * n, dtype=F).reshape(n, n) % 7 - k for k in range(2))
        check(knl, {"a": a, "b": b}, {"c": a @ b})
    assert not pl.expand_subst(pl.extract_subst(base, "left", "a[r, s]", "r, s")).substitutions


def test_rules_are_put_in_place() -> None:
    knl = pl.extract_subst(products(), "s", "sin(2*a[x])", "x")
    plain = pl.expand_subst(knl)
    assert str(plain.instructions[0]) == str(products().instructions[0])
    assert not plain.substitutions
    same_after_replay(products(), plain)
    assert pl.expand_subst(knl, "id:one").substitutions == {}


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("not-used", ("s", "cos(a[x])", "x")),
        ("bad-rule-argument", ("s", "a[i]", "x")),
        ("name-taken", ("a", "a[x]", "x")),
        ("name-taken", ("s", "a[n]", "n")),
        ("unknown-instruction", ("s", "a[x]", "x", "id:nobody")),
        ("syntax", ("s", "a[x", "x")),
    ],
)
def test_templates_that_cannot_be(code: str, arguments: tuple[str, ...]) -> None:
    with pytest.raises(pl.TransformError) as caught:
        pl.extract_subst(products(), *arguments)
    assert code in caught.value.codes


def staged(text: str = "", **options: Any) -> pl.LoopKernel:
    data = [
        pl.GlobalArg("a", F, shape="n + 1"),
        pl.GlobalArg("out", F, shape="n"),
        pl.TemporaryVariable("t", F, shape="n + 1"),
        ...,
    ]
    text = text or "t[i] = 2*a[i] + 1 {id=set}\nout[j] = t[j]*t[j + 1] {id=use, dep=set}"
    return pl.make_kernel("{[i, j]: 0 <= i <= n and 0 <= j < n}", text, data, name="staged", **options)


def check_staged(knl: pl.LoopKernel) -> None:
    for n in (1, 4, 9):
        a = np.arange(n + 1, dtype=F)
        t = 2 * a + 1
        check(knl, {"a": a}, {"out": t[:-1] * t[1:]})


def test_an_assignment_becomes_a_rule() -> None:
    base = staged()
    knl = pl.assignment_to_subst(base, "t")
    assert "t_subst(i_) := 2*a[i_] + 1" in str(knl)
    assert "t" not in knl.temporaries
    assert knl.instruction("use").depends_on == frozenset()
    check_staged(knl)
    same_after_replay(base, knl)
    check_staged(pl.precompute(pl.split_iname(knl, "j", 4, outer_tag="g.0", inner_tag="l.0"), "t_subst", "j_inner"))


def test_after_other_transforms() -> None:
    knl = pl.split_iname(pl.split_iname(staged(), "i", 2), "j", 4, inner_tag="l.0")
    knl = pl.assignment_to_subst(knl, "t")
    assert "t_subst(4*j_outer + j_inner)" in str(knl)
    check_staged(pl.tag_inames(knl, "j_outer:g.0"))


def test_a_value_of_each_iteration() -> None:
    text = "for i, j\n    t = a[i] + j {id=set}\n    out[i, j] = t*t {id=use}\nend"
    data = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("out", F, shape="n, n"), pl.TemporaryVariable("t", F), ...]
    base = pl.make_kernel("{[i, j]: 0 <= i, j < n}", text, data, name="each")
    free = pl.assignment_to_subst(base, "t")
    assert "t_subst() := a[i] + j" in str(free)
    given = pl.assignment_to_subst(base, "t", extra_arguments="j")
    assert "t_subst(j_) := a[i] + j_" in str(given)
    split = pl.assignment_to_subst(pl.split_iname(base, "j", 4), "t")
    for knl in (free, given, split, pl.split_iname(free, "i", 4, inner_tag="l.0")):
        for n in (1, 5):
            a = np.arange(n, dtype=F)
            check(knl, {"a": a}, {"out": (a[:, None] + np.arange(n, dtype=F)) ** 2})


def test_only_some_uses() -> None:
    base = staged("t[i] = 2*a[i] + 1 {id=set}\nout[j] = t[j] {id=one}\nout[j] = out[j]*t[j + 1] {id=two}")
    knl = pl.assignment_to_subst(base, "t", within="id:two")
    assert "t" in knl.temporaries
    assert "out[j] = t[j]" in str(knl)
    check_staged(knl)
    same_after_replay(base, knl)


def test_after_the_subscripts_have_changed() -> None:
    """A subscript that a transform has shifted is not the one that the rule would take."""
    text = "for i\n    t[i] = a[i] + 1 {id=set}\n    out[i] = t[i]*2 {id=use}\nend"
    data = [pl.GlobalArg("a, out", F, shape="8"), pl.TemporaryVariable("t", F, shape=8), ...]
    base = pl.make_kernel("{[i]: 2 <= i < 8}", text, data, name="shifted")
    bare = pl.unprivatize_temporaries_with_inames(base, "i")
    refused(bare, lambda k: pl.assignment_to_subst(k, "t"), "bad-instructions")
    shifted = pl.privatize_temporaries_with_inames(bare, "i")
    assert "t[i - 2]" in str(shifted)
    refused(shifted, lambda k: pl.assignment_to_subst(k, "t"), "bad-instructions")


def test_a_conversion_stays() -> None:
    """The variable is an integer: what is put in its place must be one."""
    data = [pl.GlobalArg("a, out", F, shape="n"), pl.TemporaryVariable("t", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "t[i] = a[i]*a[i]\nout[j] = t[j] + 1", data, name="whole")
    knl = pl.assignment_to_subst(knl, "t")
    assert "cast(int32" in str(knl)
    a = np.linspace(0, 3, 9, dtype=F)
    check(knl, {"a": a}, {"out": (a * a).astype(np.int32) + 1})


ASSIGNMENTS: dict[str, tuple[str, str]] = {
    "overwritten": ("illegal-order", "t[i] = 2*a[i] {id=set}\na[i] = 3 {id=kill}\nout[j] = t[j]*t[j + 1] {id=use}"),
    "two": ("bad-instructions", "t[i] = 2*a[i] {id=set}\nt[i] = 1 {id=again}\nout[j] = t[j]*t[j + 1] {id=use}"),
    "condition": ("bad-instructions", "t[i] = 2*a[i] {id=set, if=a[i] > 0}\nout[j] = t[j] {id=use, if=a[j] > 0}"),
    "shifted": ("bad-instructions", "t[n - i] = 2*a[i] {id=set}\nout[j] = t[j] {id=use}"),
    "reduction": ("bad-instructions", "t[i] = sum(k, a[k]) {id=set}\nout[j] = t[j] {id=use}"),
}


@pytest.mark.parametrize("case", ASSIGNMENTS)
def test_assignments_that_stay(case: str, golden: Golden) -> None:
    code, text = ASSIGNMENTS[case]
    data = [pl.GlobalArg("a", F, shape="n + 1"), pl.GlobalArg("out", F, shape="n")]
    temporary = pl.TemporaryVariable("t", F, shape="n + 1")
    inames = "i, j, k" if case == "reduction" else "i, j"
    domain = f"{{[{inames}]: 0 <= i{', k' if case == 'reduction' else ''} <= n and 0 <= j < n}}"
    knl = pl.make_kernel(domain, text, [*data, temporary, ...], name="staged")
    golden(f"messages/assignment_{case}.txt", refused(knl, lambda k: pl.assignment_to_subst(k, "t"), code))


def test_what_is_staged_already_is_refused() -> None:
    knl = pl.add_prefetch(pl.split_iname(staged(), "j", 4), "t", "j_inner")
    refused(knl, lambda k: pl.assignment_to_subst(k, "t"), "already-staged")
    refused(staged(), lambda k: pl.assignment_to_subst(k, "u"), "unknown-variable")
    refused(staged(), lambda k: pl.assignment_to_subst(k, "out"), "not-used")


def test_integers_are_folded_and_subscripts_written_out() -> None:
    text = "out[i] = 2*3*a[2*(i + 1) - i - 4 // 2] + (3 + x)*0.5 + 7 % 4 + x*2*3 {id=one}"
    data = [pl.GlobalArg("a, out", F, shape="n"), pl.ValueArg("x", F), ...]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="spelt")
    knl = pl.simplify_indices(pl.fold_constants(base))
    assert "out[i] = 6*a[i] + (3 + x)*0.5 + 3 + x*2*3" in str(knl)
    a = np.arange(5, dtype=F)
    check(knl, {"a": a, "x": F(3)}, {"out": 6 * a + 3 + 3 + 18})
    same_after_replay(base, knl)
    large = pl.make_kernel("{[i]: 0 <= i < n}", "out[i] = 4096*8192*a[i]", [*data[:1], ...], name="large")
    assert str(pl.fold_constants(large).instructions[0]) == str(large.instructions[0])


def test_instructions_go_first_where_they_may() -> None:
    text = "t = a[i] {id=one}\nu = b[i] {id=two}\nout[i] = t + u {id=last}"
    arrays = [pl.GlobalArg("a, b, out", F, shape="n"), pl.TemporaryVariable("t, u", F)]
    base = pl.make_kernel("{[i]: 0 <= i < n}", text, [*arrays, ...], name="two_loads")
    knl = pl.set_instruction_priority(base, "id:two", 1)
    assert [i.id for i in knl.instructions] == ["two", "one", "last"]
    a = np.arange(5, dtype=F)
    check(knl, {"a": a, "b": a}, {"out": 2 * a})
    same_after_replay(base, knl)
    assert [i.id for i in pl.set_instruction_priority(base, "one", -1).instructions] == ["two", "one", "last"]
    assert [i.id for i in pl.set_instruction_priority(base, "last", 5).instructions] == ["one", "two", "last"]
    refused(base, lambda k: pl.set_instruction_priority(k, "nobody", 1), "unknown-instruction")


def test_a_map_that_a_rules_reduction_cannot_follow_is_refused() -> None:
    """The rule has a reduction over ``j`` alone; a map of both inames would leave it without ``i``."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"],
        "l1() := sum(j, v[j])\no[i, j] = 2 + i",
        [pl.GlobalArg("v", np.float64, shape="m"), pl.GlobalArg("o", np.float64, shape="n, m"), ...],
    )
    with pytest.raises(pl.TransformError) as error:
        pl.map_domain(knl, "{[i, j] -> [i, t]: t = i + j}")
    assert error.value.codes == ("partly-mapped",)
    assert "the rule 'l1' has a reduction over 'j', but not over 'i'" in str(error.value)
    with pytest.raises(pl.TransformError, match=r"write-race|illegal"):  # the search for a skew that helps passes it by
        pl.split_iname(pl.make_kernel(
            ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < m}"],
            "l1() := sum(j, v[j])\nfor i\n  for j\n    o[j] = o[j] + i\n  end\nend",
            [pl.GlobalArg("v, o", np.float64, shape="m"), ...],
        ), "i", 2, inner_tag="l.1")  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "x"), [("int32", "(i + 3)*1000000000", 0), ("float16", "x[i]*x[i]", 300), ("float32", "0.1", 0)]
)
def test_a_rule_keeps_the_type_of_the_temporary(kind: str, value: str, x: float) -> None:
    wide = np.int64 if kind == "int32" else np.float64
    data = [pl.GlobalArg("x", np.float16, shape="1"), pl.GlobalArg("y", wide, shape="1"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 1}", [f"<{kind}> t[i] = {value}", "y[i] = t[i]"], data)
    given = {"x": np.array([x], np.float16)} if "x[i]" in value else {}
    expected = pl.interpret(knl, **given)["y"]
    changed = pl.assignment_to_subst(knl, "t")
    np.testing.assert_array_equal(pl.interpret(changed, **given)["y"], expected)
    np.testing.assert_array_equal(pl.compile(changed, target=pl.CTarget())(**given)["y"], expected)


def test_templates_name_inames_that_were_split_since() -> None:
    data = [pl.GlobalArg("a, y", np.float64, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 1 <= i < n}", "y[i] = a[i - 1]*2 + a[i - 1]", data).split_iname("i", 8)
    knl = knl.extract_subst("prev", "a[i - 1]").precompute("prev", "i_inner", default_tag=None)
    assert knl.temporaries["prev_value"].shape == (8,)
    a = np.arange(12.0)
    np.testing.assert_array_equal(pl.interpret(knl, a=a, y=np.zeros(12))["y"][1:], 3 * a[:-1])
