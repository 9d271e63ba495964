"""Send buffers that the kernel of a phase fills, beside what it computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from benchmarks.ranks import on_gpu
from polyloop.distributed.execute import Execution
from polyloop.distributed.filled import Arrivals, ready
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


# {{{ unpacking


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of messages that kernels have unpacked, and of those that came to a kernel and that it did not."""
    count = [0, 0]

    def counting(place: int, old: Callable[[Arrivals], None]) -> Callable[[Arrivals], None]:
        def counted(self: Arrivals) -> None:
            count[place] += len(self.entries)
            old(self)

        return counted

    monkeypatch.setattr(Arrivals, "clear", counting(0, Arrivals.clear))
    monkeypatch.setattr(Arrivals, "unpack", counting(1, Arrivals.unpack))
    return count


@pytest.mark.parametrize(("case", "mesh", "array", "expected"), [
    (programs.heat(), (2, 2), "u", 24),
    (programs.heat_1d_mesh(n=5), (4,), "u", 9),    # one block is empty, and one computes nothing
    (programs.history(n=7), (4,), "u", 0),         # halos are wider than blocks: several ranks send parts of one
    (programs.history(n=16), (2,), "u", 0),        # elements of a row lie behind each other: nothing to unpack
    (programs.heat(), (1, 3), "u", 12),
], ids=str)
def test_messages_are_unpacked_by_the_kernel_that_reads_them(
    case: Case, mesh: tuple[int, ...], array: str, expected: int, unpacked: list[int]
) -> None:
    sent = compare(case, mesh)
    assert unpacked == [0, 0]
    for options in ({}, {"overlap": False}, {"packed": array}):
        unpacked[:] = 0, 0
        assert compare(case, mesh, unpacked=array, **options) == sent
        assert unpacked == [expected, 0]


def near(width: int) -> Case:
    """Rows of a plane whose neighbours are some columns away: columns are divided, so that messages are packed."""
    kernel = pl.make_kernel(
        f"{{[i, j]: {width} <= i < n - {width} and 0 <= j < m}}", f"v[j, i] = u[j, i - {width}] + u[j, i + {width}]",
        [pl.GlobalArg("u, v", np.float64, shape="m, n"), ...], name="near", assumptions=f"n > {2*width} and m >= 1")
    return Case(kernel, {"u": "*, block", "v": "*, block"}, "i:mesh.0", {"n": 15, "m": 3})


def fused(knl: pl.LoopKernel, side: str) -> pl.LoopKernel:
    """Return a kernel that unpacks a column in an iteration of the loop that reads it."""
    knl = pl.prioritize_loops(knl, f"u_from_{side}_x1, u_from_{side}_x0")
    return pl.fuse_loops(pl.prioritize_loops(knl, "i, j"), f"u_from_{side}_x1, i", new_iname="i")


def test_what_is_unpacked_is_fused_with_its_reads_where_it_still_comes_before_them(unpacked: list[int]) -> None:
    """One column comes in the first iteration; of two, the second would come behind a read of a short block."""
    case = near(1)
    divided = case.divided((3,), unpacked="u")
    for side in ("high0", "low0"):
        divided = divided.transformed("near_0", partial(fused, side=side))
    text = pl.generate_code(divided.kernels["near_0"], target=pl.CTarget()).device_code
    assert text.count("for (int i") == 1
    assert "for (int u_from_low0_x1" not in text
    expected = case.expected()

    def program(engine: pl.Engine) -> Any:
        return case.on_rank(divided.compile(engine, pl.CTarget()))

    for found in pl.run_ranks(3, program):
        np.testing.assert_array_equal(found["v"], expected["v"])
    assert unpacked == [4, 0]
    with pytest.raises(pl.TransformError) as err:
        fused(near(2).divided((3,), unpacked="u").kernels["near_0"], "high0")
    assert err.value.codes == ("illegal-order",)
    assert "(u_from_high0_x0=0, u_from_high0_x1=1) writes u[0, 2]; instance (i=0, j=0) reads it" in str(err.value)


@pytest.mark.nvrtc
def test_a_kernel_that_unpacks_is_two_launches_on_a_gpu() -> None:
    """The elements come before all reads of other blocks: the schedule divides the kernel there, and says why."""
    def scheduled(knl: pl.LoopKernel) -> pl.LoopKernel:
        for name in ("u_from_low0", "u_from_high0"):
            knl = pl.split_iname(knl, f"{name}_x2", 128, outer_tag="g.0", inner_tag="l.0")
            knl = pl.tag_inames(knl, {f"{name}_x1": "g.1"})
        return on_gpu(knl)

    divided = programs.heat_1d_mesh().divided((2,), unpacked="u").transformed("heat_0", scheduled)
    text = pl.generate_code(divided.kernels["heat_0"], target=pl.CudaTarget()).device_code
    first, second = text.split("__global__")[1:]
    assert first.count("// unpack_u_from") == 2
    assert "v[" not in first
    assert "v[" in second
    assert compile_cuda(text, "sm_90").cubin


# }}}


@pytest.mark.parametrize(("options", "message"), [
    ({"unpacked": "w"}, "'w' is no argument in blocks, and nothing of it is unpacked"),
    ({"unpacked": "u", "deep": {"t": 2}}, "unpack nothing"),
    ({"packed": "w"}, "'w' is no argument in blocks"),
    ({"packed": "u", "deep": {"t": 2}}, "pack nothing"),
])
def test_what_is_not_packed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pl.KernelError, match=message) as err:
        programs.heat_1d_mesh().divided((2,), **options)
    assert err.value.codes == ("bad-distribution",)
