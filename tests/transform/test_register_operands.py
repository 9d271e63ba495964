"""First operands of matrix instructions from registers, and two products under way in one group of warps."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import islpy as isl
import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.errors import TransformError
from polyloop.kernel.intrinsic import INTRINSICS
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

BF16 = ml_dtypes.bfloat16
KINDS: dict[str, Any] = {"bf16": BF16, "f16": np.float16}
HOPPER = pl.CudaTarget("sm_90a")


def chain(kind: str = "bf16", *, more: str = "", rows: int = 128, target: pl.Target | None = HOPPER) -> pl.LoopKernel:
    """Return ``o = (a b) v`` for tiles of some rows and 64 columns."""
    dtype = KINDS[kind]
    return pl.make_kernel(
        [f"{{[h, i]: 0 <= h < heads and 0 <= i < {rows}}}", "{[j, d, c, jk]: 0 <= j, d, c, jk < 64}"],
        f"""
        for h
            <float32> s[i, j] = sum(c, a[h, i, c]*b[h, c, j])   {{id=s}}
            p[i, j] = s[i, j] - 1                               {{id=p}}
            o[h, i, d] = sum(jk, p[i, jk]*v[h, jk, d])          {{id=o}}
            {more}
        end
        """,
        [pl.GlobalArg("a", dtype, shape=f"heads, {rows}, 64"), pl.GlobalArg("b, v", dtype, shape="heads, 64, 64"),
         pl.GlobalArg("o", np.float32, shape=f"heads, {rows}, 64"),
         pl.TemporaryVariable("p", dtype, shape=(rows, 64)), ...],
        name="chain", assumptions="heads >= 1", target=target,
    )  # fmt: skip


def divided(knl: pl.LoopKernel, rows: tuple[int, ...], *names: str) -> pl.LoopKernel:
    for name in names:
        for axis, lengths in ((1, (2, 4)), (0, rows)):
            for length in lengths:
                knl = pl.split_array_axis(knl, name, axis, length)
    return knl


def first_product(kind: str = "bf16", **options: Any) -> pl.LoopKernel:
    """Return the kernel with its first product on groups of four warps."""
    knl = pl.tag_inames(chain(kind, **options), "h:g.0")
    knl = pl.split_iname(knl, "i", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    knl = pl.split_iname(knl, "c", 16, outer_iname="cc", inner_iname="ci", outer_tag="unr")
    knl = pl.split_iname(knl, "jk", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    return pl.tensorize(knl, "id:s", f"wgmma_m64n64k16_{kind}")


@cache
def by_groups(kind: str = "bf16") -> pl.LoopKernel:
    knl = divided(first_product(kind), (8, 2, 4), "s", "p")
    knl = pl.tensorize(knl, "id:o", f"wgmma_m64n64k16_{kind}", from_registers=True)
    sweeps = {"a": "wg, ii_lane_0, ii_reg, ii_lane_2, cc, ci", "b": "j_reg_0, j_lane, j_reg_2, cc, ci",
              "v": "d_reg_0, d_lane, d_reg_2, kk, ki"}  # fmt: skip
    for name, sweep in sweeps.items():
        knl = pl.add_prefetch(knl, name, sweep, temporary_name=f"{name}_tile", vec=8)
        knl = pl.swizzle(knl, f"{name}_tile", bits=3, base=3, shift=3)
    return knl


@cache
def by_warps(kind: str = "f16") -> pl.LoopKernel:
    knl = pl.tag_inames(chain(kind, rows=64, target=None), "h:g.0")
    knl = pl.split_iname(knl, "i", 16, outer_iname="warp", inner_iname="ii", outer_tag="l/32")
    for iname, length in (("j", 8), ("d", 8), ("c", 16), ("jk", 16)):
        knl = pl.split_iname(knl, iname, length, outer_tag="unr")
    knl = pl.tensorize(knl, "id:s", f"mma_m16n8k16_{kind}")
    knl = divided(knl, (8, 2), "s", "p")
    return pl.tensorize(knl, "id:o", f"mma_m16n8k16_{kind}", from_registers=True)


def given(knl: pl.LoopKernel, kind: str) -> tuple[dict[str, Any], Any]:
    rng, rows = np.random.default_rng(3), int(knl.arrays()["a"].shape[1])  # type: ignore[index]
    a, b, v = (rng.integers(-1, 2, (2, *shape)).astype(np.float64) for shape in ((rows, 64), (64, 64), (64, 64)))
    arrays = {name: x.astype(KINDS[kind]) for name, x in zip("abv", (a, b, v), strict=True)}
    return {**arrays, "o": np.full((2, rows, 64), 7, np.float32)}, (a @ b - 1) @ v


def check(knl: pl.LoopKernel, kind: str, text: str | None = None) -> str:
    """Compare with NumPy on fibres, where all numbers are whole and exact; *text* is run in place of the kernel's."""
    arrays, wanted = given(knl, kind)
    program = pl.generate_code(knl, target=pl.CudaTarget("sm_80") if knl.target is None else None)
    program = program if text is None else replace(program, device_code=text)
    for order, found in run_on_fibres(program, arrays).items():
        np.testing.assert_array_equal(found["o"], wanted.astype(np.float32), err_msg=order)
    return program.device_code


