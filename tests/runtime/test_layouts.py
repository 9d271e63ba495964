"""Arrays of any layout as arguments of calls: strides and offsets read off them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.invoke import CompiledKernel
from tests.generated import flat

F = np.float32
BASE = np.arange(9 * 14, dtype=F).reshape(9, 14)
VIEWS = {
    "rows": BASE,
    "transposed": BASE.T,
    "every second": BASE[::2, 1::3],
    "backwards": BASE[::-1, ::-2],
    "inside": BASE[2:, 3:5],
    "one element": BASE[4:5, 7:8],
    "no rows": BASE[:0],
    "no columns": BASE[:, :0],
    "broadcast": np.broadcast_to(BASE[0], (5, 14)),
}


def scale(**facts: object) -> pl.LoopKernel:
    data = [pl.GlobalArg("a", F, shape="n, m", **facts), ...]  # type: ignore[arg-type]
    return pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]", data)


def on_c(knl: pl.LoopKernel) -> CompiledKernel:
    return compile_kernel(knl, pl.CTarget())


def refusal(knl: pl.LoopKernel, **arguments: Any) -> str:
    with pytest.raises(pl.ArgumentError) as err:
        on_c(knl)(**arguments)
    return str(err.value)


@pytest.mark.parametrize("view", VIEWS)
def test_open_strides_take_any_array(view: str) -> None:
    knl = pl.split_iname(scale(strides=pl.auto, offset=pl.auto), "j", 8, outer_tag="g.0", inner_tag="l.0")
    a = VIEWS[view]
    np.testing.assert_array_equal(on_c(knl)(a=a).b, 2 * a)
    np.testing.assert_array_equal(pl.interpret(knl, a=a).b, 2 * a)
    for result in run_on_fibres(pl.generate_code(knl), {"a": a}).values():
        np.testing.assert_array_equal(result.b, 2 * a)


def test_open_strides_are_used_in_the_text() -> None:
    text = pl.generate_code(scale(strides=(pl.auto, 1), offset=pl.auto), pl.CTarget()).device_code
    assert "float *restrict b, int n, int m, int a_stride0, int a_offset)" in flat(text)
    assert "b[i * m + j] = 2.0f * a[a_offset + i * a_stride0 + j];" in text
    wide = pl.generate_code(scale(strides=pl.auto), pl.CTarget(), index_bits=64).device_code
    assert "int64_t a_stride0, int64_t a_stride1" in flat(wide)


def test_an_output_with_open_strides_is_allocated_packed() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("b", F, shape="n, m", strides=(1, pl.auto)), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]", data)
    b = on_c(knl)(a=BASE).b
    np.testing.assert_array_equal(b, 2 * BASE)
    assert b.flags.f_contiguous
    into = np.zeros((14, 20), F).T[:9]
    on_c(knl)(a=BASE, b=into[:, :14])
    np.testing.assert_array_equal(into[:, :14], 2 * BASE)


def test_an_output_whose_other_strides_fit_no_packed_array_has_to_be_passed() -> None:
    data = [pl.GlobalArg("a", F, shape="n, m"), pl.GlobalArg("b", F, shape="n, m", strides=(pl.auto, 3)), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]", data)
    assert refusal(knl, a=BASE) == (
        "call on kernel 'loop_kernel': the array 'b' was not passed, and its strides are open [missing-argument]\n"
        "  Note: it cannot be allocated: no packed array of shape (9, 14) has its other strides\n"
        "  Hint: pass b="
    )


def test_the_wrong_strides_say_how_to_take_any() -> None:
    assert refusal(scale(), a=BASE[:, ::2]) == (
        "call on kernel 'loop_kernel': 'a' is not stored as the kernel reads it [wrong-strides]\n"
        "  Note: its strides are (14, 2) elements, the kernel was generated for (7, 1)\n"
        "  Hint: pass np.ascontiguousarray(a), or .contiguous() of a Torch tensor\n"
        "  Hint: or declare 'a' with strides=pl.auto in the kernel to take any strides"
    )


def test_an_output_with_two_elements_at_one_address_is_refused() -> None:
    data = [pl.GlobalArg("b", F, shape="n", strides=pl.auto), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = i", data)
    b = np.lib.stride_tricks.as_strided(np.zeros(1, F), (4,), (0,))
    assert refusal(knl, b=b) == (
        "call on kernel 'loop_kernel': 'b' is written, and two of its elements have one address "
        "[overlapping-elements]\n"
        "  Note: b[0] and b[1] do\n"
        "  Note: its shape is (4,), its strides are (0,) elements\n"
        "  Hint: pass a copy of 'b', such as np.ascontiguousarray(b)"
    )


def test_a_stride_smaller_than_a_row_is_refused_for_the_sizes_of_the_call() -> None:
    data = [pl.GlobalArg("b", F, shape="n, m", strides=("ld", 1)), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = i + j", data)
    text = refusal(knl, n=3, m=5, ld=4)
    assert "[overlapping-elements]" in text
    assert "b[0, 4] and b[1, 0] do" in text
    b = on_c(knl)(n=3, m=5, ld=8).b
    assert b.strides == (32, 4)
    np.testing.assert_array_equal(b, np.add.outer(np.arange(3), np.arange(5)))


@pytest.mark.parametrize("offset", [0, 3, pl.auto, "start"])
def test_an_offset_changes_addresses_and_no_values(offset: object) -> None:
    knl = scale(offset=offset, strides=pl.auto)
    sizes: dict[str, Any] = {"start": 5} if offset == "start" else {}
    a = BASE[1:, 2:]
    np.testing.assert_array_equal(on_c(knl)(a=a, **sizes).b, 2 * a)
    for result in run_on_fibres(pl.generate_code(knl), {"a": a, **sizes}).values():
        np.testing.assert_array_equal(result.b, 2 * a)


def test_a_constant_offset_stands_in_the_text() -> None:
    assert "a[3 + i * m + j]" in pl.generate_code(scale(offset=3), pl.CTarget()).device_code


def test_alignment_is_checked() -> None:
    knl = scale(alignment=32, strides=pl.auto)
    raw = np.zeros(64, F)
    start = -raw.ctypes.data % 32 // 4
    on_c(knl)(a=raw[start : start + 8].reshape(2, 4))
    text = refusal(knl, a=raw[start + 1 : start + 9].reshape(2, 4))
    assert "'a' does not begin at a multiple of 32 bytes [misaligned-argument]" in text


@pytest.mark.parametrize("tags", ["N0,N1", "N1,N0", "N1,N0(pad=8)", "N0(pad=5),N1", "F", "stride:64,N0"])
def test_outputs_are_allocated_as_their_tags_say(tags: str) -> None:
    data = [pl.GlobalArg("b", F, shape="n, m", dim_tags=tags), pl.GlobalArg("a", F, shape="n, m"), ...]
    knl = pl.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < m}", "b[i, j] = 2*a[i, j]", data)
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    np.testing.assert_array_equal(on_c(knl)(a=BASE).b, 2 * BASE)
    for result in run_on_fibres(pl.generate_code(knl), {"a": BASE}).values():
        np.testing.assert_array_equal(result.b, 2 * BASE)


def test_strides_that_need_64_bits_get_them() -> None:
    program = pl.generate_code(scale(strides=pl.auto), pl.CTarget())
    assert [check.message for check in program.index_checks] == [
        "'a' has more than 2^31 - 1 elements", "'b' has more than 2^31 - 1 elements",
    ]  # fmt: skip
    far = np.lib.stride_tricks.as_strided(np.ones(1, F), (1, 1), (1 << 40, 4))
    np.testing.assert_array_equal(on_c(scale(strides=pl.auto))(a=far).b, [[2]])


@pytest.mark.nvrtc
def test_open_layouts_compile() -> None:
    knl = pl.split_iname(scale(strides=pl.auto, offset=pl.auto), "j", 8, outer_tag="g.0", inner_tag="l.0")
    for arch in ("sm_80", "sm_90"):
        assert pl.compile(knl, pl.CudaTarget(arch)).cubin


# {{{ directions


def directions(text: str, domain: str = "{[i]: 0 <= i < n}") -> tuple[bool, bool]:
    data = [pl.GlobalArg("a", F, shape="n + 1"), pl.GlobalArg("mask", np.int32, shape="n"), ...]
    a = pl.make_kernel(domain, text, data, assumptions="n >= 2").argument("a")
    assert a is not None
    return getattr(a, "is_input"), getattr(a, "is_output")  # noqa: B009 - any argument has them here


def test_an_array_is_an_input_exactly_where_a_read_sees_its_initial_value() -> None:
    whole = "{[i, j]: 0 <= i <= n and 0 <= j < n}"
    assert directions("a[i] = 1 {id=w}\nb[i] = a[i] {dep=w}") == (False, True)
    assert directions("a[i] = 1 {id=w}\nb[i] = a[i + 1] {dep=w}") == (True, True)
    assert directions("a[i] = 1 {id=w}\nb[j] = a[j + 1] {dep=w}", whole) == (False, True)
    assert directions("a[i] = a[i] + 1") == (True, True)
    assert directions("a[i] = 1 {if=mask[i] > 0, id=w}\nb[i] = a[i] {dep=w}") == (True, True)
    assert directions("a[i + 1] = a[i] + 1") == (True, True)
    assert directions("a[0] = 1 {id=w}\na[i + 1] = a[i] + 1 {dep=w}") == (False, True)
    assert directions("a[i] = 1") == (False, True)
    assert directions("b[i] = a[i]") == (True, False)


# }}}
