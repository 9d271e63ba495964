"""Products on tensor cores inside of larger kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyloop as pl
from tests.gallery.base import Case, example

HEADS, DEPTH = 2, 32


def _scores(n: int, rng: np.random.Generator) -> Case:
    q, k = (rng.integers(-3, 4, (HEADS, n, DEPTH)).astype(np.float16) for _ in range(2))
    scores: Any = 0.25 * np.einsum("hik,hjk->hij", q.astype(np.float32), k.astype(np.float32))
    below = np.tril(np.ones((n, n), bool))
    return {"q": q, "k": k}, {"s": np.where(below, scores, -1).astype(np.float32)}


@example(_scores, sizes=(1, 7, 33))
def masked_scores() -> pl.LoopKernel:
    """Scores of attention, scaled and masked where the warp has them: the matrices of a head, by rows both."""
    knl = pl.make_kernel(
        f"{{[h, i, j, d]: 0 <= h < {HEADS} and 0 <= i, j < n and 0 <= d < {DEPTH}}}",
        "s[h, i, j] = 0.25*sum(d, q[h, i, d]*k[h, j, d]) if j <= i else -1",
        [pl.GlobalArg("q, k", np.float16, shape=f"{HEADS}, n, {DEPTH}"),
         pl.GlobalArg("s", np.float32, shape=f"{HEADS}, n, n"), ...],
        name="masked_scores", assumptions="n >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "h:g.2")
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0")
    knl = pl.split_iname(knl, "j_inner", 8, outer_iname="w", inner_iname="jj", outer_tag="l/32")
    knl = pl.split_iname(knl, "d", 16, outer_tag="unr")
    return pl.tensorize(knl, "writes:s", "mma_m16n8k16_f16")
