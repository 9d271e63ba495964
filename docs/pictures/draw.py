"""Pictures of this folder, which ../pictures.md shows: ``python docs/pictures/draw.py`` draws them anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

import polyloop as pl  # noqa: E402
from examples import axpy_vectors, flash_attention, layer_norm, matmul_pipelined, matmul_tiled, matmul_wgmma, stencil_2d  # noqa: E402


def pictures() -> Iterator[tuple[str, pl.Picture]]:
    """Yield the name and the picture of each file."""
    matmul = matmul_tiled.transformed()
    yield "loops", matmul.loops
    yield "loops_flash_attention", flash_attention.transformed().loops
    yield "domain", matmul.draw_domain("j, i", sizes={"m": 20, "n": 40, "p": 3})
    stencil = pl.make_kernel(
        "{[t, i]: 0 <= t < T and 1 <= i < n - 1}",
        "u[t + 1, i] = u[t, i - 1] + u[t, i + 1]",
        [pl.GlobalArg("u", np.float32, shape="T + 1, n"), ...],
        name="stencil",
    )
    skewed = stencil.map_domain("{[t, i] -> [t, i + 2*t]}").split_iname("i", 4).prioritize_loops("i_outer, t, i_inner")
    first = pl.dependences(stencil)[0]
    yield "domain_skewed", skewed.draw_domain("i, t", dependence=first, sizes={"T": 6, "n": 14})
    try:
        stencil.tag_inames("t: l.0")
    except pl.TransformError as error:
        yield "domain_refusal", stencil.draw_domain(refusal=error, sizes={"T": 4, "n": 10})
    yield "accesses", matmul.draw_accesses("a_fetch")
    yield "dependences", layer_norm.transformed().draw_dependences()
    knl = matmul_tiled.program().split_iname("i", 16, outer_tag="g.0", inner_tag="l.0").split_iname("k", 16)
    yield "pipeline", matmul_pipelined.transformed().draw_pipeline()
    yield "pipeline_products", matmul_wgmma.transformed().draw_pipeline(target=pl.CudaTarget("sm_90a"))
    square = {"m": 4096, "n": 4096, "p": 4096}
    bounds = [
        pl.explain(axpy_vectors.transformed(), {"n": 1 << 28}),
        pl.explain(stencil_2d.transformed(), {"m": 8192, "n": 8192}),
        pl.explain(matmul, square),
        pl.explain(matmul_wgmma.transformed(), square),
    ]
    yield "roofline", pl.draw_roofline(bounds, seconds=[736e-6, None, None, 246e-6])
    tiled = stencil_2d.program().split_iname("i", 8, outer_tag="g.1", inner_tag="l.1")
    tiled = tiled.split_iname("j", 16, outer_tag="g.0", inner_tag="l.0")
    yield "footprint", tiled.draw_footprint(sizes={"m": 28, "n": 52})
    yield "layout_mma", pl.draw_layout("mma_m16n8k16_bf16")
    yield "layout_swizzle", matmul_wgmma.transformed().draw_layout("a_tile")
    tuned = Path(__file__).with_name("tuned.json").read_text(encoding="utf-8")
    yield "tuned", pl.Tuned.from_json(tuned).draw()
    yield "diff", knl.diff(knl.add_prefetch("a", ["i_inner", "k_inner"]))


if __name__ == "__main__":
    for name, picture in pictures():
        print(picture.save(Path(__file__).with_name(f"{name}.svg")).name, picture.size)
