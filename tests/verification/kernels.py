"""Small kernels that the analyses are tried on."""

from __future__ import annotations

import numpy as np

import polyloop as pl


def exchange(reader: str, *, ny: int = 8, nx: int = 32) -> pl.LoopKernel:
    """A block of ny x nx threads writes a shared tile and reads ``t[reader]``."""
    return pl.make_kernel(
        f"{{[b, y, x]: 0 <= b < n and 0 <= y < {ny} and 0 <= x < {nx}}}",
        f"""
        for b
            for y, x
                <> t[y, x] = g[b, y, x] {{id=put}}
            end
            for y, x
                o[b, y, x] = t[{reader}] {{id=get}}
            end
        end
        """,
        [pl.GlobalArg("g, o", np.float32), ...],
        name="exchange",
    )


def on_threads(knl: pl.LoopKernel) -> pl.LoopKernel:
    """One block for each b, one thread for each (y, x)."""
    return pl.tag_inames(knl, "b:g.0, y:l.1, x:l.0")
