"""The order of the reference program: text order, dependences, the writer of a temporary before its readers."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl

DATA = pl.GlobalArg("a, b, c", np.float32, shape="n")


def reference(text: str, domain: str = "{[i]: 0 <= i < n}") -> list[str]:
    shown = str(pl.make_kernel(domain, text, [DATA, ...]).reference).splitlines()
    return [line.rpartition("id=")[2].rstrip("}") if "id=" in line else line.strip() for line in shown]


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("a[i] = 1 {id=x}\nb[i] = 2 {id=y}", ["for i", "x", "y"]),
        ("a[i] = 1 {id=x, dep=y}\nb[i] = 2 {id=y}", ["for i", "y", "x"]),
        ("a[i] = t {id=x}\n<> t = b[i] {id=y}", ["for i", "y", "x"]),
        ("a[i] = 1 {id=x, dep=z}\nb[i] = 2 {id=y}\nc[i] = 3 {id=z}", ["for i", "y", "z", "x"]),
        ("a[i] = b[n - 1 - i] {id=x}\nb[i] = 2 {id=y}", None),
    ],
)
def test_order(text: str, order: list[str] | None) -> None:
    found = reference(text)
    if order is None:
        assert found.index("x") < found.index("y")
    else:
        assert found == order


def test_what_reads_later_elements_gets_a_loop_of_its_own() -> None:
    assert reference("b[i] = 1 {id=x}\na[i] = b[n - 1 - i] {id=y}") == ["for i", "x", "for i", "y"]


def test_the_domain_orders_loops_that_are_used_alike() -> None:
    text = "c[i] = a[i] + j {id=x}"
    assert reference(text, "{[i, j]: 0 <= i, j < n}")[:2] == ["for i", "for j"]
    assert reference(text, "{[j, i]: 0 <= i, j < n}")[:2] == ["for j", "for i"]


def test_an_iname_in_the_bounds_of_another_lies_outside() -> None:
    assert reference("c[i] = a[i] + j {id=x}", "{[j, i]: 0 <= i < n and 0 <= j <= i}")[-1] == "x"
