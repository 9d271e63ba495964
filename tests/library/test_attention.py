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
from polyloop.library.attention import VARIANTS, attention, scheduled
from polyloop.library.scores import Scores
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin
from tests.generated import flat
from tests.library.exact_attention import drawn, exact

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
WIDE = ("wgmma, 64 x 64", "bfloat16", 256, False, 1)
CHANGED = Scores(causal=True, window=70, lengths=True, bias=True, cap=True)
"""All that becomes of scores."""
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
    n = 256 if "wgmma" in name else 128  # warps of mma.sync take longer on fibres
    given, expected = case(dtype, head, n, causal=causal, group=group)
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
    log = compile_cuda(text, "sm_90a").log
    assert "wait_group is injected" not in log, log
    assert "serialized" not in log, log
    assert "setmaxnreg.inc.sync.aligned.u32 232" in text
    assert text.count("bar.sync 1, 256;") == 3, "for queries, which threads store, and for results in their place"
    assert re.search(r"\n +const int t = n / 64 - ", text), "the last product is no loop"
    loop = text[text.rindex("for (int t = 1") :]
    order = ["ring_wait(&k_tile_ring", "_kk(", "ring_wait(&v_tile_ring", "_rj(", "products_done_1_32(",
             "ring_free_group(&k_tile_free", "fast_exp2", "products_behind(part[0] + part[1])", "products_done_32(",
             "ring_free_group(&v_tile_free"]  # fmt: skip
    places = [loop.index(word) for word in order]
    assert places == sorted(places)


def test_groups_of_products_end_where_there_are_products_or_waits_that_count_them() -> None:
    text = program(*WITH_ROLES).device_code
    body = [line.strip() for line in text[text.index('extern "C"') :].splitlines()]
    letters = {"products_beg": "b", "products_com": "c", "products_don": "d"}
    order = "".join(letters.get(line[:12], "") for line in body)
    assert order == "bccd" + 3 * "bcbcdd" + "bcd", "the second group, of no products, is what its wait leaves"


def test_long_blocks_of_several_heads_run_first() -> None:
    assert "const int panel = min(4, blocks_z) * blocks_x" in program(*WITH_ROLES).device_code
    assert "blocks_z" not in program(*CASES[0]).device_code


def test_the_output_is_where_its_sum_begins() -> None:
    assert re.search(r"acc_\d\[[^;]* = acc\[[^;]* \* shrink\[", flat(program(*CASES[0]).device_code))


def run_changed(name: str, scores: Scores, n: int, m: int, head: int = 64, group: int = 1) -> None:
    """Compare a schedule with float64 on fibres, for scores that are changed."""
    knl = scheduled(name, "bfloat16", head, group=group, scores=scores, lse=True)
    made = pl.generate_code(knl, target=pl.CudaTarget("sm_90a"))
    given = drawn(scores, n, m, head, group)
    wanted = exact(given, scores)
    empty = {"o": np.zeros(wanted["o"].shape, BF16), "lse": np.zeros(wanted["lse"].shape, np.float32)}
    for order, found in run_on_fibres(made, {**given, **empty}).items():
        np.testing.assert_allclose(found["o"].astype(np.float64), wanted["o"], rtol=2e-2, atol=1e-2, err_msg=order)
        np.testing.assert_allclose(found["lse"], wanted["lse"], rtol=1e-5, atol=1e-5, err_msg=order)


def test_a_window_lengths_a_bias_and_a_cap_on_fibres() -> None:
    """The second head of keys has none at all, and its queries have an output of 0."""
    run_changed("wgmma, 64 x 64", CHANGED, 128, 128)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scores", "n", "m", "group"), [
    ("wgmma, 128 x 64", Scores(lengths=True), 128, 192, 1),
    ("wgmma, 128 x 64, overlapped", Scores(causal=True, window=70), 256, 256, 1),
    ("wgmma, 64 x 64", Scores(bias=True), 64, 128, 2),
    ("wgmma, 64 x 64", Scores(cap=True), 64, 128, 1),
    ("wgmma, 128 x 128", Scores(causal=True, lengths=True), 128, 128, 1),
    ("mma, 64 x 64", CHANGED, 192, 192, 2),
    ("mma, 64 x 32", Scores(cap=True, lengths=True), 64, 96, 1),
])  # fmt: skip
def test_changed_scores_on_fibres(name: str, scores: Scores, n: int, m: int, group: int) -> None:
    run_changed(name, scores, n, m, group=group)


