"""Products in a chain with what comes before and after them, against float64: on fibres, by NVRTC, and on a GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.library import fused
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from tests.generated import flat

BF16 = ml_dtypes.bfloat16
Given = dict[str, Any]


def drawn(rng: np.random.Generator, *shape: int, dtype: Any = BF16) -> Any:
    return (rng.random(shape) - 0.5).astype(dtype)


def wide(x: Any) -> Any:
    return x.astype(np.float64)


def gelu_case(rng: np.random.Generator, m: int, n: int, p: int, dtype: Any = BF16) -> tuple[Given, Any]:
    a, b, bias = (drawn(rng, *shape, dtype=dtype) for shape in ((m, p), (p, n), (n,)))
    s = wide(a) @ wide(b) + wide(bias)
    return {"a": a, "b": b, "bias": bias}, 0.5 * s * (1 + np.vectorize(math.erf)(s / np.sqrt(2)))


def gated_case(rng: np.random.Generator, m: int, n: int, p: int) -> tuple[Given, Any]:
    a, gate, up = drawn(rng, m, p), drawn(rng, p, n), drawn(rng, p, n)
    g = wide(a) @ wide(gate)
    return {"a": a, "gate": gate, "up": up}, g / (1 + np.exp(-g)) * (wide(a) @ wide(up))


def layer_norm_case(rng: np.random.Generator, m: int, n: int, p: int) -> tuple[Given, Any]:
    a, b, gamma, beta = drawn(rng, m, p), drawn(rng, p, n), drawn(rng, n), drawn(rng, n)
    away = wide(a) @ wide(b)
    away -= away.mean(1, keepdims=True)
    normal = away / np.sqrt((away**2).mean(1, keepdims=True) + 1e-5)
    return {"a": a, "b": b, "gamma": gamma, "beta": beta}, normal * wide(gamma) + wide(beta)


def weights_case(kind: str, rng: np.random.Generator, m: int, n: int, p: int, group: int = 0) -> tuple[Given, Any]:
    a, scale = drawn(rng, m, p), rng.random((p // group, n) if group else n).astype(np.float32)
    if kind == "int4":
        w = rng.integers(-8, 8, (p, n))
        q = ((w[0::2] & 15) | ((w[1::2] & 15) << 4)).astype(np.uint8)
    else:
        q = (4 * rng.random((p, n)) - 2).astype(getattr(ml_dtypes, kind))
        w = wide(q)
    found = wide(a) @ (w * scale.repeat(group, 0)) if group else wide(a) @ w * scale
    return {"a": a, "q": q, "scale": scale}, found


def groups_case(
    rng: np.random.Generator, tiles: int, groups: int, n: int, p: int, rows: int, dtype: Any = BF16
) -> tuple[Given, Any]:
    a, b = drawn(rng, rows * tiles, p, dtype=dtype), drawn(rng, groups, p, n, dtype=dtype)
    group = rng.integers(0, groups, tiles).astype(np.int32)
    parts = [wide(a[rows * t : rows * (t + 1)]) @ wide(b[g]) for t, g in enumerate(group)]
    return {"a": a, "b": b, "group": group}, np.concatenate(parts)


def pixels_case(rng: np.random.Generator, h: int, w: int, channels: int, images: int, n: int) -> tuple[Given, Any]:
    a, b = drawn(rng, images, h + 2, w + 2, channels), drawn(rng, 3, 3, channels, n)
    parts = (np.einsum("nyxc,cf->nyxf", wide(a)[:, y : y + h, x : x + w], wide(b)[y, x])
             for y in range(3) for x in range(3))  # fmt: skip
    return {"a": a, "b": b}, sum(parts)


@dataclass(frozen=True)
class Chain:
    """A schedule, its arguments and what is expected, and sizes at edges of tiles, small ones and those of a GPU."""

    make: Callable[[], pl.LoopKernel]
    case: Callable[..., tuple[Given, Any]]
    small: Mapping[str, int]
    large: Mapping[str, int]


EDGES, LARGE = {"m": 130, "n": 264, "p": 72}, {"m": 1000, "n": 1032, "p": 2056}
EVEN, LARGE_EVEN = {"m": 130, "n": 272, "p": 80}, {"m": 1000, "n": 1040, "p": 2064}
CHAINS: Mapping[str, Chain] = {
    "gelu": Chain(lambda: fused.on_tiles(fused.gelu()), gelu_case, EDGES, LARGE),
    "gelu of float16, not persistent": Chain(
        lambda: fused.on_tiles(fused.gelu("float16"), 64, 64, 6, persistent=False, columnwise=("bias",)),
        partial(gelu_case, dtype=np.float16), EDGES, LARGE),
    "gated": Chain(
        lambda: fused.on_tiles(fused.gated(), columns=128, operands=("a", "gate", "up")), gated_case, EDGES, LARGE),
    "gated, 64 columns": Chain(
        lambda: fused.on_tiles(fused.gated(), columns=64, stages=6, operands=("a", "gate", "up"), persistent=False),
        gated_case, EDGES, LARGE),
    "layer norm": Chain(
        lambda: fused.on_rows(fused.layer_norm()), layer_norm_case, EDGES | {"n": 256}, LARGE | {"n": 256}),
    "layer norm, 64 rows of 128": Chain(
        lambda: fused.on_rows(fused.layer_norm(128), 64, 128), layer_norm_case, EDGES | {"n": 128}, LARGE | {"n": 128}),
    "layer norm in clusters": Chain(
        lambda: fused.on_rows(fused.layer_norm(256), columns=128, blocks=2), layer_norm_case,
        EDGES | {"n": 256}, LARGE | {"n": 256}),
    "layer norm in clusters of 4": Chain(
        lambda: fused.on_rows(fused.layer_norm(1024, "bfloat16"), blocks=4), layer_norm_case,
        {"m": 66, "n": 1024, "p": 72}, LARGE | {"n": 1024}),
    "layer norm of what is stored": Chain(
        lambda: fused.on_tiles_and_warps(fused.layer_norm_of_stored(256), columns=128, together=2), layer_norm_case,
        EDGES | {"n": 256}, LARGE | {"n": 256}),
    "layer norm of what is stored, roles": Chain(
        lambda: fused.on_tiles_and_warps(fused.layer_norm_of_stored(1024), columns=128, stages=6, roles=True),
        layer_norm_case, {"m": 66, "n": 1024, "p": 72}, LARGE | {"n": 1024}),
    **{f"weights of {kind}": Chain(
        partial(lambda kind, shape: fused.on_converted_tiles(fused.dequantized(kind), *shape), kind, shape),
        partial(weights_case, kind), EVEN, LARGE_EVEN)
       for kind, shape in (("float8_e4m3fn", (128, 128, 3)), ("float8_e5m2", (64, 64, 6)), ("int4", (64, 128, 4)))},
    **{f"weights of {kind}, a scale for {group} rows": Chain(
        partial(lambda kind, group: fused.on_converted_tiles(fused.dequantized(kind, group=group), 64, 128, 4),
                kind, group),
        partial(weights_case, kind, group=group), EVEN | {"p": 128}, LARGE_EVEN | {"p": 2048})
       for kind, group in (("int4", 64), ("float8_e4m3fn", 32), ("int4", 128))},
    "groups": Chain(
        lambda: fused.on_groups(fused.grouped()), partial(groups_case, rows=128),
        {"tiles": 3, "groups": 2, "n": 128, "p": 128}, {"tiles": 37, "groups": 8, "n": 1024, "p": 2048}),
    "groups, with roles": Chain(
        lambda: fused.on_groups(fused.grouped(), roles=True), partial(groups_case, rows=128),
        {"tiles": 3, "groups": 2, "n": 128, "p": 128}, {"tiles": 37, "groups": 8, "n": 1024, "p": 2048}),
    "groups of tiles of 64 rows": Chain(
        lambda: fused.on_groups(fused.grouped(64, "float16"), 64, persistent=False),
        partial(groups_case, rows=64, dtype=np.float16),
        {"tiles": 3, "groups": 2, "n": 128, "p": 128}, {"tiles": 37, "groups": 8, "n": 1024, "p": 2048}),
    "convolution": Chain(
        lambda: fused.on_pixels(fused.convolution(8, 16, 128)), pixels_case,
        {"h": 8, "w": 16, "channels": 128, "images": 1, "n": 136},
        {"h": 8, "w": 16, "channels": 128, "images": 5, "n": 520}),
    "convolution at edges": Chain(
        lambda: fused.on_pixels(fused.convolution(5, 20, 64), (4, 16), columns=64, via="cp.async"), pixels_case,
        {"h": 5, "w": 20, "channels": 64, "images": 1, "n": 72},
        {"h": 5, "w": 20, "channels": 64, "images": 5, "n": 520}),
}  # fmt: skip


@cache
def program(name: str) -> GeneratedProgram:
    return pl.generate_code(CHAINS[name].make())


def compare(found: Any, expected: Any, what: str = "") -> None:
    atol = 1e-2 * np.abs(expected).max()
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), expected, rtol=2e-2, atol=atol, err_msg=what)


@pytest.mark.few(1, shift=6)
@pytest.mark.parametrize("name", list(CHAINS))
def test_numbers_on_fibres(name: str) -> None:
    chain = CHAINS[name]
    given, expected = chain.case(np.random.default_rng(0), **chain.small)
    arrays = {**given, "c": np.zeros(expected.shape, given["a"].dtype)}
    for order, found in run_on_fibres(program(name), arrays).items():
        compare(found["c"], expected, order)


@pytest.mark.few(1, shift=2)
@pytest.mark.nvrtc
@pytest.mark.parametrize("name", list(CHAINS))
def test_the_text_compiles(name: str) -> None:
    made = compile_cuda(program(name).device_code, "sm_90a")
    assert made.cubin
    assert not made.log, "no products one after the other, and nothing that is not used"


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(CHAINS))
def test_the_gpu_agrees(name: str) -> None:
    chain = CHAINS[name]
    run = pl.compile(chain.make())
    for sizes in (chain.small, chain.large):
        given, expected = chain.case(np.random.default_rng(0), **sizes)
        compare(run(**given, poison=True)["c"], expected, f"{sizes}")


def test_both_products_of_a_gate_are_added_up_in_one_loop() -> None:
    text = program("gated").device_code
    (loop,) = re.findall(r"for \(int ko = 0;.*?\n        }\n", text, re.DOTALL)
    assert loop.count("products_begin();") == loop.count("products_commit();") == 2
    assert [acc in loop for acc in ("&acc[0][0][0]", "&acc_0[0][0][0]")] == [True, True]
    assert "wgmma" not in text[text.index(loop) + len(loop) :]


def test_a_launch_without_copies_has_all_its_blocks_beside_one_whose_blocks_stay() -> None:
    launches = re.findall(r"// Launch: .*", program("layer norm of what is stored").device_code)
    assert ["grid (min(132, " in launch for launch in launches] == [True, False]


@pytest.mark.slow
def test_rows_are_normalized_in_registers() -> None:
    text = flat(program("layer norm").device_code)
    assert text.count("_sum_over_lanes_1_4_float32(acc_") == 2
    assert "float row[32][2][2];" in text


@pytest.mark.slow
def test_parts_of_a_row_are_added_up_in_a_cluster() -> None:
    text = flat(program("layer norm in clusters").device_code)
    assert text.count("in_block(mean_part, x_mean)") == text.count("in_block(scale_part, x_scale)") == 1
    assert text.count(" cluster_barrier();") == 3


def test_the_number_of_a_block_in_a_cluster_is_no_part_of_a_place() -> None:
    """Addresses in a cluster have it above their 18 bits, where a descriptor has the distance of panels."""
    chain, made = CHAINS["layer norm in clusters"], program("layer norm in clusters")
    given, expected = chain.case(np.random.default_rng(0), **chain.small)
    text = made.device_code.replace("(tile) & 0x3ffffu;", "(tile);")
    assert text != made.device_code
    arrays = {**given, "c": np.zeros(expected.shape, given["a"].dtype)}
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        compare(run_on_fibres(replace(made, device_code=text), arrays)["forward"]["c"], expected)


def test_weights_come_as_they_are_stored() -> None:
    text = program("weights of int4").device_code
    assert "unsigned char (&q_tile)[4][32][128]" in text
    assert "to_float(to_bfloat16(" not in text, "a conversion that is rounded twice"


def test_the_matrix_of_a_group_is_found_by_the_copy_engine() -> None:
    text = flat(program("groups").device_code)
    assert "int g = group[by];" in text
    assert re.search(r"box_3d\( ?&b_tile\[[^;]*, g\);", text)


@pytest.mark.slow
def test_copies_that_data_decides_on_do_not_start_before_the_next_block() -> None:
    knl = fused.on_groups(fused.grouped(), persistent=False)
    with pytest.raises(pl.VerificationError, match=r"data decides which elements '.*' copies, by g") as refused:
        pl.generate_code(pl.persist_blocks(knl, 4, ahead=True))
    assert refused.value.codes == ("not-ahead",)


def test_a_subscript_that_data_decides_is_a_scalar() -> None:
    knl = pl.make_kernel(
        "{[t, i, k]: 0 <= t < tiles and 0 <= i < 64 and 0 <= k < 16*p}",
        "<> s[i] = 0\nw(row) := b[group[2*t] + group[2*t + 1], row]\n"
        "c[64*t + i] = sum(k, a[64*t + i, k]*w(k))   {id=product}",
        [pl.GlobalArg("a", np.float32, shape="64*tiles, 16*p"), pl.GlobalArg("b", np.float32, shape="groups, 16*p"),
         pl.GlobalArg("c", np.float32, shape="64*tiles"), pl.GlobalArg("group", np.int32, shape="2*tiles"), ...],
        assumptions="tiles >= 1 and p >= 1 and groups >= 1",
    )  # fmt: skip
    knl = pl.split_iname(pl.tag_inames(knl, "t:g.0, i:l.0"), "k", 16)
    knl = pl.precompute(knl, "w", "k_inner", temporary_name="tile", temporary_address_space="local")
    with pytest.raises(pl.TransformError, match="copies elements that data decides on") as refused:
        pl.pipeline(knl, "k_outer", stages=3, via="cp.async")
    assert refused.value.codes == ("not-proven",)


def test_a_scalar_that_changes_on_the_way_is_seen() -> None:
    knl = pl.make_kernel(
        ["{[t, i]: 0 <= t < tiles and 0 <= i < 64}", "{[s, k]: 0 <= s < steps and 0 <= k < 64}"],
        """
        w(x) := b[g, x]
        for t
            <> acc[i] = 0
            for s
                <> g = group[s]
                for i
                    acc[i] = acc[i] + sum(k, a[64*t + i, 64*s + k]*w(64*s + k))
                end
            end
            c[64*t + i] = acc[i]
        end
        """,
        [pl.GlobalArg("a", np.float32, shape="64*tiles, 64*steps"), pl.GlobalArg("c", np.float32, shape="64*tiles"),
         pl.GlobalArg("b", np.float32, shape="groups, 64*steps"), pl.GlobalArg("group", np.int32, shape="steps"), ...],
        assumptions="tiles >= 1 and steps >= 1 and groups >= 1",
    )  # fmt: skip
    knl = pl.tag_inames(knl, "t:g.0, i:l.0")
    knl = pl.precompute(knl, "w", "k", temporary_name="tile", temporary_address_space="local")
    with pytest.raises(pl.TransformError, match="'g' would be copied before it is written") as refused:
        pl.pipeline(knl, "s", stages=3, via="cp.async")
    assert refused.value.codes == ("illegal-order",)


NOT_ZERO = {
    "cast(bfloat16, q[row, column]) - 8": "n",
    "cast(bfloat16, cast(float32, q[row, column])*scale[row//64, column])": "(p + 63)//64, n",
}
"""Weights that may not be 0 where zeros are stored: a scale beyond the last term is one of a term, and may be NaN."""


def at_edges(weights: str, edge: str) -> pl.LoopKernel:
    """Return a product with *weights*, of which *edge* terms are a tile at least."""
    shape = NOT_ZERO[weights]
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i < m and 0 <= j < n and 0 <= k < p}",
        f"""
        w(row, column) := {weights}
        c[i, j] = {"scale[j]*" * (shape == "n")}sum(k, a[i, k]*w(k, j))   {{id=product}}
        """,
        [pl.GlobalArg("a", BF16, shape="m, p"), pl.GlobalArg("q", np.int8, shape="p, n"),
         pl.GlobalArg("scale", np.float32, shape=shape), pl.GlobalArg("c", BF16, shape="m, n"), ...],
        target=pl.CudaTarget("sm_90a"),
        assumptions=f"m >= 1 and n >= 1 and p >= 1 and n mod 16 = 0 and p mod {edge} = 0",
    )  # fmt: skip
    return fused.on_converted_tiles(knl, 64, 128)


@pytest.mark.parametrize("weights", list(NOT_ZERO))
def test_weights_that_are_not_zero_beyond_the_last_term_ask_for_whole_tiles(weights: str) -> None:
    with pytest.raises(pl.CodegenError, match=r"bad-tensorize|box-edge"):
        pl.generate_code(at_edges(weights, "16"))
    assert "wgmma_m64n128k16_bf16" in pl.generate_code(at_edges(weights, "64")).device_code
