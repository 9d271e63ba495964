"""Instances of an instruction as an instruction of their own, which goes to another nest: factorizations by panels."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, factored, refused, same_after_replay

D = np.float64
WIDTH = 4


def lu() -> pl.LoopKernel:
    text = """
    for k
        for i
            a[i, k] = a[i, k]/a[k, k] {id=scale}
        end
        for p, q
            a[p, q] = a[p, q] - a[p, k]*a[k, q] {id=update}
        end
    end
    """
    domains = ["{[k]: 0 <= k < n}", "[n, k] -> {[i]: k < i < n}", "[n, k] -> {[p, q]: k < p, q < n}"]
    return pl.make_kernel(domains, text, [pl.GlobalArg("a", D, shape="n, n"), ...], name="lu")


def lu_by_panels() -> pl.LoopKernel:
    """Return LU whose panels are factored first, then the rows to their right, then all that is left."""
    knl = pl.split_iname(lu(), "k", WIDTH)
    knl = pl.split_instruction(knl, "id:update", f"q < {WIDTH}*k_outer + {WIDTH}", new_id="right")
    knl = pl.split_instruction(knl, "id:right", f"p < {WIDTH}*k_outer + {WIDTH}", new_id="trail")
    knl = pl.duplicate_inames(knl, "k_inner, p, q", "id:trail", new_inames=["kt", "pt", "qt"])
    knl = pl.duplicate_inames(knl, "k_inner, p, q", "id:right", new_inames=["kr", "pr", "qr"])
    return pl.prioritize_loops(pl.prioritize_loops(knl, "pt, qt, kt"), "qr, kr, pr")


def cholesky() -> pl.LoopKernel:
    text = """
    for k
        a[k, k] = sqrt(a[k, k]) {id=root}
        for i
            a[i, k] = a[i, k]/a[k, k] {id=scale}
        end
        for p, q
            a[p, q] = a[p, q] - a[p, k]*a[q, k] {id=update}
        end
    end
    """
    domains = ["{[k]: 0 <= k < n}", "[n, k] -> {[i]: k < i < n}", "[n, k] -> {[p, q]: k < q <= p < n}"]
    return pl.make_kernel(domains, text, [pl.GlobalArg("a", D, shape="n, n"), ...], name="cholesky")


def matrix(n: int) -> np.ndarray:
    a = np.random.default_rng(n).random((n, n))
    return a @ a.T + n * np.eye(n)


def test_lu_becomes_panels() -> None:
    knl = lu_by_panels()
    text = pl.generate_code(knl, target=pl.CTarget()).device_code
    assert text.count("for (int k_outer") == 1
    assert text.index("// update") < text.index("for (int qr") < text.index("for (int pt")
    for n in (1, 3, 4, 5, 11, 16):
        check(knl, {"a": matrix(n)}, {"a": factored(matrix(n))}, rtol=1e-12)
    same_after_replay(lu(), knl)


def test_panels_of_lu_are_launches() -> None:
    knl = lu_by_panels()
    for iname, axis in (("qr", 0), ("qt", 0), ("pt", 1)):
        knl = pl.split_iname(knl, iname, 4, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    for iname in ("i", "p"):
        knl = pl.split_iname(knl, iname, 4, inner_tag="l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert len(program.launches) == 3
    for n in (3, 9, 16):
        check(knl, {"a": matrix(n)}, {"a": factored(matrix(n))}, rtol=1e-12)


def test_cholesky_becomes_panels() -> None:
    knl = pl.split_iname(cholesky(), "k", WIDTH)
    knl = pl.split_instruction(knl, "id:update", f"q < {WIDTH}*k_outer + {WIDTH}", new_id="trail")
    knl = pl.duplicate_inames(knl, "k_inner, p, q", "id:trail", new_inames=["kt", "pt", "qt"])
    knl = pl.prioritize_loops(knl, "pt, qt, kt")
    knl = pl.split_iname(knl, "pt", 4, outer_tag="g.0", inner_tag="l.0")
    for n in (1, 4, 7, 12):
        lower = np.tril(np.linalg.cholesky(matrix(n)))
        a = np.tril(matrix(n)) + np.triu(np.full((n, n), 7.0), 1)
        check(knl, {"a": a}, {"a": lower + np.triu(np.full((n, n), 7.0), 1)}, rtol=1e-12)


def trisolv() -> pl.LoopKernel:
    text = """
    for i
        x[i] = b[i] {id=start}
        for j
            x[i] = x[i] - l[i, j]*x[j] {id=update}
        end
        x[i] = x[i]/l[i, i] {id=divide}
    end
    """
    data = [pl.GlobalArg("l", D, shape="n, n"), pl.GlobalArg("x, b", D, shape="n"), ...]
    return pl.make_kernel(["{[i]: 0 <= i < n}", "[n, i] -> {[j]: 0 <= j < i}"], text, data, name="trisolv")


def test_what_earlier_blocks_solve_is_subtracted_first() -> None:
    knl = pl.split_iname(trisolv(), "i", WIDTH)
    knl = pl.split_instruction(knl, "id:update", f"j < {WIDTH}*i_outer", new_id="own")
    knl = pl.distribute_loops(knl, "i_inner", "id:start or id:update")
    text = pl.generate_code(knl, target=pl.CTarget()).device_code
    assert text.count("for (int i_inner") == 4  # twice for the first block, which has no earlier ones
    for n in (1, 4, 9):
        lower, b = np.tril(matrix(n)), np.arange(1, n + 1, dtype=D)
        check(knl, {"l": lower, "b": b}, {"x": np.linalg.solve(lower, b)}, rtol=1e-10)


def test_terms_of_a_reduction_go_with_their_results() -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 8}", "y[i] = sum(j, a[i, j]) {id=rows}",
                         [pl.GlobalArg("a", D, shape="8, 8"), ...])  # fmt: skip
    knl = pl.split_instruction(knl, "id:rows", "i mod 2 = 0")
    knl = pl.duplicate_inames(knl, "i, j", "id:rows_rest")
    a = np.arange(64, dtype=D).reshape(8, 8)
    check(knl, {"a": a}, {"y": a.sum(1)})


@pytest.mark.parametrize(
    ("within", "condition", "code"),
    [
        ("id:update", "k < 0", "empty-part"), ("id:update", "p > k", "empty-part"),
        ("id:*", "k < 3", "bad-instructions"),
        ("id:update", "z < 3", "unknown-iname"), ("id:update", "i < 3", "unknown-iname"),
        ("id:update", "k <", "syntax-domain"), ("id:nothing", "k < 3", "unknown-instruction"),
    ],
)  # fmt: skip
def test_refusals(within: str, condition: str, code: str) -> None:
    refused(lu(), lambda knl: pl.split_instruction(knl, within, condition), code)


def test_a_part_that_would_read_too_early_keeps_its_nest() -> None:
    knl = pl.split_instruction(lu(), "id:update", "q > k + 1", new_id="rest")
    with pytest.raises(pl.TransformError) as caught:
        pl.duplicate_inames(knl, "k, p, q", "id:rest")
    assert {*caught.value.codes} == {"illegal-order"}
    refused(lu(), lambda knl: pl.split_instruction(knl, "id:update", "k < 1", new_id="scale"), "name-taken")
