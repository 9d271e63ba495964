"""Rewriting: substitution, traversal, substitution rules."""

from __future__ import annotations

import pymbolic.primitives as p
import pytest
from hypothesis import given

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import (
    accesses,
    calls,
    children,
    free_variables,
    map_nodes,
    rebuild,
    reductions,
    substitute,
    variables,
)
from polyloop.expr.rules import expand_rules
from polyloop.kernel.instruction import SubstitutionRule
from tests.expr.strategies import expressions

INAMES = frozenset({"i", "j", "k"})


def parse(text: str) -> Expression:
    return parse_expression(text, inames=INAMES)


def rules(**texts: str) -> dict[str, SubstitutionRule]:
    found = {}
    for name, text in texts.items():
        arguments, expression = text.split(":")
        found[name] = SubstitutionRule.of(name, arguments.split(), parse(expression))
    return found


def test_substitution_replaces_names_but_no_functions() -> None:
    expr = parse("a[i, j + i] + f(i) + i")
    assert show(substitute(expr, {"i": parse("4*k + 1"), "f": p.Variable("g")})) == (
        "a[4*k + 1, j + (4*k + 1)] + f(4*k + 1) + (4*k + 1)"
    )


def test_substitution_renames_arrays() -> None:
    assert show(substitute(parse("a[i] + a[0, 1]"), {"a": p.Variable("b")})) == "b[i] + b[0, 1]"


def test_substitution_is_simultaneous() -> None:
    assert show(substitute(parse("i - j"), {"i": p.Variable("j"), "j": p.Variable("i")})) == "j - i"


@given(expressions)
def test_an_expression_without_the_name_stays_the_same_object(expr: Expression) -> None:
    assert substitute(expr, {"absent": 1}) is expr
    assert map_nodes(expr, lambda node: node) is expr


@given(expressions)
def test_a_node_is_rebuilt_from_its_operands(expr: Expression) -> None:
    parts = children(expr)
    if parts:
        assert rebuild(expr, parts) == expr


def test_a_reduction_iname_is_renamed_with_its_body() -> None:
    assert show(substitute(parse("sum(k, a[k])"), {"k": p.Variable("m")})) == "sum(m, a[m])"


def test_a_reduction_hides_its_iname_from_an_expression() -> None:
    assert show(substitute(parse("sum(k, a[k, n]) + k"), {"k": 3, "n": 4})) == "sum(k, a[k, 4]) + 3"


def test_a_reduction_iname_is_split() -> None:
    value = parse("16*ko + ki")
    split = substitute(parse("sum(k, a[k])"), {"k": value}, bound={"k": ("ko", "ki")})
    assert show(split) == "sum((ko, ki), a[16*ko + ki])"
    renamed = substitute(parse("1 + sum((i, k), a[k, i])"), {"k": value}, bound={"k": ("ko", "ki")})
    assert show(renamed) == "1 + sum((i, ko, ki), a[16*ko + ki, i])"


def test_what_is_put_into_a_reduction_is_never_bound_by_it() -> None:
    with pytest.raises(KernelError) as error:
        substitute(parse("1 + sum(k, a[k, n])"), {"n": parse("k + 1")})
    (found,) = error.value.found
    assert (found.code, found.message) == ("captured-name", "'k' would mean the iname of a reduction inside of it")
    assert found.hints
    assert show(substitute(parse("sum(k, a[k]) + n"), {"n": parse("k + 1")})) == "sum(k, a[k]) + (k + 1)"


def test_variables_are_all_names_but_functions() -> None:
    expr = parse("a[b[i]] + f(x) + sum(k, c[k]) + cast(int32, y)*if(z, 1, 2)")
    assert variables(expr) == {"a", "b", "i", "x", "k", "c", "y", "z"}
    assert free_variables(expr) == {"a", "b", "i", "x", "c", "y", "z"}
    assert free_variables(parse("k + sum(k, c[k])")) == {"c", "k"}


def test_accesses_are_in_the_order_of_evaluation() -> None:
    assert [show(node) for node in accesses(parse("a[b[i]] + x*a[0]"))] == ["i", "b[i]", "a[b[i]]", "x", "a[0]"]


def test_reductions_and_calls_are_listed_outer_first() -> None:
    expr = parse("sum(i, f(max(j, g(a[j])))) + h(1)")
    assert [node.operation.name for node in reductions(expr)] == ["sum", "max"]
    assert [node.function.name for node in calls(expr)] == ["f", "g", "h"]


def test_map_nodes_sees_operands_before_the_node() -> None:
    seen: list[str] = []

    def note(node: Expression) -> Expression:
        seen.append(show(node))
        return 7 if node == p.Variable("i") else node

    assert show(map_nodes(parse("a[i]*2"), note)) == "a[7]*2"
    assert seen == ["i", "a[7]", "2", "a[7]*2"]


def test_a_negated_name_becomes_what_the_parser_makes_of_its_value() -> None:
    for value in ("3", "x*y", "-x", "x/y", "x + y"):
        assert substitute(parse("a - i"), {"i": parse(value)}) == parse(f"a - ({value})")


def test_rules_are_expanded_in_each_other() -> None:
    known = rules(f="x y: x*g(y)", g="x: x + a[i]", h=": f(1, 2)")
    assert show(expand_rules(parse("f(u, v) - h + h()"), known)) == ("u*(v + a[i]) - (2 + a[i]) + 1*(2 + a[i])")


def test_a_parameter_can_stand_for_an_array() -> None:
    known = rules(f="x y: x[y + 1]")
    assert show(expand_rules(parse("f(a, i)"), known)) == "a[i + 1]"


def test_a_parameter_hides_a_rule() -> None:
    assert show(expand_rules(parse("f(3)"), rules(f="g: g + 1", g=": 5"))) == "3 + 1"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("f(1)", "wrong-argument-count", "rule 'f' takes 2 arguments, not 1"),
        ("f", "wrong-argument-count", "rule 'f' takes 2 arguments, not 0"),
        ("r(1)", "recursive-rule", "rule 'r' uses itself"),
        ("q(1)", "recursive-rule", "rule 'r' uses itself"),
        ("s(1 + 2)", "bad-rule-argument", "rule 's' subscripts its parameter 'x', which is given an expression"),
    ],
)
def test_a_wrong_use_of_a_rule_is_refused(text: str, code: str, message: str) -> None:
    known = rules(f="x y: x*y", r="x: t(x)", t="x: r(x)", q="x: r(x)", s="x: x[0]")
    with pytest.raises(KernelError) as error:
        expand_rules(parse(text), known)
    (found,) = error.value.found
    assert (found.code, found.message) == (code, message)
    assert found.hints


def test_the_circle_of_rules_is_named() -> None:
    with pytest.raises(KernelError) as error:
        expand_rules(parse("r(1)"), rules(r="x: t(x)", t="x: r(x)"))
    assert error.value.found[0].notes == ("r -> t -> r",)


def test_an_unknown_node_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="unexpected node"):
        children(p.Lookup(p.Variable("a"), "b"))


def test_reduction_equality_is_structural() -> None:
    assert parse("sum(k, a[k])") == Reduction(OPERATIONS["sum"], ("k",), parse("a[k]"))
