"""Matrix products on the matrix units of AMD GPUs: waves add up tiles by ``mfma`` and ``wmma``."""

from __future__ import annotations

import polyloop as pl
from polyloop.kernel.intrinsic import INTRINSICS
from polyloop.library.tensor_cores import in_warps

__all__ = ["on_waves"]


def on_waves(
    knl: pl.LoopKernel,
    intrinsic: str,
    terms: int = 32,
    vec: int = 4,
    block: tuple[int, int] = (64, 64),
    wave: tuple[int, int] = (32, 32),
    *,
    pad: int = 4,
) -> pl.LoopKernel:
    """Return the product ``c[i, j] = sum(k, a[i, k]*b[k, j])`` in blocks, each of some waves.

    Parameters
    ----------
    intrinsic
        Such as ``"mfma_m32n32k8_bf16"`` (gfx90a, gfx942) or ``"wmma_m16n16k16_f16"`` (gfx1100); it says how many lanes
        a wave has, and the tile of one instruction.
    terms
        Terms of a tile in shared memory.
    vec
        Elements that a copy to shared memory moves at once.
    block, wave
        Rows and columns of a block, and of a wave.
    pad
        Elements between rows in shared memory, which bring rows into other banks.

    Notes
    -----
    While products of one tile are added up, the next tile is on its way to registers (:func:`polyloop.pipeline`).
    """
    entry = INTRINSICS[intrinsic]
    knl = in_warps(knl, (*block, terms), wave, entry.shape, lanes=entry.lanes)
    knl = pl.prioritize_loops(knl, "ko, kk, mi, ni")
    knl = pl.tensorize(knl, "insn", intrinsic)
    inames = sorted(knl.inames)
    for array, outer, own in (("a", "wi, mi", "ii"), ("b", "wj, ni", "jj")):
        sweep = [outer, *(x for x in inames if x.startswith(own)), "kk, ki"]
        knl = pl.add_prefetch(
            knl, array, ", ".join(sweep), temporary_name=f"{array}_tile", pad=pad, vec=vec if vec > 1 else None
        )
    return pl.pipeline(knl, "ko", stages=2, via="registers")
