"""C expressions are nodes: their parentheses, and what passes over them see in them that is no variable."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyloop.codegen.expressions.combine import compound
from polyloop.codegen.names import Names
from polyloop.codegen.scope import Memory
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.branches import one_rest, unswitched
from polyloop.codegen.tree.c_ast import Assign, Block, Call, Declare, For, If, Verbatim
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.tree.divergence import MATRIX, refuse_divergent
from polyloop.codegen.tree.fold_initial_value import begun
from polyloop.codegen.tree.indices import Indices
from polyloop.codegen.tree.shuffles import shared_shuffles
from polyloop.errors import CodegenError
from polyloop.expr.parser import parse_expression
from polyloop.kernel.arrays import AddressSpace
from polyloop.mapping.mixed_radix import Digit
from polyloop.poly.affine import Affine
from polyloop.schedule.storage import Lane, Storage
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen.c_parser import parsed

TEMPORARIES = frozenset({"t", "u", "r", "acc", "lane"})


# {{{ parentheses


def drawn(rng: Random, depth: int) -> Code:
    """Return an expression of whole numbers."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([c.Name("a"), c.integer(rng.randint(-3, 9)), parsed("f(a, -1)"), parsed("x[-a]")])
    parts = [drawn(rng, depth - 1) for _ in range(3)]
    match rng.randint(0, 5):
        case 0:
            return c.Choice(*parts)
        case 1:
            return c.Unary(rng.choice([c.NEGATIVE, c.OPPOSITE, c.NOT, c.COMPLEMENT]), parts[0])
        case 2:
            return c.Cast("int", parts[0])
        case 3:
            return c.Apply("f", tuple(parts))
        case _:
            shared = [*c.OPERATORS.values(), *c.APART.values(), c.INDEX_PLUS, c.INDEX_MINUS, c.INDEX_XOR, c.INDEX_AND,
                      c.SHIFTED_AND, *c.INDEX_SHIFT.values()]  # fmt: skip
            first = rng.choice(shared)
            alike = [other for other in shared if (other.level, other.first) == (first.level, first.first)]
            return c.Binary(parts[0], tuple((rng.choice(alike), part) for part in parts[1 : rng.randint(2, 3)]))


def shape(code: Code) -> object:
    """Return what an expression means, without how it is written."""
    match code:
        case c.Parentheses(inner):
            return shape(inner)
        case c.Unary(prefix, operand):
            return prefix.symbol, shape(operand)
        case c.Binary(first, rest):
            found = shape(first)
            for operator, operand in rest:
                found = (found, operator.symbol, shape(operand))
            return found
        case c.Name(text) | c.Literal(text):
            return text
        case c.Cast(kind, operand):
            return kind, shape(operand)
        case c.Apply(function, arguments):
            return function, *map(shape, arguments)
        case _:
            return type(code).__name__, *map(shape, code.parts)


@pytest.mark.few(7)
@pytest.mark.parametrize("seed", range(20))
def test_a_c_compiler_reads_the_tree_that_was_printed(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        code = drawn(rng, 4)
        assert shape(parsed(code.text)) == shape(code), code.text


def test_terms_of_an_index_are_no_sums_of_their_own() -> None:
    mark = c.Binary(c.Name("n"), ((c.INDEX_PLUS, c.Name("i")), (c.MINUS, c.Name("j"))))
    of_sum = {"i": parsed("a + b"), "j": parsed("a - b")}
    assert c.put(mark, of_sum).text == "n + a + b - (a - b)"
    assert c.put(c.binary(c.PLUS, c.Name("x"), c.Name("i")), of_sum).text == "x + (a + b)"
    assert c.put(parsed("(long)i * i[i] / f(i)"), of_sum).text == "(long)(a + b) * (a + b)[a + b] / f(a + b)"
    assert c.total([parsed("a - b"), parsed("-3 * x"), parsed("-y + z")]).text == "a - b - 3 * x - y + z"
    assert c.product(parsed("i"), parsed("n * m")).text == "i * n * m"
    assert c.product(parsed("i"), parsed("n / 2 * m")).text == "i * (n / 2 * m)"


def test_conditions_are_joined_by_what_they_are() -> None:
    """A choice inside of a subscript is none between conditions."""
    assert c.conjunction([parsed("a && b"), parsed("x[p || q ? 1 : 0] > 0"), parsed("c || d")]).text == (
        "a && b && x[p || q ? 1 : 0] > 0 && (c || d)"
    )


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("x[i] + y", ("+=", "y")),
        ("x[i] * (a + b)", ("*=", "(a + b)")),
        ("x[i] + y - z", ("=", "x[i] + y - z")),
        ("x[i + 1] + y", ("=", "x[i + 1] + y")),
        ("(unsigned int)x[i] + y", ("+=", "(unsigned int)y")),
    ],
)
def test_an_update_is_seen_by_its_first_operand(value: str, wanted: tuple[str, str]) -> None:
    lhs, rhs = parse_expression("x[i]"), parse_expression("x[i] + y")
    operator, new = compound(parsed("x[i]"), parsed(value), lhs, rhs, np.dtype("int32"), "unsigned int")
    assert (operator, new.text) == wanted


