"""Attention on tensor cores, against float64: on fibres, by NVRTC, and on a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.library.attention import VARIANTS, scheduled
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import flat

BF16 = ml_dtypes.bfloat16
KINDS: dict[str, Any] = {"bfloat16": BF16, "float16": np.float16}
CASES = [
    ("wgmma, 128 x 64", "bfloat16", 64, False, 1),
    ("wgmma, 128 x 128", "float16", 128, False, 1),
    ("wgmma, 128 x 64, overlapped", "bfloat16", 128, False, 1),
    ("wgmma, 128 x 64, overlapped", "float16", 64, True, 2),
    ("wgmma, 64 x 64", "bfloat16", 64, True, 3),
    ("mma, 64 x 64", "float16", 64, False, 2),
]
"""Schedule, type, elements of a head, causal, and heads of queries for one of keys."""
WITH_ROLES = ("wgmma, 128 x 64, overlapped, roles", "bfloat16", 64, True, 1)


def case(dtype: str, head: int, n: int, *, causal: bool, group: int, m: int = 0) -> tuple[dict[str, Any], Any]:
    """Return the arguments of a call, and what is expected."""
    rng, kind, m = np.random.default_rng(n + head), KINDS[dtype], m or n
    q = rng.standard_normal((2, group, n, head)).astype(kind)
    k, v = (rng.standard_normal((2, m, head)).astype(kind) for _ in range(2))
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = np.einsum("hgic,hjc->hgij", wide[0], wide[1]) / np.sqrt(head)
    if causal:
        scores = np.where(np.arange(m)[None] <= np.arange(n)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("hgij,hjd->hgid", weights / weights.sum(-1, keepdims=True), wide[2])
    return {"q": q, "k": k, "v": v, "scale": np.float32(np.log2(np.e) / np.sqrt(head))}, expected


@cache
def program(name: str, dtype: str, head: int, causal: bool, group: int) -> GeneratedProgram:
    target = pl.CudaTarget("sm_90a" if "wgmma" in name else "sm_80")
    return pl.generate_code(scheduled(name, dtype, head, causal=causal, group=group), target=target)


@pytest.mark.parametrize(("name", "dtype", "head", "causal", "group"), CASES)
def test_numbers_on_fibres(name: str, dtype: str, head: int, causal: bool, group: int) -> None:
    given, expected = case(dtype, head, 256, causal=causal, group=group)
    made = program(name, dtype, head, causal, group)
    for order, found in run_on_fibres(made, {**given, "o": np.zeros(expected.shape, KINDS[dtype])}).items():
        np.testing.assert_allclose(found["o"].astype(np.float64), expected, rtol=2e-2, atol=1e-2, err_msg=order)


@pytest.mark.parametrize(("name", "dtype", "head", "causal", "group"), CASES)
def test_the_text_compiles(name: str, dtype: str, head: int, causal: bool, group: int) -> None:
    made = program(name, dtype, head, causal, group)
    assert compile_cuda(made.device_code, "sm_90a" if "wgmma" in name else "sm_80").cubin


def test_weights_stay_in_registers() -> None:
    text = program(*CASES[0]).device_code
    assert "wgmma_m64n64k16_bf16_rj(" in text
    assert "p_tile" not in text
    assert "__shared__ __align__(16) bfloat16 p[" not in text


def test_a_wait_that_is_missing_is_seen_on_fibres() -> None:
    """Both products of an overlapped schedule are under way while exponentials are computed."""
    key = ("wgmma, 128 x 64, overlapped", "float16", 64, True, 2)
    made = program(*key)
    assert "products_done_1_32(&acc" in made.device_code
    text = re.sub(r"products_done_1_32\(&acc[^;]*;", ";", made.device_code)
    given, expected = case("float16", 64, 256, causal=True, group=2)
    found = run_on_fibres(replace(made, device_code=text), {**given, "o": np.zeros(expected.shape, np.float16)})
    assert any(np.isnan(one["o"].astype(np.float64)).any() for one in found.values())


def test_copies_start_behind_the_barrier_and_are_waited_for_at_their_use() -> None:
    text = program(*CASES[0]).device_code
    loop = text[text.index("for (int t = 0") :]
    order = ["ring_wait(&k_tile_ring", "__syncthreads", "&k_map", "&v_map", "_kk(", "fast_exp2",
             "ring_wait(&v_tile_ring", "_rj("]  # fmt: skip
    places = [loop.index(word) for word in order]
    assert places == sorted(places)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "head", "causal", "group"), [("bfloat16", 64, True, 1), ("float16", 128, False, 2)])
def test_numbers_with_roles(dtype: str, head: int, causal: bool, group: int) -> None:
    test_numbers_on_fibres(WITH_ROLES[0], dtype, head, causal, group)


def test_with_roles_groups_of_warps_do_not_meet_in_the_loop() -> None:
    text = program(*WITH_ROLES).device_code
    assert compile_cuda(text, "sm_90a").cubin
    assert "setmaxnreg.inc.sync.aligned.u32 232" in text
    assert text.count("bar.sync 1, 256;") == 1, "for the tile of queries, which threads store"
    loop = text[text.rindex("for (int t = 1") :]
    order = ["ring_wait(&k_tile_ring", "_kk(", "ring_wait(&v_tile_ring", "_rj(", "products_done_1_32(",
             "ring_free(&k_tile_free", "fast_exp2", "products_done_32(", "ring_free(&v_tile_free"]  # fmt: skip
    places = [loop.index(word) for word in order]
    assert places == sorted(places)


def test_the_output_is_where_its_sum_begins() -> None:
    assert re.search(r"acc_\d\[[^;]* = acc\[[^;]* \* shrink\[", flat(program(*CASES[0]).device_code))


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(VARIANTS))
@pytest.mark.parametrize(("dtype", "head", "causal"), [("bfloat16", 128, True), ("float16", 64, False)])
def test_the_gpu_agrees(name: str, dtype: str, head: int, causal: bool) -> None:
    given, expected = case(dtype, head, 512, causal=causal, group=2)
    knl = scheduled(name, dtype, head, causal=causal, group=2)
    found = np.asarray(pl.compile(knl)(**given)["o"]).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=1e-2)
