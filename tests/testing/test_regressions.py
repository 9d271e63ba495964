"""What the fuzzer found, made small: each was a wrong program, or no program, before it was mended."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.dataflow import value_flow
from polyloop.dataflow.last_writes import Timed
from polyloop.testing.agreement import Libraries, Programs, compile_c, compile_fibres, disagreement
from polyloop.testing.drawing.random_kernels import random_arguments
from tests.generated import code_of


def agrees(knl: pl.LoopKernel, *sizes: int) -> None:
    c, cuda = pl.generate_code(knl, target=pl.CTarget()), pl.generate_code(knl, target=pl.CudaTarget())
    libraries = Libraries(compile_c([c]), compile_fibres([cuda]))
    for n in sizes:
        found = disagreement(Programs(knl, c, cuda), random_arguments(knl, n, n), libraries)
        assert found is None, f"n = {n}: {found}"


def test_full_tiles_of_a_strided_loop() -> None:
    """The last full tile was to be found from a row in which the loop's own iname stood inside a floor."""
    knl = pl.make_kernel(
        "[n] -> {[i, k]: 0 <= i < n and 0 <= k < n and k mod 3 = 1}",
        "o[i] = sum(k, a[i, k])",
        [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("o", np.float64, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "k", 2)
    knl = pl.add_prefetch(knl, "a", ["k_inner"])
    agrees(knl, 1, 2, 4, 5, 9)


@pytest.mark.parametrize("transform", ["reverse", "shift"])
def test_parameters_in_the_forms_of_a_copy_are_fixed_too(transform: str) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = x[i] + i", [pl.GlobalArg("x, y", np.float64, shape="n"), ...])
    knl = pl.reverse(knl, "i") if transform == "reverse" else pl.shift(knl, "i", "n - 1")
    agrees(pl.fix_parameters(knl, n=6), 6)


def test_a_strided_loop_waits_before_its_tile_is_filled_again() -> None:
    """Neighbouring iterations of ``k mod 3 = 1`` are three apart: one barrier is not enough."""
    knl = pl.make_kernel(
        ["[n] -> {[i]: 0 <= i < n}", "[n] -> {[k]: 0 <= k < n and k mod 3 = 1}"],
        "o[i] = min(k, a[n - 1 - i, k])",
        [pl.GlobalArg("a", np.float64, shape="n, n"), pl.GlobalArg("o", np.float64, shape="n"), ...],
        assumptions="n >= 1",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="l.0")
    knl = pl.add_prefetch(knl, "a", ["i_inner"])
    text = code_of(pl.generate_code(knl, target=pl.CudaTarget()).device_code)
    body = text[text.index("k += 3") : text.index("o[")]
    assert body.count("__sync") == 2, text
    agrees(knl, 5, 6, 9)


def test_a_temporary_of_lanes_is_not_buffered() -> None:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "for i, j\n<> s = x[j]\no[i, j] = s\nend",
        [pl.GlobalArg("x", np.float64, shape="n"), pl.GlobalArg("o", np.float64, shape="n, n"), ...],
    )
    knl = pl.split_iname(knl, "j", 2, inner_tag="ilp")
    with pytest.raises(pl.TransformError) as caught:
        pl.buffer_array(knl, "s", ["j_outer", "i"])
    assert caught.value.codes == ("iname-tagged",)


def test_blocks_that_the_grid_does_not_have_are_in_no_race() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "o[i] = y[i]", [pl.GlobalArg("y, o", np.float64, shape="n"), ...])
    knl = pl.add_prefetch(knl, "y", [], default_tag=None)
    agrees(pl.tag_inames(knl, "y_dim_0:g.0"), 1, 4)


def test_a_loop_of_one_iteration_is_joined() -> None:
    """Its digit is a constant, which the text of its subscripts did not say."""
    knl = pl.make_kernel(
        ["[n] -> {[i, j]: 0 <= i < 4 and 1 <= j < n}", "[n] -> {[k]: 0 <= k < n}"],
        "o[j, i] = j + x[k] {inames=i:j:k}",
        [pl.GlobalArg("o", np.float64, shape="n, 4"), pl.GlobalArg("x", np.float64, shape="n"), ...],
        name="joined",
    )
    knl = pl.split_iname(knl, "i", 5)
    agrees(pl.join_inames(knl, ["k", "i_outer"]), 1, 2, 5)
    agrees(pl.join_inames(knl, ["j", "i_outer"]), 1, 2, 5)


def test_a_vector_that_is_spelt_in_two_ways_is_loaded_once() -> None:
    knl = pl.make_kernel(
        "[n] -> {[i]: 0 <= i < n}",
        "f(p) := y[p + 3]\no[i] = max(f(i + 1), y[i + 4])",
        [pl.GlobalArg("y", np.float64, shape="n + 5"), pl.GlobalArg("o", np.float64, shape="n"), ...],
        name="twice",
    )
    knl = pl.split_iname(knl, "i", 2, inner_tag="vec")
    text = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    assert text.count("const double2 y_v =") == 1
    agrees(knl, 1, 2, 7)


def test_an_axis_that_data_subscripts_is_not_split() -> None:
    """Quotient and remainder would read the data twice, and the reads of the program would be miscounted."""
    knl = pl.make_kernel(
        "[n] -> {[i]: 0 <= i < n}",
        "h[idx[i]] = x[i]",
        [pl.GlobalArg("idx", np.int32, shape="n"), pl.GlobalArg("h", np.float64, shape="16"), ...],
    )
    with pytest.raises(pl.TransformError, match=r"data decides about subscript 0 of 'h' \[not-affine\]"):
        pl.split_array_axis(knl, "h", 0, 4)


def test_where_isl_fails_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A raw error of ISL's came through; since then last writes are found in another way where ISL has none."""
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i < 7 and 0 <= j <= i}",
        "o[i + 3] = i + 3\np[i + 3] = p[j + 3] + (o[i + 3] - if(x[j + 5] > 0, o[i + 4], x[i + 3]))",
        [pl.GlobalArg("o, p, x", np.float64, shape="20"), ...],
    )
    knl = pl.buffer_array(knl, "p", ["j"], default_tag=None, fetch_bounding_box=True)
    split = pl.split_iname(knl, "p_buf_store_0", 4, inner_tag="g.0")
    given = {name: np.arange(20.0) * sign for name, sign in (("o", 1), ("p", -1), ("x", -1))}
    results = [pl.interpret(k, **{name: value.copy() for name, value in given.items()}) for k in (knl, split)]
    assert all(np.array_equal(results[0][name], results[1][name]) for name in "op")

    def failing(read: Timed, writes: Sequence[Timed]) -> None:
        del read, writes
        raise isl.Error("unbounded optimum")

    monkeypatch.setattr(value_flow, "seen", failing)
    with pytest.raises(pl.TransformError) as refusal:
        pl.split_iname(knl, "p_buf_store_0", 4, inner_tag="g.0")
    assert refusal.value.found[0].code == "not-proven"
    assert refusal.value.found[0].notes[0].startswith("ISL failed: unbounded optimum on where the reads of 'o' get")
