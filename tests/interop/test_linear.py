"""Kernels as linear operators of SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from tests.interop.libraries import matvec, refused, required

scipy: Any = required("scipy")
sparse: Any = required("scipy.sparse")
linalg: Any = required("scipy.sparse.linalg")
C = pl.CTarget()


def transposed() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}", "y[j] = s*sum(i, a[i, j]*x[i])",
        [pl.GlobalArg("a", np.float64, shape="m, n"), pl.GlobalArg("x", np.float64, shape="m"),
         pl.GlobalArg("y", np.float64, shape="n"), pl.ValueArg("s", np.float64), ...], name="transposed",
    )  # fmt: skip


def test_products_and_those_of_the_adjoint() -> None:
    rng = np.random.default_rng(0)
    a = rng.random((7, 5))
    operator = pl.aslinearoperator(matvec(np.float64), {"a": a, "s": 2.0}, adjoint=transposed(), target=C)
    assert operator.shape == (7, 5)
    assert operator.dtype == np.float64
    x, y = rng.random(5), rng.random(7)
    for _ in range(3):  # checked, then repeated
        np.testing.assert_allclose(operator @ x, 2 * a @ x, rtol=1e-13)
        np.testing.assert_allclose(operator.H @ y, 2 * a.T @ y, rtol=1e-13)
    np.testing.assert_allclose(operator @ np.eye(5), 2 * a, rtol=1e-13)
    np.testing.assert_allclose(operator @ np.arange(5), 2 * a @ np.arange(5), rtol=1e-13)
    solution = linalg.lsqr(operator, operator @ x, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(solution, x, rtol=1e-8)


def test_a_matrix_that_changes_is_seen() -> None:
    a = np.eye(3)
    operator = pl.aslinearoperator(matvec(np.float64), {"a": a, "s": 1.0}, target=C)
    a[0, 0] = 5
    assert np.array_equal(operator @ np.ones(3), [5, 1, 1])


def test_wrong_kernels_and_arguments_are_refused() -> None:
    a, knl = np.ones((3, 4)), matvec(np.float64)
    given = {"a": a, "s": 1.0}
    assert "'v' is no vector of the kernel" in refused(lambda: pl.aslinearoperator(knl, given, x="v"))
    assert "does not read 'y' and write 'x'" in refused(lambda: pl.aslinearoperator(knl, given, x="y", y="x"))
    assert "'s' was not passed [missing-argument]" in refused(lambda: pl.aslinearoperator(knl, {"a": a}))
    assert "the size 'n' follows from no array" in refused(
        lambda: pl.aslinearoperator(pl.make_kernel(
            "{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", np.float64, shape="n"), ...]), {}))
    assert "the adjoint has shape (3, 4)" in refused(lambda: pl.aslinearoperator(knl, given, adjoint=knl))
    operator = pl.aslinearoperator(knl, given, target=C)
    assert "'x' has dtype complex128, expected float64 [wrong-dtype]" in refused(lambda: operator @ (1j * np.ones(4)))
    for product in (lambda: operator.H @ np.ones(3), lambda: operator.rmatvec(np.ones(3)),
                    lambda: linalg.lsqr(operator, np.ones(3))):
        assert "the operator has no adjoint [missing-argument]" in refused(product)
