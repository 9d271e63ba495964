"""Accesses that stay inside their arrays always, under a condition that is checked at launch, or never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl

F = np.float64
LINE = "{[i]: 0 <= i < n}"


def vector(name: str, extent: str) -> pl.GlobalArg:
    return pl.GlobalArg(name, F, shape=extent)


def shifted(**options: Any) -> pl.LoopKernel:
    return pl.make_kernel(LINE, "b[i] = a[i + 1]", [vector("a", "m"), vector("b", "n"), ...], name="shift", **options)


def needs(domain: str, text: str, **shapes: str) -> list[str]:
    """Return the conditions of a new kernel, as the launch states them."""
    knl = pl.make_kernel(domain, text, [*(vector(name, extent) for name, extent in shapes.items()), ...])
    checks = pl.generate_code(knl, target=pl.CTarget()).checks
    return [check.message.partition("only if ")[2] for check in checks if check.code == "out-of-bounds"]


@pytest.mark.parametrize(
    ("domain", "text", "shapes", "conditions"),
    [
        (LINE, "b[i] = a[i]", {"a": "n", "b": "n"}, []),
        (LINE, "b[i] = a[i + 1]", {"a": "m", "b": "n"}, ["m >= n + 1 (where n >= 1)"]),
        (LINE, "b[i] = a[i + 1] + a[i + 3] + a[i + 2]", {"a": "m", "b": "n"}, ["m >= n + 3 (where n >= 1)"]),
        ("{[i]: 0 <= i < 16}", "b[i] = a[2*i]", {"a": "n", "b": "16"}, ["n >= 31"]),
        (LINE, "b[i] = a[i // 4]", {"a": "m", "b": "n"}, ["4*m >= n (where n >= 1)"]),
        ("{[i]: k <= i < n - k}", "b[i] = a[i - 1] + a[i + 1]", {"a": "n", "b": "n"}, ["k >= 1 (where n >= 2*k + 1)"]),
        (
            "{[i, j]: 0 <= i < n and 0 <= j < m}",
            "b[i, j] = a[j, i]",
            {"a": "n, m", "b": "n, m"},
            ["m == n (where m >= 1 and n >= 1)"],
        ),
    ],
)
def test_conditions(domain: str, text: str, shapes: dict[str, str], conditions: list[str]) -> None:
    assert needs(domain, text, **shapes) == conditions


@pytest.mark.parametrize(("text", "domain"), [
    ("b[i] = a[i + 1]", LINE), ("b[i] = a[i - 1]", LINE), ("b[i] = a[n]", LINE), ("b[i] = a[i]", "{[i]: 0 <= i <= n}"),
    ("b[i] = a[2*i + n]", LINE),
])  # fmt: skip
def test_what_is_always_outside_is_refused(text: str, domain: str) -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(domain, text, [vector("a", "n"), vector("b", "n + 1"), ...])
    assert caught.value.codes == ("out-of-bounds",)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_sizes_that_fit_run(n: int) -> None:
    knl = shifted()
    a = np.arange(n + 1.0) if n else np.zeros(0)
    for run in (lambda **given: pl.interpret(knl, **given), pl.compile(knl, target=pl.CTarget())):
        np.testing.assert_array_equal(run(a=a, b=np.empty(n)).b, a[1:])


def test_sizes_that_do_not_fit_are_refused_with_the_condition() -> None:
    knl = shifted()
    given: dict[str, Any] = {"a": np.zeros(4), "b": np.zeros(4)}
    with pytest.raises(pl.ArgumentError) as caught:
        pl.compile(knl, target=pl.CTarget())(**given)
    assert str(caught.value) == """\
call on kernel 'shift': a[i + 1] stays inside a, whose shape is (m), only if m >= n + 1 (where n >= 1) [out-of-bounds]
  Note: n == 0 or n >= 1 and m >= n + 1 is false for m = 4, n = 4
  Note: axis 0 of 'a' is 4, which gives m = 4
  Note: axis 0 of 'b' is 4, which gives n = 4
  Hint: pass arrays and sizes that fit together"""
    with pytest.raises(pl.ArgumentError) as caught:
        pl.interpret(knl, **given)
    assert caught.value.codes == ("out-of-bounds",)
    assert "only if m >= n + 1 (where n >= 1)" in str(caught.value)


def test_transforms_keep_conditions() -> None:
    knl = pl.split_iname(shifted(), "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert [check.code for check in pl.generate_code(knl).checks].count("out-of-bounds") == 1
    with pytest.raises(pl.ArgumentError):
        pl.compile(knl, target=pl.CTarget())(a=np.zeros(4), b=np.zeros(4))


def test_an_assumption_that_implies_a_condition_replaces_it() -> None:
    assert shifted(assumptions="m >= n + 2").conditions == ()
    assert pl.assume(shifted(), "m >= n + 2").conditions == ()
    assert len(pl.assume(shifted(), "m >= n").conditions) == 1


def test_fixed_parameters_are_put_in() -> None:
    knl = pl.fix_parameters(shifted(), n=10)
    assert [check.message.partition("only if ")[2] for check in pl.generate_code(knl).checks[1:]] == ["m >= 11"]
    assert pl.fix_parameters(shifted(), n=10, m=11).conditions == ()
    with pytest.raises(pl.TransformError) as caught:
        pl.fix_parameters(shifted(), n=10, m=10)
    assert caught.value.codes == ("out-of-bounds",)


def test_the_kernel_lists_its_conditions() -> None:
    assert "conditions:\n    [n, m] -> {  : n = 0 or (n > 0 and m > n) }" in str(shifted())


def test_what_is_fine_for_small_sizes_only_is_refused() -> None:
    """It is inside for n = 1: nobody means that."""
    with pytest.raises(pl.KernelError) as refused:
        pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[2*i]", [pl.GlobalArg("a, b", np.float32, shape="n"), ...])
    assert refused.value.codes == ("out-of-bounds",)
    assert "Note: instance (i=1) with n=2 touches b[2] (axis 0)" in str(refused.value)


def test_a_size_that_another_one_bounds_is_checked_at_launch() -> None:
    data = [pl.GlobalArg("a", np.float32, shape="n"), pl.GlobalArg("b", np.float32, shape="m"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[2*i]", data)
    assert [str(condition.access) for condition in knl.conditions] == ["b[2*i]"]
