"""Private arrays fit into the local memory of a thread, and onto the stack of the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from tests.codegen.running import needs_compiler


def sums(extent: int, **space: Any) -> pl.LoopKernel:
    return pl.make_kernel(
        f"{{[i, j, k]: 0 <= i < n and 0 <= j, k < {extent}}}",
        "for i\nt[j] = x[i] + j {id=w}\ny[i] = sum(k, t[k]) {dep=w}\nend",
        [pl.TemporaryVariable("t", np.float64, shape=(extent,), **space),
         pl.GlobalArg("x, y", np.float64, shape="n"), ...],
    )  # fmt: skip


@pytest.mark.parametrize(("target", "most"), [(pl.CudaTarget(), 2**16), (pl.CTarget(), 2**19)], ids=["cuda", "c"])
def test_larger_arrays_are_refused(target: pl.Target, most: int) -> None:
    pl.generate_code(sums(most, address_space="private"), target=target)
    with pytest.raises(pl.PolyloopError, match=r'set_temporary_address_space\(knl, "t", "global"\)') as caught:
        pl.generate_code(sums(most + 1, address_space="private"), target=target)
    assert caught.value.codes == ("private-too-large",)


@needs_compiler
def test_fibres_have_room_for_what_a_thread_may_have() -> None:
    """A stack of 256 KiB ran over into other memory."""
    x = np.arange(6.0)
    program = pl.generate_code(pl.split_iname(sums(60_000, address_space="private"), "i", 4, inner_tag="l.0"))
    for result in run_on_fibres(program, {"x": x}).values():
        np.testing.assert_array_equal(result.y, 60_000 * x + 60_000 * 59_999 / 2)


@needs_compiler
def test_global_memory_has_room() -> None:
    x = np.arange(3.0)
    knl = pl.set_temporary_address_space(sums(2_000_000, address_space="private"), "t", "global")
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x).y, 2e6 * x + 1e6 * 1_999_999)
