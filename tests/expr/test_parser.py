"""Parsing: which node each spelling means, and where the caret stands when there is none."""

from __future__ import annotations

import time

import pymbolic.primitives as p
import pytest

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression, Reduction, TypeCast, negate
from polyloop.expr.operations import OPERATIONS
from polyloop.expr.parser import parse_expression

A, B, C, I, J, X = (p.Variable(name) for name in ("a", "b", "c", "i", "j", "x"))  # noqa: E741
INAMES = frozenset({"i", "j", "k"})


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b + c", p.Sum((A, B, C))),
        ("a - b", p.Sum((A, p.Product((-1, B))))),
        ("a - 2", p.Sum((A, -2))),
        ("a - 2*b", p.Sum((A, p.Product((-2, B))))),
        ("a + (b + c)", p.Sum((A, p.Sum((B, C))))),
        ("-a", p.Product((-1, A))),
        ("-2.5", -2.5),
        ("a*b*c", p.Product((A, B, C))),
        ("a / b", p.Quotient(A, B)),
        ("a // 2 % 3", p.Remainder(p.FloorDiv(A, 2), 3)),
        ("a ** b", p.Power(A, B)),
        ("-a ** 2", p.Product((-1, p.Power(A, 2)))),
        ("a & b | c ^ 1", p.BitwiseOr((p.BitwiseAnd((A, B)), p.BitwiseXor((C, 1))))),
        ("a << 1 >> b", p.RightShift(p.LeftShift(A, 1), B)),
        ("~a", p.BitwiseNot(A)),
        ("a < b", p.Comparison(A, "<", B)),
        ("0 < a <= 3", p.LogicalAnd((p.Comparison(0, "<", A), p.Comparison(A, "<=", 3)))),
        ("a and not b or c", p.LogicalOr((p.LogicalAnd((A, p.LogicalNot(B))), C))),
        ("a if b else c", p.If(B, A, C)),
        ("if(a, b, c)", p.If(A, B, C)),
        ("1 + if (a, if(b, 1, 2), c)", p.Sum((1, p.If(A, p.If(B, 1, 2), C)))),
        ("a if (b) else if(c, 1, 2)", p.If(B, A, p.If(C, 1, 2))),
        ("x[i]", p.Subscript(X, I)),
        ("x[i, j]", p.Subscript(X, (I, J))),
        ("f(a, 1)", p.Call(p.Variable("f"), (A, 1))),
        ("min(a, b)", p.Min((A, B))),
        ("max(a, b, c)", p.Max((A, B, C))),
        ("max(i, x[i])", Reduction(OPERATIONS["max"], ("i",), p.Subscript(X, I))),
        ("sum((i, j), x[i, j])", Reduction(OPERATIONS["sum"], ("i", "j"), p.Subscript(X, (I, J)))),
        ("product([i], a)", Reduction(OPERATIONS["product"], ("i",), A)),
        ("reduce(min, i, a)", Reduction(OPERATIONS["min"], ("i",), A)),
        ("any(i, a)", Reduction(OPERATIONS["any"], ("i",), A)),
        ("cast(float32, a)", TypeCast("float32", A)),
        ("cast(np.int8, a)", TypeCast("int8", A)),
        ("0x10", 16),
        ("9223372036854775808", 2**63),
        ("  a +\n  b", p.Sum((A, B))),
        ("True", True),
    ],
)
def test_text_means(text: str, meaning: Expression) -> None:
    parsed = parse_expression(text, inames=INAMES)
    assert parsed == meaning
    assert type(parsed) is type(meaning)


def test_without_known_inames_a_bare_name_first_makes_a_reduction() -> None:
    assert parse_expression("max(q, x)") == Reduction(OPERATIONS["max"], ("q",), X)
    assert parse_expression("max(1, x)") == p.Max((1, X))


def test_a_sum_of_500_terms_is_one_node() -> None:
    parsed = parse_expression(" + ".join(f"a{i}*2" for i in range(500)))
    assert len(parsed.children) == 500


