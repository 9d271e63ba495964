"""What the CUDA target can be told."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl
from examples import stencil_3d_vectors
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import resources
from tests.transform.test_pipeline import product


def test_room_for_several_blocks_can_be_asked_for() -> None:
    target = pl.CudaTarget("sm_80", min_blocks=3)
    assert str(target) == "pl.CudaTarget('sm_80', min_blocks=3)"
    assert target == pl.CudaTarget("sm_80", min_blocks=3) != pl.CudaTarget("sm_80")
    assert "__launch_bounds__(64, 3) product(" in pl.generate_code(product(), target=target).device_code
    assert "__launch_bounds__(64) product(" in pl.generate_code(product(), target=pl.CudaTarget("sm_80")).device_code


def test_blocks_at_the_ends_can_share_the_text_of_those_inside() -> None:
    target = pl.CudaTarget("sm_80", full_blocks=False)
    assert str(target) == "pl.CudaTarget('sm_80', full_blocks=False)"
    assert target != pl.CudaTarget("sm_80")
    knl = stencil_3d_vectors.transformed()
    program = pl.generate_code(knl, target=target)
    one, two = program.device_code, pl.generate_code(knl, target=pl.CudaTarget("sm_80")).device_code
    assert two.count("for (int i_inner") == 2 * one.count("for (int i_inner")
    assert "4 * bz + 5 < m" in two
    assert "4 * bz + 5 < m" not in one
    for m, n in ((3, 4), (6, 12), (7, 128)):
        arrays = stencil_3d_vectors.inputs(np.random.default_rng(m), m, n)
        wanted = stencil_3d_vectors.expected(**arrays)
        for order, found in run_on_fibres(program, arrays).items():
            np.testing.assert_allclose(found.v, wanted["v"], rtol=1e-4, atol=1e-5, err_msg=order)


@pytest.mark.parametrize("count", [-1, 1.5, "2", True])
def test_a_number_of_blocks_is_a_number(count: object) -> None:
    with pytest.raises(pl.CodegenError) as caught:
        pl.CudaTarget(min_blocks=count)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"CudaTarget: min_blocks={count!r} is no number of blocks [bad-min-blocks]\n"
        "  Hint: min_blocks=2 asks for room for two blocks, 0 for nothing"
    )


@pytest.mark.nvrtc
def test_the_compiler_keeps_to_the_registers_that_leave_room() -> None:
    knl = product(tile=128, depth=16, each=8)
    program = pl.generate_code(knl, target=pl.CudaTarget("sm_90", min_blocks=4))
    found = resources(compile_cuda(program.device_code, "sm_90").cubin, {"product": 256})["product"]
    assert found.registers <= 65536 // (4 * 256)
