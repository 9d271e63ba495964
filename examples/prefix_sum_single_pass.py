"""A prefix sum over a large array in one pass: tiles by blocks, which pass their totals on to each other."""

from typing import Any

import numpy as np

import polyloop as pl

SIZES = [{"n": n} for n in (1, 8191, 8192, 8195)]
SMALL = [{"n": 1}, {"n": 200}]


def program() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[m, i, j]: 0 <= m, i < n and 0 <= j <= i}",
        """
        <> x[m] = a[m]             {id=load}
        b[i] = sum(j, x[j])        {id=scan}
        """,
        [pl.GlobalArg("a, b", np.float32, shape="n"), ...],
        name="prefix_sum_single_pass",
    )


def transformed(warps: int = 4, rounds: int = 16) -> pl.LoopKernel:
    """Return the scan with a tile a block; each warp reads its part in rounds, in which a lane has four elements."""
    part = 128 * rounds

    def round_of(knl: pl.LoopKernel, iname: str, own: str, tag: str = "unr") -> pl.LoopKernel:
        return pl.split_iname(
            knl, iname, 4, outer_iname=f"lane_{own}", outer_tag="l.0", inner_iname=f"k_{own}", inner_tag=tag
        )

    def part_of(knl: pl.LoopKernel, iname: str, own: str, tag: str = "unr") -> pl.LoopKernel:
        knl = pl.split_iname(knl, iname, 128, outer_iname=f"r_{own}", outer_tag="unr", inner_iname=f"in_{own}")
        return round_of(knl, f"in_{own}", own, tag)

    def tile_of(knl: pl.LoopKernel, iname: str, own: str, tag: str = "unr") -> pl.LoopKernel:
        knl = pl.split_iname(knl, iname, part, outer_iname=f"w_{own}", outer_tag="l.1", inner_iname=f"of_{own}")
        return part_of(knl, f"of_{own}", own, tag)

    knl = pl.split_iname(program(), "m", warps * part, outer_iname="tile_x", outer_tag="g.0")
    knl = tile_of(knl, "m_inner", "x", "vec")
    # The sum of a tile, and of the tiles before it, which is over blocks: it is added where results are stored, so that
    # a block scans its tile before it waits for the blocks before it.
    knl = pl.split_scan(
        knl, "i", warps * part, outer_iname="tile", outer_tag="g.0", inner_iname="place", sum_name="tile_sum",
        carry_name="before_tile", local_name="scanned", local_iname="e",
    )  # fmt: skip
    knl = tile_of(knl, "j_inner", "tile")
    knl = tile_of(knl, "place", "b", "vec")
    # The same for each warp's part of the tile, for its rounds, and for its lanes.
    knl = pl.split_scan(
        knl, "e", part, outer_iname="w", outer_tag="l.1", inner_iname="f", sum_name="warp_sum",
        carry_name="before_warp",
    )  # fmt: skip
    knl = part_of(knl, "j_local_inner", "warp")
    knl = pl.split_scan(
        knl, "f", 128, outer_iname="r", outer_tag="unr", inner_iname="g", sum_name="round_sum",
        carry_name="before_round",
    )  # fmt: skip
    knl = round_of(knl, "j_local_local_inner", "round")
    knl = pl.split_scan(
        knl, "g", 4, outer_iname="lane", outer_tag="l.0", inner_iname="k", inner_tag="unr", sum_name="lane_sum",
        carry_name="before_lane",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "j_local_local_local_inner:unr")
    # Each thread keeps its elements in registers, and what it has scanned.
    for extent in (4, 32, rounds):
        knl = pl.split_array_axis(knl, "scanned", 1, extent)
    for extent in (4, 32, rounds, warps):
        knl = pl.split_array_axis(knl, "x", 0, extent)
    return pl.realize_scan(knl)


def inputs(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"a": rng.integers(-9, 9, n).astype(np.float32)}


def expected(a: Any) -> dict[str, Any]:
    return {"b": np.cumsum(a)}


if __name__ == "__main__":
    arrays = inputs(np.random.default_rng(0), n=1_000_000)
    wanted = expected(**arrays)
    np.testing.assert_array_equal(pl.compile(transformed())(**arrays).b, wanted["b"])
    print("prefix_sum_single_pass: 1000000 elements agree with NumPy")
