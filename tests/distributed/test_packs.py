"""Send buffers that the kernel of a phase fills, beside what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.ranks import on_gpu
from polyloop.distributed.execute import Execution
from polyloop.distributed.filled import ready
from polyloop.runtime.nvrtc import compile_cuda
from tests.distributed import programs
from tests.distributed.programs import Case, compare


@pytest.mark.parametrize(("case", "mesh", "array", "before", "after"), [
    (programs.heat(), (2, 2), "u", 24, 8),             # the first step's messages are packed as ever
    (programs.heat_1d_mesh(n=5), (4,), "u", 9, 5),     # one block is empty, and one has no inner part
    (programs.conjugate_gradients(), (3,), "p", 24, 4),
    (programs.boundaries(), (3,), "u", 24, 24),        # another statement writes u in front of the exchange
    (programs.history(), (3,), "u", 16, 16),           # another row of u goes in each step
], ids=str)
def test_messages_are_packed_by_the_kernel_that_computes_them(
    case: Case, mesh: tuple[int, ...], array: str, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, packed = [0], Execution.packed

    def counted(self: Execution, *arguments: Any) -> Any:
        count[0] += 1
        return packed(self, *arguments)

    monkeypatch.setattr(Execution, "packed", counted)
    exact = case.kernel.name != "cg"
    sent = compare(case, mesh, exact=exact)
    assert count[0] == before
    for overlap in (True, False):
        count[0] = 0
        assert compare(case, mesh, exact=exact, packed=array, overlap=overlap) == sent
        assert count[0] == after


def test_the_producer_writes_the_send_buffer() -> None:
    divided = programs.heat().divided((2, 2), packed="u")
    assert "    heat_1: insn_1\n            u_low0: what it sends of 'u'" in str(divided)
    text = pl.generate_code(divided.kernels["heat_1"], target=pl.CTarget()).device_code
    assert text.count("for (int k") == 1
    inner = text[text.index("for (int k"):]
    assert inner.index("u[u_offset] = v[") < inner.index("u_low0[") < inner.index("u_high1[")
    assert "u_low0" not in str(divided.kernels["heat_0"])


def test_a_box_that_the_phase_does_not_write_is_not_ready() -> None:
    """The phase writes the inner points alone; a message with points of the edge is packed afterwards."""
    kernel = pl.make_kernel(
        "{[t, i, j, k, l]: 0 <= t < steps and 0 <= i, k < n and 1 <= j < n - 1 and 0 <= l < n}",
        """
        for t
            for i, j
                u[i, j] = v[i, j] + 1
            end
            for k, l
                v[k, l] = u[k, l] + if(k > 0, u[k - 1, l], 0.0)
            end
        end
        """, [pl.GlobalArg("u, v", np.float64, shape="n, n"), ...], name="inner", assumptions="n >= 3 and steps >= 0")
    case = Case(kernel, {"u": "block, *", "v": "block, *"}, "i:mesh.0, k:mesh.0", {"n": 8, "steps": 3})
    plan = case.divided((2,), packed="u").plan(**case.sizes)
    local = plan.locals[0]
    assert [ready(plan, local, pack, (0,)) for pack in local.packs] == [None, None]
    compare(case, (2,), packed="u")


@pytest.mark.nvrtc
def test_a_packing_kernel_is_transformed_for_a_gpu() -> None:
    divided = programs.heat_1d_mesh().divided((2,), packed="u").transformed("heat_1", on_gpu)
    text = pl.generate_code(divided.kernels["heat_1"], target=pl.CudaTarget()).device_code
    assert text.count("__global__") == 1
    assert "u_high0[" in text
    assert compile_cuda(text, "sm_90").cubin


@pytest.mark.parametrize(("options", "message"), [
    ({"packed": "w"}, "'w' is no argument in blocks"),
    ({"packed": "u", "deep": {"t": 2}}, "pack nothing"),
])
def test_what_is_not_packed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.KernelError, match=message) as err:
        programs.heat_1d_mesh().divided((2,), **options)
    assert err.value.codes == ("bad-distribution",)
