"""Layouts as they are declared: what tags mean, what is refused, what the kernel shows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymbolic.primitives as p
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.layout import Nested, Strided, parse_dim_tags, shared_address, strides_of

F = np.float32


def declared(**facts: object) -> ArrayArg:
    """Return the array 'a' of a kernel that copies it, declared with *facts*."""
    data = [pl.GlobalArg("a", F, **{"shape": "4, 6", **facts}), ...]  # type: ignore[arg-type]
    knl = pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 6}", "b[i, j] = a[i, j]", data)
    found = knl.argument("a")
    assert isinstance(found, ArrayArg)
    return found


def refusal(*data: object, text: str = "b[i, j] = 1", **options: object) -> str:
    with pytest.raises(pl.KernelError) as err:
        pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 6}", text, [*data, ...], **options)  # type: ignore[arg-type]
    return str(err.value)


@pytest.mark.parametrize(
    ("tags", "strides"),
    [
        ("N1,N0", (6, 1)),
        ("N0,N1", (1, 4)),
        ("N1, N0(pad=8)", (8, 1)),
        ("N1,N0:(pad=8)", (8, 1)),
        ("N0(pad=3),N1", (1, 6)),
        (["N0", "N1"], (1, 4)),
        ("C,C", (6, 1)),
        ("F,F", (1, 4)),
        ("c,f", (1, 4)),
        ("C", (6, 1)),
        ("F", (1, 4)),
        ("stride:16,N0", (16, 1)),
        ("stride:2,stride:8", (2, 8)),
    ],
)
def test_tags_say_strides(tags: object, strides: tuple[int, ...]) -> None:
    assert declared(dim_tags=tags).strides == strides
    assert declared(dim_tags=tags, shape=pl.auto).strides == strides


def test_strides_are_numbers_names_or_left_open() -> None:
    assert declared(strides="16, 1").strides == (16, 1)
    assert declared(strides=(16, 1)).strides == (16, 1)
    assert declared(strides=("lda", 1)).strides == (p.Variable("lda"), 1)
    assert declared(strides=(pl.auto, 1)).strides == (p.Variable("a_stride0"), 1)
    assert declared(dim_tags="stride:auto,N0").strides == (p.Variable("a_stride0"), 1)
    both = (p.Variable("a_stride0"), p.Variable("a_stride1"))
    assert declared(strides=pl.auto).strides == both
    assert declared(strides=pl.auto, shape=pl.auto).strides == both


def test_padding_of_a_parametric_row_is_rounded_up() -> None:
    (outer, inner) = strides_of((p.Variable("n"), p.Variable("m")), parse_dim_tags("N1,N0(pad=16)"), ())
    assert inner == 1
    assert str(outer) == "16*((m + 15) // 16)"


def test_arguments_stand_as_listed_then_as_they_appear_then_sizes_then_layouts() -> None:
    data = [pl.GlobalArg("z", F, shape="n", strides=("s",), offset=pl.auto), pl.ValueArg("m"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < m}", "z[i] = y[i] + alpha", data, assumptions="m <= n")
    assert [a.name for a in knl.arguments] == ["z", "m", "y", "alpha", "n", "s", "z_offset"]


def test_names_of_open_strides_avoid_those_of_the_user() -> None:
    data = [pl.GlobalArg("a", F, shape="n", strides=pl.auto), pl.GlobalArg("a_stride0", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a_stride0[i] = a[i]", data)
    assert knl.argument("a_stride0_0") is not None


def test_the_kernel_shows_unusual_layouts() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 4}",
        "b[i, j] = a[i, j]",
        [pl.GlobalArg("a", F, shape="4, 4", dim_tags="stride:auto,N0", offset=8, alignment=16), ...],
        default_order="F",
        default_offset=pl.auto,
    )
    lines = [line.strip() for line in str(knl).splitlines()]
    assert "a: float32[4, 4], strides (a_stride0, 1), offset 8, aligned to 16 bytes (in)" in lines
    assert "b: float32[4, 4], order F, offset b_offset (out)" in lines
    assert "a_stride0: index (of a)" in lines


def test_default_order_is_that_of_inferred_and_of_listed_arrays() -> None:
    data = [pl.GlobalArg("a", F, shape="4, 6"), pl.GlobalArg("c", F, shape="4, 6", order="C"), ...]
    text = "b[i, j] = a[i, j] + c[i, j]"
    knl = pl.make_kernel("{[i, j]: 0 <= i < 4 and 0 <= j < 6}", text, data, default_order="F")
    assert [a.strides for a in knl.arguments if isinstance(a, ArrayArg)] == [(1, 4), (6, 1), (1, 4)]


def test_index_dtype_is_the_type_of_inames_and_parameters() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "x[i] = i*n", index_dtype=np.int64)
    assert [(a.name, str(a.dtype)) for a in knl.arguments] == [("x", "int64"), ("n", "int64")]
    assert "long long n" in pl.generate_code(knl).device_code
    assert "index_dtype is int32 or int64, not float32 [bad-value]" in refusal(index_dtype=F)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"dim_tags": "N1,N2"}, "dim_tags 'N1,N2' do not number their nesting levels N0, N1, .. [bad-dim-tags]"),
        ({"dim_tags": "N0,x"}, "there is no dim_tag 'x' [bad-dim-tags]"),
        ({"dim_tags": "N0,N1(pad=0)"}, "there is no dim_tag 'N1(pad=0)' [bad-dim-tags]"),
        ({"dim_tags": "N0,C"}, "dim_tags 'N0,C' mix C or F with N0, N1, .. [bad-dim-tags]"),
        ({"dim_tags": 3}, "dim_tags cannot be 3 [bad-dim-tags]"),
        ({"dim_tags": "vec,N0"}, "dim_tags 'vec,N0' tag an axis vec that is not the last [bad-dim-tags]"),
        ({"dim_tags": "sep,sep"}, "dim_tags 'sep,sep' have more than one axis tagged sep [bad-dim-tags]"),
        ({"dim_tags": "N0,vec"}, "the axis of 'a' that is tagged vec has 6 elements [bad-layout]"),
        ({"dim_tags": "sep,N0", "shape": "n, 6"}, "the axis of 'a' that is tagged sep has n elements [bad-layout]"),
        (
            {"dim_tags": "sep,stride:auto"},
            "'a' has an axis tagged sep or vec, and leaves a stride or its offset to the array [bad-layout]",
        ),
        ({"dim_tags": "N0"}, "'a' has 2 axes and 1 dim_tags [bad-layout]"),
        ({"strides": (1, 2, 3)}, "'a' has 2 axes and 3 strides [bad-layout]"),
        ({"strides": (1,), "shape": pl.auto}, "'a' has 2 axes and 1 strides or dim_tags [bad-layout]"),
        ({"strides": (6, 1), "dim_tags": "N1,N0"}, "'a' has both strides and dim_tags [bad-layout]"),
        ({"offset": 1.5}, "an offset cannot be 1.5 [bad-shape]"),
        ({"strides": (1.5, 1)}, "a stride cannot be 1.5 [bad-shape]"),
        ({"strides": ("i", 1)}, "the layout of 'a' depends on 'i', which is no integer argument [bad-layout]"),
        ({"offset": "b"}, "the layout of 'a' depends on 'b', which is no integer argument [bad-layout]"),
        ({"offset": -1}, "an offset cannot be -1 [bad-layout]"),
        ({"alignment": 12}, "the alignment of 'a' is no power of two: 12 [bad-layout]"),
        ({"order": "K"}, "order is 'C' or 'F', not 'K' [bad-order]"),
    ],
)
def test_layouts_that_make_no_sense_are_refused(facts: dict[str, object], text: str) -> None:
    array = pl.GlobalArg("a", F, **{"shape": "4, 6", **facts})  # type: ignore[arg-type]
    assert text in refusal(array, text="b[i, j] = a[i, j]")


def test_elements_of_an_array_that_is_written_lie_apart() -> None:
    assert refusal(pl.GlobalArg("b", F, shape="4, 6", strides=(5, 1))) == (
        "make_kernel on kernel 'loop_kernel': array 'b' is written, and two of its elements have one address "
        "[overlapping-elements]\n"
        "  b[i, j] = 1                                          (line 1, instruction 'insn')\n"
        "  Note: b[0, 5] and b[1, 0] do\n"
        "  Note: its shape is (4, 6), its strides are (5, 1) elements\n"
        "  Hint: give strides that keep the elements apart"
    )
    pl.make_kernel("{[i, j]: 0 <= i < 2 and 0 <= j < 3}", "b[i, j] = 1", [pl.GlobalArg("b", F, "2, 3", (3, 2)), ...])


def test_an_array_that_is_only_read_may_be_broadcast() -> None:
    assert declared(strides=(0, 1)).strides == (0, 1)


def test_a_constant_argument_is_not_written() -> None:
    assert refusal(pl.ConstantArg("b", F, shape="4, 6")) == (
        "make_kernel on kernel 'loop_kernel': 'b' is a ConstantArg and cannot be assigned [not-assignable]\n"
        "  b[i, j] = 1                                          (line 1, instruction 'insn')\n"
        "  Hint: make it a GlobalArg, or assign another array"
    )
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", [pl.ConstantArg("a", F, shape="n"), ...])
    assert "const float *__restrict__ a" in pl.generate_code(knl).device_code


def test_tags_print_as_they_are_written() -> None:
    tags = (Nested(1), Nested(0, 16), Strided(None), Strided(p.Variable("n")))
    assert [str(tag) for tag in tags] == ["N1", "N0(pad=16)", "stride:auto", "stride:n"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), min_size=1, max_size=3))
def test_a_shared_address_is_found_exactly_where_there_is_one(axes: list[tuple[int, int]]) -> None:
    shape, strides = [extent for extent, _ in axes], [stride for _, stride in axes]
    points = list(product(*map(range, shape)))
    addresses = [sum(i * s for i, s in zip(point, strides, strict=True)) for point in points]
    found = shared_address(shape, strides)
    assert bool(found) == (len(set(addresses)) < len(addresses))
    if isinstance(found, tuple):
        one, other = (addresses[points.index(point)] for point in found)
        assert one == other
        assert found[0] != found[1]


def test_what_is_too_large_to_enumerate_is_not_called_apart() -> None:
    assert shared_address((1000, 1000), (1000, 1)) is False
    assert shared_address((1000, 1000), (999, 1)) is True
    assert shared_address((1000, 1000), (0, 1)) == ((0, 0), (1, 0))
