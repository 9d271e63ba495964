"""A digit of the thread number beside lanes and warps, of which the axes are ``l.0`` and ``l.1``."""

from __future__ import annotations

import pytest

import polyloop as pl
from polyloop.target.base import Target


@pytest.mark.parametrize(("length", "outer", "inner"), [(4, "w", "l%4"), (12, "l/4", "lane"), (2, "w", "l%4")])
@pytest.mark.parametrize("target", [pl.CTarget(), pl.CudaTarget()])
def test_lanes_and_warps_beside_digits_are_axes(length: int, outer: str, inner: str, target: Target) -> None:
    knl = pl.add_dtypes(pl.make_kernel("{[i]: 0 <= i < 3}", "y[i] = 2*x[i]"), {"x": "float32"})
    knl = pl.split_iname(knl, "i", length, outer_tag=outer, inner_tag=inner)
    assert pl.generate_code(knl, target=target).device_code is not None