@pytest.mark.parametrize(
    ("text", "code", "column", "message"),
    [
        ("a +", "syntax", 3, "the expression ends too early"),
        ("", "syntax", 0, "an expression is missing"),
        ("3 in", "syntax", 2, "'in' is a reserved word"),
        ("a b", "syntax", 2, "this is not an expression"),
        ("a + x[i][j]", "syntax", 4, "only an array name can be subscripted"),
        ("if(a, b, c) + f(x", "syntax", 15, "'(' was never closed"),
        ("a*1.0h", "syntax", 5, "a number runs into 'h'"),
        ("2 + 1i", "syntax", 5, "a number runs into 'i'"),
        ("1e39f", "syntax", 4, "a number runs into 'f'"),
        ("5000000000u", "syntax", 10, "a number runs into 'u'"),
        ("a = b", "syntax", 2, "this is not an expression"),
        ("a + \u00e9", "syntax", 4, "unexpected '\u00e9'"),
        ("np.pi", "syntax", 0, "this attribute is not an expression of a kernel"),
        ("x[1:2]", "syntax", 2, "a slice is not an expression of a kernel"),
        ("a @ b", "syntax", 2, "unexpected '@'"),
        ("f(*a)", "syntax", 2, "'*' before an argument is not an expression of a kernel"),
        ("f(a=b)", "syntax", 0, "keyword arguments are not allowed in a kernel"),
        ("1e999", "syntax", 0, "this number does not fit float64"),
        ("18446744073709551616", "syntax", 0, "this integer does not fit 64 bits"),
        ("9" * 5000, "syntax", 0, "an integer does not fit 64 bits"),
        ("-" * 20000 + "a", "syntax", 0, "this expression is nested too deeply"),
        ("a is b", "syntax", 0, "'in' and 'is' are not operators of a kernel"),
        ("(a, b)", "syntax", 0, "a tuple is not an expression of a kernel"),
        ("None", "syntax", 0, "this is not an expression of a kernel"),
        ("if(a, b)", "wrong-argument-count", 0, "'if' does not take 2 arguments"),
        ("1 + max(a)", "wrong-argument-count", 4, "'max' does not take 1 argument"),
        ("sum(i)", "wrong-argument-count", 0, "'sum' does not take 1 argument"),
        ("a + sum(kk, a)", "unknown-iname", 8, "no iname 'kk'"),
        ("sum((i, i), a)", "duplicate-iname", 8, "iname 'i' is named twice"),
        ("cast(flot32, a)", "unknown-dtype", 5, "no element type 'flot32'"),
        ("a + float", "reserved-name", 4, "'float' is a keyword of C or C++"),
        ("a + __b", "bad-identifier", 4, "'__b' is not a valid name"),
    ],
)
def test_refusal_names_the_fault_and_its_place(text: str, code: str, column: int, message: str) -> None:
    with pytest.raises(KernelError) as error:
        parse_expression(text, inames=INAMES)
    (found,) = error.value.found
    assert (found.code, found.message) == (code, message)
    assert found.span is not None
    assert found.span.column == column
    assert found.hints


def test_the_caret_is_placed_in_the_line_that_the_user_wrote() -> None:
    with pytest.raises(KernelError) as error:
        parse_expression("b + c[", line=3, column=9, source_line="  a[i] = b + c[")
    assert str(error.value).splitlines()[:3] == [
        "make_kernel: '[' was never closed [syntax]",
        "    a[i] = b + c[    (line 3)",
        "                ^",
    ]


def test_the_caret_counts_columns_behind_an_if_call_and_in_a_second_line() -> None:
    with pytest.raises(KernelError) as error:
        parse_expression("if(a, b, c)\n  + d e")
    span = error.value.found[0].span
    assert span is not None
    assert (span.line, span.text[span.column :]) == (2, "e")


def test_negation_undoes_itself() -> None:
    for text in ("a", "2", "a*b", "a - b", "a/b", "2*a"):
        parsed = parse_expression(text)
        assert negate(negate(parsed)) == parsed


def test_parsing_takes_microseconds() -> None:
    text = "a[i, k]*b[k, j] + " * 4 + "sum(k, c[k, i - 1]) - 2*x"
    best = min(_seconds(text) for _ in range(20))
    assert best < 2e-3


def _seconds(text: str) -> float:
    begin = time.process_time()
    parse_expression(text)
    return time.process_time() - begin


@pytest.mark.parametrize(
    "text", ["2f[i]", "2f(i)", "2f.x", "sum(2f, a[k])", "cast(2f, a)", "reduce(2u, k, a[k])", "0l[i, k]", "cse(a, 2f)"]
)
def test_a_literal_with_a_suffix_is_no_name(text: str) -> None:
    """Found by mutated statements: what stands for the literal was taken for the name of an array."""
    with pytest.raises(KernelError) as refused:
        parse_expression(text)
    assert "\u00e8" not in refused.value.found[0].message
