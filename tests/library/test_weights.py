"""Products with weights that are converted in registers, against float64: on fibres, by NVRTC, and on a GPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.library import weights
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin
from tests.generated import flat
from tests.library.test_fused import Given, compare, weights_case

CASES: dict[str, tuple[str, int, dict[str, int], dict[str, Any], dict[str, int]]] = {
    "int4, a scale for 64 rows": ("int4", 64, {}, {}, {"m": 21, "n": 144, "p": 128}),
    "int4, roles": ("int4", 128, {"rows": 32, "columns": 128}, {"roles": True}, {"m": 32, "n": 128, "p": 384}),
    "int4, in a cluster": ("int4", 64, {"parts": 4, "terms": 128}, {"stages": 4}, {"m": 23, "n": 80, "p": 448}),
    "int4, boxes": ("int4", 128, {"rows": 128, "columns": 128}, {"roles": True, "boxes": True, "stages": 4},
                    {"m": 130, "n": 272, "p": 128}),
    "int4": ("int4", 0, {"parts": 2, "terms": 128}, {"stages": 4}, {"m": 3, "n": 64, "p": 208}),
    "e4m3": ("float8_e4m3fn", 0, {"rows": 8}, {}, {"m": 16, "n": 64, "p": 192}),
}  # fmt: skip
"""Weights, rows of a scale, what is said of the program and of its schedule, and sizes."""


def made_of(name: str) -> pl.LoopKernel:
    kind, group, program, schedule, _ = CASES[name]
    return weights.in_registers(weights.program(kind, group=group, **program), **schedule)


@cache
def program(name: str) -> GeneratedProgram:
    return pl.generate_code(made_of(name))


def case(name: str, **larger: int) -> tuple[Given, Any]:
    kind, group, _, _, sizes = CASES[name]
    return weights_case(kind, np.random.default_rng(0), **(sizes | larger), group=group)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", list(CASES))
def test_numbers_on_fibres(name: str) -> None:
    given, expected = case(name)
    arrays = {**given, "c": np.zeros(expected.shape, ml_dtypes.bfloat16)}
    for order, found in run_on_fibres(program(name), arrays).items():
        compare(found["c"], expected, order)


@pytest.mark.few(2)
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", list(CASES))
def test_the_text_compiles(name: str) -> None:
    compiled = compile_cuda(program(name).device_code, "sm_90a")
    assert not compiled.log, "no products one after the other, and nothing that is not used"
    assert all(image.local_bytes == 0 for image in read_cubin(compiled.cubin).values())


def test_weights_go_to_registers_and_no_way_back() -> None:
    text = flat(program("int4, roles").device_code)
    assert "wgmma_m64n32k16_bf16_rk(" in text
    assert text.count("publish_stores();") == 0, "threads store nothing in shared memory"
    assert "scale_tile[" in text
    assert text.count("bar.sync") == 0, "groups of warps do not meet"


@pytest.mark.parametrize("sizes", [
    {"rows": 20}, {"rows": 512}, {"columns": 96}, {"parts": 16, "terms": 64}, {"rows": 8, "parts": 8, "terms": 64},
    {"parts": 2}, {"parts": 4, "terms": 100},
])  # fmt: skip
def test_blocks_and_parts_that_there_are_not(sizes: dict[str, Any]) -> None:
    with pytest.raises(pl.ArgumentError, match="no product with weights in registers in") as caught:
        weights.program(**sizes)
    assert caught.value.codes == ("bad-value",)


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(CASES))
def test_the_gpu_agrees(name: str) -> None:
    run = pl.compile(made_of(name))
    for larger in ({}, {"m": 300, "n": 1040}):
        given, expected = case(name, **larger)
        compare(run(**given, poison=True)["c"], expected, f"{larger}")
