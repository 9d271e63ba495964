"""Layouts as maps of addresses, against enumeration, and what happens to a layout, or a wide access, that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyloop as pl
from polyloop.codegen.loops import vector_access as wide
from polyloop.kernel.swizzle import Swizzle, swizzle_problem
from polyloop.mapping.contiguity import Lanes
from polyloop.poly.affine import Affine
from polyloop.proof.obligation import Claim
from polyloop.runtime.fibres import run_on_fibres
from polyloop.schedule import allocation
from polyloop.verification.addresses import AddressMap, WideAccess, address_obligations, wide_obligations


def found(*maps: AddressMap) -> list[pl.Diagnostic]:
    return [finding for obligation in address_obligations(maps) for finding in obligation.find()]


def torn(access: WideAccess, **divisibility: tuple[int, int]) -> list[pl.Diagnostic]:
    return [finding for obligation in wide_obligations([access], divisibility) for finding in obligation.find()]


def turn(dtype: npt.DTypeLike, vec: int, columns: int = 16) -> pl.LoopKernel:
    domain = f"{{[i, j]: 0 <= i < 16 and 0 <= j < {columns}}}"
    knl = pl.make_kernel(domain, "b[j, i] = a[i, j]", [pl.GlobalArg("a, b", dtype), ...], name="turn")
    knl = pl.tag_inames(knl, "i:l.1, j:l.0")
    return pl.add_prefetch(knl, "a", ["i", "j"], vec=vec)


# {{{ elements apart

extents = st.lists(st.integers(1, 9), min_size=1, max_size=3)
swizzles = st.builds(Swizzle, st.integers(1, 3), st.integers(0, 3), st.integers(1, 5))


@settings(max_examples=300, deadline=None)
@given(extents, st.data(), st.none() | swizzles, st.integers(-2, 2) | st.integers(0, 40), st.sampled_from([0, -9]))
def test_it_finds_elements_that_share_an_address_or_lie_outside_exactly_where_there_are_some(
    shape: list[int], data: st.DataObject, swizzle: Swizzle | None, spare: int, least: int
) -> None:
    strides = [data.draw(st.integers(least, 20)) for _ in shape]
    reach = sum((extent - 1) * max(stride, 0) for extent, stride in zip(shape, strides, strict=True))
    layout = AddressMap("a", tuple(shape), tuple(strides), reach + 1 + spare, swizzle)
    places = [sum(i * s for i, s in zip(at, strides, strict=True)) for at in product(*map(range, shape))]
    moved = places if swizzle is None else [swizzle.moved(place) for place in places]
    is_right = len(set(moved)) == len(moved) and all(0 <= place < layout.size for place in moved)
    assert is_right is not bool(found(layout))


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 6), st.integers(1, 8))
def test_the_swizzles_that_are_accepted_keep_elements_apart(
    length: int, rows: int, bits: int, base: int, shift: int
) -> None:
    swizzle = Swizzle(bits, base, shift)
    row = 1 << length
    if not swizzle_problem(swizzle, row, (0, 1)):
        assert not found(AddressMap("a", (rows, row), (row, 1), rows * row, swizzle))


def test_two_elements_at_one_address_are_named() -> None:
    (finding,) = found(AddressMap("t", (4, 4), (3, 1), 13))
    assert finding.code == "overlapping-elements"
    assert finding.message == "two elements of 't' have one address"
    assert finding.notes == ("t[0, 3] and t[1, 0] do", "its shape is (4, 4), its strides are (3, 1) elements")


def test_an_element_outside_of_its_array_is_named() -> None:
    (finding,) = found(AddressMap("t", (3, 4), (4, 1), 12, Swizzle(1, 2, 1)))
    assert finding.message == "an element of 't' lies at address 12, and the array has 12 elements"


def test_a_layout_that_no_step_may_make_is_found_when_the_schedule_is_made(
    monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    knl = turn(np.float32, 4, columns=12)
    tile = replace(knl.temporaries["a_fetch"], swizzle=Swizzle(1, 6, 1))
    knl = replace(knl, temporaries={**knl.temporaries, "a_fetch": tile})
    monkeypatch.setattr(allocation, "swizzle_problem", lambda *_: "")
    with pytest.raises(pl.VerificationError) as refused:
        pl.verify(knl)
    golden("messages/layout_overlapping.txt", str(refused.value))
    with pytest.raises(pl.VerificationError, match="overlapping-elements"):
        pl.generate_code(pl.unchecked(knl, "no layout is let pass"))


# }}}
# {{{ neighbours together


def access(form: Affine, count: int, multiple: int, swizzle: Swizzle | None = None) -> WideAccess:
    return WideAccess("insn", "a[..]", (form,), (1,), 0, Lanes("v", 0, count), multiple, swizzle, 64)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 2, 3, 4, 6, 8]), st.sampled_from([2, 4, 8]), st.none() | swizzles, st.integers(0, 7))
def test_it_finds_the_accesses_that_do_not_move_neighbours(
    step: int, count: int, swizzle: Swizzle | None, first: int
) -> None:
    form = Affine((("i", step), ("v", 1)), first)
    begins = range(first, 64 - count + 1, step)
    is_right = all(begin % count == 0 for begin in (first, first + step))
    if swizzle is not None:
        is_right &= all(swizzle.moved(b + k) == swizzle.moved(b) + k for b in begins for k in range(count))
    assert is_right is not bool(torn(access(form, count, count, swizzle)))


@pytest.mark.parametrize("count", [2, 4])
def test_it_finds_the_one_place_whose_neighbours_are_moved_apart(count: int) -> None:
    """An address that is a number, and is aligned to less than the access."""
    for bits, base, shift, first in product((1, 2), (0, 1, 2), (1, 2, 3), range(16)):
        swizzle = Swizzle(bits, base, shift)
        is_right = all(swizzle.moved(first + k) == swizzle.moved(first) + k for k in range(count))
        assert is_right is not bool(torn(access(Affine((("v", 1),), first), count, 1, swizzle)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 4]), st.sampled_from([2, 4]))
def test_it_finds_the_accesses_across_ends_of_rows_that_are_torn(row: int, stride: int, step: int, count: int) -> None:
    """``a[f // row, f % row]`` of rows that are *stride* apart, with f = step*i + lane."""
    form = Affine.make([("i", step), ("v", 1)])
    high = form.floordiv(row)
    wide = WideAccess("insn", "a[..]", (high, form.add(high, -row)), (stride, 1), 0, Lanes("v", 0, count), count)
    places = [[f // row * stride + f % row for f in range(step * i, step * i + count)] for i in range(2 * row)]
    is_right = all(at == [*range(at[0], at[0] + count)] and at[0] % count == 0 for at in places)
    assert is_right or torn(wide)
    assert not torn(wide) or row != stride or step % count


steps, numbers = st.sampled_from([-4, 0, 1, 2, 4, 8]), st.sampled_from([-2, 0, 1, 3, 4])
axes_of_lanes = st.tuples(steps, st.sampled_from([0, 0, 1]), numbers, st.sampled_from([0, 1, 1, 2, 4]))
lanes = st.builds(Lanes, st.just("v"), st.integers(0, 3), st.sampled_from([2, 4]))


@settings(max_examples=300, deadline=None)
@given(st.lists(axes_of_lanes, min_size=1, max_size=3), numbers, lanes)
def test_it_finds_the_accesses_of_several_axes_that_are_torn(
    axes: list[tuple[int, int, int, int]], offset: int, lanes: Lanes
) -> None:
    """Each axis has the coefficients of a loop of its own and of the lanes, a constant, and its stride."""
    forms = tuple(Affine.make([(f"i{number}", a), ("v", b)], c) for number, (a, b, c, _) in enumerate(axes))
    wide = WideAccess("insn", "a[..]", forms, tuple(stride for *_, stride in axes), offset, lanes, lanes.count)
    is_right = True
    for loops in product(range(lanes.count), repeat=len(axes)):
        whole = offset + sum((a * i + c) * s for i, (a, _, c, s) in zip(loops, axes, strict=True))
        at = [whole + sum(b * (lanes.low + k) * s for _, b, _, s in axes) for k in range(lanes.count)]
        is_right &= at == list(range(at[0], at[0] + lanes.count)) and at[0] % lanes.count == 0
    assert is_right is not bool(torn(wide))


@pytest.mark.parametrize("number", [0, 1])
def test_a_distance_along_an_axis_whose_stride_is_a_size_is_no_number(number: int) -> None:
    one, n = Affine((("v", 1),)), p.Variable("n")
    forms = (one, Affine((("v", 1),)))
    strides = (n, 1) if number else (1, n)
    assert torn(WideAccess("insn", "a[..]", forms, strides, 0, Lanes("v", 0, 2), 1))


def test_a_known_residue_of_a_size_counts() -> None:
    forms, strides = (Affine((("i", 1),)), Affine((("v", 1),))), (p.Variable("n"), 1)
    rows = WideAccess("insn", "a[..]", forms, strides, 0, Lanes("v", 0, 4), 4)
    assert [finding.code for finding in torn(rows)] == ["torn-access"]
    assert not torn(rows, n=(8, 4))
    assert torn(rows, n=(8, 2))


def test_a_wide_access_that_a_swizzle_tears_is_refused(
    monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    knl = pl.swizzle(turn(np.float64, 4), "a_fetch")
    monkeypatch.setattr(wide, "MOST_BYTES", 32)
    monkeypatch.setattr(Swizzle, "keeps", lambda *_: True)
    with pytest.raises(pl.CodegenError) as refused:
        pl.generate_code(knl, target=pl.CudaTarget())
    golden("messages/torn_access.txt", str(refused.value))


def test_the_certificate_says_what_was_proven_of_the_layout() -> None:
    knl = pl.swizzle(turn(np.float64, 4), "a_fetch")
    proofs = [proof for proof in pl.verify(knl).proofs if proof.claim is Claim.LAYOUT]
    assert [proof.subject for proof in proofs] == ["addresses", "wide accesses"]
    assert [proof.by for proof in proofs] == ["strides and swizzles of a_fetch", "addresses of each lane in 4 accesses"]
    plain = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i]", [pl.GlobalArg("x, y", np.float32, shape="n"), ...])
    assert not [proof for proof in pl.verify(plain).proofs if proof.claim is Claim.LAYOUT]


WIDE = [
    (np.float64, 4), (np.float64, 8), (np.float64, 16), (np.int64, 4), (np.complex64, 4), (np.complex64, 2),
    (np.float32, 8), (np.float32, 16), (np.int32, 8), (np.uint32, 4), (np.float16, 16), (np.int16, 8), (np.int8, 16),
]  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("places", [(), (2, 1, 3), pytest.param((1, 2, 2), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("dtype", "vec"), WIDE)
def test_swizzled_tiles_are_filled_by_wide_copies(dtype: npt.DTypeLike, vec: int, places: tuple[int, ...]) -> None:
    knl = turn(dtype, vec)
    try:
        knl = pl.swizzle(knl, "a_fetch", *places)
    except pl.TransformError as refused:
        assert set(refused.codes) <= {"bad-swizzle"}  # noqa: PT017 - some places do not fit
        return
    a = np.arange(256).reshape(16, 16).astype(dtype)
    for order, result in run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), {"a": a}).items():
        np.testing.assert_array_equal(result.b, a.T, err_msg=order)


# }}}
