from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, refused, same_after_replay
from tests.transform.kernels import F


def scaled(text: str = "s[i] = 1 + sum(k, c[i]*a[i, k]*alpha)") -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < m and 0 <= k < n}",
        text,
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("c, s", F, shape="m"), pl.ValueArg("alpha", F), ...],
        name="scaled",
        assumptions="m >= 1 and n >= 1",
    )


def test_a_factor_is_taken_out_of_a_sum() -> None:
    knl = pl.hoist_reduction_factors(scaled())
    assert "s[i] = 1 + c[i]*alpha*sum(k, a[i, k])" in str(knl)
    same_after_replay(scaled(), knl)
    for m, n in ((1, 1), (5, 3)):
        a = np.random.default_rng(n).integers(-3, 4, (m, n)).astype(F)
        c = np.arange(m, dtype=F) - 2
        check(pl.split_iname(knl, "k", 2), {"a": a, "c": c, "alpha": F(2)}, {"s": 1 + 2 * c * a.sum(1)})


def test_after_a_split() -> None:
    knl = pl.hoist_reduction_factors(pl.split_iname(scaled(), "i", 4))
    assert "*sum(k, a[" in str(knl)
    a, c = np.ones((5, 2), F), np.arange(5, dtype=F)
    check(knl, {"a": a, "c": c, "alpha": F(2)}, {"s": 1 + 4 * c})


@pytest.mark.parametrize(
    "text",
    [
        "s[i] = max(k, c[i]*a[i, k])",
        "s[i] = sum(k, c[i]*a[i, k] + a[i, 0])",
        "s[i] = sum(k, c[k]*a[i, k])",
        "s[i] = reduce(ordered(sum), k, c[i]*a[i, k])",
        "s[i] = sum(k, cast(float64, 2.0)*a[i, k])",
    ],
)
def test_what_stays_in_the_sum(text: str) -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        text,
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("c", F, shape="n"), pl.GlobalArg("s", shape="n"), ...],
        assumptions="n >= 1",
    )
    refused(knl, pl.hoist_reduction_factors, "no-common-factor")


def test_a_sum_that_may_have_no_terms_keeps_its_array_factors() -> None:
    """Where there is no term, the factor may lie outside of its array."""
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < m}", "{[k]: 0 <= k < n}"],
        "s[i] = sum(k, c[i]*alpha*a[i, k])",
        [pl.GlobalArg("a", F, shape="m, n"), pl.GlobalArg("c, s", F, shape="m"), pl.ValueArg("alpha", F), ...],
    )
    assert "alpha*sum(k, c[i]*a[i, k])" in str(pl.hoist_reduction_factors(knl))


def test_a_refusal_of_hoisting() -> None:
    assert refused(scaled("s[i] = sum(k, a[i, k])"), pl.hoist_reduction_factors, "no-common-factor") == (
        "hoist_reduction_factors on kernel 'scaled': no sum has a factor that could be multiplied with its result "
        "[no-common-factor]\n"
        "  Note: such a factor depends on no iname of the reduction, and the type of the sum does not depend on it\n"
        "  Hint: factors of arrays need a sum that has a term for each of its results"
    )


@pytest.mark.parametrize("factor", ["1/n", "7//n", "sqrt(-1.0*n)"])
def test_a_factor_that_may_be_no_number_stays_in_a_sum_without_terms(factor: str) -> None:
    data = [pl.GlobalArg("x", np.float32, shape="n"), pl.GlobalArg("y", np.float32, shape="1"), ...]
    with pytest.raises(pl.TransformError) as error:
        pl.hoist_reduction_factors(pl.make_kernel("{[k]: 0 <= k < n}", f"y[0] = sum(k, x[k]*({factor}))", data))
    assert error.value.codes == ("no-common-factor",)
    some = pl.make_kernel("{[k]: 0 <= k < n}", f"y[0] = sum(k, x[k]*({factor}))", data, assumptions="n >= 1")
    assert "*sum(k, x[k])" in str(pl.hoist_reduction_factors(some).instructions[0])


def test_products_that_are_left_keep_their_types() -> None:
    """Without the float, two uint8 would wrap."""
    data = [pl.ValueArg("s", F), pl.GlobalArg("u", np.uint8, shape="1"), pl.GlobalArg("w, y", F, shape="1")]
    knl = pl.make_kernel("{[i]: 0 <= i < 1}", "y[0] = sum(i, s*u[i]*u[i]*w[i])", data)
    refused(knl, pl.hoist_reduction_factors, "no-common-factor")
    apart = pl.make_kernel("{[i]: 0 <= i < 1}", "y[0] = sum(i, s*w[i]*u[i]*u[i])", data)
    assert "s*sum(i, w[i]*u[i]*u[i])" in str(pl.hoist_reduction_factors(apart))
    steps = ["<float32> t = 0", "t = t + s*u[i]*u[i]", "y[0] = t"]
    refused(
        pl.make_kernel("{[i]: 0 <= i < 1}", steps, data),
        lambda k: pl.collect_common_factors_on_increment(k, "t"), "no-common-factor",
    )  # fmt: skip
