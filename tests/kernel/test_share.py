"""``cse(e)``: computed once for each instance of a statement."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl

F = np.float32
DATA = [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape="m"), ...]
DOMAIN = "{[i, k]: 0 <= i < n and 0 <= k < m}"


def texts(knl: pl.LoopKernel) -> list[str]:
    return [f"{instruction.id}: {instruction}" for instruction in knl.instructions]


def test_equal_values_are_computed_once() -> None:
    text = 'c[i] = cse(a[i] + 1, "s")*cse(a[i] + 1) + sum(k, cse(a[i] + 1)*b[k]) {id=x}'
    knl = pl.make_kernel(DOMAIN, text, DATA)
    assert texts(knl) == ["x_s: s = a[i] + 1", "x: c[i] = s*s + sum(k, s*b[k])"]
    assert [instruction.inames for instruction in knl.instructions] == [("i",), ("i",)]


def test_values_inside_of_values() -> None:
    knl = pl.make_kernel(DOMAIN, "c[i] = cse(cse(a[i])*3, q)*cse(a[i])", DATA)
    assert texts(knl) == ["insn: cse = a[i]", "insn_1: q = cse*3", "insn_2: c[i] = q*cse"]


def test_what_reduction_inames_or_branches_decide_stays() -> None:
    knl = pl.make_kernel(DOMAIN, "c[i] = sum(k, cse(b[k]*a[i])) + if(a[i] > 0, cse(a[i]*2), 0) + cse(2)", DATA)
    assert texts(knl) == ["insn: c[i] = sum(k, b[k]*a[i]) + if(a[i] > 0, a[i]*2, 0) + 2"]


def test_the_loops_are_those_of_the_statement() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "c[i, j] = cse(a[i])*cse(a[i])", [*DATA[:1], ...])
    assert [instruction.inames for instruction in knl.instructions] == [("i", "j"), ("i", "j")]


def test_rules_and_conditions() -> None:
    text = """
        twice(x) := cse(x + x)
        c[i] = twice(a[i])*twice(a[i]) {if=cse(a[i]) > 0 and i > 1}
        """
    knl = pl.make_kernel(DOMAIN, text, DATA)
    assert texts(knl) == [
        "insn: cse = if(a[i] > 0 and i > 1, a[i] + a[i], 0)",
        "insn_1: c[i] = cse*cse if a[i] > 0 and i > 1",
    ]
    assert str(knl.substitutions["twice"]) == "twice(x) := x + x"


def test_an_old_value_is_taken_before_it_is_overwritten() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = cse(a[i]*2) + cse(a[i]*2)", [*DATA[:1], ...])
    a = np.arange(5, dtype=F)
    np.testing.assert_array_equal(pl.interpret(knl, a=a)["a"], 4 * np.arange(5, dtype=F))
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert pl.generate_code(knl, target=pl.CudaTarget()).device_code.count("* 2.0f") == 1


@pytest.mark.parametrize(
    ("value", "code"),
    [("cse()", "wrong-argument-count"), ("cse(a[i], 3)", "syntax"), ("cse(a[i], for)", "reserved-name")],
)
def test_wrong_uses(value: str, code: str) -> None:
    with pytest.raises(pl.KernelError) as error:
        pl.make_kernel(DOMAIN, f"c[i] = {value}", DATA)
    assert [finding.code for finding in error.value.found] == [code]
