"""The answers that the demo compares with, and how strict it is."""

from __future__ import annotations

import numpy as np
import pytest

from polyloop.cli.problems import Problem, axpy_problem, matmul_problem, stencil_problem

PICTURE = np.arange(35, dtype=np.float32).reshape(5, 7) ** 2
PROBLEMS = [axpy_problem(9), matmul_problem(5), stencil_problem(PICTURE)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.output)
def test_a_rounded_answer_is_accepted_and_a_wrong_element_is_not(problem: Problem) -> None:
    got = problem.want.astype(np.float32)
    assert problem.accepts(got)
    wrong = got.copy()
    wrong.flat[-1] *= np.float32(1.001)
    assert not problem.accepts(wrong)
    assert problem.error(wrong) > 0


def test_an_element_that_was_not_written_is_not_accepted() -> None:
    problem = axpy_problem(9)
    got = problem.poisoned_output()
    got[:8] = problem.want[:8]
    assert not problem.accepts(got)
    assert np.isnan(problem.error(got))


def test_an_answer_of_another_shape_is_not_accepted() -> None:
    assert not axpy_problem(9).accepts(np.zeros((1, 1)))


def test_the_stencil_is_the_five_point_laplacian() -> None:
    y, x = np.mgrid[:6, :8].astype(np.float32)
    np.testing.assert_array_equal(stencil_problem(x * x + 2 * y * y).want, np.full((4, 6), 6.0))
