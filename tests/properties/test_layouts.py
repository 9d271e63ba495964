"""Random layouts under wide accesses: padding, swizzles, orders, strides; on fibres and in C as interpreted."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres

DTYPES = ["int8", "int16", "float16", "int32", "float32", "int64", "float64", "complex64"]
BODIES = {
    "b[i, j] = a[i, j]": 0,
    "b[j, i] = a[i, j]": 0,
    "b[i, j] = 3*a[i, j]": 0,
    "b[i, j] = a[i, j] + a[i, j + 1]": 1,
    "b[i, j] = a[i + 1, j] + a[i, j + 1]": 1,
}
REFUSED = {
    "bad-lanes", "bad-layout", "bad-swizzle", "bad-value", "block-too-large", "overlapping-elements",
    "shared-too-large", "wrong-rank",
}  # fmt: skip


def laid_out(rng: random.Random, knl: pl.LoopKernel, name: str) -> pl.LoopKernel:
    """Return *knl* with one more random layout of a tile."""
    choice = rng.randrange(6)
    if choice == 0:
        return pl.add_padding(knl, name, rng.choice((0, 0, 1)), rng.choice((4, 8, 16, 20, 36, 64, 144)))
    if choice == 1:
        return pl.tag_array_axes(knl, name, rng.choice(("N0,N1", "N1,N0", "N0(pad=4),N1", "N1,N0(pad=16)", "F")))
    if choice == 2:
        row = rng.choice((16, 17, 20, 24, 33, 40))
        tags = rng.choice((f"stride:{row},stride:1", f"stride:1,stride:{row}", f"stride:{2 * row},stride:2"))
        return pl.tag_array_axes(knl, name, tags)
    if choice == 3:
        return pl.swizzle(knl, name)
    places = rng.randint(1, 4), rng.randint(0, 4), rng.randint(1, 6)
    return pl.swizzle(knl, name, *places)


def drawn(seed: int) -> tuple[pl.LoopKernel, dict[str, np.ndarray[Any, Any]]]:
    """Return a kernel with wide copies into a tile of a random layout, and its input; refused steps are left out."""
    rng = random.Random(seed)
    body, more = rng.choice(list(BODIES.items()))
    dtype, tile, size = rng.choice(DTYPES), rng.choice((8, 16, 16, 32)), rng.choice((1, 2))
    extent = tile * size
    knl = pl.make_kernel(
        f"{{[i, j]: 0 <= i, j < {extent}}}", body,
        [pl.GlobalArg("a", dtype, shape=f"{extent + 16 * more}, {extent + 16 * more}"), pl.GlobalArg("b", dtype), ...],
        name=f"layout_{seed}")  # fmt: skip
    knl = pl.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    inner = rng.choice((1, 1, 2, 4))
    knl = pl.split_iname(knl, "j", tile, outer_tag="g.0", inner_iname="t")
    knl = pl.split_iname(knl, "t", inner, outer_tag="l.0", inner_tag=rng.choice(("vec", "unr")) if inner > 1 else None)
    inames = ["i_inner", "t_outer", "t_inner"]
    try:
        knl = pl.add_prefetch(knl, "a", inames, vec=rng.choice((2, 4, 8, 16)))
    except pl.TransformError as refused:
        assert refused.codes == ("bad-lanes",), refused  # noqa: PT017 - rows of another length
        knl = pl.add_prefetch(knl, "a", inames)
    for _ in range(rng.randint(1, 3)):
        try:
            knl = laid_out(rng, knl, "a_fetch")
        except pl.TransformError as refused:
            assert set(refused.codes) <= REFUSED, refused  # noqa: PT017 - most are not
    shape = (extent + 16 * more,) * 2
    return knl, {"a": np.random.default_rng(seed).integers(0, 50, shape).astype(dtype)}


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