# }}}
# {{{ may two loops be fused?


def rest(target: str, value: str, test: str = "i < 4") -> For:
    return For("int", "i", parsed("0"), parsed(test), (put(target, value),), is_rest=True)


def put(target: str, value: str, operator: str = "=") -> Assign:
    return Assign(parsed(target, TEMPORARIES), operator, parsed(value, TEMPORARIES), "s")


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        (rest("t[i]", "x[i]"), rest("y[i]", "s[3].t + t(i) + t[i]"), True),  # a field, and a function
        (rest("t[i].re", "x[i]"), rest("y[i]", "t[i].im"), True),
        (rest("t[i]", "x[i]"), rest("y[i]", "f(t[i + 1])"), False),
        (rest("t[i]", "x[i]"), rest("y[i]", "(t)[i]"), False),
        (rest("t[i]", "x[i]"), rest("y[i]", "z[t[i]]"), True),
        (rest("t[i]", "x[i]"), rest("y[t[3]]", "z[i]"), False),
        (rest("m", "x[i]", "i < m"), rest("y[i]", "x[i]", "i < m"), False),  # what decides how many lanes there are
        (rest("t[i]", "x[i]", "i < t[0]"), rest("y[i]", "z[i]", "i < t[0]"), False),
        (rest("p.t[i]", "x[i]"), rest("y[i]", "p.s[i]"), False),  # which may share their memory
    ],
)
def test_loops_are_one_where_each_lane_keeps_to_itself(first: For, second: For, is_one: bool) -> None:
    assert (one_rest(first, second) is not None) is is_one


@pytest.mark.parametrize(("condition", "is_ahead"), [("a.i < n", True), ("i(n) < n", True), ("b[i] < n", False)])
def test_a_choice_that_does_not_name_the_variable_stands_ahead_of_the_loop(condition: str, is_ahead: bool) -> None:
    choice = If(parsed(condition), (put("x[i]", "1"),), (put("x[i]", "2"),), is_choice=True)
    (node,) = unswitched(For("int", "i", parsed("0"), parsed("i < n"), (choice,)))
    assert isinstance(node, If) is is_ahead


# }}}
# {{{ do all lanes reach a shuffle?


def scope(**others: Any) -> Any:
    lane = Lane(0, ())
    storage = {n: Storage(n, np.dtype("float32"), (), AddressSpace.PRIVATE, lane=lane) for n in ("t", "u")}
    found: Any = SimpleNamespace(
        memory=Memory(storage=storage), values={"l.0": "tx", "l.1": "ty", "l.2": "tz"}, language=CUDA_LANGUAGE,
        indices=Indices(), names=Names(()),
        definitions=SimpleNamespace(helper_names={}, foreign_functions={}), **others,
    )  # fmt: skip
    found.ctype = lambda dtype: "float"
    found.error = lambda problem: CodegenError("generate_code", "k", [problem])
    return found


MASK = "0xffffffffu"
SHUFFLE = f"__shfl_sync({MASK}, t, 31 - tx)"
USE = put("r", SHUFFLE)
COMMENT = "/* as __shfl_sync(mask, t, 3) does: */ r = v;"
COMMENTED = Verbatim((("float", "v", parsed("t")),), COMMENT, "use", frozenset({"t"}))


@pytest.mark.parametrize(
    "block",
    [
        (If(parsed("bx < n"), (USE,)),),
        (If(parsed("p.tx < n && tx(n) > 0"), (USE,)),),  # a field, and a function
        (If(parsed("tx < n"), (COMMENTED,)),),
        (If(parsed("tx < n"), (put("r", "my__shfl_sync(m, t, 3)"),)),),
        (put("y[tx]", f"bx < n ? {SHUFFLE} : 0"),),
        (Declare("const int", "full", (), parsed("min(bx, n)")), If(parsed("bx < full"), (USE,))),
    ],
)
def test_all_lanes_are_there(block: Block) -> None:
    refuse_divergent(block, scope())


@pytest.mark.parametrize(
    "block",
    [
        (If(parsed("tx < n"), (If(parsed(f"{SHUFFLE} > 0"), ()),)),),
        (If(parsed("tx < n"), (Verbatim((("float", "v", parsed(SHUFFLE)),), "r = v;", "use", frozenset()),)),),
        (If(parsed("tx < n"), (For("int", "k", parsed("0"), parsed(f"k < {SHUFFLE}"), ()),)),),
        (If(parsed("tx < n"), (Call(parsed(f"f({SHUFFLE})"), "use"),)),),
        (If(parsed("x[3 * (tx + 1)] < n"), (USE,)),),
        (If(parsed(f"tx < n && {SHUFFLE} > 0"), ()),),
        (put("y[tx]", f"a < b || f(tx) || g({SHUFFLE})"),),
        (put("y[tx]", f"tx < n ? 0 : {SHUFFLE}"),),
        (put("y[tx]", f"u > 0 ? {SHUFFLE} : 0"),),
        (put(f"y[tx < n ? {SHUFFLE} : 0]", "0"),),
        (Declare("const int", "full", (), parsed("min(tx, n)")),
         For("int", "k", parsed("0"), parsed("k < full"), (USE,))),
        (Declare("const int", "i", (), parsed("bx"), "", (("j", parsed("i + tx")),)), If(parsed("j < n"), (USE,))),
    ],
)  # fmt: skip
def test_a_lane_may_be_missing(block: Block) -> None:
    with pytest.raises(CodegenError, match="exchange 't' at a point that not all of them may reach"):
        refuse_divergent(block, scope())


