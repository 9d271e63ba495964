"""Matrix products on the matrix units of AMD GPUs: waves add up tiles by ``mfma`` and ``wmma``."""

from __future__ import annotations

import polyloop as pl
from polyloop.kernel.intrinsic import INTRINSICS

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
    (rows, columns), (height, width), (m, n, depth), lanes = block, wave, entry.shape, entry.lanes
    high = rows // height
    knl = pl.split_iname(knl, "i", rows, outer_iname="by", inner_iname="i_block", outer_tag="g.1")
    knl = pl.split_iname(knl, "i_block", height, outer_iname="wi", inner_iname="i_wave", outer_tag=f"l/{lanes}%{high}")
    knl = pl.split_iname(knl, "i_wave", m, outer_iname="mi", inner_iname="ii", outer_tag="unr")
    knl = pl.split_iname(knl, "j", columns, outer_iname="bx", inner_iname="j_block", outer_tag="g.0")
    knl = pl.split_iname(knl, "j_block", width, outer_iname="wj", inner_iname="j_wave", outer_tag=f"l/{lanes * high}")
    knl = pl.split_iname(knl, "j_wave", n, outer_iname="ni", inner_iname="jj", outer_tag="unr")
    knl = pl.split_iname(knl, "k", terms, outer_iname="ko", inner_iname="k_block")
    knl = pl.split_iname(knl, "k_block", depth, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = pl.prioritize_loops(knl, "ko, kk, mi, ni")
    knl = pl.tensorize(knl, "insn", intrinsic)
    inames = sorted(knl.inames)
    for array, outer, own in (("a", "wi, mi", "ii"), ("b", "wj, ni", "jj")):
        sweep = [outer, *(x for x in inames if x.startswith(own)), "kk, ki"]
        knl = pl.add_prefetch(
            knl, array, ", ".join(sweep), temporary_name=f"{array}_tile", pad=pad, vec=vec if vec > 1 else None
        )
    return pl.pipeline(knl, "ko", stages=2, via="registers")
