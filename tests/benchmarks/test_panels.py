"""LU by panels and Floyd-Warshall by blocks, at small sizes on C and fibres, and as they are measured on a GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyloop as pl
from benchmarks.gpu.panels import floyd_warshall, floyd_warshall_text, lu, lu_text
from polyloop.runtime.gpu import device_architecture
from tests.transform.checking import check, factored

F, D = np.float32, np.float64


def matrix(n: int) -> np.ndarray:
    return np.random.default_rng(n).random((n, n)) + n * np.eye(n)


def ways(n: int) -> np.ndarray:
    d = np.random.default_rng(n).integers(1, 99, (n, n)).astype(F)
    np.fill_diagonal(d, 0)
    return d


def shortest(d: np.ndarray) -> np.ndarray:
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d


@pytest.mark.slow
def test_lu_by_panels() -> None:
    knl = lu(D, 8, rows=4, tile=8, part=2, depth=4)
    assert pl.generate_code(knl, target=pl.CudaTarget()).device_code.count("__global__") == 3
    for n in (5, 19):
        check(knl, {"a": matrix(n)}, {"a": factored(matrix(n))}, rtol=1e-11)


@pytest.mark.slow
def test_floyd_warshall_by_blocks() -> None:
    knl = floyd_warshall(F, 4, rows=2, part=2, depth=2)
    assert pl.generate_code(knl, target=pl.CudaTarget()).device_code.count("__global__") == 3
    for n in (4, 12):
        check(knl, {"d": ways(n)}, {"d": shortest(ways(n))})


@pytest.mark.slow
def test_launches_of_lu_as_it_is_measured_have_blocks_of_their_own() -> None:
    text = pl.generate_code(lu(D), target=pl.CudaTarget("sm_90")).device_code
    assert [int(n) for n in re.findall(r"__launch_bounds__\((\d+)", text)] == [1024, 1024, 256]


@pytest.mark.gpu
def test_both_on_a_gpu() -> None:
    target = pl.CudaTarget(device_architecture() or "sm_90")
    for way in ("host", "graph"):
        a, d = matrix(300), ways(256)
        factors = pl.compile(lu(D), target=target, launches=way)(a=a).a
        np.testing.assert_allclose(factors, pl.compile(lu_text(D), target=pl.CTarget())(a=matrix(300)).a, rtol=1e-9)
        found = pl.compile(floyd_warshall(F), target=target, launches=way)(d=d).d
        np.testing.assert_array_equal(found, shortest(ways(256)))
        plain = pl.compile(floyd_warshall_text(F, 64), target=pl.CTarget())(d=ways(256)).d
        np.testing.assert_array_equal(found, plain)
