"""Local memory of CUDA kernels: an error where registers were meant, a warning otherwise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import PolyloopWarning

pytestmark = pytest.mark.nvrtc

CUDA = pl.CudaTarget("sm_90")


def scaled(silenced_warnings: str = "") -> pl.LoopKernel:
    """Return a kernel in which each thread has a row of 40 numbers, of which it sums up *m*."""
    knl = pl.make_kernel(
        "{[g, i, j]: 0 <= g < n and 0 <= i < 40 and 0 <= j < m}",
        """
        for g
          <float32> t[i] = 2*x[g, i]  {id=scale}
          y[g] = sum(j, t[j]*w[j])  {id=sum}
        end
        """,
        [
            pl.GlobalArg("x", np.float32, shape="n, 40"),
            pl.GlobalArg("y", np.float32, shape="n"),
            pl.GlobalArg("w", np.float32, shape="m"),
            ...,
        ],
        name="scaled",
        assumptions="n >= 1 and 1 <= m <= 40",
        silenced_warnings=silenced_warnings,
    )
    return pl.split_iname(knl, "g", 64, outer_tag="g.0", inner_tag="l.0")


def test_an_array_of_unrolled_loops_that_is_not_in_registers_is_an_error() -> None:
    with pytest.raises(pl.CompilerError) as caught:
        pl.compile(pl.tag_inames(scaled(), "i:unr"), target=CUDA)
    assert str(caught.value) == (
        "compile on kernel 'scaled': the 160 bytes of 't' of each thread are in local memory, not in registers "
        "[register-array]\n"
        "  Note: 'sum' accesses t[j], and 'j' is known only when the kernel runs\n"
        "  Note: elsewhere it is subscripted by unrolled loops alone ('i'): it is meant to be in registers\n"
        "  Hint: unroll the loops that subscript 't': pl.tag_inames(knl, \"j:unr\"), split to a constant length before "
        "if need be; or let the array be shared"
    )


def test_an_array_of_threads_in_local_memory_is_a_warning() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 40}",
        "t[i] = exp(x[i])\ny[j] = t[j]*t[39 - j]",
        [
            pl.GlobalArg("x, y", np.float32, shape="40"),
            pl.TemporaryVariable("t", np.float32, shape="40", address_space="private"),
            ...,
        ],
        name="by_threads",
    )
    with pytest.warns(PolyloopWarning, match="local-array: .* 160 bytes of 't'") as caught:
        pl.compile(pl.tag_inames(knl, "i:unr, j:l.0"), target=CUDA)
    assert "a thread's number chooses an element of 't', which no register can be" in str(caught[0].message)


def test_an_array_of_loops_in_local_memory_is_a_warning() -> None:
    with pytest.warns(PolyloopWarning, match="local-array: .* 160 bytes of 't'"):
        pl.compile(scaled(), target=CUDA)


def test_an_array_in_registers_is_nothing_to_speak_of() -> None:
    knl = pl.tag_inames(pl.fix_parameters(scaled(), m=40), "i:unr, j:unr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = pl.compile(knl, target=CUDA)
    assert all(found.local_bytes == 0 for found in run.resources.values())


def test_values_for_which_there_are_no_registers_are_a_warning_with_bytes() -> None:
    with pytest.warns(PolyloopWarning, match="spilled-registers: .* bytes of each thread of 'hungry' do not fit"):
        pl.compile(_hungry(), target=pl.CudaTarget("sm_90", min_blocks=32))


def _hungry() -> pl.LoopKernel:
    """Return a kernel whose threads use 64 numbers several times, in an order that needs all of them at once."""
    knl = pl.make_kernel(
        "{[g, i, j, r]: 0 <= g < n and 0 <= i, j < 64 and 0 <= r < m}",
        """
        for g
          <float32> t[i] = x[g, i]
          for r, j
            t[j] = t[j]*t[63 - j] + w[r]
          end
          y[g] = sum(i, t[i])
        end
        """,
        [
            pl.GlobalArg("x", np.float32, shape="n, 64"),
            pl.GlobalArg("y", np.float32, shape="n"),
            pl.GlobalArg("w", np.float32, shape="m"),
            ...,
        ],
        name="hungry",
        assumptions="n >= 1 and m >= 1",
    )
    return pl.tag_inames(pl.split_iname(knl, "g", 64, outer_tag="g.0", inner_tag="l.0"), "i:unr, j:unr")


def test_the_warning_can_be_silenced() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pl.compile(scaled(silenced_warnings="local-array(t)"), target=CUDA)
