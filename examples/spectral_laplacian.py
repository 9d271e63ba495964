"""A Laplacian on spectral elements of 8 by 8 nodes: a thread a node, fluxes are exchanged in shared memory."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"elements": 1}, {"elements": 3}, {"elements": 4}, {"elements": 5}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[e, i, j, k]: 0 <= e < elements and 0 <= i, j, k < 8}",
        """
        for e
            for i, j
                <> du_r = sum(k, d[i, k]*u[e, k, j])
                <> du_s = sum(k, d[j, k]*u[e, i, k])
                <> flux_r[i, j] = g[e, 0, i, j]*du_r + g[e, 1, i, j]*du_s
                <> flux_s[i, j] = g[e, 1, i, j]*du_r + g[e, 2, i, j]*du_s
            end
            for i, j
                lap[e, i, j] = sum(k, d[k, i]*flux_r[k, j] + d[k, j]*flux_s[i, k])
            end
        end
        """,
        [
            pl.GlobalArg("u, lap", np.float32, shape="elements, 8, 8"),
            pl.GlobalArg("g", np.float32, shape="elements, 3, 8, 8"),
            pl.GlobalArg("d", np.float32, shape="8, 8"),
            ...,
        ],
        name="spectral_laplacian",
        assumptions="elements >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "e", 4, outer_tag="g.0", inner_tag="l.2")
    knl = pl.privatize_temporaries_with_inames(knl, "e_inner", "flux_r, flux_s")
    knl = pl.tag_array_axes(pl.tag_array_axes(knl, "flux_r", "N1,N0,N2"), "flux_s", "N1,N0,N2")
    knl = pl.tag_inames(knl, "i:l.1, j:l.0, k:unr")
    knl = pl.add_prefetch(knl, "d", ["i", "j", "k"])
    return pl.add_prefetch(knl, "u", ["e_inner", "i", "j", "k"])


def inputs(rng: np.random.Generator, elements: int) -> dict[str, Any]:
    return {
        "u": rng.random((elements, 8, 8), np.float32),
        "g": rng.random((elements, 3, 8, 8), np.float32),
        "d": rng.random((8, 8), np.float32) - np.float32(0.5),
    }


def expected(u: Any, g: Any, d: Any) -> dict[str, Any]:
    du_r, du_s = d @ u, u @ d.T
    flux_r, flux_s = g[:, 0] * du_r + g[:, 1] * du_s, g[:, 1] * du_r + g[:, 2] * du_s
    return {"lap": d.T @ flux_r + flux_s @ d}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), elements=1001)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.lap, wanted["lap"], rtol=1e-4, atol=1e-4)
    print("spectral_laplacian: 1001 elements agree with NumPy")
