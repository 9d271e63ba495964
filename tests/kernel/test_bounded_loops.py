"""``for i = first, last, step`` in text: loops with bounds of their own, upward and downward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

D = np.float64
DATA = [pl.GlobalArg("x, a", D, shape="n"), ...]


def made(text: str, domains: Any = (), **more: Any) -> pl.LoopKernel:
    return pl.make_kernel(list(domains), text, DATA, name="loops", silenced_warnings="*", **more)


def results(knl: pl.LoopKernel, n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    given = {"x": rng.random(n), "a": rng.random(n)}
    runs = (pl.interpret, lambda k, **values: pl.compile(k, target=pl.CTarget())(**values))
    return [given, *(run(knl, **{name: value.copy() for name, value in given.items()}) for run in runs)]


def expected(given: Any, n: int) -> Any:
    x, a = given["x"].copy(), given["a"].copy()
    for i in range(n - 2, -1, -1):
        x[i] += x[i + 1] * a[i] + i
    for i in range(0, n, 2):
        a[i] = x[i]
    for i in range(n - 1, 0, -2):
        for j in range(i, n):
            x[j] -= a[i - 1]
        if i > 2:
            a[i] = x[i - 1]
    return x, a


TEXT = """
for i = n - 2, 0, -1
    x[i] += x[i + 1]*a[i] + i
end
for i = 0, n - 1, 2
    a[i] = x[i]
end
for i = n - 1, 1, -2
    for j = i, n - 1
        x[j] -= a[i - 1]
    end
    if i > 2
        a[i] = x[i - 1]
    end
end
"""


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_loops_run_as_they_are_written(n: int) -> None:
    knl = made(TEXT)
    given, *found = results(knl, n)
    x, a = expected(given, n)
    for result in found:
        np.testing.assert_allclose(result.x, x)
        np.testing.assert_allclose(result.a, a)
    script: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl), script)
    assert str(script["knl"].reference) == str(knl.reference)


def test_names_are_replaced_in_the_program() -> None:
    assert str(made(TEXT).reference).split("\n")[:5] == [
        "for i_down",
        "    x[n - i_down - 2] = "
        "x[n - i_down - 2] + (x[n - i_down - 1]*a[n - i_down - 2] + (n - i_down - 2))    {id=insn}",
        "for i",
        "    a[i] = x[i]    {id=insn_1}",
        "for i_down_1",
    ]


def test_a_reduction_and_a_bound_from_memory_stand_in_such_a_loop() -> None:
    text = "for i = n - 1, 0, -1\n<int32> m = i\nfor k = 0, m - 1\nx[i] += a[k]\nend\nx[i] += sum(j, a[j]*i)\nend"
    knl = made(text, ["[n] -> {[j]: 0 <= j < n}"])
    given, *found = results(knl, 4)
    a = given["a"]
    for result in found:
        np.testing.assert_allclose(result.x, given["x"] + [a[:i].sum() + a.sum() * i for i in range(4)])


def test_fixed_parameters_bound_such_a_loop() -> None:
    knl = made("for i = m, 0, -1\nx[i] = i\nend", fixed_parameters={"m": 2}, assumptions="n >= 3")
    np.testing.assert_array_equal(pl.interpret(knl, x=np.zeros(3)).x, [0, 1, 2])


REFUSED = [
    ("for i = 0\nx[i] = 1\nend", "syntax", "for i = 0"),
    ("for i = 0, n, 1, 1\nx[i] = 1\nend", "syntax", "for i = 0, n, 1, 1"),
    ("for i = 0, n*n\nx[0] = 1\nend", "bad-bound", "for i = 0, n*n"),
    ("for i = 0, n, 0\nx[0] = 1\nend", "bad-bound", "for i = 0, n, 0"),
    ("for i = 0, n, m\nx[0] = 1\nend", "bad-bound", "for i = 0, n, m"),
    ("for q = 0, n\nx[0] = 1\nend", "iname-twice", "for q = 0, n"),
    ("for i = 0, 3\nfor i = 3, 0, -1\nx[0] = i\nend\nend", "duplicate-iname", "for i = 3, 0, -1"),
    ("for i = 3, 0, -1\ni = 1\nend", "assignment-to-iname", "i = 1"),
    ("r() := x[i]\nfor i = 3, 0, -1\nx[0] = r()\nend", "unknown-iname", "r() := x[i]"),
    ("r() := x[i]\nfor i = 0, 3\nx[0] = r()\nend\nfor i = 0, 2\nx[1] = r()\nend", "unknown-iname", "r() := x[i]"),
    ("for i = 3, 0, -1\nx[i] = sum(i, a[i])\nend", "unknown-iname", "x[i] = sum(i, a[i])"),
]


@pytest.mark.parametrize(("text", "code", "line"), REFUSED)
def test_what_no_loop_can_be_is_refused(text: str, code: str, line: str) -> None:
    with pytest.raises(pl.KernelError) as error:
        made(text, ["[n] -> {[q]: 0 <= q < n}"])
    assert error.value.codes == (code,)
    assert str(error.value).split("\n")[1].strip().startswith(line)
    assert "Hint: " in str(error.value)


def test_a_domain_and_a_line_do_not_both_give_bounds() -> None:
    with pytest.raises(pl.KernelError) as error:
        made("for q = 0, n\nx[0] = 1\nend", ["[n] -> {[q]: 0 <= q < n}"])
    assert str(error.value).split("\n") == [
        "make_kernel: a domain has bounds for 'q' already [iname-twice]",
        "  for q = 0, n    (line 1)",
        "      ^",
        "  Hint: write 'for q', or leave 'q' out of the domains",
    ]
