"""Values of every kind that has a form, and kernels with every feature: what the forms of ``changed`` are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import polyloop as pl
from tests.codegen.test_clusters import by_cluster, rows
from tests.gallery import GALLERY
from tests.runtime.hosts import PROGRAMS
from tests.serial.test_form import MAKE

__all__ = ["FORMS"]

_EXAMPLES: Final = (
    "argmin_two_launches", "csr_warps", "dot_atomic", "histogram", "jacobi_time_skewed", "layer_norm",
    "lattice_boltzmann", "matmul_fp8", "matmul_mma", "matmul_pipelined", "matmul_registers", "matmul_vectors",
    "matmul_wgmma", "prefix_sum_single_pass", "softmax", "spectral_laplacian", "stencil_3d", "sum_factorization",
    "transpose",
)  # fmt: skip
"""Those whose kernels have copies by engines, matrix instructions, scans over blocks and several launches."""


def _of_example(name: str) -> Callable[[], Any]:
    return lambda: import_module(f"examples.{name}").transformed()


def _gradient() -> pl.LoopKernel:
    return pl.differentiate(pl.make_einsum("ij,j->i", "a, x").add_dtypes({"a": "float32", "x": "float32"}), wrt="a, x")


FORMS: Final[Mapping[str, Callable[[], Any]]] = {
    **{name: example.build for name, example in GALLERY.items()},
    **{f"example {name}": _of_example(name) for name in _EXAMPLES},
    **{f"launches {name}": program.kernel for name, program in PROGRAMS.items()},
    **{name: make for name, make in MAKE.items() if name != "equivalence"},
    "a gradient": _gradient,
    "a cluster": lambda: by_cluster(rows(), 4, 32),
}
"""By name; functions that make them."""