@pytest.mark.parametrize(
    ("block", "is_right"),
    [
        ((If(parsed("w < n"), (Call(parsed("mma_b(d, mma(a))"), "s"),)),), True),
        ((If(parsed("w < n"), (Call(parsed("mma(d, a)"), "s"),)),), False),
        ((If(parsed("x.w < n"), (Call(parsed("mma(d, a)"), "s"),)),), True),
        ((Declare("int", "e", (), parsed("w + 1")), If(parsed("e < n"), (Call(parsed("mma(a)"), "s"),))), False),
    ],
)
def test_whole_warps_call_a_matrix_instruction(block: Block, is_right: bool) -> None:
    digit, own = Digit(32, 4), scope()
    lane = Digit(1, 32)
    own.values |= {digit.axis: "warp", lane.axis: "w"}
    own.storage, own.definitions.helper_names = {}, {f"{MATRIX}mma": "mma"}
    if is_right:
        refuse_divergent(block, own, [digit, lane])
    else:
        with pytest.raises(CodegenError, match="the matrix instruction of 's' would stand"):
            refuse_divergent(block, own, [digit, lane])


def texts(block: Block) -> list[str]:
    return [re.sub("\x01.*|\x02", "", line).strip() for line in print_block(block)]


def test_what_recurs_is_found_as_a_call() -> None:
    """Neither parentheses in it nor a longer name in front of it are in the way."""
    call = f"__shfl_sync({MASK} << (8 * (ty % 4)), t, (tx + f(1, (2))) % 8, 8)"
    block = (put("r", f"{call} + x_{call}"), put("s", f"g({call}, t)"))
    assert texts(shared_shuffles(block, scope())) == [
        f"const float t_other = {call};", f"r = t_other + x_{call};", "s = g(t_other, t);",
    ]  # fmt: skip


def test_a_shuffle_from_a_lane_that_changes_is_made_again() -> None:
    call = f"__shfl_sync({MASK}, t, lane)"
    again = put("lane", "lane / 2")
    block = (put("r", call), again, put("s", call))
    assert shared_shuffles(block, scope()) == block
    loop = For("int", "k", parsed("0"), parsed("k < 4"), (put("r", call), again))
    assert shared_shuffles((loop,), scope()) == (loop,)


# }}}
# {{{ the others


@pytest.mark.parametrize(
    ("neutral", "value", "is_begun"),
    [
        ("0.0f", "x.acc + acc(1)", True),
        ("0", "x[acc]", False),
        ("0.00f", "x", True),
        ("0x0u", "x", True),
        ("-0.0f", "x", False),
        ("0 + 0", "x", False),
    ],
)
def test_a_sum_begins_with_its_first_term(neutral: str, value: str, is_begun: bool) -> None:
    first = replace(put("acc", neutral), is_constant=True)
    assert len(begun((first, put("acc", value, "+=")))) == (1 if is_begun else 2)


def test_an_index_without_a_name_is_written_out_as_its_place_asks() -> None:
    indices = Indices([("i", Affine((("g.0", 16), ("l.0", 1))))])
    known = frozenset({"g.0", "l.0"})
    opened = indices.open(known, known, {})
    mark = opened[0].text
    assert indices.take(opened[0].form) == Affine.variable(mark)
    names = indices.close(opened, "int", lambda _: parsed("16 * bx + tx"))
    for use, wanted in (
        (f"f({mark})", "f(16 * bx + tx)"), (f"-{mark}", "-(16 * bx + tx)"), (f"{mark}[1]", "(16 * bx + tx)[1]"),
        (f"{mark} & 3", "(16 * bx + tx) & 3"), (f"{mark} < 3", "16 * bx + tx < 3"),
        (f"1 << {mark}", "1 << (16 * bx + tx)"),
    ):  # fmt: skip
        assert texts(indices.settle((*names, put("y", use)), lambda name: name)) == [f"y = {wanted};"]
    written = Verbatim((("int", "k", parsed(f"2 * {mark}")),), "z = k;", "s", frozenset())
    twice = (*names, put("y", f"{mark} * {mark}"), written)
    assert texts(indices.settle(twice, lambda name: name)) == [
        "const int i = 16 * bx + tx;", "y = i * i;", "{", "const int k = 2 * (16 * bx + tx);", "z = k;", "}",
    ]  # fmt: skip


# }}}
