"""The backward pass of attention, against float64: on fibres, by NVRTC, and on a GPU."""

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
from polyloop.library.attention import attention
from polyloop.library.attention_backward import VARIANTS, delta_scheduled, gradients, program, scheduled
from polyloop.library.scores import Scores
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.runtime.resources import read_cubin
from tests.library.exact_attention import drawn, exact

BF16 = ml_dtypes.bfloat16
CHANGED = Scores(causal=True, window=70, lengths=True, bias=True, cap=True)
BOTH = ("dk", "dv")
Of = tuple[str, ...]


@cache
def made_of(of: Of, name: str, head: int, group: int, scores: Scores) -> GeneratedProgram:
    knl = scheduled(of, name, "bfloat16", head, group=group, scores=scores)
    return pl.generate_code(knl, target=pl.CudaTarget("sm_90a" if "wgmma" in name else "sm_80"))


def case(of: Of, head: int, group: int, scores: Scores, n: int, m: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call, with arrays for its results, and what is expected."""
    given = drawn(scores, n, m, head, group)
    d_o = np.random.default_rng(7).standard_normal((2, group, n, head)).astype(BF16)
    wanted = exact(given, scores, d_o)
    given |= {"d_o": d_o, "lse": wanted["lse"].astype(np.float32)}
    if of == ("dv",):
        del given["v"]
    else:
        given["delta"] = wanted["delta"].astype(np.float32)
    return given | {name: np.zeros(wanted[name].shape, BF16) for name in of}, wanted


def close(found: Any, wanted: Any, why: str = "") -> None:
    wide = np.asarray(found).astype(np.float64)
    assert np.abs(wide - wanted).max() <= 1e-2 * np.abs(wanted).max(), why


def compare(of: Of, name: str, head: int, group: int, scores: Scores, n: int, m: int) -> None:
    given, wanted = case(of, head, group, scores, n, m)
    for order, found in run_on_fibres(made_of(of, name, head, group, scores), given).items():
        for result in of:
            close(found[result], wanted[result], f"{result}, {order}")


@pytest.mark.parametrize("of", [("dq",), BOTH])
def test_gradients_of_changed_scores_on_fibres(of: Of) -> None:
    compare(of, "wgmma, 64 x 64", 64, 1, CHANGED, 128, 128)


@pytest.mark.slow
@pytest.mark.parametrize(("of", "name", "head", "group", "scores", "n", "m"), [
    (("dq",), "wgmma, 128 x 64", 64, 2, Scores(), 128, 192),
    (BOTH, "wgmma, 128 x 64", 64, 2, Scores(), 192, 128),
    (("dq",), "wgmma, 128 x 64", 128, 1, Scores(causal=True), 256, 256),
    (BOTH, "wgmma, 128 x 64", 128, 1, Scores(causal=True), 256, 256),
    (("dq",), "wgmma, 128 x 64, roles", 64, 2, Scores(causal=True), 256, 256),
    (BOTH, "wgmma, 128 x 64, roles", 64, 2, Scores(causal=True), 256, 256),
    (("dq",), "wgmma, 128 x 32", 256, 1, Scores(), 128, 64),
    (("dk",), "wgmma, 128 x 32", 256, 1, Scores(), 64, 128),
    (("dv",), "wgmma, 128 x 64", 256, 1, Scores(), 64, 128),
    (("dq",), "mma, 64 x 64", 64, 2, CHANGED, 192, 192),
    (BOTH, "mma, 64 x 64", 64, 2, CHANGED, 192, 192),
    (BOTH, "mma, 64 x 32", 128, 1, Scores(causal=True), 64, 64),
    (BOTH, "wgmma, 64 x 64", 64, 1, Scores(lengths=True, bias=True), 64, 128),
])  # fmt: skip
def test_gradients_on_fibres(of: Of, name: str, head: int, group: int, scores: Scores, n: int, m: int) -> None:
    compare(of, name, head, group, scores, n, m)


@pytest.mark.slow
@pytest.mark.parametrize(("of", "name", "head"), [
    (("dq",), "wgmma, 128 x 64", 128), (BOTH, "wgmma, 128 x 64", 128),
    (BOTH, "wgmma, 128 x 64, roles", 128), (("dq",), "wgmma, 128 x 32", 256),
    (("dk",), "wgmma, 128 x 32", 256), (("dv",), "wgmma, 128 x 64", 256), (BOTH, "mma, 64 x 32", 128),
])  # fmt: skip
def test_sums_fit_registers(of: Of, name: str, head: int) -> None:
    made = made_of(of, name, head, 1, Scores(causal=True))
    (image,) = read_cubin(compile_cuda(made.device_code, "sm_90a" if "wgmma" in name else "sm_80").cubin).values()
    assert image.local_bytes == 0


def test_two_products_are_under_way_at_a_time() -> None:
    text = made_of(BOTH, "wgmma, 64 x 64", 64, 1, CHANGED).device_code
    loop = text[text.index("for (int t = ") :]
    order = ["_kk(", "_kk(", "products_done_1_32(&", "fast_exp2(", "_rj(", "products_done_1_32(&", "_rj(",
             "products_done_1_32(&", "products_done_32(&"]  # fmt: skip
    place = 0
    for word in order:
        place = loop.index(word, place + 1)


def test_a_wait_that_is_missing_is_seen_on_fibres() -> None:
    made = made_of(BOTH, "wgmma, 64 x 64", 64, 1, CHANGED)
    given, _ = case(BOTH, 64, 1, CHANGED, 128, 128)
    text = re.sub(r"products_done_1_32\(&acc_0[^;]*;", ";", made.device_code)
    assert text != made.device_code
    found = run_on_fibres(replace(made, device_code=text), given)
    assert any(np.isnan(one["dk"].astype(np.float64)).any() for one in found.values())


def test_sums_of_outputs_times_gradients() -> None:
    made = pl.generate_code(delta_scheduled("float16", 64, 2), target=pl.CudaTarget("sm_80"))
    rng = np.random.default_rng(0)
    o, d_o = (rng.standard_normal((1, 2, 50, 64)).astype(np.float16) for _ in range(2))
    for order, found in run_on_fibres(made, {"o": o, "d_o": d_o, "delta": np.zeros((1, 2, 50), np.float32)}).items():
        wanted = (o.astype(np.float64) * d_o).sum(-1)
        np.testing.assert_allclose(found["delta"], wanted, rtol=1e-4, atol=1e-4, err_msg=order)


def test_gradients_that_no_program_has_are_refused() -> None:
    with pytest.raises(pl.ArgumentError, match=r"no program has the gradients dq, dk alone \[bad-value\]"):
        program(("dq", "dk"))
    with pytest.raises(pl.ArgumentError, match=r"attention of float32 \[wrong-dtype\]"):
        gradients("float32")


def test_wide_heads_have_a_program_for_each_gradient() -> None:
    assert list(gradients("float16", 256, target=pl.CudaTarget("sm_90a")).programs) == ["delta", "dq", "dk", "dv"]
    assert list(gradients("float16", 128, target=pl.CudaTarget("sm_90a")).programs) == ["delta", "dq", "dk, dv"]


@pytest.mark.gpu
@pytest.mark.parametrize("scores", [Scores(), Scores(causal=True), CHANGED])
@pytest.mark.parametrize("name", list(VARIANTS))
@pytest.mark.parametrize("of", [("dq",), BOTH])
def test_the_gpu_agrees(of: Of, name: str, scores: Scores) -> None:
    given, wanted = case(of, 128, 2, scores, 512, 512)
    given = {key: value for key, value in given.items() if key not in of}
    found = pl.compile(scheduled(of, name, "bfloat16", 128, group=2, scores=scores))(**given)
    for result in of:
        close(found[result], wanted[result], result)


@pytest.mark.gpu
@pytest.mark.parametrize(("head", "causal"), [(64, True), (128, False), (256, True)])
def test_the_gpu_agrees_about_whole_passes(head: int, causal: bool) -> None:
    """The gradients of one call are those of the next: nothing is added atomically."""
    scores = Scores(causal=causal)
    given = drawn(scores, 512, 512, head, 2)
    d_o = np.random.default_rng(7).standard_normal(given["q"].shape).astype(BF16)
    wanted = exact(given, scores, d_o)
    run = attention("bfloat16", head, causal=causal, group=2, lse=True)(**given)
    back = gradients("bfloat16", head, causal=causal, group=2)
    found, again = (back(**given, o=np.asarray(run["o"]), lse=np.asarray(run["lse"]), d_o=d_o) for _ in range(2))
    for result in ("dq", "dk", "dv"):
        close(found[result], wanted[result], result)
        assert np.array_equal(np.asarray(found[result]).view(np.uint16), np.asarray(again[result]).view(np.uint16))
