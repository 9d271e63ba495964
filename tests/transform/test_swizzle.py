from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.swizzle import Swizzle
from polyloop.runtime.nvrtc import compile_cuda
from tests.cost.test_bank_conflicts import read, through_a_tile
from tests.transform.checking import check, cuda, refused
from tests.transform.kernels import check_transposed, transposed

Golden = Callable[[str, str], None]


def check_transpose(knl: pl.LoopKernel, sizes: tuple[int, ...] = (1, 16, 33)) -> None:
    for n in sizes:
        a = np.random.default_rng(n).integers(-9, 9, (n, n)).astype(np.float32)
        check(knl, {"a": a}, {"b": np.ascontiguousarray(a.T)})


def test_columns_without_conflicts(golden: Golden) -> None:
    base = through_a_tile(32, 32)
    knl = pl.swizzle(base, "a_fetch")
    assert knl.temporaries["a_fetch"].swizzle == Swizzle(5, 0, 5)
    assert read(knl).conflicts == 0
    check_transpose(knl)
    golden("golden/swizzle.cu", cuda(knl))
    assert "32 times the turns it needs before, 1 after" in str(knl.trace)
    assert cuda(base.swizzle("a_fetch")) == cuda(knl)


def test_a_swizzle_replays() -> None:
    base = transposed()
    knl = pl.swizzle(pl.set_temporary_address_space(base, "t", "local"), "t", 2, 1, 5)
    assert "pl.swizzle(knl, ary_name='t', bits=2, base=1, shift=5)" in str(knl.trace)
    check_transposed(knl)
    *_, space, step = pl.trace_from_json(knl.trace.to_json())
    assert cuda(pl.replay(pl.Trace((space, step)), base)) == cuda(knl)


@pytest.mark.few(3)
@pytest.mark.parametrize("parameters", [(1, 0, 5), (2, 1, 5), (3, 2, 3), (5, 0, 5), (3, 0, 6), (2, 0, 7), (1, 4, 4)])
def test_every_layout_keeps_the_elements_apart(parameters: tuple[int, int, int]) -> None:
    layout = Swizzle(*parameters)
    assert sorted(map(layout.moved, range(1024))) == list(range(1024))
    knl = pl.swizzle(through_a_tile(32, 32), "a_fetch", *parameters)
    check_transpose(knl, (33,))


def test_rows_numbered_by_two_axes() -> None:
    knl = pl.make_kernel(
        "{[i, j, k, e]: 0 <= e < n and 0 <= i, j < 4 and 0 <= k < 8}", "b[e, k, i, j] = a[e, i, j, k]",
        [pl.GlobalArg("a", np.float32, shape="n, 4, 4, 8"), pl.GlobalArg("b", np.float32, shape="n, 8, 4, 4"), ...],
        name="turned",
    )  # fmt: skip
    knl = pl.add_prefetch(pl.tag_inames(knl, "e:g.0, j:l.0, i:l.1"), "a", "i, j, k")
    for bits, base, shift in ((3, 0, 3), (2, 1, 3), (2, 0, 5)):
        turned = pl.swizzle(knl, "a_fetch", bits, base, shift)
        a = np.arange(3 * 4 * 4 * 8, dtype=np.float32).reshape(3, 4, 4, 8)
        check(turned, {"a": a}, {"b": np.ascontiguousarray(a.transpose(0, 3, 1, 2))})


def test_the_c_target_has_the_layout_too() -> None:
    knl = pl.swizzle(through_a_tile(32, 32), "a_fetch")
    assert " ^ " in pl.generate_code(knl, target=pl.CTarget()).device_code


def own() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 8}", "<> t[i, j] = a[i, j]\nb[i, j] = t[i, 7 - j]",
                         [pl.GlobalArg("a, b", np.float32, shape="n, 8"), ...], name="own")  # fmt: skip
    return pl.tag_inames(pl.fix_parameters(knl, n=8), {"i": "l.0"})


REFUSALS: dict[str, tuple[Callable[[], pl.LoopKernel], Callable[[pl.LoopKernel], pl.LoopKernel], str]] = {
    "unknown": (own, lambda knl: pl.swizzle(knl, "u"), "unknown-temporary"),
    "private": (own, lambda knl: pl.swizzle(knl, "t"), "bad-swizzle"),
    "no_power": (lambda: through_a_tile(32, 24, block=(32, 4)), lambda knl: pl.swizzle(knl, "a_fetch"), "bad-swizzle"),
    "padded": (
        lambda: pl.add_padding(through_a_tile(32, 32), "a_fetch", 0, 132),
        lambda knl: pl.swizzle(knl, "a_fetch", 3, 2),
        "bad-swizzle",
    ),
    "too_wide": (lambda: through_a_tile(32, 32), lambda knl: pl.swizzle(knl, "a_fetch", 4, 2), "bad-swizzle"),
    "inside_rows": (lambda: through_a_tile(32, 32), lambda knl: pl.swizzle(knl, "a_fetch", 2, 0, 3), "bad-swizzle"),
    "no_bits": (lambda: through_a_tile(32, 32), lambda knl: pl.swizzle(knl, "a_fetch", 0), "bad-swizzle"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str, golden: Golden) -> None:
    make, call, code = REFUSALS[case]
    golden(f"messages/swizzle_{case}.txt", refused(make(), call, code))


def test_vectors_are_not_torn_apart(golden: Golden) -> None:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 32}", "<> t[i, j] = a[i, j]\nb[i, j] = t[j, i] {dep=*}",
                         [pl.GlobalArg("a, b", np.float32, shape="32, 32"), ...], name="wide")  # fmt: skip
    knl = pl.duplicate_inames(knl, "i, j", within="id:insn", new_inames="p, q")
    knl = pl.split_iname(knl, "q", 4, outer_tag="l.0", inner_tag="vec")
    knl = pl.set_temporary_address_space(knl, "t", "local")
    knl = pl.tag_inames(knl, "j:l.0, p:l.1, i:l.1")
    text = refused(knl, lambda k: pl.swizzle(k, "t", 3, 1), "bad-swizzle")
    golden("messages/swizzle_torn.txt", text)
    turned = pl.swizzle(knl, "t")
    assert turned.temporaries["t"].swizzle == Swizzle(3, 2, 3)
    assert "float4" in cuda(turned)
    a = np.arange(1024, dtype=np.float32).reshape(32, 32)
    check(turned, {"a": a}, {"b": np.ascontiguousarray(a.T)})


def test_a_later_change_of_shape_is_noticed() -> None:
    knl = pl.swizzle(through_a_tile(32, 32), "a_fetch")
    knl = pl.add_padding(knl, "a_fetch", 0, 132)
    with pytest.raises(pl.VerificationError, match="no power of two"):
        pl.generate_code(knl)


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_nvrtc(arch: str) -> None:
    knl = pl.swizzle(through_a_tile(32, 32), "a_fetch")
    compile_cuda(cuda(knl), arch=arch)