@pytest.mark.slow
def test_heads_of_256_elements_on_fibres() -> None:
    run_changed(WIDE[0], Scores(), 64, 128, head=256)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wgmma, 128 x 64", "wgmma, 128 x 64, overlapped"])
def test_heads_of_256_elements_fit_registers_and_shared_memory(name: str) -> None:
    made = pl.generate_code(scheduled(name, "bfloat16", 256, causal=True), target=pl.CudaTarget("sm_90a"))
    (image,) = read_cubin(compile_cuda(made.device_code, "sm_90a").cubin).values()
    assert image.local_bytes == 0
    assert made.launches[0].shared_bytes <= 227 * 1024


def refused(call: Any, code: str) -> str:
    with pytest.raises(pl.ArgumentError) as caught:
        call()
    assert [one.code for one in caught.value.found] == [code]
    return str(caught.value)


def test_other_types_and_heads_are_refused() -> None:
    assert "attention of float32" in refused(lambda: attention("float32"), "wrong-dtype")
    assert "a head of 96 elements" in refused(lambda: attention(head=96), "bad-value")
    assert "pass group=1" in refused(lambda: scheduled("mma, 64 x 64", group=0), "bad-value")
    assert "not causal" in refused(lambda: Scores(window=3), "bad-value")
    assert "negative" in refused(lambda: Scores(causal=True, window=-3), "bad-value")


def test_a_call_takes_the_schedule_that_was_measured() -> None:
    dispatcher = attention("bfloat16", 64, causal=True, target=pl.CudaTarget("sm_90a"), device="H100")
    assert dispatcher.names[0] == "wgmma, 128 x 64"
    chosen = dispatcher.choose(heads=64, n=4096)
    assert (chosen.name, list(chosen.seconds)) == ("wgmma, 64 x 64", ["wgmma, 64 x 64"])

@pytest.mark.slow
def test_sizes_that_are_no_multiples_of_tiles_are_refused() -> None:
    dispatcher = attention("bfloat16", 64, causal=True, target=pl.CudaTarget("sm_90a"), device="H100")
    with pytest.raises(pl.ArgumentError, match=r"n % 64 == 0 is false for n = 100"):
        dispatcher.choose(heads=64, n=100)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in VARIANTS if "wgmma, 128 x 64" in name and "3" not in name])
@pytest.mark.parametrize("causal", [True, False])
def test_the_gpu_agrees_about_heads_of_256_elements(name: str, causal: bool) -> None:
    given, expected = case("bfloat16", 256, 512, causal=causal, group=2)
    found = np.asarray(pl.compile(scheduled(name, "bfloat16", 256, causal=causal, group=2))(**given)["o"])
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("scores", [CHANGED, Scores(lengths=True), Scores(bias=True, cap=True)])
@pytest.mark.parametrize("name", ["wgmma, 128 x 64", "wgmma, 128 x 64, overlapped", "mma, 64 x 64"])
def test_the_gpu_agrees_about_changed_scores(name: str, scores: Scores) -> None:
    given = drawn(scores, 512, 512, 128, 2)
    wanted = exact(given, scores)
    found = pl.compile(scheduled(name, "bfloat16", 128, group=2, scores=scores, lse=True))(**given)
    np.testing.assert_allclose(np.asarray(found["o"]).astype(np.float64), wanted["o"], rtol=2e-2, atol=1e-2)
    np.testing.assert_allclose(np.asarray(found["lse"]), wanted["lse"], rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(VARIANTS))
@pytest.mark.parametrize(("dtype", "head", "causal"), [("bfloat16", 128, True), ("float16", 64, False)])
def test_the_gpu_agrees(name: str, dtype: str, head: int, causal: bool) -> None:
    given, expected = case(dtype, head, 512, causal=causal, group=2)
    knl = scheduled(name, dtype, head, causal=causal, group=2)
    found = np.asarray(pl.compile(knl)(**given)["o"]).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=1e-2)