@pytest.mark.parametrize("n", [16, 64, 128, 176])
def test_results_lie_as_the_next_first_operand(n: int) -> None:
    """Columns 16 q to 16 q + 15 of the results are terms 16 q to 16 q + 15, register by register."""
    entry = INTRINSICS[f"wgmma_m64n{n}k16_bf16"]
    parts = entry.in_registers()
    results = isl.Map(entry.d)

    def place(i: int, k: int) -> tuple[int, int]:
        subscript = {"i": i, "k": k}
        lane = sum(p.place * (subscript[p.axis] // p.stride % p.extent) for p in parts if p.in_lane)
        register = sum(p.place * (subscript[p.axis] // p.stride % p.extent) for p in parts if not p.in_lane)
        return lane, register

    for i in range(64):
        for j in range(n):
            lane, register = place(i, j % 16)
            image = isl.Set(f"{{ [{lane}, {register + 8 * (j // 16)}] }}")
            assert isl.Set(f"{{ [{i}, {j}] }}").apply(results).is_equal(image)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_groups_of_warps_multiply_what_they_have_computed(kind: str) -> None:
    text = check(by_groups(kind), kind)
    assert f"wgmma_m64n64k16_{kind}_rj(" in text
    assert not re.search(r"__shared__[^;]* p\[", text)
    assert compile_cuda(text, "sm_90a").cubin


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_warps_multiply_what_they_have_computed(kind: str) -> None:
    text = check(by_warps(kind), kind)
    assert "a_frag_0[0] = pack(p[0][2 * " in text
    assert "__shared__" not in text
    assert compile_cuda(text, "sm_80").cubin


def test_other_targets_have_an_array() -> None:
    arrays, wanted = given(by_warps(), "f16")
    del arrays["o"]
    np.testing.assert_array_equal(pl.compile(by_warps(), target=pl.CTarget())(**arrays).o, wanted)


def test_the_certificate_and_the_kernel_say_so() -> None:
    assert "a from registers" in str(by_groups())
    assert "computed by whole warps" in str(pl.verify(by_groups()))


def test_an_array_of_undivided_axes_is_refused() -> None:
    with pytest.raises(TransformError, match="several threads may hold an element of 'p'"):
        pl.tensorize(first_product(), "id:o", "wgmma_m64n64k16_bf16", from_registers=True)


def test_what_other_statements_read_is_refused() -> None:
    knl = divided(first_product(more="u[h, i, j] = p[i, j]   {id=u}"), (8, 2, 4), "s", "p")
    with pytest.raises(TransformError, match="'u' reads 'p' too"):
        pl.tensorize(knl, "id:o", "wgmma_m64n64k16_bf16", from_registers=True)


def test_an_argument_is_refused() -> None:
    knl = pl.split_iname(pl.tag_inames(chain(), "h:g.0"), "i", 64, outer_tag="l/128")
    knl = pl.split_iname(knl, "c", 16, outer_tag="unr")
    with pytest.raises(TransformError, match="'a' is no temporary of the threads of a block"):
        pl.tensorize(knl, "id:s", "wgmma_m64n64k16_bf16", from_registers=True)


def test_elements_on_other_lanes_are_refused() -> None:
    """Terms are taken from the columns in another order than that in which lanes have them."""
    knl = pl.make_kernel(
        ["{[h, i]: 0 <= h < heads and 0 <= i < 128}", "{[j, d, c, jk]: 0 <= j, d, c, jk < 64}"],
        """
        for h
            <float32> s[i, j] = sum(c, a[h, i, c]*b[h, c, j])      {id=s}
            p[i, j] = s[i, j] - 1                                  {id=p}
            o[h, i, d] = sum(jk, p[i, 63 - jk]*v[h, jk, d])        {id=o}
        end
        """,
        [pl.GlobalArg("a", BF16, shape="heads, 128, 64"), pl.GlobalArg("b, v", BF16, shape="heads, 64, 64"),
         pl.GlobalArg("o", np.float32, shape="heads, 128, 64"), pl.TemporaryVariable("p", BF16, shape=(128, 64)), ...],
        name="chain", assumptions="heads >= 1", target=HOPPER,
    )  # fmt: skip
    knl = pl.split_iname(pl.tag_inames(knl, "h:g.0"), "i", 64, outer_iname="wg", inner_iname="ii", outer_tag="l/128")
    knl = pl.split_iname(knl, "c", 16, outer_iname="cc", inner_iname="ci", outer_tag="unr")
    knl = pl.split_iname(knl, "jk", 16, outer_iname="kk", inner_iname="ki", outer_tag="unr")
    knl = divided(pl.tensorize(knl, "id:s", "wgmma_m64n64k16_bf16"), (8, 2, 4), "s", "p")
    with pytest.raises(TransformError, match="are on other lanes than it wants them"):
        pl.tensorize(knl, "id:o", "wgmma_m64n64k16_bf16", from_registers=True)


def test_operands_of_32_bits_have_no_layout_in_registers() -> None:
    assert INTRINSICS["wgmma_m64n64k8_tf32"].in_registers() == ()
    assert INTRINSICS["mma_m16n8k16_bf16"].in_registers() == INTRINSICS["mma_m16n8k16_bf16"].layout("a")
