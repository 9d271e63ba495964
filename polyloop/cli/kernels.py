"""The demo kernels, also used by the golden tests, the benchmarks and the GPU runs.

Each is built in two steps, as in a script of a user's: the algorithm first, then its transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

import polyloop as pl

__all__ = ["DEMO_KERNELS", "DemoKernel", "axpy", "matmul", "stencil"]


@dataclass(frozen=True, slots=True)
class DemoKernel:
    """One kernel of the demo.

    Attributes
    ----------
    define
        Function that returns the kernel without transforms.
    transform
        Returns the kernel as it runs on a GPU: how it is computed.
    """

    name: str
    define: Callable[[], pl.LoopKernel]
    transform: Callable[[pl.LoopKernel], pl.LoopKernel]

    def build(self) -> pl.LoopKernel:
        """Return the kernel with its transforms applied."""
        return self.transform(self.define())


def _define_axpy() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "z[i] = alpha * x[i] + y[i]",
        [pl.GlobalArg("x, y, z", np.float32, shape="n"), pl.ValueArg("alpha", np.float32), ...],
        name="axpy",
        assumptions="n >= 1",
    )


def _transform_axpy(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")


def _define_matmul() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [pl.GlobalArg("a, b, c", np.float32, shape="n, n"), ...],
        name="matmul",
        assumptions="n >= 1",
    )


def _transform_matmul(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def _define_stencil() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, j]: 0 <= i < h - 2 and 0 <= j < w - 2}",
        "lap[i, j] = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2] - 4 * u[i + 1, j + 1]",
        [
            pl.GlobalArg("u", np.float32, shape="h, w"),
            pl.GlobalArg("lap", np.float32, shape="h - 2, w - 2"),
            ...,
        ],
        name="stencil",
        assumptions="h >= 3 and w >= 3",
    )


def _transform_stencil(knl: pl.LoopKernel) -> pl.LoopKernel:
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "u", ["i_inner", "j_inner"])


_AXPY: Final = DemoKernel("axpy", _define_axpy, _transform_axpy)
_MATMUL: Final = DemoKernel("matmul", _define_matmul, _transform_matmul)
_STENCIL: Final = DemoKernel("stencil", _define_stencil, _transform_stencil)

DEMO_KERNELS: Final = {demo.name: demo for demo in (_AXPY, _MATMUL, _STENCIL)}


def axpy() -> pl.LoopKernel:
    """Return ``z = alpha x + y``, 256 threads a block."""
    return _AXPY.build()


def matmul() -> pl.LoopKernel:
    """Return a matrix product in 16 x 16 tiles, with both factors prefetched to shared memory."""
    return _MATMUL.build()


def stencil() -> pl.LoopKernel:
    """Return the 5-point Laplacian of a picture in 16 x 16 tiles, each prefetched with its halo."""
    return _STENCIL.build()
