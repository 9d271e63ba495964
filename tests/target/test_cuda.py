"""What the CUDA target can be told."""

from __future__ import annotations

import pytest

import polyloop as pl
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import resources
from tests.transform.test_pipeline import product


def test_room_for_several_blocks_can_be_asked_for() -> None:
    target = pl.CudaTarget("sm_80", min_blocks=3)
    assert str(target) == "pl.CudaTarget('sm_80', min_blocks=3)"
    assert target == pl.CudaTarget("sm_80", min_blocks=3) != pl.CudaTarget("sm_80")
    assert "__launch_bounds__(64, 3) product(" in pl.generate_code(product(), target=target).device_code
    assert "__launch_bounds__(64) product(" in pl.generate_code(product(), target=pl.CudaTarget("sm_80")).device_code


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
