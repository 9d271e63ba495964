"""A sparse matrix times a vector."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from benchmarks.gpu.case import Arrays, Case, F, sampled, wide
from examples import csr_lanes

__all__ = ["SPARSE"]


def _points(sizes: Mapping[str, int]) -> int:
    """Return the points along an edge of the cube."""
    return round(math.cbrt(sizes["n"]))


def _entries(sizes: Mapping[str, int]) -> int:
    return (3 * _points(sizes) - 2) ** 3


def _neighbours(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    """Return the matrix of a 27-point stencil on a cube, with random entries."""
    points = _points(sizes)
    along = np.arange(points, dtype=np.int32)
    present, steps = [], []
    for step in itertools.product((-1, 0, 1), repeat=3):
        inside = [(along + d >= 0) & (along + d < points) for d in step]
        present.append((inside[0][:, None, None] & inside[1][:, None] & inside[2]).ravel())
        steps.append((step[0] * points + step[1]) * points + step[2])
    there = np.stack(present, axis=1)
    column = np.arange(points**3, dtype=np.int32)[:, None] + np.array(steps, np.int32)
    first = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int32)
    return {
        "first": first,
        "column": column[there],
        "a": rng.random(first[-1], F) - F(0.5),
        "x": rng.random(points**3, F) - F(0.5),
    }


def _expected(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    first = arrays["first"]
    at = sampled(len(first) - 1)
    found = np.zeros(len(at))
    for number, row in enumerate(at):
        entries = slice(first[row], first[row + 1])
        found[number] = wide(arrays["a"][entries]) @ arrays["x"][arrays["column"][entries]]
    return {"y": (at, found)}


SPARSE: Final = (
    Case(
        "CSR product",
        lambda: csr_lanes.transformed(lanes=4, at_once=8),
        ({"n": 128**3}, {"n": 160**3}),
        {"n": 5**3},
        _neighbours,
        _expected,
        lambda sizes: 8 * _entries(sizes) + 12 * sizes["n"],
        rtol=1e-5,
    ),
)
