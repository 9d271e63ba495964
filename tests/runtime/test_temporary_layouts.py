"""Layouts of temporaries, and what loop variables are worth where indices are wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.invoke import load

F = np.float32


def transposed(**layout: Any) -> pl.LoopKernel:
    facts: dict[str, Any] = {"address_space": "local", "shape": (5, 7), **layout}
    arrays = [pl.GlobalArg("a", F, shape=(5, 7)), pl.GlobalArg("b", F, shape=(7, 5))]
    data = [*arrays, pl.TemporaryVariable("t", F, **facts)]
    domain = "{[i, j, ii, jj]: 0 <= i, ii < 5 and 0 <= j, jj < 7}"
    knl = pl.make_kernel(domain, "t[i, j] = a[i, j]\nb[jj, ii] = t[ii, jj]", data)
    return pl.tag_inames(knl, "i:l.1, j:l.0, ii:l.0, jj:l.1")


LAYOUTS: list[tuple[dict[str, Any], str, str]] = [
    ({"order": "F"}, "float t[7][5];", "t[tx][ty] = a"),
    ({"dim_tags": "N0,N1"}, "float t[7][5];", "t[tx][ty] = a"),
    ({"dim_tags": "F", "padding": 1}, "float t[7][6];", "t[tx][ty] = a"),
    ({"dim_tags": "N1,N0(pad=8)"}, "float t[39];", "t[ty * 8 + tx] = a"),
    ({"strides": (1, 6)}, "float t[41];", "t[ty + tx * 6] = a"),
    ({"order": "F", "address_space": "global"}, "float *t", "t[ty + tx * 5] = a"),
    ({"strides": (9, 1), "address_space": "global"}, "float *t", "t[ty * 9 + tx] = a"),
]


@pytest.mark.parametrize(("layout", "declared", "written"), LAYOUTS)
def test_a_layout_changes_addresses_and_nothing_else(layout: Any, declared: str, written: str) -> None:
    knl = transposed(**layout)
    text = pl.generate_code(knl).device_code
    assert declared in text
    assert written in text
    a = np.random.default_rng(0).random((5, 7), dtype=F)
    results: list[Any] = [pl.interpret(knl, a=a), compile_kernel(knl, pl.CTarget())(a=a)]
    for result in (*results, *run_on_fibres(pl.generate_code(knl), {"a": a}).values()):
        np.testing.assert_array_equal(result.b, a.T)


def test_a_private_temporary_loses_the_axes_of_its_threads() -> None:
    text = "t[i, j, k] = a[i, j, k]\nb[i, k, j] = t[i, j, k]"
    domain = "{[i, j, k]: 0 <= i < 4 and 0 <= j < 3 and 0 <= k < 2}"
    temporary = pl.TemporaryVariable("t", F, shape=(4, 3, 2), order="F", address_space="private")
    data = [pl.GlobalArg("a", F, shape=(4, 3, 2)), temporary, ...]
    knl = pl.tag_inames(pl.make_kernel(f"{domain}", text, data), {"i": "l.0"})
    a = np.random.default_rng(0).random((4, 3, 2), dtype=F)
    for result in (compile_kernel(knl, pl.CTarget())(a=a), *run_on_fibres(pl.generate_code(knl), {"a": a}).values()):
        np.testing.assert_array_equal(result.b, a.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ({"strides": (6, 1)}, "two elements of temporary 't' have one address [overlapping-elements]\n"
                              "  Note: t[0, 6] and t[1, 0] do"),
        ({"strides": (7,)}, "'t' has 2 axes and 1 strides or dim_tags [bad-layout]"),
        ({"strides": (7, 1), "order": "C"}, "'t' has more than one of order, dim_tags and strides [bad-layout]"),
        ({"strides": ("n", 1)}, "the strides of temporary 't' are no positive numbers [bad-layout]"),
        ({"dim_tags": "stride:auto,N0"}, "the strides of temporary 't' are no positive numbers [bad-layout]"),
        ({"strides": (8, 1), "padding": 1}, "'t' has strides and a padding [bad-layout]"),
        ({"order": "G"}, "order is 'C' or 'F', not 'G' [bad-order]"),
    ],
)  # fmt: skip
def test_layouts_that_cannot_be(layout: Any, text: str) -> None:
    with pytest.raises(pl.KernelError) as err:
        transposed(**layout)
    assert text in str(err.value)


def test_values_of_loop_variables_do_not_depend_on_the_width_of_indices() -> None:
    text = "out[i] = (i + 70000)*(i + 70000) + n*n + a[(i*i) % 5]"
    data: list[Any] = [pl.GlobalArg("out", np.int64, shape="n"), pl.GlobalArg("a", np.int32, shape=5), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data)
    a, i = np.arange(5, dtype=np.int32), np.arange(3)
    expected = ((i + 70000) ** 2 + 9 + a[i * i % 5]).astype(np.int32)  # the type of what the numbers meet
    np.testing.assert_array_equal(pl.interpret(knl, a=a, n=3).out, expected)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(a=a, n=3).out, expected)
    for bits in (32, 64):
        program = pl.generate_code(knl, pl.CTarget(), index_bits=bits)
        np.testing.assert_array_equal(load(program)(a=a, n=3).out, expected)


def test_sizes_that_are_declared_wide_are_wide_values() -> None:
    data: list[Any] = [pl.GlobalArg("out", np.int64, shape="n"), pl.ValueArg("n", np.int64)]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "out[i] = (n*100000)*100000 + i", data)
    expected = np.arange(3) + 3 * 10**10
    np.testing.assert_array_equal(pl.interpret(knl, n=3).out, expected)
    for bits in (32, 64):
        program = pl.generate_code(knl, pl.CTarget(), index_bits=bits)
        np.testing.assert_array_equal(load(program)(n=3).out, expected)
