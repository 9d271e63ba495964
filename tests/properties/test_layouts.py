"""Random layouts under wide accesses: padding, swizzles, orders, strides; on fibres and in C as interpreted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.testing.drawing.random_tiles import tile_recipe, tile_source

REFUSED = {
    "bad-lanes", "bad-layout", "bad-swizzle", "bad-value", "block-too-large", "overlapping-elements",
    "shared-too-large", "wrong-rank",
}  # fmt: skip


def drawn(seed: int) -> tuple[pl.LoopKernel, dict[str, np.ndarray[Any, Any]]]:
    """Return a kernel with wide copies into a tile of a random layout, and its input; refused steps are left out."""
    knl = tile_source(seed).make()
    for step in tile_recipe(seed):
        if step.name == "add_prefetch" and "a_fetch" in knl.temporaries:
            continue
        try:
            knl = step(knl)
        except pl.TransformError as refused:
            assert set(refused.codes) <= REFUSED, refused  # noqa: PT017 - most are not
    shape = knl.arrays()["a"].shape
    return knl, {"a": np.random.default_rng(seed).integers(0, 50, shape).astype(knl.arrays()["a"].dtype)}


def check(seed: int) -> str:
    """Run the kernel of a seed; "" if all agree, and the code if it is refused when its text is made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pl.PolyloopWarning)
        knl, given = drawn(seed)
        try:
            program = pl.generate_code(knl, target=pl.CudaTarget())
        except (pl.VerificationError, pl.CodegenError) as refused:
            assert set(refused.codes) <= REFUSED, f"{seed}: {refused}"  # noqa: PT017 - few are refused
            return refused.codes[0]
        wanted = pl.interpret(knl, **given).b
        for order, result in run_on_fibres(program, given).items():
            np.testing.assert_array_equal(result.b, wanted, err_msg=f"{seed} {order}\n{program.device_code}")
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(**given).b, wanted, err_msg=f"{seed} in C")
    return ""


def test_layouts_under_wide_accesses() -> None:
    found = [check(seed) for seed in range(12)]
    assert found.count("") > len(found) // 2


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 2100, 100))
def test_many_layouts_under_wide_accesses(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)
