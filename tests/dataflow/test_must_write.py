"""Elements that every branch of a choice writes have a value after it."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg

F = np.float32


def is_input(body: str, name: str = "y") -> bool:
    text = "for i\n" + body + "\nz[i] = y[i]\nend"
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, y, z", F, shape="n"), ...])
    (found,) = [argument for argument in knl.arguments if argument.name == name]
    assert isinstance(found, ArrayArg)
    if not found.is_input:
        a = np.arange(-2, 3, dtype=F)
        z = pl.compile(knl, target=pl.CTarget())(a=a, poison=True).z
        np.testing.assert_array_equal(pl.interpret(knl, a=a).z, z)
        assert not np.isnan(z).any()
    return found.is_input


@pytest.mark.parametrize(
    "body",
    [
        "if a[i] > 0\ny[i] = 1\nelse\ny[i] = 2\nend",
        "if a[i] > 0\ny[i] = 1\nelif a[i] > -2\ny[i] = 2\nelse\ny[i] = 3\nend",
        "if a[i] > 0\nif a[i] > 1\ny[i] = 1\nelse\ny[i] = 2\nend\nelse\ny[i] = 3\nend",
        "if a[i] > 0\ny[i] = 1\nelse\nif a[i] > -1\ny[i] = 2\nelse\ny[i] = 4\nend\nend",
        "y[i] = 1 {if=a[i] > 0}\ny[i] = 2 {if=not a[i] > 0}",
    ],
)
def test_all_branches_write(body: str) -> None:
    assert not is_input(body)


@pytest.mark.parametrize(
    "body",
    [
        "if a[i] > 0\ny[i] = 1\nend",
        "if a[i] > 0\ny[i] = 1\nelif a[i] > -2\ny[i] = 2\nend",
        "if a[i] > 0\nif a[i] > 1\ny[i] = 1\nend\nelse\ny[i] = 3\nend",
        "if a[i] > 0\ny[i] = 1\nelse\ny[0] = 2\nend",
        "if a[i] > 0\ny[i] = y[i]\nelse\ny[i] = 2\nend",
        "y[i] = 1 {if=a[i] > 0}\na[i] = -a[i]\ny[i] = 2 {if=not a[i] > 0}",
        "y[i] = 1 {if=a[i] > 0}\ny[i] = 2 {if=a[i] < 0}",
    ],
)
def test_some_branch_leaves_an_element_alone(body: str) -> None:
    assert is_input(body)


def test_the_branches_stand_in_different_loops() -> None:
    text = """
    for i
        y[i] = 1 {if=a[0] > 0}
    end
    for i
        z[i] = y[i]
    end
    for i
        y[i] = 2 {if=not a[0] > 0}
    end
    """
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, [pl.GlobalArg("a, y, z", F, shape="n"), ...])
    (found,) = [argument for argument in knl.arguments if argument.name == "y"]
    assert isinstance(found, ArrayArg)
    assert found.is_input
