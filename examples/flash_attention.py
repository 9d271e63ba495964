"""Attention without its matrix: a thread a query row, tiles of keys and values in shared memory, online softmax."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": 1, "m": 1}, {"n": 63, "m": 7}, {"n": 64, "m": 8}, {"n": 65, "m": 17}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        [
            "{[i]: 0 <= i < n}",
            "{[t]: 0 <= 8*t < m}",
            "{[j, j1, j2, j3]: 0 <= j, j1, j2, j3 < 8 and 8*t + j < m and 8*t + j1 < m and 8*t + j2 < m"
            " and 8*t + j3 < m}",
            "{[c, d, d1, d2]: 0 <= c, d, d1, d2 < 16}",
        ],
        """
        for i
            <> top = -3e38f
            <> total = 0f
            <> acc[d] = 0f
            for t
                <> s[j] = scale*sum(c, q[i, c]*k[8*t + j, c])
                <> next = max(top, max(j1, s[j1]))
                <> shrink = exp(top - next)
                top = next
                <> w[j2] = exp(s[j2] - top)
                total = total*shrink + sum(j3, w[j3])
                acc[d1] = acc[d1]*shrink + sum(j3, w[j3]*v[8*t + j3, d1])
            end
            o[i, d2] = acc[d2]/total
        end
        """,
        [
            pl.GlobalArg("q, o", np.float32, shape="n, 16"),
            pl.GlobalArg("k, v", np.float32, shape="m, 16"),
            pl.ValueArg("scale", np.float32),
            ...,
        ],
        name="flash_attention",
        assumptions="n >= 1 and m >= 1",
    )


def transformed() -> pl.LoopKernel:
    knl = program()
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.tag_inames(knl, "c:unr, d:unr, d1:unr, d2:unr, j:unr, j1:unr, j2:unr, j3:unr")
    knl = pl.add_prefetch(knl, "k", ["j", "c"])
    knl = pl.add_prefetch(knl, "v", ["j3", "d1"])
    knl = pl.add_prefetch(knl, "q", ["c"], fetch_outer_inames="i_outer, i_inner", default_tag="unr")
    return pl.peel(knl, "t", front=0, back=1)


def inputs(rng: np.random.Generator, n: int, m: int) -> dict[str, Any]:
    q, k, v = (rng.standard_normal((length, 16), np.float32) for length in (n, m, m))
    return {"q": q, "k": k, "v": v, "scale": np.float32(16**-0.5)}


def expected(q: Any, k: Any, v: Any, scale: Any) -> dict[str, Any]:
    s = scale * q @ k.T
    w = np.exp(s - s.max(1, keepdims=True))
    return {"o": w @ v / w.sum(1, keepdims=True)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=300, m=500)
    wanted = expected(**arrays)
    result = pl.compile(transformed())(**arrays)
    np.testing.assert_allclose(result.o, wanted["o"], rtol=1e-4, atol=1e-5)
    print("flash_attention: 300 queries, 500 keys, agree with NumPy")
