"""Accumulators that begin with their first term."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.tree.c_ast import Assign, For
from polyloop.codegen.tree.fold_initial_value import begun
from tests.codegen.c_parser import parsed
from tests.transform.checking import check, cuda

F = np.float32


def put(operator: str, value: str, target: str = "acc", *, constant: bool = False) -> Assign:
    return Assign(parsed(target, {"acc"}), operator, parsed(value, {"acc"}), "insn", "", constant)


@pytest.mark.parametrize(
    ("neutral", "operator"), [("0.0f", "+="), ("0", "+="), ("0.0", "+="), ("1.0f", "*="), ("1u", "*=")]
)
def test_a_term_takes_the_place_of_the_neutral_element(neutral: str, operator: str) -> None:
    (node,) = begun((put("=", neutral, constant=True), put(operator, "x")))
    assert isinstance(node, Assign)
    assert (node.operator, node.value.text, node.reads) == ("=", "x", frozenset())


@pytest.mark.parametrize(
    "nodes",
    [
        (put("=", "1.0f", constant=True), put("+=", "x")),
        (put("=", "0.0f", constant=True), put("*=", "x")),
        (put("=", "0.0f", constant=True), put("-=", "x")),
        (put("=", "zero"), put("+=", "x")),
        (put("=", "0.0f", constant=True), put("+=", "2.0f * acc")),
        (put("=", "0.0f", "acc[0]", constant=True), put("+=", "x", "acc[1]")),
        (put("=", "0.0f", "acc[0]", constant=True), put("+=", "acc[1]", "acc[0]")),
        (put("=", "0.0f", constant=True), For("int", "k", parsed("0"), parsed("k < n"), (put("+=", "x"),))),
    ],
)
def test_what_stays(nodes: tuple[Assign, ...]) -> None:
    assert begun(nodes) == nodes


def test_one_term_a_thread() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 64}", "y[i] = sum(k, x[i, k])", [pl.GlobalArg("x", F, shape="n, 64"), ...]
    )
    knl = pl.tag_inames(knl, "i:g.0, k:l.0")
    assert "    float acc = x[bx * 64 + tx];\n    acc = loop_kernel_block_sum_float32(acc, partial);" in cuda(knl)
    for n in (0, 1, 3):
        x = np.random.default_rng(n).integers(-4, 5, (n, 64)).astype(F)
        check(knl, {"x": x}, {"y": x.sum(axis=1)})
