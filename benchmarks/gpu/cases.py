"""What is measured: kernels as recipes, what they are called with, and what they must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import polyloop as pl

__all__ = ["CASES", "Arrays", "Case"]

Arrays: TypeAlias = Mapping[str, Any]
F: Final = np.float32
GIB: Final = 2**30


@dataclass(frozen=True)
class Case:
    """One kernel at some sizes.

    Attributes
    ----------
    build
        Returns the transformed kernel.
    sizes
        The parameters of each run.
    small
        Parameters for a run on any machine, which is not timed.
    inputs
        ``inputs(sizes, rng)`` returns arrays and numbers.
    expected
        ``expected(inputs)`` returns output name -> (index, values): what the outputs have there, in float64.
    moved
        Least traffic with device memory [bytes].
    operations
        Floating-point operations; 0 where memory is the limit.
    rtol
        Largest error relative to the largest value.
    """

    name: str
    build: Callable[[], pl.LoopKernel]
    sizes: tuple[Mapping[str, int], ...]
    small: Mapping[str, int]
    inputs: Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]
    expected: Callable[[Arrays], dict[str, tuple[Any, np.ndarray[Any, Any]]]]
    moved: Callable[[Mapping[str, int]], int]
    operations: Callable[[Mapping[str, int]], int] = lambda _: 0
    rtol: float = 1e-5


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.astype(np.float64)


def _sampled(length: int, count: int = 4096) -> np.ndarray[Any, Any]:
    """Return indices of both ends and of some places between."""
    if length <= 2 * count:
        return np.arange(length)
    middle = np.random.default_rng(1).integers(count, length - count, count)
    return np.concatenate([np.arange(count), middle, np.arange(length - count, length)])


# {{{ elementwise


def _vectors(*names: str) -> Callable[[Mapping[str, int], np.random.Generator], dict[str, Any]]:
    def make(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        found: dict[str, Any] = {name: rng.random(sizes["n"], F) - F(0.5) for name in names}
        return found

    return make


def _elementwise(name: str, text: str, arrays: str, *numbers: str) -> Callable[[], pl.LoopKernel]:
    def build() -> pl.LoopKernel:
        data = [pl.GlobalArg(arrays, F, shape="n"), *(pl.ValueArg(number, F) for number in numbers), ...]
        knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name=name, assumptions="n >= 4 and n mod 4 = 0")
        knl = pl.split_iname(knl, "i", 1024, outer_tag="g.0")
        return pl.split_iname(knl, "i_inner", 4, outer_tag="l.0", inner_tag="vec")

    return build


def _expected_copy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = _sampled(len(arrays["x"]))
    return {"y": (at, _wide(arrays["x"][at]))}


def _expected_axpy(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = _sampled(len(arrays["x"]))
    return {"z": (at, float(arrays["alpha"]) * _wide(arrays["x"][at]) + _wide(arrays["y"][at]))}


def _axpy_inputs(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return {**_vectors("x", "y")(sizes, rng), "alpha": F(1.25)}


ELEMENTWISE: Final = (
    Case(
        "copy",
        _elementwise("copy", "y[i] = x[i]", "x, y"),
        ({"n": GIB // 4},),
        {"n": 1000},
        _vectors("x"),
        _expected_copy,
        lambda sizes: 8 * sizes["n"],
    ),
    Case(
        "axpy",
        _elementwise("axpy", "z[i] = alpha*x[i] + y[i]", "x, y, z", "alpha"),
        ({"n": GIB // 4},),
        {"n": 1000},
        _axpy_inputs,
        _expected_axpy,
        lambda sizes: 12 * sizes["n"],
    ),
)

# }}}


# {{{ transpose and stencil


def _transpose() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [pl.GlobalArg("a, b", F, shape="n, n"), ...],
        name="transpose",
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "i_inner", 8, inner_tag="l.1", outer_tag="unr")
    return pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "j_inner"])


def _matrix(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    return {"a": rng.random((sizes["n"], sizes["n"]), F)}


def _expected_transpose(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = _sampled(len(arrays["a"]), 32)
    return {"b": (at, _wide(arrays["a"][:, at]).T)}


def _stencil() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 1 <= i, j, k < n - 1}",
        "v[i, j, k] = u[i-1, j, k] + u[i+1, j, k] + u[i, j-1, k] + u[i, j+1, k] + u[i, j, k-1] + u[i, j, k+1]"
        " - 6*u[i, j, k]",
        [pl.GlobalArg("u, v", F, shape="n, n, n"), ...],
        name="stencil",
        assumptions="n >= 3",
    )
    knl = pl.split_iname(knl, "k", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 4, outer_tag="g.1", inner_tag="l.1")
    return pl.tag_inames(knl, "i:g.2")


def _cube(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    n = sizes["n"]
    return {"u": rng.random((n, n, n), F), "v": np.zeros((n, n, n), F)}


def _expected_stencil(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    u = arrays["u"]
    planes = sorted({1, len(u) // 2, len(u) - 2})
    found = np.zeros((len(planes), *u.shape[1:]))
    for row, i in enumerate(planes):
        below, here, above = (_wide(u[k]) for k in (i - 1, i, i + 1))
        found[row, 1:-1, 1:-1] = (
            below[1:-1, 1:-1] + above[1:-1, 1:-1] + here[:-2, 1:-1] + here[2:, 1:-1] + here[1:-1, :-2]
            + here[1:-1, 2:] - 6 * here[1:-1, 1:-1]
        )  # fmt: skip
    return {"v": (planes, found)}


NEIGHBOURS: Final = (
    Case(
        "transpose",
        _transpose,
        ({"n": 16384},),
        {"n": 65},
        _matrix,
        _expected_transpose,
        lambda sizes: 8 * sizes["n"] ** 2,
    ),
    Case(
        "stencil",
        _stencil,
        ({"n": 512},),
        {"n": 10},
        _cube,
        _expected_stencil,
        lambda sizes: 8 * sizes["n"] ** 3,
        rtol=1e-4,
    ),
)

# }}}


# {{{ matrix product


def _matmul() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", F, shape="n, n"), ...],
        name="matmul",
        assumptions="n >= 1 and n mod 128 = 0",
    )
    knl = pl.split_iname(knl, "i", 128, outer_tag="g.1")
    knl = pl.split_iname(knl, "i_inner", 16, outer_tag="ilp", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 128, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 16, outer_tag="ilp", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner_outer", "i_inner_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["j_inner_outer", "j_inner_inner", "k_inner"])


def _matrices(sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
    n = sizes["n"]
    return {name: rng.random((n, n), F) - F(0.5) for name in ("a", "b")}


def _expected_matmul(arrays: Arrays) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
    at = _sampled(len(arrays["a"]), 16)
    return {"c": (at, _wide(arrays["a"][at]) @ _wide(arrays["b"]))}


PRODUCTS: Final = (
    Case(
        "fp32 GEMM",
        _matmul,
        ({"n": 4096},),
        {"n": 128},
        _matrices,
        _expected_matmul,
        lambda sizes: 12 * sizes["n"] ** 2,
        lambda sizes: 2 * sizes["n"] ** 3,
        rtol=1e-4,
    ),
)

# }}}

CASES: Final[Mapping[str, Case]] = {case.name: case for case in (*ELEMENTWISE, *NEIGHBOURS, *PRODUCTS)}
