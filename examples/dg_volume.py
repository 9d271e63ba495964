"""The volume term of a discontinuous Galerkin method: gradients on tetrahedra of 20 nodes, four elements a thread."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"elements": 1}, {"elements": 15}, {"elements": 16}, {"elements": 17}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[e, i, j, r, s, x]: 0 <= e < elements and 0 <= i, j < 20 and 0 <= r, s, x < 3}",
        """
        for e, i
            <> along[r] = sum(j, d[r, i, j]*u[e, j])
            grad[x, e, i] = sum(s, drdx[x, s, e]*along[s])
        end
        """,
        [
            pl.GlobalArg("d", np.float32, shape="3, 20, 20"),
            pl.GlobalArg("u", np.float32, shape="elements, 20"),
            pl.GlobalArg("drdx", np.float32, shape="3, 3, elements"),
            pl.GlobalArg("grad", np.float32, shape="3, elements, 20"),
            ...,
        ],
        name="dg_volume",
        assumptions="elements >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "e", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "e_inner", 4, outer_tag="l.1", inner_tag="ilp")
    knl = pl.tag_inames(knl, "i:l.0, r:unr, s:unr, x:unr")
    knl = pl.add_prefetch(knl, "u", ["e_inner_outer", "e_inner_inner", "j"])
    knl = pl.add_prefetch(knl, "d", ["r", "i", "j"])
    return pl.add_padding(knl, "d_fetch", axis=1, align_bytes=4 * 21)


def inputs(rng: np.random.Generator, elements: int) -> dict[str, Any]:
    return {
        "d": rng.random((3, 20, 20), np.float32),
        "u": rng.random((elements, 20), np.float32),
        "drdx": rng.random((3, 3, elements), np.float32),
    }


def expected(d: Any, u: Any, drdx: Any) -> dict[str, Any]:
    return {"grad": np.einsum("xre,rij,ej->xei", drdx, d, u)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), elements=1000)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.grad, wanted["grad"], rtol=1e-4, atol=1e-5)
    print("dg_volume: gradients on 1000 elements agree with NumPy")
