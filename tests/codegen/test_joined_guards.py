"""No guard is tested twice where only variables begin between two pieces of code under it."""

from __future__ import annotations

import pytest

from polyloop.codegen.tree.branches import with_joined_guards
from polyloop.codegen.tree.c_ast import Assign, Block, If, Node
from polyloop.codegen.tree.c_expr import OPERATORS, Code, Name, Subscript, binary, integer

GUARD = binary(OPERATORS["<"], Name("i"), Name("n"))
ELEMENT = Subscript(Name("a", "a"), Name("i"))


def begin(name: str) -> Assign:
    return Assign(Name(name, name), "=", integer(0), "", is_constant=True)


def copy(target: str, source: str) -> Assign:
    return Assign(Name(target, target), "=", Name(source, source), "")


def under(*body: Node, condition: Code = GUARD) -> If:
    return If(condition, body)


A, B = copy("a", "x"), copy("b", "a")


def test_variables_that_begin_in_between_begin_in_front() -> None:
    block: Block = (under(A), begin("acc"), under(B))
    assert with_joined_guards(block) == (begin("acc"), under(A, B))


@pytest.mark.parametrize(
    "block",
    [
        (under(A), begin("a"), under(B)),  # the first part sets it
        (under(A), begin("x"), under(B)),  # the first part reads it
        (under(A), copy("c", "a"), under(B)),
        (under(A), begin("c"), under(B, condition=binary(OPERATORS["<"], Name("j"), Name("n")))),
        (If(GUARD, (A,), (B,)), under(B)),
        (under(A, condition=ELEMENT), under(B, condition=ELEMENT)),
        (under(A, condition=Name("a", "a")), under(B, condition=Name("a", "a"))),
    ],
    ids=["set", "read", "not constant", "another guard", "else", "condition changes", "flag changes"],
)
def test_others_stay(block: Block) -> None:
    assert with_joined_guards(block) == block


def test_guards_inside_are_joined_too() -> None:
    inner = (under(A), under(B))
    assert with_joined_guards((under(*inner, condition=Name("p")),)) == (under(under(A, B), condition=Name("p")),)
